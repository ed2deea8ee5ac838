"""Writing and deleting attributes, items and shared names.

    a.b = v                 →   value_1 = v
                                _dy2st.set_attr(a, 'b', value_1)
    a[k] = 1                →   _dy2st.set_item(a, k, 1)
    a.b, c = v              →   item_1, c = v
                                _dy2st.set_attr(a, 'b', item_1)
    a, *b = v               →   a, *item_1 = v
                                b = _dy2st.starred_list(item_1)
    with m as a.b: ...      →   with m as item_1:
                                    _dy2st.set_attr(a, 'b', item_1)
    del a.b, a[k], y        →   _dy2st.del_attr(a, 'b')
                                _dy2st.del_item(a, k)
                                y = _dy2st.deleted(y, 'y')

Python evaluates the value first and the target after it, so the value waits in a temporary.
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st import names
from dy2st.capture import current
from dy2st.capture.iterables import iterators
from dy2st.capture.looping import unpacking
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template


@rewrites(gast.Assign, Phase.ACCESS)
def rewrite_assign(node: gast.Assign, context: Context) -> list[gast.stmt]:
    """Return one statement per target."""
    if all(_is_plain(target) for target in node.targets):
        return [node]
    target = node.targets[0]
    waits = not isinstance(target, gast.Tuple | gast.List) and not isinstance(node.value, gast.Constant)
    if len(node.targets) == 1 and not waits:
        return store(target, node.value, node, context)
    (value,) = context.namer.numbered(names.VALUE)
    result = context.statements("name = value", node, name=value, value=node.value)
    for target in node.targets:
        result.extend(store(target, template.load(value, node), node, context))
    return result


@rewrites(gast.Assign, Phase.CALLS)
def rewrite_unpacking(node: gast.Assign, context: Context) -> gast.Assign:
    """Return a value that is taken apart passes through an operator."""
    target = next((target for target in node.targets if isinstance(target, gast.Tuple | gast.List)), None)
    if target is None or (_is_of_known_length(node.value) and _is_flat(target)):
        return node
    text = "_dy2st.unpacked(value, pattern)"
    pattern = template.constant(pattern_of(target), node.value)
    node.value = context.expression(text, node.value, value=node.value, pattern=pattern)
    return node


def pattern_of(target: gast.expr) -> unpacking.Pattern:
    """Return how a target takes a value apart."""
    if isinstance(target, gast.Starred):
        return unpacking.STAR
    if not isinstance(target, gast.Tuple | gast.List):
        return None
    parts = tuple(map(pattern_of, target.elts))
    return len(parts) if not any(parts) else parts


def _is_of_known_length(value: gast.expr) -> bool:
    return isinstance(value, gast.Tuple | gast.List) and not any(isinstance(part, gast.Starred) for part in value.elts)


def _is_flat(target: gast.expr) -> bool:
    return not any(isinstance(element, gast.Tuple | gast.List) for element in target.elts)


@operator("unpacked")
def unpacked(value: Any, pattern: unpacking.Pattern) -> Any:
    """Return the value, with the items of a list whose length is known only at run time where a target takes them."""
    session = current()
    if isinstance(value, TaggedUnion):
        value = iterators.over(value, "cannot unpack non-iterable {} object")
    return value if session is None else unpacking.expanded(session, value, pattern)


@operator("starred_list")
def starred_list(items: list[Any]) -> list[Any]:
    """Return the list that a starred target gets: it is made here."""
    session = current()
    return items if session is None else unpacking.rest_of(session, items)


@rewrites(gast.With, Phase.ACCESS)
def rewrite_with(node: gast.With, context: Context) -> gast.With:
    """Targets become the first statements of the body."""
    for index, item in enumerate(node.items):
        target = item.optional_vars
        if target is None or _is_plain(target):
            continue
        if index + 1 < len(node.items):
            rest = gast.With(items=node.items[index + 1 :], body=node.body, type_comment=None)
            node.items = node.items[: index + 1]
            node.body = [rewrite_with(template.place(rest, node), context)]
        (name,) = context.namer.numbered(names.ITEM)
        item.optional_vars = template.store(name, target)
        node.body = [*store(target, template.load(name, target), target, context), *node.body]
    return node


@rewrites(gast.Delete, Phase.ACCESS)
def rewrite_delete(node: gast.Delete, context: Context) -> list[gast.stmt]:
    """Return one statement per target."""
    return [statement for target in node.targets for statement in _delete(target, node, context)]


def store(target: gast.expr, value: gast.expr, at: gast.AST, context: Context) -> list[gast.stmt]:
    """Return statements that bind `target` to `value`, whose evaluation comes first."""
    if isinstance(target, gast.Attribute):
        name = template.constant(target.attr, target)
        text = "_dy2st.set_attr(target, name, value)"
        return context.statements(text, at, target=target.value, name=name, value=value)
    if isinstance(target, gast.Subscript):
        text = "_dy2st.set_item(target, key, value)"
        return context.statements(text, at, target=target.value, key=target.slice, value=value)
    if _is_plain(target):
        return context.statements("target = value", at, target=target, value=value)
    return _unpack(target, value, at, context)


def _unpack(target: gast.expr, value: gast.expr, at: gast.AST, context: Context) -> list[gast.stmt]:
    later: list[gast.stmt] = []
    for index, element in enumerate(target.elts):
        inner = element.value if isinstance(element, gast.Starred) else element
        (name,) = context.namer.numbered(names.ITEM)
        temporary = template.store(name, inner)
        if isinstance(element, gast.Starred):
            element.value = temporary
        else:
            target.elts[index] = temporary
        value_of = template.load(name, inner)
        if isinstance(element, gast.Starred):
            value_of = context.expression("_dy2st.starred_list(value)", inner, value=value_of)
        later.extend(store(inner, value_of, inner, context))
    return [*context.statements("target = value", at, target=target, value=value), *later]


def _delete(target: gast.expr, at: gast.stmt, context: Context) -> list[gast.stmt]:
    if isinstance(target, gast.Attribute):
        name = template.constant(target.attr, target)
        return context.statements("_dy2st.del_attr(target, name)", at, target=target.value, name=name)
    if isinstance(target, gast.Subscript):
        return context.statements("_dy2st.del_item(target, key)", at, target=target.value, key=target.slice)
    if isinstance(target, gast.Tuple | gast.List):
        return [statement for element in target.elts for statement in _delete(element, at, context)]
    if target.id in context.marked:
        name = template.constant(target.id, target)
        value = template.load(target.id, target)
        text = "target = _dy2st.deleted(value, name)"
        return context.statements(text, at, target=target.id, value=value, name=name)
    return context.statements("del target", at, target=target)


def _is_plain(target: gast.expr) -> bool:
    """Tell whether storing to `target` touches names only, and makes no list."""
    if isinstance(target, gast.Tuple | gast.List):
        return all(_is_plain(element) for element in target.elts)
    return isinstance(target, gast.Name)
