"""Comprehensions.

    [f(x) for x in xs if c] →   _dy2st.list_comp(xs, lambda x: f(x), lambda x: c)
    (y for _ in xs)         →   (_dy2st.ld_free(y, 'y') for _ in _dy2st.iterated(xs))

A list comprehension is a `for` loop that appends: over something whose length a tensor decides, or with a condition that it
decides, the list becomes one of the program. The others step through Python iterables only. A generator expression is a
function to Python, so an unbound `y` is a free variable there; before Python 3.12 so it is in the other comprehensions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import gast

from dy2st.capture import iteration
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template


@rewrites(gast.GeneratorExp, Phase.ACCESS)
def rewrite_generator(node: gast.GeneratorExp, context: Context) -> gast.expr:
    """Always a function."""
    return _as_function(node, context)


@rewrites(gast.ListComp, Phase.ACCESS)
def rewrite_list(node: gast.ListComp, context: Context) -> gast.expr:
    """A loop, where its target is a name or a tuple of names; a function before Python 3.12."""
    made = _as_function(node, context) if sys.version_info < (3, 12) else _iterated(node, context)
    generator, *others = node.generators
    targets = _target_names(generator.target)
    shared = any(_shares_variables(inner, context) for inner in gast.walk(node))
    if others or generator.is_async or targets is None or shared:
        return context.expression("_dy2st.own(value)", node, value=made)
    iterable = generator.iter.args[0]  # without the operator that _iterated has put around it
    spread = isinstance(generator.target, gast.Tuple)
    element, *conditions = (_function_of(targets, part, context) for part in (node.elt, *generator.ifs))
    text = "_dy2st.list_comp(iterable, spread, element, conditions)"
    spread_node = template.constant(len(targets) if spread else None, node)
    return context.expression(text, node, iterable=iterable, spread=spread_node, element=element, conditions=conditions)


def _shares_variables(node: gast.AST, context: Context) -> bool:
    """Whether a part of a comprehension binds a name outside of it, or keeps its targets: a lambda reads them when it is called."""
    return isinstance(node, gast.NamedExpr) or (isinstance(node, gast.Lambda) and context.is_opaque(node))


def _target_names(target: gast.expr) -> list[str] | None:
    """The names that a target binds; ``None`` for one that is no name or flat tuple of names."""
    parts = target.elts if isinstance(target, gast.Tuple) else [target]
    return [part.id for part in parts] if all(isinstance(part, gast.Name) for part in parts) else None


def _function_of(names: list[str], body: gast.expr, context: Context) -> gast.expr:
    """A lambda whose parameters are the targets."""
    made = template.expression("lambda: body", body, body=body)
    made.args.args = [gast.copy_location(gast.Name(name, gast.Param(), None, None), body) for name in names]
    return made


@rewrites(gast.SetComp, Phase.ACCESS)
def rewrite_set(node: gast.SetComp, context: Context) -> gast.expr:
    """A function before Python 3.12."""
    return _as_function(node, context) if sys.version_info < (3, 12) else _iterated(node, context)


@rewrites(gast.DictComp, Phase.ACCESS)
def rewrite_dict(node: gast.DictComp, context: Context) -> gast.expr:
    """A function before Python 3.12."""
    return _as_function(node, context) if sys.version_info < (3, 12) else _iterated(node, context)


def _iterated(node: gast.expr, context: Context) -> gast.expr:
    """Every iterable goes through an operator."""
    for generator in node.generators:
        if not generator.is_async:
            generator.iter = context.expression("_dy2st.iterated(value)", generator.iter, value=generator.iter)
    return node


def _as_function(node: gast.expr, context: Context) -> gast.expr:
    outside = {id(inner) for inner in gast.walk(node.generators[0].iter)}
    for inner in gast.walk(node):
        is_check = isinstance(inner, gast.Attribute) and inner.attr == "ld" and context.is_operators(inner.value)
        if is_check and id(inner) not in outside:
            inner.attr = "ld_free"
    return _iterated(node, context)


@operator("list_comp")
def list_comp(iterable: Any, spread: int | None, element: Callable[..., Any], *conditions: Callable[..., Any]) -> Any:
    """The list; ``spread`` is the number of names that an item is unpacked to, if it is."""
    return iteration.list_comprehension(iterable, spread, element, conditions)


@operator("iterated")
def iterated(value: Any) -> Any:
    """What a comprehension steps through."""
    return iteration.iterated(value)
