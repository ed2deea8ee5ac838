"""Expressions of sizes and numbers as operations of a program.

Integers and booleans are exact under algebra, so sympy may rearrange them; floats are not, and never reach this module except
as symbols (each float operation is recorded as it was made, see :mod:`dy2st.capture.recording.recorder`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import sympy
from torch.utils._sympy import functions

from dy2st_runtime.primitives import scalars

ACTS_FOR_USER = False

_BINARY: dict[Any, Callable[..., Any]] = {
    functions.FloorDiv: operator.floordiv,
    functions.CleanDiv: operator.floordiv,
    functions.Mod: operator.mod,
    functions.PythonMod: operator.mod,
    functions.IntTrueDiv: operator.truediv,
    functions.FloatTrueDiv: operator.truediv,
    functions.PowByNatural: operator.pow,
    functions.FloatPow: operator.pow,
    functions.LShift: operator.lshift,
    functions.RShift: operator.rshift,
    functions.BitwiseFn_bitwise_and: operator.and_,
    functions.BitwiseFn_bitwise_or: operator.or_,
    functions.BitwiseFn_bitwise_xor: operator.xor,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.Pow: operator.pow,
}
_FOLDED: dict[Any, Callable[..., Any]] = {sympy.Add: operator.add, sympy.Mul: operator.mul}
_VARIADIC: dict[Any, Callable[..., Any]] = {
    functions.Max: scalars.maximum,
    functions.Min: scalars.minimum,
    sympy.And: scalars.logical_and,
    sympy.Or: scalars.logical_or,
}
_UNARY: dict[Any, Callable[..., Any]] = {
    sympy.Not: scalars.logical_not,
    functions.ToFloat: scalars.to_float,
    functions.TruncToInt: scalars.to_int,
    functions.CeilToInt: math.ceil,
    functions.FloorToInt: math.floor,
    functions.Identity: operator.pos,
    sympy.Abs: abs,
}


def constant(expr: Any) -> Any:
    """Return the Python number of an expression without symbols."""
    if expr is sympy.true or expr is sympy.false:
        return bool(expr)
    return int(expr) if expr.is_integer or isinstance(expr, sympy.Integer) else float(expr)


def build(expr: Any, operand: Callable[[Any], Any], call: Callable[..., Any]) -> Any:
    """Make the operations that compute an expression.

    Args:
        expr: an expression with at least one symbol.
        operand: gives the node (or number) of a part.
        call: makes a node from a target and its arguments.

    Raises:
        NotImplementedError: the expression has a part that no operation computes.
    """
    kind = type(expr)
    if kind in _FOLDED:
        return _fold(expr, operand, call)
    if kind in _BINARY:
        return call(_BINARY[kind], tuple(operand(part) for part in expr.args))
    if kind in _VARIADIC:
        return call(_VARIADIC[kind], tuple(operand(part) for part in expr.args))
    if kind in _UNARY:
        return call(operator.abs if kind is sympy.Abs else _UNARY[kind], (operand(expr.args[0]),))
    if isinstance(expr, functions.ModularIndexing):
        base, divisor, modulus = (operand(part) for part in expr.args)
        return call(operator.mod, (call(operator.floordiv, (base, divisor)), modulus))
    if isinstance(expr, sympy.Piecewise) or kind is functions.Where:
        condition, if_true, if_false = expr.args
        return call(scalars.where, tuple(operand(part) for part in (condition, if_true, if_false)))
    raise NotImplementedError(f"no operation computes {expr}")


def _fold(expr: Any, operand: Callable[[Any], Any], call: Callable[..., Any]) -> Any:
    """Return a sum or product of several parts; ``a - b`` is stored as ``a + (-1) * b``."""
    parts = sorted(expr.args, key=lambda part: (part.is_number, part.could_extract_minus_sign(), str(part)))
    target = _FOLDED[type(expr)]
    result = operand(parts[0])
    for part in parts[1:]:
        if target is operator.add and part.could_extract_minus_sign():
            result = call(operator.sub, (result, operand(-part)))
        else:
            result = call(target, (result, operand(part)))
    return result
