"""Operands that an operator may skip, as functions without parameters.

    a and (n := f())        →   def set_n_1(value):
                                    nonlocal n
                                    n = value
                                    return value
                                _dy2st.and_(a, lambda: set_n_1(f()))

A lambda cannot bind a name of the function around it, so a walrus inside an operand goes through a setter.
"""

from __future__ import annotations

from typing import Any

import gast

from dy2st import names
from dy2st.constructs.context import Context
from dy2st.source import template


def thunk(node: gast.expr, context: Context) -> gast.expr:
    """Return `lambda: node`, in which each walrus has become the call of a setter."""
    return template.expression("lambda: operand", node, operand=without_walrus(node, context))


def setter_definitions(context: Context, setters: dict[str, str], node: gast.FunctionDef) -> list[gast.stmt]:
    """Return the setters that the thunks of one function asked for."""
    results: list[gast.stmt] = []
    declared = _declared_global(context.root) if setters else frozenset()
    for name, setter in setters.items():
        text = _GLOBAL_SETTER if name in declared else _SETTER
        (value,) = context.namer.numbered(names.VALUE)
        results.extend(context.statements(text, node.body[0], setter=setter, name=name, names=(name,), value=value))
    return results


_SETTER = """
    def setter(value):
        nonlocal names
        name = value
        return value
"""
_GLOBAL_SETTER = """
    def setter(value):
        global names
        name = value
        return value
"""


def without_walrus(node: Any, context: Context) -> Any:
    """Return a part of an expression, in which each walrus has become the call of a setter."""
    if isinstance(node, list):
        return [without_walrus(item, context) for item in node]
    if not isinstance(node, gast.AST) or context.is_opaque(node):
        return node
    for field in node._fields:
        setattr(node, field, without_walrus(getattr(node, field, None), context))
    if not isinstance(node, gast.NamedExpr):
        return node
    setter = _setter(node.target.id, context)
    return template.expression("setter(value)", node, setter=setter, value=node.value)


def _setter(name: str, context: Context) -> str:
    setters = context.setters[-1]
    if name not in setters:
        (setters[name],) = context.functions(f"{names.SETTER}_{name}")
    return setters[name]


def _declared_global(root: gast.FunctionDef) -> frozenset[str]:
    return frozenset(name for statement in root.body if isinstance(statement, gast.Global) for name in statement.names)
