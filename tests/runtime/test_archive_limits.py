"""What an archive asks for is checked before it is done: the arguments of operators, the iterations of loops, the sizes of weights."""

import json
import operator

import numpy
import pytest
import safetensors.torch
import torch

from dy2st_runtime import LoadError, StepLimitError, load, save_programs
from dy2st_runtime.archive import weights
from dy2st_runtime.executors import BACKENDS
from dy2st_runtime.ir.structure import Leaf
from dy2st_runtime.primitives import control
from tests.runtime.build import Make, Net, net_program, net_state, program, simple, tensor_input
from tests.runtime.test_archive import members, rewrite

aten = torch.ops.aten


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.dy2st"


def with_node(path, **changes):
    """An archive whose only node is changed."""
    save_programs(path, [simple()], [[]])
    document = json.loads(members(path)["program.json"])
    document["programs"][0]["blocks"][0]["nodes"][0].update(changes)
    rewrite(path, program_json=json.dumps(document).encode())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"args": []}, "does not pass self"),
        ({"args": ["x"]}, "does not pass other"),
        ({"args": ["x", 1, 2]}, "passes 3 arguments, it takes 2"),
        ({"args": ["x", {"str": "y"}]}, "passes 'y' as other, it takes Tensor"),
        ({"args": ["x", None]}, "passes None as other"),
        ({"args": ["x", ["x", 1]]}, r"passes \[x, 1\] as other"),
        ({"args": ["x", 1], "kwargs": {"alpha": {"dtype": "float32"}}}, "as alpha"),
        ({"args": ["x", 1], "kwargs": {"beta": 1}}, "passes 'beta', which it does not take"),
        ({"args": ["x", 1], "kwargs": {"other": 1}}, "passes 'other', which it does not take twice"),
        ({"args": ["x", 2**70]}, "as other"),
        ({"target": "aten.sum.dim_IntList", "args": ["x", [{"str": "a"}]]}, "as dim"),
        ({"target": "aten.sum.dim_IntList", "args": ["x", 2**63]}, "as dim"),
        ({"target": "aten.view.default", "args": ["x", 4]}, "as size"),
        ({"target": "aten.to.dtype", "args": ["x", {"str": "float32"}]}, "as dtype"),
        ({"target": "aten.zeros.default", "args": [[2]], "kwargs": {"device": 1.5}}, "as device"),
        ({"target": "aten.set_.source_Storage", "args": ["x", 1]}, "it takes Storage"),
        ({"target": "aten.dropout.default", "args": ["x", 0.5, "x", 1]}, "passes 4 arguments"),
        ({"target": "raise_", "args": [{"str": "no"}]}, "raises 'no', which is no exception"),
        ({"target": "assert_", "args": [True]}, "has 1 arguments"),
        ({"target": "list_append", "args": []}, "has 0 arguments"),
        ({"target": "list_", "args": [[]], "kwargs": {"key": 1}}, "passes 'key'"),
        ({"target": "print_", "args": [{"tuple": []}, 1]}, "ends a line with 1"),
        ({"target": "set_grad_enabled", "args": [[1]]}, r"passes \[1\]"),
        ({"target": "aten.set_data.default", "args": ["x", "x"]}, "which an archive may not do"),
        ({"made": {}}, "what an exception has, where one is raised"),
        ({"target": "raise_", "args": ["x"], "made": {}}, "what an exception has, where one is raised"),
        ({"target": "raise_", "args": [{"exception": "ValueError"}], "made": {"names": ["a"]}}, "as many values as it takes"),
        (
            {"target": "raise_", "args": [{"exception": "ValueError"}], "made": {"links": {"x": {"kind": {"exception": "KeyError"}}}}},
            "an exception that another was raised from",
        ),
        ({"target": "leave_", "args": ["x"]}, "has no field 'effects'"),
        (
            {"target": "leave_", "args": ["x"], "effects": [{"target": "self.h", "kind": "set", "value": {"leaf": 1}}]},
            "as many arguments as its effects name",
        ),
        (
            {"target": "leave_", "args": ["x"], "effects": [{"target": "h()", "kind": "set", "value": {"leaf": 0}}]},
            "attributes of the module where something is left",
        ),
        ({"target": "aten._print.default", "args": [{"str": "x"}]}, "which an archive may not do|does not have"),
    ],
)  # fmt: skip
def test_arguments_that_an_operator_cannot_take(path, changes, message):
    with_node(path, **changes)
    with pytest.raises(LoadError, match=message):
        load(path)


