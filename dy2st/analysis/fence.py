"""What is refused before any rewrite, with its place and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import gast

from dy2st.analysis.exits import may_jump, may_leave
from dy2st.analysis.local_tables import kept_table
from dy2st.analysis.scopes import NESTED_SCOPES, outside_parts
from dy2st.analysis.yielding import has_yield, skippable_yield
from dy2st.errors import UnsupportedSyntaxError
from dy2st.source.locate import source_line
from dy2st.source.nodes import children

_EXCLUDE = "or mark the function with @dy2st.not_to_static"
_YIELD = f"a static program cannot yield; collect the values in a list and return it, {_EXCLUDE}"
_AWAIT = f"a static program cannot await; do the waiting in the caller, {_EXCLUDE}"
_YIELDS = (gast.Yield, gast.YieldFrom)
_AWAITS = (gast.Await, gast.AsyncFor, gast.AsyncWith)
_LOCALS = f"which become cells of generated functions; name the variables instead, {_EXCLUDE}"
_ONE_TABLE = "each call may change the dict of the one before; call it once, outside of loops and comprehensions"
_LOOKS_AT_LOCALS = {"dir": 0, "eval": 1, "exec": 1}
"""Builtins that look at local variables when they get no more arguments than this, beside those that give a dict of them."""


def check_fence(node: gast.FunctionDef | gast.AsyncFunctionDef, filename: str) -> None:
    """Raise UnsupportedSyntaxError at the first thing in a function that has no static meaning.

    A `yield` has one in a function that a static function calls.
    """
    if isinstance(node, gast.AsyncFunctionDef):
        raise _unsupported(node, filename, f"an async function cannot be static; make it a plain function, {_EXCLUDE}")
    kept = kept_table(node)
    if kept is not None:
        raise _unsupported(kept, filename, f"{kept.func.id}() is kept, and called again: {_ONE_TABLE}, {_EXCLUDE}")
    for inner in _own_nodes(node.body):
        if isinstance(inner, _AWAITS):
            raise _unsupported(inner, filename, _AWAIT)
        part = skippable_yield(inner)
        if part is not None:
            raise _unsupported(part, filename, f"yield in an operand that may be skipped; write an if statement, {_EXCLUDE}")
        if isinstance(inner, gast.comprehension) and inner.is_async:
            raise _unsupported(inner.target, filename, _AWAIT)
        if isinstance(inner, gast.Call) and _looks_at_locals(inner):
            raise _unsupported(inner, filename, f"{inner.func.id}() looks at local variables, {_LOCALS}")
        if isinstance(inner, gast.Try):
            _check_finally(inner, node, filename)


def check_no_yield(node: gast.FunctionDef, filename: str) -> None:
    """Raise UnsupportedSyntaxError at the first `yield` of a function."""
    for inner in _own_nodes(node.body):
        if isinstance(inner, _YIELDS):
            raise _unsupported(inner, filename, _YIELD)


def _looks_at_locals(node: gast.Call) -> bool:
    if not isinstance(node.func, gast.Name) or node.keywords:
        return False
    return len(node.args) <= _LOOKS_AT_LOCALS.get(node.func.id, -1)


def _check_finally(node: gast.Try, function: gast.FunctionDef, filename: str) -> None:
    inside = [node.body, *(handler.body for handler in node.handlers), node.orelse]
    jumps = any(may_jump(statement, gast.Break, gast.Continue) for body in inside for statement in body)
    reraises = any(map(_reraises, node.finalbody))
    kept = not reraises and not jumps and not any(map(has_yield, function.body))
    for statement in node.finalbody:
        if has_yield(statement):
            raise _unsupported(statement, filename, f"yield inside finally; move it after the try, {_EXCLUDE}")
        for inner in _own_nodes([statement]):
            leaves = isinstance(inner, gast.Return) or _jumps_out(inner, node.finalbody)
            if leaves and not kept:
                word = type(inner).__name__.lower()
                seen = "stands beside a bare raise" if reraises else "drops what its try is doing"
                message = f"{word} inside finally {seen}; move it after the try, {_EXCLUDE}"
                raise _unsupported(inner, filename, message)


def _reraises(node: gast.AST) -> bool:
    if isinstance(node, (*NESTED_SCOPES, gast.expr)):
        return False
    return (isinstance(node, gast.Raise) and node.exc is None) or any(map(_reraises, children(node)))


def _jumps_out(node: gast.AST, body: Sequence[gast.stmt]) -> bool:
    if not isinstance(node, gast.Break | gast.Continue):
        return False
    return any(may_jump(statement, type(node)) and _reaches(statement, node) for statement in body)


def _reaches(statement: gast.stmt, jump: gast.AST) -> bool:
    """Tell whether `jump` stands under `statement` and belongs to a loop around it."""
    if statement is jump:
        return True
    parts = statement.orelse if isinstance(statement, gast.While | gast.For) else children(statement)
    return any(_reaches(part, jump) for part in parts if may_leave(part, type(jump)))


def _own_nodes(nodes: Sequence[gast.AST]) -> Iterator[gast.AST]:
    waiting = [*reversed(nodes)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(outside_parts(node) if isinstance(node, NESTED_SCOPES) else children(node))


def _unsupported(node: gast.AST, filename: str, message: str) -> UnsupportedSyntaxError:
    text = source_line(filename, node.lineno)
    end = node.end_col_offset + 1 if node.end_lineno == node.lineno else len(text)
    place = (filename, node.lineno, node.col_offset + 1, text, node.lineno, end)
    return UnsupportedSyntaxError(message, place)
