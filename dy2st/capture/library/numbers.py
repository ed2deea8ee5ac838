"""Builtins, and functions of ``math`` and ``statistics``, of numbers known only at run time."""

from __future__ import annotations

import cmath
import functools
import math
import operator
import statistics
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.attributes.class_attributes import call_own
from dy2st.capture.branching import keys, optional, tensor_keys
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import complex_numbers, lists
from dy2st.capture.containers.complex_numbers import RuntimeComplex
from dy2st.capture.containers.ranges import RuntimeRange
from dy2st.capture.environment.users_code import has_own, is_users_function
from dy2st.capture.library.conversions import NOTHING, given, given_integer
from dy2st.capture.library.registry import Handler, handles
from dy2st.capture.looping import comprehensions, iteration
from dy2st.capture.looping.truth import logical_not, truth
from dy2st.capture.operators import identities
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.recording import failing
from dy2st.capture.session.session import Session
from dy2st.capture.texts import methods
from dy2st.capture.types import lattice, value_types
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import contents
from dy2st.capture.values.kinds import EXAMPLES_OF_NUMBERS, is_symbolic, number_kind
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, RuntimeList, Stale
from dy2st.capture.values.texts import Text
from dy2st_runtime.primitives import scalars, text

_NO_SCALAR = "only one element tensors can be converted to Python scalars"


@handles(int)
def _int(session: Session, value: Any = 0, *rest: Any) -> Any:
    if isinstance(value, Text) and not any(map(is_symbolic, rest)):
        return methods.to_number(session, value, text.to_int, "int", *(rest or (10,)))
    if not is_symbolic(value):
        own = NOTHING if rest else given_integer(session, value, "__int__", "__index__")
        return int(value, *rest) if own is NOTHING else session.call(int, own)
    value = _only_number(session, value)
    if isinstance(value, torch.SymInt):
        return value
    return _whole(session, scalars.to_int, value)


def _whole(session: Session, function: Any, value: Any) -> Any:
    """Return a function that makes an int of a number; what it raises for a float that is none is raised for the code around it."""
    if session.in_flight.pending and isinstance(value, torch.SymFloat):
        is_nan, is_infinite = (session.number(asks, (value,), "bool") for asks in (math.isnan, math.isinf))
        check(session, logical_not(is_nan), ValueError, "cannot convert float NaN to integer")
        check(session, logical_not(is_infinite), OverflowError, "cannot convert float infinity to integer")
    return session.number(function, (value,), "int")


def _only_number(session: Session, value: Any) -> Any:
    """Return the number in a tensor; ``int`` and ``float`` have words of their own for one with several elements."""
    if isinstance(value, torch.Tensor) and value.dim():
        fits = value.numel() == 1
        if is_symbolic(fits):
            check(session, fits, ValueError, _NO_SCALAR)
        elif not fits:
            raise ValueError(_NO_SCALAR)
    return session.to_number(value)


@handles(float)
def _float(session: Session, value: Any = 0.0) -> Any:
    if isinstance(value, Text):
        return methods.to_number(session, value, text.to_float, "float")
    if not is_symbolic(value):
        kinds = (float, torch.SymFloat)
        own = given(session, value, ("__float__",), kinds, "{kind}.{name} returned non-float (type {found})")
        if own is NOTHING:
            own = given_integer(session, value, "__index__")
        return float(value) if own is NOTHING else session.call(float, own)
    value = _only_number(session, value)
    if isinstance(value, torch.SymFloat) and not lattice.has_mixed_numbers():
        return value
    return session.number(scalars.to_float, (value,), "float")


@handles(complex)
def _complex(session: Session, real: Any = 0.0, *imag: Any) -> Any:
    parts = [_complex_part(session, part) for part in (real, *imag)]
    if not any(isinstance(part, (*SYMBOLIC_NUMBERS, RuntimeComplex)) for part in parts):
        return complex(*parts)
    return complex_numbers.made(session, *parts)


def _complex_part(session: Session, part: Any) -> Any:
    if isinstance(part, torch.Tensor):
        return complex_numbers.of_tensor(session, part) if part.is_complex() else _only_number(session, part)
    refusal = "{kind}.{name}() returned non-complex (type {found})"
    own = given(session, part, ("__complex__",), (complex,), refusal)
    return part if own is NOTHING else own


def _of_cmath(name: str) -> Handler:
    return lambda session, *args: complex_numbers.function(session, name, *args)


for _name in (*complex_numbers.FUNCTIONS, "polar"):
    handles(getattr(cmath, _name))(_of_cmath(_name))


@handles(ord)
def _ord(session: Session, value: Any) -> Any:
    return methods.to_number(session, value, ord, "int") if isinstance(value, Text) else ord(value)


@handles(bool, takes_unions=True)
def _bool(session: Session, value: Any = False) -> Any:
    return truth(session, value)


