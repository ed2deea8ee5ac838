"""One unit for one set of shapes, strides and dtypes: how it is made, and how it is called."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st_runtime.executors.cpp import compile as compiling
from dy2st_runtime.executors.cpp.emit import Ports, dense_strides, emit, regions_of
from dy2st_runtime.executors.cpp.trace import Tracer
from dy2st_runtime.executors.cpp.values import CTYPES, NUMBERS, Buffer, Number, Opaque, Tensor, Unsupported
from dy2st_runtime.ir.program import Block

Description = tuple[Any, ...]
"""Of an input: dtype, shape and stride of a tensor; the type of a number; ``(None, value)`` of what is a constant."""

NeedsConstants = frozenset[int]


class Variant:
    """A compiled unit.

    Attributes:
        mutated: the positions of the inputs that it writes to.
        text: its C++.
    """

    def __init__(self, block: Block, descriptions: Sequence[Description]) -> None:
        result = _Made(block, descriptions)
        self.text = result.text
        self.mutated = result.mutated
        self._function = compiling.load(result.text)
        self._pack = struct.Struct(result.format).pack
        self._taken = result.taken
        self._memories = result.memories
        self._size = max(1, result.slots)
        self._table = ctypes.c_int64 * self._size
        self._builders = result.builders

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run it; ``None`` when it gives up, having changed nothing.

        Args:
            values: the unit's inputs, which fit the description.
        """
        memories = [torch.empty_strided(shape, stride, dtype=dtype) for shape, stride, dtype in self._memories]
        numbers = self._table()
        try:
            table = self._pack(
                *[values[position].data_ptr() if tensor else values[position] for position, tensor in self._taken],
                *[memory.data_ptr() for memory in memories],
            )
        except struct.error:  # an int of more than 64 bits
            return None
        if self._function(table, ctypes.addressof(numbers), _PYTHON):
            return None
        known: dict[int, Any] = {}
        return tuple([build(values, memories, numbers, known) for build in self._builders])


_API = (ctypes.c_void_p * 3)(
    *(
        ctypes.cast(function, ctypes.c_void_p).value
        for function in (
            ctypes.pythonapi.PyEval_SaveThread,
            ctypes.pythonapi.PyEval_RestoreThread,
            ctypes.pythonapi.PyErr_CheckSignals,
        )
    )
)
_PYTHON = ctypes.addressof(_API)
"""What a unit calls to let go of Python's lock, to take it again, and to see whether Ctrl-C was pressed."""

Build = Callable[[Sequence[Any], Sequence[torch.Tensor], Any, dict[int, Any]], Any]
"""Makes one output, of the inputs, the new memory, the numbers, and the objects made so far by identity."""


def _parts(value: Any) -> tuple[Any, ...]:
    """Return the tensors of what an operation gives: one, or a list of them."""
    return value if isinstance(value, tuple) else (value,)


