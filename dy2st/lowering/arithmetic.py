"""Python's arithmetic on numbers that are known when the program runs, by operators of tensors.

Integers are 64 bits wide and floats double, so results are Python's but for integers beyond that.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from dy2st.lowering.values import Number, as_tensor, form_of, is_number, kind_of, new_form, surely
from dy2st_runtime.primitives import scalars

_COMPARISONS = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
_ON_SIZES = ("add", "sub", "mul", "floordiv", "mod", "neg", "pos")
_FORMS: dict[str, Callable[[Any, Any], Any]] = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
_BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "floordiv": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "mod": torch.remainder,
    "pow": torch.pow,
    "and_": torch.bitwise_and,
    "or_": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "lshift": torch.bitwise_left_shift,
    "rshift": torch.bitwise_right_shift,
}
_UNARY_FLOAT = frozenset(
    [
        "sqrt",
        "exp",
        "log",
        "log2",
        "log10",
        "log1p",
        "expm1",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "lgamma",
    ]
)
_ROUNDING = {"floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc}


class NoTranslationError(Exception):
    """There is no operator of tensors for a function on numbers."""


def calculate(target: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return what a function of :mod:`dy2st_runtime.primitives.scalars` gives.

    Args:
        target: the function.
        args: its arguments; numbers, known or not, and tensors with one element where Python converts one.

    Raises:
        NoTranslationError: there is no operator of tensors for it.
    """
    name = scalars.NAMES[target]
    if not any(isinstance(value, (Number, torch.SymInt, torch.Tensor)) for value in args):
        return target(*args)
    base = name.rpartition(".")[2]
    if name.startswith("scalar."):
        return _OWN[base](*args)
    if base in _COMPARISONS:
        return _compare(base, *args)
    if name == "sym_size":
        return args[0].shape[args[1]]
    if name == "slice":
        return slice(*args)
    if base in _ON_SIZES and not any(isinstance(value, Number) or kind_of(value) == "float" for value in args):
        return target(*args)
    return _by_tensors(name, base, args)


def _by_tensors(name: str, base: str, args: Sequence[Any]) -> Any:
    if not all(is_number(value) for value in args):
        raise NoTranslationError(name)
    if name.startswith("math.") and base in _UNARY_FLOAT:
        return Number("float", getattr(torch, base)(as_tensor(args[0], "float")))
    if name.startswith("math.") and base in _ROUNDING:
        return Number("int", _ROUNDING[base](as_tensor(args[0], "float")).to(torch.int64))
    if name in _SPECIAL:
        return _SPECIAL[name](*args)
    if base in _BINARY and len(args) == 2:
        return _binary(base, *args)
    raise NoTranslationError(name)


def _binary(base: str, left: Any, right: Any) -> Number:
    kinds = {kind_of(left), kind_of(right)}
    bits = base in ("and_", "or_", "xor")
    kind = "float" if "float" in kinds else "bool" if kinds == {"bool"} and bits else "int"
    if base == "pow" and kind == "int" and not (isinstance(right, int) and right >= 0):
        raise NoTranslationError("a power of integers whose exponent may be negative")
    form = None
    if kind == "int" and base in _FORMS:
        forms = form_of(left), form_of(right)
        form = _FORMS[base](*forms) if None not in forms else None
    return Number(kind, _BINARY[base](as_tensor(left, kind), as_tensor(right, kind)), form)


def _compare(base: str, left: Any, right: Any) -> Any:
    """Return a comparison; of sizes it is kept as a condition on them too, which an assertion can tell ``torch.export``."""
    checks: tuple[Any, ...] = ()
    if not any(isinstance(value, Number) or kind_of(value) == "float" for value in (left, right)):
        outcome = getattr(operator, base)(left, right)
        if isinstance(outcome, bool):
            return outcome
        if surely(lambda: outcome):
            return True
        if surely(lambda: torch.sym_not(outcome)):
            return False
        checks = (outcome,)
    kind = "float" if "float" in (kind_of(left), kind_of(right)) else "int"
    result = _COMPARISONS[base](as_tensor(left, kind), as_tensor(right, kind))
    return Number("bool", result, implied=_implied(base, form_of(left), form_of(right)), checks=checks)


