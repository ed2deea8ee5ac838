import operator

import pytest
import torch

from dy2st_runtime import verify
from dy2st_runtime.executors.python import run
from dy2st_runtime.passes.constant_folding import fold_constants
from dy2st_runtime.passes.dead_code import remove_dead_code
from dy2st_runtime.primitives import control, scalars
from tests.runtime.build import Make, aten, program, tensor_input

X = torch.randn(3, 4)


def folded(made, *values):
    before = str(made)
    found = remove_dead_code(fold_constants(made))
    verify(found)
    assert str(made) == before, "the program given was changed"
    if values:
        assert repr(run(found, values)) == repr(run(made, values))
    return found


def numbers(value):
    """A program that gives back one number."""
    make = Make()
    x = make.input("x", "f32[n, 4]")
    return program(make.output(x, value(make, x)), (tensor_input(),))


def test_chains_of_numbers_fold_to_one_number():
    made = folded(numbers(lambda make, x: make.call(operator.add, make.call(scalars.maximum, 2, 3), 0.5)), X)
    assert made.block.outputs[1] == 3.5 and not list(made.nodes())


def test_sizes_that_never_differ():
    assert folded(numbers(lambda make, x: make.call(aten.sym_size.int, x, -1)), X).block.outputs[1] == 4
    assert len(list(folded(numbers(lambda make, x: make.call(aten.sym_size.int, x, 0)), X).nodes())) == 1


@pytest.mark.parametrize(
    ("target", "args"),
    [(operator.truediv, (1, 0)), (operator.pow, (10, 10**9)), (operator.lshift, (1, 10**9)), (scalars.to_int, (float("nan"),))],
)
def test_what_raises_or_explodes_stays(target, args):
    assert len(list(fold_constants(numbers(lambda make, x: make.call(target, *args))).nodes())) == 1


def test_signs_and_types_are_kept():
    found = folded(numbers(lambda make, x: make.call(operator.mul, -1, 0.0)), X).block.outputs[1]
    assert str(found) == "-0.0"
    assert folded(numbers(lambda make, x: make.call(operator.gt, 1, 2)), X).block.outputs[1] is False


def branch(pred):
    then, orelse, make = Make(), Make(), Make()
    x = make.input("x", "f32[n, 4]")
    a, b = then.inputs("x", "n")
    then_block = then.output(then.call(aten.mul.Tensor, a, then.call(operator.add, b, 1)))
    c, _ = orelse.inputs("x", "n")
    else_block = orelse.output(orelse.call(aten.neg.default, c))
    node = make.call(control.if_, pred(make, x), then_block, else_block, (x, 8))
    return program(make.output(make.take(node, 0)), (tensor_input(),))


@pytest.mark.parametrize("taken", [True, False])
def test_a_decided_branch_is_taken(taken):
    made = folded(branch(lambda make, x: make.call(operator.eq, make.call(aten.sym_size.int, x, 1), 4 if taken else 5)), X)
    assert [str(node.target) for node in made.nodes()] == ["aten.mul.Tensor" if taken else "aten.neg.default"]


def test_constants_go_into_blocks_that_stay():
    made = folded(branch(lambda make, x: make.call(aten.gt.Scalar, make.call(aten.sum.default, x), 0, kind="bool[]")), X)
    node = next(node for node in made.nodes() if node.target is control.if_)
    assert len(node.args[3]) == 1
    assert "aten.mul.Tensor(x, 9)" in str(made)


def test_a_loop_without_iterations_goes():
    body, make = Make(), Make()
    x = make.input("x", "f32[n, 4]")
    (y,) = body.inputs("y")
    block = body.output(True, body.call(aten.neg.default, y))
    node = make.call(control.while_, make.call(operator.gt, 0, 1), block, (x,), ())
    made = folded(program(make.output(make.take(node, 0)), (tensor_input(),)), X)
    assert list(made.nodes()) == []


def test_a_branch_used_whole_stays():
    then, orelse, make = Make(), Make(), Make()
    x = make.input("x")
    a, b = then.input("x"), orelse.input("x")
    node = make.call(control.if_, True, then.output(a), orelse.output(b), (x,))
    made = fold_constants(program(make.output(node), (tensor_input(),)))
    verify(made)
    assert len(list(made.nodes())) == 1
