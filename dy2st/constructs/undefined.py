"""Names that are bound on some ways only.

    if c:                   →   y = _dy2st.undefined('y')
        y = 1                   def then_1():
    return y                        nonlocal y
                                    y = 1
                                ...
                                return _dy2st.ld(y, 'y')

A `nonlocal` needs a binding in the function around it, so such a name starts as a marker, and reading the marker raises
what Python raises. `del` brings the marker back. A global that a function of the file assigns or deletes may be there on some
ways only, too: reading it is checked in all functions of the file.
"""

from __future__ import annotations

import builtins
from typing import Any

import gast

from dy2st import names
from dy2st.analysis.scopes import names_in, parameters
from dy2st.capture import Undefined
from dy2st.capture.attributes import access
from dy2st.capture.branching import unions
from dy2st.capture.values.symbolic import unbound_free_message, unbound_message
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.constructs.walk import insert_at_start
from dy2st.source import template
from dy2st.source.nodes import walk


@rewrites(gast.FunctionDef, Phase.BLOCKS)
def rewrite_function(node: gast.FunctionDef, context: Context) -> gast.FunctionDef:
    """Start the names of the user's function that its blocks may see unbound."""
    if node is not context.root:
        return node
    undefined = context.plan.undefined
    context.marked.update(undefined, context.plan.unbindable, _deleted_inside(node))
    insert_at_start(node, context.undefined(undefined, node.body[0]))
    return node


def _deleted_inside(node: gast.FunctionDef) -> set[str]:
    """Return the names that functions inside delete, or this one deletes of the module's."""
    parts = list(walk(node))
    shared = {name for part in parts if isinstance(part, gast.Nonlocal | gast.Global) for name in part.names}
    return {part.id for part in parts if isinstance(part, gast.Name) and isinstance(part.ctx, gast.Del)} & shared


def lost_names(context: Context) -> tuple[str, ...]:
    """Local names whose bindings stood in dead code, or were annotations only: they stay local, and unbound."""
    bound = {*names_in(context.root.body).writes, *parameters(context.root)}
    return tuple(name for name in context.local_names if name not in bound)


@rewrites(gast.Name, Phase.ACCESS)
def rewrite_name(node: gast.Name, context: Context) -> gast.expr:
    """Check the reads of names that may hold the marker."""
    if not isinstance(node.ctx, gast.Load) or id(node) in context.unchecked:
        return node
    name = template.constant(node.id, node)
    if node.id in context.shared_globals:
        return context.expression("_dy2st.ld_global(value, name)", node, value=node, name=name)
    if node.id in context.marked:
        return context.expression("_dy2st.ld(value, name)", node, value=node, name=name)
    if node.id in context.free_names:
        return context.expression("_dy2st.ld_free(value, name)", node, value=node, name=name)
    return node


@rewrites(gast.ExceptHandler, Phase.ACCESS)
def rewrite_handler(node: gast.ExceptHandler, context: Context) -> gast.ExceptHandler:
    """Return `except E as e` unbinds `e` at its end; a shared `e` gets the marker back instead of an empty cell."""
    if node.name is None or node.name.id not in context.plan.unbindable:
        return node
    name = node.name.id
    (error,) = context.namer.numbered(names.ERROR)
    text = "name = error\ntry:\n    body\nfinally:\n    undefined"
    undefined = context.undefined([name], node)
    node.body = context.statements(text, node, name=name, error=error, body=node.body, undefined=undefined)
    node.name = template.store(error, node)
    return node


@operator("undefined")
def undefined(name: str) -> Undefined:
    """Return the marker of a name."""
    return Undefined(name)


@operator("ld")
def ld(value: Any, name: str) -> Any:
    """Return the value of a local name, or Python's own error."""
    return access.ld(value, UnboundLocalError, unbound_message(name))


@operator("ld_free")
def ld_free(value: Any, name: str) -> Any:
    """Return the value of a name of an enclosing function, or Python's own error."""
    return access.ld(value, NameError, unbound_free_message(name))


@operator("ld_global")
def ld_global(value: Any, name: str) -> Any:
    """Return the value of a name of the module, the builtin of that name where the module has none, or Python's own error."""
    if hasattr(builtins, name):
        return unions.or_else(value, getattr(builtins, name))
    return access.ld(value, NameError, f"name '{name}' is not defined")


@operator("deleted")
def deleted(value: Any, name: str) -> Undefined:
    """Return `del name`."""
    ld(value, name)
    return Undefined(name)
