"""Names of block functions, numbered from the outside in and from top to bottom, as the user reads."""

from __future__ import annotations

from collections.abc import Iterator

import gast

from dy2st import names
from dy2st.analysis.blocks import is_block_statement
from dy2st.constructs.context import Context
from dy2st.source.nodes import GuardedFor, children

_BASES: dict[type, tuple[str, str]] = {
    gast.If: (names.THEN, names.ELSE),
    gast.While: (names.TEST, names.BODY),
    gast.For: (names.BODY, names.ITEM),
    GuardedFor: (names.BODY, names.ITEM),
}


def label_blocks(context: Context) -> dict[int, tuple[str, ...]]:
    """Return the names for each `if`, loop, `try` and `with` of the function, by the identity of the statement."""
    return {id(node): _labels(node, context) for node in _block_statements(context.root, context)}


def _labels(node: gast.stmt, context: Context) -> tuple[str, ...]:
    if isinstance(node, gast.With):
        return (*context.functions(names.WITH), *context.namer.numbered(names.ENTERED))
    if not isinstance(node, gast.Try):
        return context.functions(*_BASES[type(node)])
    orelse = context.functions(names.ELSE) if node.orelse else ("",)
    handlers = [context.functions(names.EXCEPT)[0] for _ in node.handlers]
    return (*context.functions(names.TRY), *orelse, *context.namer.numbered(names.ERROR), *handlers)


def _block_statements(node: gast.AST, context: Context) -> Iterator[gast.stmt]:
    if isinstance(node, gast.expr) or context.is_opaque(node):
        return
    is_block = type(node) in _BASES or is_block_statement(node)
    if is_block and id(node) not in context.plain:
        yield node
    for child in children(node):
        yield from _block_statements(child, context)
