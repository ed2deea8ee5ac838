"""`raise` and `assert` where a tensor decides, and their messages.

PYTEST_DONT_REWRITE: the assertions are part of the programs.
"""

from __future__ import annotations

import heapq

import pytest
import torch

import dy2st
from tests.oracle import agree
from tests.programs.values import counts, num, signs, vec

X = vec(1, 2, 3)


def trips(*items):
    return [(X, count) for count in counts(*items)]


class Custom(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")


def test_raise_in_a_branch():
    def f(x):
        if x.sum() < 0:
            raise ValueError(f"negative: {x.sum().item():.2f} of {tuple(x.shape)}")
        return x + 1

    agree(f, signs())


def test_raise_on_both_branches():
    def f(x):
        if x.sum() < 0:
            raise ValueError("negative")
        else:
            raise KeyError("other")

    agree(f, signs())


def test_raise_in_a_loop():
    def f(x, n):
        for i in range(n):
            x = x + i
            if x.sum() > 12:
                raise RuntimeError(f"too big at {i}")
        return x

    agree(f, trips(3, 0, 1, 7))


def test_a_branch_raises_an_exception_of_the_users_class():
    def f(x):
        if x.sum() < 0:
            raise Custom(7)
        return x

    agree(f, signs())


def test_custom_exception_with_a_number_known_at_run_time():
    def f(x):
        if x.sum() < 0:
            raise Custom(int(x.sum()))
        return x

    agree(f, signs())


def test_assert_with_and_without_message():
    def f(x):
        assert x.sum() >= 0, f"sum is {x.sum()}"
        assert x[0] < 3
        return x * 2

    agree(f, signs())


def test_message_is_evaluated_only_on_failure():
    def f(x):
        count = torch.zeros(1)

        def message():
            count.add_(1)
            return "no"

        assert x.sum() > -100, message()
        return count

    agree(f, signs())


def test_values_computed_before_the_error_stay():
    def f(x):
        x += 1
        if x.sum() < 0:
            raise ValueError("negative")
        x += 1
        return x

    agree(f, signs())


def test_error_in_a_helper():
    def check(v):
        if v < 0:
            raise ValueError("negative")
        return v

    def f(x):
        return check(x[0]) + check(x[1])

    agree(f, signs())


def test_raise_after_a_loop():
    def f(x, n):
        for i in range(n):
            x = x - 1
        if x.sum() < 0:
            raise ValueError(n.item())
        return x

    agree(f, trips(1, 0, 3, 7))


def test_try_finally_around_a_branch():
    def f(x):
        log = torch.zeros(1)
        try:
            if x.sum() > 0:
                x = x * 2
        finally:
            log += 1
        return x, log

    agree(f, signs())


def test_raise_of_a_class():
    def f(x):
        if x.sum() < 0:
            raise NotImplementedError
        return x

    agree(f, signs())


def test_python_errors_keep_their_type():
    def f(x):
        return x + torch.ones(5)

    with pytest.raises(RuntimeError):
        dy2st.to_static(f)(X)


def test_division_error_comes_before_a_later_effect():
    def f(n):
        k = 7 // n.item()
        print("after")
        return k

    agree(f, [num(2, torch.int64), num(0, torch.int64)])


def test_an_error_of_one_branch_is_caught_for_that_branch():
    def f(x, d):
        try:
            y = d["missing"] if x.sum() > 0 else x
        except KeyError:
            y = -x
        return y

    agree(f, [(vec(1, 2), {}), (vec(-1, -2), {}), (vec(3, 4), {})])


def test_a_refusal_goes_past_the_users_handlers():
    def f(x):
        try:
            if x.sum() > 0:
                return torch.tensor(memoryview(x.numpy()).tolist()) * 2
            return x
        except Exception:
            return x * 100

    with pytest.raises(dy2st.CaptureError):
        dy2st.to_static(f)(torch.ones(2))


def test_a_handler_in_the_branch_still_catches():
    def f(x, d):
        if x.sum() > 0:
            try:
                y = d["missing"]
            except KeyError:
                y = -x
        else:
            y = x
        return y

    static = dy2st.to_static(f)
    for x in (torch.ones(2), -torch.ones(2)):
        assert torch.equal(static(x, {}), f(x, {}))
    assert len(static.program_cache) == 1


def test_an_exception_of_the_users_passes_on_one_of_several():
    class Rejected(ValueError):
        def __init__(self, reason, value=None):
            super().__init__(reason, value)
            self.reason = reason

    def f(x):
        reason = "large" if x.max() > 2 else "small"
        if x.sum() > 0:
            raise Rejected(reason, 2 if x.min() > 0 else None)
        return x

    agree(f, [vec(1, 1), vec(3, 1), vec(3, -1), vec(1, -3)])


def test_what_an_exception_of_the_users_has_passed_on_is_read_in_a_handler():
    class Rejected(ValueError):
        def __init__(self, reason):
            super().__init__(reason)
            self.reason = reason

    def f(x):
        reason = "large" if x.max() > 2 else "small"
        try:
            if x.sum() > 0:
                raise Rejected(reason)
        except ValueError as error:
            return x, error.reason, str(error)
        return x, None, ""

    agree(f, [vec(1, 1), vec(3, 1), vec(1, -3)])


def test_behind_an_exception_stands_one_whose_message_is_one_of_several():
    def f(x, n):
        entries = []
        for k in range(n):
            heapq.heappush(entries, (float(x.max()), k, x))
        try:
            return heapq.heappop(entries)[2] * 2
        except IndexError:
            if x.sum() > 0:
                raise IndexError("nothing to take")
            return x

    agree(f, [(vec(1, 1), n) for n in counts(2, 1, 0)] + [(vec(1, -3), *counts(0))])
