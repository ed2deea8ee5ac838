"""What is known of sizes is forgotten where a block ends, whatever was learned in blocks inside of it."""

import pytest
import sympy
from torch.fx.experimental.symbolic_shapes import ShapeEnv

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


@pytest.fixture
def asked(monkeypatch):
    """Return what torch is asked to decide."""
    expressions = []
    simplify = ShapeEnv.simplify

    def simplified(self, expr, *args, **kwargs):
        expressions.append(expr)
        return simplify(self, expr, *args, **kwargs)

    monkeypatch.setattr(ShapeEnv, "simplify", simplified)
    return expressions


def test_what_was_answered_is_not_asked_again_where_a_block_has_ended(asked):
    shapes = CaptureShapes()
    number, other = shapes.fresh_int(size=True), shapes.fresh_int(size=True)
    shapes.learn((number < 5).node.expr)
    assert _known(shapes, number, 6) and _known(shapes, number, 4) is None
    facts = shapes.facts()
    shapes.learn((other < 5).node.expr)
    del asked[:]
    assert _known(shapes, number, 6)
    shapes.forget_since(facts)
    assert _known(shapes, number, 6) and _known(shapes, number, 4) is None
    assert not asked


def test_the_same_question_about_another_number_has_one_answer(asked):
    shapes = CaptureShapes()
    for _ in range(3):
        number, other = shapes.fresh_int(size=True), shapes.fresh_int(size=True)
        assert shapes.known(number + other >= 0) and shapes.known(number * other < 7) is None
    assert len(asked) <= 2


def test_numbers_of_which_something_else_is_known_have_another_answer():
    shapes = CaptureShapes()
    first, second, third = (shapes.fresh_int(size=True) for _ in range(3))
    assert shapes.known(first < second) is None
    facts = shapes.facts()
    shapes.learn((first < second).node.expr)
    assert shapes.known(first < second) and shapes.known(second < first) is False
    assert shapes.known(first < third) is None and shapes.known(third < second) is None
    shapes.learn((third < 2).node.expr)
    assert shapes.known(third < 3) and shapes.known(first < 3) is None
    shapes.learn(sympy.Eq(sympy.Mod(second.node.expr, 3), 0))
    assert shapes.known(first % 3 == 0) is None
    shapes.forget_since(facts)
    assert shapes.known(first < second) is None and shapes.known(third < 3) is None


def test_what_was_answered_of_a_number_is_not_what_holds_before_it_was_known():
    shapes = CaptureShapes()
    outer = shapes.facts()
    number = shapes.fresh_int(size=True)
    inner = shapes.facts()
    shapes.learn((number < 5).node.expr)
    assert _known(shapes, number, 5)
    shapes.forget_since(inner)
    assert _known(shapes, number, 5) is None
    shapes.learn((number >= 5).node.expr)
    assert _known(shapes, number, 5) is False
    shapes.forget_since(outer)
    assert _known(shapes, number, 5) is None
