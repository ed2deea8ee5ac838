"""Where control leaves a statement list early."""

from __future__ import annotations

from collections.abc import Sequence

import gast

from dy2st.analysis.scopes import NESTED_SCOPES
from dy2st.source.nodes import children

_LEAVING = (gast.Return, gast.Break, gast.Continue, gast.Raise)


def ends(body: Sequence[gast.stmt]) -> bool:
    """Tell whether no way through `body` reaches the statement after it."""
    return any(_never_completes(node) for node in body)


def may_leave(node: gast.AST, *kinds: type) -> bool:
    """Tell whether a statement of these kinds stands inside `node`, itself included, and belongs to the same function."""
    if isinstance(node, kinds):
        return True
    if isinstance(node, (*NESTED_SCOPES, gast.expr)):
        return False
    return any(may_leave(child, *kinds) for child in children(node))


def may_jump(node: gast.AST, *kinds: type) -> bool:
    """Tell whether a `break` or `continue` of these kinds inside `node` belongs to the loop around `node`."""
    if isinstance(node, gast.While | gast.For):
        return any(may_jump(child, *kinds) for child in node.orelse)
    if isinstance(node, kinds):
        return True
    if isinstance(node, (*NESTED_SCOPES, gast.expr)):
        return False
    return any(may_jump(child, *kinds) for child in children(node))


def _never_completes(node: gast.stmt) -> bool:
    if isinstance(node, _LEAVING):
        return True
    if isinstance(node, gast.If):
        return bool(node.orelse) and ends(node.body) and ends(node.orelse)
    return False
