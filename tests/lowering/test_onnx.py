"""Programs as ONNX models: checked by the ONNX checker and run by onnxruntime."""

import os

import pytest
import torch

import dy2st
from dy2st import ExportError
from dy2st.lowering.interpreter import Interpreter
from tests.lowering.programs import FUNCTIONS, made, spec
from tests.runtime.passes.test_thread_jumps import leaves_early

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SOME = (
    "numbers two_loops loop_in_branch branch_in_loop grows_each_iteration grows_in_a_list sizes_differ in_place_in_a_loop views_beside keywords"
).split()
"""Those that run by default."""


def names(wanted):
    return [
        name if name in wanted else pytest.param(name, marks=pytest.mark.slow)
        for name in FUNCTIONS
        if name not in ("Counter", "guarded")
    ]


@pytest.mark.parametrize("name", names(SOME))
def test_every_program_exports_as_a_valid_onnx_model(name, tmp_path):
    layer, specification = made(name)
    report = dy2st.export(layer, tmp_path / "model.onnx", input_spec=specification)
    assert report.format == "onnx"
    assert report.verified >= 4
    assert report.largest_difference < 1e-4
    assert os.listdir(tmp_path) == ["model.onnx"]
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)


def kinds(graph):
    """The operators of a graph and of those inside."""
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from (f"{node.op_type}/{kind}" for kind in kinds(attribute.g))


def test_control_flow_is_in_the_model(tmp_path):
    layer, specification = made("guarded")
    report = dy2st.export(layer, tmp_path / "guarded.onnx", input_spec=specification)
    assert any("not checked: ValueError: not a number" in note for note in report.notes)
    layer, specification = made("branch_in_loop")
    dy2st.export(layer, tmp_path / "model.onnx", input_spec=specification, verify=False)
    model = onnx.load(tmp_path / "model.onnx")
    assert "Loop/If" in set(kinds(model.graph))
    assert [slot.name for slot in model.graph.input] == ["x"]
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    for x in (torch.tensor([5.0, -7.0, 1.0]), torch.zeros(3), torch.tensor([90.0, 1.0, 1.0])):
        y, steps = session.run(None, {"x": x.numpy()})
        expected, count = layer(x)
        torch.testing.assert_close(torch.from_numpy(y), expected)
        assert steps.item() == count


def test_an_early_return_is_one_branch(tmp_path):
    specification = [dy2st.InputSpec([3], "float32"), dy2st.InputSpec([], "float32")]
    report = dy2st.export(leaves_early, tmp_path / "model.onnx", input_spec=specification)
    assert report.verified
    found = [kind.rpartition("/")[2] for kind in kinds(onnx.load(tmp_path / "model.onnx").graph)]
    assert found.count("If") == 4
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    x = torch.tensor([0.25, -0.5, 0.125])
    for limit in (0.1, 0.6, 1.0, 3.0, 20.0, 100.0):
        (found,) = session.run(None, {"x": x.numpy(), "limit": torch.tensor(limit).numpy()})
        torch.testing.assert_close(torch.from_numpy(found), leaves_early(x, limit))


def deep(x, limit):
    if x.sum() > 0:
        x = x * 2
        if x.sum() > limit:
            x = x - 1
            if x.max() > limit:
                if x.min() > limit:
                    if x[0] > limit:
                        x = x * 7
                    else:
                        x = x - 7
                elif x[1] > limit:
                    if x[2] > limit:
                        x = x * 3
                    else:
                        x = x * 5
        else:
            x = x + 1
    return x


def deep_with_sizes(x, limit):
    if x.sum() > 0:
        x = x * 2
        if x.sum() > limit:
            if x.max() > limit:
                x = torch.cat([x, x])
                if x.min() > limit:
                    x = x[1:]
                else:
                    x = x * 5
            x = x - 1
    return x


