"""Calls of NumPy as operators: what is called and how is a text, the arrays are tensors.

| operator | does |
|---|---|
| ``call(text, operands)`` | calls a function, and gives the arrays and numbers of the result in order, as tensors |
| ``draw(text, operands)`` | the same, of one that draws of NumPy's own generator |
| ``write(text, target, operands)`` | calls one that changes its first argument |
| ``memory(tensor)`` | gives the memory of a tensor for an array, if it requires no gradient |

The text is JSON: ``[name, arguments, arguments by name, result]``. A tensor is handed over as an array in
the same memory; what is given is checked to be of the kinds that ``result`` names.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from dy2st_runtime.arrays.functions import drawing_functions, functions, writing_functions

NAMESPACE = "dy2st_numpy"
_library = torch.library.Library(NAMESPACE, "DEF")


class OtherKindError(TypeError):
    """NumPy gives something of another kind than the call that was captured gave."""


# -- operands and arguments ----------------------------------------------------------------------------------------------------

ROLES = ("array", "scalar", "number", "tensor")
"""What a tensor is handed over as: an array, one of NumPy's numbers, one of Python's, itself."""


def operand(index: int, role: str, flips: Sequence[int] = ()) -> dict[str, Any]:
    """Return how an argument of a call names an operand.

    Args:
        index: which of the operands.
        role: one of :data:`ROLES`.
        flips: the dimensions in which the array runs backwards.
    """
    return {"operand": index, "as": role} | ({"flips": list(flips)} if flips else {})


def encoded(value: Any) -> Any:
    """Return a constant argument as JSON has it.

    Raises:
        TypeError: it is none that a text can hold.

    Example:
        >>> encoded((1, slice(None, 2), np.dtype("float32")))
        {'tuple': [1, {'slice': [None, 2, None]}, {'dtype': '<f4'}]}
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [encoded(item) for item in value]
    match value:
        case tuple():
            return {"tuple": [encoded(item) for item in value]}
        case complex():
            return {"complex": [value.real, value.imag]}
        case slice():
            return {"slice": [encoded(value.start), encoded(value.stop), encoded(value.step)]}
        case np.dtype() if not value.hasobject and value.names is None:
            return {"dtype": value.str}
        case np.generic() if value.dtype.kind in "biufc":
            return {"generic": [value.dtype.str, value.tobytes().hex()]}
    if value is Ellipsis:
        return {"ellipsis": True}
    name = next((name for name, kind in _kinds().items() if kind is value), None)
    if name is None:
        raise TypeError(f"NumPy gets {value!r}")
    return {"class": name}


@functools.cache
def _kinds() -> dict[str, Any]:
    """Return the classes that stand for a dtype, by name."""
    return {"bool": bool, "int": int, "float": float, "complex": complex} | {
        name: kind for name, kind in functions().items() if isinstance(kind, type) and issubclass(kind, np.generic)
    }


_DECODED: dict[str, Callable[[Any], Any]] = {
    "complex": lambda parts: complex(*parts),
    "dtype": np.dtype,
    "generic": lambda parts: np.frombuffer(bytes.fromhex(parts[1]), np.dtype(parts[0]))[0],
    "ellipsis": lambda _: Ellipsis,
    "class": lambda name: _kinds()[name],
}


