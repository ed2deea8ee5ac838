"""Trees printed for people: astor where it knows every node, `ast.unparse` where it does not.

What is printed never runs; what runs is the tree itself (see compile.py).
"""

from __future__ import annotations

import ast
import sys
import warnings

import gast

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its import names nodes that Python 3.14 drops
    import astor

_UNKNOWN_TO_ASTOR = tuple(getattr(ast, name) for name in ("Match", "TryStar", "TypeAlias", "TemplateStr") if hasattr(ast, name))


def unparse(tree: gast.AST) -> str:
    """The tree as Python text, without a trailing newline."""
    python_tree = ast.fix_missing_locations(gast.gast_to_ast(tree))
    if _known_to_astor(python_tree):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            text: str = astor.to_source(python_tree, pretty_source="".join)
        return text.rstrip("\n")
    return ast.unparse(python_tree)


def _known_to_astor(tree: ast.AST) -> bool:
    if sys.version_info >= (3, 14):
        return False
    return not any(isinstance(node, _UNKNOWN_TO_ASTOR) or getattr(node, "type_params", None) for node in ast.walk(tree))
