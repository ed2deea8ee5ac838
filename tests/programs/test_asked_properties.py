"""Properties, descriptors and fallbacks of the user's are asked as often as in eager, also where a tensor decides."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dy2st import to_static
from tests.oracle import EXECUTORS

ASKED: list[str] = []
"""What the code of the classes was asked for."""


class InItsDict:
    """The property and what it keeps have one name."""

    @property
    def value(self) -> Any:
        ASKED.append("get")
        return self.__dict__.get("value", "nothing")

    @value.setter
    def value(self, value: Any) -> None:
        ASKED.append("set")
        self.__dict__["value"] = value

    @value.deleter
    def value(self) -> None:
        ASKED.append("delete")
        del self.__dict__["value"]


class Made:
    @property
    def value(self) -> Any:
        ASKED.append("get")
        if "_value" not in self.__dict__:
            self._value = [0]
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        ASKED.append("set")
        self._value = value


class Counting:
    def __init__(self) -> None:
        self.reads = 0

    @property
    def value(self) -> Any:
        self.reads += 1
        return self.reads

    @value.setter
    def value(self, value: Any) -> None:
        self.reads = value


class Kept:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        ASKED.append("get")
        return vars(owner).get(self.name, "nothing")

    def __set__(self, owner: Any, value: Any) -> None:
        ASKED.append("set")
        vars(owner)[self.name] = value

    def __delete__(self, owner: Any) -> None:
        ASKED.append("delete")
        vars(owner).pop(self.name)


class Described:
    value = Kept()


class InASlot:
    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 1

    @property
    def value(self) -> Any:
        ASKED.append("get")
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        ASKED.append("set")
        self._value = value


class ReadOnly:
    @property
    def value(self) -> Any:
        ASKED.append("get")
        return 5


class Raising:
    @property
    def value(self) -> Any:
        ASKED.append("get")
        raise AttributeError("not here")

    @value.setter
    def value(self, value: Any) -> None:
        ASKED.append("set")
        self.__dict__["value"] = value

    def __getattr__(self, name: str) -> Any:
        ASKED.append("fallback")
        return self.__dict__.get(name, 9)


def assigned_on_one_way(o: Any, x: torch.Tensor) -> Any:
    if x > 0:
        o.value = x
    return o.value


def assigned_in_a_loop(o: Any, x: torch.Tensor) -> Any:
    while x > 0:
        o.value = x
        x = x - 1
    return o.value


def written_past_it(o: Any, x: torch.Tensor) -> Any:
    if x > 0:
        vars(o)["value"] = x
    return o.value


def read(o: Any, x: torch.Tensor) -> Any:
    return getattr(o, "value", 3), hasattr(o, "value")


def deleted_on_one_way(o: Any, x: torch.Tensor) -> Any:
    o.value = 1
    if x > 0:
        del o.value


def refused(o: Any, x: torch.Tensor) -> Any:
    try:
        if x > 0:
            del o.value
        else:
            o.value = 1
    except AttributeError as error:
        return str(error), o.value
    return None


CLASSES = (InItsDict, Made, Counting, Described, InASlot, ReadOnly, Raising)
OPERATIONS = (assigned_on_one_way, assigned_in_a_loop, written_past_it, read, deleted_on_one_way, refused)


def outcome(function: Any, kind: type, x: torch.Tensor) -> Any:
    o = kind()
    ASKED.clear()
    try:
        result = function(o, x)
    except (AttributeError, KeyError, TypeError) as error:
        result = type(error), str(error)
    asked = [*ASKED]
    return repr(result), asked, repr(vars(o) if hasattr(o, "__dict__") else o._value)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_they_are_asked_as_in_eager(operation: Any, kind: type) -> None:
    for backend in EXECUTORS:
        static = to_static(operation, backend=backend)
        for x in (1.0, -1.0, 2.0):
            assert outcome(static, kind, torch.tensor(x)) == outcome(operation, kind, torch.tensor(x)), f"{backend}, {x}"
        assert len(static.program_cache) <= 1
