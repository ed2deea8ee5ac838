"""The datatypes of the protocol: their tensors in bytes, in numbers of JSON, and back."""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from dy2st_runtime.ir.constants import dtype_name
from dy2st_runtime.serving.protocol.failures import BadRequestError, ModelError

DTYPES: dict[str, torch.dtype] = {
    "BOOL": torch.bool,
    "UINT8": torch.uint8,
    "UINT16": torch.uint16,
    "UINT32": torch.uint32,
    "UINT64": torch.uint64,
    "INT8": torch.int8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "FP16": torch.float16,
    "BF16": torch.bfloat16,
    "FP32": torch.float32,
    "FP64": torch.float64,
}
"""The datatypes of tensors. ``BYTES`` is that of texts, which are no tensors."""

TEXT = "BYTES"
NAMES = {dtype: name for name, dtype in DTYPES.items()}
COMPLEX = {torch.complex64: torch.float32, torch.complex128: torch.float64, torch.complex32: torch.float16}
"""Complex numbers are told as pairs of numbers, in one more dimension at the end."""

_MOST_DIMENSIONS = 32
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers that JSON does not have, as protocol buffers write them in JSON."""


@dataclasses.dataclass(frozen=True)
class Given:
    """A tensor of a request, as it came.

    Attributes:
        name, datatype, shape: as the client says.
        data: bytes in the memory of the server, a list of JSON, or a flat sequence of numbers or bytes.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytearray | memoryview | bytes | Sequence[Any]


def datatype_of(dtype: torch.dtype) -> str | None:
    """Return the datatype of tensors of a dtype; ``None`` where the protocol has none.

    Example:
        >>> datatype_of(torch.bfloat16), datatype_of(torch.complex64), datatype_of(torch.float8_e4m3fn)
        ('BF16', 'FP32', None)
    """
    return NAMES.get(COMPLEX.get(dtype, dtype))


def decode(given: Given) -> torch.Tensor | list[bytes]:
    """Return the tensor of a request; of ``BYTES``, the texts.

    Args:
        given: as it came; memory that may be written is used where it lies.

    Raises:
        BadRequestError: the data is not what datatype and shape say.

    Example:
        >>> decode(Given("x", "FP32", (2,), [1, 2.5]))
        tensor([1.0000, 2.5000])
        >>> decode(Given("x", "INT8", (1,), b"\\xff"))
        tensor([-1], dtype=torch.int8)
    """
    if given.datatype != TEXT and given.datatype not in DTYPES:
        known = ", ".join((*DTYPES, TEXT))
        raise BadRequestError(f"input {_quoted(given.name)} has datatype {_quoted(given.datatype)}; there are {known}")
    if len(given.shape) > _MOST_DIMENSIONS:
        raise BadRequestError(f"input {_quoted(given.name)} has {len(given.shape)} dimensions, more than {_MOST_DIMENSIONS}")
    count = math.prod(given.shape)
    if isinstance(given.data, (bytes, bytearray, memoryview)):
        return _of_bytes(given, count)
    values = _flattened(given)
    if len(values) != count:
        shape = list(given.shape)
        raise BadRequestError(f"input {_quoted(given.name)} of shape {shape} takes {count} values, but has {len(values)}")
    return _of_values(given, values)


def _of_bytes(given: Given, count: int) -> torch.Tensor | list[bytes]:
    if given.datatype == TEXT:
        return _split_texts(given, count)
    dtype, raw = DTYPES[given.datatype], given.data
    assert isinstance(raw, (bytes, bytearray, memoryview))
    if len(raw) != count * dtype.itemsize:
        raise BadRequestError(
            f"input {_quoted(given.name)} of {given.datatype}{list(given.shape)} takes {count * dtype.itemsize} bytes, "
            f"but has {len(raw)}"
        )
    if not count:
        return _shaped(torch.empty(0, dtype=dtype), given)
    if isinstance(raw, bytes) or memoryview(raw).readonly:
        raw = bytearray(raw)  # a program may write its arguments
    if dtype == torch.bool:
        numbers = torch.frombuffer(raw, dtype=torch.uint8)
        if int(numbers.max()) > 1:
            raise BadRequestError(f"input {_quoted(given.name)} is BOOL, whose bytes are 0 or 1, but has {int(numbers.max())}")
        return _shaped(numbers.view(torch.bool), given)
    tensor = torch.frombuffer(raw, dtype=dtype)
    return _shaped(tensor.clone() if tensor.data_ptr() % 16 else tensor, given)  # kernels may want it aligned


def _shaped(tensor: torch.Tensor, given: Given) -> torch.Tensor:
    try:
        return tensor.reshape(given.shape)
    except (RuntimeError, TypeError):
        raise BadRequestError(f"input {_quoted(given.name)} cannot have the shape {list(given.shape)}") from None


def _split_texts(given: Given, count: int) -> list[bytes]:
    """Return texts, each of which stands behind its length."""
    data, texts, place = bytes(given.data), list[bytes](), 0
    while place < len(data):
        size = struct.unpack_from("<I", data, place)[0] if place + 4 <= len(data) else len(data)
        if place + 4 + size > len(data):
            raise BadRequestError(f"input {_quoted(given.name)} is BYTES, and ends inside of its text {len(texts)}")
        texts.append(data[place + 4 : place + 4 + size])
        place += 4 + size
    if len(texts) != count:
        raise BadRequestError(f"input {_quoted(given.name)} of shape {list(given.shape)} takes {count} texts, but has {len(texts)}")
    return texts


