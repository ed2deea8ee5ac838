"""Generated code as quoted Python with holes.

    statements("def then(): body", at=node, then="then_1", body=[...])

A hole is a name of the template that is also a keyword argument. What fills it decides what happens:

* `str`: the identifier is renamed (names, parameters, function names, attribute and keyword names);
* an expression: takes the place of the name;
* a list of expressions: spliced into the surrounding argument list or tuple;
* a list of statements: takes the place of the name where it stands alone on a line;
* a tuple of strings: the names of a `nonlocal` or `global` statement; with no name the statement vanishes.

Nodes created in the template take the location of the node they replace; nodes that fill holes are not copied, so they
keep their own location and their identity.
"""

from __future__ import annotations

import ast
import functools
import textwrap
from typing import Any, TypeAlias

import gast

Hole: TypeAlias = Any
"""str, tuple of str, expression, list of expressions or list of statements."""

_LOCATION = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def statements(template: str, at: gast.AST, /, **holes: Hole) -> list[gast.stmt]:
    """Return the statements of `template` with its holes filled, placed at the location of `at`."""
    return _Filler(at, holes).statements(_parsed(template))


def expression(template: str, at: gast.AST, /, **holes: Hole) -> gast.expr:
    """Return the only expression of `template` with its holes filled, placed at the location of `at`."""
    (statement,) = statements(template, at, **holes)
    return statement.value


def constant(value: object, at: gast.AST) -> gast.expr:
    """Return a literal; tuples become tuple displays."""
    if isinstance(value, tuple):
        elements = [constant(element, at) for element in value]
        return place(gast.Tuple(elts=elements, ctx=gast.Load()), at)
    return place(gast.Constant(value=value, kind=None), at)


def load(name: str, at: gast.AST) -> gast.expr:
    """Return a read of `name`."""
    return place(gast.Name(id=name, ctx=gast.Load(), annotation=None, type_comment=None), at)


def store(name: str, at: gast.AST) -> gast.expr:
    """Return a write of `name`, to be used as a target."""
    return place(gast.Name(id=name, ctx=gast.Store(), annotation=None, type_comment=None), at)


def place(node: Any, at: gast.AST) -> Any:
    """Give `node` alone the location of `at`, and return it."""
    for attribute in _LOCATION:
        setattr(node, attribute, getattr(at, attribute, None))
    if isinstance(node, gast.Attribute) and not isinstance(at, gast.Attribute):  # Python calls a method at the end of its name
        node.end_lineno, node.end_col_offset = node.lineno, node.col_offset
    return node


@functools.cache
def _parsed(template: str) -> list[gast.stmt]:
    body: list[gast.stmt] = gast.ast_to_gast(ast.parse(textwrap.dedent(template))).body
    return body


class _Filler:
    """One use of a template: copies its nodes, fills the holes and places every node."""

    def __init__(self, at: gast.AST, holes: dict[str, Hole]) -> None:
        self._at = at
        self._holes = holes

    def statements(self, body: list[gast.stmt]) -> list[gast.stmt]:
        filled: list[gast.stmt] = []
        for statement in body:
            filled.extend(self._statement(statement))
        return filled

    def _statement(self, node: gast.stmt) -> list[gast.stmt]:
        if isinstance(node, gast.Expr) and isinstance(node.value, gast.Name):
            hole = self._holes.get(node.value.id)
            if isinstance(hole, list):
                return hole
        if isinstance(node, gast.Nonlocal | gast.Global):
            names = [name for hole in node.names for name in self._holes.get(hole, (hole,))]
            return [place(type(node)(names), self._at)] if names else []
        return [self._node(node)]

    def _node(self, node: Any) -> Any:
        if isinstance(node, gast.Name):
            return self._name(node)
        if not node._fields and not node._attributes:
            return node  # an operator, or the context of a name
        copied = type(node)(**{field: self._field(getattr(node, field)) for field in node._fields})
        if isinstance(node, gast.FunctionDef):
            copied.name = self._holes.get(node.name, node.name)
        if isinstance(node, gast.Attribute):
            copied.attr = self._holes.get(node.attr, node.attr)
        return place(copied, self._at) if node._attributes else copied

    def _name(self, node: gast.Name) -> Any:
        hole = self._holes.get(node.id, node.id)
        if not isinstance(hole, str):
            return hole
        return place(gast.Name(id=hole, ctx=node.ctx, annotation=node.annotation, type_comment=node.type_comment), self._at)

    def _field(self, value: Any) -> Any:
        if isinstance(value, list):
            return self._list(value)
        if isinstance(value, gast.AST):
            return self._node(value)
        return value

    def _list(self, values: list[Any]) -> list[Any]:
        if values and isinstance(values[0], gast.stmt):
            return self.statements(values)
        filled: list[Any] = []
        for value in values:
            new = self._field(value)
            filled.extend(new) if isinstance(new, list) else filled.append(new)
        return filled
