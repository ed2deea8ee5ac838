import operator
import random

import pytest
import torch
from torch import fx

from dy2st_runtime import Effect, StateSlot, verify
from dy2st_runtime.executors.python import run
from dy2st_runtime.ir.program import copy_block, node_blocks
from dy2st_runtime.ir.structure import Leaf
from dy2st_runtime.passes.dead_code import remove_dead_code, remove_unused_states
from dy2st_runtime.primitives import control, scalars
from tests.runtime.build import Make, aten, net_program, program, tensor_input

X = torch.randn(3, 4)


def cleaned(made, *values):
    """The program without dead code, checked to be valid and to give what the other gives."""
    before = str(made)
    found = remove_dead_code(made)
    verify(found)
    assert str(made) == before, "the program given was changed"
    assert str(remove_dead_code(found)) == str(found), "a second time removes more"
    if values:
        assert repr(run(found, values)) == repr(run(made, values))
    return found


def targets(made):
    return [getattr(node.target, "__name__", "") for node in made.nodes()]


def only(made, target):
    return next(node for node in made.nodes() if node.target is target)


# ---- what is removed


def test_unread_chains_of_numbers_are_removed():
    make = Make()
    x = make.input("x")
    size = make.call(aten.sym_size.int, x, 0)
    one = make.call(operator.add, size, 1)
    make.call(operator.floordiv, make.call(scalars.maximum, one, 3), 2)
    make.call(scalars.to_int, make.call(operator.gt, one, 2, kind="bool"))
    assert targets(cleaned(program(make.output(x), (tensor_input(),)), X)) == []


def test_lists_that_nobody_uses():
    make = Make()
    x = make.input("x")
    items = make.call(control.list_, [x])
    make.call(control.list_len, items)
    make.call(control.format_, ["x = ", (x, None, "")])
    assert targets(cleaned(program(make.output(x), (tensor_input(),)), X)) == []


def branch(outputs=2, used=(0, 1), operands=2):
    """``if`` over tensors; the second operand is read by nobody."""
    then, orelse, make = Make(), Make(), Make()
    x = make.input("x")
    pred = make.call(aten.gt.Scalar, make.call(aten.sum.default, x), 0, kind="bool[]")
    a, _ = then.inputs("a", "b")
    b, _ = orelse.inputs("a", "b")
    then_block = then.output(*[then.call(operator.add, i, 1) for i in range(outputs - 1)], a)
    else_block = orelse.output(*[orelse.call(operator.add, i, 2) for i in range(outputs - 1)], b)
    size = make.call(aten.sym_size.int, x, 0)
    node = make.call(control.if_, pred, then_block, else_block, (x, size))
    return program(make.output(*[make.take(node, index) for index in used]), (tensor_input(),))


def test_operands_that_no_branch_uses():
    found = cleaned(branch(), X)
    node = only(found, control.if_)
    assert len(node.args[3]) == 1 and [len(b.inputs) for b in node_blocks(node)] == [1, 1]
    assert "sym_size.int" not in str(found)


def test_outputs_that_nobody_takes_are_renumbered():
    found = cleaned(branch(4, (3, 1)), X)
    node = only(found, control.if_)
    assert [len(b.outputs) for b in node_blocks(node)] == [2, 2]
    assert [n.args[1] for n in found.nodes() if n.target is operator.getitem] == [1, 0]


def test_a_branch_that_nobody_needs():
    assert targets(cleaned(branch(2, ()), X)) == ["sum.default", "gt.Scalar"]


def loop(read_outside=(0, 1, 2), read_inside=False):
    """Carries a tensor, a counter and a counter of counters; ``unread`` is an operand that nobody reads."""
    body, make = Make(), Make()
    x = make.input("x")
    y, i, j, step, _ = body.inputs("y", "i", "j", "step", "unread")
    y = body.call(aten.mul.Tensor, y, i if read_inside else 2)
    i2 = body.call(operator.add, i, step)
    j2 = body.call(operator.add, body.call(operator.mul, j, 3), i)
    block = body.output(body.call(aten.lt.Scalar, body.call(aten.sum.default, body.call(aten.abs.default, y)), 50), y, i2, j2)
    size = make.call(aten.sym_size.int, x, 0)
    node = make.call(control.while_, True, block, (x, 1, size), (1, size))
    return program(make.output(*[make.take(node, index) for index in read_outside]), (tensor_input(),))


