"""How single statements bind names: what the analyses of control flow share."""

from __future__ import annotations

import gast

from dy2st.analysis.scopes import COMPREHENSIONS, NESTED_SCOPES, names_in


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
    if isinstance(node, NESTED_SCOPES + COMPREHENSIONS):
        return frozenset()
    own = frozenset({node.target.id}) if isinstance(node, gast.NamedExpr) else frozenset()
    return own.union(*(certain_walruses(child) for child in _certain_children(node)))


def uncertain_parts(node: gast.AST) -> list[gast.AST]:
    """Return the operands that an operator may skip: they end up in functions of their own (see constructs/thunks.py)."""
    if isinstance(node, gast.BoolOp):
        return list(node.values[1:])
    if isinstance(node, gast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, gast.Compare) and len(node.ops) > 1:
        return list(node.comparators)
    if isinstance(node, gast.Assert) and node.msg is not None:
        return [node.msg]
    if isinstance(node, COMPREHENSIONS):
        return [inner.target for inner in gast.walk(node) if isinstance(inner, gast.NamedExpr)]
    return []


def thunk_names(node: gast.AST) -> frozenset[str]:
    """Return the names that appear in the uncertain operands inside `node`, itself included."""
    if isinstance(node, NESTED_SCOPES):
        return frozenset()
    result = names_in(uncertain_parts(node)).mentions
    return result.union(*(thunk_names(child) for child in children(node)))


def children(node: gast.AST) -> list[gast.AST]:
    """Return the direct children of a node."""
    results: list[gast.AST] = []
    for field in node._fields:
        value = getattr(node, field, None)
        results.extend(child for child in (value if isinstance(value, list) else [value]) if isinstance(child, gast.AST))
    return results


def _certain_children(node: gast.AST) -> list[gast.AST]:
    skipped = {id(part) for part in uncertain_parts(node)}
    return [child for child in children(node) if id(child) not in skipped]