class _Made:
    """The text of a unit and how to call it."""

    def __init__(self, block: Block, descriptions: Sequence[Description]) -> None:
        self.tracer = Tracer()
        self.inputs = [self.given(position, description) for position, description in enumerate(descriptions)]
        try:
            outputs = self.tracer.run(block, self.inputs)
        except Unsupported as error:
            error.needed = frozenset(self.tracer.needed)  # type: ignore[attr-defined]
            raise
        root = self.tracer.root
        if root.ends:
            raise Unsupported("it always raises")
        self.tracer.check_copies(list(regions_of(root)))
        self.check_sharing([part for value in outputs for part in _parts(value) if isinstance(part, Tensor)])
        self.results: list[str] = []
        self.memory_buffers: list[Buffer] = []
        self.wholes: dict[int, Tensor] = {}
        """Which result is the new memory itself; others of the same shape are views of it."""
        self.views: dict[Tensor, int] = {}
        """A number for each view of an input, below those that tell objects apart at run time."""
        self.memories: list[tuple[tuple[int, ...], tuple[int, ...], torch.dtype]] = []
        self.builders = [self.builder(value) for value in outputs]
        ports = [value for value in self.inputs if isinstance(value, (Tensor, Number))]
        self.taken = [
            (position, isinstance(v, Tensor)) for position, v in enumerate(self.inputs) if isinstance(v, (Tensor, Number))
        ]
        self.format = "=" + "".join(
            "q" if isinstance(v, Tensor) else {int: "q", float: "d", bool: "q"}[v.kind] for v in ports
        ) + "q" * len(self.memories)  # fmt: skip
        self.mutated = [
            v.buffer.source for v in ports if isinstance(v, Tensor) and v.buffer.mutations and v.buffer.source is not None
        ]
        self.text = emit(root, self.tracer.buffers, Ports(ports, self.memory_buffers, self.results, len(self.inputs)))
        self.slots = len(self.results)

    def given(self, position: int, description: Description) -> Any:
        """Return the value that stands for an input."""
        kind, *rest = description
        if kind is None:
            return rest[0]
        if isinstance(kind, torch.dtype):
            if kind not in CTYPES:
                raise Unsupported(f"{kind} has no C++ here")
            return self.tracer.input_tensor(position, rest[0], rest[1], kind)
        if kind not in NUMBERS:
            raise Unsupported(f"a {kind.__name__} is given")
        return Number(kind, f"n_{position}", self.tracer.given, frozenset([position]))

    def check_sharing(self, outputs: Sequence[Tensor]) -> None:
        """See that results share memory with each other and with inputs as they do in eager."""
        for value in outputs:
            if value.buffer.source is None and any(isinstance(root, int) for root in value.views):
                raise Unsupported("a result that is a view of an argument on some path")
        for position, one in enumerate(outputs):
            for other in outputs[:position]:
                if one.buffer is other.buffer:
                    continue
                if one.views & (other.roots | other.views) or other.views & one.roots:
                    raise Unsupported("two results that share memory on some path")

    def slot(self, text: str) -> int:
        """Return a number that the unit gives."""
        self.results.append(text)
        return len(self.results) - 1

    def builder(self, value: Any) -> Build:
        """Return what makes one output."""
        if isinstance(value, Opaque):
            raise Unsupported("a text is a result")
        if isinstance(value, Number):
            return self.number_builder(value)
        if isinstance(value, tuple):
            parts = [self.builder(part) for part in value]
            return lambda values, memories, numbers, known: [build(values, memories, numbers, known) for build in parts]
        if not isinstance(value, Tensor):
            return lambda values, memories, numbers, known: value
        if value.buffer.source is not None:
            return self.input_builder(value)
        return self.tensor_builder(value)

    def number_builder(self, value: Number) -> Build:
        """Return a number, or ``None`` in the place of one."""
        build = self.present_number_builder(value)
        if not value.absent:
            return build
        absent = self.slot(value.absent)
        return lambda values, memories, numbers, known: None if numbers[absent] else build(values, memories, numbers, known)

    def present_number_builder(self, value: Number) -> Build:
        """Return a number."""
        if value.kind is float:
            slot = self.slot(f"([](double x) {{ int64_t y; __builtin_memcpy(&y, &x, 8); return y; }})({value.name})")
            convert = struct.Struct("=d").unpack_from
            return lambda values, memories, numbers, known: convert(numbers, 8 * slot)[0]
        slot = self.slot(f"(int64_t){value.name}")
        if value.kind is bool:
            return lambda values, memories, numbers, known: bool(numbers[slot])
        return lambda values, memories, numbers, known: numbers[slot]

    def input_builder(self, value: Tensor) -> Build:
        """Return an input, or a view of one."""
        position = value.buffer.source
        assert position is not None
        if value.identity == str(position):
            return lambda values, memories, numbers, known: values[position]
        size, stride, offset = value.meta.size(), value.meta.stride(), value.meta.storage_offset()
        key = self.views.setdefault(value, -2 - len(self.views))
        slot = self.slot(value.dynamic or "0")

        def build(values: Sequence[Any], memories: Sequence[torch.Tensor], numbers: Any, known: dict[int, Any]) -> Any:
            base = values[position]
            if key not in known:
                known[key] = base.as_strided(size, stride, base.storage_offset() + offset + numbers[slot])
            return known[key]

        return build

    def tensor_builder(self, value: Tensor) -> Build:
        """Return a tensor in new memory, or the object that it turned out to be."""
        buffer = value.buffer
        if buffer not in self.memory_buffers:
            self.memory_buffers.append(buffer)
            base = next(meta for meta in self.tracer._metas if self.tracer._by_storage[meta.untyped_storage()._cdata] is buffer)
            if not dense_strides(base):
                raise Unsupported("a result with gaps in its memory")
            self.memories.append((tuple(base.shape), tuple(base.stride()), base.dtype))
        memory = self.memory_buffers.index(buffer)
        described = tuple(value.meta.shape), tuple(value.meta.stride()), value.meta.dtype
        if described == self.memories[memory] and not value.dynamic:
            first = self.wholes.setdefault(memory, value)
            if first.views and not value.views:
                self.wholes[memory] = value
        slot = self.slot(self.tracer.identity(value))
        moved = self.slot(value.dynamic or "0")
        size, stride, offset = value.meta.size(), value.meta.stride(), value.meta.storage_offset()

        def build(values: Sequence[Any], memories: Sequence[torch.Tensor], numbers: Any, known: dict[int, Any]) -> Any:
            identity = numbers[slot]
            if identity < 0:
                return None
            if identity in known:
                return known[identity]
            if identity < self_inputs:
                return values[positions[identity]]
            result = memories[memory]
            whole = wholes.get(memory) is value
            known[identity] = result if whole else result.as_strided(size, stride, offset + numbers[moved])
            return known[identity]

        wholes = self.wholes
        self_inputs = len(self.inputs)
        positions = range(self_inputs)
        return build
