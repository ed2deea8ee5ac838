"""Lists, dicts and deques of the user's own classes, made inside and outside, and what code that is not converted reads."""

from __future__ import annotations

import collections
import copy
import dataclasses
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dy2st
from tests.worlds import World, agree


class Bounded(collections.OrderedDict[str, Any]):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


class Named(list[Any]):
    def __init__(self, first: Any, name: str) -> None:
        super().__init__([first])
        self.name = name


class Zeros(collections.defaultdict[str, Any]):
    def __init__(self, size: int) -> None:
        super().__init__(list)
        self.size = size

    def __missing__(self, key: str) -> Any:
        self[key] = made = torch.zeros(self.size)
        return made


class Slotted(dict[str, Any]):
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def bounded(x: Any) -> Any:
    made = Bounded(3)
    if x.sum() > 0:
        made["a"] = x
    made["b"] = x + 1
    return made, made.size


def named(x: Any) -> Any:
    made = Named(x, "n")
    if x.sum() > 0:
        made.append(x * 2)
    return made


def named_or_none(x: Any) -> Any:
    made = None
    if x.sum() > 0:
        made = Named(x, "n")
    return made


def zeros(x: Any) -> Any:
    made = Zeros(2)
    return (made["a"] + x if x.sum() > 0 else made["b"] - x), made


def slotted(x: Any) -> Any:
    made = Slotted(1)
    if x.sum() > 0:
        made["a"] = x
        made.number = 2
    return made, made.number


def alias(x: Any) -> Any:
    counted = typing.Counter[str]()
    counted["a"] += 1
    return counted, str(counted.__orig_class__), x  # type: ignore[attr-defined]


def raised_from(x: Any) -> Any:
    last: Any = None
    if x.sum() > 0:
        last = ValueError("first")
    try:
        raise RuntimeError("second") from last
    except RuntimeError as error:
        return x, error.__cause__ is None


@pytest.mark.parametrize("function", [bounded, named, named_or_none, zeros, slotted, alias, raised_from])
def test_containers_made_inside_are_those_of_eager_in_one_program(function: Callable[[Any], Any]) -> None:
    def make() -> World:
        return World(function, [], [lambda run, v=v: run(torch.tensor([v, v])) for v in (1.0, -1.0, 2.0)])

    agree(make, programs=1)


def test_cause_that_a_tensor_decides() -> None:
    @dy2st.to_static
    def function(x: Any) -> None:
        last = None
        if x > 0:
            last = ValueError("first")
        raise RuntimeError("second") from last

    for chosen in (True, False, True):
        with pytest.raises(RuntimeError, match="second") as raised:
            function(torch.tensor(1.0 if chosen else -1.0))
        assert isinstance(raised.value.__cause__, ValueError) == chosen
    assert len(function.program_cache) == 1


def test_what_code_that_is_not_converted_reads_is_checked() -> None:
    def make() -> World:
        class Held:
            scale = 1

        held = Held()
        items = [1]

        @dy2st.not_to_static
        def scaled(x: Any) -> Any:
            return x * held.scale + items[0]

        def change(run: Any, number: int) -> Any:
            held.scale, items[0] = number, -number
            return run(torch.ones(2))

        return World(lambda x: scaled(x) + 1, [], [lambda run, n=n: change(run, n) for n in (1, 2, 3, 3)])

    agree(make, programs=3)


def same_ids(x: Any) -> Any:
    y = x if x.sum() > 0 else x * 2
    known = {id(x): 1, hash(y + 1): 2}
    return y, id(y) == id(x), id(y) != id(x), known[id(x)]


def same_object_ids(x: Any) -> Any:
    a, b = [x], [x]
    c = a if x.sum() > 0 else b
    return id(a) == id(b), id(a) == id(c), {id(a): 1, id(b): 2}[id(b)], id([]) is None


def made_or_older(x: Any) -> Any:
    older = [x]
    c = older
    if x.sum() > 0:
        c = [x + 1]
    return id(c) == id(older), id(older) != id(c)


def parameter_or_tensor(x: Any) -> Any:
    made = x
    if x.sum() > 0:
        made = torch.nn.Parameter(x * 2)
    return made


def deep_copies(x: Any) -> Any:
    made = Named(x, "n")
    if x.sum() > 0:
        made.name = "other"
    return made, copy.deepcopy(made)


@pytest.mark.parametrize("function", [same_ids, same_object_ids, made_or_older, deep_copies, parameter_or_tensor])
def test_identities_and_copies_are_those_of_eager(function: Callable[[Any], Any]) -> None:
    agree(lambda: World(function, [], [lambda run, v=v: run(torch.tensor([v, v])) for v in (1.0, -1.0, 2.0)]), programs=1)


def leaves_id(x: Any) -> Any:
    return x, id(x)


def leaves_id_of_a_list(x: Any) -> Any:
    return x, id([x])


