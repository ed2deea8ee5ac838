"""Lists from outside that are longer at each call: one program serves any length."""

from __future__ import annotations

import copy
import dataclasses
import gc
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
from tests.programs.state import agree_with_state, described
from tests.programs.values import vec

CALLS = [vec(1, 2), vec(-1, 3), vec(2, 2), vec(-5, 1), vec(3, 3), vec(0, -1), vec(1, 1), vec(4, 4)]


def agree(body: Callable[[Any, Any], Any], calls: Any = CALLS, programs: int | None = 2, make: Any = lambda: {"log": []}) -> None:
    """Compare a function of some state with eager, and count its programs: one for the first call, one for all that follow."""

    def function() -> tuple[Any, Any]:
        state = types.SimpleNamespace(**make())
        return (lambda *args: body(state, *args)), state

    def world() -> Any:
        call, state = function()
        return call, (lambda: state), copy.deepcopy(calls)  # one argument given twice stays one

    agree_with_state(world)
    call, state = function()
    static = dy2st.to_static(call)
    for arg in copy.deepcopy(calls):
        try:
            static(*arg) if isinstance(arg, tuple) else static(arg)
        except dy2st.Dy2stError:
            raise
        except Exception:
            continue
    assert programs is None or len(static.program_cache) <= programs


def appended(state, x):
    state.log.append(float(x.sum()))


def appended_in_a_branch(state, x):
    if x.sum() > 0:
        state.log.append(("up", x))
    else:
        state.log.append(None)
    return x


def appended_in_a_loop(state, x):
    for k in range(int(x[0].clamp(min=0))):
        state.log.append(k)
        if x[1] > 2:
            state.log += [k * 2.5]


def objects(state, x):
    state.log.append({"x": x, "place": len(state.log)} if x[0] > 0 else [x])
    return len(state.log)


def returned(state, x):
    if x[0] > 0:
        state.log.append(x)
    return state.log, [state.log]


def put_elsewhere(state, x):
    state.log.append(x)
    state.kept = state.log
    state.kept.append(x + 1)
    return state.kept is state.log


def replaced(state, x):
    state.log.append(float(x[0]))
    if x[1] > 2:
        state.old = state.log
        state.log = []


def caught(state, x):
    try:
        state.log.append("begun")
        if x[0] < 0:
            raise KeyError("negative")
        state.log.append("done")
    except KeyError:
        state.log.append("failed")
    finally:
        state.log.append("left")


def raised(state, x):
    state.log.append("begun")
    if x.min() < -2:
        raise ValueError("small")
    state.log.append("done")


def with_gradients(state, x):
    loss = (state.weight * x).sum()
    if loss > 0:
        state.log.append(loss)
    return loss


@pytest.mark.parametrize(
    "body", [appended, appended_in_a_branch, appended_in_a_loop, objects, returned, put_elsewhere, caught, raised]
)
def test_what_is_only_appended_to_has_one_program(body):
    agree(body)


def test_what_is_replaced_by_a_branch_has_one_program_for_each_kind_of_state():
    agree(replaced, programs=4)


def test_tensors_that_require_gradients_are_appended():
    weight = nn.Parameter(vec(1, 2))
    agree(with_gradients, make=lambda: {"log": [], "weight": weight})


def last(state, x):
    y = x + state.log[-1] if state.log else x
    if y.sum() > 0:
        state.log.append(y)
    return y, len(state.log)


def replayed(state, x):
    state.log.append((x, float(x.sum())))
    if len(state.log) > 3:
        state.log.pop(0)
    total = torch.zeros_like(x)
    for item, weight in state.log:
        total = total + item * weight
    return total


def identities(state, x):
    state.log.append(x)
    return state.log[0] is x, state.log[-1] is x, state.log[0], state.log


def changed_in_place(state, x):
    state.log.append(x)
    state.log[0].add_(1)
    return x * 2


def everything(state, x):
    log = state.log
    log.append(float(x[0]))
    log.insert(0, 0.5)
    first, *rest = log
    return (
        sum(log), max(log), sorted(log), log[1:], log + [1.0], log * 2, str(log), 0.5 in log, log == [0.5], log.count(0.5),
        [v * 2 for v in log if v > 0], list(zip(log, log)), list(enumerate(reversed(log))), first, rest, copy.copy(log), bool(log),
    )  # fmt: skip


def cleared(state, x):
    state.log.append(x)
    if len(state.log) >= 3:
        mean = torch.stack(state.log).mean(0)
        state.log.clear()
        return mean
    return None


def words(state, x):
    word = f"n{int(x[0])}"
    if word not in state.log:
        state.log.append(word)
    return ",".join(state.log), state.log.index(word)


def made_anew(state, x):
    state.log = [*state.log, float(x[0])]
    return len(state.log)


def raised_after_reading(state, x):
    state.log.append(x)
    total = sum(state.log)
    if x.min() < -2:
        raise ValueError(f"small {len(state.log)}")
    state.log.append(total)
    return total


@pytest.mark.parametrize("body", [last, replayed, identities, everything, cleared, words, made_anew, raised_after_reading])
def test_what_is_read_has_one_program(body):
    agree(body)


def test_the_argument_may_be_an_item():
    x = CALLS[0]
    agree(identities, [x, CALLS[1], x, CALLS[2], x])
    agree(changed_in_place, [call.clone() for call in CALLS])


