"""One bottom-up walk per phase. It holds no logic of any construct: it forwards nodes to registered functions."""

from __future__ import annotations

from typing import Any

import gast

from dy2st.analysis.scopes import NESTED_SCOPES
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, rewrites_of
from dy2st.constructs.thunks import setter_definitions
from dy2st.source.nodes import fields_of


def run_phase(context: Context, phase: Phase) -> None:
    """Rewrite the function of `context`, its own header excepted."""
    _Walk(context, phase).function(context.root)


class _Walk:
    def __init__(self, context: Context, phase: Phase) -> None:
        self._context = context
        self._phase = phase
        self._rewrites = rewrites_of(phase)
        self._is_of_statements = all(issubclass(kind, gast.stmt) for kind in self._rewrites)
        """Whether the phase leaves expressions alone: the statements of a lambda are its own."""

    def function(self, node: gast.FunctionDef) -> gast.AST | list[gast.stmt]:
        """Return the user's function, or one that an earlier phase made."""
        self._context.setters.append({})
        node.body = self._statements(node.body)
        setters = setter_definitions(self._context, self._context.setters.pop(), node)
        insert_at_start(node, setters)
        return self._dispatch(node)

    def _visit(self, node: Any) -> Any:
        if self._is_of_statements and isinstance(node, gast.expr):
            return node
        if self._context.is_opaque(node):
            self._outside(node)
            return self._dispatch(node)
        if isinstance(node, gast.FunctionDef):
            return self.function(node)
        for field in fields_of(type(node)):
            value = getattr(node, field, None)
            if value and isinstance(value, (gast.AST, list)):
                setattr(node, field, self._field(value))
        return self._dispatch(node)

    def _dispatch(self, node: Any) -> Any:
        rewrite = self._rewrites.get(type(node))
        return node if rewrite is None else rewrite(node, self._context)

    def _field(self, value: Any) -> Any:
        if isinstance(value, gast.AST):
            return self._visit(value)
        if not isinstance(value, list):
            return value
        if value and isinstance(value[0], gast.stmt):
            return self._statements(value)
        return [self._visit(item) if isinstance(item, gast.AST) else item for item in value]

    def _statements(self, body: list[gast.stmt]) -> list[gast.stmt]:
        rewritten: list[gast.stmt] = []
        for statement in body:
            new = self._visit(statement)
            rewritten.extend(new if isinstance(new, list) else [new])
        if body and not rewritten:
            return self._context.statements("pass", body[0])
        return rewritten

    def _outside(self, node: Any) -> None:
        """Visit the parts of a nested function or class that the function around it evaluates."""
        if getattr(node, "type_params", None):
            return
        owner = node if isinstance(node, gast.ClassDef) else node.args
        for field in ("bases", "keywords", "defaults", "kw_defaults"):
            setattr(owner, field, self._field(getattr(owner, field))) if hasattr(owner, field) else None
        if not isinstance(node, gast.Lambda):
            node.decorator_list = self._field(node.decorator_list)
        if isinstance(node, gast.ClassDef) and self._phase is Phase.CALLS:
            node.body = [self._visit(part) if _is_plain(part) else part for part in node.body]


def _is_plain(statement: gast.stmt) -> bool:
    """Tell whether a statement of a class body has no scope of its own, in which a name could be another one."""
    simple = isinstance(statement, gast.Expr | gast.Assign | gast.AnnAssign)
    return simple and not any(isinstance(part, (*NESTED_SCOPES, gast.comprehension)) for part in gast.walk(statement))


def insert_at_start(node: gast.FunctionDef, statements: list[gast.stmt]) -> None:
    """Put statements after the docstring and the declarations of a function."""
    position = 0
    for statement in node.body:
        is_docstring = position == 0 and isinstance(statement, gast.Expr) and isinstance(statement.value, gast.Constant)
        if not (is_docstring or isinstance(statement, gast.Nonlocal | gast.Global)):
            break
        position += 1
    node.body[position:position] = statements
