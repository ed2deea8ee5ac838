"""What is known of sizes is forgotten where a block ends, whatever was learned in blocks inside of it."""

import sympy

from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.writes.logged_tables import LoggedTable, TableLog


def _known(shapes, number, bound):
    return shapes.known(number < bound)


def test_nested_marks_are_undone_one_by_one():
    shapes = CaptureShapes()
    number = shapes.fresh_int(size=True)
    outer = shapes.facts()
    shapes.learn((number < 10).node.expr)
    inner = shapes.facts()
    shapes.learn((number < 5).node.expr)
    assert _known(shapes, number, 5)
    shapes.forget_since(inner)
    assert _known(shapes, number, 5) is None and _known(shapes, number, 10)
    shapes.learn((number < 7).node.expr)
    shapes.forget_since(outer)
    assert _known(shapes, number, 10) is None


def test_an_outer_mark_undoes_what_an_inner_one_has_left():
    shapes = CaptureShapes()
    number = shapes.fresh_int(size=True)
    outer = shapes.facts()
    shapes.facts()
    shapes.learn(sympy.Eq(number.node.expr, 3))
    assert shapes.known(number == 3)
    shapes.forget_since(outer)
    assert shapes.known(number == 3) is None


def test_numbers_made_since_keep_what_is_true_of_them_everywhere():
    shapes = CaptureShapes()
    outer = shapes.facts()
    inner = shapes.facts()
    number = shapes.fresh_int(size=True)
    shapes.learn((number < 5).node.expr)
    shapes.forget_since(inner)
    assert shapes.known(number >= 0) and _known(shapes, number, 5) is None
    shapes.learn((number < 5).node.expr)
    shapes.forget_since(outer)
    assert shapes.known(number >= 0) and _known(shapes, number, 5) is None


def test_a_table_that_torch_replaces_comes_back():
    shapes = CaptureShapes()
    number = shapes.fresh_int(size=True)
    facts = shapes.facts()
    table = shapes.replacements
    shapes.replacements = {number.node.expr: sympy.Integer(4)}
    inner = shapes.facts()
    shapes.replacements[number.node.expr] = sympy.Integer(5)
    shapes.forget_since(inner)
    assert shapes.replacements == {number.node.expr: 4}
    shapes.forget_since(facts)
    assert shapes.replacements is table and not table


def test_what_is_learned_again_is_what_was_learned():
    shapes = CaptureShapes()
    number = shapes.fresh_int(size=True)
    facts = shapes.facts()
    shapes.learn_checked((number < 5).node.expr)
    learned = shapes.learned_since(facts)
    shapes.forget_since(facts)
    outside = shapes.facts()
    shapes.learn((number > 2).node.expr)
    shapes.forget_since(outside)
    shapes.learn_again(learned)
    assert _known(shapes, number, 5) and shapes.known(number > 2) is None
    assert shapes.checked_since(facts) == [(number < 5).node.expr]
    shapes.forget_since(facts)
    assert _known(shapes, number, 5) is None and not shapes.checked_since(facts)


def test_every_way_to_change_a_table_is_undone():
    log = TableLog()
    held = {"a": 1, "b": 2, "c": 3}
    table = LoggedTable(log, held)
    mark = log.mark()
    table["a"] = 4
    del table["b"]
    assert table.pop("c") == 3 and table.pop("x", 5) == 5
    assert table.setdefault("d", 6) == 6 and table.setdefault("d", 7) == 6
    table.update({"e": 8}, f=9)
    table |= {"g": 10}
    assert log.added(table, mark) == ["d", "e", "f", "g"]
    assert table.popitem() == ("g", 10)
    inner = log.mark()
    table.clear()
    assert not table
    log.undo(inner)
    assert table == {"a": 4, "d": 6, "e": 8, "f": 9} and log.added(table, mark) == ["d", "e", "f"]
    log.undo(mark)
    assert table == held and not log.added(table, mark)