def _implied(base: str, left: sympy.Expr | None, right: sympy.Expr | None) -> frozenset[tuple[sympy.Expr, sympy.Expr]]:
    if left is None or right is None:
        return frozenset()
    match base:
        case "lt":
            return frozenset([(left, right)])
        case "le":
            return frozenset([(left, right + 1)])
        case "gt":
            return frozenset([(right, left)])
        case "ge":
            return frozenset([(right, left + 1)])
        case _:
            return frozenset()


def truth(value: Any) -> Any:
    """Return the truth value of a number or tensor: ``True``, ``False`` or a number of that kind."""
    if isinstance(value, torch.Tensor):
        return Number("bool", value.reshape(()) if value.dtype is torch.bool else value.reshape(()) != 0)
    if isinstance(value, Number):
        return value if value.kind == "bool" else Number("bool", value.tensor != 0)
    if isinstance(value, torch.SymInt):
        return _compare("ne", value, 0)
    return bool(value)


def _not(value: Any) -> Any:
    known = truth(value)
    return not known if isinstance(known, bool) else Number("bool", torch.logical_not(known.tensor))


def _combined(values: Sequence[Any], absorbing: bool, combine: Callable[..., torch.Tensor]) -> tuple[Any, list[Number]]:
    """Truth values as one, and the parts of it that are not known; ``absorbing`` is the one that decides alone."""
    known = [truth(value) for value in values]
    open_ = [value for value in known if not isinstance(value, bool)]
    if any(value is absorbing for value in known):
        return absorbing, []
    return (functools.reduce(combine, [value.tensor for value in open_]) if open_ else not absorbing), open_


def _and(*values: Any) -> Any:
    tensor, open_ = _combined(values, False, torch.logical_and)
    if not open_:
        return tensor
    checks = tuple(check for value in open_ for check in value.checks) if all(value.checks for value in open_) else ()
    return Number("bool", tensor, implied=frozenset().union(*(value.implied for value in open_)), checks=checks)


def _or(*values: Any) -> Any:
    tensor, open_ = _combined(values, True, torch.logical_or)
    return Number("bool", tensor) if open_ else tensor


def convert(value: Any, kind: str) -> Any:
    """Return ``int(value)`` or ``float(value)`` of a number or of a tensor with one element."""
    if isinstance(value, torch.Tensor):
        own = "float" if value.dtype.is_floating_point else "bool" if value.dtype is torch.bool else "int"
        value = Number(own, value.reshape(()).to(as_tensor(0, own).dtype))
    if kind_of(value) == kind:
        return value
    tensor = as_tensor(value)
    if kind == "int" and kind_of(value) == "float":
        tensor = torch.trunc(tensor)
    return Number(kind, as_tensor(Number(kind_of(value), tensor), kind))


def item(tensor: torch.Tensor) -> Number:
    """Return ``tensor.item()``."""
    kind = "float" if tensor.dtype.is_floating_point else "bool" if tensor.dtype is torch.bool else "int"
    result = convert(tensor, kind)
    assert isinstance(result, Number)
    return dataclasses.replace(result, form=new_form()) if kind == "int" else result


def _extreme(values: Sequence[Any], on_sizes: Callable[..., Any], on_tensors: Callable[..., torch.Tensor]) -> Any:
    if len({kind_of(value) for value in values}) > 1:
        raise NoTranslationError("min or max of numbers of different types")
    number = values[0]
    for value in values[1:]:
        if isinstance(number, Number) or isinstance(value, Number):
            number = Number(kind_of(value), on_tensors(as_tensor(number), as_tensor(value)))
        else:
            number = on_sizes(number, value)
    return number


def _where(condition: Any, if_true: Any, if_false: Any) -> Any:
    known = truth(condition)
    if isinstance(known, bool):
        return if_true if known else if_false
    kinds = {kind_of(if_true), kind_of(if_false)}
    if len(kinds) > 1:
        raise NoTranslationError("a choice between numbers of different types")
    return Number(kinds.pop(), torch.where(known.tensor, as_tensor(if_true), as_tensor(if_false)))