@handles(hash)
def _hash(session: Session, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return identities.of(session, value)
    tensor_keys.check_objects(session, value)
    identities.check_hashed(session, tensor_keys.tensors_of(value))
    own = type(value).__hash__
    if is_users_function(own):
        return session.call(types.MethodType(own, value))
    return keys.over(session, value, hash)


@handles(len)
def _len(session: Session, value: Any) -> Any:
    known = session.lists.of(contents(value))
    if known is not None and not has_own(value, "__len__"):
        return lists.length(session, known)
    if known is None and isinstance(value, list):
        _check_stale(value)
    if isinstance(value, optional.RuntimeView):
        return optional.length(session, value.table)
    if isinstance(value, torch.Tensor):
        if value.dim() == 0:
            raise TypeError("len() of a 0-d tensor")
        return value.shape[0]
    if isinstance(value, (AbstractArray, RuntimeRange)):
        return value.length()
    if isinstance(value, Text):
        return methods.length(session, value)
    if not isinstance(getattr(type(value), "__len__", None), types.FunctionType):
        return len(value)
    return call_own(session, value, "__len__")


def _check_stale(items: list[Any]) -> None:
    first = next(list.__iter__(items), None)
    if isinstance(first, Stale):
        first.fail()


def _arithmetic(function: Any, target: Any) -> Handler:
    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(a, SYMBOLIC_NUMBERS) for a in args) or any(isinstance(a, torch.Tensor) for a in args):
            return function(*args, **kwargs)
        _require_numbers(function, args)
        return target(session, *args, **kwargs)

    return handle


def _require_numbers(function: Any, args: Sequence[Any]) -> None:
    """Raise what Python raises where a function of numbers gets something else beside numbers that only the program knows."""
    if not any(isinstance(arg, (str, bytes, list, tuple, dict, set, type(None))) for arg in args):
        return
    try:
        function(*(EXAMPLES_OF_NUMBERS.get(type(arg), arg) for arg in args))
    except TypeError as error:
        raise raised(TypeError(*error.args)) from None


def _round(session: Session, value: Any, digits: Any = None) -> Any:
    if number_kind(value) != "float":
        return session.call(int, value) if digits is None else session.number(round, (value, digits), "int")
    return _whole(session, round, value) if digits is None else session.number(round, (value, digits), "float")


def _words_of_divmod() -> str:
    """Return what Python says of a float that is divided by zero: it differs from version to version."""
    try:
        divmod(1.0, 0.0)
    except ZeroDivisionError as error:
        return str(error)
    raise AssertionError("not reached")


_DIVMOD = _words_of_divmod()


def _divmod(session: Session, a: Any, b: Any) -> Any:
    if "float" in (number_kind(a), number_kind(b)):
        holds = b != 0
        if is_symbolic(holds):
            check(session, holds, ZeroDivisionError, _DIVMOD)
        elif not holds:
            raise raised(ZeroDivisionError(_DIVMOD))
    return a // b, a % b


def _power(session: Session, a: Any, b: Any, modulus: Any = None) -> Any:
    if modulus is None:
        return a**b
    if any(number_kind(value) == "float" for value in (a, b, modulus)):
        raise TypeError("pow() 3rd argument not allowed unless all arguments are integers")
    return session.number(pow, (a, b, modulus), "int")


handles(abs)(_arithmetic(abs, lambda session, value: session.number(operator.abs, (value,), number_kind(value))))
handles(round)(_arithmetic(round, _round))
handles(divmod)(_arithmetic(divmod, _divmod))
handles(pow)(_arithmetic(pow, _power))


_WHOLE = ("floor", "ceil", "trunc")
_MATH_KINDS = {
    **dict.fromkeys((*_WHOLE, "gcd", "lcm", "isqrt", "comb", "perm", "factorial"), "int"),
    **dict.fromkeys(("isnan", "isinf", "isfinite", "isclose"), "bool"),
}


def _math(name: str) -> Handler:
    function = getattr(math, name)
    kind = _MATH_KINDS.get(name, "float")

    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        if kwargs or not any(map(is_symbolic, args)):
            return function(*args, **kwargs)
        _require_numbers(function, args)
        numbers = [_only_number(session, a) for a in args]
        return _whole(session, function, *numbers) if name in _WHOLE else session.number(function, numbers, kind)

    return handle


for _name in (key.removeprefix("math.") for key in scalars.TARGETS if key.startswith("math.")):
    handles(getattr(math, _name))(_math(_name))


