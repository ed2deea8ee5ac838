"""State of every kind, read wherever it can be kept, replaced and changed in place between calls; settings and modes of libraries."""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import decimal
import enum
import functools
import logging
import operator
import struct
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from dy2st import to_static

X = torch.ones(2)


class Flag(enum.Flag):
    A = 1
    B = 2


class Item:
    def __init__(self, k: int) -> None:
        self.k = k

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.k

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and self.k == other.k

    def __hash__(self) -> int:
        return hash(self.k)


def one(x):
    return x + 1


def two(x):
    return x + 2


holder = types.SimpleNamespace(kept=None)
table: dict[str, Any] = {"kept": None}
kept: Any = None


def _of_global(use):
    def read(x):
        return use(kept, x)

    def put(value):
        global kept
        kept = value

    return read, put


def _of_attribute(use):
    return (lambda x: use(holder.kept, x)), functools.partial(setattr, holder, "kept")


def _of_item(use):
    return (lambda x: use(table["kept"], x)), functools.partial(table.__setitem__, "kept")


def _of_cell(use):
    value = None

    def put(new):
        nonlocal value
        value = new

    return (lambda x: use(value, x)), put


def _of_default(use):
    def read(x, value=None):
        return use(value, x)

    return read, lambda value: setattr(read, "__defaults__", (value,))


HOLDERS = [_of_global, _of_attribute, _of_item, _of_cell, _of_default]

REPLACED: dict[str, tuple[Any, Any, Callable[[Any, torch.Tensor], Any]]] = {
    "bytes": (b"a", b"b", lambda v, x: x + v[0]),
    "flag": (Flag.A, Flag.A | Flag.B, lambda v, x: x + (Flag.B in v)),
    "range": (range(2), range(3), lambda v, x: x + sum(v)),
    "frozenset": (frozenset([1]), frozenset([2]), lambda v, x: x + (2 in v)),
    "keys with an equality of their own": ({Item(1): 1}, {Item(2): 1}, lambda v, x: x + (Item(2) in v)),
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}, lambda v, x: (x, list(v))),
    "ChainMap": (collections.ChainMap({"a": 1}), collections.ChainMap({"a": 2}), lambda v, x: x + v["a"]),
    "mapping proxy": (types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2}), lambda v, x: x + v["a"]),
    "keys": ({"a": 1}.keys(), {"b": 1}.keys(), lambda v, x: x + ("b" in v)),
    "partial": (functools.partial(torch.add, other=1), functools.partial(torch.add, other=2), lambda v, x: v(x)),
    "callable": (Item(1), Item(2), lambda v, x: v(x)),
    "getter": (operator.itemgetter(0), operator.itemgetter(1), lambda v, x: v([x, x + 1])),
    "method of a string": ("a{}".format, "b{}".format, lambda v, x: (x, v(1))),
    "array of numpy": (np.array([1]), np.array([2]), lambda v, x: x + int(v[0])),
    "Decimal": (decimal.Decimal(1), decimal.Decimal(2), lambda v, x: x + float(v)),
    "Struct": (struct.Struct("i"), struct.Struct("q"), lambda v, x: (x, v.pack(1))),
    "exception": (ValueError("a"), ValueError("b"), lambda v, x: (x, str(v))),
    "weak reference": (weakref.ref(one), weakref.ref(two), lambda v, x: v()(x)),
    "context variable": (contextvars.ContextVar("v", default=1), contextvars.ContextVar("v", default=2), lambda v, x: x + v.get()),
    "union": (int | str, int | None, lambda v, x: x + isinstance(None, v)),
    "strides": (torch.ones(2, 3), torch.ones(3, 2).t(), lambda v, x: (x, v.is_contiguous())),
    "module": (torch.nn.LeakyReLU(0.1), torch.nn.LeakyReLU(0.5), lambda v, x: v(-x)),
}


