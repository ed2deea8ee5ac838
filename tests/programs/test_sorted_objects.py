"""Objects that a tensor puts in order stay the objects that they are."""

from __future__ import annotations

import dataclasses
import heapq
from types import SimpleNamespace

import pytest
import torch

from tests.programs.state import agree_with_state

WAYS = [torch.tensor(row) for row in ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [5.0, 5.0, -1.0], [0.0, 0.0, 0.0])]


class Node:
    def __init__(self, score, name):
        self.score, self.name, self.next = score, name, None


@dataclasses.dataclass
class Record:
    score: torch.Tensor
    name: str


def make_dict(score, name):
    return {"score": score, "name": name}


def score_of(item):
    return item["score"] if isinstance(item, dict) else item.score


def rename(item, name):
    if isinstance(item, dict):
        item["name"] = name
    else:
        item.name = name


def changed_first(x, make):
    items = [make(x[k] * 1, str(k)) for k in range(3)]
    ordered = sorted(items, key=score_of)
    rename(ordered[0], "first")
    rename(ordered[-1], "last")
    return ordered, items, ordered[0] is items[0]


def in_place(x, make):
    items = [make(x[k] * 1, str(k)) for k in range(3)]
    first = items[0]
    items.sort(key=lambda item: (score_of(item), 1), reverse=True)
    rename(first, "was first")
    for position, item in enumerate(items):
        if position and x.sum() > 3:
            rename(item, f"number {position}")
    return items, first, first is items[0]


@pytest.mark.parametrize("function", [changed_first, in_place])
@pytest.mark.parametrize("make", [Node, Record, make_dict])
def test_objects_in_order_are_the_objects(function, make):
    agree_with_state(lambda: (lambda x: function(x, make), lambda: None, WAYS))


@pytest.mark.parametrize("make", [Node, Record, make_dict])
def test_sorted_objects_from_outside_stay_the_same_objects(make):
    def world():
        state = SimpleNamespace(items=[make(torch.tensor(float(k)), str(k)) for k in range(3)], best=None)

        def function(x):
            ordered = sorted(state.items, key=lambda item: (score_of(item) * x).sum())
            state.best = ordered[0]
            rename(ordered[0], "best")
            return ordered[1], len(ordered)

        return function, lambda: state, [*WAYS, -WAYS[0]]

    agree_with_state(world)


def test_list_from_outside_is_put_in_order():
    def world():
        state = SimpleNamespace(items=[Node(torch.tensor(float(k)), str(k)) for k in range(3)])

        def function(x):
            state.items.sort(key=lambda item: (item.score * x).sum())
            state.items[0].name += "!"
            return state.items[0].score

        return function, lambda: state, [*WAYS, -WAYS[0]]

    agree_with_state(world)


def chosen(x):
    return [Node(x, "a"), Node(x, "b")][0] if x[0] > 2 else Node(x * 2, "c")


@pytest.mark.parametrize(
    "step",
    [
        lambda items: [(position, rename(item, item.name + str(position))) for position, item in enumerate(items, 1)],
        lambda items: [rename(item, other.name) for item, other in zip(items, items[1:])],
        lambda items: [rename(item, str(position)) for position, item in zip(range(4), reversed(items))],
        lambda items: list(map(lambda item: item.score + 1, items)),
        lambda items: [item.name for item in filter(lambda item: item.name != "c", items)],
    ],
    ids=["enumerate", "zip", "reversed", "map", "filter"],
)
def test_items_that_are_one_of_several_are_passed_on(step):
    def function(x):
        items = [chosen(x + k) for k in range(4)]
        return step(items), items

    agree_with_state(lambda: (function, lambda: None, WAYS))


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    tokens: tuple[int, ...]
    score: float


def test_a_beam_of_frozen_hypotheses():
    def world():
        state = SimpleNamespace(beams=[Hypothesis((0,), 0.0)])

        def step(x):
            new = [Hypothesis((*one.tokens, k), one.score + v) for one in state.beams for k, v in enumerate(x.tolist())]
            state.beams = sorted(new, key=lambda one: -one.score)[:2]
            return state.beams[0].score, state.beams[0] is new[0]

        return step, (lambda: state), WAYS

    agree_with_state(world)


@dataclasses.dataclass(order=True)
class Task:
    priority: float
    name: str = dataclasses.field(compare=False)
    done: bool = dataclasses.field(default=False, compare=False)


def test_an_object_that_a_heap_gives_is_changed():
    def world():
        state = SimpleNamespace(queue=[])

        def step(x):
            if x[0] > 0:
                heapq.heappush(state.queue, Task(float(x[1]), "a"))
            if len(state.queue) > 1:
                task = heapq.heappop(state.queue)
                task.done = True
                return task.priority
            return None

        return step, (lambda: state), WAYS

    agree_with_state(world)
