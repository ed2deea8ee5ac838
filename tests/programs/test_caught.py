"""An exception that a tensor decides is caught by a handler outside of the branch or loop."""

from __future__ import annotations

import contextlib

import pytest
import torch

import dy2st
from tests.oracle import agree
from tests.programs.state import agree_with_state
from tests.programs.values import num, vec

XS = [vec(*items, grad=grad) for items in ((1, 1, 1, 1), (-1, -1, -1, -1), (1, -1, -1, 1), (-1, 2, 1, -5), (1, -2, 1, -5))
      for grad in (True,)]  # fmt: skip
COUNTS = [num(n, torch.int64) for n in (3, 0, 1, 5, 9)]


class Found(Exception):
    """Holds what was found."""

    def __init__(self, value):
        super().__init__("found")
        self.value = value


def positive(x):
    if x.sum() > 0:
        raise KeyError("positive")
    return x * 3


def test_what_a_branch_raises_is_caught_around_it():
    def f(x):
        y = x
        try:
            if x.sum() > 0:
                y = x * 5
                raise ValueError("no")
            y = y * 2
        except ValueError:
            y = y - 1
        return y

    agree(f, XS)


def test_a_clause_catches_what_either_branch_raises():
    def f(x):
        n = 0
        try:
            n += 1
            if x.sum() > 0:
                raise ValueError("a")
            elif x[0] > 0:
                raise KeyError("b")
            else:
                raise Found(3)
            n += 10
        except LookupError as error:
            return x, str(error), n
        except Exception as error:
            return x + n, error.args, type(error).__name__
        return x

    agree(f, XS)


def test_what_a_called_function_raises_is_caught_by_the_caller():
    def f(x):
        try:
            y = positive(x)
            y = y + 1
        except KeyError:
            y = -x
        else:
            y = y * 7
        finally:
            x = x + 1
        return x + y

    agree(f, XS)


def test_what_python_raises_on_some_ways_is_caught():
    def f(x, table):
        items = []
        if x.sum() > 0:
            items.append(x)
        try:
            y = items.pop()
        except IndexError:
            y = x * 2
        try:
            z = table["missing"] if x[0] > 0 else x
        except KeyError as error:
            z = x + len(error.args)
        return y + z, len(items)

    agree(f, [(x, {"a": 1}) for x in XS])


def test_returns_in_the_statement():
    def f(x):
        try:
            if x[1] > 0:
                return x * 2
            y = positive(x)
            return y + 1
        except KeyError:
            if x[2] > 0:
                return x - 1
        return x - 2

    agree(f, XS)


def test_an_exception_with_values():
    def f(x):
        try:
            n = int(x.sum())
            if n > 0:
                raise Found(x * n)
            if n < -3:
                raise ValueError(n)
        except Found as found:
            return found.value + 1
        except ValueError as error:
            return x * error.args[0]
        return x

    agree(f, XS)


def test_a_caught_message_has_the_number_of_a_tensor():
    def f(x):
        try:
            n = int(x.sum())
            if n > 0:
                raise ValueError(f"it is {n}")
        except ValueError as error:
            return str(error)
        return "fine"

    agree(f, XS)


@pytest.mark.parametrize("length", [3, 40])
def test_a_loop_over_numbers(length):
    def f(x, limit):
        total, i = x, -1
        try:
            for i in range(length):
                total = total + i
                if i == limit:
                    raise StopIteration
        except StopIteration:
            total = total * 2
        else:
            total = total * 3
        return total, i

    agree(f, [(x, limit) for x, limit in zip(XS, COUNTS)])


def test_a_loop_over_a_list():
    def f(x):
        seen = []
        try:
            for v in [x[0], x[1], x[2], x[3]]:
                if v < 0:
                    raise Found(v)
                seen.append(v)
        except Found as found:
            seen.append(found.value * 100)
        return seen

    agree(f, XS)


def test_a_loop_that_a_tensor_ends():
    def f(x, n):
        i, found = 0, None
        try:
            while i < n:
                i = i + 1
                x = x + i
                if x.sum() > 6:
                    raise Found(i)
        except Found as error:
            found = error.value
        return x, i, found

    agree(f, [(x, n) for x, n in zip(XS, COUNTS)])


def test_an_endless_loop_is_ended_by_what_it_raises():
    def f(x):
        n = 0
        try:
            while True:
                n += 1
                x = x + 1
                if x.sum() > 6:
                    raise StopIteration
        except StopIteration:
            pass
        return n, x

    agree(f, XS)


def test_a_loop_around_the_statement():
    def f(x, n):
        failures = 0
        outs = []
        for i in range(n):
            try:
                y = positive(x - i)
                outs.append(y)
            except KeyError:
                failures += 1
                if failures > 2:
                    break
                continue
            x = x + 1
        return failures, outs, x

    agree(f, [(x, n) for x, n in zip(XS, COUNTS)])


def test_a_list_of_the_program():
    def f(x, n):
        outs = []
        try:
            if x[0] > 0:
                raise ValueError
            for i in range(n):
                outs.append(x * i)
                if i > 2:
                    raise KeyError
            outs.append(x)
        except ValueError:
            outs.append(x - 1)
        except KeyError:
            pass
        return outs

    agree(f, [(x, n) for x, n in zip(XS, COUNTS)])


