"""Loops of ONNX models that carry less: the same results, of models as text and of programs."""

import numpy
import pytest
import torch

import dy2st
from dy2st import InputSpec

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

import onnx_ir as ir  # noqa: E402  # comes with onnxscript

from dy2st.exporting.onnx_loops import simplify_loops  # noqa: E402

HEAD = """<ir_version: 10, opset_import: ["" : 20]>
main (float[2] x, int64 n) => ({outputs}) <int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64 low = {{-3}}> {{
"""


def model(outputs, text):
    return onnx.parser.parse_model(HEAD.format(outputs=outputs) + text + "}")


CASES = {
    # what it gives, its text, how many variables are left, whether it counts
    "counts": (
        "float[2] y",
        """first = Less(zero, n)
        _a, _b, y, _c = Loop("", first, first, zero, x, zero) <body = iteration
            (int64 k, bool c, bool g, int64 i, float[2] v, int64 s) => (bool again, bool h, int64 j, float[2] w, int64 t) {
            w = Add(v, v)
            j = Add(i, one)
            again = Less(j, n)
            h = Identity(again)
            t = Constant<value_int = -1>()
        }>""",
        2,  # a constant that a node gives stays
        True,
    ),
    "counter_is_used": (
        "int64 last, float[2] y",
        """first = Greater(n, zero)
        last, y = Loop("", first, zero, x) <body = iteration (int64 k, bool c, int64 i, float[2] v) => (bool again, int64 j, float[2] w) {
            f = Cast<to = 1>(i)
            j = Add(one, i)
            g = Cast<to = 1>(j)
            u = Add(v, f)
            w = Mul(u, g)
            again = Less(j, n)
        }>""",
        1,
        True,
    ),
    "starts_elsewhere": (
        "int64 last, float[2] y",
        """first = Less(low, n)
        last, y = Loop("", first, low, x) <body = iteration (int64 k, bool c, int64 i, float[2] v) => (bool again, int64 j, float[2] w) {
            f = Cast<to = 1>(i)
            w = Add(v, f)
            j = Add(i, one)
            again = Greater(n, j)
        }>""",
        1,
        True,
    ),
    "starts_anywhere": (
        "int64 last, float[2] y",
        """start = Div(n, two)
        first = Less(start, n)
        last, y = Loop("", first, start, x) <body = iteration (int64 k, bool c, int64 i, float[2] v) => (bool again, int64 j, float[2] w) {
            f = Cast<to = 1>(i)
            w = Add(v, f)
            j = Add(i, one)
            again = Less(j, n)
        }>""",
        1,
        True,
    ),
    "condition_is_used": (
        "bool ends, float[2] y",
        """first = Less(zero, n)
        ends, _a, y = Loop("", first, first, zero, x) <body = iteration
            (int64 k, bool c, bool g, int64 i, float[2] v) => (bool again, bool h, int64 j, float[2] w) {
            f = Cast<to = 1>(g)
            w = Add(v, f)
            j = Add(i, one)
            again = Less(j, n)
            h = Identity(again)
        }>""",
        2,
        True,
    ),
    "another_condition_before": (
        "float[2] y",
        """sure = Equal(zero, zero)
        _a, y = Loop("", sure, zero, x) <body = iteration (int64 k, bool c, int64 i, float[2] v) => (bool again, int64 j, float[2] w) {
            w = Add(v, v)
            j = Add(i, one)
            again = Less(j, n)
        }>""",
        2,
        False,
    ),
    "steps_of_two": (
        "int64 last, float[2] y",
        """first = Less(zero, n)
        last, y = Loop("", first, zero, x) <body = iteration (int64 k, bool c, int64 i, float[2] v) => (bool again, int64 j, float[2] w) {
            w = Add(v, v)
            j = Add(i, two)
            again = Less(j, n)
        }>""",
        2,
        False,
    ),
    "the_end_moves": (
        "float[2] y",
        """first = Less(zero, n)
        _a, _b, y = Loop("", first, zero, n, x) <body = iteration
            (int64 k, bool c, int64 i, int64 m, float[2] v) => (bool again, int64 j, int64 o, float[2] w) {
            w = Add(v, v)
            j = Add(i, one)
            o = Sub(m, one)
            again = Less(j, o)
        }>""",
        3,
        False,
    ),
    "the_end_is_compared_early": (
        "int64 last, float[2] y",
        """first = Less(zero, n)
        last, y = Loop("", first, zero, x) <body = iteration (int64 k, bool c, int64 i, float[2] v) => (bool again, int64 j, float[2] w) {
            w = Add(v, v)
            j = Add(i, one)
            again = Less(i, n)
        }>""",
        2,
        False,
    ),
    "an_early_end": (
        "int64 last, float[2] y",
        """first = Less(zero, n)
        last, y = Loop("", first, zero, x) <body = iteration (int64 k, bool c, int64 i, float[2] v) => (bool again, int64 j, float[2] w) {
            w = Add(v, v)
            j = Add(i, one)
            more = Less(j, n)
            sum = ReduceSum<keepdims = 0>(w)
            hundred = Constant<value_float = 100.0>()
            few = Less(sum, hundred)
            again = And(more, few)
        }>""",
        2,
        False,
    ),
    "inside_of_a_branch_and_a_loop": (
        "float[2] y",
        """first = Less(zero, n)
        y = If(first) <then_branch = yes () => (float[2] z) {
            _a, z = Loop("", first, zero, x) <body = iteration (int64 k, bool c, int64 i, float[2] v) => (bool again, int64 j, float[2] w) {
                start = Less(zero, i)
                _b, w = Loop("", start, zero, v) <body = inner
                    (int64 l, bool d, int64 p, float[2] q) => (bool more, int64 r, float[2] s) {
                    f = Cast<to = 1>(p)
                    s = Add(q, f)
                    r = Add(p, one)
                    more = Less(r, i)
                }>
                j = Add(i, one)
                again = Less(j, n)
            }>
        }, else_branch = no () => (float[2] a) {
            a = Neg(x)
        }>""",
        1,
        True,
    ),
}


