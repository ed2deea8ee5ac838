"""What a call has written when it raises is what eager Python has written by then."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import torch

import dy2st
from dy2st.capture import trace
from tests.devices import ends_the_process
from tests.oracle import agree, observe, same

UP, DOWN = torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor([-1.0, -2.0], dtype=torch.float64)
TRIPS = [([UP], torch.tensor(n)) for n in (3, 0, 1, 2)]


class Box(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, dtype=torch.float64))
        self.calls, self.log, self.table = 0, [], {}


def left(module: Any) -> Any:
    return [module.seen, module.calls, module.log, module.table, getattr(module, "last", None)]


def check(kind: Any, calls: Any) -> None:
    eager, static = kind(), dy2st.to_static(kind())
    for call in calls:
        expected, found = observe(eager, call), observe(static, call)
        assert type(expected.error) is type(found.error), f"{expected.error!r}, {found.error!r}"
        same(expected.result, found.result)
        same(left(eager), left(static), f"after {call}")


def test_attributes_before_a_raise_in_a_branch() -> None:
    class Net(Box):
        def forward(self, x):
            self.calls += 1
            self.seen = self.seen + 1
            self.log.append(x)
            if x.sum() > 0:
                self.seen.add_(5)
                self.last = x * 2
                self.table["x"] = x
                raise ValueError(f"the sum is {x.sum()}")
            self.calls += 10
            self.last = x
            return x

    check(Net, [UP, DOWN, UP, UP, DOWN])


def test_attributes_before_a_raise_at_the_top() -> None:
    class Net(Box):
        def forward(self, x):
            self.calls += 1
            self.seen.add_(x)
            self.last = x * 3
            if x.shape[0] == 2:
                raise ValueError("two")
            self.calls += 100
            return x

    check(Net, [UP, UP[:1], DOWN])


def test_an_operation_that_fails_after_writes() -> None:
    class Net(Box):
        def forward(self, x):
            self.calls += 1
            self.log.append(x)
            if x.sum() > 0:
                self.calls += 1
                return x @ torch.ones(3, dtype=x.dtype)
            return x

    check(Net, [UP, DOWN, UP])


def test_only_writes_before_a_failed_assert_are_left() -> None:
    class Net(Box):
        def forward(self, x):
            self.calls += 1
            assert x.sum() > 0, "not positive"
            self.calls += 1
            return x

    check(Net, [UP, DOWN, UP])


def test_lists_that_a_loop_fills() -> None:
    def f(items, n):
        for i in range(n):
            items.append(items[-1] + 1)
            if i == 1:
                raise ValueError(f"at {i}")
        items.append(items[0])
        return items

    agree(f, TRIPS)


def test_lists_and_dicts_of_the_caller() -> None:
    def f(items, table):
        items.append(items[0] + 1)
        table["a"] = items
        if items[0].sum() > 0:
            items[0] = items[0] * 2
            del table["b"]
            raise KeyError("up")
        items.append(items[0] + 3)
        return items, table

    agree(f, [([UP], {"b": UP * 2}), ([DOWN], {"b": UP})])


COUNT = 0


def test_globals_and_nonlocals_keep_what_was_written_before_a_raise() -> None:
    global COUNT
    count = 0

    def f(x):
        global COUNT
        nonlocal count
        COUNT += 1
        count += 2
        if x.sum() > 0:
            count += 5
            raise RuntimeError("up")
        COUNT += 10
        return x

    outcomes = []
    for function in (f, dy2st.to_static(f)):
        COUNT = count = 0
        seen = []
        for x in (UP, DOWN, UP):
            observe(function, x)
            seen.append((COUNT, count))
        outcomes.append(seen)
    assert outcomes[0] == outcomes[1]


def test_it_is_saved_without(tmp_path: Any) -> None:
    class Net(Box):
        def forward(self, x):
            self.calls += 1
            if x.sum() > 0:
                raise ValueError("up")
            return x

    dy2st.save(Net(), tmp_path / "net.dy2st", [dy2st.InputSpec([2], "float64")])
    loaded = dy2st.load(tmp_path / "net.dy2st")
    same(loaded(DOWN), DOWN)


def test_attributes_before_an_unbound_name() -> None:
    class Net(Box):
        def forward(self, x, n):
            self.calls += 1
            for _ in range(n):
                self.seen = (self.seen + x).detach().clone()
            if n > 1:
                y = x
            return x + y

    check(Net, [(UP, torch.tensor(n)) for n in (3, 0, 1, 3, 2)])


class Failing(Box):
    """Writes, then does what may fail, in a loop and after it."""

    def forward(self, x, index):
        self.calls += 1
        self.table["x"] = x
        for i in range(int(index[0])):
            self.calls += 10
            self.log.append(x * i)
            self.last = x[index[i]]
        self.calls += 100
        y = x.gather(0, index)
        self.last = y
        return y


GATHERS = [(UP, torch.tensor(index)) for index in ([0], [1, 1], [1, 5], [2, 1], [2, 7], [2, 1, 9], [0, -1], [5, 1, 1, 1, 1])]


@ends_the_process
def test_operations_that_fail_on_the_data() -> None:
    check(Failing, GATHERS)


@ends_the_process
def test_the_same_with_random_numbers_in_place_changes_and_prints() -> None:
    class Net(Failing):
        def forward(self, x, index):
            self.calls += 1
            self.seen.add_(torch.rand(2, dtype=x.dtype))
            print("seen", self.calls)
            return super().forward(x, index)

    for call in GATHERS:
        torch.manual_seed(3)
        check(Net, [call, call])


def test_items_written_before_a_division_by_zero_are_left() -> None:
    def f(box, x, n):
        box["calls"] += 1
        if x.sum() > 0:
            box["rate"] = 3 % (int(n) - 1)
        box["calls"] += 1
        box["share"] = 10 // int(n)
        box["calls"] += 1
        return box["share"]

    agree(f, [({"calls": 0}, x, torch.tensor(n)) for x in (UP, DOWN) for n in (2, 1, 0, 5)])


def test_operands_of_two_dtypes() -> None:
    class Net(Box):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x):
            self.calls += 1
            if x.sum() > 0:
                self.last = x
                x = self.layer(x)
                self.last = None
            self.log.append(x)
            return x

    check(Net, [(UP,), (DOWN,), (UP.float(),), (DOWN.float(),), (UP,)])


def test_objects_made_before_a_failure() -> None:
    class Node:
        def __init__(self, x) -> None:
            self.x, self.count = x, 0

    class Net(Box):
        def forward(self, x, index):
            node = Node(x)
            self.last = [node.x, node.count]
            self.table["n"] = {"x": node.x}
            node.count += 1
            if x.sum() > 0:
                self.table["n"]["y"] = x * 2
                self.last.append(node.count)
            z = x.index_select(0, index)
            self.table["n"].clear()
            return z

    check(Net, [(x, torch.tensor([i])) for x in (UP, DOWN) for i in (0, 4, 1, 4)])


@torch.library.custom_op("leaving_test::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    if x.sum() < 0:
        raise KeyError("negative")
    return x * 2


@positive.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_only_writes_before_a_custom_operator_fails_are_left() -> None:
    class Net(Box):
        def forward(self, x):
            self.calls += 1
            if x[0] > 0:
                self.log.append(x)
            y = positive(x)
            self.calls += 1
            return y

    check(Net, [UP, DOWN, UP])


def test_a_write_that_is_taken_back_before_a_failure() -> None:
    class Net(Box):
        def forward(self, x, index):
            before = self.calls
            self.calls = 7
            if x.sum() > 0:
                self.last = x.gather(0, index)
            self.calls = before
            return x.gather(0, index)

    check(Net, [(x, torch.tensor([i])) for x in (UP, DOWN) for i in (0, 4, 1)])


class MakesAModule(torch.nn.Module):
    def forward(self, x):
        self.late = torch.nn.Identity()
        if x[0] > 0:
            raise ValueError("positive")
        self.late = None
        return x


def test_a_module_that_is_made_is_left_where_the_call_raises():
    eager, module = MakesAModule(), MakesAModule()
    dy2st.to_static(module)
    for x in (torch.ones(2), -torch.ones(2), torch.ones(2)):
        for one in (eager, module):
            with contextlib.suppress(ValueError):
                one(x)
        assert type(eager.late) is type(module.late) and list(eager._modules) == list(module._modules)


class MakesAnIterator(torch.nn.Module):
    def forward(self, x):
        self.late = iter([1, 2])
        if x[0] > 0:
            raise ValueError("positive")
        self.late = None
        return x


def test_what_a_program_cannot_leave_is_told_of():
    """The iterator is made by the call, and gone where it does not raise."""
    module = MakesAnIterator()
    dy2st.to_static(module)
    with pytest.raises(ValueError, match="positive"), pytest.warns(UserWarning, match=r"the call has raised, and .*late"):
        module(torch.ones(2))


def test_what_numpy_computes_runs_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Net(Box):
        def forward(self, x):
            self.calls += 1
            steps = np.linspace(0.0, x.sum().item(), 3)
            self.last = torch.from_numpy(steps).sum()
            if x.sum() > 0:
                self.log.append(steps[1].item())
                return x @ torch.ones(3, dtype=x.dtype)
            return x

    captures = []
    capture = trace._capture
    monkeypatch.setattr(trace, "_capture", lambda *given: captures.append(given[0].leaves_always) or capture(*given))
    check(Net, [DOWN, UP, DOWN, UP])
    assert not any(captures)  # the program does nothing that a second run would do again


class LeavesFunctions(Box):
    def forward(self, x, n):
        def step(v):
            return v + n

        self.step = step
        if n > 0:
            self.calls += 1
        else:
            self.calls += int(x.max() > 0)
        return x[n] + len(self.table)


class LeavesChosen(Box):
    """Has dicts that hold some keys on some ways only, before each operation that may fail."""

    def forward(self, x, n):
        n = n.item()
        done = 0
        while done < n and x.sum() > -4:
            done += 1
            if n > 1:
                self.table.update({("high" if x.max() > self.seen.min() else "low"): x})
            else:
                self.calls += n
        for _ in range(self.calls % 3):
            if x.sum() > 2:
                break
            self.last = (n, self.table.get("low", x))
        return x[n]


@pytest.mark.parametrize("kind", [LeavesFunctions, LeavesChosen])
def test_what_is_left_is_recorded_once_where_nothing_is_written_since(kind):
    check(kind, [(UP, torch.tensor(n)) for n in (0, 1)] + [(DOWN, torch.tensor(n)) for n in (1, 0, 2)])
