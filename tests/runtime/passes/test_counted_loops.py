"""Groups of iterations in counted loops give what single iterations give, for every number of them."""

from __future__ import annotations

import pytest
import torch

import dy2st
from dy2st_runtime import executors, verify
from dy2st_runtime.executors import python
from dy2st_runtime.passes.counted_loops import write_out_iterations
from dy2st_runtime.primitives import control
from tests.oracle import agree

TRIPS = (0, 1, 2, 3, 4, 5, 6, 7, 11)


def written_out(program):
    made = write_out_iterations(program, 3, 1000)
    verify(made)
    return made


@pytest.fixture(autouse=True)
def as_backend(monkeypatch):
    monkeypatch.setitem(executors.BACKENDS, "written out", executors.Backend(lambda program: python.runner(written_out(program))))
    monkeypatch.setenv("DY2ST_BACKEND", "written out")


def loops(function, *args):
    """How many loops there are before and after, in all blocks."""
    program = dy2st.to_static(function).program(*args)
    return tuple(sum(node.target is control.while_ for node in made.nodes()) for made in (program, written_out(program)))


def over_range(x, n):
    outs = []
    for t in range(int(n)):
        x = torch.tanh(x + t) * 1.5
        outs.append(x * t)
    return x, torch.stack(outs) if outs else x, len(outs)


def with_step(x, n):
    t = -1
    for t in range(2, int(n) + 2, 3):
        x = x * t
    return x, t


def counting(x, n):
    i, stop = 1, int(n)
    while stop > i:
        x = x + i
        i += 2
    return x, i


def over_rows(x, n):
    total = x[0] * 0
    for row in x[: int(n)]:
        total = total * 0.5 + row
    return total


def in_place(x, n):
    seen = torch.zeros(12)
    for t in range(int(n)):
        seen[t] += x.sum()
        x = x.clone().mul_(1.1)
    return seen, x


def random(x, n):
    for _ in range(int(n)):
        x = x + torch.rand(3)
    return x


def nested(x, n):
    for i in range(int(n)):
        for j in range(int(n) - i):
            x = x * 0.9 + i - j
    return x


def two_lists(x, n):
    kept, doubled = [x], []
    for t in range(int(n)):
        kept.append(kept[t] * 0.5 + t)
        doubled.append(kept[-1] * 2)
    return torch.stack(kept).sum() + (torch.stack(doubled).sum() if doubled else 0)


def over_a_list(x, n):
    items = []
    for t in range(int(n)):
        items.append(x * t)
    outs = [x]
    for item in items:
        x = x * 0.5 + item
        outs.append(x)
    return torch.stack(outs)


WRITTEN_OUT = [over_range, with_step, counting, over_rows, in_place, random, two_lists, over_a_list]


@pytest.mark.parametrize("function", [*WRITTEN_OUT, nested], ids=lambda function: function.__name__)
def test_results_gradients_and_random_numbers(function):
    arguments = [(torch.rand(3, requires_grad=True), torch.tensor(n)) for n in TRIPS]
    if function is over_rows:
        arguments = [(torch.rand(12, 3, requires_grad=True), torch.tensor(n)) for n in TRIPS]
    agree(function, arguments)


@pytest.mark.parametrize("function", WRITTEN_OUT, ids=lambda function: function.__name__)
def test_a_loop_becomes_groups_and_a_rest(function):
    before, after = loops(function, torch.rand(12, 3) if function is over_rows else torch.rand(3), torch.tensor(4))
    assert after == 2 * before


def test_of_nested_loops_the_inner_one_is_written_out():
    assert loops(nested, torch.rand(3), torch.tensor(3)) == (2, 3)


def by_tensor(x, n):
    while x.sum() < n:
        x = x * 2
    return x


def left_early(x, n):
    for _t in range(int(n)):
        x = x * 1.5
        if x.sum() > 9:
            break
    return x


def moving_bound(x, n):
    i, stop = 0, int(n)
    while i < stop:
        x = x + i
        i += 1
        stop -= i % 2
    return x


def moving_step(x, n):
    i = 1
    while i < int(n):
        x = x + i
        i += i
    return x


def downwards(x, n):
    i = int(n)
    while i > 0:
        x = x * 0.5 + i
        i -= 1
    return x


def shrinking(x, n):
    items, i = [x], 0
    for t in range(int(n)):
        items.append(x * t)
    while i < len(items):
        x = x * 0.5 + items[i]
        items.pop()
        i += 1
    return x


def other_start(x, n):
    i, stop = 0, int(n)
    while i < stop or i < 1:
        x = x + i
        i += 1
    return x


def test_a_loop_over_a_list_that_changes_its_length_stays():
    assert loops(shrinking, torch.rand(3), torch.tensor(3)) == (2, 3)
    agree(shrinking, [(torch.rand(3, requires_grad=True), torch.tensor(n)) for n in TRIPS])


@pytest.mark.parametrize(
    "function", [by_tensor, left_early, moving_bound, moving_step, downwards, other_start], ids=lambda function: function.__name__
)
def test_a_loop_that_ends_otherwise_stays(function):
    assert loops(function, torch.rand(3) + 0.1, torch.tensor(4)) == (1, 1)
    agree(function, [(torch.full((3,), 0.3, requires_grad=True), torch.tensor(n)) for n in TRIPS])


def test_an_exception_in_any_iteration_is_eagers():
    def rows(x, n):
        total = x[0]
        for t in range(int(n)):
            total = total + x[t]
        return total

    agree(rows, [(torch.rand(4), torch.tensor(n)) for n in (0, 1, 3, 4, 5, 6, 9)])


def test_a_group_has_no_more_operations_than_asked_for():
    program = dy2st.to_static(over_range).program(torch.rand(3), torch.tensor(4))
    (loop,) = [node for node in program.nodes() if node.target is control.while_]
    body = loop.args[1]
    size = sum(node.op == "call_function" for node in body.graph.nodes)
    for most, expected in ((size, 1), (2 * size, 2), (3 * size, 2)):
        made = write_out_iterations(program, 3, most)
        assert sum(node.target is control.while_ for node in made.nodes()) == expected
    assert sum(node.target is control.while_ for node in program.nodes()) == 1