def loop_with_a_constant_variable(before):
    """A loop with a variable that is -1 after every iteration, as an initializer of the iteration."""
    made = model(
        "int64 state, float[2] y",
        f"""sum = ReduceSum<keepdims = 0>(x)
        first = Greater(sum, sum)
        state, y = Loop("", first, {before}, x) <body = iteration (int64 k, bool c, int64 s, float[2] v) => (bool again, int64 t, float[2] w) {{
            w = Add(v, v)
            again = Less(k, n)
        }}>""",
    )
    (body,) = (part.g for node in made.graph.node if node.op_type == "Loop" for part in node.attribute)
    body.initializer.append(onnx.helper.make_tensor("t", onnx.TensorProto.INT64, [], [-1]))
    return made


def run(made, n):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": numpy.array([1.0, -2.0], dtype=numpy.float32), "n": numpy.array(n)})


def loops(graph):
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from loops(attribute.g)
        if node.op_type == "Loop":
            yield node


def simplified(made):
    read = ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(made))
    simplify_loops(read)
    written = ir.serde.serialize_model(read)
    onnx.checker.check_model(written, full_check=True)
    return written


@pytest.mark.parametrize("name", CASES)
def test_a_simplified_loop_carries_less_with_the_same_results(name):
    outputs, text, variables, counts = CASES[name]
    made = model(outputs, text)
    lean = simplified(made)
    for found in loops(lean.graph):
        assert len(found.input) == 2 + variables
        assert (found.input[1] == "") == counts
    for n in (-5, -1, 0, 1, 2, 3, 7):
        for before, after in zip(run(made, n), run(lean, n), strict=True):
            numpy.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("end", [-(2**63), 2**63 - 1])
