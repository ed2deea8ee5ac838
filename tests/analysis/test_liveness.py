"""What is live around block statements."""

from __future__ import annotations

import gast
import pytest

from dy2st.analysis.liveness import Lives, liveness


def lives(text: str) -> Lives:
    body = gast.parse(text).body
    found = liveness(body)
    nodes = [node for node in gast.walk(gast.Module(body=body, type_ignores=[])) if id(node) in found]
    statement = next((node for node in nodes if not isinstance(node, gast.Try | gast.With)), nodes[0])
    return found[id(statement)]


@pytest.mark.parametrize(
    ("text", "after", "entry"),
    [
        ("if c:\n    y = x\nprint(y)", {"print", "y"}, {"print", "x"}),
        ("if c:\n    y = x\ny = 1\nprint(y)", {"print"}, {"print", "x"}),
        ("try:\n    if c:\n        y = x\nexcept E:\n    print(y)", {"E", "print", "y"}, {"E", "print", "y", "x"}),
        ("try:\n    if c:\n        y = x\nfinally:\n    print(y)", {"print", "y"}, {"print", "x", "y"}),
        ("with m:\n    if c:\n        y = x\nprint(y)", {"print", "y"}, {"print", "x", "y"}),
        ("if c:\n    y and (x := 1)\nprint(x)", {"print", "x"}, {"print", "x", "y"}),
        ("if c:\n    raise E\nprint(x)", {"print", "x"}, {"E"}),
        ("if c:\n    del x\nprint(y)", {"print", "y"}, {"print", "y", "x"}),
    ],
)
def test_names_read_later_are_live_around_a_branch(text: str, after: set[str], entry: set[str]) -> None:
    found = lives(text)
    assert (found.after, found.entries[0]) == (after, entry)


def test_names_read_by_later_blocks_of_a_try_are_live():
    found = lives("try:\n    y = x\nexcept E:\n    print(y)\nelse:\n    z = a\nfinally:\n    print(b)\nprint(z)")
    assert found.after == {"print", "b", "z"}
    assert found.entries == ({"E", "print", "x", "y", "a", "b", "z"}, {"E", "print", "y", "b", "z"}, {"print", "a", "b", "z"})


def test_while_carries_around_the_back_edge() -> None:
    found = lives("while t:\n    u = h\n    h = x\n    t = u")
    assert found.head == {"t", "h", "x"}
    assert found.after == set()


def test_for_binds_its_target_each_time() -> None:
    found = lives("for i in xs:\n    h = h + i")
    assert found.head == {"h"}
