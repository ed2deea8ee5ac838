"""Operators of PyTorch in C++: which there are, and what each one becomes.

The shape, dtype and strides of a result are PyTorch's own answer for meta tensors. An operator that gives a view of its argument
becomes no code at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from dy2st_runtime.executors.cpp.builder import Builder
from dy2st_runtime.executors.cpp.operators import kernels, new_tensors  # noqa: F401  # they register their operators
from dy2st_runtime.executors.cpp.operators.call import RULES, Call, Rule
from dy2st_runtime.executors.cpp.operators.elementwise import pointwise
from dy2st_runtime.executors.cpp.operators.pointwise import TABLE
from dy2st_runtime.executors.cpp.operators.views import VIEWS, view
from dy2st_runtime.executors.cpp.values import Number, Tensor, Unsupported, Value

_IN_PLACE = frozenset({
    "add", "sub", "div", "pow", "clamp", "fill", "zero", "copy", "masked_fill", "remainder", "fmod", "floor_divide",
})  # fmt: skip
"""Operators with a rule of their own whose in-place form it follows, too."""


def follow(builder: Builder, node: fx.Node, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Value:
    """Follow one operator."""
    schema = target._schema
    if any(argument.is_out for argument in schema.arguments):
        raise Unsupported(f"{target} writes to out=")
    arguments = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    positional = [argument.name for argument in schema.arguments if not argument.kwarg_only]
    arguments.update(zip(positional, args))
    arguments.update(kwargs)
    name = schema.name.removeprefix("aten::")
    in_place = name.endswith("_") and not name.endswith("__")
    call = Call(builder, node, target, name.removesuffix("_") if in_place else name, arguments, in_place)
    rule = rule_of(target)
    if rule is None:
        raise Unsupported(f"{target} has no C++")
    for argument in schema.arguments:
        given = arguments.get(argument.name)
        known = Tensor if in_place and argument.name == "self" else (Tensor, Number, bool, int, float)
        if str(argument.type) == "Tensor" and not isinstance(given, known):
            raise Unsupported(f"{target} of something that is no tensor")
    return rule(call)


def rule_of(target: Any) -> Rule | None:
    """Return what follows an operator; ``None`` where there is no C++ for it."""
    namespace, _, name = target._schema.name.partition("::")
    if namespace != "aten":
        return None
    if name in RULES:
        return RULES[name]
    if name in VIEWS:
        return view
    base = name.removesuffix("_") if name.endswith("_") and not name.endswith("__") else name
    if base in RULES and base in _IN_PLACE:
        return RULES[base]
    return pointwise if base in TABLE else None