@pytest.mark.parametrize(("function", "lengths"), [pytest.param(deep, {3}, marks=pytest.mark.slow), (deep_with_sizes, {3, 5, 6})])
def test_nested_branches_are_tried_once_and_agree_with_eager(function, lengths, tmp_path, monkeypatch):
    ran = []
    plain = Interpreter.run_block
    monkeypatch.setattr(Interpreter, "run_block", lambda self, block, inputs: ran.append(block) or plain(self, block, inputs))
    specification = [dy2st.InputSpec([3], "float32"), dy2st.InputSpec([], "float32")]
    dy2st.export(function, tmp_path / "model.onnx", input_spec=specification, verify=False)
    assert len(ran) < 70  # each of them once while those around it are tried out, and not twice as often at each level
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    rows = [[-1.0, 0, 0], [1.0, 0, 0], [4.0, 0, 0], [4.0, 4, 4], [4.0, 1, 4], [4.0, 4, 1], [9.0, 9, 9], [5.0, 9, 4], [9.0, 2, 9]]
    found_lengths = set()
    for x in map(torch.tensor, rows):
        for limit in (-9.0, 1.0, 4.0, 6.9):
            (found,) = session.run(None, {"x": x.numpy(), "limit": torch.tensor(limit).numpy()})
            torch.testing.assert_close(torch.from_numpy(found), function(x, limit))
            found_lengths.add(len(found))
    assert found_lengths == lengths


def test_results_are_named_by_their_keys_and_positions(tmp_path):
    function, specification = made("keywords")
    dy2st.export(function, tmp_path / "model.onnx", input_spec=specification, verify=False)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    assert [slot.name for slot in session.get_inputs()] == ["x", "scale", "bias"]
    assert [slot.name for slot in session.get_outputs()] == ["y", "inner_0", "inner_1_0"]
    x, bias = torch.ones(2), torch.tensor([2.0, 3.0])
    (found,) = session.run(["inner_1_0"], {"x": x.numpy(), "scale": torch.tensor(1.0).numpy(), "bias": bias.numpy()})
    assert found.tolist() == [2, 3]


def test_a_program_with_state_is_refused_as_an_onnx_model(tmp_path):
    layer, specification = made("Counter")
    with pytest.raises(ExportError, match=r"changes self.h, self.steps, count, and an ONNX model keeps nothing"):
        dy2st.export(layer, tmp_path / "model.onnx", input_spec=specification)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        if x.sum() > 0:
            self.count += 1
        return x + self.count


def test_a_buffer_that_changes_is_refused(tmp_path):
    with pytest.raises(ExportError, match=r"changes count, and an ONNX model keeps nothing"):
        dy2st.export(Counting().eval(), tmp_path / "model.onnx", input_spec=[spec(2)])
    assert os.listdir(tmp_path) == []


def random_in_branch(x):
    if x.sum() > 0:
        return x + torch.randn_like(x)
    return x


def test_random_numbers_are_refused(tmp_path):
    with pytest.raises(ExportError, match=r"test_onnx.py:\d+: aten.randn_like.default makes random numbers"):
        dy2st.export(random_in_branch, tmp_path / "model.onnx", input_spec=[spec(2)])


def untranslated(x):
    if x.sum() > 0:
        return torch.special.bessel_j1(x)
    return x


def test_an_operator_without_translation_is_named_with_its_line(tmp_path):
    with pytest.raises(ExportError, match=r"test_onnx.py:\d+: \w+.bessel_j1.default has no translation to ONNX"):
        dy2st.export(untranslated, tmp_path / "model.onnx", input_spec=[spec(2)])
    assert os.listdir(tmp_path) == []


def test_weights_beyond_one_file_have_their_own(tmp_path, monkeypatch):
    from dy2st.exporting import onnx_models

    monkeypatch.setattr(onnx_models, "_LARGEST", 0)
    layer = torch.nn.Linear(64, 64)
    for _ in range(2):
        dy2st.export(layer, tmp_path / "model.onnx", input_spec=[spec(64)])
        assert sorted(os.listdir(tmp_path)) == ["model.onnx", "model.onnx.data"]
    os.mkfifo(tmp_path / "pipe.onnx")
    for target in ("pipe.onnx", "missing/model.onnx"):
        with pytest.raises(ExportError, match="cannot write"):
            dy2st.export(layer, tmp_path / target, input_spec=[spec(64)])


def test_missing_packages_are_named(tmp_path, monkeypatch):
    from dy2st.exporting import onnx_models

    monkeypatch.setattr(onnx_models, "NEEDED", ("onnx", "no_such_package"))
    layer, specification = made("two_ways")
    with pytest.raises(ExportError, match=r"needs no_such_package: pip install 'dy2st\[onnx\]'"):
        dy2st.export(layer, tmp_path / "model.onnx", input_spec=specification)
