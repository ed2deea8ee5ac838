"""The text of a unit: one C++ function without dispatch, and without an allocation for each operation.

A buffer is an array of fixed size; a value that only its own loop uses never gets there and is a variable of that loop.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence

import torch

from dy2st_runtime.executors.cpp import prelude
from dy2st_runtime.executors.cpp.elements import ElementWriter
from dy2st_runtime.executors.cpp.values import (
    NUMBERS,
    Branch,
    Buffer,
    Copy,
    Group,
    Item,
    Kernel,
    Loop,
    Number,
    Region,
    Statement,
    Tensor,
    Unsupported,
)

ENTRY = "dy2st_run"
"""The name of the function."""

_STACK = 96 * 1024
"""Bytes of buffers on the stack; when there is more, the large ones are allocated once for a run."""
_LARGE = 4096
_POLL = 4_000_000
"""Elements computed between two looks for signals: some milliseconds."""


def regions_of(region: Region) -> Iterator[Region]:
    """Yield a region and all inside it."""
    yield region
    for item in region.items:
        if isinstance(item, Branch):
            for inner, _ in item.sides:
                yield from regions_of(inner)
        elif isinstance(item, Loop):
            yield from regions_of(item.body)


@dataclasses.dataclass(frozen=True)
class Ports:
    """What a unit takes and gives, in the order of its tables.

    Attributes:
        inputs: a tensor or a number for each entry of the first table.
        memories: the buffers whose memory comes from outside: their addresses follow in the first table.
        results: C++ for the numbers of the second table, as 64-bit integers.
        first: the smallest identity that is not one of an input.
    """

    inputs: Sequence[Tensor | Number]
    memories: Sequence[Buffer]
    results: Sequence[str]
    first: int


def emit(root: Region, buffers: Sequence[Buffer], ports: Ports) -> str:
    """Return the text of a unit.

    Args:
        root: what it runs.
        buffers: all of them.
        ports: what it takes and gives.
    """
    writer = _Writer(buffers, ports)
    return writer.unit(root)


class _Writer(ElementWriter):
    def __init__(self, buffers: Sequence[Buffer], ports: Ports) -> None:
        super().__init__()
        self.buffers, self.ports = buffers, ports
        self.arena: dict[Buffer, int] = {}
        self.arena_size = 0
        self._staged = 0

    # -- the whole -----------------------------------------------------------------------------------------------------

    def unit(self, root: Region) -> str:
        """Return all of the text."""
        for region in regions_of(root):
            self.mark(region)
        for buffer in self.ports.memories:
            buffer.stored = True
        self.plan()
        self.line(f"static __attribute__((noinline)) int body({', '.join(self.parameters())}) {{")
        self.line(f"int64_t count = {self.ports.first}, left = {_POLL}; (void)count; (void)left;")
        if self.arena_size:
            self.line(f"Arena arena{{(char*)aligned_alloc(64, {self.arena_size})}}; if (!arena.at) return GIVE_UP;")
            for buffer, offset in self.arena.items():
                self.line(f"{buffer.ctype}* __restrict {buffer.name} = ({buffer.ctype}*)(arena.at + {offset});")
        changed = [buffer for buffer in self.buffers if buffer.source is not None and buffer.mutations]
        self.region(root, changed)
        for buffer in changed:
            self.line(f"__builtin_memcpy(p{buffer.index}, {buffer.name}, sizeof({buffer.ctype}) * {buffer.size});")
        self.line("return DONE;")
        self.line("}")
        self.entry()
        return self.text()

    def text(self) -> str:
        """Return the lines, after the parts of the prelude that they need."""
        body = "\n".join(self.lines) + "\n"
        parts = [prelude.TEXT]
        if "gemm<" in body:
            parts.append(prelude.GEMM)
        if "reduce<" in body or "_row<" in body:
            parts.append(prelude.REDUCTIONS)
        if "_row<" in body:
            parts.append(prelude.ROWS)
        return "".join(parts) + body

    def parameters(self) -> list[str]:
        """Write the function that does the work."""
        results = ["Host* host", "int64_t* __restrict out"]
        for value in self.ports.inputs:
            if isinstance(value, Number):
                results.append(f"{NUMBERS[value.kind]} {value.name}")
            elif value.buffer.mutations:
                results.append(f"{value.ctype}* __restrict p{value.buffer.index}")
            else:
                results.append(f"const {value.ctype}* __restrict {value.buffer.name}")
        return results + [f"{buffer.ctype}* __restrict {buffer.name}" for buffer in self.ports.memories]

    def entry(self) -> None:
        """Note that the function that is called: it lets other threads run meanwhile."""
        args = []
        for index, value in enumerate(self.ports.inputs):
            if isinstance(value, Number):
                args.append(f"*(const double*)(in + {index})" if value.kind is float else f"({NUMBERS[value.kind]})in[{index}]")
            else:
                args.append(f"({value.ctype}*)in[{index}]")
        args += [f"({buffer.ctype}*)in[{len(args) + k}]" for k, buffer in enumerate(self.ports.memories)]
        self.line(f'extern "C" int {ENTRY}(const int64_t* in, int64_t* out, const int64_t* python) {{')
        self.line("Host host{(void* (*)())python[0], (void (*)(void*))python[1], (int (*)())python[2], 0, false};")
        self.line("host.state = host.save();")
        self.line(f"int code = body({', '.join(['&host', 'out', *args])});")
        self.line("if (!host.held) host.restore(host.state);")
        self.line("return code; }")

    def plan(self) -> None:
        """Plan where each buffer lives: on the stack, unless they are too large for it."""
        own = [b for b in self.buffers if self.is_local(b)]
        if sum(self.bytes(b) for b in own) <= _STACK:
            return
        for buffer in own:
            if self.bytes(buffer) > _LARGE:
                self.arena[buffer] = self.arena_size
                self.arena_size += -(-self.bytes(buffer) // 64) * 64

    def is_local(self, buffer: Buffer) -> bool:
        """Tell whether a buffer is memory of the unit's own."""
        given = buffer.source is not None and not buffer.mutations
        return buffer.stored and not given and buffer not in self.ports.memories

    def bytes(self, buffer: Buffer) -> int:
        """Return the size of a buffer."""
        return max(1, buffer.size) * buffer.dtype.itemsize

    # -- which values are needed in memory -----------------------------------------------------------------------------

    def mark(self, region: Region) -> None:
        """Find the values of a region's items that must be in memory."""
        for item in region.items:
            if isinstance(item, Group):
                for statement in item.statements:
                    self.mark_all(statement.operands, item)
            elif isinstance(item, Kernel):
                for operand in item.operands:
                    operand.buffer.stored = True
            elif isinstance(item, Branch):
                self.mark_all([item.condition, *(c.value for _, copies in item.sides for c in copies)], None)
                self.mark_targets(item.results)
            elif isinstance(item, Loop):
                self.mark_all([item.condition, item.again, *(c.value for c in (*item.first, *item.following))], None)
                self.mark_targets(item.results)

    def mark_all(self, values: Sequence[Tensor | str | None], reader: Item | None) -> None:
        """Note what a reader does not find in a variable."""
        for value in values:
            if isinstance(value, Tensor) and not self.in_variable(value, reader):
                value.buffer.stored = True

    def mark_targets(self, results: Sequence[Tensor | Number]) -> None:
        """Note that merged tensors are always in memory."""
        for result in results:
            if isinstance(result, Tensor):
                result.buffer.stored = True

    # -- items ---------------------------------------------------------------------------------------------------------

    def region(self, region: Region, changed: Sequence[Buffer] = ()) -> None:
        """Do what a region declares and runs; it works on copies of the inputs that it changes."""
        for name in region.identities.values():
            self.line(f"const int64_t {name} = count++; (void){name};")
        for buffer in self.buffers:
            if buffer.region is region and self.is_local(buffer) and buffer not in self.arena:
                self.line(f"alignas(64) {buffer.ctype} {buffer.name}[{max(1, buffer.size)}];")
        for buffer in changed:
            self.line(f"__builtin_memcpy({buffer.name}, p{buffer.index}, sizeof({buffer.ctype}) * {buffer.size});")
        for item in region.items:
            self.item(item)
        if region.parent is None:
            for slot, text in enumerate(self.ports.results):
                self.line(f"out[{slot}] = {text};")

    def item(self, item: Item) -> None:
        """Write one item."""
        if isinstance(item, Group):
            self.group(item.shape, item.statements, item)
        elif isinstance(item, Kernel):
            pointers = [self.pointer(operand) for operand in item.operands]
            self.line(f"{{ {re.sub(r'[$]([0-9]+)', lambda match: pointers[int(match[1])], item.text)} }}")
        elif isinstance(item, Branch):
            self.branch(item)
        elif isinstance(item, Loop):
            self.loop(item)

    def declare(self, results: Sequence[Tensor | Number]) -> None:
        """Declare the variables of merged values."""
        for result in results:
            if isinstance(result, Number):
                self.line(f"{NUMBERS[result.kind]} {result.name};")
                if result.absent:
                    self.line(f"bool {result.absent};")
            else:
                self.line(f"int64_t {result.identity}; (void){result.identity};")

    def branch(self, item: Branch) -> None:
        """Do ``if``."""
        self.declare(item.results)
        self.line(f"if ({self.scalar(item.condition)} != 0) {{")
        for position, (region, copies) in enumerate(item.sides):
            if position:
                self.line("} else {")
            self.region(region)
            self.copies(copies)
        self.line("}")

    def loop(self, item: Loop) -> None:
        """Do ``while``, with a look for signals now and then."""
        self.declare(item.results)
        self.copies(item.first)
        self._staged += 1
        going = f"going{self._staged}"
        self.line(f"bool {going} = {self.scalar(item.condition)} != 0;")
        self.line(f"while ({going}) {{")
        cost = self.cost(item.body) + 8
        self.line(f"if ((left -= {cost}) < 0) {{ left = {_POLL}; if (host->interrupted()) return INTERRUPTED; }}")
        self.region(item.body)
        self.line(f"{going} = {self.scalar(item.again)} != 0;")
        self.copies(item.following)
        self.line("}")

    def cost(self, region: Region) -> int:
        """About how many elements a region computes."""
        total = 0
        for item in region.items:
            if isinstance(item, Group):
                total += math.prod(item.shape) * len(item.statements)
            elif isinstance(item, Kernel):
                total += 16 * max(operand.meta.numel() for operand in item.operands)
        return total

    def copies(self, copies: Sequence[Copy]) -> None:
        """Fill merged values, all at once."""
        finish: list[str] = []
        staged: list[tuple[Tensor, Tensor]] = []
        for copy in copies:
            self._staged += 1
            name = f"y{self._staged}"
            if isinstance(copy.target, Number):
                self.line(f"const {NUMBERS[copy.target.kind]} {name} = {copy.value};")
                finish.append(f"{copy.target.name} = {name};")
                if copy.target.absent:
                    self.line(f"const bool {name}_absent = {copy.absent};")
                    finish.append(f"{copy.target.absent} = {name}_absent;")
                continue
            text = "-1" if copy.value is None else copy.value.identity if isinstance(copy.value, Tensor) else copy.value
            self.line(f"const int64_t {name} = {text};")
            finish.append(f"{copy.target.identity} = {name};")
            if isinstance(copy.value, Tensor) and copy.staged:
                staged.append((copy.target, self.stage(copy.value, copy.target)))
        for copy in copies:
            if isinstance(copy.target, Tensor) and isinstance(copy.value, Tensor) and not copy.staged:
                self.assign(copy.target, copy.value)
        for target, value in staged:
            self.assign(target, value)
        for text in finish:
            self.line(text)

    def stage(self, value: Tensor, target: Tensor) -> Tensor:
        """Return a copy of a value that is about to be overwritten."""
        self._staged += 1
        size = target.buffer.size
        if size * target.buffer.dtype.itemsize > _STACK // 2:
            raise Unsupported("a loop that swaps large tensors")
        buffer = Buffer(1_000_000 + self._staged, target.buffer.dtype, size, target.buffer.region)
        self.line(f"alignas(64) {buffer.ctype} {buffer.name}[{max(1, size)}];")
        tensor = Tensor(buffer, target.meta, target.item)
        self.assign(tensor, value)
        return tensor

    def assign(self, target: Tensor, value: Tensor) -> None:
        """Copy elements."""
        self.group(target.shape, [Statement("{}", (value,), store=target)], None)


def dense_strides(meta: torch.Tensor) -> bool:
    """Tell whether a tensor fills its memory."""
    return meta.storage_offset() == 0 and meta.untyped_storage().nbytes() == meta.numel() * meta.element_size()
