"""Names of a piece of code."""

from __future__ import annotations

import gast
import pytest

from dy2st.analysis.scopes import NameUse, free_names, names_in, parameters


def use(text: str) -> NameUse:
    return names_in(gast.parse(text).body)


@pytest.mark.parametrize(
    ("text", "reads", "writes", "captured"),
    [
        ("a = b", {"b"}, {"a"}, set()),
        ("a += b", {"a", "b"}, {"a"}, set()),
        ("a.x, b[c] = d", {"a", "b", "c", "d"}, set(), set()),
        ("del a", {"a"}, {"a"}, set()),
        ("[x + y for x in z]", {"y", "z"}, set(), set()),
        ("[(w := x) for x in z]", {"z"}, {"w"}, set()),
        ("(x + y for x in z)", {"y", "z"}, set(), {"y"}),
        ("f = lambda x, y=d: x + z", {"d"}, {"f"}, {"z"}),
        ("def f(x):\n    nonlocal n\n    n = x\n    m = k", set(), {"f"}, {"n", "k"}),
        ("class C(B):\n    x = y\n    def f(self): return z", {"B"}, {"C"}, {"y", "z"}),
        ("import a.b, c as d\nfrom e import f as g", set(), {"a", "d", "g"}, set()),
        ("try:\n    pass\nexcept E as e:\n    pass", {"E"}, {"e"}, set()),
        ("match x:\n    case [a, *b]: pass\n    case {'k': c, **d}: pass", {"x"}, {"a", "b", "c", "d"}, set()),
        ("x: T = y", {"y"}, {"x"}, set()),
    ],
)
def test_each_name_is_read_written_or_captured(text: str, reads: set[str], writes: set[str], captured: set[str]) -> None:
    found = use(text)
    assert (set(found.reads), set(found.writes), set(found.captured)) == (reads, writes, captured)


def test_written_names_come_in_order_of_appearance() -> None:
    assert use("c = 1\na = 2\nb = c").writes == ("c", "a", "b")


def test_free_names_of_nested_functions() -> None:
    function = gast.parse("def f(x):\n    global g\n    y = 1\n    g = lambda: x + y + z\n    return w").body[0]
    assert free_names(function) == {"z", "w"}


def test_parameters_of_every_kind_come_in_order() -> None:
    assert parameters(gast.parse("def f(a, /, b, *c, d, **e): pass").body[0]) == ("a", "b", "c", "d", "e")
