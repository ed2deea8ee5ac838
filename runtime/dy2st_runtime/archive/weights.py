"""The tensors of an archive as a safetensors file, read in place.

A safetensors file is a length, a JSON header and the data of all tensors without a gap. Tensors whose size is a multiple of
64 bytes come first, so that each of them starts at such a multiple: these are used where they lie in the file, which is
mapped into memory copy-on-write. The others, small ones as a rule, are copied to memory of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from dy2st_runtime.archive.container import ALIGNMENT, Part
from dy2st_runtime.errors import LoadError, SaveError
from dy2st_runtime.ir.document import Json, dump, parse

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2, "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_LENGTH = 8
_LONGEST_HEADER = 100_000_000
"""The limit of the safetensors library."""


def save(tensors: Mapping[str, torch.Tensor]) -> tuple[Part, ...]:
    """Return a safetensors file, in parts; the data is not copied.

    Args:
        tensors: contiguous tensors on the CPU that share no memory.

    Raises:
        SaveError: a tensor has a dtype that the format does not have.
    """
    header: dict[str, Any] = {}
    parts: list[Part] = []
    position = 0
    for name in sorted(tensors, key=lambda name: (tensors[name].nbytes % ALIGNMENT != 0, -tensors[name].itemsize, name)):
        tensor = tensors[name]
        if tensor.dtype not in _NAMES:
            raise SaveError(
                f"{name} is a {str(tensor.dtype).removeprefix('torch.')} tensor, which the safetensors format does not have"
            )
        end = position + tensor.nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [position, end]}
        if tensor.nbytes:
            parts.append(tensor.detach().reshape(-1).view(torch.uint8).numpy().data)
        position = end
    text = dump(header)
    text += b" " * (-(_LENGTH + len(text)) % ALIGNMENT)
    return (len(text).to_bytes(_LENGTH, "little") + text, *parts)


def load(data: memoryview, name: str, *, copy: bool) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file.

    Args:
        data: the file; writable, unless it is copied.
        name: what messages call it.
        copy: whether every tensor gets memory of its own; otherwise those that lie at multiples of 64 bytes share ``data``.

    Raises:
        LoadError: it is no such file; sizes are checked before any memory is taken.
    """
    length = int.from_bytes(data[:_LENGTH], "little")
    if len(data) < _LENGTH or length > min(len(data) - _LENGTH, _LONGEST_HEADER):
        raise LoadError(f"{name} is not a safetensors file: its header does not fit its length")
    start = _LENGTH + length
    entries = sorted(_entries(parse(bytes(data[_LENGTH:start]), name)), key=lambda entry: entry[3:5])
    position = 0
    for _, _, _, begin, end, place in entries:
        if begin != position:
            place.fail(f"data that starts at {position}")
        position = end
    if start + position != len(data):
        raise LoadError(f"{name} is not a safetensors file: its tensors need {position} bytes, it has {len(data) - start}")
    return {key: _tensor(data, dtype, shape, start + begin, copy) for key, dtype, shape, begin, _, _ in entries}


def _entries(header: Json) -> Iterator[tuple[str, torch.dtype, list[int], int, int, Json]]:
    for key, entry in header.fields().items():
        if key == "__metadata__":
            continue
        dtype = DTYPES[entry.field("dtype").text(DTYPES)]
        shape = [size.integer(0) for size in entry.field("shape").array()]
        offsets = entry.field("data_offsets")
        begin, end = (bound.integer(0) for bound in offsets.array(2))
        if math.prod(shape) * dtype.itemsize != end - begin or max(shape, default=0) >= 1 << 62:
            offsets.fail(f"{math.prod(shape) * dtype.itemsize} bytes, as the shape says")
        yield key, dtype, shape, begin, end, offsets


def _tensor(data: memoryview, dtype: torch.dtype, shape: list[int], start: int, copy: bool) -> torch.Tensor:
    count = math.prod(shape)
    if not count:
        return torch.empty(shape, dtype=dtype)
    aligned = start % ALIGNMENT == 0
    if not copy and aligned:
        return torch.frombuffer(data, dtype=dtype, count=count, offset=start).reshape(shape)
    result = torch.empty(shape, dtype=dtype)
    result.reshape(-1).view(torch.uint8).numpy().data[:] = data[start : start + result.nbytes]
    return result