def _flattened(given: Given) -> Sequence[Any]:
    """Return the values of nested lists, whose lengths are those of the shape, in one list."""
    values: Sequence[Any] = given.data
    if not values or type(values[0]) is not list:
        return values
    sizes = given.shape
    fits = bool(sizes) and len(values) == sizes[0]
    for size in sizes[1:] if fits else ():
        fits = all(type(item) is list and len(item) == size for item in values)
        if not fits:
            break
        values = [value for item in values for value in item]
    if not fits:
        raise BadRequestError(f"input {_quoted(given.name)}: its nested data has not the shape {list(sizes)}")
    return values


_WHOLE = frozenset({int})
_WANTED = {"BOOL": (frozenset({bool}), "true or false"), TEXT: (frozenset({str, bytes}), "texts")}
_REAL = (frozenset({int, float}), 'numbers, or "NaN", "Infinity", "-Infinity"')


def _of_values(given: Given, values: Sequence[Any]) -> torch.Tensor | list[bytes]:
    name, kinds = _quoted(given.name), set(map(type, values))
    dtype = DTYPES.get(given.datatype)
    is_float = dtype is not None and dtype.is_floating_point
    if is_float and str in kinds:
        values = [_SPECIAL.get(value, value) if type(value) is str else value for value in values]
        kinds = set(map(type, values))
    accepted, wanted = _WANTED.get(given.datatype, _REAL if is_float else (_WHOLE, "whole numbers"))
    if not kinds <= accepted:
        wrong = next(value for value in values if type(value) not in accepted)
        raise BadRequestError(f"input {name} is {given.datatype}, which takes {wanted}, but has {_told(wrong)}")
    if dtype is None:
        return [value.encode(errors="surrogatepass") if isinstance(value, str) else value for value in values]
    if not is_float and dtype != torch.bool and values:
        limits = torch.iinfo(dtype)
        if min(values) < limits.min or max(values) > limits.max:
            raise BadRequestError(f"input {name} is {given.datatype}, from {limits.min} to {limits.max}, and has a number outside")
    return _shaped(_from_numbers(values, dtype, name), given)


def _from_numbers(values: Sequence[Any], dtype: torch.dtype, name: str) -> torch.Tensor:
    try:
        if dtype in (torch.uint16, torch.uint32, torch.uint64):
            kind = np.dtype(dtype_name(dtype))
            return torch.from_numpy(np.array(values, kind))
        tensor = torch.tensor(values, dtype=dtype)
    except (OverflowError, RuntimeError, TypeError, ValueError):
        tensor = None
    if tensor is None or (dtype.is_floating_point and int(tensor.isfinite().sum()) != sum(map(math.isfinite, values))):
        raise BadRequestError(f"input {name} has a number that no {NAMES[dtype]} can be")
    return tensor


def _told(value: Any) -> str:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 40 else text[:40] + "…"


def _quoted(text: str) -> str:
    return _told(text)


@dataclasses.dataclass(frozen=True)
class Result:
    """A tensor of a response.

    Attributes:
        name: the way to it in what the model returns.
        datatype, shape: of the protocol.
        value: a dense tensor on the CPU, or a text.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    value: torch.Tensor | str

    def raw(self) -> bytes:
        """Return its bytes: numbers in the order of the machine, row by row; a text behind its length."""
        if isinstance(self.value, str):
            text = self.value.encode(errors="surrogatepass")
            return struct.pack("<I", len(text)) + text
        return _as_array(self.value).tobytes()

    def values(self) -> list[Any]:
        """Return its numbers in one list, as Python has them."""
        if isinstance(self.value, str):
            return [self.value]
        if self.datatype == "BF16":
            return list(self.value.float().flatten().tolist())
        return list(_as_array(self.value).ravel().tolist())

    def json_values(self) -> list[Any]:
        """Return its numbers as JSON has them: those that are not finite are texts."""
        values = self.values()
        if not isinstance(self.value, torch.Tensor) or not self.value.is_floating_point() or self.value.isfinite().all():
            return values
        return [value if math.isfinite(value) else _special(value) for value in values]


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.numpy()


def result_of(name: str, value: Any) -> Result:
    """Return one tensor, number or text of what a model returns; numbers and texts have the shape ``[1]``.

    Raises:
        ModelError: the protocol has no datatype for it.

    Example:
        >>> result_of("count", 3).datatype, result_of("count", 3).shape
        ('INT64', (1,))
    """
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        return _of_tensor(name, value.detach())
    if isinstance(value, str):
        return Result(name, TEXT, (1,), value)
    if isinstance(value, complex):
        return _of_tensor(name, torch.tensor([value], dtype=torch.complex128))
    if isinstance(value, (bool, int, float)):
        dtype = torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.float64
        try:
            return _of_tensor(name, torch.tensor([value], dtype=dtype))
        except (OverflowError, RuntimeError):
            raise ModelError(f"the model returned {name} = a number of more than 64 bits, which no datatype has") from None
    raise ModelError(f"the model returned {name} of {type(value).__name__}, which the protocol has no datatype for")


def _of_tensor(name: str, tensor: torch.Tensor) -> Result:
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise ModelError(f"the model returned {name} as a tensor of {tensor.layout}, which the protocol cannot tell")
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    datatype = NAMES.get(tensor.dtype)
    if datatype is None:
        raise ModelError(f"the model returned {name} as {dtype_name(tensor.dtype)}, which the protocol has no datatype for")
    return Result(name, datatype, tuple(tensor.shape), tensor.contiguous())
