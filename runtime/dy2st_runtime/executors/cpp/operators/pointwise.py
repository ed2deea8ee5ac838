"""Operations on elements: what each one is in C++.

The text of an operation has ``{0}``, ``{1}``, … for its operands, which are cast to the type it computes in.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Pointwise:
    """One operation on elements.

    Attributes:
        operands: the names of the arguments that are operands, in order.
        text: C++.
        kind: ``"same"`` computes in the common dtype of the operands, ``"float"`` in a floating one, ``"bool"`` takes operands of a
            common dtype and gives truth values.
        floating: whether there is code for floating dtypes only.
    """

    operands: tuple[str, ...]
    text: str
    kind: str = "same"


_WITH_ARGUMENTS = {
    "atan2": Pointwise(("self", "other"), "f_atan2({0}, {1})", "float"),
    "leaky_relu": Pointwise(("self", "negative_slope"), "{0} > 0 ? {0} : {0} * {1}"),
    "threshold": Pointwise(("self", "threshold", "value"), "{0} <= {1} ? {2} : {0}"),
    "hardtanh": Pointwise(("self", "min_val", "max_val"), "f_clamp({0}, {1}, {2})"),
    "clamp_min": Pointwise(("self", "min"), "f_max({0}, {1})"),
    "clamp_max": Pointwise(("self", "max"), "f_min({0}, {1})"),
    "lerp": Pointwise(
        ("self", "end", "weight"), "f_abs({2}) < T(0.5) ? {0} + {2} * ({1} - {0}) : {1} - ({1} - {0}) * (1 - {2})", "float"
    ),
    "addcmul": Pointwise(("self", "tensor1", "tensor2", "value"), "{0} + {3} * {1} * {2}"),
    "addcdiv": Pointwise(("self", "tensor1", "tensor2", "value"), "{0} + {3} * ({1} / {2})", "float"),
    "softplus": Pointwise(
        ("self", "beta", "threshold"), "{0} * {1} > {2} ? {0} : f_log1p(f_exp({0} * {1})) / {1}", "float"
    ),
    "elu": Pointwise(
        ("self", "alpha", "scale", "input_scale"),
        "{0} > 0 ? {0} * {2} : f_expm1({0} * {3}) * ({1} * {2})",
        "float",
    ),
}  # fmt: skip
"""Operations whose operands have names of their own."""


def _table() -> dict[str, Pointwise]:
    one, two = ("self",), ("self", "other")
    table = {
        name: Pointwise(one, text, "float")
        for name, text in {
            "sqrt": "f_sqrt({0})", "rsqrt": "1 / f_sqrt({0})", "reciprocal": "1 / {0}", "exp": "f_exp({0})",
            "exp2": "f_exp2({0})", "expm1": "f_expm1({0})", "log": "f_log({0})", "log2": "f_log2({0})", "log10": "f_log10({0})",
            "log1p": "f_log1p({0})", "sin": "f_sin({0})", "cos": "f_cos({0})", "tan": "f_tan({0})", "asin": "f_asin({0})",
            "acos": "f_acos({0})", "atan": "f_atan({0})", "sinh": "f_sinh({0})", "cosh": "f_cosh({0})", "tanh": "f_tanh({0})",
            "erf": "f_erf({0})", "erfc": "f_erfc({0})", "sigmoid": "1 / (1 + f_exp(-{0}))", "silu": "{0} / (1 + f_exp(-{0}))",
        }.items()
    }  # fmt: skip
    table |= {
        name: Pointwise(one, text)
        for name, text in {
            "neg": "-{0}", "abs": "f_abs({0})", "sign": "f_sign({0})", "sgn": "f_sign({0})", "square": "{0} * {0}",
            "relu": "f_relu({0})", "floor": "f_floor({0})", "ceil": "f_ceil({0})", "trunc": "f_trunc({0})",
            "frac": "{0} - f_trunc({0})", "round": "f_round({0})", "clone": "{0}", "positive": "{0}", "bitwise_not": "f_not({0})",
        }.items()
    }  # fmt: skip
    table |= {
        name: Pointwise(one, text, "bool")
        for name, text in {
            "isnan": "{0} != {0}", "isinf": "f_isinf({0})", "isfinite": "f_isfinite({0})", "logical_not": "{0} == 0",
        }.items()
    }  # fmt: skip
    table |= {
        name: Pointwise(two, text, "bool")
        for name, text in {
            "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}",
            "logical_and": "{0} != 0 && {1} != 0", "logical_or": "{0} != 0 || {1} != 0", "logical_xor": "({0} != 0) != ({1} != 0)",
        }.items()
    }  # fmt: skip
    table |= {
        name: Pointwise(two, text)
        for name, text in {
            "mul": "{0} * {1}", "minimum": "f_min({0}, {1})", "maximum": "f_max({0}, {1})", "bitwise_and": "{0} & {1}",
            "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}", "__and__": "{0} & {1}", "__or__": "{0} | {1}",
            "__xor__": "{0} ^ {1}",
        }.items()
    }  # fmt: skip
    return table | _WITH_ARGUMENTS


TABLE = _table()
"""Every operation whose text does not depend on its other arguments, by the name of the operator without its overload."""

FLOATING_ONLY = frozenset({"round", "frac", "leaky_relu", "threshold", "hardtanh"})
"""Computed in the operands' own dtype, which must be a floating one."""
