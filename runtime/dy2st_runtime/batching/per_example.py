"""Operators that are told a number for each example, where a tensor of numbers does the same; and those that draw."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from dy2st_runtime.batching import streams
from dy2st_runtime.batching.plans import Step
from dy2st_runtime.batching.values import Numbers, Ragged, Stacked

Rule = Callable[[Step, Sequence[Any], int], Any]
_aten = torch.ops.aten

_TENSORS = {"add", "sub", "mul", "div", "lt", "le", "gt", "ge", "eq", "ne", "remainder", "fmod", "rsub"}
"""Give the same for a number as for a tensor of it, element by element."""
_EXACT = (torch.float32, torch.float64, torch.int64, torch.int32, torch.bool)
"""Dtypes whose operators see a number in that very dtype; others compute in a larger one."""


def with_tensors(step: Step, values: Sequence[Any]) -> Sequence[Any]:
    """Return what an operator reads with tensors in the place of numbers, where that is the same; else as it is."""
    name = step.target.overloadpacket.__name__
    if name not in _TENSORS or step.target._schema.is_mutable or any(type(value) is Ragged for value in values):
        return values
    args, kwargs = step.build(values)
    if kwargs or len(args) != 2:
        return values
    dtype = next((value.tensor.dtype for value in args if type(value) is Stacked), None)
    dtype = dtype or next((value.dtype for value in args if isinstance(value, torch.Tensor)), None)
    if dtype not in _EXACT:
        return values
    return [Stacked(_tensor(value, dtype)) if type(value) is Numbers else value for value in values]


def function_of(step: Step) -> Callable[..., Any]:
    """Return what to call with tensors in the place of numbers."""
    packet = step.target.overloadpacket
    return packet.Tensor if "Tensor" in packet.overloads() and step.target._overloadname == "Scalar" else step.function


def _tensor(value: Numbers, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers as an operator would see them beside a tensor of a dtype."""
    result = torch.from_numpy(value.array)
    if value.array.dtype == np.float64:
        return result.to(dtype if dtype.is_floating_point else torch.get_default_dtype())
    return result if dtype is torch.bool or value.array.dtype == np.bool_ else result.to(dtype)


def _full(step: Step, values: Sequence[Any], count: int) -> Any:
    args, kwargs = step.build(values)
    size, number = (args[0], args[1]) if step.target is _aten.full.default else ((), args[0])
    if type(number) is not Numbers or not all(type(part) is int for part in size):
        return None
    kinds = {np.dtype(np.float64): torch.get_default_dtype(), np.dtype(np.int64): torch.int64, np.dtype(np.bool_): torch.bool}
    default = torch.get_default_dtype() if step.target is _aten.scalar_tensor.default else kinds[number.array.dtype]
    tensor = torch.from_numpy(number.array).to(device=kwargs.get("device"), dtype=kwargs.get("dtype") or default)
    return Stacked(tensor.reshape(count, *[1] * len(size)).expand(count, *size).clone())


def _select(step: Step, values: Sequence[Any], count: int) -> Any:
    args, _ = step.build(values)
    if len(args) != 3:
        return None
    source, dim, index = args
    if type(index) is not Numbers or type(dim) is not int or index.array.dtype != np.int64:
        return None
    shape = source.tensor.shape[1:] if type(source) is Stacked else getattr(source, "shape", None)
    if shape is None or not -len(shape) <= dim < len(shape):
        return None
    size, dim = shape[dim], dim % len(shape)
    if not bool(((index.array >= -size) & (index.array < size)).all()):
        return None
    rows = torch.from_numpy(index.array)
    if type(source) is Stacked:
        return Stacked(source.tensor.movedim(dim + 1, 1)[torch.arange(count), rows])
    return Stacked(source.movedim(dim, 0)[rows])


_TYPES = {torch.bool: np.bool_, torch.int64: np.int64, torch.float64: np.float64}
_READ = {torch.int32: torch.int64, torch.float32: torch.float64, torch.int16: torch.int64, torch.bfloat16: torch.float64}


