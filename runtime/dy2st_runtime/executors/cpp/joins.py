"""``if_`` and ``while_``: values that come from one of several places.

A tensor gets a buffer of its own that each side, or each iteration, fills; a number gets a variable. What is the same on every
path, an outer value that a branch or a loop only hands through, stays what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.executors.cpp.builder import Builder
from dy2st_runtime.executors.cpp.values import (
    Branch,
    Buffer,
    Copy,
    Item,
    Loop,
    Number,
    Opaque,
    Region,
    Tensor,
    Unsupported,
    Value,
    literal,
)
from dy2st_runtime.ir.program import Block

_NUMBER = (bool, int, float)


def same(one: Value, other: Value) -> bool:
    """Tell whether two values are one object in eager, or equal constants."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one is other
    if isinstance(one, Number) and isinstance(other, Number):
        return one.name == other.name
    if type(one) is not type(other) or isinstance(one, (Tensor, Number, Opaque)):
        return False
    return bool(one == other) and (not isinstance(one, float) or one.hex() == other.hex())


def branch(builder: Builder, node: fx.Node, args: Sequence[Any]) -> tuple[Value, ...]:
    """Follow ``if_``; of a condition that is known, only the side that is taken."""
    condition, then, orelse, operands = args
    assert isinstance(then, Block) and isinstance(orelse, Block)
    if not isinstance(condition, (Tensor, Number)):
        return tuple(builder.run(then if condition else orelse, operands))
    condition = builder.as_scalar(condition) if isinstance(condition, Tensor) else condition
    tested = builder.code(condition)
    sides = [builder.inside(block, operands) for block in (then, orelse)]
    item = Branch(tested, ((sides[0][0], []), (sides[1][0], [])), [])
    results = tuple(
        _joined(builder, item, (node, position), [(region, outputs[position]) for region, outputs in sides])
        for position in range(len(sides[0][1]))
    )
    item.results.extend(result for result in results if isinstance(result, (Tensor, Number)) and result.item is item)
    for side, (region, outputs) in zip(item.sides, sides):
        for result, value in zip(results, outputs):
            if isinstance(result, (Tensor, Number)) and result.item is item and not region.ends:
                side[1].append(copy(builder, region, result, value))
    builder.region.append(item)
    if all(region.ends for region, _ in sides):
        builder.region.ends = True
    if any(region.barrier for region, _ in sides):
        builder.region.bar()
    return results


def _joined(builder: Builder, item: Item, site: Any, sides: Sequence[tuple[Region, Value]]) -> Value:
    """Return one result of a branch."""
    reached = [value for region, value in sides if not region.ends] or [sides[0][1]]
    if len(reached) == 1 and _outer(builder, reached[0]):
        return reached[0]
    if len(reached) == 2 and same(*reached) and _outer(builder, reached[0]):
        return reached[0]
    return merged(builder, item, site, reached)


def _outer(builder: Builder, value: Value) -> bool:
    """Tell whether a value is there outside of the region that gave it."""
    return not isinstance(value, (Tensor, Number)) or value.item.region.depth <= builder.region.depth


def merged(builder: Builder, item: Item, site: Any, values: Sequence[Value]) -> Value:
    """Return what stands for any one of several values."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    if tensors:
        return _merged_tensor(builder, item, tensors, values)
    present = [value for value in values if value is not None]
    kinds = {value.kind if isinstance(value, Number) else type(value) for value in present}
    if len(kinds) != 1 or not kinds <= set(_NUMBER):
        names = sorted(getattr(kind, "__name__", str(kind)) for kind in kinds)
        raise Unsupported(f"a value that is one of {', '.join(names)}, depending on the path")
    number = Number(kinds.pop(), builder.fresh("n"), item, None)
    if len(present) < len(values) or any(isinstance(value, Number) and value.absent for value in values):
        number.absent = builder.fresh("absent")
    return number


def _merged_tensor(builder: Builder, item: Item, tensors: Sequence[Tensor], values: Sequence[Value]) -> Tensor:
    first = tensors[0]
    if not all(isinstance(value, Tensor) or value is None for value in values):
        raise Unsupported("a value that is a tensor on one path and a number on another")
    for other in tensors[1:]:
        if other.shape != first.shape or other.buffer.dtype != first.buffer.dtype:
            raise Unsupported(f"a tensor whose shape or dtype depends on the path: {_text(first)} or {_text(other)}")
    layouts = {
        tuple(value.meta.stride()) for value in tensors if not value.roots or not all(isinstance(r, int) for r in value.roots)
    }
    stride = layouts.pop() if len(layouts) == 1 else None
    if layouts or (stride is not None and not _dense(first.shape, stride)):
        raise Unsupported("a tensor whose strides depend on the path")
    meta = torch.empty_strided(first.shape, stride or _contiguous(first.shape), dtype=first.buffer.dtype, device="meta")
    buffer = builder.buffer_of(meta)
    buffer.merged = True
    tensor = Tensor(buffer, meta, item, identity=builder.fresh("id"))
    tensor.roots = frozenset().union(*(value.roots for value in tensors))
    tensor.views = frozenset().union(*(value.views for value in tensors))
    tensor.optional = any(value is None or (isinstance(value, Tensor) and value.optional) for value in values)
    return tensor


def _text(value: Tensor) -> str:
    return f"{str(value.buffer.dtype).removeprefix('torch.')}{list(value.shape)}"


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(torch.empty(shape, device="meta").stride())


def _dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Tell whether strides leave no gap and share no element."""
    expected = 1
    for size, step in sorted(((n, s) for n, s in zip(shape, stride) if n > 1), key=lambda pair: pair[1]):
        if step != expected:
            return False
        expected *= size
    return True


