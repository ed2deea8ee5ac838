"""Lists of any length in ONNX models: sequences, where there is no bound that a buffer could have."""

import pytest
import torch

import dy2st
from dy2st import ExportError
from tests.lowering.programs import spec

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def without_a_bound(x):
    outs = []
    while x.abs().max() > 0.1:
        x = x * 0.5
        outs.append(x)
    return torch.stack(outs) if len(outs) > 0 else x[None], x


def returned(x):
    outs = [x]
    while x.abs().max() > 0.1:
        x = x * 0.5
        outs.append(x)
    return outs, len(outs)


def of_several_sizes(x):
    parts = []
    for i in range(x.shape[0]):
        if x[i] > 0:
            parts.append(x[: i + 1])
    return torch.cat(parts) if len(parts) > 0 else x


def of_numbers(x):
    seen = []
    n = 0
    while x.sum() > n and n < 20:
        n += 3
        if n % 2 == 0:
            seen.append(n)
    total = 0
    for s in seen:
        total = total + s
    return total, len(seen)


def a_stack(x):
    stack = [x]
    i = 0
    while len(stack) > 0 and i < 10:
        v = stack.pop()
        if v.sum() > 1:
            stack.append(v * 0.5)
            stack.append(v * 0.25)
            stack[0] = stack[0] + 0.01
            stack.insert(1, v * 0.1)
        x = x + v
        i += 1
    return x, len(stack)


def joined(x):
    outs = []
    for i in range(3):
        if x[i].sum() > 0:
            outs.append(x[i][None])
    more = [x[:2]] + outs
    more.extend([x[1:], x])
    first = [x]
    first.extend(outs)
    return torch.cat(more, 0), len(first), first[-1]


LISTS = {
    "without_a_bound": (without_a_bound, [spec(3)]),
    "returned": (returned, [spec(None)]),
    "of_several_sizes": (of_several_sizes, [spec(None)]),
    "of_numbers": (of_numbers, [spec(2)]),
    "a_stack": (a_stack, [spec(2)]),
    "joined": (joined, [spec(3, 2)]),
}


SOME = ("of_several_sizes", "a_stack", "joined")
"""Those that run by default."""


@pytest.mark.parametrize("name", [name if name in SOME else pytest.param(name, marks=pytest.mark.slow) for name in LISTS])
def test_every_program_with_lists_exports_and_is_verified(name, tmp_path):
    function, specification = LISTS[name]
    report = dy2st.export(function, tmp_path / "model.onnx", input_spec=specification)
    assert report.verified >= 4 and report.largest_difference < 1e-5
    assert sum(len(site.partition(": ")[2].split(", ")) > 1 or "both" in site for site in report.coverage) >= 1


def test_a_list_is_a_result(tmp_path):
    dy2st.export(returned, tmp_path / "model.onnx", input_spec=[spec(None)], opset=18)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    assert session.get_outputs()[0].type == "seq(tensor(float))"
    for x in (torch.tensor([1.0, -2.0]), torch.zeros(3)):
        found, count = session.run(None, {"x": x.numpy()})
        expected, length = returned(x)
        assert len(found) == length == count.item()
        for mine, theirs in zip(found, expected, strict=True):
            assert torch.equal(torch.from_numpy(mine), theirs)


def of_two_dtypes(x):
    outs = []
    while x.sum() > 0:
        x = x - 1
        outs.append(x if x[0] > 0 else x * 2)
        outs.append(x.long())
    return len(outs)


def test_what_no_list_holds(tmp_path):
    with pytest.raises(ExportError, match=r"test_onnx_lists.py:\d+: .*different kinds"):
        dy2st.export(of_two_dtypes, tmp_path / "model.onnx", input_spec=[spec(2)])
    with pytest.raises(ExportError, match=r"test_onnx_lists.py:\d+: .*max_growth="):
        dy2st.export(without_a_bound, tmp_path / "model.pt2", input_spec=[spec(3)])
    with pytest.raises(ExportError, match="whose sizes may differ"):
        dy2st.export(of_several_sizes, tmp_path / "model.pt2", input_spec=[spec(None)])
