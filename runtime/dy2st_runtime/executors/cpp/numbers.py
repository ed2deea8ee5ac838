"""Python numbers in C++, with Python's semantics: what C++ would do differently makes the unit give up.

An ``int`` is an ``int64_t`` whose overflow is noticed, a ``float`` is a ``double``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st_runtime.executors.cpp.builder import Builder
from dy2st_runtime.executors.cpp.values import NUMBERS, Number, Tensor, Unsupported
from dy2st_runtime.primitives import scalars

_EXACT = 1 << 53
"""Integers up to here are ``double`` values."""


def kind_of(value: Any) -> type:
    """Return the Python type of a number."""
    kind = value.kind if isinstance(value, Number) else type(value)
    if kind not in NUMBERS:
        raise Unsupported(f"{kind.__name__} is no number")
    return kind


def follow(builder: Builder, target: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Follow one operation on Python numbers."""
    if target is torch.ops.aten.sym_size.int:
        return args[0].shape[builder.constant(args[1])]
    if not any(isinstance(value, (Number, Tensor)) for value in args):
        return _folded(target, args)
    name = scalars.NAMES[target]
    if name in ("operator.is_", "operator.not_", "scalar.logical_not", "scalar.to_bool"):
        return _truth(builder, name, args)
    if name in ("scalar.to_int", "scalar.to_float"):
        return _cast(builder, name, args[0])
    if any(isinstance(value, Tensor) for value in args):
        raise Unsupported(f"{name} of a tensor")
    rule = _RULES.get(name)
    if rule is None:
        raise Unsupported(f"{name} has no C++")
    return rule(builder, name, args)


def _folded(target: Callable[..., Any], args: Sequence[Any]) -> Any:
    try:
        return target(*args)
    except Exception as error:
        raise Unsupported(f"it raises {type(error).__name__}") from error


def _truth(builder: Builder, name: str, args: Sequence[Any]) -> Any:
    value = args[0]
    if name == "operator.is_":
        if args[1] is None and isinstance(value, Tensor) and value.optional:
            return builder.number(bool, f"{value.identity} < 0", (), after=[value])
        if args[1] is None and isinstance(value, Number) and value.absent:
            return builder.number(bool, value.absent, (), after=[value])
        if None in args:
            return False
        raise Unsupported("`is` of values that are no constants")
    return builder.number(bool, "{} != 0" if name == "scalar.to_bool" else "{} == 0", [value])


def item_kind(value: Tensor) -> type:
    """Return the Python type of a tensor's elements."""
    dtype = value.buffer.dtype
    return float if dtype.is_floating_point else bool if dtype is torch.bool else int


def _cast(builder: Builder, name: str, value: Any) -> Number:
    kind = item_kind(value) if isinstance(value, Tensor) else value.kind
    if name == "scalar.to_float":
        return builder.number(float, "(double){}", [value], "" if kind is not int else _too_large("{0}"))
    if kind is float:
        return builder.number(
            int, "(int64_t){}", [value], "if (!({} > -0x1p62 && {0} < 0x1p62)) return GIVE_UP;".replace("{}", "{0}")
        )
    return builder.number(int, "(int64_t){}", [value])


def _too_large(operand: str) -> str:
    return f"if ({operand} > (int64_t){_EXACT} || {operand} < -(int64_t){_EXACT}) return GIVE_UP;"


def _guards(args: Sequence[Any]) -> str:
    """Return statements that give up where an integer among floats is too large for the exact answer."""
    return " ".join(_too_large(f"{{{i}}}") for i, value in enumerate(args) if kind_of(value) is int and isinstance(value, Number))


def _common(args: Sequence[Any]) -> type:
    kinds = {kind_of(value) for value in args}
    return float if float in kinds else int


