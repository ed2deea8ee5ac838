"""Lists, dicts, sets and functions that the code makes itself.

    [a, b]                  →   _dy2st.own([a, b])
    (a, *b)                 →   _dy2st.tuple((a, *_dy2st.spread(b)))
    def f(*args): ...       →   def f(*args): args = _dy2st.tuple(args); ...
    {k: v, **d}             →   _dy2st.dict((k, v), (d,))
    {a, b}                  →   _dy2st.set(a, b)
    {k: v for k, v in xs}   →   _dy2st.own({k: v for k, v in xs})

The operator remembers when an object was made: what a block makes itself is no state of that block. A set becomes one whose
members may depend on a branch. A list becomes a list of
the program where it was made, should its length ever depend on a tensor. A nested function that writes variables of
the function around it passes through the operator too, as the innermost decorator.
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st.capture import current
from dy2st.capture.branching import unions
from dy2st.capture.collections import made_tables, sets, tables
from dy2st.capture.containers import tuples
from dy2st.capture.looping import spreading
from dy2st.capture.objects import construction
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st.constructs.context import Context
from dy2st.constructs.list_operators import spread_starred
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.constructs.walk import insert_at_start
from dy2st.source import template


@rewrites(gast.List, Phase.ACCESS)
def rewrite_list(node: gast.List, context: Context) -> gast.expr:
    """Rewrite every list that is read; a list of targets stays."""
    if not isinstance(node.ctx, gast.Load):
        return node
    spread_starred(node.elts, context)
    return _owned(node, context)


@rewrites(gast.Tuple, Phase.ACCESS)
def rewrite_tuple(node: gast.Tuple, context: Context) -> gast.expr:
    """Return a tuple with starred parts, that is read."""
    if not isinstance(node.ctx, gast.Load) or not any(isinstance(part, gast.Starred) for part in node.elts):
        return node
    spread_starred(node.elts, context)
    return context.expression("_dy2st.tuple(value)", node, value=node)


@rewrites(gast.Dict, Phase.ACCESS)
def rewrite_dict(node: gast.Dict, context: Context) -> gast.expr:
    """Return a dict display; one with other keys than constants is filled item by item."""
    if all(isinstance(key, gast.Constant) for key in node.keys):
        return _owned(node, context)
    parts = [
        context.expression("(pair,)", value, pair=[value] if key is None else [key, value])
        for key, value in zip(node.keys, node.values)
    ]
    return context.expression("_dy2st.dict(parts)", node, parts=parts)


@rewrites(gast.Set, Phase.ACCESS)
def rewrite_set(node: gast.Set, context: Context) -> gast.expr:
    """Return a set display; one with other members than constants is filled member by member."""
    if all(isinstance(part, gast.Constant) for part in node.elts):
        return _owned(node, context)
    return context.expression("_dy2st.set(parts)", node, parts=node.elts)


@rewrites(gast.FunctionDef, Phase.ACCESS)
def rewrite_function(node: gast.FunctionDef, context: Context) -> gast.FunctionDef:
    """Return a function of the user's with `nonlocal` inside; and what one gets as `*args`."""
    if node is context.root and node.args.vararg is not None:
        name = node.args.vararg.id
        insert_at_start(node, context.statements("name = _dy2st.tuple(value)", node, name=name, value=template.load(name, node)))
    if context.is_opaque(node) and any(isinstance(inner, gast.Nonlocal) for inner in gast.walk(node)):
        node.decorator_list.append(context.expression("_dy2st.own", node))
    return node


@rewrites(gast.ClassDef, Phase.ACCESS)
def rewrite_class(node: gast.ClassDef, context: Context) -> gast.ClassDef:
    """Return a class that the function makes."""
    if context.is_opaque(node):
        node.decorator_list.append(context.expression("_dy2st.own", node))
    return node


def _owned(node: gast.expr, context: Context) -> gast.expr:
    return context.expression("_dy2st.own(value)", node, value=node)


@operator("own")
def own(value: Any) -> Any:
    """Return the object that has just been made."""
    session = current()
    if session is None:
        return value
    if type(value) is set:
        return made_tables.followed(session, sets.owned(session, value))
    if isinstance(value, list):
        if any(isinstance(item, spreading.Spread) for item in value):
            return spreading.spliced(session, value)
        if any(isinstance(item, TaggedUnion) for item in value):
            value[:] = [unions.narrowed(session, item) for item in value]
        session.lists.own(value)
    elif isinstance(value, type):
        construction.registered(session, value)
    else:
        session.allocations.own(value)
        return made_tables.followed(session, value) if type(value) is dict else value
    return value


@operator("dict")
def dict_(*parts: tuple[Any, ...]) -> Any:
    """Return the dict of pairs, and of dicts whose items go into it."""
    session = current()
    if session is not None:
        return tables.display(session, parts)
    results: dict[Any, Any] = {}
    for part in parts:
        results.update(*part) if len(part) == 1 else results.update([part])
    return results


@operator("set")
def set_(*items: Any) -> Any:
    """Return the set of some members."""
    session = current()
    return {*items} if session is None else sets.display(session, items)


@operator("tuple")
def tuple_(value: tuple[Any, ...]) -> Any:
    """Return the tuple that has just been made of some parts, or of the arguments of a call."""
    session = current()
    if session is None or not any(isinstance(item, spreading.Spread) for item in value):
        return value
    return tuples.of(session, spreading.spliced(session, value))
