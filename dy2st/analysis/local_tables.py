"""Calls of ``locals()`` and ``vars()``: which of them give a dict that the code may keep."""

from __future__ import annotations

from collections.abc import Iterator

import gast

from dy2st.analysis.scopes import COMPREHENSIONS, NESTED_SCOPES, outside_parts
from dy2st.source.nodes import children

_LOOKS = frozenset(("get", "copy"))
"""Methods of a dict after which nobody has it."""
_COPIES = frozenset(("dict", "frozenset", "len", "list", "set", "sorted", "tuple"))
"""Functions of one."""


def is_table(node: gast.AST) -> bool:
    """Tell whether a node is ``locals()`` or ``vars()``."""
    if not isinstance(node, gast.Call) or not isinstance(node.func, gast.Name):
        return False
    return node.func.id in ("locals", "vars") and not node.args and not node.keywords


def kept_table(node: gast.FunctionDef) -> gast.Call | None:
    """Return a call that gives a dict which another call could change, if there is one.

    Before Python 3.13, all calls in one frame give the same dict. One that is looked into at once, and one that is called
    once, cannot be told from a new one.
    """
    calls = [part for statement in node.body for part in _tables(statement, is_repeated=False, is_kept=True)]
    kept = [call for call, is_repeated, is_kept in calls if is_repeated is None or (is_kept and (is_repeated or len(calls) > 1))]
    return kept[0] if kept else None


def _tables(node: gast.AST, is_repeated: bool | None, is_kept: bool) -> Iterator[tuple[gast.Call, bool | None, bool]]:
    """Yield the calls under a node; ``is_repeated`` is None where variables of a comprehension are in scope."""
    if is_table(node):
        yield node, is_repeated, is_kept
        return
    if isinstance(node, NESTED_SCOPES):
        for part in outside_parts(node):
            yield from _tables(part, is_repeated, is_kept=True)
        return
    first = node.generators[0].iter if isinstance(node, COMPREHENSIONS) else None
    for part in children(node):
        yield from _within(node, part, first, is_repeated)


def _within(
    node: gast.AST, part: gast.AST, first: gast.AST | None, is_repeated: bool | None
) -> Iterator[tuple[gast.Call, bool | None, bool]]:
    """Yield the calls under a part of a node; ``first`` is what a comprehension evaluates in the scope around it."""
    if first is not None:
        for inner in children(part) if isinstance(part, gast.comprehension) else (part,):
            yield from _tables(inner, is_repeated if inner is first else None, is_kept=True)
        return
    repeats = isinstance(node, gast.While) or (isinstance(node, gast.For) and part is not node.iter)
    yield from _tables(part, is_repeated or repeats if is_repeated is not None else None, not _looks_into(node, part))


def _looks_into(node: gast.AST, part: gast.AST) -> bool:
    if isinstance(node, gast.Subscript):
        return part is node.value and isinstance(node.ctx, gast.Load)
    if isinstance(node, gast.Compare):
        return part is not node.left and all(isinstance(operator, gast.In | gast.NotIn) for operator in node.ops)
    if isinstance(node, gast.keyword):
        return node.arg is None
    if isinstance(node, gast.Call):
        return isinstance(node.func, gast.Name) and node.func.id in _COPIES
    if isinstance(node, gast.BinOp):
        return isinstance(node.op, gast.Mod) and isinstance(node.left, gast.Constant)
    return isinstance(node, gast.Attribute) and node.attr in _LOOKS
