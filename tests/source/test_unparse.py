"""Printing: astor where it knows every node, ast.unparse elsewhere."""

from __future__ import annotations

import ast
import sys

import gast
import pytest

from dy2st.source.unparse import unparse

TEXTS = [
    "x = (a, *b), f'{c!r:>{d}}', lambda *p, q=1: q",
    "def f(a, /, b=1, *c, d, **e) -> int:\n    return (y := a)[1:2, ...]",
    "match x:\n    case [1, *rest] if rest:\n        pass\n    case {'k': v, **more}:\n        pass",
    "try:\n    pass\nexcept E as e:\n    raise F from e\nelse:\n    pass\nfinally:\n    pass",
]
NEW = {
    (3, 11): "try:\n    pass\nexcept* E as e:\n    pass",
    (3, 12): "def f[T: int](x: T) -> T:\n    type L = list[T]\n    return x",
}


def round_trip(text: str) -> None:
    assert ast.dump(ast.parse(unparse(gast.parse(text)))) == ast.dump(ast.parse(text))


@pytest.mark.parametrize("text", TEXTS)
def test_printed_code_parses_to_the_same_tree(text: str) -> None:
    round_trip(text)


@pytest.mark.parametrize("version", NEW)
def test_round_trip_of_new_syntax(version: tuple[int, int]) -> None:
    if sys.version_info < version:
        pytest.skip("newer syntax")
    round_trip(NEW[version])
