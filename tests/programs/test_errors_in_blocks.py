"""Errors that Python raises in a branch or loop: raised by the program where eager raises them, and nowhere else.

PYTEST_DONT_REWRITE: the assertions are part of the programs.
"""

from __future__ import annotations

import contextlib
import traceback

import pytest
import torch

import dy2st
from tests.oracle import agree
from tests.programs.values import vec

P, N = vec(1, 2, 3), vec(-1, -2, -3)
PROGRAMS = []


def program(function):
    PROGRAMS.append(pytest.param(function, id=function.__name__))
    return function


class C(Exception):
    def __init__(self, a, b=0):
        super().__init__(f"{a}/{b}")
        self.a, self.b = a, b


@program
def keyerr(x, d={}):
    if x.sum() > 0:
        y = x
    else:
        y = d["missing"]
    return y * 2


@program
def indexerr(x):
    l = [1, 2]
    if x.sum() < 0:
        x = x * l[5]
    return x


@program
def nameerr(x):
    if x.sum() < 0:
        return undefined_thing(x)
    return x


@program
def unbound(x):
    if x.sum() < 0:
        z = z + 1
    else:
        z = x
    return z


@program
def attrerr(x):
    if x.sum() < 0:
        return x.foo
    return x


@program
def attrerr2(x):
    if x.sum() < 0:
        return [].foo
    return x


@program
def typeerr(x):
    if x.sum() < 0:
        return x + "a"
    return x


@program
def typeerr2(x):
    if x.sum() < 0:
        return "a" + 1
    return x


@program
def noneerr(x):
    h = None
    if x.sum() < 0:
        return h + x
    return x


@program
def noneattr(x):
    h = None
    if x.sum() < 0:
        return h.shape
    return x


@program
def calls(x):
    def g(a, b):
        return a

    if x.sum() < 0:
        return g(x)
    return x


@program
def notcallable(x):
    if x.sum() < 0:
        three = 3
        return three(x)
    return x


@program
def valerr(x):
    if x.sum() < 0:
        return x * int("abc")
    return x


@program
def unpackerr(x):
    if x.sum() < 0:
        a, b = (1, 2, 3)
        return x * a
    return x


