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
    """Return the tree as Python text, without a trailing newline."""
    python_tree = ast.fix_missing_locations(gast.gast_to_ast(tree))
    if _known_to_astor(python_tree):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            text: str = astor.to_source(python_tree, pretty_source="".join)
        return text.rstrip("\n")
    return ast.unparse(python_tree)


def user_lines(tree: gast.AST, text: str) -> list[int | None]:
    """For each line of the printed tree, the line of the user's that the statement on it comes from.

    Args:
        tree: the tree.
        text: what :func:`unparse` gives for it.
    """
    results: list[int | None] = [None] * (text.count("\n") + 1)
    before, after = (
        [node for node in ast.walk(module) if isinstance(node, ast.stmt)] for module in (gast.gast_to_ast(tree), ast.parse(text))
    )
    if [type(node) for node in after][-len(before) :] != [type(node) for node in before]:
        return results
    for old, new in zip(before, after[-len(before) :]):
        body = getattr(new, "body", None)  # a compound statement gives its own lines to those inside it
        head = body[0].lineno - 1 if isinstance(body, list) else new.end_lineno
        for line in range(new.lineno, (head or new.lineno) + 1):
            results[line - 1] = getattr(old, "lineno", None)
    return results


def _known_to_astor(tree: ast.AST) -> bool:
    if sys.version_info >= (3, 14):
        return False
    return not any(isinstance(node, _UNKNOWN_TO_ASTOR) or getattr(node, "type_params", None) for node in ast.walk(tree))
