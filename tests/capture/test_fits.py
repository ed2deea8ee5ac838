"""The conditions on items of lists from outside say the same in C++ as in Python, of values of all kinds."""

from __future__ import annotations

import collections
import dataclasses
import enum
import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from dy2st.capture.objects import construction
from dy2st.capture.types import fits, kinds_of_items
from dy2st_runtime.compiled import COMPILED
from dy2st_runtime.executors.native import build


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Pair(NamedTuple):
    a: Any
    b: Any


class Plain:
    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


class Derived(Plain):
    pass


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)


@dataclasses.dataclass
class Data:
    a: Any
    b: Any = 0


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


class Own(torch.Tensor):
    pass


def values() -> list[Any]:
    leaf = torch.ones(2, requires_grad=True)
    tensors = [
        torch.ones(2), torch.zeros(2), torch.ones(3), torch.ones(2, 3), torch.ones(3, 2).t(), torch.ones(()), torch.ones(0), torch.ones(4)[::2],
        torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.complex64), leaf, leaf * 2,
        nn.Parameter(torch.ones(2), requires_grad=False), nn.Parameter(torch.ones(2)), torch.ones(2).as_subclass(Own),
        torch.ones(2, device="meta"), torch.ones(2).to_sparse(), leaf.detach(), (leaf * 2).detach(), torch.eye(2)[0],
    ]  # fmt: skip
    plain = [
        0, 1, -1, 2**70, True, False, 0.5, float("nan"), -0.0, 1j, None, "a", "", b"a", Text("a"), Number(1), Level.LOW, Color.RED, Color.BLUE,
        ..., int, torch.float32, np.float32(1), np.ones(2), slice(1), range(2), {1}, frozenset({1}), collections.deque([1]), len,
    ]  # fmt: skip
    parts = [1, 1.5, "a", None, torch.ones(2), leaf * 2]
    nested = [
        make(part)
        for part in parts
        for make in (
            lambda p: [p], lambda p: [p, p], lambda p: (p,), lambda p: (p, p), lambda p: Pair(p, 1), lambda p: {"a": p}, lambda p: {"b": p},
            lambda p: {"a": p, "b": 1}, lambda p: {"b": 1, "a": p}, lambda p: {1: p}, lambda p: collections.OrderedDict(a=p),
            lambda p: Plain(a=p), lambda p: Plain(a=p, b=1), lambda p: Plain(b=1, a=p), lambda p: Derived(a=p), lambda p: Slots(a=p),
            lambda p: Slots(a=p, b=1), lambda p: Data(p), lambda p: Data(p, "x"), lambda p: [[p]], lambda p: [(p, [p])], lambda p: Plain(a=[p]),
            lambda p: Plain(a=Slots(a=p)), lambda p: Plain(),
        )
    ]  # fmt: skip
    held = Data(1)
    held.more = 2  # type: ignore[attr-defined]
    hidden = Plain(a=1)
    vars(hidden)["__dy2st_something"] = 2
    return [*tensors, *plain, *nested, [], (), {}, [1, 1.5], [None, 1], held, hidden, Plain]


def test_what_fits_in_c_fits_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    build.library()
    library = COMPILED.library
    assert library is not None
    known, checks = values(), 0
    for example in known:
        try:
            kind = kinds_of_items.of_items([example], construction.is_record)
        except TypeError:
            continue
        for is_mixed, value in itertools.product((False, True), known):
            monkeypatch.setattr(COMPILED, "library", library)
            in_c = fits.condition(kind, is_mixed)([value])
            monkeypatch.setattr(COMPILED, "library", None)
            in_python = fits.condition(kind, is_mixed)([value])
            assert in_c == in_python, (kind, value, is_mixed, in_python)
            checks += in_python
    assert checks > 300
