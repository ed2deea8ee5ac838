"""What an exception is raised behind: ``__context__`` and ``__cause__`` of what operations and ``raise`` statements raise."""

from __future__ import annotations

import pytest
import torch

import dy2st
from tests.worlds import registry

P, N = torch.ones(2), -torch.ones(2)
CASES, world = registry()


def W(function, roots, *arguments):
    """A function with the arguments of its calls."""
    return function, [one if isinstance(one, tuple) else (one,) for one in arguments]


def chain(error):
    """An exception, and those behind it."""
    if error is None:
        return None
    return type(error), str(error), chain(error.__context__), chain(error.__cause__), error.__suppress_context__


def outcome(function, arguments):
    """What a call raises, with what is behind it."""
    try:
        function(*arguments)
    except Exception as error:
        return chain(error)
    return None


@world
def idx_in_handler():

    def f(x, i):
        try:
            if x.sum() > 0:
                raise ValueError("a")
        except ValueError:
            x = x[i]
        return x

    return W(f, [], (P, torch.tensor(1)), (P, torch.tensor(7)), (N, torch.tensor(7)))


@world
def idx_in_handler_const():

    def f(x, i):
        try:
            raise ValueError("a")
        except ValueError:
            return torch.gather(x, 0, i)

    return W(f, [], (P, torch.tensor([1])), (P, torch.tensor([7])))


@world
def idx_in_finally():

    def f(x, i):
        try:
            if x.sum() > 0:
                raise ValueError("a")
        finally:
            torch.gather(x, 0, i)
        return x

    return W(f, [], (P, torch.tensor([1])), (P, torch.tensor([7])), (N, torch.tensor([7])))


@world
def one_exc_two_ways():

    def f(x):
        e = ValueError("e")
        if x.sum() > 0:
            try:
                raise KeyError("k")
            except KeyError:
                raise e
        raise e

    return W(f, [], P, N, P)


@world
def one_exc_two_ways_after():

    def f(x):
        e = ValueError("e")
        try:
            if x.sum() > 0:
                raise KeyError("k")
        except KeyError:
            raise e
        if x.sum() < -3:
            raise e
        return x

    return W(f, [], P, N, -5 * P, P)


@world
def one_exc_from():

    def f(x):
        e = ValueError("e")
        if x.sum() > 0:
            raise e from KeyError("k")
        raise e

    return W(f, [], P, N, P)


@world
def zero_div_handler():

    def f(x):
        n = int(x.sum())
        try:
            if n > 0:
                raise ValueError("a")
        except ValueError:
            return x * (1 // (n - 2))
        return x

    return W(f, [], 5 * P, P, N)


@world
def list_idx_handler():

    def f(x):
        xs = []
        if x.sum() > 3:
            xs.append(x)
        try:
            if x.sum() > 0:
                raise ValueError("a")
        except ValueError:
            return xs[0]
        return x

    return W(f, [], 5 * P, P, N)


@world
def dict_key_handler():

    def f(x):
        d = {}
        if x.sum() > 3:
            d["a"] = x
        try:
            if x.sum() > 0:
                raise ValueError("a")
        except ValueError:
            return d["a"]
        return x

    return W(f, [], 5 * P, P, N)


@world
def exit_fails_op():

    class C:
        def __init__(s, x, i):
            s.x, s.i = (x, i)

        def __enter__(s):
            return s

        def __exit__(s, t, v, tb):
            torch.gather(s.x, 0, s.i)

    def f(x, i):
        with C(x, i):
            if x.sum() > 0:
                raise ValueError("a")
        return x

    return W(f, [], (P, torch.tensor([1])), (P, torch.tensor([7])), (N, torch.tensor([7])))


@world
def nested_handlers():

    def f(x):
        try:
            try:
                if x.sum() > 0:
                    raise ValueError("a")
            except ValueError:
                if x.sum() > 1:
                    raise KeyError("b")
                raise
        except (KeyError, ValueError) as e:
            raise RuntimeError("c")
        return x

    return W(f, [], P, 0.3 * P, N)


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("make", CASES)
def test_an_exception_is_raised_behind_what_eager_raises_it_behind(make, backend):
    function, calls = make()
    static = dy2st.to_static(function, backend=backend)
    for arguments in calls:
        assert outcome(static, arguments) == outcome(function, arguments)


@pytest.mark.parametrize("backend", ["native", "python"])
def test_an_exception_that_the_caller_handles_is_the_context(backend):
    def f(x, i):
        try:
            raise ValueError("inner")
        except ValueError:
            if i.sum() == 3:
                raise RuntimeError("own") from None
            return torch.gather(x, 0, i)

    def call(function, arguments):
        try:
            raise KeyError("outer")
        except KeyError:
            function(*arguments)

    static = dy2st.to_static(f, backend=backend)
    for i in (0, 7, 3):
        arguments = P, torch.tensor([i])
        assert outcome(static, arguments) == outcome(f, arguments)
        assert outcome(call, (static, arguments)) == outcome(call, (f, arguments))
