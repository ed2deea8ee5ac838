"""The values and items of one unit, while it is written down.

Operations on elements that have the same shape go into one group, which becomes one loop: an operation joins the first group of its
shape that comes after all that it needs. A write in place is a barrier that nothing is moved across.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import torch

from dy2st_runtime.executors.cpp.values import (
    CTYPES,
    NUMBERS,
    Buffer,
    Given,
    Group,
    Item,
    Kernel,
    Number,
    Opaque,
    Region,
    Statement,
    Tensor,
    Unsupported,
    Value,
    literal,
)
from dy2st_runtime.ir.program import Block

MAX_ELEMENTS = 1 << 18
"""Tensors larger than this are left to PyTorch's kernels, which run on several threads."""


def later(one: Item, other: Item) -> Item:
    """Return which of two items runs last, of those whose regions are nested in one another."""
    if one.region is other.region:
        return one if one.position > other.position else other
    return one if one.region.depth > other.region.depth else other


class Builder(abc.ABC):
    """Makes values and items, and puts items where they belong.

    Attributes:
        root: the region of the whole unit.
        region: where items are put now.
        buffers: all that were made.
        snapshot_targets: the buffers of merged values.
    """

    def __init__(self) -> None:
        self.root = self.region = Region(None)
        self.given = Given(self.root)
        self.buffers: list[Buffer] = []
        self.needed: set[int] = set()
        self._by_storage: dict[int, Buffer] = {}
        self._metas: list[torch.Tensor] = []
        self._counter = 0
        self._depth = 0

    # -- making values -------------------------------------------------------------------------------------------------

    def fresh(self, prefix: str) -> str:
        """Return a new name for the text."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def buffer_of(self, meta: torch.Tensor, source: int | None = None) -> Buffer:
        """Return the buffer of a meta tensor, made if there is none yet."""
        storage = meta.untyped_storage()
        result = self._by_storage.get(storage._cdata)
        if result is not None:
            return result
        if meta.dtype not in CTYPES:
            raise Unsupported(f"{meta.dtype} has no C++ here")
        if meta.numel() > MAX_ELEMENTS:
            raise Unsupported(f"a tensor of shape {tuple(meta.shape)} is large; PyTorch's own kernels are for that")
        size = storage.nbytes() // meta.element_size()
        region = self.root if source is not None else self.region
        self._counter += 1
        buffer = Buffer(self._counter, meta.dtype, size, region, source)
        self._by_storage[storage._cdata] = buffer
        self._metas.append(meta)
        self.buffers.append(buffer)
        return buffer

    def tensor(self, meta: torch.Tensor, item: Any, site: Any) -> Tensor:
        """Return a new tensor, or a new view."""
        buffer = self.buffer_of(meta)
        return Tensor(buffer, meta, item, roots=frozenset([site]))

    def input_tensor(self, position: int, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return the tensor at a position of the unit's inputs."""
        meta = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        buffer = self.buffer_of(meta, position)
        return Tensor(buffer, meta, self.given, identity=str(position), roots=frozenset([position]))

    def identity(self, value: Tensor) -> str:
        """C++ for which object a tensor is."""
        if not value.identity:
            region = value.item.region
            value.identity = region.identities.setdefault(value, self.fresh("id"))
        return value.identity

    # -- placing items -------------------------------------------------------------------------------------------------

    def group(self, shape: tuple[int, ...], operands: Sequence[Any], alone: bool = False) -> Group:
        """Return the group where an operation on these operands goes."""
        region = self.region
        if alone:
            region.bar()
            result: Group = region.append(Group(shape))
            region.bar()
            return result
        low = region.barrier
        for value in operands:
            item = value.item
            if item.region is region:
                joins_it = isinstance(item, Group) and item.shape == shape
                if isinstance(value, Tensor):
                    joins_it = joins_it and bool(value.variable) and value.shape == shape
                low = max(low, item.position + (0 if joins_it else 1))
        for item in region.items[low:]:
            if isinstance(item, Group) and item.shape == shape:
                return item
        appended: Group = region.append(Group(shape))
        return appended

    def straight(self, text: str, operands: Sequence[Any], after: Sequence[Any] = ()) -> None:
        """Add statements outside of any loop, after what computes their operands and some other values."""
        used = [value for value in operands if isinstance(value, (Tensor, Number))]
        code = tuple(self.code(value) for value in operands)
        self.group((), [*used, *after]).statements.append(Statement(text, code))

    def number(self, kind: type, text: str, operands: Sequence[Any], before: str = "", after: Sequence[Any] = ()) -> Number:
        """Return a number that is computed at run time.

        Args:
            kind: its Python type.
            text: C++ for its value, with a ``{}`` for each operand.
            operands: tensors with one element, numbers, constants.
            before: statements that check the operands.
            after: what else must be known.
        """
        scalar = [self.as_scalar(value) if isinstance(value, Tensor) else value for value in operands]
        used = [value for value in [*scalar, *after] if isinstance(value, (Tensor, Number))]
        group = self.group((), used)
        name, code = self.fresh("n"), tuple(self.code(value) for value in scalar)
        if before:
            group.statements.append(Statement(before, code))
        group.statements.append(Statement(text, code, (NUMBERS[kind], name)))
        sources = [value.inputs if isinstance(value, Number) else None for value in used]
        inputs = None if any(source is None for source in sources) else frozenset().union(*(s for s in sources if s is not None))
        return Number(kind, name, group, inputs)

    def kernel(self, text: str, operands: Sequence[Tensor]) -> Kernel:
        """Return a piece of C++ of its own, after everything so far."""
        result: Kernel = self.region.append(Kernel(text, tuple(operands)))
        return result

    def bail(self, condition: str, operands: Sequence[Any]) -> None:
        """Leave it to the python executor when a condition holds."""
        self.straight(f"if ({condition}) return GIVE_UP;", operands)

    # -- using values --------------------------------------------------------------------------------------------------

    def code(self, value: Any) -> Any:
        """Return what stands for a value in a statement: a tensor as it is, a number as C++."""
        if isinstance(value, Tensor):
            return self.used(value)
        if isinstance(value, Number):
            if value.absent:
                self.straight(f"if ({value.absent}) return GIVE_UP;", (), [value])
            return value.name
        if isinstance(value, (bool, int, float)):
            return literal(value)
        raise Unsupported(f"{type(value).__name__} is no number")

    def used(self, value: Tensor) -> Tensor:
        """Return a tensor that is about to be read; one that may be ``None`` is checked."""
        if value.optional:
            self.straight(f"if ({value.identity} < 0) return GIVE_UP;", (), [value])
        return value

    def as_scalar(self, value: Tensor) -> Tensor:
        """Return the one element of a tensor."""
        if value.meta.numel() != 1:
            raise Unsupported(f"the value of a tensor of shape {value.shape} is asked")
        return value if not value.shape else self.view(value, value.meta.as_strided((), (), value.meta.storage_offset()))

    def view(self, value: Tensor, meta: torch.Tensor, more: Number | None = None) -> Tensor:
        """Return a view of a tensor; ``more`` is what a run-time index adds to its offset."""
        self.used(value)
        dynamic = " + ".join(part for part in (value.dynamic, more.name if more else "") if part)
        item = value.item if more is None else later(value.item, more.item)
        return Tensor(value.buffer, meta, item, dynamic, views=value.roots | value.views)

    def constant(self, value: Any) -> Any:
        """Return a Python number that must be known now, since a shape depends on it."""
        if isinstance(value, Number):
            if value.inputs:
                self.needed |= value.inputs
            raise Unsupported("a size depends on a number that is known at run time only")
        if isinstance(value, (Tensor, Opaque)):
            raise Unsupported("a size depends on a tensor")
        if isinstance(value, (list, tuple)):
            return type(value)(self.constant(item) for item in value)
        return value

    # -- blocks --------------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def run(self, block: Block, inputs: Sequence[Value]) -> list[Value]:
        """Follow a block; gives its outputs."""

    def inside(self, block: Block, inputs: Sequence[Value]) -> tuple[Region, list[Value]]:
        """Follow a nested block in a region of its own."""
        around = self.region
        region = self.region = Region(around)
        try:
            return region, self.run(block, inputs)
        finally:
            self.region = around