def test_arguments_that_operators_take(path):
    make = Make()
    x = make.input("x", "f32[n, 4]")
    for target, args, kwargs in (
        (aten.add.Tensor, (x, 1.5), {"alpha": 2}),
        (aten.sum.dim_IntList, (x, 0), {}),
        (aten.sum.dim_IntList, (x, [0, -1], True), {"dtype": torch.float64}),
        (aten.zeros.default, ([2, 2],), {"dtype": torch.int64, "device": torch.device("cpu"), "layout": torch.strided}),
        (aten.index.Tensor, (x, [None, x]), {}),
        (aten.avg_pool1d.default, (x, 2), {}),
        (aten.full.default, ([2], True), {}),
        (aten.clone.default, (x,), {"memory_format": torch.contiguous_format}),
        (getattr(aten.random_, "from"), (x, 0, None), {}),
    ):
        make.call(target, *args, **kwargs)
    save_programs(path, [program(make.output(x), (tensor_input(),), result=Leaf(0))], [[]])
    load(path)


# ---- loops


def endless():
    """``while True: x = x + 1``."""
    make, body = Make(), Make()
    x, inner = make.input("x", "f32[n, 4]"), body.input("x", "f32[n, 4]")
    block = body.output(True, body.call(aten.add.Tensor, inner, 1))
    loop = make.call(control.while_, True, block, (x,), ())
    return program(make.output(make.take(loop, 0)), (tensor_input(),), result=Leaf(0))


def counting():
    """Twice three iterations, in a branch, in a loop of two iterations."""
    make, outer, branch, inner = Make(), Make(), Make(), Make()
    i, total = inner.inputs("i", "total")
    following = inner.call(operator.add, i, 1)
    block = inner.output(inner.call(operator.lt, following, 3), following, inner.call(operator.add, total, 1))
    total = branch.input("total")
    loop = branch.call(control.while_, True, block, (0, total), ())
    then = branch.output(branch.take(loop, 1))
    orelse = Make()
    orelse = orelse.output(orelse.input("total"))
    i, total = outer.inputs("i", "total")
    made = outer.call(control.if_, True, then, orelse, (total,))
    following = outer.call(operator.add, i, 1)
    body = outer.output(outer.call(operator.lt, following, 2), following, outer.take(made, 0))
    make.input("x")
    loop = make.call(control.while_, True, body, (0, 0), ())
    return program(make.output(make.take(loop, 1)), (tensor_input(),), result=Leaf(0))


@pytest.mark.parametrize("backend", ["python"])
def test_a_loop_without_end(path, backend):
    save_programs(path, [endless()], [[]])
    model = load(path, max_steps=1000, backend=backend)
    for _ in range(2):
        with pytest.raises(StepLimitError, match=r"more than 1000 iterations \(max_steps\)"):
            model(torch.zeros(1, 4))


@pytest.mark.parametrize("backend", ["python"])
def test_iterations_of_all_loops_count_together(path, backend):
    assert backend in BACKENDS
    save_programs(path, [counting()], [[]])
    x = torch.zeros(1, 4)
    for enough in (8, 9, None):
        model = load(path, max_steps=enough, backend=backend)
        assert model(x) == model(x) == 6
    assert "steps_left" not in str(model.program)
    with pytest.raises(StepLimitError):
        load(path, max_steps=7)(x)
    with pytest.raises(StepLimitError):
        load(path, max_steps=0)(x)


def test_a_limit_changes_nothing_else(path, tmp_path):
    net = Net()
    save_programs(path, [net_program(True)], [net_state(net, net_program(True))], net)
    limited = load(path, max_steps=10**6)
    limited.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    (found, _), (expected, _) = limited(torch.ones(3, 4)), load(path)(torch.ones(3, 4))
    assert torch.equal(found["y"], expected["y"])