def _arithmetic(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    sign, function = _ARITHMETIC[name]
    if _common(args) is float:
        return builder.number(float, f"(double){{}} {sign} (double){{}}", args, _guards(args))
    result = builder.fresh("n")
    check = f"int64_t {result}; if (__builtin_{function}_overflow((int64_t){{}}, (int64_t){{}}, &{result})) return GIVE_UP;"
    return builder.number(int, result, args, check)


def _compare(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    kind, sign = _common(args), _COMPARISONS[name]
    if kind is float:
        return builder.number(bool, f"(double){{}} {sign} (double){{}}", args, _guards(args))
    return builder.number(bool, f"(int64_t){{}} {sign} (int64_t){{}}", args)


def _divide(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    check = f"if ({{1}} == 0) return GIVE_UP; {_guards(args)}"
    return builder.number(float, "(double){} / (double){}", args, check)


def _floor_divide(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    kind = _common(args)
    function = "floor_div" if name.endswith("floordiv") else "f_mod"
    if kind is float:
        if function == "floor_div":
            raise Unsupported("// of floats has no C++")
        return builder.number(float, "f_mod((double){}, (double){})", args, f"if ({{1}} == 0) return GIVE_UP; {_guards(args)}")
    check = "if ({1} == 0 || {1} == -1) return GIVE_UP;"
    return builder.number(int, f"{function}((int64_t){{}}, (int64_t){{}})", args, check)


def _power(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    if args[1] != 2 or isinstance(args[1], (bool, Number)):
        raise Unsupported("a power has no C++ unless it is a square")
    if kind_of(args[0]) is not float:
        return _arithmetic(builder, "operator.mul", (args[0], args[0]))
    return builder.number(float, "{0} * {0}", args[:1], "if (!f_isfinite({0} * {0})) return GIVE_UP;")


def _unary(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    kind = kind_of(args[0])
    if name == "operator.pos" and kind is not bool:
        return args[0]  # type: ignore[no-any-return]  # a Number, since it is no constant
    if kind is float:
        return builder.number(float, {"operator.neg": "-{}", "operator.abs": "f_abs({})"}[name], args)
    check = "if ({} == -__INT64_MAX__ - 1) return GIVE_UP;"
    text = {"operator.neg": "-(int64_t){}", "operator.abs": "f_abs((int64_t){})", "operator.pos": "(int64_t){}"}[name]
    return builder.number(int, text, args, check)


def _bitwise(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    kinds = {kind_of(value) for value in args}
    if float in kinds:
        raise Unsupported(f"{name} of a float")
    sign = {"and_": "&", "or_": "|", "xor": "^"}[name.removeprefix("operator.")]
    kind = bool if kinds == {bool} else int
    return builder.number(kind, f"(({NUMBERS[kind]}){{}} {sign} ({NUMBERS[kind]}){{}})", args)


def _logical(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    sign = "&&" if name.endswith("and") else "||"
    return builder.number(bool, f" {sign} ".join(["({} != 0)"] * len(args)), args)


def _extreme(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    """Return ``min`` and ``max`` give the first of equal numbers, and a nan only where it comes first."""
    kinds = {kind_of(value) for value in args}
    if len(kinds) != 1:
        raise Unsupported("min or max of numbers of several types")
    (kind,) = kinds
    sign = "<" if name.endswith("minimum") else ">"
    result = args[0]
    for value in args[1:]:
        result = builder.number(kind, f"{{1}} {sign} {{0}} ? {{1}} : {{0}}", [result, value])
    return result  # type: ignore[no-any-return]  # a Number, since one of them is no constant


def _where(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    if kind_of(args[1]) is not kind_of(args[2]):
        raise Unsupported("one of two numbers of different types")
    return builder.number(kind_of(args[1]), "{} ? {} : {}", args)


def _range_length(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    start, stop, step = args
    if isinstance(step, Number) or step == 0 or isinstance(step, bool) or {kind_of(start), kind_of(stop)} - {int}:
        raise Unsupported("a range whose step is known at run time only")
    far = f"f_abs({{0}}) > (int64_t){_EXACT} || f_abs({{1}}) > (int64_t){_EXACT}"
    check = f"if ({far}) return GIVE_UP;"
    if step > 0:
        return builder.number(int, "{1} > {0} ? ({1} - {0} + {2} - 1) / {2} : 0", args, check)
    return builder.number(int, "{0} > {1} ? ({0} - {1} - {2} - 1) / -{2} : 0", args, check)


def _math(builder: Builder, name: str, args: Sequence[Any]) -> Number:
    function = name.removeprefix("math.")
    kind = kind_of(args[0])
    if kind is int:
        check = _too_large("{0}")
    else:
        check = ""
    if function in ("isnan", "isinf", "isfinite"):
        text = {"isnan": "{0} != {0}", "isinf": "f_isinf((double){0})", "isfinite": "f_isfinite((double){0})"}[function]
        return builder.number(bool, text, args, check)
    value = f"f_{function}((double){{0}})"
    if function in ("floor", "ceil", "trunc"):
        return builder.number(int, f"(int64_t){value}", args, check + " if (!(f_abs((double){0}) < 0x1p62)) return GIVE_UP;")
    return builder.number(float, value, args, check + f" if (!f_isfinite({value})) return GIVE_UP;")


_ARITHMETIC = {"operator.add": ("+", "add"), "operator.sub": ("-", "sub"), "operator.mul": ("*", "mul")}
_COMPARISONS = {f"operator.{operator.__name__}": sign for operator, sign in (
    (operator.eq, "=="), (operator.ne, "!="), (operator.lt, "<"), (operator.le, "<="), (operator.gt, ">"), (operator.ge, ">="),
)}  # fmt: skip

_RULES: dict[str, Callable[[Any, str, Sequence[Any]], Number]] = {
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(("operator.and_", "operator.or_", "operator.xor"), _bitwise),
    **dict.fromkeys(("operator.neg", "operator.pos", "operator.abs"), _unary),
    **dict.fromkeys(("operator.floordiv", "operator.mod"), _floor_divide),
    **dict.fromkeys(("scalar.logical_and", "scalar.logical_or"), _logical),
    **dict.fromkeys(("scalar.minimum", "scalar.maximum"), _extreme),
    **{f"math.{name}": _math for name in (
        "sqrt", "exp", "log", "sin", "cos", "tanh", "isnan", "isinf", "isfinite", "floor", "ceil", "trunc",
    )},
    "operator.truediv": _divide,
    "operator.pow": _power,
    "pow": _power,
    "scalar.same_size": lambda builder, name, args: _compare(builder, "operator.eq", args),
    "scalar.where": _where,
    "scalar.range_length": _range_length,
}  # fmt: skip

TARGETS = frozenset(_RULES) | {
    "operator.getitem", "operator.is_", "operator.not_", "scalar.logical_not", "scalar.to_bool", "scalar.to_int", "scalar.to_float",
    "scalar.size_of", "sym_size", "slice",
}  # fmt: skip
"""The names of the operations on numbers that there is C++ for."""
