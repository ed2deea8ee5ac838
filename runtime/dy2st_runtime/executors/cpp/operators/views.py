"""Views, which are no code, the copies that PyTorch makes instead, and the one element of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dy2st_runtime.executors.cpp import numbers
from dy2st_runtime.executors.cpp.operators.call import Call, register
from dy2st_runtime.executors.cpp.values import Number, Statement, Tensor, Unsupported, Value

VIEWS = frozenset({
    "view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "expand_as", "unsqueeze", "squeeze", "select",
    "slice", "narrow", "flatten", "unflatten", "alias", "detach", "unbind", "chunk", "split", "split_with_sizes", "view_as",
    "reshape_as", "contiguous", "movedim", "swapaxes", "swapdims", "diagonal", "broadcast_to", "tensor_split", "lift_fresh",
    "unfold",
})  # fmt: skip
"""Operators that give a view, or, where there can be none, a copy."""


def view(call: Call) -> Value:
    """Return a view; or a copy, where PyTorch makes one."""
    value = call["self"]
    more = None
    if call.name == "select" and isinstance(call["index"], Number):
        more = _selected(call, value, call["index"])
        call.arguments["index"] = 0
    for name, argument in call.arguments.items():
        if name != "self":
            call.arguments[name] = call.builder.constant(argument) if not isinstance(argument, Tensor) else argument
    result = call.meta()
    if isinstance(result, torch.Tensor):
        return _viewed(call, value, result, more)
    return tuple(_viewed(call, value, meta, None) for meta in result)


def _viewed(call: Call, value: Tensor, meta: torch.Tensor, more: Number | None) -> Tensor:
    if meta is value.meta:
        return value
    if meta.untyped_storage()._cdata == value.meta.untyped_storage()._cdata:
        return call.builder.view(value, meta, more)
    return copied(call, value, meta)


def copied(call: Call, value: Tensor, meta: torch.Tensor) -> Tensor:
    """Return a copy of a tensor's elements in order, in another shape."""
    builder = call.builder
    flat = Tensor(value.buffer, value.meta, value.item, value.dynamic, optional=value.optional)
    group = builder.group(value.shape, [flat])
    stride = meta.stride() if meta.shape == value.meta.shape else _contiguous(value.shape)
    shaped = torch.empty_strided(value.shape, stride, dtype=meta.dtype, device="meta")
    result = call.out(shaped, group)
    result.variable = builder.fresh("v")
    group.statements.append(Statement("{}", (builder.code(flat),), (result.ctype, result.variable), result))
    if shaped.shape == meta.shape:
        return result
    again = Tensor(result.buffer, shaped.view(meta.shape), result.item, roots=result.roots)
    return again


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(torch.empty(shape, device="meta").stride())


def _selected(call: Call, value: Tensor, index: Number) -> Number:
    """Return what a run-time index adds to the offset; outside of the tensor, the python executor raises."""
    dim = call.builder.constant(call["dim"])
    if not value.shape:
        raise Unsupported("select on a tensor without dimensions")
    size, step = value.shape[dim], value.meta.stride()[dim]
    check = f"if ({{0}} < -{size} || {{0}} >= {size}) return GIVE_UP;"
    return call.builder.number(int, f"({{0}} < 0 ? {{0}} + {size} : {{0}}) * {step}", [index], check)


@register("item", "_local_scalar_dense")
def _item(call: Call) -> Value:
    value = call["self"]
    return call.builder.number(numbers.item_kind(value), "{}", [value])
