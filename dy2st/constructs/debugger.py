"""Statements that stop in a debugger.

    breakpoint()            →   lambda: (x, y, n)
                                breakpoint()

They are called from the user's own frame, and not through the call operator. The lambda, which nobody calls, makes every local
variable one of the function that stops there: a block takes only those that it mentions.
"""

from __future__ import annotations

import gast

from dy2st.analysis.scopes import parameters
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, rewrites

_STARTERS = ("breakpoint", "set_trace")


@rewrites(gast.Expr, Phase.DESUGAR)
def rewrite_statement(node: gast.Expr, context: Context) -> gast.Expr | list[gast.stmt]:
    """Return a call of a debugger as a statement."""
    if not isinstance(node.value, gast.Call) or not starts_debugger(node.value.func):
        return node
    names = ", ".join(dict.fromkeys((*parameters(context.root), *context.local_names)))
    return [*context.statements(f"lambda: ({names},)" if names else "pass", node), node]


def starts_debugger(function: gast.expr) -> bool:
    """Tell whether what is called is `breakpoint`, or the `set_trace` of a debugger."""
    return getattr(function, "id", getattr(function, "attr", None)) in _STARTERS
