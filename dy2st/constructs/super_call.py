"""Zero-argument `super()`, and `locals()`.

    super().forward(x)      →   super(__class__, self).forward(x)
    locals()                →   _dy2st.local_table(locals, x=lambda: x, y=lambda: y)

Python passes the class and the first argument, and the variables, in secret; code that moves into nested functions says it openly.
A variable that is not bound is not in the table; one that is bound on some ways only is an item on these ways.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import gast

from dy2st.analysis.local_tables import is_table
from dy2st.capture import Undefined, current
from dy2st.capture.calls import call as calls
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template
from dy2st.source.template import load


@rewrites(gast.Call, Phase.DESUGAR)
def rewrite_call(node: gast.Call, context: Context) -> gast.expr:
    """Rewrite `super()` in a function that has a first parameter, and `locals()`."""
    if is_table(node):
        return _table(node, context)
    is_super = isinstance(node.func, gast.Name) and node.func.id == "super"
    arguments = context.root.args
    first = [*arguments.posonlyargs, *arguments.args][:1]
    if not is_super or node.args or node.keywords or not first or "super" in context.local_names:
        return node
    return context.expression("super(__class__, first)", node, first=first[0].id)


def _table(node: gast.Call, context: Context) -> gast.expr:
    """Return the call that gives the local variables by name."""
    call = context.expression("_dy2st.local_table(function)", node, function=node.func)
    for name in context.variables:
        value = load(name, node)
        context.unchecked[id(value)] = value
        thunk = template.expression("lambda: value", node, value=value)
        call.keywords.append(template.place(gast.keyword(arg=name, value=thunk), node))
    return call


@operator("local_table")
def local_table(function: Any, /, **variables: Callable[[], Any]) -> Any:
    """Return `locals()` or `vars()`, unless the name is another function."""
    if function not in (builtins.locals, builtins.vars):
        return calls.call(function)
    table: dict[str, Any] = {}
    for name, read in variables.items():
        try:
            value = read()
        except NameError:  # an empty cell
            continue
        if not isinstance(value, Undefined):
            table[name] = _item(name, value)
    session = current()
    if session is not None:
        session.allocations.own(table)
    return table


def _item(name: str, value: Any) -> Any:
    """Return what is under a name: where the variable is not bound on some ways, there is no item."""
    if not isinstance(value, TaggedUnion):
        return value
    missing = Undefined(f"[{name!r}]", KeyError, (name,))
    options = {tag: missing if isinstance(option, Undefined) else option for tag, option in value.options.items()}
    return TaggedUnion(value.session, value.tag, options)
