"""Python constants as plain data, exactly: what comes back is equal, of the same type, and prints the same.

| value | JSON |
|---|---|
| ``None``, a bool, an int, a finite float | itself |
| ``inf``, ``nan`` | ``{"float": "inf"}`` |
| a string | ``{"str": "mean"}``; a bare string is left to the caller, for references |
| a list | an array |
| a tuple, a slice, a complex number | ``{"tuple": [...]}``, ``{"slice": [...]}``, ``{"complex": [real, imaginary]}`` |
| a dtype, device, layout, memory format | ``{"dtype": "float32"}``, ``{"device": "cuda:0"}`` … |
| a structure of containers | ``{"structure": ...}``, see :mod:`dy2st_runtime.ir.structure` |
| an exception class | ``{"exception": "ValueError"}``; a user's own also has its ``module`` and ``qualname`` |
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dy2st_runtime.errors import SaveError, TableError
from dy2st_runtime.ir.document import Json
from dy2st_runtime.ir.structure import Const
from dy2st_runtime.primitives.raising import Recipe, abstract

MAX_DEPTH = 64
"""How deeply constants and structures may be nested in an archive."""


def _torch_names(kind: type) -> dict[str, Any]:
    return {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, kind)}


_TORCH = {
    "dtype": _torch_names(torch.dtype),
    "layout": _torch_names(torch.layout),
    "memory_format": _torch_names(torch.memory_format),
}
DTYPES: dict[str, torch.dtype] = _TORCH["dtype"]
"""Every dtype by name."""


def dtype_name(dtype: torch.dtype) -> str:
    """Return ``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


Encode = Callable[[Any], Any]
Decode = Callable[[Json], Any]


def _no_reference(value: Any) -> Any:
    return None


def encode(value: Any, reference: Encode = _no_reference) -> Any:
    """Return a constant as plain data.

    Args:
        value: any value.
        reference: asked first about it and everything in it; gives what to write, or ``None`` for a constant.

    Raises:
        SaveError: the value only exists in this process.
    """
    referred = reference(value)
    if referred is not None:
        return referred
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is str:
        return {"str": value}
    return _encode_container(value, reference)


def _encode_container(value: Any, reference: Encode) -> Any:
    if isinstance(value, list):
        return [encode(item, reference) for item in value]
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return {"tuple": [encode(item, reference) for item in value]}
    if isinstance(value, slice):
        return {"slice": [encode(item, reference) for item in (value.start, value.stop, value.step)]}
    if type(value) is complex:
        return {"complex": [encode(value.real), encode(value.imag)]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if type(value) in _STRUCTURES:
        return {"structure": _STRUCTURES[type(value)](value)}
    for group, table in _TORCH.items():
        name = str(value).removeprefix("torch.") if isinstance(value, getattr(torch, group)) else None
        if name in table:
            return {group: name}
    kind = _exception_kind(value)
    if kind is not None:
        return _encode_exception(kind)
    value = value.value if isinstance(value, Const) else value
    what = f"the class {value.__qualname__}" if isinstance(value, type) else f"a value of type {type(value).__qualname__}"
    raise SaveError(f"{what} exists only in this process and cannot be written to an archive")


def _exception_kind(value: Any) -> type[Exception] | None:
    """Return the class of the exceptions that a program makes with a value."""
    if isinstance(value, Recipe) and not value.needs_only_args:
        what = f"a {value.kind.__qualname__} with attributes of its own"
        raise SaveError(f"{what} cannot be written to an archive; pass what it says to Exception.__init__ only")
    kind = value.kind if isinstance(value, Recipe) else value
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None


def _encode_exception(kind: type[Exception]) -> dict[str, str]:
    base = next(parent for parent in kind.__mro__ if parent.__module__ == "builtins")
    if base is kind:
        return {"exception": kind.__name__}
    return {"exception": base.__name__, "module": kind.__module__, "qualname": kind.__qualname__}


def _no_strings(json: Json) -> Any:
    json.fail("a constant")


def decode(json: Json, reference: Decode = _no_strings, depth: int = 0) -> Any:
    """Return the inverse of :func:`encode`; ``reference`` is asked about bare strings and about objects that are no constant.

    Raises:
        LoadError: it is no constant, with its place.
    """
    value = json.value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if depth > MAX_DEPTH:
        json.fail(f"at most {MAX_DEPTH} levels")

    def inner(item: Json) -> Any:
        return decode(item, reference, depth + 1)

    if isinstance(value, list):
        return [inner(item) for item in json.array()]
    kind = next(iter(value), "") if isinstance(value, dict) else ""
    if kind in _DECODERS:
        return _DECODERS[kind](json.field(kind), inner)
    if kind in _TORCH:
        return _TORCH[kind][json.field(kind).text(_TORCH[kind])]
    if kind == "exception":
        return _decode_exception(json)
    return reference(json)


def _decode_float(json: Json, inner: Decode) -> float:
    return float(json.text(("inf", "-inf", "nan")))


def _decode_tuple(json: Json, inner: Decode) -> tuple[Any, ...]:
    return tuple(inner(item) for item in json.array())


def _decode_slice(json: Json, inner: Decode) -> slice:
    return slice(*(inner(item) for item in json.array(3)))


def _decode_complex(json: Json, inner: Decode) -> complex:
    parts = [inner(item) for item in json.array(2)]
    if not all(isinstance(part, float) for part in parts):
        json.fail("two numbers")
    return complex(*parts)


def device(json: Json) -> torch.device:
    """Return a device by its name.

    Raises:
        LoadError: there is no such kind of device.
    """
    try:
        return torch.device(json.text())
    except RuntimeError:
        json.fail("a device")


def _decode_text(json: Json, inner: Decode) -> str:
    return json.value if isinstance(json.value, str) else json.text()  # a constant may hold any character


_DECODERS: dict[str, Callable[[Json, Decode], Any]] = {
    "float": _decode_float,
    "str": _decode_text,
    "tuple": _decode_tuple,
    "slice": _decode_slice,
    "complex": _decode_complex,
    "device": lambda json, inner: device(json),
}


_STRUCTURES: dict[type, Encode] = {}


def hold_structures(kinds: Iterable[type], encode: Encode, decode: Callable[[Json, int], Any]) -> None:
    """Have constants hold structures, whose module is built on this one."""
    _STRUCTURES.update((kind, encode) for kind in kinds)
    _DECODERS["structure"] = lambda json, inner: decode(json, 0)


def _decode_exception(json: Json) -> type[Exception]:
    name = json.field("exception")
    base = getattr(builtins, name.text(), None)
    if not (isinstance(base, type) and issubclass(base, Exception)):
        name.fail("the name of a built-in exception")
    if json.optional("qualname") is None:
        return base
    return _exception_class(name.text(), json.field("module").text(), json.field("qualname").text())


_THEMSELVES: dict[tuple[str, str], type[Exception]] = {
    (kind.__module__, kind.__qualname__): kind
    for kind in (torch.linalg.LinAlgError, torch.OutOfMemoryError, TableError)  # type: ignore[attr-defined]  # an alias
}


@functools.lru_cache(maxsize=256)
def _exception_class(base: str, module: str, qualname: str) -> type[Exception]:
    """Return an abstract value for a user's exception class, the same one at each load; one of torch or of ours is itself."""
    return _THEMSELVES.get((module, qualname)) or abstract(getattr(builtins, base), module, qualname)
