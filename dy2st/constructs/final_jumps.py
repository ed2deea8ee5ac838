"""`return`, `break` and `continue` in a `finally` clause.

    try:                    →   try:
        f(x)                        f(x)
    finally:                    except BaseException:
        return y                    pass
                                return y

    try:                    →   pending = None
        return f(x)             returned = False
    finally:                    try:
        if c:                       result = f(x)
            return y                returned = True
                                except BaseException as error:
                                    pending = error
                                if c:
                                    return y
                                if pending is not None:
                                    raise pending
                                if returned:
                                    return result

Such a clause drops whatever is on its way: an exception, or a `return` inside of the `try`, whose value is evaluated and
forgotten. One that leaves on some ways only keeps it, to let it go on. One that drops a `break` or `continue` inside of the
`try` is refused (see analysis/fence.py).
"""

from __future__ import annotations

import gast

from dy2st import names
from dy2st.analysis.exits import ends, may_jump, may_leave
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, Rewritten, rewrites
from dy2st.constructs.returns import with_flag, without_returns

_DROPPING = """
    try:
        inner
    except BaseException:
        pass
"""

_KEEPING = """
    pending = None
    try:
        inner
    except BaseException as error:
        pending = error
    final
    if pending is not None:
        raise pending
"""


@rewrites(gast.Try, Phase.DESUGAR)
def rewrite_try(node: gast.Try, context: Context) -> Rewritten:
    """Return the clause comes after a `try` that drops every exception, or keeps it."""
    if not any(_leaves(statement) for statement in node.finalbody):
        return node
    final, node.finalbody = node.finalbody, []
    if not ends(final):
        return _keeping(node, final, context)
    inner = without_returns([node] if node.handlers else node.body, context)
    return [*context.statements(_DROPPING, node, inner=inner), *final]


def _keeping(node: gast.Try, final: list[gast.stmt], context: Context) -> Rewritten:
    inner, leave = with_flag([node] if node.handlers else node.body, context)
    (pending, error) = (context.namer.fresh(name) for name in (names.PENDING, names.ERROR))
    return [*context.statements(_KEEPING, node, inner=inner, final=final, pending=pending, error=error), *leave]


def _leaves(node: gast.stmt) -> bool:
    return may_leave(node, gast.Return) or may_jump(node, gast.Break, gast.Continue)
