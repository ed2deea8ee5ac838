"""Arithmetic on symbolic numbers, recorded as the Python operation that the user wrote.

torch's symbolic float rounds through algebra, lacks ``%``, and refuses a negative base of ``**``; its symbolic bool is
no number; its symbolic int lacks ``~`` and shifts, and forgets that a division may fail. During a capture such operators are
replaced by ones that record the operation; its value is what Python computes when the program runs. Integer algebra that
is exact stays torch's own.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from dy2st.capture.containers.complex_numbers import RuntimeComplex
from dy2st.capture.recording.patches import methods_patch
from dy2st.capture.session.session import Session, recording
from dy2st.capture.values.kinds import number_kind
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st_runtime.primitives import scalars

_ARITHMETIC = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow,
}  # fmt: skip
_BITS = {
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift,
}  # fmt: skip
_COMPARE = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_UNARY: dict[str, Callable[..., Any]] = {
    "neg": operator.neg, "abs": operator.abs, "pos": operator.pos, "invert": operator.invert,
    "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip
_TO_INT = ("trunc", "floor", "ceil")
_DIVISIONS = (operator.truediv, operator.floordiv, operator.mod)
_LOGIC = (operator.and_, operator.or_, operator.xor)
_WITH_COMPLEX = ("add", "sub", "mul", "truediv", "pow")
_OF_COMPLEX = {
    **{f"__{name}__": f"__r{name}__" for name in _WITH_COMPLEX}, **{f"__r{name}__": f"__{name}__" for name in _WITH_COMPLEX}
}  # fmt: skip
"""The operators of a number and a complex one, with the method of the complex one."""
_NUMBERS = (bool, int, float, *SYMBOLIC_NUMBERS)


def _binary(kind: type, name: str, target: Callable[..., Any], reflected: bool = False) -> Callable[..., Any]:
    original = vars(kind).get(name)

    def method(self: Any, other: Any) -> Any:
        session = recording()
        if session is None:
            return NotImplemented if original is None else original(self, other)
        if isinstance(other, complex) and name in _OF_COMPLEX:
            return getattr(RuntimeComplex(other.real, other.imag), _OF_COMPLEX[name])(self)
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        operands = (other, self) if reflected else (self, other)
        kinds = {number_kind(operand) for operand in operands}
        if kinds == {"int"} and original is not None and not _needs_record(target, operands[1]):
            return original(self, other)
        if kinds == {"int"} and target is operator.pow:
            return _integer_power(session, *operands)
        if "bool" in kinds and "float" not in kinds and not (kinds == {"bool"} and target in _LOGIC):
            return target(*(_as_int(session, operand) for operand in operands))
        return session.number(target, operands, _result_kind(target, kinds))

    return method


def _needs_record(target: Callable[..., Any], right: Any) -> bool:
    """Tell whether integer algebra would lose an error, or asks for more than it can know."""
    if target in _BITS.values():
        return True
    if target is operator.pow and not isinstance(right, torch.SymInt):
        return bool(right < 0)
    if target in _DIVISIONS:
        return isinstance(right, torch.SymInt) or right == 0
    return isinstance(right, torch.SymInt) and target is operator.pow


def _integer_power(session: Session, base: Any, exponent: Any) -> Any:
    """Return a power of ints.

    An int, or a float where the exponent is negative; a tagged union of the two where nobody knows its sign.
    """
    natural = exponent >= 0
    known = session.shapes.known(natural)
    if known is not None:
        return session.number(operator.pow, (base, exponent), "int" if known else "float")
    whole = session.number(operator.pow, (base, session.number(scalars.maximum, (exponent, 0), "int")), "int")
    inverse = session.number(operator.pow, (base, session.number(scalars.minimum, (exponent, 0), "int")), "float")
    return session.new_union(session.number(scalars.where, (natural, 0, 1), "int"), {0: whole, 1: inverse})


def _as_int(session: Session, value: Any) -> Any:
    if isinstance(value, torch.SymBool):
        return session.number(scalars.to_int, (value,), "int")
    return int(value) if isinstance(value, bool) else value


def _result_kind(target: Callable[..., Any], kinds: set[str]) -> str:
    if target in _COMPARE.values() or kinds == {"bool"}:
        return "bool"
    if "float" in kinds or target is operator.truediv:
        return "float"
    return "int"


def _unary(kind: type, name: str, target: Callable[..., Any]) -> Callable[..., Any]:
    original = vars(kind).get(name)

    def method(self: Any) -> Any:
        session = recording()
        if session is None:
            return target(int(self)) if original is None else original(self)
        if isinstance(self, torch.SymBool):
            return target(_as_int(session, self))
        gives_int = isinstance(self, torch.SymInt) or target.__name__ in _TO_INT
        return session.number(target, (self,), "int" if gives_int else "float")

    return method


def _methods(kind: type) -> dict[str, Callable[..., Any]]:
    both_ways = _ARITHMETIC if kind is torch.SymFloat else {**_ARITHMETIC, **_BITS}
    unary: dict[Any, tuple[str, ...]] = {
        torch.SymFloat: ("neg", "abs", "pos", *_TO_INT),
        torch.SymInt: ("invert",),
        torch.SymBool: ("neg", "abs", "pos", "invert"),
    }
    results = {f"__{name}__": _binary(kind, f"__{name}__", target) for name, target in {**both_ways, **_COMPARE}.items()}
    results |= {f"__r{name}__": _binary(kind, f"__r{name}__", target, reflected=True) for name, target in both_ways.items()}
    results |= {f"__{name}__": _unary(kind, f"__{name}__", _UNARY[name]) for name in unary[kind]}
    return results | ({"is_integer": _is_integer(kind)} if kind is torch.SymFloat else {})


def _is_integer(kind: type) -> Callable[..., Any]:
    original = vars(kind)["is_integer"]

    def method(self: Any) -> Any:
        return original(self) if recording() is None else self % 1.0 == 0  # no number remains of an infinity

    return method


OPERATORS = methods_patch(SYMBOLIC_NUMBERS, _methods)
"""Records operations on symbolic numbers."""