def test_numbers_as_large_as_they_get(end):
    made = model(
        "int64 last, float[2] y",
        """top = Constant<value_int = 9223372036854775807>()
        first = Less(top, n)
        last, y = Loop("", first, top, x) <body = iteration (int64 k, bool c, int64 i, float[2] v) => (bool again, int64 j, float[2] w) {
            w = Add(v, v)
            j = Add(i, one)
            again = Less(j, n)
        }>""",
    )
    lean = simplified(made)
    assert [len(found.input) for found in loops(lean.graph)] == [3]
    last, y = run(lean, end)
    assert last == 2**63 - 1
    assert y.tolist() == [1, -2]


def test_a_loop_that_only_counts_is_gone():
    made = model(
        "int64 last",
        """first = Less(one, n)
        last = Loop("", first, one) <body = iteration (int64 k, bool c, int64 i) => (bool again, int64 j) {
            j = Add(i, one)
            again = Less(j, n)
        }>""",
    )
    lean = simplified(made)
    assert not list(loops(lean.graph))
    for n in (-1, 0, 1, 2, 5):
        assert run(lean, n) == run(made, n) == [max(n, 1)]


@pytest.mark.parametrize("before", ["zero", "n"])
def test_a_constant_of_every_iteration_is_chosen_afterwards(before):
    for comparison in ("Greater", "Equal"):  # no iteration, and n and one more iterations
        made = loop_with_a_constant_variable(before)
        made.graph.node[1].op_type = comparison
        lean = simplified(made)
        assert [len(found.input) for found in loops(lean.graph)] == [3]
        for n in (0, 1, 4):
            for one, other in zip(run(made, n), run(lean, n), strict=True):
                numpy.testing.assert_array_equal(other, one)


def test_a_loop_with_a_limit_stays():
    made = model(
        "float[2] y",
        """first = Less(zero, n)
        y = Loop(two, first, x) <body = iteration (int64 k, bool c, float[2] v) => (bool again, float[2] w) {
            w = Add(v, v)
            again = Less(k, n)
        }>""",
    )
    lean = simplified(made)
    for n in (0, 1, 5):
        numpy.testing.assert_array_equal(run(lean, n)[0], run(made, n)[0])


# -- programs ----------------------------------------------------------------------------------------------------------------


def counts_by_hand(x, n):
    i = torch.zeros((), dtype=torch.int64)
    while i < n:
        x = torch.tanh(x * 2 + 0.1) - 0.5 * n
        i = i + 1
    return x, i


def counts_by_range(x, n):
    total = 0
    for i in range(2, int(n)):
        x = x + i
        total += i
    return x, total


def stops_early(x, n):
    for i in range(int(n)):
        if x.sum() > 20:
            break
        x = x + i
    return x


def loop_in_loop(x, n):
    for i in range(int(n)):
        for j in range(i):
            x = x + j
        x = x * 1.5
    return x


@pytest.mark.parametrize("function", [counts_by_hand, counts_by_range, stops_early, loop_in_loop])
def test_only_a_loop_that_stops_early_keeps_its_condition(function, tmp_path):
    path = tmp_path / "model.onnx"
    dy2st.export(function, path, input_spec=[InputSpec([2], "float32"), InputSpec([], "int64")], verify=False)
    counted = {not found.input[1] for found in loops(onnx.load(path).graph)}
    assert counted == ({False} if function is stops_early else {True})
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for n in (-1, 0, 1, 2, 3, 8):
        found = session.run(None, {"x": numpy.ones(2, dtype=numpy.float32), "n": numpy.array(n)})
        expected = torch.utils._pytree.tree_leaves(function(torch.ones(2), torch.tensor(n)))
        for one, other in zip(found, expected, strict=True):
            numpy.testing.assert_allclose(one, other, rtol=1e-5)


def test_what_is_the_same_at_each_iteration_is_computed_once(tmp_path):
    path = tmp_path / "model.onnx"
    dy2st.export(counts_by_hand, path, input_spec=[InputSpec([2], "float32"), InputSpec([], "int64")], verify=False)
    (found,) = loops(onnx.load(path).graph)
    (body,) = (attribute.g for attribute in found.attribute)
    assert sorted(node.op_type for node in body.node) == ["Add", "Identity", "Mul", "Sub", "Tanh"]