def test_items_of_other_kinds_have_a_program_of_their_own():
    def total(state, x):
        state.log.append(x)
        return sum(state.log)

    agree(total, [(value,) for value in (1, 2, 3, 2.5, 4, True)], programs=None)
    shapes = [vec(1), vec(1), vec(2), vec(1, 2), vec(3), vec()]

    def joined(state, x):
        state.log.append(x)
        return torch.cat(state.log)

    agree(joined, shapes, programs=None)
    weight = nn.Parameter(vec(1, 2))

    def losses(state, x):
        state.log.append((state.weight * x).sum())
        return sum(state.log)

    agree(losses, make=lambda: {"log": [], "weight": weight}, programs=None)


def test_items_that_are_changed_elsewhere_have_a_program_of_their_own():
    @dataclasses.dataclass(eq=False)
    class Run:
        best: Any
        used: int = 0

    def ranked(state, x):
        run = Run(x)
        state.log.append(run)
        if state.best is None or x.sum() > state.best.best.sum():
            state.best = run
        state.best.used += 1
        return state.best is run

    agree(ranked, make=lambda: {"log": [], "best": None}, programs=None)

    def nested(state, x):
        if x[0] > 0:
            state.log.append([])
        if state.log:
            state.log[-1].append(float(x[1]))

    agree(nested, programs=None)


def test_two_names_of_one_list():
    def both(state, x):
        state.a.append(float(x[0]))
        if x[1] > 1:
            state.b.append(float(x[1]))
        return len(state.a), state.a is state.b

    def shared():
        log = []
        return {"a": log, "b": log}

    agree(both, make=shared)
    agree(both, make=lambda: {"a": [], "b": []}, programs=3)
    state = types.SimpleNamespace(a=[], b=[])
    static = dy2st.to_static(lambda x: both(state, x))
    for x in CALLS[:4]:
        static(x)
    state.b = state.a
    before = list(state.a)
    assert static(CALLS[0]) == (len(before) + 2, True)
    assert state.a == [*before, 1.0, 2.0]


def test_lists_in_dicts_closures_and_modules():
    def grouped(state, x):
        state.groups["up" if x.sum() > 0 else "down"].append(x)
        return len(state.groups["up"])

    agree(grouped, make=lambda: {"groups": {"up": [], "down": []}}, programs=3)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.history = nn.Linear(2, 2).double(), []

        def forward(self, x):
            y = self.linear(x)
            if y.sum() > 0:
                self.history.append({"y": y.detach()})
            return y

    def world():
        torch.manual_seed(0)
        net = Net()
        return net, (lambda: net.history), CALLS

    agree_with_state(world)


def test_what_changes_between_calls_is_seen():
    state = types.SimpleNamespace(log=[0.0])
    twin = types.SimpleNamespace(log=[0.0])

    def total(state, x):
        state.log.append(float(x[0]))
        return sum(state.log)

    static = dy2st.to_static(lambda x: total(state, x))
    for number, x in enumerate(CALLS):
        assert described((static(x), state.log)) == described((total(twin, x), twin.log))
        for each in (state, twin):
            if number == 2:
                each.log.clear()
            if number == 3:
                each.log = each.log + [9.0]
            if number == 4:
                each.log[0] = 7
            if number == 5:
                each.log = tuple(each.log) and list(each.log)
    kept = state.log
    static(CALLS[0])
    assert state.log is kept


@pytest.mark.parametrize("body", [appended, appended_in_a_branch, last])
def test_a_program_that_is_kept_does_not_hold_the_list(body):
    state = types.SimpleNamespace(log=[])
    static = dy2st.to_static(lambda x: body(state, x))
    for x in CALLS[:3]:
        static(x.clone())
    held = weakref.ref(state.log[0]) if isinstance(state.log[0], torch.Tensor) else None
    gc.collect()
    before, state.log = sys.getrefcount(state.log), []
    for x in CALLS[:3]:
        static(x)
    gc.collect()
    assert before == 2, "the attribute and the argument of getrefcount hold it"
    assert held is None or held() is None
    fresh = types.SimpleNamespace(log=[])
    for x in CALLS[:3]:
        body(fresh, x)
    assert described(state.log) == described(fresh.log)


def test_a_list_that_comes_to_have_another_name_between_calls():
    def both(state, x):
        for item in state.other:
            x = x + item
        if x.sum() > 2:
            state.log.append(x)
        state.other.append(x)
        return len(state.log), len(state.other), state.other is state.log

    xs = [torch.tensor([float(number), 1.0]) for number in range(6)]
    eager, state = (types.SimpleNamespace(log=[], other=[xs[0]]) for _ in range(2))
    static = dy2st.to_static(lambda x: both(state, x))
    for position, x in enumerate(xs):
        for one in (eager, state):
            if position in (1, 4):
                one.other = one.log
            elif position == 3:
                one.other = list(one.log)
        assert described((static(x), vars(state))) == described((both(eager, x), vars(eager)))


def test_a_helper_that_cannot_be_captured_looks_at_the_list():
    def helper(state, x):
        total = len(state.log)
        return x * total if open(__file__).readline() else x

    def f(state, x):
        y = helper(state, x)
        state.log.append(float(y.sum()))
        return y + sum(state.log)

    eager, state = types.SimpleNamespace(log=[]), types.SimpleNamespace(log=[])
    static = dy2st.to_static(lambda x: f(state, x), full_graph=False)
    for x in CALLS:
        assert described((static(x), state.log)) == described((f(eager, x), eager.log))