@pytest.mark.parametrize(
    ("outside", "inside", "left"),
    [
        ((0, 1, 2), False, 3),
        ((0, 1), False, 2),
        ((0,), False, 1),
        ((0,), True, 2),
        ((0, 2), False, 3),
        ((1,), False, 2),
        ((), True, 2),
    ],
)
def test_carried_values_that_nothing_reads_are_removed(outside, inside, left):
    found = cleaned(loop(outside, inside), X)
    node = only(found, control.while_)
    (block,) = node_blocks(node)
    assert len(node.args[2]) == left and len(block.outputs) == 1 + left
    assert len(block.inputs) == left + len(node.args[3])
    assert "unread" not in [n.name for n in block.inputs]


def test_a_carried_value_that_each_iteration_overwrites_stays():
    body, make = Make(), Make()
    n, last = body.inputs("n", "last")
    less = body.call(operator.sub, n, 1)
    block = body.output(body.call(operator.gt, less, 0), less, body.call(operator.mul, n, 10))
    node = make.call(control.while_, make.input("go"), block, (5, 0), ())
    made = program(make.output(make.take(node, 1)), (tensor_input(),))
    assert run(cleaned(made, True), [True]) == (10,) and run(remove_dead_code(made), [False]) == (0,)


def test_unread_values_are_removed_from_nested_blocks():
    inner, outer, make = Make(), Make(), Make()
    a, b = inner.inputs("a", "b")
    inner_block = inner.output(a, inner.call(operator.add, b, 1))
    y, n, m = outer.inputs("y", "n", "m")
    taken = outer.call(control.if_, True, inner_block, _pair(), (y, m))
    less = outer.call(operator.sub, n, 1)
    block = outer.output(outer.call(operator.gt, less, 0), outer.take(taken, 0), less, outer.take(taken, 1))
    node = make.call(control.while_, True, block, (make.input("x"), 3, 0), ())
    found = cleaned(program(make.output(make.take(node, 0)), (tensor_input(),)), X)
    assert len(only(found, control.while_).args[2]) == 2 and len(only(found, control.if_).args[3]) == 1
    assert len(node_blocks(only(found, control.if_))[0].outputs) == 1


def _pair():
    make = Make()
    return make.output(*make.inputs("a", "b"))


# ---- what stays


@pytest.mark.parametrize(
    "call",
    [
        lambda make, x: make.call(aten.add.Tensor, x, 1),
        lambda make, x: make.call(aten.rand.default, [2]),
        lambda make, x: make.call(aten.mul_.Tensor, x, 1),
        lambda make, x: make.call(control.assert_, True, AssertionError),
        lambda make, x: make.call(control.print_, [], ""),
        lambda make, x: make.call(operator.floordiv, 1, make.call(aten.sym_size.int, x, 0)),
        lambda make, x: make.call(operator.pow, 2, make.call(aten.sym_size.int, x, 0)),
        lambda make, x: make.call(scalars.to_int, make.call(aten.sym_size.int, x, 0, kind="float")),
        lambda make, x: make.call(scalars.to_float, x),
        lambda make, x: make.call(control.list_append, make.call(control.list_, []), 1),
        lambda make, x: make.call(torch._C._set_grad_enabled, True),
        lambda make, x: make.call(operator.getitem, make.call(control.list_pop, make.call(control.list_, [(x,)])), 0),
    ],
)
def test_unread_calls_that_may_act_or_raise_are_kept(call):
    make = Make()
    x = make.input("x")
    call(make, x)
    made = program(make.output(x), (tensor_input(),))
    kept = [name for name in targets(made) if name != "getitem"]
    assert [name for name in targets(cleaned(made)) if name != "getitem"] == kept


def test_a_branch_whose_condition_may_raise_stays():
    make = Make()
    x = make.input("x", "f32[3, 4]")
    make.call(control.if_, x, Make().output(), Make().output(), ())
    assert targets(cleaned(program(make.output(x), (tensor_input(),)))) == ["if_"]


def test_an_effect_deep_inside_keeps_all_around_it():
    inner, make = Make(), Make()
    inner.call(control.list_append, inner.input("xs"), inner.input("x"))
    x = make.input("x")
    items = make.call(control.list_, [])
    pred = make.call(aten.gt.Scalar, make.call(aten.sum.default, x), -1e9, kind="bool[]")
    make.call(control.if_, pred, inner.output(), _nothing(), (items, x))
    made = program(make.output(items), (tensor_input(),))
    assert str(cleaned(made, X)) == str(made)