@pytest.mark.parametrize("wrong", [-1, 2.5, True, "5"])
def test_a_limit_that_is_no_number_of_iterations(path, wrong):
    save_programs(path, [simple()], [[]])
    with pytest.raises(ValueError, match="max_steps is a number of iterations"):
        load(path, max_steps=wrong)


# ---- weights


TENSORS = {
    "odd": torch.arange(7.0),
    "number": torch.tensor(3),
    "empty": torch.zeros(0, 3),
    "flag": torch.tensor([True, False, True]),
    "half": torch.arange(64).to(torch.bfloat16),
    "wide": torch.arange(32, dtype=torch.float64).reshape(4, 8),
    "complex": torch.tensor([1 + 2j]),
}


def joined(parts):
    return bytearray(b"".join(parts))


@pytest.mark.parametrize("copy", [True, False])
def test_weights_come_back_as_safetensors_reads_them(copy):
    data = joined(weights.save(TENSORS))
    found = weights.load(memoryview(data), "w", copy=copy)
    theirs = safetensors.torch.load(bytes(data))
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor) and torch.equal(theirs[name], tensor)
    assert weights.load(memoryview(bytearray(safetensors.torch.save(TENSORS))), "w", copy=copy).keys() == TENSORS.keys()


def test_weights_that_are_used_where_they_lie():
    data = numpy.zeros(4096, dtype=numpy.uint8)
    data = data[-data.ctypes.data % 64 :]
    saved = joined(weights.save(TENSORS))
    data[: len(saved)] = saved
    found = weights.load(memoryview(data)[: len(saved)], "w", copy=False)
    inside = {name for name, t in found.items() if data.ctypes.data <= t.data_ptr() < data.ctypes.data + len(saved) and t.numel()}
    assert {"half", "wide"} <= inside
    assert all(found[name].data_ptr() % 64 == 0 for name in inside)


def header(**entries):
    text = json.dumps(entries).encode()
    return bytearray(len(text).to_bytes(8, "little") + text + bytes(8))


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "header does not fit"),
        ((2**63 - 1).to_bytes(8, "little") + b"{}", "header does not fit"),
        (b"\x02" + bytes(7) + b"[]", "expected an object"),
        (header(a=entry(shape=[2**62, 4])), "expected 73786976294838206464 bytes"),
        (header(a=entry(shape=[2**63, 0], offsets=[0, 0])), "expected 0 bytes"),
        (header(a=entry(shape=[-2])), "expected an integer of at least 0"),
        (header(a=entry(shape=[2.0])), "expected an integer"),
        (header(a=entry(dtype="F128")), "expected one of F64"),
        (header(a=entry(offsets=[8, 16])), "expected data that starts at 0"),
        (header(a=entry(), b=entry()), "expected data that starts at 8"),
        (header(a=entry(shape=[1], offsets=[0, 4])), "its tensors need 4 bytes, it has 8"),
        (header(a=entry(shape=[4], offsets=[0, 16])), "its tensors need 16 bytes, it has 8"),
        (header(), "its tensors need 0 bytes, it has 8"),
        (header(a=[]), "expected an object"),
    ],
)
def test_weights_that_are_wrong(data, message):
    with pytest.raises(LoadError, match=message):
        weights.load(memoryview(data), "w", copy=True)


def test_large_weights_are_mapped(path):
    layer = torch.nn.Linear(1024, 1024, bias=False)
    make = Make()
    x, weight = make.inputs("x", "weight")
    from dy2st_runtime import StateSlot

    made = program(
        make.output(make.call(aten.linear.default, x, weight)),
        (tensor_input("x", "n", 1024),),
        (StateSlot("weight", "parameter", torch.float32, (1024, 1024), True),),
        result=Leaf(0),
    )
    save_programs(path, [made], [[layer.weight]], layer)
    before = path.read_bytes()
    model, other = load(path), load(path)
    x = torch.randn(2, 1024)
    assert model.weight.data_ptr() % 64 == 0 and torch.equal(model(x), layer(x))
    with torch.no_grad():
        model.weight.zero_()
    assert path.read_bytes() == before and torch.equal(other(x), layer(x))  # what is written stays here
    model.save(path)
    assert torch.equal(other(x), layer(x)) and not load(path)(x).any()  # the old file lives on as long as it is used
