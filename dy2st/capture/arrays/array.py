"""Arrays of NumPy that captured code makes of values known only at run time, and numbers of NumPy: a tensor lies underneath.

a = x.numpy()         →   the tensor itself: a write through one is seen through the other
a[1:], a.T, a[::-1]   →   views of the tensor; backwards in a dimension is a note
a + b, a.sum()        →   NumPy's own function, called when the program runs
a[0] = 1, a += b      →   the same, on the memory of the tensor
"""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from dy2st import errors
from dy2st.capture.arrays import indexing, recorded
from dy2st.capture.branching.assertions import check
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import need
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st_runtime.arrays.functions import METHODS, WRITING_METHODS


class CapturedArray(AbstractArray):
    """An array, or a number of NumPy, during a capture."""

    __slots__ = ()
    __dy2st_stands_in__ = True
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 2000

    @classmethod
    def of_list(cls, items: torch.Tensor, maxlen: tuple[int, ...] | None) -> CapturedArray:
        """Return an array in the memory of a tensor.

        Args:
            items: the tensor.
            maxlen: the dimensions in which it runs backwards; ``None`` for a number.
        """
        result = cls()
        result.items, result.maxlen = items, maxlen
        return result

    # -- what it says of itself --------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.items.shape)

    @property
    def ndim(self) -> int:
        return self.items.dim()

    @property
    def size(self) -> Any:
        return math.prod(self.items.shape)

    @property
    def itemsize(self) -> int:
        return self.items.itemsize

    @property
    def nbytes(self) -> Any:
        return self.size * self.itemsize

    @property
    def T(self) -> Any:
        return self if self.is_scalar else self.transpose()

    def length(self) -> Any:
        """Return ``len(self)``."""
        if self.is_scalar:
            raise raised(TypeError(f"object of type '{self.dtype.type.__module__}.{self.dtype.type.__name__}' has no len()"))
        if not self.ndim:
            raise raised(TypeError("len() of unsized object"))
        return self.items.shape[0]

    def truth(self) -> Any:
        """Return its truth value, symbolic."""
        size = self.size
        if isinstance(size, int) and size != 1:
            return bool(np.zeros(size))  # raises what eager raises
        if not isinstance(size, int):
            words = "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            check(need(), size == 1, ValueError, words)
        return self.items.reshape(()).to(torch.bool).item()

    # -- views -------------------------------------------------------------------------------------------------------------

    def transpose(self, *axes: Any) -> Any:
        given = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        order = [*range(self.ndim)][::-1] if not given or given[0] is None else [axis % self.ndim for axis in given]
        return _created(self.items.permute(order), tuple(order.index(dim) for dim in self.flips))

    def reshape(self, *shape: Any, order: str = "C", **other: Any) -> Any:
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        sizes = tuple(size.number() if isinstance(size, AbstractArray) else size for size in sizes)
        if order != "C" or other or self.flips or self.is_scalar:
            raise recorded.refused("reshape()", "an order other than C, or an array that runs backwards", "reshape a copy()")
        return _created(self.items.reshape(sizes), ())

    def ravel(self, order: str = "C") -> Any:
        return self.reshape(-1, order=order)

    def squeeze(self, axis: Any = None) -> Any:
        asked = range(self.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        if self.flips or not all(isinstance(self.shape[dim], int) for dim in asked):
            raise recorded.refused("squeeze()", "sizes that only the program knows", "use reshape()")
        known = [size if isinstance(size, int) else 2 for size in self.shape]
        np.broadcast_to(0, known).squeeze(axis)  # raises what eager raises
        return _created(self.items.squeeze() if axis is None else self.items.squeeze(axis), ())

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        order = [*range(self.ndim)]
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self.transpose(order)

    def view(self, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            raise recorded.refused("view()", "a dtype or class", "use astype()")
        return _created(self.items.detach(), self.maxlen)

    # -- items -------------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        view = indexing.as_view(self, key)
        return recorded.call("ndarray.__getitem__", self, key) if view is None else view

    def __setitem__(self, key: Any, value: Any) -> None:
        self.write("operator.setitem", key, value)

    def write(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Call what changes it."""
        if self.is_scalar:
            raise raised(TypeError(f"'{self.dtype.type.__module__}.{self.dtype.name}' object does not support item assignment"))
        recorded.write(name, self, *args, **kwargs)

    def __iter__(self) -> Iterator[Any]:
        length = self.length() if self.ndim else None
        if length is None:
            iter(self.example)  # raises what eager raises
        if not isinstance(length, int):
            raise errors.CaptureError(
                "this iterates over an array whose length is known only at run time, outside of a for statement",
                need().here(),
                fix="write a for loop in converted code",
            )
        return iter([self[position] for position in range(length)])

    def tolist(self) -> Any:
        if not self.ndim:
            return self.number()
        items = self.items.flip(self.flips) if self.flips else self.items
        return need().call(_created(items, ()).as_tensor().tolist)

    # -- what is called when the program runs --------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name in METHODS and not name.startswith("__"):
            return types.MethodType(functools.partial(_method, name), self)
        if name in WRITING_METHODS:
            return types.MethodType(functools.partial(_writing_method, name), self)
        raise AttributeError(name)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return need().call(ufunc if method == "__call__" else getattr(ufunc, method), *inputs, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise errors.DataDependentError(
            "code that was not converted asks for the contents of an array that is known only when the program runs",
            need().here(),
            fix="use a function of NumPy or torch there, or mark the function around it with @dy2st.not_to_static",
        )

    def __array_function__(self, function: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        return need().call(function, *args, **kwargs)

    def __bool__(self) -> bool:
        raise errors.DataDependentError(
            "the truth value of an array is known only when the program runs, and is asked in code that was not converted",
            need().here(),
            fix="ask in an if statement of converted code",
        )

    def __repr__(self) -> str:
        return f"<{'number' if self.is_scalar else 'array'} of {self.dtype}, known only at run time>"

    def __pow__(self, other: Any) -> Any:
        return recorded.operate("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return recorded.operate("pow", other, self)

    def __divmod__(self, other: Any) -> Any:
        return recorded.call("divmod", self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return recorded.call("divmod", other, self)


def _method(name: str, owner: CapturedArray, *args: Any, **kwargs: Any) -> Any:
    return recorded.call(f"ndarray.{name}", owner, *args, **kwargs)


def _writing_method(name: str, owner: CapturedArray, *args: Any, **kwargs: Any) -> None:
    owner.write(f"ndarray.{name}", *args, **kwargs)


def _binary(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    return (lambda self, other: recorded.operate(name, self, other)), (lambda self, other: recorded.operate(name, other, self))


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    def change(self: CapturedArray, other: Any) -> Any:
        if self.is_scalar:
            return getattr(operator, name)(self, other)
        self.write(f"operator.i{name}", other)
        return self

    return change


def _unary(name: str) -> Callable[[Any], Any]:
    return lambda self: recorded.call(f"operator.{name}", self)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "and", "or", "xor", "lshift", "rshift"):
    _there, _back = _binary(_name + "_" * (_name in ("and", "or")))
    setattr(CapturedArray, f"__{_name}__", _there)
    setattr(CapturedArray, f"__r{_name}__", _back)
    setattr(CapturedArray, f"__i{_name}__", _in_place(_name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(CapturedArray, f"__{_name}__", _binary(_name)[0])
for _name in ("neg", "pos", "abs", "invert"):
    setattr(CapturedArray, f"__{_name}__", _unary(_name))
CapturedArray.__ipow__ = _in_place("pow")  # type: ignore[attr-defined]
CapturedArray.__name__ = "numpy.ndarray"  # in Python's own words for what does not fit


def _created(items: torch.Tensor, maxlen: tuple[int, ...] | None) -> CapturedArray:
    """Return an array that captured code makes now."""
    result = CapturedArray.of_list(items, maxlen)
    need().allocations.own(result)
    return result


AbstractArray.captured = staticmethod(_created)