def _nothing():
    make = Make()
    make.inputs("xs", "x")
    return make.output()


def test_the_whole_tuple_of_a_control_node():
    made = branch(3, ())
    graph = made.block.graph
    node = only(made, control.if_)
    with graph.inserting_before(graph.output_node()):
        taken = graph.call_function(control.list_, ([node],))
    graph.output_node().args = ((taken,),)
    made = program(made.block, (tensor_input(),))
    assert len(node_blocks(only(cleaned(made, X), control.if_))[0].outputs) == 3


def test_cleaning_a_whole_model_keeps_its_operations():
    found = cleaned(net_program(True))
    assert targets(found) == targets(net_program(True))
    assert len(only(found, control.if_).args[3]) == 4


# ---- states


def test_unused_states_are_reported():
    make = Make()
    x, a, b, c, d = make.inputs("x", "a", "b", "c", "d")
    make.call(operator.add, a, 1)
    slots = tuple(StateSlot(name, "number") for name in "abcd")
    block = make.output(make.call(operator.add, b, 2), x)
    made = program(block, (tensor_input(),), slots, effects=(Effect("d", "set", Leaf(0)),))
    found, kept = remove_unused_states(remove_dead_code(made))
    verify(found)
    assert kept == (1, 3) and [slot.name for slot in found.states] == ["b", "d"]
    assert [node.name for node in found.block.inputs] == ["x", "b", "d"]
    assert remove_unused_states(found)[1] == (0, 1)
    assert len(made.block.inputs) == 5


# ---- against chance


def test_random_programs_mean_the_same():
    for seed in range(50):
        choose = random.Random(seed)
        made = program(_random_block(choose, 3, 3), tuple(tensor_input(f"x{i}") for i in range(3)))
        verify(made)
        cleaned(made, 3, 5, 7)


def _random_block(choose, inputs, depth, body=False):
    make = Make()
    values = [*make.inputs(*(f"x{i}" for i in range(inputs))), 1]
    for _ in range(choose.randrange(2, 6)):
        pick = lambda: choose.choice(values)
        kind = choose.random()
        if depth and kind < 0.3:
            blocks = []
            operands = tuple(pick() for _ in range(choose.randrange(3)))
            for _ in range(2):
                blocks.append(_random_block(choose, len(operands), depth - 1))
            outputs = min(len(block.outputs) for block in blocks)
            for block in blocks:
                block.graph.output_node().args = (block.outputs[:outputs],)
            node = make.call(control.if_, make.call(operator.gt, pick(), pick(), kind="bool"), *blocks, operands)
            values += [make.take(node, i) for i in range(outputs) if choose.random() < 0.7]
        elif depth and kind < 0.5:
            carried = (choose.randrange(4), *(pick() for _ in range(choose.randrange(3))))
            operands = tuple(pick() for _ in range(choose.randrange(2)))
            node = make.call(control.while_, True, _random_body(choose, len(carried), len(operands), depth - 1), carried, operands)
            values += [make.take(node, i) for i in range(len(carried)) if choose.random() < 0.5]
        elif kind < 0.55:
            make.call(control.print_, [("", None, "")], "")
        else:
            modulo = make.call(operator.mod, make.call(choose.choice([operator.add, operator.mul]), pick(), pick()), 101)
            values.append(modulo)
    return make.output(*(choose.choice(values) for _ in range(choose.randrange(4))))


def _random_body(choose, carried, operands, depth):
    """Counts its first carried value up to five; the others are whatever a random block gives."""
    inner = _random_block(choose, carried + operands, depth)
    make = Make()
    values = make.inputs(*(f"c{i}" for i in range(carried + operands)))
    node = make.call(control.if_, True, inner, copy_block(inner), tuple(values))
    count = make.call(operator.add, values[0], 1)
    pool = [*values, *(make.take(node, i) for i in range(len(inner.outputs)))]
    rest = [choose.choice(pool) for _ in range(carried - 1)]
    return make.output(make.call(operator.lt, count, 5), count, *rest)


def test_graphs_stay_well_formed():
    for block in cleaned(branch(4, (3, 1)), X).blocks():
        assert isinstance(block.graph, fx.Graph)
        assert all(user.graph is block.graph for node in block.graph.nodes for user in node.users)
