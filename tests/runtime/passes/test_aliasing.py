import pytest

from dy2st_runtime.analyses.aliasing import Aliasing, is_quiet
from dy2st_runtime.primitives import control
from tests.runtime.build import Make, aten, net_program


def one(target, *args, **kwargs):
    make = Make()
    x, y = make.input("x", "f32[4]"), make.call(aten.neg.default, make.input("z", "f32[4]"))
    values = {"x": x, "y": y}
    args = [[values[item] for item in a] if isinstance(a, list) and a[0] in values else values.get(str(a), a) for a in args]
    node = make.call(target, *args, **kwargs)
    return Aliasing(make.output()), x, y, node


@pytest.mark.parametrize(
    "call",
    [
        (aten.view.default, "y", [4]), (aten.reshape.default, "y", [4]), (aten.t.default, "y"), (aten.chunk.default, "y", 2),
        (aten.unbind.int, "y"), (aten.detach.default, "y"), (aten.to.device, "y", "cpu", None), (aten.contiguous.default, "y"),
        (aten.dropout.default, "y", 0.5, False), (aten.type_as.default, "y", "x"), (aten.einsum.default, "i->i", ["y"]),
        (aten.meshgrid.default, ["y"]), (aten.atleast_1d.default, "y"), (aten.add_.Tensor, "y", 1),
    ],
)  # fmt: skip
def test_a_view_or_change_of_a_value_shares_its_memory(call):
    aliasing, _, y, node = one(*call)
    assert aliasing.share(y, node) and not aliasing.is_new(node)


@pytest.mark.parametrize(
    "call",
    [
        (aten.neg.default, "y"), (aten.add.Tensor, "y", "x"), (aten.cat.default, ["y"]), (aten.linear.default, "y", "x"),
        (aten.clone.default, "y"), (aten.where.self, "y", "x", "y"), (aten.matmul.default, "y", "x"),
    ],
)  # fmt: skip
def test_a_computed_value_shares_no_memory_with_its_operand(call):
    aliasing, _, y, node = one(*call)
    assert not aliasing.share(y, node) and aliasing.is_new(node)


def test_inputs_may_be_one_tensor():
    make = Make()
    a, b = make.inputs("a", "b")
    make.call(aten.add_.Tensor, make.call(aten.view.default, a, [-1]), 1)
    aliasing = Aliasing(make.output())
    assert aliasing.share(a, b) and aliasing.is_written(b)


@pytest.mark.parametrize(("training", "written"), [(True, True), (False, False)])
def test_batch_norm_writes_its_statistics_in_training(training, written):
    aliasing, x, _, _ = one(aten.batch_norm.default, "y", None, None, "x", "x", training, 0.1, 1e-5, True)
    assert aliasing.is_written(x) == written


def test_sharing_is_followed_through_control_flow():
    made = net_program(True)
    aliasing = Aliasing(made.block)
    nodes = {node.target: node for node in made.nodes()}
    body = nodes[control.while_].args[1]
    carried = body.inputs[0]
    outputs = made.block.outputs
    assert aliasing.share(outputs[0], carried), "what the loop gives is what it carries"
    assert aliasing.share(body.outputs[1], carried)
    assert aliasing.escapes(carried) and not aliasing.is_written(carried), "it is appended to a list, which is part of the result"
    assert not aliasing.share(nodes[aten.mean.dim], carried)


def test_python_may_do_anything():
    make = Make()
    x = make.input("x")
    y = make.call(aten.neg.default, x)
    node = make.call(control.call_, print, (y,), {})
    aliasing = Aliasing(make.output())
    assert aliasing.is_written(y) and aliasing.is_written(x) and aliasing.escapes(y) and not is_quiet(node)


def test_a_node_is_quiet_unless_it_writes_in_place():
    make = Make()
    x = make.input("x")
    y = make.call(aten.neg.default, x)
    assert is_quiet(y) and not is_quiet(make.call(aten.neg_.default, y))
    then, orelse = Make(), Make()
    a, b = then.input("a"), orelse.input("b")
    assert not is_quiet(make.call(control.if_, True, then.output(then.call(aten.neg_.default, a)), orelse.output(b), (x,)))
