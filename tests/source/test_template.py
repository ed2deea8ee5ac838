"""Templates: what fills a hole, and where the nodes end up."""

from __future__ import annotations

import gast
import pytest

from dy2st.source import template
from dy2st.source.unparse import unparse


def node(text: str) -> gast.expr:
    return gast.parse(text).body[0].value


AT = node("\n\n\nhere")


def text(template_text: str, **holes: object) -> str:
    made = template.statements(template_text, AT, **holes)
    return unparse(gast.Module(body=made, type_ignores=[]))


@pytest.mark.parametrize(
    ("quoted", "holes", "expected"),
    [
        ("a = b", {"a": "x"}, "x = b"),
        ("a = b", {"b": node("f(1)")}, "a = f(1)"),
        ("f(a)", {"a": [node("x"), node("y")]}, "f(x, y)"),
        ("def f(p): return p", {"f": "g", "p": "q"}, "def g(q):\n    return q"),
        ("if a:\n    b", {"b": gast.parse("x()\ny()").body}, "if a:\n    x()\n    y()"),
    ],
)
def test_holes_are_filled_with_names_and_nodes(quoted: str, holes: dict[str, object], expected: str) -> None:
    assert text(quoted, **holes) == expected


def test_declaration_without_names_vanishes() -> None:
    assert text("def f():\n    nonlocal outer\n    pass", outer=()) == "def f():\n    pass"
    assert text("def f():\n    nonlocal outer\n    pass", outer=("x", "y")) == "def f():\n    nonlocal x, y\n    pass"


def test_template_nodes_take_the_location_and_fillers_keep_theirs() -> None:
    filler = node("x")
    made = template.expression("f(hole)", AT, hole=filler)
    assert (made.lineno, made.col_offset) == (AT.lineno, AT.col_offset)
    assert made.args[0] is filler
    assert filler.lineno == 1


def test_a_constant_becomes_an_expression() -> None:
    assert unparse(gast.Expr(value=template.constant(("a", 1, ()), AT))) == "'a', 1, ()"


def test_each_use_of_a_template_has_nodes_of_its_own() -> None:
    one, other = (template.statements("pass\nx = y", at) for at in (AT, node("z")))
    assert [statement.lineno for statement in one] == [AT.lineno, AT.lineno]
    assert [statement.lineno for statement in other] == [1, 1]
    assert not {id(part) for part in one} & {id(part) for part in other}
