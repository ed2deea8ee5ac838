"""Comprehensions: which error an unbound name of the function gives inside one.

    (y for _ in xs)         →   (_dy2st.ld_free(y, 'y') for _ in xs)

A generator expression is a function to Python, so `y` is a free variable there; before Python 3.12 so it is in the
other comprehensions.
"""

from __future__ import annotations

import sys

import gast

from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, rewrites


@rewrites(gast.GeneratorExp, Phase.ACCESS)
def rewrite_generator(node: gast.GeneratorExp, context: Context) -> gast.expr:
    """Always a function."""
    return _as_function(node, context)


@rewrites(gast.ListComp, Phase.ACCESS)
def rewrite_list(node: gast.ListComp, context: Context) -> gast.expr:
    """A function before Python 3.12."""
    return _as_function(node, context) if sys.version_info < (3, 12) else node


@rewrites(gast.SetComp, Phase.ACCESS)
def rewrite_set(node: gast.SetComp, context: Context) -> gast.expr:
    """A function before Python 3.12."""
    return _as_function(node, context) if sys.version_info < (3, 12) else node


@rewrites(gast.DictComp, Phase.ACCESS)
def rewrite_dict(node: gast.DictComp, context: Context) -> gast.expr:
    """A function before Python 3.12."""
    return _as_function(node, context) if sys.version_info < (3, 12) else node


def _as_function(node: gast.expr, context: Context) -> gast.expr:
    outside = {id(inner) for inner in gast.walk(node.generators[0].iter)}
    for inner in gast.walk(node):
        is_check = isinstance(inner, gast.Attribute) and inner.attr == "ld" and context.is_operators(inner.value)
        if is_check and id(inner) not in outside:
            inner.attr = "ld_free"
    return node