@pytest.mark.parametrize("hold", HOLDERS, ids=lambda hold: hold.__name__[4:])
@pytest.mark.parametrize(("first", "second", "use"), REPLACED.values(), ids=list(REPLACED))
def test_state_that_is_replaced_is_the_new_one(hold: Callable[..., Any], first: Any, second: Any, use: Callable[..., Any]):
    read, put = hold(use)
    static = to_static(read)
    for value in (first, second, first):
        put(value)
        assert str(static(X)) == str(read(X))


under = {"a": 1}
memory = bytearray(b"a")


class Numbers(ctypes.Structure):
    _fields_ = [("k", ctypes.c_int)]  # noqa: RUF012


CHANGED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any, torch.Tensor], Any]]] = {
    "mapping proxy": (lambda: types.MappingProxyType(under), lambda v: under.update(a=under["a"] + 1), lambda v, x: x + v["a"]),
    "keys": (lambda: under.keys(), lambda v: under.update({str(len(under)): 1}), lambda v, x: x + len(v)),
    "values": (lambda: under.values(), lambda v: under.update(a=under["a"] + 1), lambda v, x: x + sum(v)),
    "items": (lambda: under.items(), lambda v: under.update(a=under["a"] + 1), lambda v, x: (x, list(v))),
    "memoryview": (lambda: memoryview(memory), lambda v: memory.__setitem__(0, memory[0] + 1), lambda v, x: x + v[0]),
    "array": (lambda: array.array("i", [1]), lambda v: v.append(2), lambda v, x: x + len(v)),
    "number of ctypes": (lambda: ctypes.c_int(1), lambda v: setattr(v, "value", 5), lambda v, x: x + v.value),
    "structure of ctypes": (lambda: Numbers(1), lambda v: setattr(v, "k", 5), lambda v, x: x + v.k),
    "array of ctypes": (lambda: (ctypes.c_int * 2)(1, 2), lambda v: v.__setitem__(0, 5), lambda v, x: x + v[0]),
    "array of objects": (lambda: np.array([Item(1)], dtype=object), lambda v: setattr(v[0], "k", 5), lambda v, x: x + v[0].k),
    "exception": (lambda: ValueError("a"), lambda v: setattr(v, "args", ("b",)), lambda v, x: (x, str(v))),
    "notes": (lambda: ValueError("a"), lambda v: setattr(v, "__notes__", ["b"]), lambda v, x: x + len(getattr(v, "__notes__", ()))),
    "callable": (lambda: Item(1), lambda v: setattr(v, "k", 2), lambda v, x: v(x)),
    "class of an object": (lambda: Item(1), lambda v: setattr(v, "__class__", type("I", (Item,), {"b": 1})), lambda v, x: x + hasattr(v, "b")),
    "ChainMap": (lambda: collections.ChainMap({"a": 1}), lambda v: v.maps.insert(0, {"a": 3}), lambda v, x: x + v["a"]),
    "factory": (lambda: collections.defaultdict(int), lambda v: setattr(v, "default_factory", lambda: 7), lambda v, x: x + v.copy()["z"]),
    "keywords of a partial": (lambda: functools.partial(torch.add, other=1), lambda v: v.keywords.update(other=5), lambda v, x: v(x)),
    "requires_grad": (lambda: torch.ones(2), lambda v: v.requires_grad_(), lambda v, x: (x, (x + v).requires_grad)),
    "hook": (torch.nn.ReLU, lambda v: v.register_forward_hook(lambda m, i, o: o + 5), lambda v, x: v(x)),
}  # fmt: skip


@pytest.mark.parametrize("hold", [_of_attribute, _of_cell], ids=lambda hold: hold.__name__[4:])
@pytest.mark.parametrize(("make", "change", "use"), CHANGED.values(), ids=list(CHANGED))
def test_state_that_changes_in_place_is_read_as_it_is(hold: Callable[..., Any], make: Any, change: Any, use: Callable[..., Any]):
    read, put = hold(use)
    static, value = to_static(read), make()
    put(value)
    for _ in range(3):
        assert str(static(X)) == str(read(X))
        change(value)
    assert str(static(X)) == str(read(X))