def copy(builder: Builder, region: Region, target: Tensor | Number, value: Value, carried: Sequence[Buffer] = ()) -> Copy:
    """Return how a value gets into a merged one at the end of a region."""
    if isinstance(target, Number):
        return _number_copy(target, value)
    if value is None:
        return Copy(target, None)
    assert isinstance(value, Tensor)
    builder.identity(value)
    region.snapshots.append((value.buffer, value.buffer.mutations))
    return Copy(target, value, staged=value.buffer in carried)


def loop(builder: Builder, node: fx.Node, args: Sequence[Any]) -> tuple[Value, ...]:
    """Follow ``while_``, again and again until it is known which of the carried values change."""
    condition, body, carried, operands = args
    assert isinstance(body, Block)
    if not isinstance(condition, (Tensor, Number)) and not condition:
        return tuple(carried)
    if isinstance(condition, Tensor):
        condition = builder.as_scalar(condition)
    changing: dict[int, list[Value]] = {}
    writes = [value.buffer.mutations if isinstance(value, Tensor) else 0 for value in carried]
    while True:
        result = _followed(builder, node, (condition, body, carried, operands), changing, writes)
        if result is not None:
            return result


def _followed(
    builder: Builder, node: fx.Node, args: Sequence[Any], changing: dict[int, list[Value]], writes: Sequence[int]
) -> tuple[Value, ...] | None:
    """Follow a loop once; ``None`` when more values change than was known, which ``changing`` then says."""
    condition, body, carried, operands = args
    around = builder.region
    item = Loop(builder.code(condition), Region(around), "", [], [], [])
    item.region = around
    inputs = [
        merged(builder, item, (node, index), [value, *changing[index]]) if index in changing else value
        for index, value in enumerate(carried)
    ]
    region, (again, *outputs) = builder.inside(body, [*inputs, *operands])
    if not _has_converged(inputs, outputs, changing) and not region.ends:
        return None
    changed = [(index, value) for index, value in enumerate(inputs) if index in changing and isinstance(value, (Tensor, Number))]
    buffers = [value.buffer for _, value in changed if isinstance(value, Tensor)]
    item.body, item.results = region, [value for _, value in changed]
    for index, value in changed:
        item.first.append(_initial(builder, value, carried[index], writes[index]))
        if not region.ends:
            item.following.append(copy(builder, region, value, outputs[index], buffers))
    builder.region = region
    again = builder.as_scalar(again) if isinstance(again, Tensor) else again
    item.again = "false" if region.ends else builder.code(again)
    builder.region = around
    around.append(item)
    if region.barrier:
        around.bar()
    return tuple(inputs)


def _initial(builder: Builder, target: Tensor | Number, value: Value, writes: int) -> Copy:
    if isinstance(value, Tensor):
        builder.identity(value)
        builder.region.snapshots.append((value.buffer, writes))
        return Copy(target, value)
    assert isinstance(target, Number) or value is None
    return _number_copy(target, value) if isinstance(target, Number) else Copy(target, None)


def _number_copy(target: Number, value: Value) -> Copy:
    if value is None:
        return Copy(target, "0", absent="true")
    if isinstance(value, Number):
        return Copy(target, value.name, absent=value.absent or "false")
    return Copy(target, literal(value), absent="false")


def _has_converged(inputs: Sequence[Value], outputs: Sequence[Value], changing: dict[int, list[Value]]) -> bool:
    """Tell whether what an iteration leaves is what it was taken to leave."""
    converged = True
    for index, (value, output) in enumerate(zip(inputs, outputs)):
        if index not in changing:
            if not same(value, output):
                changing[index] = [output]
                converged = False
        elif isinstance(value, Tensor):
            converged = _tensor_has_converged(value, output, changing[index]) and converged
        else:
            merged_kind = value.kind if isinstance(value, Number) else type(value)
            result = output.kind if isinstance(output, Number) else type(output)
            may_be_none = output is None or (isinstance(output, Number) and bool(output.absent))
            if may_be_none and not (isinstance(value, Number) and value.absent):
                changing[index].append(output)
                converged = False
            elif output is not None and result is not merged_kind:
                raise Unsupported("a number that a loop carries changes its type")
    return converged


def _tensor_has_converged(value: Tensor, output: Value, known: list[Value]) -> bool:
    if output is None:
        if value.optional:
            return True
    elif not isinstance(output, Tensor):
        raise Unsupported("a loop carries a tensor that becomes something else")
    elif output.shape != value.shape or output.buffer.dtype != value.buffer.dtype:
        raise Unsupported(f"a tensor that a loop carries changes its shape or dtype: {_text(value)}, then {_text(output)}")
    elif output.roots <= value.roots and output.views <= value.views and (value.optional or not output.optional):
        return True
    known.append(output)
    return False
