"""Sets and deques that were there before the call, changed where a tensor decides."""

from __future__ import annotations

import collections
import dataclasses
import zlib

import pytest
import torch

import dy2st
from tests.oracle import same
from tests.programs.values import signs

CALLS = [*signs(), *signs()]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.queue = collections.deque(maxlen=2)
        self.seen = {"start"}
        self.table = {"q": collections.deque()}

    def kept(self):
        return list(self.queue), sorted(self.seen), list(self.table["q"])


class InBranches(Net):
    def forward(self, x):
        if x.sum() > 0:
            self.queue.append(x)
            self.seen.add("positive")
        else:
            self.seen.discard("positive")
        return x + len(self.queue), "positive" in self.seen, sum(self.queue), sorted(self.seen)


class InALoop(Net):
    def forward(self, x):
        while x.sum() > 0:
            x = x - 1
            self.queue.append(x)
            self.table["q"].appendleft(x)
        while len(self.table["q"]) > 2:
            self.table["q"].pop()
        return x, len(self.queue), len(self.table["q"])


class Returned(Net):
    def forward(self, x):
        if x.sum() > 0:
            self.queue.append(x)
        return self.queue, self.seen


class ByTwoNames(Net):
    def forward(self, x):
        queue = self.queue
        if x.sum() > 0:
            queue.append(x)
        return len(self.queue), queue is self.queue, isinstance(queue, collections.deque), len(vars(self)["queue"])


class WhereNothingDecides(Net):
    def forward(self, x):
        self.queue.append(x)
        self.seen |= {"a"}
        for _ in self.seen:
            x = x + 1
        return x, self.queue[0]


class Raises(Net):
    def forward(self, x):
        self.queue.append(x)
        self.seen.add("raised")
        if x.sum() > 0:
            raise ValueError(f"positive after {len(self.queue)}")
        return x


@pytest.mark.parametrize("kind", [InBranches, InALoop, Returned, ByTwoNames, WhereNothingDecides, Raises])
def test_sets_and_deques_of_a_module_are_changed_as_in_eager(kind):
    eager, static = kind(), dy2st.to_static(kind())
    for x in CALLS:
        outcomes = []
        for module in (eager, static):
            try:
                outcomes.append(module(x))
            except ValueError as error:
                outcomes.append(str(error))
            outcomes.append(module.kept())
        same(outcomes[:2], outcomes[2:])
    assert type(static.queue) is collections.deque and type(static.seen) is set
    if kind is Returned:
        queue, seen = static(CALLS[0])
        assert queue is static.queue and seen is static.seen


def test_arguments_and_variables_are_changed_in_one_program():
    def make():
        last, found = collections.deque([1.0, 2.0]), {1, 2}

        def function(x, queue, members):
            if x.sum() > 0:
                queue.append(x)
                members.add("positive")
                last.append(3.0)
                found.add(3)
            seen = sum(last), len(found), 3 in found, len(queue), sorted(members)
            if len(last) > 2:
                last.pop()
                found.remove(3)
            return seen

        return function

    eager, static = make(), dy2st.to_static(make())
    for x in CALLS:
        given = [(collections.deque([x]), {"a"}) for _ in range(2)]
        same(eager(x, *given[0]), static(x, *given[1]))
        same(list(given[0][0]), list(given[1][0]))
        assert given[0][1] == given[1][1]
    assert len(static.program_cache) == 1


def test_reached_through_a_tuple_too():
    class Both(Net):
        def __init__(self):
            super().__init__()
            self.both = (self.queue, 1)

        def forward(self, x):
            if x.sum() > 0:
                self.queue.append(x)
            return len(self.both[0])

    with pytest.raises(dy2st.CaptureError, match="reached through a tuple"):
        dy2st.to_static(Both())(CALLS[0])


def test_nothing_is_left_by_a_capture_that_fails():
    class Fails(Net):
        def forward(self, x):
            self.queue.append(x)
            self.seen.add("b")
            return x * zlib.crc32(x.detach().numpy())

    module = dy2st.to_static(Fails())
    with pytest.raises(dy2st.DataDependentError):
        module(CALLS[0])
    assert type(module.queue) is collections.deque and module.kept() == ([], ["start"], [])


def test_held_by_what_is_frozen():
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        names: set
        kept: collections.deque

    eager, static = (Frozen({"a"}, collections.deque()) for _ in range(2))

    def make(state):
        def function(x):
            if x.sum() > 0:
                state.names.add("b")
            return x + 1 if "b" in state.names else x + len(state.kept)

        return function

    expected, found = make(eager), dy2st.to_static(make(static))
    for call in CALLS:
        same(expected(call), found(call))
        assert eager.names == static.names


def test_items_of_a_deque():
    eager, static = (collections.deque([1.0, 2.0, 3.0]) for _ in range(2))

    def make(queue):
        def function(x):
            if x.sum() > 0:
                queue[0] = x
                del queue[1]
            return len(queue)

        return function

    function = dy2st.to_static(make(static))
    for x in (CALLS[1], CALLS[0], CALLS[2]):
        assert make(eager)(x) == function(x)
        same(list(eager), list(static))


def _or(s, t):
    s |= t


def _minus(s, t):
    s -= t


def _and(s, t):
    s &= t


def _xor(s, t):
    s ^= t


@pytest.mark.parametrize("change", [_or, _minus, _and, _xor])
@pytest.mark.parametrize("where", ["always", "branch"])
def test_operators_that_change_a_set_with_chosen_members(change, where):
    class Seen:
        def __init__(self):
            self.names = {"a", "b"}

    def make():
        seen = Seen()
        alias = seen.names

        def f(x):
            k = "a" if x.sum() > 0 else "c"
            if where == "always":
                change(seen.names, {k})
            elif x[0] > 0:
                change(seen.names, {k, "q"})
            return len(alias), "a" in alias, seen.names is alias

        return f, seen, alias

    (eager, own, first), (static, seen, alias) = make(), make()
    static = dy2st.to_static(static)
    for x in (torch.ones(2), -torch.ones(2), torch.tensor([1.0, -5.0]), torch.tensor([-1.0, 5.0])):
        assert eager(x) == static(x)
        assert own.names == seen.names
        assert own.names is first
        assert seen.names is alias
