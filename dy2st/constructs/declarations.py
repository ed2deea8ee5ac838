"""`global` and `nonlocal` statements.

    if c:                   →   global n
        global n                if c:
        n = 1                       n = 1

They hold for the whole function wherever they stand, so they move to its start before its blocks become functions.
"""

from __future__ import annotations

import gast

from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, rewrites
from dy2st.constructs.walk import insert_at_start


@rewrites(gast.FunctionDef, Phase.DESUGAR)
def rewrite_function(node: gast.FunctionDef, context: Context) -> gast.FunctionDef:
    """Declare at the start what the user declared anywhere."""
    if node is not context.root:
        return node
    at = node.body[0]
    text = "global module\nnonlocal outer"
    module, outer = context.declared_globals, context.declared_nonlocals
    insert_at_start(node, context.statements(text, at, module=module, outer=outer))
    return node


@rewrites(gast.Global, Phase.DESUGAR)
def rewrite_global(node: gast.Global, context: Context) -> list[gast.stmt]:
    """Taken to the start of the function."""
    return []


@rewrites(gast.Nonlocal, Phase.DESUGAR)
def rewrite_nonlocal(node: gast.Nonlocal, context: Context) -> list[gast.stmt]:
    """Taken to the start of the function."""
    return []
