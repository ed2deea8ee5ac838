"""Generators and generator-based context managers of the user's: what they write is written by the program, where it gets there."""

import contextlib

import pytest
import torch

import dy2st
from tests.oracle import agree


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


CALLS = [(tensor(1.0, 2.0),), (tensor(-1.0, -2.0),), (tensor(3.0, 4.0),)]
TOTAL = torch.zeros((), dtype=torch.float64)


class Counting(torch.nn.Module):
    """A module with a buffer that generators write."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros((), dtype=torch.float64))

    def steps(self, x, count=3):
        for i in range(count):
            self.n = self.n + i
            yield x * i

    @contextlib.contextmanager
    def scope(self, v):
        self.n = self.n + v
        try:
            yield v
        finally:
            self.n = self.n * v


def check(forward, calls=CALLS):
    agree(type("Model", (Counting,), {"forward": forward})(), calls)


def refused(forward, says, error=dy2st.CaptureError):
    with pytest.raises(error, match=says):
        dy2st.to_static(type("Model", (Counting,), {"forward": forward})())(*CALLS[0])


def test_what_a_generator_writes_in_a_branch():
    def forward(self, x):
        if x.sum() > 0:
            for v in self.steps(x):
                x = x + v
        return x

    check(forward)


def test_a_list_that_a_generator_fills_in_a_branch():
    def f(x):
        log = []

        def g():
            for i in range(3):
                log.append(i)
                yield i

        if x.sum() > 0:
            for v in g():
                x = x + v
        return x, log

    agree(f, CALLS)


def test_globals_and_closures_that_a_generator_writes():
    def f(x):
        count = 0

        def g():
            nonlocal count
            global TOTAL
            for _ in range(3):
                count += 1
                TOTAL = TOTAL + count
                yield x + count

        before = TOTAL
        if x.sum() > 0:
            x = sum(g())
        return x + count, TOTAL - before

    agree(f, CALLS)


def test_statements_without_yield_are_captured():
    def forward(self, x):
        def g():
            for i in range(3):
                if x.sum() > 0:
                    self.n = self.n + i
                    y = x * 2
                else:
                    y = -x
                while y.sum() < 5:
                    y = y + 3
                yield y if i % 2 else y + 1

        return sum(g()) + self.n

    check(forward)


def test_jumps_and_else_around_a_yield():
    def f(x):
        def g(items):
            it = iter(items)
            while (n := next(it, None)) is not None:
                if n == 2:
                    continue
                y = x * n if x.sum() > 0 else x - n
                if n == 4:
                    break
                yield y
            else:
                yield x

        return list(g([1, 2, 3, 4, 5])), list(g([1]))

    agree(f, CALLS)


def test_match_and_return_around_a_yield():
    def f(x):
        def g(items):
            for i in items:
                match i:
                    case 0:
                        yield x
                    case (a, b):
                        yield x * a + b
                    case _:
                        return 7

        def outer():
            return (yield from g([0, (1, 2), 5, 0]))

        it = outer()
        values = []
        while True:
            try:
                values.append(next(it))
            except StopIteration as stop:
                return values, stop.value

    agree(f, CALLS)


def test_send_throw_and_close():
    def forward(self, x):
        def g():
            total = x
            try:
                while True:
                    try:
                        total = total + (yield total)
                    except ValueError as error:
                        self.n = self.n + len(error.args)
                        yield x * 3
            finally:
                self.n = self.n * 2 + 1

        it = g()
        a = next(it)
        b = it.send(x * 2)
        c = it.throw(ValueError("s"))
        it.close()
        return a, b, c

    check(forward)


def test_builtins_and_comprehensions_consume_generators_of_the_user():
    def forward(self, x):
        out = 0
        for a, (i, b) in zip(self.steps(x), enumerate(self.steps(x, 4))):
            out = out + a * i + b
        table = {i: v for i, v in enumerate(self.steps(x, 2))}
        return out, dict(zip("ab", self.steps(x, 2))), [v for v in self.steps(x)], table, tuple(map(torch.neg, self.steps(x)))

    check(forward)


def test_targets_of_a_loop_around_a_yield():
    def f(x):
        class Place:
            pass

        place, table = Place(), {}

        def g():
            for place.k, table["a"] in [(1, x), (2, -x)]:
                yield place.k * table["a"]

        return list(g()), place.k, table

    agree(f, CALLS)


def test_names_bound_on_some_ways():
    def f(x):
        def g():
            for i in range(3):
                if x.sum() > 0:
                    y = x * i
                if i == 1:
                    del i
                yield 1
            yield y

        return list(g())

    agree(f, CALLS)


def test_generators_may_yield_from_themselves():
    def f(x):
        def walk(n, depth):
            if depth:
                yield from walk(n * 2, depth - 1)
                yield n
                yield from walk(n * 3, depth - 1)

        return sum(walk(x, 3))

    agree(f, CALLS)


def test_a_generator_that_raises_where_a_tensor_decides():
    def forward(self, x):
        def g():
            yield x
            if x.sum() > 0:
                raise ValueError("in the generator")
            yield -x

        try:
            for v in g():
                x = x + v
        finally:
            self.n = self.n + 1
        return x

    check(forward)


def test_a_generator_in_a_captured_loop():
    def forward(self, x):
        def g():
            for i in range(3):
                try:
                    yield x * i
                finally:
                    self.n = self.n + 10

        while x.sum() < 10:
            for v in g():
                x = x + v.abs() + 1
        return x

    check(forward)


def test_a_generator_that_is_left_ends_at_once():
    def forward(self, x):
        def g():
            try:
                for i in range(5):
                    yield x * i
            finally:
                self.n = self.n + 7

        for v in g():
            x = x + v
            self.n = self.n * 2
            break
        self.n = self.n * 3
        return x

    check(forward)


def test_a_generator_goes_on_in_a_branch():
    def forward(self, x):
        def g():
            i = 0
            while True:
                if i > 1:
                    self.n = self.n + i
                i += 1
                yield i

        it = g()
        x = x * next(it) * next(it)
        if x.sum() > 0:
            x = x * next(it) + next(it)
        return x

    check(forward)


def test_context_managers_in_branches():
    def forward(self, x):
        if x.sum() > 0:
            with self.scope(3) as k:
                x = x * k * self.n
        else:
            with self.scope(5):
                x = x - self.n
        return x

    check(forward)


def test_an_exception_through_context_managers():
    def forward(self, x):
        with self.scope(3), self.scope(2):
            x = x * self.n
            if x.sum() > 0:
                raise ValueError("positive")
        return x

    check(forward)


def test_a_context_manager_that_replaces_the_exception():
    def forward(self, x):
        @contextlib.contextmanager
        def replacing():
            try:
                with contextlib.suppress(KeyError):
                    yield
            finally:
                self.n = self.n + 1
                if x.sum() > 4:
                    raise TypeError("other")

        with self.scope(2), replacing():
            if x.sum() > 0:
                raise ValueError(1)
            x = x * self.n
        return x

    check(forward)


def test_a_context_manager_that_catches():
    def forward(self, x):
        @contextlib.contextmanager
        def quiet():
            try:
                yield
            except ValueError:
                self.n = self.n + 1

        with quiet():
            raise ValueError
        return x + self.n

    check(forward)


def test_context_managers_on_a_stack_and_as_decorators():
    def forward(self, x):
        def done(k):
            self.n = self.n + k

        @self.scope(3)
        def scaled(y):
            return y * self.n

        with contextlib.ExitStack() as stack:
            stack.enter_context(self.scope(2))
            stack.callback(done, 3)
            stack.enter_context(self.scope(3))
            if x.sum() > 5:
                raise KeyError(1)
            x = scaled(x * self.n)
        return x

    check(forward)


def test_a_tensor_decides_about_a_yield():
    def forward(self, x):
        def g():
            if x.sum() > 0:
                yield x
            yield x * 2

        return list(g())

    check(forward)


def test_effects_where_a_tensor_leaves_the_loop():
    def forward(self, x):
        def count():
            self.n = self.n + 1

        def g():
            for i in range(5):
                count()
                yield i

        for v in g():
            x = x + v
            if x.sum() > 5:
                break
        return x

    check(forward)


def test_effects_at_the_end_where_a_tensor_leaves_the_loop():
    def forward(self, x):
        def count():
            self.n = self.n + x.sum()

        def g():
            try:
                for i in range(5):
                    yield x + i
            finally:
                count()

        for v in g():
            x = x + v
            if x.sum() > 5:
                break
        return x

    refused(forward, "how many items have been taken|changes something")


def test_a_generator_from_outside_of_a_captured_loop():
    def forward(self, x):
        it = self.steps(x, 100)
        while x.sum() < 20:
            x = x + 5 + next(it)
        return x

    refused(forward, "how many items have been taken")


def test_a_generator_is_no_result():
    def forward(self, x):
        return self.steps(x)

    refused(forward, "a generator that it makes itself")


def test_a_generator_that_is_kept_in_front_of_its_end():
    def forward(self, x):
        def g():
            try:
                yield x
            finally:
                self.n = self.n + 1

        self.it = g()
        return next(self.it)

    refused(forward, "finally clause that has not run")


def test_an_exception_that_a_context_manager_would_catch():
    def forward(self, x):
        @contextlib.contextmanager
        def quiet():
            try:
                yield
            except ValueError:
                self.n = self.n + 1

        with quiet():
            if x.sum() > 0:
                raise ValueError
        return x

    refused(forward, "caught by an except clause")
