"""`+`, `*`, `*xs` of what may be lists, `%` of what may be a string, `|` of dicts, `&`, `-`, `^` of views of dicts.

    a + b, a * b, a % b     →   _dy2st.add(a, b), _dy2st.mul(a, b), _dy2st.mod(a, b)
    a | b                   →   _dy2st.merged(a, b)
    a & b, a - b, a ^ b     →   _dy2st.bit_and(a, b), _dy2st.sub(a, b), _dy2st.bit_xor(a, b)
    f(*xs), [*xs]           →   f(*_dy2st.spread(xs)), [*_dy2st.spread(xs)]
    (*xs,)                  →   _dy2st.tuple((*_dy2st.spread(xs),))

A list whose length a tensor decides is still a Python list to the user; Python's own operators would see its stale contents.
Where a number stands on either side there is no such list. A string would take the text of an abstract value.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from typing import Any

import gast

from dy2st.capture import current
from dy2st.capture.collections import tables
from dy2st.capture.containers import lists, set_views, tuples
from dy2st.capture.looping import spreading
from dy2st.capture.session.session import Session
from dy2st.capture.texts.text import percent
from dy2st.capture.values.abstract_objects import AbstractTuple
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites

_OPERATORS = {
    gast.Add: "_dy2st.add(left, right)",
    gast.Mult: "_dy2st.mul(left, right)",
    gast.Mod: "_dy2st.mod(left, right)",
    gast.BitOr: "_dy2st.merged(left, right)",
    gast.BitAnd: "_dy2st.bit_and(left, right)",
    gast.Sub: "_dy2st.sub(left, right)",
    gast.BitXor: "_dy2st.bit_xor(left, right)",
}


@rewrites(gast.BinOp, Phase.ACCESS)
def rewrite_bin_op(node: gast.BinOp, context: Context) -> gast.expr:
    """Return sums and products of two expressions."""
    text = _OPERATORS.get(type(node.op))
    times = isinstance(node.op, gast.Mult)  # a list may stand beside a number
    number = isinstance(node.left, gast.Constant) and not isinstance(node.left.value, str)
    if text is None or (not times and (number or isinstance(node.right, gast.Constant))):
        return node
    return context.expression(text, node, left=node.left, right=node.right)


@rewrites(gast.Starred, Phase.ACCESS)
def rewrite_starred(node: gast.Starred, context: Context) -> gast.Starred:
    """Return `*xs` among arguments and in displays."""
    if isinstance(node.ctx, gast.Load) and not _calls(node.value, "spread", context):
        node.value = context.expression("_dy2st.iterated(value)", node.value, value=node.value)
    return node


def spread_starred(parts: list[gast.expr], context: Context) -> None:
    """Starred parts of a list display may be lists whose length a tensor decides."""
    for part in parts:
        if isinstance(part, gast.Starred) and _calls(part.value, "iterated", context):
            part.value.func.attr = "spread"


def _calls(node: gast.expr, name: str, context: Context) -> bool:
    function = node.func if isinstance(node, gast.Call) else None
    return isinstance(function, gast.Attribute) and context.is_operators(function.value) and function.attr == name


@operator("spread")
def spread(value: Any) -> Any:
    """Return what a starred part of a list display or call steps through."""
    session = current()
    return value if session is None else spreading.spread(session, value)


def _over_lists(session: Session | None, use: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return what an operator gives where a side may be one of several lists or tuples; ``NotImplemented`` for any other."""
    if session is None:
        return NotImplemented
    if _may_be_sequence(left):
        return session.over(left, lambda option: use(option, right))
    return session.over(right, lambda option: use(left, option)) if _may_be_sequence(right) else NotImplemented


def _may_be_sequence(value: Any) -> bool:
    """Tell whether a value is one of several, and a list or tuple is among them."""
    return isinstance(value, TaggedUnion) and any(
        isinstance(one, (list, tuple, str, AbstractTuple)) for one in value.options.values()
    )


@operator("add")
def add(left: Any, right: Any) -> Any:
    """Return `left + right`."""
    session = current()
    if (result := _over_lists(session, add, left, right)) is not NotImplemented:
        return result
    if session is not None and isinstance(left, list) and isinstance(right, list):
        return lists.concat(session, left, right)
    if session is not None and tuples.are(left, right):
        return tuples.concat(session, left, right)
    return left + right


@operator("mul")
def mul(left: Any, right: Any) -> Any:
    """Return `left * right`."""
    session = current()
    if (result := _over_lists(session, mul, left, right)) is not NotImplemented:
        return result
    return python.mul(left, right) if session is None else tuples.multiplied(session, left, right)


@operator("merged")
def merged(left: Any, right: Any) -> Any:
    """Return `left | right`."""
    session = current()
    if session is not None and isinstance(left, dict) and isinstance(right, dict):
        return tables.merged(session, left, right)
    return _of_sets(python.or_, left, right)


@operator("bit_and")
def bit_and(left: Any, right: Any) -> Any:
    """Return `left & right`."""
    return _of_sets(python.and_, left, right)


@operator("sub")
def sub(left: Any, right: Any) -> Any:
    """Return `left - right`."""
    return _of_sets(python.sub, left, right)


@operator("bit_xor")
def bit_xor(left: Any, right: Any) -> Any:
    """Return `left ^ right`."""
    return _of_sets(python.xor, left, right)


def _of_sets(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    session = current()
    if session is not None and set_views.takes(function, left, right):
        return set_views.combined(session, function, left, right)
    return function(left, right)


@operator("mod")
def mod(left: Any, right: Any) -> Any:
    """Return `left % right`."""
    session = current()
    if session is not None and isinstance(left, str):
        return percent(session, left, right)
    return left % right
