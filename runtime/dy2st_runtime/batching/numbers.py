"""Python's arithmetic on a number for each example, by NumPy where that gives what Python gives.

Where it might not (an int that leaves 64 bits, a division by zero, a function that is not here) the caller does the examples one
by one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from dy2st_runtime.batching.values import KINDS, Numbers
from dy2st_runtime.primitives import scalars

_Array = np.ndarray[Any, Any]
_EXACT = 2**53
"""Ints up to here are floats."""
_LARGE = 2**62


def calculated(target: Any, args: tuple[Any, ...]) -> Numbers | None:
    """Return what a function of :mod:`~dy2st_runtime.primitives.scalars` gives.

    Args:
        target: the function.
        args: numbers, some of them :class:`~dy2st_runtime.batching.values.Numbers`.

    Returns:
        A number for each example; ``None`` where they have to be done one by one.

    Example:
        >>> calculated(operator.add, (Numbers(np.array([1, 2])), 3)).array.tolist()
        [4, 5]
    """
    rule = _RULES.get(target)
    if rule is None:
        return None
    arrays = []
    for value in args:
        if type(value) is Numbers:
            arrays.append(value.array)
        elif type(value) in KINDS and (type(value) is not int or -_LARGE < value < _LARGE):
            arrays.append(np.asarray(value, KINDS[type(value)]))
        else:
            return None
    with np.errstate(all="ignore"):
        result = rule(*arrays)
    return None if result is None else Numbers(np.asarray(result))


def _largest(array: _Array) -> int:
    return int(max(abs(int(array.max())), abs(int(array.min())))) if array.size else 0


def _common(*arrays: _Array) -> list[_Array] | None:
    """Return arrays of one dtype: ints, or floats that are exactly the numbers."""
    arrays = tuple(array.astype(np.int64) if array.dtype == np.bool_ else array for array in arrays)
    if all(array.dtype == np.int64 for array in arrays):
        return list(arrays)
    if any(array.dtype == np.int64 and _largest(array) > _EXACT for array in arrays):
        return None
    return [array.astype(np.float64) for array in arrays]


def _sum(function: Callable[..., _Array], limit: int = _LARGE) -> Callable[..., _Array | None]:
    def apply(a: _Array, b: _Array) -> _Array | None:
        common = _common(a, b)
        if common is None:
            return None
        if common[0].dtype == np.int64 and max(map(_largest, common)) >= limit:
            return None
        return function(*common)

    return apply


def _compared(function: Callable[..., _Array]) -> Callable[..., _Array | None]:
    def apply(a: _Array, b: _Array) -> _Array | None:
        common = _common(a, b)
        return None if common is None else function(*common)

    return apply


def _divided(function: Callable[..., _Array], of_floats: bool) -> Callable[..., _Array | None]:
    def apply(a: _Array, b: _Array) -> _Array | None:
        common = _common(a, b)
        if common is None or not common[1].all():
            return None
        if common[0].dtype == np.int64:
            return function(*common) if not of_floats or max(map(_largest, common)) <= _EXACT else None
        return function(*common) if of_floats else None

    return apply


def _negated(a: _Array) -> _Array:
    return -(a.astype(np.int64) if a.dtype == np.bool_ else a)


def _absolute(a: _Array) -> _Array:
    return np.abs(a.astype(np.int64) if a.dtype == np.bool_ else a)


def _as_int(a: _Array) -> _Array | None:
    if a.dtype != np.float64:
        return a.astype(np.int64)
    return a.astype(np.int64) if bool((np.abs(a) < _LARGE).all()) else None


def _as_float(a: _Array) -> _Array | None:
    return a.astype(np.float64) if a.dtype != np.int64 or _largest(a) <= _EXACT else None


def _chosen(condition: _Array, a: _Array, b: _Array) -> _Array | None:
    return np.where(condition.astype(np.bool_), a, b) if a.dtype == b.dtype else None


def _least(*values: _Array) -> _Array | None:
    return _extreme(np.less, values)


def _greatest(*values: _Array) -> _Array | None:
    return _extreme(np.greater, values)


def _extreme(comes_before: Callable[..., _Array], values: tuple[_Array, ...]) -> _Array | None:
    if len({value.dtype for value in values}) > 1:
        return None
    result = values[0]
    for value in values[1:]:
        result = np.where(comes_before(value, result), value, result)
    return result


def _and(*values: _Array) -> _Array:
    result = values[0].astype(np.bool_)
    for value in values[1:]:
        result = result & value.astype(np.bool_)
    return result


def _or(*values: _Array) -> _Array:
    result = values[0].astype(np.bool_)
    for value in values[1:]:
        result = result | value.astype(np.bool_)
    return result


def _bitwise(function: Callable[..., _Array]) -> Callable[..., _Array | None]:
    return lambda a, b: function(a, b) if a.dtype == b.dtype and a.dtype != np.float64 else None


_RULES: dict[Any, Callable[..., _Array | None]] = {
    operator.add: _sum(np.add),
    operator.sub: _sum(np.subtract),
    operator.mul: _sum(np.multiply, 2**31),
    operator.truediv: _divided(np.true_divide, True),
    operator.floordiv: _divided(np.floor_divide, False),
    operator.mod: _divided(np.mod, False),
    operator.neg: _negated,
    operator.abs: _absolute,
    operator.eq: _compared(np.equal),
    operator.ne: _compared(np.not_equal),
    operator.lt: _compared(np.less),
    operator.le: _compared(np.less_equal),
    operator.gt: _compared(np.greater),
    operator.ge: _compared(np.greater_equal),
    operator.and_: _bitwise(np.bitwise_and),
    operator.or_: _bitwise(np.bitwise_or),
    operator.xor: _bitwise(np.bitwise_xor),
    operator.not_: lambda a: ~a.astype(np.bool_),
    scalars.logical_not: lambda a: ~a.astype(np.bool_),
    scalars.logical_and: _and,
    scalars.logical_or: _or,
    scalars.to_bool: lambda a: a.astype(np.bool_),
    scalars.to_int: _as_int,
    scalars.to_float: _as_float,
    scalars.where: _chosen,
    scalars.minimum: _least,
    scalars.maximum: _greatest,
    scalars.same_size: _compared(np.equal),
}