def _decoded(tree: Any, operands: Sequence[torch.Tensor]) -> Any:
    """Return an argument."""
    if isinstance(tree, list):
        return [_decoded(item, operands) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "operand" in tree:
        return _as(operands[tree["operand"]], tree["as"], tree.get("flips", ()))
    ((kind, inside),) = tree.items()
    if kind == "tuple":
        return tuple(_decoded(item, operands) for item in inside)
    if kind == "slice":
        return slice(*(_decoded(item, operands) for item in inside))
    return _DECODED[kind](inside)


def _as(tensor: torch.Tensor, role: str, flips: Sequence[int] = ()) -> Any:
    match role:
        case "array":
            return as_array(tensor, flips)
        case "scalar":
            return as_array(tensor)[()]
        case "number":
            return tensor.item()
    return tensor


def as_array(tensor: torch.Tensor, flips: Sequence[int] = ()) -> Any:
    """Return the array in the memory of a tensor, backwards in some dimensions."""
    array = tensor.detach().numpy()
    return np.flip(array, tuple(flips)) if flips else array


def share_memory(array: Any, *others: Any) -> bool:
    """Tell whether an array has a part in the memory of another one, or of a tensor that stands for one."""
    arrays = [value.numpy() if type(value) is torch.Tensor else value for value in (array, *others)]
    return any(isinstance(other, np.ndarray) and np.may_share_memory(arrays[0], other) for other in arrays[1:])


def in_memory(array: Any) -> torch.Tensor | None:
    """Return a tensor in the memory of an array; ``None`` for anything else, and where torch has none.

    It has none of objects, text and dates, of another byte order, of arrays that run backwards; and it knows no tensor that may
    not be written. Those of views of one array begin in one memory.

    Args:
        array: any value.
    """
    if type(array) is not np.ndarray or not array.flags.writeable:
        return None
    try:
        result = torch.from_numpy(array)
    except (TypeError, ValueError):
        return None
    return result if array.base is None else _in_owner(array, result)


def _in_owner(array: np.ndarray[Any, Any], tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor like another one, the one in the memory of a view, in the memory of the array that has it."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    offset, rest = divmod(tensor.data_ptr() - owner.ctypes.data, array.itemsize)
    if owner is array or owner.dtype != array.dtype or not owner.flags.writeable or not owner.flags.forc or rest or not array.size:
        return tensor
    return torch.from_numpy(owner).as_strided(tensor.shape, tensor.stride(), offset)


def of_bytes(dtype: str, shape: Sequence[int], contents: str) -> Any:
    """Return a new array of bytes in hexadecimal digits."""
    return np.frombuffer(bytes.fromhex(contents), np.dtype(dtype)).reshape(shape).copy()


# -- results -------------------------------------------------------------------------------------------------------------------


def described(result: Any) -> Any:
    """Return the kinds of what is in a result, as JSON has them; see :func:`checked`.

    Raises:
        TypeError: a program has no value for something in it.
    """
    match result:
        case tuple():
            return {"tuple": [described(item) for item in result]}
        case list():
            return [described(item) for item in result]
        case np.ndarray() if result.dtype.kind in "biufc" and result.dtype.isnative:
            return ["array", result.dtype.name, result.ndim]
        case np.generic() if result.dtype.kind in "biufc":
            return ["scalar", result.dtype.name, 0]
        case torch.Tensor():
            return ["tensor", str(result.dtype), result.dim()]
        case bool() | int() | float() | complex():
            return ["number", type(result).__name__, 0]
        case None:
            return None
    raise TypeError(f"NumPy gives a {type(result).__qualname__}")


def leaves(result: Any) -> Iterator[Any]:
    """Yield what is in a result, in order."""
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from leaves(item)
    elif result is not None:
        yield result


def checked(result: Any, kinds: Any) -> list[torch.Tensor]:
    """Return what is in a result as tensors, in memory of their own.

    Raises:
        OtherKindError: it is of other kinds than these.
    """
    if kinds is not None and (given := described(result)) != kinds:
        raise OtherKindError(f"NumPy gives {given}, and {kinds} in the call that was captured")
    return [_tensor(leaf) for leaf in leaves(result)]


_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


def _tensor(leaf: Any) -> torch.Tensor:
    if isinstance(leaf, torch.Tensor):
        return leaf.clone()
    if type(leaf) in _NUMBERS:
        return torch.tensor(leaf, dtype=_NUMBERS[type(leaf)])
    array = np.asarray(leaf)
    shares_or_runs_backwards = array.base is not None or any(stride < 0 for stride in array.strides) or not array.flags.writeable
    return torch.from_numpy(array.copy() if shares_or_runs_backwards else array)


# -- the operators -------------------------------------------------------------------------------------------------------------


@functools.lru_cache(4096)
def _read(text: str, functions: Callable[[], dict[str, Callable[..., Any]]]) -> Any:
    name, args, kwargs, kinds = json.loads(text)
    table = functions()
    if name not in table:
        raise RuntimeError(f"a program does not call numpy's {name}, or this version of NumPy has no such function")
    return table[name], args, kwargs, kinds


def name_of(text: str) -> str:
    """Return the name of what a text calls."""
    return str(json.loads(text)[0])


def called(text: str, operands: Sequence[torch.Tensor]) -> Any:
    """Return what NumPy gives."""
    return _called(text, operands, functions)


def drawn(text: str, operands: Sequence[torch.Tensor]) -> Any:
    """Return what NumPy draws."""
    return _called(text, operands, drawing_functions)


def _called(text: str, operands: Sequence[torch.Tensor], functions: Callable[[], dict[str, Callable[..., Any]]]) -> Any:
    function, args, kwargs, _ = _read(text, functions)
    return function(*_decoded(args, operands), **{name: _decoded(value, operands) for name, value in kwargs.items()})


def written(text: str, target: torch.Tensor, operands: Sequence[torch.Tensor]) -> None:
    """Have NumPy change the memory of a tensor."""
    function, args, kwargs, flips = _read(text, writing_functions)
    given = _decoded(args, operands), {name: _decoded(value, operands) for name, value in kwargs.items()}
    function(as_array(target, flips), *given[0], **given[1])


def _call(text: str, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return checked(called(text, operands), _read(text, functions)[3])


def _draw(text: str, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return checked(drawn(text, operands), _read(text, drawing_functions)[3])


NEEDS_DETACH = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.requires_grad:
        raise RuntimeError(NEEDS_DETACH)
    return tensor.detach()


_library.define("memory(Tensor(a) tensor) -> Tensor(a)")
_library.impl("memory", _memory, "CompositeImplicitAutograd")
_library.define("call(str text, Tensor[] operands) -> Tensor[]")
_library.impl("call", _call, "CPU")
_library.define("draw(str text, Tensor[] operands) -> Tensor[]", tags=(torch.Tag.nondeterministic_seeded,))
_library.impl("draw", _draw, "CPU")
_library.impl("draw", _draw, "CompositeExplicitAutograd")
_library.define("write(str text, Tensor(a!) target, Tensor[] operands) -> ()")
_library.impl("write", written, "CPU")
_library.impl("write", lambda text, target, operands: None, "Meta")
call = torch.ops.dy2st_numpy.call.default
draw = torch.ops.dy2st_numpy.draw.default
memory = torch.ops.dy2st_numpy.memory.default
write = torch.ops.dy2st_numpy.write.default
