"""Which statements of a generator function stay plain Python control flow.

A `yield` suspends the function that it stands in, so a statement with one cannot become a function of its own; nor can one
that jumps out of itself, since the jump would have to leave a statement that stays.
"""

from __future__ import annotations

from collections.abc import Iterator

import gast

from dy2st.analysis.exits import may_jump, may_leave
from dy2st.analysis.flow import uncertain_parts
from dy2st.analysis.scopes import NESTED_SCOPES
from dy2st.source.nodes import children

_STATEMENTS = (gast.If, gast.While, gast.For, gast.Try, gast.With)
_YIELDS = (gast.Yield, gast.YieldFrom)


def plain_statements(root: gast.FunctionDef) -> frozenset[int]:
    """Return the identities of the `if`, `while`, `for`, `try` and `with` statements of a function that stay as they are."""
    if not any(has_yield(statement) for statement in root.body):
        return frozenset()
    return frozenset(id(node) for statement in root.body for node in _plain(statement))


def has_yield(node: gast.AST) -> bool:
    """Tell whether a `yield` stands inside `node`, itself included, and belongs to the same function."""
    if isinstance(node, NESTED_SCOPES):
        return False
    return isinstance(node, _YIELDS) or any(map(has_yield, children(node)))


def skippable_yield(node: gast.AST) -> gast.AST | None:
    """Return a `yield` in an operand of this expression that may be skipped."""
    return next((part for part in uncertain_parts(node) if has_yield(part)), None)


def _plain(node: gast.AST) -> Iterator[gast.stmt]:
    if isinstance(node, (*NESTED_SCOPES, gast.expr)):
        return
    if isinstance(node, _STATEMENTS):
        if not (has_yield(node) or may_leave(node, gast.Return) or may_jump(node, gast.Break, gast.Continue)):
            return
        yield node
    for child in children(node):
        yield from _plain(child)