def test_statements_inside_each_other():
    def f(x):
        log = []
        try:
            try:
                if x[0] > 0:
                    raise KeyError("a")
                if x[1] > 0:
                    raise ValueError("b")
                log.append(1)
            except KeyError as error:
                log.append(2)
                if x[2] > 0:
                    raise ValueError("c") from error
            finally:
                x = x + 1
            log.append(3)
        except ValueError as error:
            return x, str(error), repr(error.__cause__), len(log)
        return x, len(log)

    agree(f, XS)


def test_an_exception_is_raised_again_where_a_tensor_decides():
    def inner(x):
        try:
            return positive(x)
        except KeyError:
            if x[0] > 0:
                raise
            return x

    def f(x):
        try:
            return inner(x)
        except LookupError as error:
            return x + 1, str(error)

    agree(f, XS)
    agree(inner, XS)


def test_gradients_are_switched_inside():
    def f(x):
        try:
            with torch.no_grad():
                y = x * 2
                if x.sum() > 0:
                    raise ValueError
                y = y + 1
            z = x * y
        except ValueError:
            z = x * x
        return z * x

    agree(f, XS)


def test_a_name_that_is_not_bound():
    def f(x):
        if x.sum() > 0:
            y = x
        try:
            x = x + y
        except UnboundLocalError:
            x = x + 1
        return x

    agree(f, XS)

    def g(x):
        try:
            if x.sum() > 0:
                raise ValueError
            y = x
        except ValueError:
            pass
        return y

    agree(g, XS)


def test_a_finally_clause_that_drops_it():
    def f(x):
        try:
            if x.sum() > 0:
                raise ValueError
            x = x + 1
        finally:
            return x  # noqa: B012

    agree(f, XS)


def test_what_a_generator_raises_is_caught_around_its_loop():
    def numbers(x):
        yield x
        if x.sum() > 0:
            raise ValueError("ended")
        yield x + 1

    def f(x):
        total = x
        try:
            for item in numbers(x):
                total = total + item
        except ValueError:
            total = total * 2
        return total

    agree(f, XS)


class Box:
    def __init__(self):
        self.items, self.table, self.n, self.last = [1.0], {"a": 1.0}, 0, None
        self.seen = torch.zeros(4, dtype=torch.float64)


def test_state_changed_before_an_exception_is_kept_as_in_eager():
    def make():
        box = Box()

        def change(x):
            box.n += 1
            box.seen += x
            if x.sum() > 0:
                box.items.append(float(box.n))
                raise ValueError("up")
            box.last = x

        def f(x):
            try:
                change(x)
                box.table["b"] = box.n
                if x[1] > 0:
                    raise KeyError("b")
                box.table["c"] = box.last
            except ValueError:
                box.table.pop("b", None)
                box.last = box.items
            except KeyError as error:
                box.n += 100
                box.table[str(error)] = x
            return box.n

        return f, lambda: vars(box), [x.detach() for x in [*XS, *XS]]

    agree_with_state(make)


def test_an_object_keeps_its_identity():
    def make():
        box, first, second = Box(), [1], [2]

        def f(x):
            chosen = first
            try:
                if x.sum() > 0:
                    chosen = second
                    raise ValueError
                chosen.append(3)
            except ValueError:
                chosen.append(4)
            box.last = chosen
            return chosen is first, chosen is second

        return f, lambda: [vars(box), first, second], [x.detach() for x in XS]

    agree_with_state(make)


def test_context_managers_are_left_by_an_exception_before_it_is_caught():
    log = []

    class Logged:
        def __enter__(self):
            log.append("enter")
            return self

        def __exit__(self, kind, error, traceback):
            log.append("exit" if kind is None else kind.__name__)

    def make():
        log.clear()

        def f(x):
            try:
                with Logged():
                    if x.sum() > 0:
                        raise ValueError
                    log.append("end")
            except ValueError:
                log.append("caught")
            return x

        return f, lambda: log, [x.detach() for x in XS]

    agree_with_state(make)


def test_suppress_drops_what_a_tensor_decides_to_raise():
    def f(x):
        y = x
        with contextlib.suppress(ValueError, KeyError):
            y = y + 1
            y = positive(y)
            y = y + 5
        return y

    agree(f, XS)


def test_a_manager_that_catches():
    class Catching:
        def __init__(self):
            self.caught = 0

        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            if kind is not None and issubclass(kind, ValueError):
                self.caught += 1
                return True
            return False

    def f(x):
        manager = Catching()
        y = x
        with manager as entered:
            if x.sum() > 0:
                raise ValueError
            y = x + entered.caught + 2
        return y, manager.caught

    agree(f, XS)


def test_an_exception_that_goes_past_autocast_is_refused():
    def f(x):
        try:
            with torch.autocast("cpu"):
                if x.sum() > 0:
                    raise ValueError
        except ValueError:
            x = x + 1
        return x

    with pytest.raises(dy2st.CaptureError, match="past torch.autocast"):
        dy2st.to_static(f)(XS[0])


def test_a_loop_in_an_unrolled_loop_after_a_raise():
    def f(x, n):
        outs = []
        try:
            if x[0] > 0:
                raise ValueError
            for k in range(2):
                for i in range(n):
                    outs.append(x * i + k)
                if outs and outs[-1].sum() > 4:
                    break
        except ValueError:
            outs.append(x)
        return outs

    agree(f, [(x, n) for x, n in zip(XS, COUNTS)])
