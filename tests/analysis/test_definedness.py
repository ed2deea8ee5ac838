"""What is surely bound before a statement: the one that reads `here`."""

from __future__ import annotations

import gast
import pytest

from dy2st.analysis.definedness import definedness


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a = 1\nhere", {"a"}),
        ("if c:\n    a = b = 1\nelse:\n    a = 2\nhere", {"a"}),
        ("if c:\n    raise E\nelse:\n    a = 2\nhere", {"a"}),
        ("while c:\n    a = 1\nhere", set()),
        ("a = 1\nfor i in x:\n    here\n    del a", {"i"}),
        ("try:\n    a = 1\nexcept E as e:\n    a = 2\nhere", {"a"}),
        ("try:\n    a = 1\nexcept E as e:\n    here", {"e"}),
        ("with m as n:\n    a = 1\nhere", set()),
        ("x and (a := 1)\nhere", set()),
        ("f(a := 1)\nhere", {"a"}),
        ("import a.b\ndef f(): pass\nclass C: pass\nhere", {"a", "f", "C"}),
    ],
)
def test_definedness_finds_the_names_surely_bound_before_a_statement(text: str, bound: set[str]) -> None:
    tree = gast.parse(text)
    (here,) = (
        node
        for node in gast.walk(tree)
        if isinstance(node, gast.Expr) and isinstance(node.value, gast.Name) and node.value.id == "here"
    )
    assert definedness(tree.body, frozenset())[id(here)] == bound
