"""`return`, `break` and `continue` at the end of a `finally` clause.

    try:                    →   try:
        f(x)                        f(x)
    finally:                    except BaseException:
        return y                    pass
                                return y

Such a clause drops whatever is on its way: an exception, or a `return` inside of the `try`, whose value is evaluated and
forgotten. A clause that leaves on some ways only is refused (see analysis/fence.py).
"""

from __future__ import annotations

import gast

from dy2st.analysis.exits import ends, may_jump, may_leave
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, Rewritten, rewrites
from dy2st.constructs.returns import without_returns

_DROPPING = """
    try:
        inner
    except BaseException:
        pass
"""


@rewrites(gast.Try, Phase.DESUGAR)
def rewrite_try(node: gast.Try, context: Context) -> Rewritten:
    """The clause comes after a `try` that drops every exception."""
    if not ends(node.finalbody) or not any(_leaves(statement) for statement in node.finalbody):
        return node
    final, node.finalbody = node.finalbody, []
    inner = without_returns([node] if node.handlers else node.body, context)
    return [*context.statements(_DROPPING, node, inner=inner), *final]


def _leaves(node: gast.stmt) -> bool:
    return may_leave(node, gast.Return) or may_jump(node, gast.Break, gast.Continue)