@program
def zerodiv(x):
    k = 0
    if x.sum() < 0:
        return x * (1 // k)
    return x


@program
def shape(x):
    if x.sum() < 0:
        return x + torch.ones(5)
    return x


@program
def mm(x):
    if x.sum() < 0:
        return x[None] @ torch.ones(5, 2, dtype=x.dtype)
    return x


@program
def reshape(x):
    if x.sum() < 0:
        return x.reshape(2, 2)
    return x


@program
def cat(x):
    if x.sum() < 0:
        return torch.cat([x, x[None]])
    return x


@program
def idx(x):
    if x.sum() < 0:
        return x[7]
    return x


@program
def dims(x):
    if x.sum() < 0:
        return x.sum(4)
    return x


@program
def tensor_args(x):
    if x.sum() < 0:
        return torch.add(x)
    return x


@program
def lin(x):
    if x.sum() < 0:
        return torch.nn.functional.cross_entropy(x[None], torch.tensor([1, 2]))
    return x


@program
def stopit(x):
    if x.sum() < 0:
        next(iter([]))
    return x


@program
def notiter(x):
    if x.sum() < 0:
        for a in 3:
            x = x + a
    return x


@program
def custom(x):
    if x.sum() < 0:
        raise C(int(x.sum()), b=3)
    return x


@program
def frm(x):
    if x.sum() < 0:
        try:
            {}["k"]
        except KeyError as e:
            raise ValueError("bad") from e
    return x


@program
def reraise(x):
    if x.sum() < 0:
        try:
            {}["k"]
        except KeyError:
            raise
    return x


@program
def cls(x):
    if x.sum() < 0:
        raise ValueError
    return x


@program
def tensorarg(x):
    if x.sum() < 0:
        raise ValueError("bad", x.sum(), x.shape)
    return x


@program
def fin(x):
    if x.sum() < 0:
        try:
            raise ValueError("a")
        finally:
            print("cleanup")
    return x


@program
def try_in(x):
    if x.sum() < 0:
        try:
            raise ValueError(f"{x.sum()}")
        except ValueError as e:
            x = x * 3
    return x


@program
def try_other(x):
    try:
        if x.sum() < 0:
            raise ValueError("neg")
    except KeyError:
        x = x + 100
    return x


@program
def assert_isinstance(x):
    if x.sum() < 0:
        assert isinstance(x, int), "not int"
    return x


@program
def loop(x):
    l = [1.0, 2.0]
    i = 0
    while x.sum() > -3:
        x = x - l[i]
        i += 1
    return x


@program
def setitem(x):
    if x.sum() < 0:
        y = x.clone()
        y[9] = 1
        return y
    return x


@program
def inplace_shape(x):
    if x.sum() < 0:
        y = x.clone()
        y += torch.ones(2, 3)
        return y
    return x


@program
def dictpop(x):
    d = {}
    if x.sum() < 0:
        d.pop("a")
    return x


@program
def lremove(x):
    d = [1]
    if x.sum() < 0:
        d.remove(3)
    return x


@program
def nested(x):
    if x.sum() < 0:
        if x[0] < -5:
            return x
        raise KeyError("b")
    return x


@program
def both(x):
    try:
        if x.sum() < 0:
            raise ValueError("a")
        else:
            raise KeyError("b")
    except OSError:
        pass
    return x


@program
def dead_after(x):
    if x.sum() < 0:
        y = {}["a"]
        z = y.foo(undefined)
    return x


@program
def gensub(x):
    def g():
        yield 1
        raise ValueError("gen")

    if x.sum() < 0:
        for a in g():
            x = x + a
    return x


@program
def math_err(x):
    import math

    if x.sum() < 0:
        return x * math.sqrt(-1)
    return x


@program
def wrong_kw(x):
    if x.sum() < 0:
        return torch.relu(x, foo=1)
    return x


@program
def divzero(x):
    k = int(x[0])
    if k < 0:
        return x * (3 // (k + 1))
    return x


@program
def comp(x):
    return [i if i else (1 / i) for i in (0, 1)] if x.sum() < 0 else x


@program
def strfmt(x):
    if x.sum() < 0:
        raise ValueError("%s %d" % ("a", "b"))
    return x


@program
def settuple(x):
    a = (1, 2)
    if x.sum() < 0:
        a[0] = 3
    return x


@program
def none_field(x):
    c = None
    if x.sum() < 0:
        c.x = 3
    return x


@program
def importerr(x):
    if x.sum() < 0:
        pass
    return x


@program
def oserr(x):
    if x.sum() < 0:
        raise FileNotFoundError(2, "No such file or directory", "/nonexistent/x")
    return x


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("calls", [[P, N], [N, P]], ids=["first", "second"])
def test_error_in_a_block(function, calls):
    agree(function, calls)


def error_of(function, *args):
    with pytest.raises(Exception) as caught:
        function(*args)
    return caught.value


def test_the_whole_exception_is_made_again():
    def f(x):
        if x.sum() < 0:
            try:
                {}["k"]
            except KeyError as error:
                raise C(int(x.sum()), [1, 2]) from error
        return x

    static = dy2st.to_static(f)
    static(P)
    found, expected = error_of(static, N), error_of(f, N)
    assert vars(found) == {"a": -6, "b": [1, 2], "__notes__": found.__notes__}
    assert found.args == expected.args
    assert repr(found.__cause__) == repr(found.__context__) == "KeyError('k')" and found.__suppress_context__
    assert error_of(static, N) is not found


def test_the_line_is_told():
    def f(x):
        if x.sum() < 0:
            y = x * 2
            return y @ torch.ones(7, dtype=x.dtype)
        return x

    static = dy2st.to_static(f)
    static(P)
    line = f.__code__.co_firstlineno + 3
    assert f'test_errors_in_blocks.py", line {line}, in f' in "".join(error_of(static, N).__notes__)


def refused(function):
    for call in ([P, N], [N, P]):
        static = dy2st.to_static(function)
        assert isinstance(error_of(lambda: [static(x) for x in call]), dy2st.CaptureError)


def test_handlers_outside_of_the_block():
    def bare(x):
        try:
            if x.sum() > 0:
                raise ValueError("a")
            else:
                raise KeyError("b")
        except:  # noqa: E722
            x = x + 1
        return x

    def implicit(x):
        try:
            while x.sum() > 0:
                x = x - {}["a"]
        except LookupError:
            x = x + 1
        return x

    def suppressed(x):
        with contextlib.suppress(ValueError):
            if x.sum() > 0:
                raise ValueError("a")
        return x

    for function in (bare, implicit, suppressed):
        agree(function, [P, N])


def test_errors_of_the_capture_are_not_caught():
    def f(x):
        try:
            n = len(f"{x.sum()}".split("."))
        except (AttributeError, TypeError):
            n = 0
        return x * n

    refused(f)


def test_errors_of_abstract_values_come_out_at_capture():
    def repeat(x):
        if x.sum() > 0:
            return x * len(b"abc".ljust(int(x[0])))
        return x

    def library(x):
        n = x.nonzero()
        if x.sum() > 0:
            torch.nn.functional.cross_entropy(n.double(), torch.tensor([1, 2, 3, 4]))
        return x

    for function in (repeat, library):
        refused(function)


def test_what_was_missing_may_come_later():
    table = {}

    def f(x):
        if x.sum() < 0:
            return x * table["k"]
        return x

    static = dy2st.to_static(f)
    assert isinstance(error_of(static, N), KeyError)
    table["k"] = 3
    assert torch.equal(static(N), N * 3)


def test_the_traceback_names_the_users_lines_only():
    def helper(x):
        return x @ torch.ones(7, dtype=x.dtype)

    def f(x):
        if x.sum() < 0:
            raise ValueError("negative")
        if x[0] > 5:
            x = helper(x)
        return x

    static = dy2st.to_static(f)
    static(P)
    for given, function, line in ((N, f, 2), (P * 6, helper, 1)):
        here, *own = traceback.extract_tb(error_of(static, given).__traceback__)
        assert here.name == "error_of"
        place = (__file__, function.__code__.co_firstlineno + line, function.__name__)
        assert [(frame.filename, frame.lineno, frame.name) for frame in own] == [place]


class Printing:
    def __enter__(self):
        print("enter")
        return self

    def __exit__(self, kind, error, traceback):
        print("exit", kind)


class Swallowing(Printing):
    def __exit__(self, kind, error, traceback):
        return True


def finally_around_a_raise(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")
        x = x * 2
    finally:
        print("done")
    return x


def finally_with_state(x):
    total = x * 0
    try:
        try:
            if x.sum() < 0:
                x = x * {}["a"]
            x = x * 2
        except IndexError:
            x = x - 100
        finally:
            total = total + x
            if x[0] < 0:
                print("inner", total)
    finally:
        x.add_(1)
        print("outer", total)
    return x


def finally_in_a_loop(x):
    try:
        while x.sum() < 3:
            if x[0] < -5:
                raise ValueError("negative")
            x = x - 1
            if x[0] > 0:
                break
    finally:
        print("done", x.sum())
    return x


def finally_of_a_caller(x):
    def check(v):
        if v < 0:
            raise ValueError("negative")
        return v

    seen = []
    try:
        for row in x:
            seen.append(check(row))
    finally:
        print("checked", len(seen))
    return seen


def finally_that_raises(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")
    finally:
        if x[0] < 0:
            raise KeyError("other")
    return x


def manager_around_a_raise(x):
    with Printing():
        if x.sum() < 0:
            raise ValueError("negative")
        x = x * 2
    return x


def exception_in_a_variable(x):
    error = None
    if x.sum() < 0:
        error = ValueError("negative")
    if error is not None:
        raise error
    return x


def print_before_an_error(x):
    print("before")
    x.add_(1)
    raise ValueError("at the root")


@pytest.mark.parametrize(
    "function",
    [
        finally_around_a_raise, finally_with_state, finally_in_a_loop, finally_of_a_caller, finally_that_raises,
        manager_around_a_raise, exception_in_a_variable, print_before_an_error,
    ],
)  # fmt: skip
@pytest.mark.parametrize("calls", [[P, N], [N, P]], ids=["first", "second"])
def test_what_an_error_passes_on_its_way_out(function, calls):
    agree(function, calls)


def test_a_manager_that_swallows_errors():
    def f(x):
        with Swallowing():
            if x.sum() < 0:
                raise ValueError("negative")
        return x

    agree(f, [P, N])


def _second(x, names):
    if x > 1:
        names.append(3)
    return names.index(3)


def _unpacked(x, names):
    if x > 1:
        names.append(3)
    first, _ = names
    return first


def _in_a_range(x, names):
    names.append(0)
    return range(3).index(int(x))


@pytest.mark.parametrize("program", [_second, _unpacked, _in_a_range])
def test_what_a_value_is_named_in_when_something_was_written_before(program):
    static = dy2st.to_static(program)
    for number in (0.0, 5.0, 2.0):
        outcomes = []
        for function in (program, static):
            names = [1, 2]
            try:
                outcomes.append((function(torch.tensor(number), names), names))
            except ValueError as error:
                outcomes.append((str(error), names))
        assert outcomes[0] == outcomes[1]
