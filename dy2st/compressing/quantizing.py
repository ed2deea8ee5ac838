"""Weights as small integers with scales: ``w = q * scale``, rounded to the nearest, symmetric about zero.

int8 has a scale for each channel. int4 has one for each group of 32 numbers of a row, and two numbers in a byte: the first half of
the row in the low bits, the second in the high ones. A product with int8 weights is scaled afterwards, channel by channel, which
costs less than scaling the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from dy2st.compressing.forms import Form, Writer, aten, stored
from dy2st.compressing.weights import Weight, candidates
from dy2st_runtime.archive.archive import Model
from dy2st_runtime.errors import SaveError
from dy2st_runtime.ir.value_types import tensor_type

_SCALED_AFTERWARDS = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
"""Dtypes in which a sum of products with integers of eight bits is as far from overflowing as one with the weights."""
_LARGEST_GROUP = 32


def quantized(model: Model, to: str) -> tuple[Model, list[str], dict[str, str]]:
    """Return a model whose weights are integers.

    Args:
        model: what an archive holds.
        to: ``"int8"`` or ``"int4"``; a weight whose rows cannot be halved becomes int8 all the same.

    Returns:
        The model, the names of these weights, and why others are left alone.

    Raises:
        SaveError: there are none.
    """
    weights, left = candidates(model)
    if not weights:
        raise no_weights(left)
    forms = {weight.entry.name: _form(weight, to) for weight in weights}
    return stored(model, forms, {"weights": to}), list(forms), left


def no_weights(left: dict[str, str]) -> SaveError:
    """Return the error for a model without weights that may be stored otherwise."""
    reasons = "; ".join(f"{name}: {reason}" for name, reason in list(left.items())[:5])
    return SaveError(
        f"there are no weights of at least 1024 numbers that could be stored otherwise{f' ({reasons})' if left else ''}"
    )


def _form(weight: Weight, to: str) -> Form:
    if to == "int4" and _row(weight.value) % 2 == 0:
        return Int4(weight.value)
    return Int8(weight)


def _row(value: torch.Tensor) -> int:
    return value.numel() // value.shape[0]


def _scale(largest: torch.Tensor, top: int, dtype: torch.dtype) -> torch.Tensor:
    """Return scales that take the largest numbers to the top; those of zeros are one."""
    scale = (largest / top).to(dtype)
    smallest = torch.finfo(dtype).smallest_normal
    return torch.where(largest == 0, torch.ones_like(scale), scale.clamp(min=smallest)).contiguous()


class Int8(Form):
    """One scale for each channel."""

    def __init__(self, weight: Weight) -> None:
        value = weight.value
        kept = {dim % value.dim() for dim in weight.kept}
        largest = value.double().abs().amax([dim for dim in range(value.dim()) if dim not in kept], keepdim=True)
        scale = _scale(largest, 127, value.dtype)
        numbers = (value.double() / scale.double()).round().clamp(-127, 127).to(torch.int8).contiguous()
        super().__init__(value, {"int8": numbers, "scale": scale})
        self.by_row = kept == {0}

    def whole(self, writer: Writer, parts: Sequence[fx.Node]) -> fx.Node:
        """Write ``q * scale``."""
        return writer(aten.mul.Tensor, parts[0], parts[1])

    def rows(self, writer: Writer, parts: Sequence[fx.Node], index: Any, type_: str) -> fx.Node | None:
        """Look numbers and scales up."""
        if not self.by_row:
            return None
        sizes = type_[type_.index("[") :]
        numbers = writer(aten.embedding.default, parts[0], index, type_=f"i8{sizes}")
        scale = writer(aten.embedding.default, parts[1], index, type_=f"{type_[: type_.rindex(',')]}, 1]")
        return writer(aten.mul.Tensor, numbers, scale, type_=type_)

    def linear(self, writer: Writer, parts: Sequence[fx.Node], args: Sequence[Any], type_: str) -> fx.Node | None:
        """Scale the product."""
        given = tensor_type(args[0])
        if not self.by_row or given is None or _SCALED_AFTERWARDS.get(given[0]) is not self.dtype:
            return None
        numbers = writer(aten._to_copy.default, parts[0], dtype=self.dtype)
        scale = writer(aten.squeeze.dim, parts[1], 1)
        result = writer(aten.linear.default, args[0], numbers, type_=type_)
        result = writer(aten.mul.Tensor, result, scale, type_=type_)
        return result if len(args) < 3 or args[2] is None else writer(aten.add.Tensor, result, args[2], type_=type_)


class Int4(Form):
    """One scale for each group of a row, two numbers in a byte."""

    def __init__(self, value: torch.Tensor) -> None:
        rows = value.reshape(value.shape[0], -1).double()
        self.group = next(size for size in (*range(_LARGEST_GROUP, 7, -1), rows.shape[1]) if rows.shape[1] % size == 0)
        groups = rows.reshape(rows.shape[0], -1, self.group)
        scale = _scale(groups.abs().amax(-1, keepdim=True), 7, value.dtype)
        numbers = ((groups / scale.double()).round().clamp(-8, 7) + 8).to(torch.uint8).reshape(rows.shape)
        low, high = numbers.chunk(2, 1)
        super().__init__(value, {"int4": (low | (high << 4)).contiguous(), "scale": scale})

    def whole(self, writer: Writer, parts: Sequence[fx.Node]) -> fx.Node:
        """Take the bytes apart."""
        low = writer(aten.bitwise_and.Scalar, parts[0], 15)
        high = writer(aten.bitwise_right_shift.Tensor_Scalar, parts[0], 4)
        numbers = writer(aten._to_copy.default, writer(aten.cat.default, [low, high], 1), dtype=torch.int8)
        groups = writer(aten.view.default, writer(aten.sub.Scalar, numbers, 8), [self.shape[0], -1, self.group])
        return writer(aten.view.default, writer(aten.mul.Tensor, groups, parts[1]), list(self.shape))

    def rows(self, writer: Writer, parts: Sequence[fx.Node], index: Any, type_: str) -> fx.Node | None:
        """Take the bytes of these rows apart."""
        if len(self.shape) != 2:
            return None
        dtype, _, sizes = type_.rstrip("]").partition("[")
        outer = sizes.rpartition(", ")[0]
        count = math.prod(self.shape[1:])

        def text(kind: str, *last: int) -> str:
            return f"{kind}[{', '.join([outer, *map(str, last)])}]"

        packed = writer(aten.embedding.default, parts[0], index, type_=text("u8", count // 2))
        low = writer(aten.bitwise_and.Scalar, packed, 15, type_=text("u8", count // 2))
        high = writer(aten.bitwise_right_shift.Tensor_Scalar, packed, 4, type_=text("u8", count // 2))
        numbers = writer(aten.cat.default, [low, high], -1, type_=text("u8", count))
        numbers = writer(aten._to_copy.default, numbers, dtype=torch.int8, type_=text("i8", count))
        numbers = writer(aten.sub.Scalar, numbers, 8, type_=text("i8", count))
        groups = writer(aten.unflatten.int, numbers, -1, [-1, self.group], type_=text("i8", count // self.group, self.group))
        flat = writer(aten.squeeze.dim, parts[1], 2)
        scale = writer(aten.embedding.default, flat, index, type_=text(dtype, count // self.group))
        scale = writer(aten.unsqueeze.default, scale, -1, type_=text(dtype, count // self.group, 1))
        result = writer(aten.mul.Tensor, groups, scale, type_=text(dtype, count // self.group, self.group))
        return writer(aten.flatten.using_ints, result, -2, -1, type_=type_)
