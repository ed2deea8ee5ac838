"""Weights of which the smallest numbers are zero, and how the others are stored alone: in order, with a bit for each place."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import fx

from dy2st.compressing.forms import Form, Writer, aten, stored
from dy2st.compressing.quantizing import no_weights
from dy2st.compressing.weights import candidates
from dy2st_runtime.archive.archive import Model
from dy2st_runtime.errors import SaveError


def pruned(model: Model, sparsity: float, pattern: str, compact: bool) -> tuple[Model, list[str], dict[str, str]]:
    """Return a model whose smallest weights are zero.

    Args:
        model: what an archive holds.
        sparsity: which part of each weight becomes zero.
        pattern: ``"unstructured"``, or ``"2:4"`` for two of each four numbers that follow each other in a row.
        compact: whether only the numbers that are left are stored; the program puts them in their places at each call.

    Returns:
        The model, the names of these weights, and why others are left alone.

    Raises:
        SaveError: there are none, or the sparsity is not one that the pattern has.
    """
    if not 0 < sparsity < 1:
        raise SaveError(f"the sparsity is a number between 0 and 1, not {sparsity:g}")
    if pattern == "2:4" and sparsity != 0.5:
        raise SaveError(f"2:4 makes half of the numbers zero: the sparsity is 0.5, not {sparsity:g}")
    weights, left = candidates(model)
    values = {}
    for weight in weights:
        if pattern == "2:4" and weight.value.numel() // weight.value.shape[0] % 4:
            left[weight.entry.name] = "its rows cannot be divided by four"
        else:
            values[weight.entry.name] = _by_fours(weight.value) if pattern == "2:4" else _smallest(weight.value, sparsity)
    if not values:
        raise no_weights(left)
    about = {"pruned": f"{sparsity:g} {pattern}"}
    if compact:
        return stored(model, {name: Sparse(value) for name, value in values.items()}, about), list(values), left
    state = []
    for entry in model.state:
        if entry.name in values:
            value = values[entry.name]
            like = torch.nn.Parameter(value, entry.value.requires_grad) if entry.kind == "parameter" else value
            entry = dataclasses.replace(entry, value=like)
        state.append(entry)
    return dataclasses.replace(model, state=tuple(state), about={**model.about, **about}), list(values), left


def _smallest(value: torch.Tensor, sparsity: float) -> torch.Tensor:
    flat = value.abs().flatten()
    result = value.flatten().clone()
    result[flat.sort(stable=True).indices[: int(sparsity * flat.numel())]] = 0
    return result.reshape(value.shape)


def _by_fours(value: torch.Tensor) -> torch.Tensor:
    fours = value.reshape(-1, 4)
    order = fours.abs().sort(dim=1, stable=True).indices
    return fours.scatter(1, order[:, :2], 0).reshape(value.shape)


class Sparse(Form):
    """The numbers that are not zero, and a bit for each place, eight in a byte, the lowest first."""

    def __init__(self, value: torch.Tensor) -> None:
        places = value != 0
        bits = torch.nn.functional.pad(places.flatten().to(torch.uint8), (0, -value.numel() % 8)).reshape(-1, 8)
        packed = (bits << torch.arange(8, dtype=torch.uint8)).sum(1, dtype=torch.uint8)
        super().__init__(value, {"bits": packed, "values": value[places]})

    def whole(self, writer: Writer, parts: Sequence[fx.Node]) -> fx.Node:
        """Put the numbers in their places."""
        count = torch.Size(self.shape).numel()
        shifts = writer(aten.arange.default, 8, dtype=torch.uint8, device=torch.device("cpu"), type_="u8[8]")
        writer.shaped([shifts], [torch.empty(8, dtype=torch.uint8)])
        bits = writer(aten.bitwise_right_shift.Tensor, writer(aten.unsqueeze.default, parts[0], 1), shifts)
        bits = writer(aten._to_copy.default, writer(aten.bitwise_and.Scalar, bits, 1), dtype=torch.bool)
        places = writer(aten.slice.Tensor, writer(aten.view.default, bits, [-1]), 0, 0, count)
        zeros = writer(aten.new_zeros.default, parts[1], [count])
        return writer(aten.view.default, writer(aten.masked_scatter.default, zeros, places, parts[1]), list(self.shape))