log = logging.getLogger("tests.kinds_of_state")
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]] = {
    "recursion limit": (  # Inductor raises it when it compiles, so it may be any when a test begins
        sys.getrecursionlimit,
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 200),
        lambda: sys.setrecursionlimit(sys.getrecursionlimit() - 200),
    ),
    "level of a logger": (lambda: log.isEnabledFor(logging.INFO), lambda: log.setLevel(10), lambda: log.setLevel(0)),
    "effective level": (log.getEffectiveLevel, lambda: log.setLevel(10), lambda: log.setLevel(0)),
    "flash attention": (
        torch.backends.cuda.flash_sdp_enabled,
        lambda: torch.backends.cuda.enable_flash_sdp(False),
        lambda: torch.backends.cuda.enable_flash_sdp(True),
    ),
    "anomalies": (
        torch.is_anomaly_enabled,
        lambda: torch.autograd.set_detect_anomaly(True),
        lambda: torch.autograd.set_detect_anomaly(False),
    ),
    "dtype of autocast": (
        lambda: torch.get_autocast_dtype("cpu"),
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: torch.set_autocast_dtype("cpu", torch.bfloat16),
    ),
    "device": (
        lambda: torch.ones(2).device.type,
        lambda: torch.set_default_device("meta"),
        lambda: torch.set_default_device(None),
    ),
    "dtype": (
        lambda: torch.ones(2).dtype,
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_dtype(torch.float32),
    ),
}


@pytest.mark.parametrize(("ask", "change", "change_back"), SETTINGS.values(), ids=list(SETTINGS))
def test_settings_of_libraries_are_asked_at_each_call(ask: Callable[[], Any], change: Any, change_back: Any):
    static = to_static(lambda x: (x, ask()))
    first = ask()
    try:
        assert static(X)[1] == first
        change()
        assert ask() != first
        for _ in range(2):
            assert static(X)[1] == ask()
    finally:
        change_back()
    assert static(X)[1] == first
    assert len(static.program_cache) == 2


class _Doubling(TorchFunctionMode):
    def __torch_function__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.relu else result


@pytest.fixture(params=[False, True], ids=["outside first", "inside first"])
def order(request: pytest.FixtureRequest) -> list[bool]:
    return [request.param, not request.param] * 2


def test_a_mode_of_functions_is_that_of_the_call(order: list[bool]):
    def f(x):
        return torch.relu(x) + 1

    static, mode = to_static(f), _Doubling()
    for inside in order:
        if inside:
            with mode:
                assert torch.equal(static(X), f(X))
        else:
            assert torch.equal(static(X), f(X))


def test_a_device_of_a_with_statement_is_that_of_the_call(order: list[bool]):
    static = to_static(lambda x: torch.zeros(3))
    for inside in order:
        if inside:
            with torch.device("meta"):
                assert static(X).device.type == "meta"
        else:
            assert static(X).device.type == "cpu"
    assert len(static.program_cache) == 2


WRITTEN = """
class Scale:
    def __init__(self, k): self.k = k
    def __call__(self, x): return x * self.k

def outer(x): return inner(x)
def inner(x): return x * factor
"""


def test_code_without_source_is_guarded_through_what_it_calls():
    space: dict[str, Any] = {"factor": 2}
    exec(WRITTEN, space)
    scale, outer = space["Scale"](3), space["outer"]

    def f(x):
        return scale(x) + outer(x)

    static = to_static(f)
    assert torch.equal(static(X), f(X))
    scale.k = 5
    assert torch.equal(static(X), f(X))
    space["factor"] = 7
    assert torch.equal(static(X), f(X))


def test_whether_a_module_is_loaded_is_asked():
    static = to_static(lambda x: x + ("no_such_module_at_all" in sys.modules))
    assert torch.equal(static(X), X)
