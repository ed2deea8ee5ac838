"""Comprehensions.

    [f(x) for x in xs if c] →   _dy2st.list_comp(xs, lambda x: f(x), lambda x: c)
    (y for _ in xs)         →   _dy2st.generator(xs, None, lambda _: _dy2st.ld_free(y, 'y'))

A list comprehension is a `for` loop that appends: over something whose length a tensor decides, or with a condition that it
decides, the list becomes one of the program. So are the others. A generator expression becomes the loop that consumes it.
It is a function to Python, so an unbound `y` is a free variable there; before Python 3.12 so it is in the other comprehensions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import gast

from dy2st import names
from dy2st.capture.attributes import access
from dy2st.capture.calls import call
from dy2st.capture.collections import tables
from dy2st.capture.looping import comprehensions, iteration
from dy2st.capture.looping.comprehensions import Clause
from dy2st.constructs.assignment import pattern_of
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.constructs.thunks import without_walrus
from dy2st.source import template
from dy2st.source.nodes import walk


@rewrites(gast.GeneratorExp, Phase.ACCESS)
def rewrite_generator(node: gast.GeneratorExp, context: Context) -> gast.expr:
    """Return a stream, where its targets are names."""
    result = _as_function(node, context)
    loop = _loop("generator", node, context)
    return result if loop is None else loop


@rewrites(gast.ListComp, Phase.ACCESS)
def rewrite_list(node: gast.ListComp, context: Context) -> gast.expr:
    """Return a loop, where its targets are names; a function before Python 3.12."""
    return _collection(node, "list_comp", context)


def _loop(operator_name: str, node: gast.expr, context: Context) -> gast.expr | None:
    """Return the call of an operator that loops; ``None`` for a comprehension that stays one."""
    outside = {id(inner) for inner in walk(node.generators[0].iter)}  # evaluated where the comprehension stands
    shared = any(_shares_variables(inner, context) for inner in walk(node) if id(inner) not in outside)
    if shared or any(generator.is_async or _target_names(generator.target) is None for generator in node.generators):
        return None
    if isinstance(node, gast.DictComp):
        pair = template.expression("(key, value)", node, key=node.key, value=node.value)
        return _clause(operator_name, node.generators, pair, node, context)
    return _clause(operator_name, node.generators, node.elt, node, context)


def _clause(operator_name: str, generators: list[Any], element: gast.expr, at: gast.expr, context: Context) -> gast.expr:
    """Return one `for` with its conditions; those after it are part of its element."""
    generator, *others = generators
    if others:
        element = _clause("clause", others, element, others[0].iter, context)
    targets = _distinct(_target_names(generator.target) or [], context)
    parts = (element, *generator.ifs)
    bound = dict.fromkeys(inner.target.id for part in parts for inner in walk(part) if isinstance(inner, gast.NamedExpr))
    function, *conditions = (_function_of(targets, without_walrus(part, context), context) for part in parts)
    holes = {
        "iterable": generator.iter.args[0],  # without the operator that _iterated has put around it
        "pattern": template.constant(pattern_of(generator.target), at),
        "element": function,
        "conditions": conditions,
    }
    if not bound:
        return context.expression(f"_dy2st.{operator_name}(iterable, pattern, element, conditions)", at, **holes)
    text = f"_dy2st.{operator_name}(iterable, pattern, element, conditions, bound=names)"
    return context.expression(text, at, names=template.constant(tuple(bound), at), **holes)


def _shares_variables(node: gast.AST, context: Context) -> bool:
    """Tell whether a part of a comprehension keeps its targets: a lambda reads them when it is called."""
    return isinstance(node, gast.Lambda) and context.is_opaque(node)


def _target_names(target: gast.expr) -> list[str] | None:
    """Return the names that a target binds, in order; ``None`` for one that is not made of names."""
    if isinstance(target, gast.Starred):
        return _target_names(target.value)
    if isinstance(target, gast.Name):
        return [target.id]
    if not isinstance(target, gast.Tuple | gast.List):
        return None
    results = [_target_names(part) for part in target.elts]
    return None if None in results else [name for inner in results for name in inner or ()]


def _distinct(targets: list[str], context: Context) -> list[str]:
    """Return the names, where one stands twice (`for _, _ in`) a new one for all but the last."""
    return [context.namer.numbered(names.ITEM)[0] if name in targets[index + 1 :] else name for index, name in enumerate(targets)]


def _function_of(targets: list[str], body: gast.expr, context: Context) -> gast.expr:
    """Return a lambda whose parameters are the targets."""
    result = template.expression("lambda: body", body, body=body)
    result.args.args = [gast.copy_location(gast.Name(name, gast.Param(), None, None), body) for name in targets]
    return result


@rewrites(gast.SetComp, Phase.ACCESS)
def rewrite_set(node: gast.SetComp, context: Context) -> gast.expr:
    """Return a loop that adds; a function before Python 3.12."""
    return _collection(node, "set_comp", context)


@rewrites(gast.DictComp, Phase.ACCESS)
def rewrite_dict(node: gast.DictComp, context: Context) -> gast.expr:
    """Return a loop that sets items; a function before Python 3.12."""
    return _collection(node, "dict_comp", context)


def _collection(node: gast.expr, operator_name: str, context: Context) -> gast.expr:
    result = _as_function(node, context) if sys.version_info < (3, 12) else _iterated(node, context)
    loop = _loop(operator_name, node, context)
    return context.expression("_dy2st.own(value)", node, value=result) if loop is None else loop


def _iterated(node: gast.expr, context: Context) -> gast.expr:
    """Send every iterable through an operator."""
    for generator in node.generators:
        if not generator.is_async:
            generator.iter = context.expression("_dy2st.iterated(value)", generator.iter, value=generator.iter)
    return node


def _as_function(node: gast.expr, context: Context) -> gast.expr:
    outside = {id(inner) for inner in walk(node.generators[0].iter)}
    for inner in walk(node):
        is_check = isinstance(inner, gast.Attribute) and inner.attr == "ld" and context.is_operators(inner.value)
        if is_check and id(inner) not in outside:
            inner.attr = "ld_free"
    return _iterated(node, context)


@operator("list_comp")
def list_comp(
    iterable: Any, pattern: Any, element: Callable[..., Any], *conditions: Callable[..., Any], bound: tuple[str, ...] = ()
) -> Any:
    """Return the list."""
    return comprehensions.new_list(Clause(iterable, pattern, bound, element, conditions))


@operator("set_comp")
def set_comp(
    iterable: Any, pattern: Any, element: Callable[..., Any], *conditions: Callable[..., Any], bound: tuple[str, ...] = ()
) -> Any:
    """Return the set."""
    results: set[Any] = call.call(set)
    comprehensions.fill(results, lambda item: call.call(results.add, item), Clause(iterable, pattern, bound, element, conditions))
    return results


@operator("dict_comp")
def dict_comp(
    iterable: Any, pattern: Any, element: Callable[..., Any], *conditions: Callable[..., Any], bound: tuple[str, ...] = ()
) -> Any:
    """Return the dict; an element is a key and its value."""
    results: Any = tables.new_dict()
    comprehensions.fill(
        results, lambda pair: access.set_item(results, *pair), Clause(iterable, pattern, bound, element, conditions)
    )
    return results


@operator("clause")
def clause(
    iterable: Any, pattern: Any, element: Callable[..., Any], *conditions: Callable[..., Any], bound: tuple[str, ...] = ()
) -> Any:
    """Return the second `for` of a comprehension and those after it."""
    return Clause(iterable, pattern, bound, element, conditions)


@operator("generator")
def generator(
    iterable: Any, pattern: Any, element: Callable[..., Any], *conditions: Callable[..., Any], bound: tuple[str, ...] = ()
) -> Any:
    """Return the generator."""
    return comprehensions.generator(Clause(iterable, pattern, bound, element, conditions))


@operator("iterated")
def iterated(value: Any) -> Any:
    """Return what a comprehension steps through."""
    return iteration.iterated(value)
