"""Augmented assignments.

x += v                  →   x = _dy2st.inplace('+', x, v)
a.b += v                →   _dy2st.set_attr(a, 'b', _dy2st.inplace('+', _dy2st.attr(a, 'b'), v))
f()[k()] += v           →   object_1 = f()
                            key_1 = _dy2st.normalized_key(object_1, k())
                            _dy2st.set_item(object_1, key_1, _dy2st.inplace('+', _dy2st.item(object_1, key_1), v))
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from typing import Any

import gast

from dy2st import names
from dy2st.capture.attributes import access
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.constructs.undefined import rewrite_name
from dy2st.source import template

_SYMBOLS = {
    gast.Add: "+",
    gast.Sub: "-",
    gast.Mult: "*",
    gast.MatMult: "@",
    gast.Div: "/",
    gast.FloorDiv: "//",
    gast.Mod: "%",
    gast.Pow: "**",
    gast.LShift: "<<",
    gast.RShift: ">>",
    gast.BitOr: "|",
    gast.BitXor: "^",
    gast.BitAnd: "&",
}
_INPLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+": python.iadd,
    "-": python.isub,
    "*": python.imul,
    "@": python.imatmul,
    "/": python.itruediv,
    "//": python.ifloordiv,
    "%": python.imod,
    "**": python.ipow,
    "<<": python.ilshift,
    ">>": python.irshift,
    "|": python.ior,
    "^": python.ixor,
    "&": python.iand,
}


@rewrites(gast.AugAssign, Phase.ACCESS)
def rewrite_aug_assign(node: gast.AugAssign, context: Context) -> list[gast.stmt]:
    """Evaluate object and key once, read, change, write."""
    symbol = template.constant(_SYMBOLS[type(node.op)], node)
    target = node.target
    if isinstance(target, gast.Name):
        old = rewrite_name(template.load(target.id, target), context)
        text = "name = _dy2st.inplace(symbol, old, value)"
        return context.statements(text, node, name=target.id, symbol=symbol, old=old, value=node.value)
    start, owner = _once(target.value, names.OBJECT, context)
    if isinstance(target, gast.Attribute):
        text = "_dy2st.set_attr(owner, key, _dy2st.inplace(symbol, _dy2st.attr(owner, key), value))"
        more: list[gast.stmt] = []
        key = template.constant(target.attr, target)
    else:
        text = "_dy2st.set_item(owner, key, _dy2st.inplace(symbol, _dy2st.item(owner, key), value))"
        more, key = _once_known(target, owner, context)
    change = context.statements(text, node, owner=owner, key=key, symbol=symbol, value=node.value)
    return [*start, *more, *change]


def _once(node: gast.expr, base: str, context: Context) -> tuple[list[gast.stmt], gast.expr]:
    """Return statements that evaluate an expression, and an expression that gives its value any number of times."""
    if isinstance(node, gast.Name | gast.Constant):
        return [], node
    (name,) = context.namer.numbered(base)
    return context.statements("name = value", node, name=name, value=node), template.load(name, node)


def _once_known(target: gast.expr, owner: gast.expr, context: Context) -> tuple[list[gast.stmt], gast.expr]:
    """Return the same for the key of an item, which is the same one when it is read and when it is written."""
    result = target.slice.func if isinstance(target.slice, gast.Call) else None
    is_slice = isinstance(result, gast.Attribute) and context.is_operators(result.value) and result.attr == "slice"
    if isinstance(target.slice, gast.Constant) or is_slice:
        return _once(target.slice, names.KEY, context)
    text = "_dy2st.normalized_key(owner, key)"
    return _once(context.expression(text, target.slice, owner=owner, key=target.slice), names.KEY, context)


@operator("normalized_key")
def normalized_key(owner: Any, key: Any) -> Any:
    """Return the key of an item that is read and written.

    One of those that are there, if nobody knows which it may be otherwise.
    """
    return access.normalized_key(owner, key)


@operator("inplace")
def inplace(symbol: str, target: Any, value: Any) -> Any:
    """Return `target symbol= value`: the new value of the target."""
    return access.inplace(_INPLACE[symbol], target, value)
