"""How single statements bind names: what the analyses of control flow share."""

from __future__ import annotations

import gast

from dy2st.analysis.scopes import COMPREHENSIONS, NESTED_SCOPES, names_in
from dy2st.source.nodes import children, walk

_SKIPPED = NESTED_SCOPES + COMPREHENSIONS
_WITH_UNCERTAIN_PARTS = (gast.BoolOp, gast.IfExp, gast.Compare, gast.Assert, *COMPREHENSIONS)


def bound_by(statement: gast.stmt) -> frozenset[str]:
    """Return the names that a simple statement binds whenever it completes."""
    if isinstance(statement, gast.Assign):
        certain = names_in(statement.targets).writes
        return frozenset(certain) | certain_walruses(statement.value)
    if isinstance(statement, gast.AugAssign):
        return frozenset(names_in([statement.target]).writes) | certain_walruses(statement.value)
    if isinstance(statement, gast.Import | gast.ImportFrom):
        return frozenset(names_in([statement]).writes)
    if isinstance(statement, gast.FunctionDef | gast.AsyncFunctionDef | gast.ClassDef):
        return frozenset({statement.name})
    if isinstance(statement, gast.Expr | gast.Return) and statement.value is not None:
        return certain_walruses(statement.value)
    if type(statement).__name__ == "TypeAlias":
        return frozenset({statement.name.id})
    return frozenset()


def unbound_by(statement: gast.stmt) -> frozenset[str]:
    """Return the names that a simple statement deletes."""
    return frozenset(names_in([statement]).deletes)


def certain_walruses(node: gast.AST) -> frozenset[str]:
    """Return the names that an expression binds on every way through it."""
    results: set[str] = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _SKIPPED):
            continue
        if isinstance(part, gast.NamedExpr):
            results.add(part.target.id)
        waiting += _certain_children(part)
    return frozenset(results)


def uncertain_parts(node: gast.AST) -> list[gast.AST]:
    """Return the operands that an operator may skip: they end up in functions of their own (see constructs/thunks.py)."""
    if not isinstance(node, _WITH_UNCERTAIN_PARTS):
        return []
    if isinstance(node, gast.BoolOp):
        return list(node.values[1:])
    if isinstance(node, gast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, gast.Compare) and len(node.ops) > 1:
        return list(node.comparators)
    if isinstance(node, gast.Assert) and node.msg is not None:
        return [node.msg]
    if isinstance(node, COMPREHENSIONS):
        return [inner.target for inner in walk(node) if isinstance(inner, gast.NamedExpr)]
    return []


def thunk_names(node: gast.AST) -> frozenset[str]:
    """Return the names that appear in the uncertain operands inside `node`, itself included."""
    results: set[str] = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, NESTED_SCOPES):
            uncertain = uncertain_parts(part)
            if uncertain:
                results |= names_in(uncertain).mentions
            waiting += children(part)
    return frozenset(results)


def _certain_children(node: gast.AST) -> list[gast.AST]:
    skipped = {id(part) for part in uncertain_parts(node)}
    if not skipped:
        return children(node)
    return [child for child in children(node) if id(child) not in skipped]
