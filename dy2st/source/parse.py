"""A function as a fresh gast tree, ready to be rewritten."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import gast

from dy2st import names
from dy2st.source.locate import locate
from dy2st.source.nodes import walk


@dataclass(frozen=True)
class Parsed:
    """A function's tree: its header as written, lambdas as functions that return.

    Attributes:
        tree: the function.
        class_name: of the class around it.
        shared: the globals that functions of its file assign or delete.
    """

    tree: gast.FunctionDef | gast.AsyncFunctionDef
    class_name: str | None
    shared: frozenset[str] = frozenset()


def parse_function(code: types.CodeType, module_globals: dict[str, Any] | None = None) -> Parsed:
    """Return the tree of the function that `code` was compiled from; positions count from the start of its file."""
    located = locate(code, module_globals)
    tree = gast.ast_to_gast(located.node)
    if isinstance(tree, gast.Lambda):
        tree = _as_function(tree)
    tree.decorator_list = []
    return Parsed(tree, located.class_name, located.shared)


def identifiers(tree: gast.AST) -> frozenset[str]:
    """Return every identifier that appears anywhere in a tree, in any role."""
    results: set[str] = set()
    for node in walk(tree):
        for field in ("id", "attr", "name", "asname", "arg", "rest"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                results.add(value)
        if isinstance(node, gast.Global | gast.Nonlocal):
            results.update(node.names)
    return frozenset(results)


def _as_function(node: gast.Lambda) -> gast.FunctionDef:
    exit_ = gast.copy_location(gast.Return(value=node.body), node.body)
    function = gast.FunctionDef(
        name=names.LAMBDA,
        args=node.args,
        body=[exit_],
        decorator_list=[],
        returns=None,
        type_comment=None,
        type_params=[],
    )
    return gast.copy_location(function, node)