def _range_length(start: Any, stop: Any, step: Any) -> Any:
    if not isinstance(step, int):
        raise NoTranslationError("range with a step that is not known")
    span = calculate(operator.sub, (stop, start)) if step > 0 else calculate(operator.sub, (start, stop))
    if abs(step) != 1:
        span = calculate(operator.add, (span, abs(step) - 1))
        span = calculate(operator.floordiv, (span, abs(step)))
    if isinstance(span, Number):
        return Number("int", torch.clamp(span.tensor, min=0), span.form)
    return span if surely(lambda: span >= 0) else torch.sym_max(span, 0)


def _truediv(left: Any, right: Any) -> Number:
    return Number("float", torch.div(as_tensor(left, "float"), as_tensor(right, "float")))


def _round(value: Any, digits: Any = None) -> Any:
    if kind_of(value) != "float":
        return value
    if digits is None:
        return Number("int", torch.round(as_tensor(value)).to(torch.int64))
    raise NoTranslationError("round to a number of digits")


def _abs(value: Any) -> Number:
    return Number("int" if kind_of(value) == "bool" else kind_of(value), torch.abs(as_tensor(value, _widened(value))))


def _widened(value: Any) -> str:
    return "float" if kind_of(value) == "float" else "int"


def _divmod(left: Any, right: Any) -> tuple[Any, Any]:
    return calculate(operator.floordiv, (left, right)), calculate(operator.mod, (left, right))


def _getitem(value: Any, index: Any) -> Any:
    raise NoTranslationError("an item at a position that is not known")


def _predicate(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Number]:
    return lambda value: Number("bool", function(as_tensor(value, "float")))


_SPECIAL: dict[str, Callable[..., Any]] = {
    "operator.truediv": _truediv,
    "operator.neg": lambda value: Number(_widened(value), torch.neg(as_tensor(value, _widened(value)))),
    "operator.pos": lambda value: Number(_widened(value), as_tensor(value, _widened(value))),
    "operator.abs": _abs,
    "operator.invert": lambda value: Number("int", torch.bitwise_not(as_tensor(value, "int"))),
    "operator.not_": _not,
    "operator.getitem": _getitem,
    "math.isnan": _predicate(torch.isnan),
    "math.isinf": _predicate(torch.isinf),
    "math.isfinite": _predicate(torch.isfinite),
    "math.pow": lambda a, b: Number("float", torch.pow(as_tensor(a, "float"), as_tensor(b, "float"))),
    "math.fmod": lambda a, b: Number("float", torch.fmod(as_tensor(a, "float"), as_tensor(b, "float"))),
    "math.atan2": lambda a, b: Number("float", torch.atan2(as_tensor(a, "float"), as_tensor(b, "float"))),
    "math.hypot": lambda a, b: Number("float", torch.hypot(as_tensor(a, "float"), as_tensor(b, "float"))),
    "math.copysign": lambda a, b: Number("float", torch.copysign(as_tensor(a, "float"), as_tensor(b, "float"))),
    "math.degrees": lambda a: Number("float", as_tensor(a, "float") * (180 / math.pi)),
    "math.radians": lambda a: Number("float", as_tensor(a, "float") * (math.pi / 180)),
    "math.gcd": lambda a, b: Number("int", torch.gcd(as_tensor(a, "int"), as_tensor(b, "int"))),
    "round": _round,
    "divmod": _divmod,
    "pow": lambda a, b: _binary("pow", a, b),
}

_OWN: dict[str, Callable[..., Any]] = {
    "to_int": lambda value: convert(value, "int"),
    "to_float": lambda value: convert(value, "float"),
    "to_bool": truth,
    "same_size": lambda obj, expected: _compare("eq", obj, expected),
    "logical_not": _not,
    "logical_and": _and,
    "logical_or": _or,
    "minimum": lambda *values: _extreme(values, torch.sym_min, torch.minimum),
    "maximum": lambda *values: _extreme(values, torch.sym_max, torch.maximum),
    "where": _where,
    "range_length": _range_length,
    "size_of": lambda *sizes: torch.Size(sizes),
}
"""The functions that are this project's own."""
