"""Modules whose class has a property, descriptor, attribute or fallback of the name under which something is registered."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
from dy2st import to_static
from tests.oracle import EXECUTORS, agree

ASKED: list[str] = []
"""What the code of the classes was asked for."""


class Plain(nn.Module):
    pass


class Property(nn.Module):
    @property
    def alias(self) -> Any:
        ASKED.append("get")
        return self.__dict__.get("_alias", "nothing")

    @alias.setter
    def alias(self, value: Any) -> None:
        ASKED.append("set")
        self.__dict__["_alias"] = value

    @alias.deleter
    def alias(self) -> None:
        ASKED.append("delete")
        self.__dict__.pop("_alias", None)


class ReadOnly(nn.Module):
    @property
    def alias(self) -> Any:
        ASKED.append("get")
        return "read"


class RaisingProperty(nn.Module):
    @property
    def alias(self) -> Any:
        ASKED.append("get")
        raise AttributeError("not here")

    @alias.setter
    def alias(self, value: Any) -> None:
        ASKED.append("set")
        self.__dict__["_alias"] = value


class Kept:
    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        ASKED.append("get")
        return owner.__dict__.get("_alias", "nothing")

    def __set__(self, owner: Any, value: Any) -> None:
        ASKED.append("set")
        owner.__dict__["_alias"] = value


class Given:
    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        ASKED.append("get")
        return "given"


class DataDescriptor(nn.Module):
    alias = Kept()


class Descriptor(nn.Module):
    alias = Given()


class Attribute(nn.Module):
    alias = "of the class"


class Fallback(nn.Module):
    def __getattr__(self, name: str) -> Any:
        if name == "alias":
            ASKED.append("fallback")
            return "fallback"
        return super().__getattr__(name)


CLASSES = (Plain, Property, ReadOnly, RaisingProperty, DataDescriptor, Descriptor, Attribute, Fallback)
VALUES: dict[str, Callable[[], Any]] = {
    "module": nn.ReLU,
    "parameter": lambda: nn.Parameter(torch.ones(2)),
    "buffer": lambda: nn.Buffer(torch.ones(2)),
    "tensor": lambda: torch.ones(2),
    "none": lambda: None,
    "number": lambda: 3,
}
BEFORE: dict[str, Callable[[nn.Module], Any]] = {
    "nothing": lambda net: None,
    "parameter": lambda net: net._parameters.update(alias=nn.Parameter(torch.zeros(2))),
    "buffer": lambda net: (net._buffers.update(alias=torch.zeros(2)), net._non_persistent_buffers_set.add("alias")),
    "module": lambda net: net._modules.update(alias=nn.Tanh()),
    "attribute": lambda net: net.__dict__.update(alias=5),
}


def assigned(net: Any, value: Any, x: torch.Tensor) -> Any:
    net.alias = value
    return hasattr(net, "alias"), getattr(net, "alias", "default")


def refused(net: Any, value: Any, x: torch.Tensor) -> Any:
    try:
        nn.Module.__setattr__(net, "alias", value)
    except (KeyError, TypeError, AttributeError) as error:
        return type(error).__name__, str(error)
    return net.alias


def deleted(net: Any, value: Any, x: torch.Tensor) -> Any:
    del net.alias


def assigned_and_deleted(net: Any, value: Any, x: torch.Tensor) -> Any:
    net.alias = value
    del net.alias


def read(net: Any, value: Any, x: torch.Tensor) -> Any:
    return hasattr(net, "alias"), getattr(net, "alias", "default")


def assigned_on_one_way(net: Any, value: Any, x: torch.Tensor) -> Any:
    if x.sum() > 0:
        net.alias = value
    return hasattr(net, "alias")


def deleted_on_one_way(net: Any, value: Any, x: torch.Tensor) -> Any:
    if x.sum() > 0:
        del net.alias


def assigned_or_a_tensor(net: Any, value: Any, x: torch.Tensor) -> Any:
    net.alias = value if x.sum() > 0 else x


def assigned_or_none(net: Any, value: Any, x: torch.Tensor) -> Any:
    net.alias = value if x.sum() > 0 else None


ALWAYS = (assigned, refused, deleted, assigned_and_deleted, read)
ON_ONE_WAY = (assigned_on_one_way, deleted_on_one_way, assigned_or_a_tensor, assigned_or_none)


def shown(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return type(value).__name__, isinstance(value, nn.Buffer), value.tolist()
    if isinstance(value, (nn.Module, BaseException)):
        return type(value).__name__, str(value)
    return [*map(shown, value)] if isinstance(value, tuple) else value


def outcome(function: Any, kind: type[nn.Module], before: str, value: str, x: torch.Tensor) -> Any:
    net, given = kind(), VALUES[value]()
    BEFORE[before](net)
    ASKED.clear()
    try:
        result = shown(function(net, given, x))
    except dy2st.Dy2stError:
        return None
    except (AttributeError, KeyError, TypeError) as error:
        result = shown(error)
    tables = [{name: shown(held) for name, held in vars(net)[table].items()} for table in ("_parameters", "_buffers", "_modules")]
    own = {name: shown(vars(net)[name]) for name in ("alias", "_alias") if name in vars(net)}
    return result, tables, own, sorted(net._non_persistent_buffers_set), [*ASKED]


def compare(operation: Any, kind: type[nn.Module], signs: tuple[int, ...], values: Iterable[str]) -> list[tuple[str, str]]:
    """Compare with eager for all that may be there before; returns what is refused."""
    asks_value = "value" in operation.__code__.co_names or "assigned" in operation.__name__ or operation is refused
    refusals = []
    for number, (before, value) in enumerate(itertools.product(BEFORE, values if asks_value else ("number",))):
        static = to_static(operation, backend=EXECUTORS[number % len(EXECUTORS)])
        for sign in signs:
            expected = outcome(operation, kind, before, value, sign * torch.ones(2))
            found = outcome(static, kind, before, value, sign * torch.ones(2))
            if found is None:
                refusals.append((before, value))
                break
            assert found == expected, f"{before}, {value}, {sign}"
    return refusals


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("operation", ALWAYS)
def test_modules_register_before_their_class_is_asked(operation: Any, kind: type[nn.Module]) -> None:
    refusals = compare(operation, kind, (1,), VALUES)
    beside = kind is RaisingProperty and operation is not deleted and operation is not read
    assert refusals == ([("attribute", "buffer")] if beside else [])  # the module would have both


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("operation", ON_ONE_WAY)
def test_a_tensor_decides_whether_they_register(operation: Any, kind: type[nn.Module]) -> None:
    refusals = compare(operation, kind, (1, -1), ("module", "parameter", "tensor"))
    assert len(refusals) < 11, refusals  # in which table it is depends on the way


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))
        self.child: nn.Module | None = nn.Tanh()

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        try:
            self.w = nn.Parameter(x * 2) if n > 0 else torch.zeros(2)
        except TypeError as error:
            return str(error), self.w * x
        return self.w * x


class ChosenChild(Chosen):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        self.child = nn.ReLU() if n > 0 else (None if n > -1 else 3)
        return type(self.child).__name__, x


class ChosenNew(Chosen):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        self.new = nn.Parameter(x * 2) if n > 0 else torch.zeros(2)
        return self.new * x


@pytest.mark.parametrize(("kind", "programs"), [(Chosen, 1), (ChosenChild, 3), (ChosenNew, 2)])  # one for each state of the module
def test_what_is_refused_is_refused_on_its_way_alone(kind: type[nn.Module], programs: int) -> None:
    agree(kind(), [(torch.tensor([1.0, -2.0]), torch.tensor(n)) for n in (1, 0, -1, 1)], programs=programs)


class Slot:
    __slots__ = ("items",)


@pytest.mark.parametrize("backend", EXECUTORS)
def test_methods_of_slots_write_where_statements_do(backend: str) -> None:
    slot, x = Slot(), torch.ones(2)

    def write(x: torch.Tensor, n: torch.Tensor) -> Any:
        before = hasattr(slot, "items")
        Slot.items.__set__(slot, x if n > 0 else 3)  # type: ignore[attr-defined]
        held = Slot.items.__get__(slot)  # type: ignore[attr-defined]
        if n < 0:
            Slot.items.__delete__(slot)  # type: ignore[attr-defined]
        return before, held

    static = to_static(write, backend=backend)
    for n, before, expected in ((1, False, x), (0, True, 3), (-1, True, 3), (1, False, x)):
        assert static(x, torch.tensor(n)) == (before, expected) or n == 1
        assert (slot.items is expected) if n >= 0 else not hasattr(slot, "items")  # type: ignore[attr-defined]