@handles(math.isclose)
def _is_close(session: Session, a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    numbers = (a, b, rel_tol, abs_tol)
    if not any(map(is_symbolic, numbers)):
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
    return session.number(scalars.is_close, [_only_number(session, value) for value in numbers], "bool")


def _two_parts(function: Any, *parts: tuple[Any, str]) -> None:
    """Register a function that gives two numbers."""

    @handles(function)
    def handle(session: Session, value: Any) -> Any:
        if not is_symbolic(value):
            return function(value)
        number = _only_number(session, value)
        return tuple(session.number(part, (number,), kind) for part, kind in parts)


_two_parts(math.frexp, (scalars.mantissa, "float"), (scalars.exponent, "int"))
_two_parts(math.modf, (scalars.fractional_part, "float"), (scalars.whole_part, "float"))


@handles(math.log)
def _log(session: Session, value: Any, *base: Any) -> Any:
    if not base:
        return _math("log")(session, value)
    if not any(map(is_symbolic, (value, *base))):
        return math.log(value, *base)
    return session.call(math.log, value) / session.call(math.log, *base)


@handles(math.hypot)
def _hypot(session: Session, *values: Any) -> Any:
    if len(values) < 3 or not any(map(is_symbolic, values)):
        return _math("hypot")(session, *values)
    return session.number(scalars.distance, (numbers_of(session, values), (0.0,) * len(values)), "float")


@handles(math.fsum)
def _fsum(session: Session, values: Any) -> Any:
    numbers = numbers_of(session, values)
    return math.fsum(numbers) if is_known(numbers) else session.number(scalars.exact_sum, (numbers,), "float")


@handles(math.dist)
def _dist(session: Session, one: Any, other: Any) -> Any:
    points = [numbers_of(session, point) for point in (one, other)]
    return math.dist(*points) if all(map(is_known, points)) else session.number(scalars.distance, points, "float")


def numbers_of(session: Session, values: Any) -> Any:
    """Return numbers as a tuple; as a list of the program, if it is known only at run time how many there are."""
    items = iteration.collected(values)
    known = session.lists.of(items)
    if known is None:
        return tuple(_only_number(session, value) for value in items)
    return known if isinstance(known.element, value_types.NumberType) else session.lists.of(comprehensions.mapped(items, float))


def is_known(numbers: Any) -> bool:
    """Tell whether Python knows all of some numbers."""
    return isinstance(numbers, tuple) and not any(map(is_symbolic, numbers))


@handles(math.prod)
def _prod(session: Session, values: Any, *, start: Any = 1) -> Any:
    if iteration.is_of_runtime_length(values):
        return session.call(functools.reduce, operator.mul, values, start)
    return functools.reduce(operator.mul, iteration.iterated(values), start)


_OF_FLOATS = ("mean", "fmean", "geometric_mean", "harmonic_mean", "stdev", "pstdev", "variance", "pvariance", "median_grouped")
"""Functions that give a float of floats; the others are followed in Python."""
_ALWAYS_FLOAT = frozenset(("fmean", "geometric_mean", "stdev", "pstdev", "median_grouped"))
"""Those that give one of whole numbers, too."""


def _of_statistics(name: str) -> Callable[..., Any]:
    function = getattr(statistics, name)

    def handle(session: Session, data: Any, *rest: Any, **kwargs: Any) -> Any:
        numbers = numbers_of(session, data)
        if is_known(numbers) and is_known((*rest, *kwargs.values())):
            return function(numbers, *rest, **kwargs)
        if any(value is not None for value in (*rest, *kwargs.values())):
            raise errors.CaptureError(
                f"statistics.{name}() of numbers that are known only at run time, with more than these",
                session.here(),
                fix="write it out",
            )
        if name not in _ALWAYS_FLOAT and not _are_floats(numbers):
            raise errors.CaptureError(
                f"statistics.{name}() of whole numbers that are known only at run time is a whole number or a float",
                session.here(),
                fix="make them floats: [float(value) for value in values]",
            )
        _check_enough(session, function, numbers, 2 if name in ("stdev", "variance") else 1)
        if name in ("geometric_mean", "harmonic_mean"):
            failing.refuse(session, statistics.StatisticsError(), f"statistics.{name}()", "test what goes into it")
        return session.number(scalars.statistic, (name, numbers), "float")

    return handle


def _check_enough(session: Session, function: Callable[..., Any], numbers: Any, least: int) -> None:
    """Raise what Python raises where there are too few numbers, or have the program do so."""
    if not isinstance(numbers, RuntimeList):
        if len(numbers) < least:
            function((0.0,) * len(numbers))
        return
    try:
        function((0.0,) * (least - 1))
    except statistics.StatisticsError as error:
        check(session, lists.length(session, numbers) >= least, type(error), str(error))


def _are_floats(numbers: Any) -> bool:
    if isinstance(numbers, RuntimeList):
        return bool(numbers.element == value_types.NumberType("float"))
    return any(number_kind(value) == "float" for value in numbers)


for _name in _OF_FLOATS:
    handles(getattr(statistics, _name))(_of_statistics(_name))
