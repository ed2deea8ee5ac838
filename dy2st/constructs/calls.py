"""Calls.

    f(x, *xs, k=1, **d)     →   _dy2st.call(f, x, *_dy2st.spread(xs), k=1, **_dy2st.keywords(d))
    globals()               →   _dy2st.names_of_module(globals())
    @f                      →   @_dy2st.decorator(f)
    def g(): ...                def g(): ...

Builtins that look at the frame of their caller (`globals()`, `eval(text, names)`) are left alone, and so are `breakpoint()`
and `pdb.set_trace()`, which stop there; those that run text with its local variables are refused (see analysis/fence.py).
"""

from __future__ import annotations

import functools
from typing import Any

import gast

from dy2st.capture import current
from dy2st.capture.attributes import attribute_tables
from dy2st.capture.branching import keywords
from dy2st.capture.calls import call as calls
from dy2st.constructs.context import Context
from dy2st.constructs.debugger import starts_debugger
from dy2st.constructs.registry import Phase, operator, rewrites

FRAME_BUILTINS = frozenset({"globals", "dir", "eval", "exec"})
"""Builtins that look at the frame of their caller; ``dir`` only without an argument."""


@rewrites(gast.Call, Phase.CALLS)
def rewrite_call(node: gast.Call, context: Context) -> gast.expr:
    """Rewrite every call of the user's."""
    is_frame_builtin = isinstance(node.func, gast.Name) and node.func.id in FRAME_BUILTINS
    if is_frame_builtin and node.func.id == "dir":
        is_frame_builtin = not node.args
    if context.is_generated_call(node) or is_frame_builtin or starts_debugger(node.func):
        is_names = is_frame_builtin and node.func.id == "globals" and not node.args
        return context.expression("_dy2st.names_of_module(value)", node, value=node) if is_names else node
    call = context.expression("_dy2st.call(function)", node, function=node.func)
    for argument in node.args:
        if isinstance(argument, gast.Starred):
            argument.value = context.expression("_dy2st.spread(value)", argument.value, value=argument.value)
    for keyword in node.keywords:
        if keyword.arg is None:
            keyword.value = context.expression("_dy2st.keywords(value)", keyword.value, value=keyword.value)
    call.args.extend(node.args)
    call.keywords.extend(node.keywords)
    return call


@operator("call")
def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call."""
    return calls.call(function, *args, **kwargs)


@operator("names_of_module")
def names_of_module(table: dict[str, Any]) -> dict[str, Any]:
    """Return ``globals()``."""
    session = current()
    if session is not None:
        attribute_tables.of_module(session, table, session.tracker.table.strong(table, "globals()"))
    return table


@rewrites(gast.FunctionDef, Phase.CALLS)
def rewrite_function(node: gast.FunctionDef, context: Context) -> gast.FunctionDef:
    """Return the decorators of a function inside of another one are called too."""
    return _with_decorators(node, context)


@rewrites(gast.ClassDef, Phase.CALLS)
def rewrite_class(node: gast.ClassDef, context: Context) -> gast.ClassDef:
    """Return those of a class as well."""
    return _with_decorators(node, context)


def _with_decorators(node: Any, context: Context) -> Any:
    if node is not context.root and context.is_opaque(node):
        node.decorator_list = [context.expression("_dy2st.decorator(value)", part, value=part) for part in node.decorator_list]
    return node


@operator("decorator")
def decorator(function: Any) -> Any:
    """Return what calls a decorator."""
    return function if current() is None else functools.partial(calls.call, function)


@operator("keywords")
def keywords_(mapping: Any) -> Any:
    """Return what a call gets for `**mapping`."""
    return mapping if current() is None else keywords.keywords(mapping)