def as_numbers(value: Any) -> Any:
    """Return the numbers that a function takes out of tensors with one element, where that is what it does."""
    if type(value) is not Stacked or value.tensor[0].numel() != 1:
        return value
    tensor = value.tensor.detach().reshape(-1)
    tensor = tensor.to(_READ.get(tensor.dtype, tensor.dtype))
    return Numbers(tensor.cpu().numpy()) if tensor.dtype in _TYPES else value


def _item(step: Step, values: Sequence[Any], count: int) -> Any:
    result = as_numbers(values[0])
    return result if type(result) is Numbers else None


RULES: dict[Any, Rule] = {
    _aten.full.default: _full,
    _aten.scalar_tensor.default: _full,
    _aten.select.int: _select,
    _aten.item.default: _item,
    _aten._local_scalar_dense.default: _item,
}
"""By operator, what does it for all examples; gives ``None`` where it does not apply."""


# -- random numbers ----------------------------------------------------------------------------------------------------------


def _uniform(examples: Any, shape: Sequence[int]) -> torch.Tensor:
    bits = examples.streams.bits(examples.ids, int(np.prod(shape)))
    return streams.uniform(bits, torch.float64).reshape(len(examples), *shape)


def _bernoulli(step: Step, values: Sequence[Any], examples: Any) -> Any:
    args, kwargs = step.build(values)
    value = args[0]
    if type(value) is not Stacked or kwargs or value.tensor.device.type != "cpu" or not value.tensor.is_contiguous():
        return None
    tensor = value.tensor.detach()
    if len(args) == 2:
        if type(args[1]) is not float or not 0 <= args[1] <= 1:
            return None
        return Stacked((_uniform(examples, tensor.shape[1:]) < args[1]).to(tensor.dtype))
    if not bool(((tensor >= 0) & (tensor <= 1)).all()):
        return None
    return Stacked((_uniform(examples, tensor.shape[1:]) < tensor).to(tensor.dtype))


def _multinomial(step: Step, values: Sequence[Any], examples: Any) -> Any:
    args, kwargs = step.build(values)
    weights = args[0]
    if type(weights) is not Stacked or kwargs or args[1:2] != (1,) or weights.tensor.device.type != "cpu":
        return None
    tensor = weights.tensor.detach().double()
    if not bool((tensor.isfinite() & (tensor >= 0)).all() and (tensor.sum(-1) > 0).all()):
        return None
    waits = -torch.log1p(-_uniform(examples, tensor.shape[1:]))
    return Stacked((tensor / waits).argmax(-1, keepdim=True))


def _dropout(step: Step, values: Sequence[Any], examples: Any) -> Any:
    args, kwargs = step.build(values)
    if kwargs or len(args) != 3 or type(args[0]) is not Stacked or type(args[1]) is not float or type(args[2]) is not bool:
        return None
    tensor, share, is_training = args[0].tensor, args[1], args[2]
    if not is_training or share == 0:
        return args[0]
    if not 0 <= share < 1:
        return None
    kept = (_uniform(examples, tensor.shape[1:]) >= share).to(tensor.dtype).to(tensor.device)
    return Stacked(tensor * (kept / (1 - share)))


DRAWN: dict[Any, Callable[[Step, Sequence[Any], Any], Any]] = {
    _aten.bernoulli.default: _bernoulli,
    _aten.bernoulli.p: _bernoulli,
    _aten.multinomial.default: _multinomial,
    _aten.dropout.default: _dropout,
}
"""By operator, what draws for all examples; gives ``None`` where they have to draw one by one."""


def replaced(step: Step, values: Sequence[Any]) -> tuple[Step, Sequence[Any]]:
    """Return an operator that takes tensors in the place of numbers, and what it reads then; itself where that is not the same."""
    changed = with_tensors(step, values)
    return (step, values) if changed is values else (dataclasses.replace(step, function=function_of(step)), changed)
