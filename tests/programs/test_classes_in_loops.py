"""Objects that a loop replaces by those of other classes, with lists in them that grow."""

import pytest
import torch

import dy2st
from dy2st.errors import LoopVariableError
from tests.oracle import agree

X = torch.tensor([0.1, 0.2])
TRIPS = [(X, n) for n in (0, 1, 2, 3, 4, 7)]


class Low:
    def __init__(self, scale):
        self.scale = scale
        self.parts = []

    def times(self, v):
        result = self.scale * v
        for i in range(len(self.parts)):
            result = result + self.parts[i] * torch.dot(self.parts[i], v)
        return result

    def append(self, v):
        self.parts.append(v)
        return Full(self.scale, self.parts) if len(self.parts) > v.numel() else self

    def reduce(self, most):
        if len(self.parts) > most:
            del self.parts[:]


class Full:
    def __init__(self, scale, parts):
        self.matrix = torch.eye(2) * scale
        for part in parts:
            self.matrix = self.matrix + torch.outer(part, part)

    def times(self, v):
        return self.matrix @ v

    def append(self, v):
        self.matrix = self.matrix + torch.outer(v, v)
        return self

    def reduce(self, most):
        pass


class Solver:
    def __init__(self, scale):
        self.matrix = Low(scale)

    def update(self, x):
        self.matrix.reduce(10)
        self.matrix = self.matrix.append(self.matrix.times(x))


class Box:
    def __init__(self, inside):
        self.inside = inside
        self.seen = []


class Wrapped:
    def __init__(self, box):
        self.box = box


def test_an_attribute_is_of_another_class_from_some_iteration_on():
    def solve(x, n):
        solver = Solver(torch.tensor(0.5))
        i = 0
        while i < n:
            solver.update(x)
            i += 1
        return solver.matrix.times(x), type(solver.matrix).__name__, i

    agree(solve, [(x.requires_grad_(), torch.tensor(n)) for x, n in [(X.clone(), n) for _, n in TRIPS]])


def test_a_variable_goes_through_classes_and_none():
    def program(x, n):
        state = None
        for i in range(int(n)):
            if state is None:
                state = Box(x * i)
            elif isinstance(state, Box):
                state.inside = state.inside + 1
                state = Wrapped(state)
            else:
                state = None
        if state is None:
            return None
        box = state if isinstance(state, Box) else state.box
        return type(state).__name__, box.inside, box.seen

    agree(program, [(x, torch.tensor(n)) for x, n in TRIPS])


def test_an_object_that_is_held_elsewhere_stays_that_one():
    def program(x, n):
        box = Box(x)
        wrapped, seen = Wrapped(box), box.seen
        current = box
        for i in range(int(n)):
            current = wrapped if i == 2 else box if i == 4 else current
            current.last = i
            box.seen.append(x * i)
        return current is box, current is wrapped, wrapped.box is box, len(seen), seen is box.seen, getattr(current, "last", None)

    agree(program, [(x, torch.tensor(n)) for x, n in TRIPS])


def test_a_list_in_an_object_that_each_iteration_makes_grows_in_a_branch():
    def program(x, n):
        box = Box(x)
        for i in range(int(n)):
            if i % 2 == 0:
                box.seen.append(x * i)
            after = Box(box.inside + 1)
            after.seen = [*box.seen, x]
            box = after
        return box.inside, box.seen

    agree(program, [(x, torch.tensor(n)) for x, n in TRIPS])


def test_an_iteration_gives_its_object_an_attribute_that_others_lack():
    def program(x, n):
        state = None
        for i in range(int(n)):
            if state is None:
                state = Wrapped(x * i)
            elif i % 2:
                state.cache = state.box * 2
            else:
                state = Wrapped(state.cache if hasattr(state, "cache") else x)
        return None if state is None else (state.box, getattr(state, "cache", None), sorted(vars(state)))

    agree(program, [(x, torch.tensor(n)) for x, n in TRIPS])


def test_a_chain_of_objects_is_refused_at_once():
    def program(x, n):
        state = None
        for i in range(int(n)):
            state = Box(state) if i % 2 else Wrapped(state)
        return state

    with pytest.raises(LoopVariableError, match="holds the one of the iteration before"):
        dy2st.to_static(program)(X, torch.tensor(3))
