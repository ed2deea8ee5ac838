"""Tensors on their way into a file and out of it: which of them share memory, and how they lie in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from dy2st_runtime.errors import SaveError
from dy2st_runtime.ir.document import Json

_Place = dict[str, Any]


def pack(tensors: Mapping[str, torch.Tensor]) -> tuple[dict[str, _Place], dict[str, torch.Tensor]]:
    """Prepare tensors for storage.

    Args:
        tensors: different tensor objects by name.

    Returns:
        For each tensor its place: ``tensor``, the name of what is stored, and ``shape``, ``stride`` and ``offset``
        where it is not simply that. And what is stored: contiguous, on the CPU, none sharing memory with another.

    Raises:
        SaveError: a tensor is of a kind that a file cannot hold.
    """
    for name, tensor in tensors.items():
        _check(name, tensor)
    places: dict[str, _Place] = {}
    stored: dict[str, torch.Tensor] = {}
    for group in _overlapping(tensors):
        key = group[0]
        tensor = tensors[key].detach()
        if len(group) == 1 and (tensor.is_contiguous() or _has_gaps(tensor)):
            stored[key] = tensor.resolve_conj().resolve_neg().cpu().contiguous()
            places[key] = {"tensor": key}
            continue
        if len({tensors[name].dtype for name in group}) > 1:
            raise SaveError(f"{' and '.join(group)} share memory but have different dtypes")
        start = min(_extent(tensors[name])[0] for name in group)
        end = max(_extent(tensors[name])[1] for name in group)
        stored[key] = tensor.as_strided((end - start,), (1,), start).cpu().contiguous()
        for name in group:
            places[name] = {"tensor": key, **_geometry(tensors[name], start)}
    return places, stored


def _check(name: str, tensor: torch.Tensor) -> None:
    if type(tensor) not in (torch.Tensor, nn.Parameter):
        raise SaveError(f"{name} is a {type(tensor).__qualname__}; an archive holds plain tensors only")
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        kind = "quantized" if tensor.is_quantized else "meta" if tensor.device.type == "meta" else str(tensor.layout)
        raise SaveError(f"{name} is a {kind} tensor; an archive holds dense tensors only")
    if tensor.dtype is torch.complex128:
        raise SaveError(f"{name} is a complex128 tensor, which the safetensors format does not have")


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the range of the storage, in elements, that a tensor reaches into."""
    start = int(tensor.storage_offset())
    if tensor.numel() == 0:
        return start, start
    return start, start + 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def _has_gaps(tensor: torch.Tensor) -> bool:
    start, end = _extent(tensor)
    return end - start > tensor.numel()


def _overlapping(tensors: Mapping[str, torch.Tensor]) -> list[list[str]]:
    """Return the names in groups that share memory, groups and names in the order given."""
    order = {name: number for number, name in enumerate(tensors)}
    ranges = []
    for name, tensor in tensors.items():
        start, end = (bound * tensor.element_size() for bound in _extent(tensor))
        ranges.append((str(tensor.device), tensor.untyped_storage().data_ptr(), start, end, name))
    groups: list[list[str]] = []
    reached: tuple[str, int, int] = ("", 0, 0)
    for device, storage, start, end, name in sorted(ranges):
        if end > start and reached[:2] == (device, storage) and start < reached[2]:
            groups[-1].append(name)
            reached = (device, storage, max(end, reached[2]))
            continue
        groups.append([name])
        if end > start:
            reached = (device, storage, end)
    for group in groups:
        group.sort(key=order.__getitem__)
    return sorted(groups, key=lambda group: order[group[0]])


def _geometry(tensor: torch.Tensor, start: int) -> _Place:
    if tensor.is_conj() or tensor.is_neg():
        raise SaveError("a conjugate view shares memory with another tensor of the state")
    return {"shape": list(tensor.shape), "stride": list(tensor.stride()), "offset": tensor.storage_offset() - start}


def unpack(json: Json, stored: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the tensor at a place; those of one stored tensor share its memory.

    Raises:
        LoadError: there is nothing at that place.
    """
    key = json.field("tensor")
    if key.text() not in stored:
        key.fail("the name of a stored tensor")
    base = stored[key.value]
    if json.optional("shape") is None:
        return base
    shape, stride = _numbers(json.field("shape")), _numbers(json.field("stride"))
    offset = json.field("offset").integer(0)
    if len(shape) != len(stride):
        json.field("stride").fail("as many numbers as the shape has")
    reach = sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) if all(shape) else -1
    if offset + reach >= base.numel() or max(math.prod(shape), *shape, *stride, 0) >= 1 << 62:
        json.fail("a place inside the stored tensor")
    return torch.empty(0, dtype=base.dtype).set_(base.untyped_storage(), base.storage_offset() + offset, shape, stride)


def _numbers(json: Json) -> Sequence[int]:
    return [size.integer(0) for size in json.array()]
