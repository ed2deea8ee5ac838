"""Functions of NumPy that are called with values known only at run time, and functions of others that get arrays."""

from __future__ import annotations

import copy
import functools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from dy2st import errors
from dy2st.capture.arrays import conversions, recorded
from dy2st.capture.arrays.array import CapturedArray
from dy2st.capture.environment.users_code import module_of
from dy2st.capture.objects import hidden_state
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.recording.patches import methods_patch
from dy2st.capture.session.session import Session, need, recording
from dy2st.capture.values.abstract_arrays import AbstractArray, holds, is_open, memory_of
from dy2st.capture.values.kinds import EXAMPLES_OF_NUMBERS, is_symbolic
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, RuntimeList
from dy2st_runtime.arrays.functions import METHODS, WRITING_FUNCTIONS, WRITING_METHODS, drawing_functions, functions, names

_TO_NUMBERS = {int: int, float: float, complex: complex, operator.index: int}
_TAKE_NUMBERS = (range, *(function for function in vars(math).values() if isinstance(function, types.BuiltinFunctionType)))
"""Functions of Python that take a number of NumPy for its value."""


_PACKAGES = frozenset({"builtins", "numpy", "torch", "functools"})
"""Where the classes are of functions, methods and classes that are not the user's own callable objects."""


def otherwise(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """Return what does a call that has to do with arrays known only at run time; ``None`` for any other call."""
    if module_of(type(function)).partition(".")[0] not in _PACKAGES:
        return None  # an object of the user's, which is asked nothing
    drawing = _drawing(function, args, kwargs)
    if drawing is not None:
        return drawing
    if _is_numpys(function) and not _draws(function):
        items = session.lists.of(args[0]) if args else None
        if items is not None and conversions.is_of_numbers(items):
            return functools.partial(_of_list, session, function, items, args, kwargs)
        if args and _holds_list(session, args[0]):
            return lambda: session.call(function, _with_lists_in(session, args[0]), *args[1:], **kwargs)
        if not is_open((args, kwargs)):
            return functools.partial(_to_be_written, function, args, kwargs) if _creates(function) else None
        return functools.partial(_call_numpy, session, function, args, kwargs)
    owner = conversions.owner_of_numpy(function, args)
    if owner is not None:
        return functools.partial(conversions.of_tensor, session, owner, **kwargs)
    method = _method_of(function, args, kwargs)
    if method is not None:
        return functools.partial(recorded.call, method, function.__self__, *args, **kwargs)
    if not holds((args, kwargs), (AbstractArray,)):
        is_known = type(args[0] if args else None) is np.ndarray and any(function is known for known in _MAKERS)
        return functools.partial(_tensor_of, session, function, args, kwargs) if is_known else None
    return _with_arrays(session, function, args, kwargs)


def _of_list(session: Session, function: Any, items: RuntimeList, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of NumPy with the array that it makes of a list of the program."""
    makes = function in (np.array, np.asarray, np.asanyarray)
    dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None) if makes else None
    array = conversions.of_list(session, items, dtype)
    return session.call(function, array, *args[1:], **kwargs)


def _holds_list(session: Session, value: Any) -> bool:
    """Tell whether there is a list of the program in a known list or tuple."""
    if type(value) not in (list, tuple) or session.lists.of(value) is not None:
        return False
    return any(session.lists.of(item) is not None or _holds_list(session, item) for item in value)


def _with_lists_in(session: Session, value: Any) -> Any:
    """Return nested lists with arrays in the place of the lists of the program."""
    items = session.lists.of(value)
    if items is None:
        return type(value)(_with_lists_in(session, item) for item in value) if type(value) in (list, tuple) else value
    result = conversions.of_list(session, items) if conversions.is_of_numbers(items) else None
    if not isinstance(result, AbstractArray):
        raise errors.CaptureError(
            "NumPy gets a list of lists that change length inside a captured block",
            session.here(),
            fix="make an array of each, with a dtype: np.array(row, dtype=np.int64)",
        )
    return result


_MOST: dict[str, int] = {
    "exponential": 1, "poisson": 1, "geometric": 1, "triangular": 3,
    **dict.fromkeys(("random", "random_sample", "rand", "randn", "standard_normal", "standard_exponential"), 0),
}  # fmt: skip
"""How many arguments of a function of ``np.random`` do not say how many numbers it draws; 2 for others."""
_FROM_SEVERAL = ("choice", "permutation")


def _draws(function: Any) -> bool:
    return any(function is known for known in drawing_functions().values())


def _drawing(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """Return what draws an array of NumPy's own generator; ``None`` for one number, and for any other call."""
    if not _draws(function):
        return None
    name = function.__name__
    one = name not in _FROM_SEVERAL and len(args) <= _MOST.get(name, 2) and kwargs.get("size") is None and "dtype" not in kwargs
    if one and all(isinstance(value, (int, float, *SYMBOLIC_NUMBERS)) for value in (*args, *kwargs.values()) if value is not None):
        return None
    return functools.partial(recorded.draw, f"random.{name}", *args, **kwargs)


def _method_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return the name of a method of a known array, or number of NumPy, that gets values known only at run time."""
    owner = getattr(function, "__self__", None)
    if not isinstance(owner, (np.ndarray, np.generic)) or not is_open((args, kwargs)):
        return None
    if function.__name__ in WRITING_METHODS:
        hidden_state.check_array(need(), owner, (args, kwargs))  # type: ignore[arg-type]
    return f"ndarray.{function.__name__}" if function.__name__ in METHODS else None


def _creates(function: Any) -> bool:
    return any(function is known for known in _CREATING)


def _is_numpys(function: Any) -> bool:
    if isinstance(function, np.ufunc) or isinstance(getattr(function, "__self__", None), np.ufunc):
        return True
    module = module_of(function)
    if not (module == "numpy" or module.startswith("numpy.")):
        return False
    is_class = isinstance(function, type)
    return (callable(function) and not is_class) or (is_class and issubclass(function, np.generic))


def _to_be_written(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a new array of known contents: what is written to it may be known only at run time."""
    array = function(*args, **kwargs)
    if array.dtype.kind not in "biufc":
        return array
    constant = need().outside.adopted(torch.from_numpy(array))
    return AbstractArray.captured(constant.clone(), ())


_CREATING = (np.zeros, np.ones, np.empty, np.full, np.zeros_like, np.ones_like, np.empty_like, np.full_like)
"""Functions whose arrays are there to be written to."""


def _call_numpy(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = getattr(function, "__name__", str(function))
    own = _OWN.get(function)
    if own is not None:
        return own(session, *args, **kwargs)
    if name in WRITING_FUNCTIONS and getattr(np, name, None) is function and isinstance(args[0], CapturedArray):
        return args[0].write(name, *args[1:], **kwargs)
    owner = getattr(function, "__self__", None)
    known = f"{owner.__name__}.{name}" if isinstance(owner, np.ufunc) else names().get(function)
    target = kwargs.get("out")
    if isinstance(function, np.ufunc) and isinstance(target, CapturedArray) and function.nout == 1:
        target.write(f"{known}(out)", *args, **{key: value for key, value in kwargs.items() if key != "out"})
        return target
    if known == f"{getattr(owner, '__name__', '')}.at" and isinstance(args[0], CapturedArray):
        return args[0].write(known, *args[1:])
    _check_targets(session, name, args, kwargs)
    if known not in functions() or target is not None:
        what = f"numpy.{name}()" if target is None else f"numpy.{name}(out=…)"
        raise errors.CaptureError(
            f"{what} gets values known only at run time",
            session.here(),
            fix="use the function of torch, or mark the function around it with @dy2st.not_to_static",
        )
    return recorded.call(str(known), *args, **kwargs)


def _check_targets(session: Session, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check the known arrays that a function of NumPy changes: those from outside have to be inputs of the program."""
    out = kwargs.get("out")
    for target in (*(out if isinstance(out, tuple) else (out,)), *(args[:1] if name in WRITING_FUNCTIONS else ())):
        if isinstance(target, np.ndarray):
            hidden_state.check_array(session, target, (args, kwargs))


def _with_arrays(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """Return what calls a function that knows nothing of arrays of the program."""
    first = args[0] if args else None
    if function in (copy.copy, copy.deepcopy) and isinstance(first, CapturedArray):
        return functools.partial(recorded.call, "ndarray.copy", first, "K")
    if function in (round, abs) and isinstance(first, CapturedArray):
        return functools.partial(recorded.call, f"ndarray.__{function.__name__}__" if function is round else "operator.abs", *args)
    if function is torch.from_numpy and isinstance(first, AbstractArray):
        return functools.partial(conversions.from_numpy, first)
    if any(function is maker for maker in conversions.MAKERS):
        data = first if args else kwargs.get("data")
        rest = {key: value for key, value in kwargs.items() if key != "data"}
        return functools.partial(conversions.to_tensor, session, function, data, args[1:], rest)
    for maker, kind in _TO_NUMBERS.items():
        if function is maker and isinstance(first, AbstractArray):
            return functools.partial(conversions.as_number, session, kind, first)
    if not (any(function is known for known in _TAKE_NUMBERS) or _is_torchs(function)):
        return None
    given = tuple(map(conversions.with_numbers, args))
    named = {key: conversions.with_numbers(value) for key, value in kwargs.items()}
    if all(new is old for new, old in zip((*given, *named.values()), (*args, *kwargs.values()))):
        return None
    return lambda: session.call(function, *given, **named)


def _tensor_of(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the tensor that torch makes of an array that is known, of its contents by now.

    Where it lies in the memory of the array, nobody may write to that from now on.
    """
    memory = memory_of(args[0])
    if memory is None:
        return function(*args, **kwargs)
    result = function(args[0].copy("K"), *args[1:], **kwargs)
    if function is not torch.tensor and memory.dtype == result.dtype and not kwargs.get("copy"):
        session.outside.check_memory(memory)
        session.tracker.arrays.share(args[0], result)
    return result


_MAKERS = (torch.from_numpy, torch.as_tensor, torch.asarray, torch.tensor)
"""What makes tensors of arrays."""


def _is_torchs(function: Any) -> bool:
    if isinstance(getattr(function, "__self__", None), torch.Tensor):
        return True
    module = module_of(function) or getattr(getattr(function, "__objclass__", None), "__module__", None) or ""
    return module.partition(".")[0] == "torch" or isinstance(getattr(function, "__self__", None), type(torch._C._VariableFunctions))


# -- functions that give views, or ask about an array ----------------------------------------------------------------------------


def _as_array(session: Session, value: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, **other: Any) -> Any:
    """Return ``np.asarray(value)``."""
    if isinstance(value, torch.Tensor):
        value = conversions.of_tensor(session, value)
    if isinstance(value, AbstractArray):
        array = AbstractArray.captured(value.items.clone() if value.is_scalar else value.items, value.flips)
        if other or order not in (None, "K", "C", "F"):
            return recorded.call("array", value, dtype, order=order, copy=copy, **other)
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return recorded.call("ndarray.astype", array, dtype, order or "K")
        if order in ("C", "F") and not _is_in_order(array, order):
            return recorded.call("ndarray.copy", array, order)
        return value if isinstance(value, AbstractArray) and not value.is_scalar else array
    named = other if order is None else {**other, "order": order}
    return recorded.call("array", _with_arrays_in(session, value), *([] if dtype is None else [dtype]), **named)


def _is_in_order(array: Any, order: str) -> bool:
    """Tell whether the items of an array lie one after the other, by rows (``"C"``) or by columns (``"F"``)."""
    with quiet():
        items = array.items if order == "C" else array.items.permute(*reversed(range(array.ndim)))
        return not array.flips and bool(items.is_contiguous())


def _array(session: Session, value: Any, dtype: Any = None, *, copy: Any = True, **other: Any) -> Any:
    """Return ``np.array(value)``: a copy."""
    if copy is not True or isinstance(value, (list, tuple)) or (is_symbolic(value) and not isinstance(value, torch.Tensor)):
        return _as_array(session, value, dtype, **other)
    if isinstance(value, torch.Tensor):
        value = conversions.of_tensor(session, value)
    return recorded.call("array", value, *([] if dtype is None else [dtype]), **other)


def _with_arrays_in(session: Session, value: Any) -> Any:
    """Return nested lists with arrays in the place of tensors."""
    if isinstance(value, torch.Tensor):
        return conversions.of_tensor(session, value)
    return type(value)(_with_arrays_in(session, item) for item in value) if type(value) in (list, tuple) else value


def _through(name: str) -> Callable[..., Any]:
    def call(session: Session, array: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_as_array(session, array), name)(*args, **kwargs)

    return call


def _flip(session: Session, m: Any, axis: Any = None) -> Any:
    array = _as_array(session, m)
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    where = {ax % array.ndim for ax in axes}
    return array[tuple(slice(None, None, -1 if dim in where else None) for dim in range(array.ndim))]


def _expand_dims(session: Session, a: Any, axis: Any) -> Any:
    array = _as_array(session, a)
    axes = axis if isinstance(axis, tuple) else (axis,)
    where = {ax % (array.ndim + len(axes)) for ax in axes}
    return array[tuple(None if dim in where else slice(None) for dim in range(array.ndim + len(axes)))]


def _moveaxis(session: Session, a: Any, source: Any, destination: Any) -> Any:
    array = _as_array(session, a)
    with session.suspended():
        example = np.moveaxis(np.empty(tuple(range(1, array.ndim + 1))), source, destination)
    return array.transpose([size - 1 for size in example.shape])


def _size(session: Session, a: Any, axis: Any = None) -> Any:
    array = _as_array(session, a)
    return array.size if axis is None else array.shape[axis]


def _atleast(dims: int) -> Callable[..., Any]:
    places = {1: (None,), 2: (None, None), 3: (None, None, None)}[dims]

    def call(session: Session, *arys: Any) -> Any:
        arrays = [_as_array(session, array) for array in arys]
        if any(array.ndim and array.ndim < dims == 3 for array in arrays):
            raise recorded.refused("atleast_3d()", "one or two dimensions", "index it with None")
        results = []
        for array in arrays:
            index = (*places[: dims - array.ndim], Ellipsis)
            results.append(array[index] if array.ndim < dims else array)
        return results[0] if len(results) == 1 else tuple(results)

    return call


def _contiguous(session: Session, a: Any, dtype: Any = None) -> Any:
    array = _as_array(session, a, dtype)
    return array if array.ndim and _is_in_order(array, "C") else recorded.call("ndarray.copy", array)


def _split(session: Session, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    array = _as_array(session, ary)
    places = indices_or_sections
    if is_symbolic(array.shape[axis]) and not isinstance(places, (list, tuple)):
        raise recorded.refused("split()", "a size that only the program knows", "give the places where to split it")
    if not isinstance(places, (list, tuple)):
        example = np.empty([size if dim == axis % array.ndim else 0 for dim, size in enumerate(array.shape)], np.int8)
        places = np.cumsum([part.shape[axis] for part in np.array_split(example, places, axis)])[:-1].tolist()
    before = (slice(None),) * (axis % array.ndim)
    indices = [(*before, slice(*bounds)) for bounds in zip((0, *places), (*places, None))]
    return [array[index] for index in indices]


def _equal_split(session: Session, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    array = _as_array(session, ary)
    if not isinstance(indices_or_sections, (list, tuple)) and not is_symbolic(array.shape[axis]):
        np.split(np.empty(array.shape[axis], np.int8), indices_or_sections)  # raises what eager raises
    return _split(session, array, indices_or_sections, axis)


def _result_type(session: Session, *arrays_and_dtypes: Any) -> Any:
    examples = (EXAMPLES_OF_NUMBERS.get(type(value), value) for value in arrays_and_dtypes)
    return np.result_type(*(value.example if isinstance(value, AbstractArray) else value for value in examples))


_OWN: dict[Any, Callable[..., Any]] = {
    np.array: _array,
    **dict.fromkeys((np.asarray, np.asanyarray), _as_array),
    np.ascontiguousarray: _contiguous,
    np.array_split: _split,
    np.split: _equal_split,
    np.result_type: _result_type,
    **{getattr(np, f"atleast_{dims}d"): _atleast(dims) for dims in (1, 2, 3)},
    np.flip: _flip,
    np.expand_dims: _expand_dims,
    np.moveaxis: _moveaxis,
    np.size: _size,
    np.shape: lambda session, a: _as_array(session, a).shape,
    np.ndim: lambda session, a: _as_array(session, a).ndim,
    np.flipud: lambda session, m: _flip(session, m, 0),
    np.fliplr: lambda session, m: _flip(session, m, 1),
    **{getattr(np, name): _through(name) for name in ("reshape", "ravel", "squeeze", "transpose", "swapaxes")},
}
"""What does the work of functions that give views, or ask about an array."""


def _with_numbers(number: Any, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Do ``array * number``: NumPy asks a number of the program what to do."""
    session = recording()
    if session is None or method != "__call__":
        return NotImplemented
    if ufunc is np.power and len(inputs) == 2 and not kwargs:  # an operator knows some exponents
        return recorded.call("operator.pow", *inputs)
    return session.call(ufunc, *inputs, **kwargs)


NUMBERS = methods_patch(SYMBOLIC_NUMBERS, lambda kind: {"__array_ufunc__": _with_numbers})
"""Lets arrays that are known do arithmetic with numbers that are not."""
