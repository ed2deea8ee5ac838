"""How often the bodies of loops in loops are looked at: the types that an inner loop came to are a start for the next look."""

import collections

import pytest
import torch

from dy2st.capture.looping import loop
from tests.oracle import agree


@pytest.fixture
def looks(monkeypatch):
    count = []
    attempt = loop._attempt
    monkeypatch.setattr(loop, "_attempt", lambda *args: (count.append(None), attempt(*args))[1])
    return count


def _sizes_1(x, n):
    a, c = x, 0
    i = 0
    while x.sum() * 0 + i < n:
        i += 1
        a = torch.cat([a, x])
        c += 1
    return a, c


def _sizes_4(x, n):
    a, c = x, 0
    i = 0
    while x.sum() * 0 + i < n:
        i += 1
        j = 0
        while x.sum() * 0 + j < n:
            j += 1
            k = 0
            while x.sum() * 0 + k < n:
                k += 1
                m = 0
                while x.sum() * 0 + m < n:
                    m += 1
                    a = torch.cat([a, x])
                    c += 1
    return a, c


def _lists_3(x, n):
    first, second, third = [], [], []
    i = 0
    while x.sum() * 0 + i < n:
        i += 1
        first.append(x + i)
        j = 0
        while x.sum() * 0 + j < n:
            j += 1
            second.append(x + j)
            k = 0
            while x.sum() * 0 + k < n:
                k += 1
                third.append(x + k)
    return torch.stack(first or [x]), torch.stack(second or [x]), torch.stack(third or [x]), len(third)


@pytest.mark.parametrize(("function", "most"), [(_sizes_1, 2), (_sizes_4, 20), (_lists_3, 21)])
def test_looks_do_not_double_with_each_loop(looks, function, most):
    agree(function, [(torch.ones(2), torch.tensor(n)) for n in (2, 0, 1)])
    assert len(looks) <= most


def _less_after_a_new_start(x, n):
    items = []
    c = 0
    i = 0
    while x.sum() * 0 + i < n:
        i += 1
        a = x
        j = 0
        while x.sum() * 0 + j < n:
            j += 1
            if c > 1:
                a = torch.cat([a, x])
            c += 1
        items.append(a.sum())
    return torch.stack(items or [x.sum()]), c


def _unlike_in_each_unrolled_iteration(x, n):
    results = []
    for k in range(3):
        a, c, i = x, 0, 0
        while a.sum() * 0 + i < n:
            i += 1
            if k == 0:
                c += 1
            elif k == 1:
                a = torch.cat([a, x])
            else:
                a = a * 2
        results.append((a, c))
    return results


def _a_list_of_which_a_number_is_the_index(x, n):
    total = x.sum() * 0
    i = 0
    while total * 0 + i < n:
        if (x.sum() + i) % 2 > 0:
            pair = [x.sum() * 0, x.sum()]
        else:
            pair = [x.sum(), x.sum() * 0]
        low = 0 if pair[0] <= pair[1] else 1
        k = 0
        while total * 0 + k < n:
            pair[low] = pair[low] + 1
            low = 0 if pair[0] <= pair[1] else 1
            k += 1
        total = total + pair[low]
        i += 1
    return total, i


def _first_iteration_apart(x, n):
    i, last = 0, None
    steps = []
    while i < n:
        t = x
        k = 0
        while t.sum() > 1:
            t = t - 1
            k += 1
        if last is not None:
            t = t + last
        last = t
        steps.append(k)
        i = i + 1 + (t.sum() > 100)
    return last, len(steps)


@pytest.mark.parametrize(
    "function",
    [
        _less_after_a_new_start,
        _unlike_in_each_unrolled_iteration,
        _a_list_of_which_a_number_is_the_index,
        _first_iteration_apart,
    ],
)
def test_what_a_look_has_shown_is_no_more_than_a_start(function):
    agree(function, [(x, torch.tensor(n)) for n in (3, 0, 1, 4) for x in (torch.ones(2), torch.ones(2) * 3)])


_State = collections.namedtuple("_State", "value parts")


def _state_replaced(n):
    state = _State(torch.zeros(2), [torch.zeros(2), torch.ones(2)])
    while n > 0:
        state = _State(state.value + n, [state.value, state.parts[0]])
        n = n - 1
    return state.value, state.parts


def test_a_first_look_that_shows_that_older_objects_are_kept_is_the_first_that_keeps_them(looks):
    agree(_state_replaced, [torch.tensor(n) for n in (2, 0, 1, 3)])
    assert len(looks) == 2


def test_a_loop_that_is_left_around_one_in_a_function_that_is():
    def function(x, rows, n):
        found = x * 0
        for _ in range(int(n)):
            found = next((row for row in rows if row.sum() > x.sum()), x)
            if found is x or n > 2:
                break
        return found

    rows = [torch.zeros(2), torch.full((2,), 3.0)]
    agree(lambda x, n: function(x, rows, n), [(torch.full((2,), v), torch.tensor(n)) for v in (1.0, 5.0) for n in (2, 0, 3)])