def id_of_one_of_several_as_key(x: Any) -> Any:
    a, b = [x], [x]
    return {id(a if x.sum() > 0 else b): x}


def leaves_hash_of_made(x: Any) -> Any:
    return {hash(x + 1): x}


def leaves_pickle(x: Any) -> Any:
    return pickle.loads(pickle.dumps({"x": x + 1}))


@pytest.mark.parametrize(
    "function", [leaves_id, leaves_id_of_a_list, id_of_one_of_several_as_key, leaves_hash_of_made, leaves_pickle]
)
def test_what_only_a_call_knows_is_not_left(function: Callable[[Any], Any]) -> None:
    with pytest.raises(dy2st.errors.CaptureError, match=r"(id or hash of a tensor|id of one of several|known only at run time)"):
        dy2st.to_static(function)(torch.ones(2))


class Counting(list):
    def append(self, value):
        self.count_of_appends = getattr(self, "count_of_appends", 0) + 1
        super().append(value)


class Doubling(Counting):
    def append(self, value):
        super().append(value * 2)

    def extend(self, values):
        for value in values:
            self.append(value)

    def pop(self, *position):
        return super().pop(*position) * 2

    def __getitem__(self, position):
        return super().__getitem__(position)

    def __setitem__(self, position, value):
        super().__setitem__(position, value + 1)

    def __delitem__(self, position):
        super().__delitem__(position)

    def __len__(self):
        return super().__len__()


class Capped(list):
    def __init__(self, most):
        super().__init__()
        self.most = most

    def append(self, value):
        if len(self) >= self.most:
            self.pop(0)
        super().append(value)


def grown_by_methods(x):
    items = Doubling()
    for t in range(3):
        if x[t] > 0:
            items.extend([x[t], x[t] + 1])
    if len(items) > 1:
        items[0] = items[1]
        last = items.pop()
        del items[0]
    else:
        last = x.sum()
    return [items[k] for k in range(len(items))], last, items


def grown_in_a_loop(x):
    items = Counting()
    while x.sum() < 6:
        x = x + 1
        items.append(x)
    return list(items), items, getattr(items, "count_of_appends", None)


def capped(x):
    items = Capped(2)
    for t in range(3):
        if x[t] > 0:
            items.append(x[t])
    return list(items), items


def one_of_two(x):
    a, b = Counting(), Counting()
    chosen = a if x.sum() > 3 else b
    chosen.append(x)
    return a, b


@pytest.mark.parametrize("program", [grown_by_methods, grown_in_a_loop, capped, one_of_two])
def test_methods_that_call_those_of_list(program):
    static = dy2st.to_static(program)
    for way in ([1.0, 2.0, 3.0], [9.0, 9.0, 9.0], [0.0, 6.0, 1.0], [-1.0, -2.0, -3.0], [2.0, -2.0, 2.0]):
        expected, found = program(torch.tensor(way)), static(torch.tensor(way))
        assert str(expected) == str(found)
        assert [getattr(part, "__dict__", None) for part in expected] == [getattr(part, "__dict__", None) for part in found]
    assert len(static.program_cache) == 1


class Irrep(tuple[int, int]):
    """As a number that is no sequence, though it is made of one."""

    def __new__(cls, degree: int, parity: int) -> Irrep:
        return super().__new__(cls, (degree, parity))

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Any:
        raise NotImplementedError

    def __contains__(self, item: Any) -> bool:
        raise NotImplementedError


def simplified(x: Any) -> Any:
    counted: list[tuple[int, Irrep]] = []
    for count, irrep in [(3, Irrep(1, 2)), (2, Irrep(1, 2)), (1, Irrep(0, 2))]:
        if counted and counted[-1][1] == irrep:
            counted[-1] = (counted[-1][0] + count, irrep)
        else:
            counted.append((count, irrep))
    chosen = Irrep(1, 2) if x.sum() > 0 else Irrep(3, 2)
    numbers = {irrep: count for count, irrep in counted}
    return x * counted[0][0] * chosen[0], numbers[Irrep(1, 2)], Irrep(0, 2) in [irrep for _, irrep in counted], chosen[1]


class Output(collections.OrderedDict[str, Any]):
    """A dict and a dataclass at once, as the results of models are."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


@dataclasses.dataclass
class Step(Output):
    previous: Any
    original: Any = None


def stepped(x: Any) -> Any:
    step = Step(previous=x * 2, original=x if x.shape[0] else None)
    if x.sum() > 0:
        step.previous = step.previous + 1
    last = Step(step["previous"])
    return step.previous, step["original"], last.previous, list(last), last.original


@pytest.mark.parametrize("program", [simplified, stepped])
def test_classes_with_methods_that_capture_does_not_ask(program):
    static = dy2st.to_static(program)
    for way in ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]):
        assert str(program(torch.tensor(way))) == str(static(torch.tensor(way)))
    assert len(static.program_cache) == 1
