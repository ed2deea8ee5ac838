"""What a program's values are while it is turned into C++: tensors in buffers, numbers in variables, constants.

A tensor has a *meta* tensor of PyTorch, which knows its shape, dtype, strides and offset; its buffer is where the elements are.
A view shares the buffer of what it is a view of. A number is a constant of the text, or a C++ variable.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

CTYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.int64: "int64_t",
    torch.int32: "int32_t",
    torch.bool: "uint8_t",
}
"""The C++ type for each dtype that there is code for."""

NUMBERS = {bool: "bool", int: "int64_t", float: "double"}
"""The C++ type for each Python number."""


class Unsupported(Exception):
    """Why a part of a program has no C++ for the values at hand; the python executor runs it."""


@dataclasses.dataclass(eq=False)
class Buffer:
    """Memory of one tensor and its views.

    Attributes:
        index: its number in the text.
        dtype: of the elements.
        size: how many there are.
        region: where it is made, and so declared.
        source: the position of the input it is; ``None`` for one of the unit's own.
        merged: whether it takes one of several values: of branches, or of the iterations of a loop.
        mutations: how many in-place operations write to it.
        stored: whether somebody needs it in memory; otherwise it is only ever in variables of the loop that computes it.
    """

    index: int
    dtype: torch.dtype
    size: int
    region: Region
    source: int | None = None
    merged: bool = False
    mutations: int = 0
    stored: bool = False

    @property
    def name(self) -> str:
        """Its name in the text."""
        return f"b{self.index}"

    @property
    def ctype(self) -> str:
        """The C++ type of an element."""
        return CTYPES[self.dtype]


@dataclasses.dataclass(eq=False)
class Tensor:
    """A tensor.

    Attributes:
        buffer: where its elements are.
        meta: shape, strides, offset.
        item: what computes it.
        dynamic: C++ for what comes on top of the offset, from indices known at run time.
        variable: of one that fills its buffer, the name of an element in the loop that computes it.
        identity: C++ for the number that tells which object it is in eager: that of an input, or one of its own.
        roots: what it may be in eager, by identity: inputs, and the places that made it.
        views: what it may be a view of in eager, without being it.
        optional: whether it may be ``None`` instead; its identity is then negative.
    """

    buffer: Buffer
    meta: torch.Tensor
    item: Item
    dynamic: str = ""
    variable: str = ""
    identity: str = ""
    roots: frozenset[Any] = frozenset()
    views: frozenset[Any] = frozenset()
    optional: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return tuple(self.meta.shape)

    @property
    def ctype(self) -> str:
        """The C++ type of an element."""
        return self.buffer.ctype

    @property
    def whole(self) -> bool:
        """Whether it fills its buffer in order, so that it can be copied at one go."""
        return not self.dynamic and self.meta.is_contiguous() and self.meta.storage_offset() == 0


@dataclasses.dataclass(eq=False)
class Number:
    """A Python number that is known at run time only.

    Attributes:
        kind: ``int``, ``float`` or ``bool``.
        name: C++ for it.
        item: what computes it.
        inputs: the positions of the unit's numbers that it depends on and nothing else; ``None`` where tensors decide it.
        absent: the variable that says whether it is ``None`` instead; empty for one that never is.
    """

    kind: type
    name: str
    item: Item
    inputs: frozenset[int] | None = None
    absent: str = ""


@dataclasses.dataclass(eq=False)
class Opaque:
    """A value that only an exception uses, which another executor makes."""


Value = Any
"""A value of a program: one of the classes above, a tuple or list of them, or a constant."""


class Region:
    """The items of one block, in the order in which they run.

    Attributes:
        parent: the region around it.
        depth: how many there are around it.
        items: what it runs.
        barrier: the first position where something new may go, after the last write in place.
        identities: the tensors made here that need a number of their own.
        snapshots: the buffers that were copied into those of merged values, with their number of writes at that point.
        ends: whether its end is never reached.
    """

    def __init__(self, parent: Region | None) -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.items: list[Item] = []
        self.barrier = 0
        self.identities: dict[Tensor, str] = {}
        self.snapshots: list[tuple[Buffer, int]] = []
        self.ends = False

    def append(self, item: Any) -> Any:
        """Put an item at the end."""
        item.region, item.position = self, len(self.items)
        self.items.append(item)
        return item

    def bar(self) -> None:
        """Let nothing that comes later go before this point."""
        self.barrier = len(self.items)


class Item:
    """Something that runs: see :mod:`~dy2st_runtime.executors.cpp.emit`."""

    region: Region
    position: int = -1


class Given(Item):
    """Where the inputs of the unit come from: before everything."""

    def __init__(self, region: Region) -> None:
        self.region = region


@dataclasses.dataclass(eq=False)
class Statement:
    """One operation on elements, or on numbers.

    Attributes:
        text: C++ with a ``{}`` for each operand; without a result, whole statements.
        operands: tensors, and C++ text.
        result: the tensor whose element it computes.
        declared: the C++ type and name that the value of the text gets.
        store: a tensor that is written in place.
    """

    text: str
    operands: tuple[Tensor | str, ...]
    declared: tuple[str, str] | None = None
    result: Tensor | None = None
    store: Tensor | None = None


class Group(Item):
    """Operations on elements that share one loop; without dimensions, straight code."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.statements: list[Statement] = []


@dataclasses.dataclass(eq=False)
class Kernel(Item):
    """A piece of C++ of its own.

    Attributes:
        text: with a ``{}`` for a pointer to each operand.
        operands: tensors that it reads and writes.
    """

    text: str
    operands: tuple[Tensor, ...]


@dataclasses.dataclass(eq=False)
class Copy:
    """A value that goes into the buffer of a merged one.

    Attributes:
        target: the merged value; a number is a variable.
        value: a tensor, C++ for a number, or ``None``.
        absent: for a number that may be ``None``, C++ for whether it is.
        staged: whether it must be read before any target is written.
    """

    target: Tensor | Number
    value: Tensor | str | None
    staged: bool = False
    absent: str = ""


@dataclasses.dataclass(eq=False)
class Branch(Item):
    """``if``: what the condition is, and for both sides what they run and leave."""

    condition: Tensor | str
    sides: tuple[tuple[Region, list[Copy]], tuple[Region, list[Copy]]]
    results: list[Tensor | Number]


@dataclasses.dataclass(eq=False)
class Loop(Item):
    """``while``: what is carried, and what an iteration runs and leaves."""

    condition: Tensor | str
    body: Region
    again: Tensor | str
    first: list[Copy]
    following: list[Copy]
    results: list[Tensor | Number]


def literal(value: bool | int | float, ctype: str = "") -> str:
    """Return a number as C++."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -(2**63) < value < 2**63:
            raise Unsupported(f"{value} does not fit into 64 bits")
        return f"(int64_t){value}" if value >= 0 else f"((int64_t){value})"
    if math.isnan(value):
        return '__builtin_nan("")'
    if math.isinf(value):
        return "__builtin_inf()" if value > 0 else "(-__builtin_inf())"
    return f"({value.hex()})"
