"""Programs as ``.pt2`` files: verified when they are written, and compared here once more with inputs of their own."""

import math
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import dy2st
from dy2st import ExportError, InputSpec
from dy2st.exporting.comparison import tensors_of
from tests.lowering.programs import FUNCTIONS, grows_sometimes, made, spec


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_program_exports_and_equals_eager(name, tmp_path):
    layer, specification = made(name)
    report = dy2st.export(layer, tmp_path / "model.pt2", input_spec=specification)
    assert report.format == "pt2"
    assert report.verified >= 4
    assert report.compared_with == "eager"
    assert report.largest_difference == 0
    assert report.size == os.path.getsize(tmp_path / "model.pt2")
    assert os.listdir(tmp_path) == ["model.pt2"]
    assert str(report).count("\n") == 1 + len(report.coverage) + len(report.notes)


def reload(path):
    return torch.export.load(path).module()


def test_other_tools_read_the_file(tmp_path):
    layer, specification = made("branch_in_loop")
    dy2st.export(layer, tmp_path / "model.pt2", input_spec=specification)
    exported = torch.export.load(tmp_path / "model.pt2")
    targets = {node.target for part in exported.graph_module.modules() for node in part.graph.nodes}
    assert {torch.ops.higher_order.while_loop, torch.ops.higher_order.cond} <= targets
    x = torch.tensor([5.0, -7.0, 1.0])
    y, steps = exported.run_decompositions().module()(x)
    expected, count = layer(x)
    assert torch.equal(y, expected)
    assert steps.item() == count


def test_a_dynamic_size_is_dynamic(tmp_path):
    layer, specification = made("grows_in_a_list")
    dy2st.export(layer, tmp_path / "model.pt2", input_spec=specification)
    model = reload(tmp_path / "model.pt2")
    for length in (1, 2, 30):
        x = torch.randn(length, 3)
        for mine, theirs in zip(model(x), layer(x), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_state_goes_on_from_call_to_call(tmp_path):
    layer, specification = made("Counter")
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    dy2st.export(layer, tmp_path / "model.pt2", input_spec=specification)
    assert layer.steps == 0
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    model = reload(tmp_path / "model.pt2")
    assert set(before) <= set(model.state_dict())
    with torch.no_grad():
        for sign in (1, -1, 1, 1):
            x = torch.full((2,), float(sign))
            y, steps = model(x)
            expected, count = layer(x)
            torch.testing.assert_close(y, expected)
            assert steps.item() == count


def test_a_module_keeps_its_mode(tmp_path):
    layer, specification = made("Normalized")
    layer.train()
    layer.drop.eval()
    dy2st.export(layer, tmp_path / "model.pt2", input_spec=specification)
    assert layer.training
    assert layer.norm.training
    assert not layer.drop.training


def test_an_archive_and_a_loaded_model(tmp_path):
    layer, specification = made("Normalized")
    dy2st.save(layer, tmp_path / "model.dy2st", specification)
    report = dy2st.export(tmp_path / "model.dy2st", tmp_path / "model.pt2")
    assert report.compared_with == "program"
    assert report.verified
    dy2st.export(dy2st.load(tmp_path / "model.dy2st").eval(), tmp_path / "again.pt2")
    x = torch.randn(3, 1, 4, 4)
    assert torch.equal(reload(tmp_path / "model.pt2")(x), reload(tmp_path / "again.pt2")(x))


class Speaker(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x

    def generate(self, x, start):
        out = torch.stack([x[start], x[start]])
        for i in range(3):
            out = torch.cat([out, out[-1][None] + 1])
            if out.sum() > 40:
                break
        return out


def test_a_method_of_an_archive_with_its_example(tmp_path):
    methods = {"forward": [spec(3)], "generate": [spec(3), spec(dtype="int64")]}
    example = ([torch.ones(3), torch.tensor(2)], {})
    dy2st.save(Speaker().eval(), tmp_path / "model.dy2st", methods=methods, example_inputs={"generate": example[0]})
    dy2st.export(tmp_path / "model.dy2st", tmp_path / "forward.pt2")
    report = dy2st.export(tmp_path / "model.dy2st", tmp_path / "generate.pt2", method="generate")
    assert report.verified
    out = reload(tmp_path / "generate.pt2")(torch.ones(3), torch.tensor(1))
    assert torch.equal(out, Speaker().generate(torch.ones(3), torch.tensor(1)))
    with pytest.raises(dy2st.SignatureError, match="no method 'speak' to export; choose one of forward, generate"):
        dy2st.export(tmp_path / "model.dy2st", tmp_path / "speak.pt2", method="speak")
    dy2st.export(Speaker().eval().generate, tmp_path / "again.pt2", input_spec=methods["generate"], inputs=[tuple(example[0])])


def test_several_threads_export_at_the_same_time(tmp_path):
    layer, specification = made("returns_its_input")
    with ThreadPoolExecutor(3) as pool:
        made_by = [pool.submit(dy2st.export, layer, tmp_path / f"{i}.pt2", input_spec=specification) for i in range(3)]
    assert all(future.result().verified for future in made_by)


def test_exceptions_become_assertions_that_name_their_line(tmp_path):
    layer, specification = made("guarded")
    dy2st.export(layer, tmp_path / "model.pt2", input_spec=specification)
    model = reload(tmp_path / "model.pt2")
    assert torch.equal(model(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match=r"programs.py:\d+: ValueError: not a number"):
        model(torch.tensor([1.0, float("nan")]))
    with pytest.raises(RuntimeError, match=r"programs.py:\d+: AssertionError: too large"):
        model(torch.tensor([1e7]))


def divides(x, n):
    k = int(n)
    if x.sum() > 0:
        return x * (1 / k), math.sqrt(k)
    return x, 0.0


def test_what_python_raises_for_numbers(tmp_path):
    dy2st.export(divides, tmp_path / "model.pt2", input_spec=[spec(2), spec(dtype="int64")])
    model = reload(tmp_path / "model.pt2")
    assert model(-torch.ones(2), torch.tensor(0))[1].item() == 0
    with pytest.raises(RuntimeError, match=r"test_pt2.py:\d+: ZeroDivisionError"):
        model(torch.ones(2), torch.tensor(0))
    with pytest.raises(RuntimeError, match=r"test_pt2.py:\d+: ValueError: math domain error"):
        model(torch.ones(2), torch.tensor(-3))


def test_arguments_have_their_names(tmp_path):
    function, specification = made("keyword_only")
    x, y = torch.ones(4), torch.zeros(4)
    calls = [{"y": y, "x": x}, (x, y, 2), (x, y)]
    report = dy2st.export(function, tmp_path / "model.pt2", input_spec=specification, inputs=calls)
    assert report.verified == 3
    exported = torch.export.load(tmp_path / "model.pt2")
    assert exported.graph_signature.user_inputs == ("x", "y")
    assert torch.equal(exported.module()(x, y), function(x, y))
    with pytest.raises(ExportError, match="fails with inputs given"):
        dy2st.export(function, tmp_path / "model.pt2", input_spec=specification, inputs=[(x, y, 3)])


def test_inputs_that_are_given(tmp_path):
    layer, specification = made("two_ways")
    report = dy2st.export(layer, tmp_path / "model.pt2", input_spec=specification, inputs=[(torch.ones(3, 2),), torch.ones(1, 2)])
    assert report.verified == 2
    assert report.coverage[0].endswith("true only")
    with pytest.raises(ExportError, match="fails with inputs given"):
        dy2st.export(layer, tmp_path / "other.pt2", input_spec=specification, inputs=[(torch.ones(3),)])


def test_an_export_without_verification_says_so(tmp_path):
    layer, specification = made("two_ways")
    report = dy2st.export(layer, tmp_path / "model.pt2", input_spec=specification, verify=False)
    assert report.verified == 0
    assert "not verified" in str(report)


def test_a_bound_for_growth(tmp_path):
    specification = [spec(None, 2)]
    with pytest.raises(ExportError, match=r"programs.py:\d+: .*max_growth="):
        dy2st.export(grows_sometimes, tmp_path / "model.pt2", input_spec=specification)
    report = dy2st.export(grows_sometimes, tmp_path / "model.pt2", input_spec=specification, max_growth=20)
    assert any("20 entries" in note for note in report.notes)
    model = reload(tmp_path / "model.pt2")
    x = torch.ones(20, 2)
    for mine, theirs in zip(model(x), grows_sometimes(x), strict=True):
        torch.testing.assert_close(mine, theirs)
    with pytest.raises(Exception):  # noqa: B017  # louder than a wrong result; which one is torch's choice
        model(torch.ones(40, 2))


# -- refused -----------------------------------------------------------------------------------------------------------------


def refused(function, specification, tmp_path, text, **options):
    target = tmp_path / "model.pt2"
    target.write_bytes(b"what was there before")
    with pytest.raises(ExportError, match=text):
        dy2st.export(function, target, input_spec=specification, **options)
    assert target.read_bytes() == b"what was there before"
    assert os.listdir(tmp_path) == ["model.pt2"]


def test_results_of_different_kinds(tmp_path):
    def sometimes_none(x):
        return x if x.sum() > 0 else None

    refused(sometimes_none, [spec(2)], tmp_path, "of one kind for some inputs")


def test_a_view_that_a_branch_writes_under(tmp_path):
    def writes_under_a_view(x):
        y = x * 1
        first = y[0]
        if x.sum() > 0:
            y += 1
            return first * 2
        return first

    refused(writes_under_a_view, [spec(3)], tmp_path, "changes a tensor in place and uses a view")


def test_a_name_for_one_of_two_tensors(tmp_path):
    def writes_one_of_two(x, y):
        a, b = x * 1, y * 1
        if x.sum() > 0:
            c = a
        else:
            c = b
        c += 1
        return a, b

    refused(writes_one_of_two, [spec(3), spec(3)], tmp_path, "may be one of several")


def casts(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        if x.sum() > 0:
            x = x @ x
    return x


def differentiates(x):
    g = torch.func.grad(lambda v: (v * v).sum())(x)
    return g if g.sum() > 0 else -g


def several_lengths(x):
    outs = [x]
    if x.sum() > 0:
        outs.append(x)
    return outs


@pytest.mark.parametrize(
    ("function", "specification", "text"),
    [
        (casts, spec(2, 2), r"test_pt2.py:\d+: torch.autocast inside"),
        (differentiates, spec(2), r"test_pt2.py:\d+: torch.func.grad cannot be exported"),
        (several_lengths, spec(2), r"a list whose length is known only when it runs"),
    ],
)
def test_what_no_format_holds(function, specification, text, tmp_path):
    refused(function, [specification], tmp_path, text)


def squares(x):
    y = torch.vmap(lambda row: row.sum() * row)(x)
    return y if y.sum() > 0 else y - x


def grows_in_both_loops(x):
    outs = []
    for i in range(x.shape[0]):
        s, j = x[i], 0
        while s.sum() < 3 and j < 4:
            s = s + 1
            j += 1
            outs.append(s)
    return torch.stack(outs) if len(outs) > 0 else x


def changes_its_argument(x):
    if x.sum() > 0:
        x += 1
    return x * 2


def prints(x):
    if x.sum() > 0:
        print("positive")
    return x * 2


@pytest.mark.parametrize(
    ("function", "shape", "notes"),
    [(squares, (3, 2), 0), (grows_in_both_loops, (None, 2), 0), (changes_its_argument, (3,), 0), (prints, (2,), 1)],
)
def test_exports_make_no_difference_and_note_what_is_left_out(function, shape, notes, tmp_path):
    report = dy2st.export(function, tmp_path / "model.pt2", input_spec=[spec(*shape)])
    assert report.largest_difference == 0
    assert len(report.notes) == notes


def test_an_unknown_format_is_refused(tmp_path):
    layer, specification = made("two_ways")
    with pytest.raises(dy2st.SignatureError, match="not known from its name"):
        dy2st.export(layer, tmp_path / "model.bin", input_spec=specification)
    with pytest.raises(dy2st.SignatureError, match="no format"):
        dy2st.export(layer, tmp_path / "model.bin", "tflite", input_spec=specification)


def test_inputs_cannot_be_made_up(tmp_path):
    def picky(x):
        assert x[0] == 12345
        return x

    refused(picky, [spec(2)], tmp_path, "pass inputs=")


def test_a_loop_without_end_does_not_hang(tmp_path):
    def endless(x):
        while x.sum() > 0:
            x = x * 1
        return x

    report = dy2st.export(endless, tmp_path / "model.pt2", input_spec=[spec(2)])
    assert report.verified
    assert report.coverage[0].endswith("loop: 0 iterations")


def test_a_wrong_result_is_seen(tmp_path, monkeypatch):
    from dy2st.exporting import targets

    read = targets.read_pt2

    def slightly_wrong(path):
        run = read(path)
        return targets.Runner(lambda args, kwargs: [value + 0.5 for value in run.call(args, kwargs)], run.state)

    monkeypatch.setattr(targets, "read_pt2", slightly_wrong)
    refused(lambda x: x * 2, [spec(2)], tmp_path, "result 0 differs by 0.5")


@pytest.mark.parametrize("name", ["count", "h"])
def test_wrong_state_is_seen(name, tmp_path, monkeypatch):
    from dy2st.exporting import targets

    read = targets.read_pt2

    def slightly_wrong(path):
        run = read(path)
        kept = {"count": "count", "h": next(key for key, value in run.state().items() if "state" in key and value.dim())}
        wrong = kept[name]
        return targets.Runner(run.call, lambda: {**run.state(), wrong: run.state()[wrong] + 1})

    monkeypatch.setattr(targets, "read_pt2", slightly_wrong)
    layer, specification = made("Counter")
    refused(layer, specification, tmp_path, f"{name} after the call differs by 1")


def test_a_static_method_in_training(tmp_path):
    class Steps(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = torch.nn.Dropout(0.5)
            self.register_buffer("count", torch.zeros(()))

        @dy2st.to_static
        def step(self, x):
            self.count += 1
            return self.drop(x) if x.sum() > self.count else x * 2

    layer = Steps().train()
    report = dy2st.export(layer.step, tmp_path / "model.pt2", input_spec=[spec(3)])
    assert report.compared_with == "eager"
    assert layer.count == 0 and layer.training and layer.drop.training


def test_comparison_keeps_order_and_kinds():
    found = tensors_of({"a": [torch.ones(2), 3], "b": (True, None, "text", 2.5)})
    assert [tensor.dtype for tensor in found] == [torch.float32, torch.int64, torch.bool, torch.float64]
    assert InputSpec([2]) is not None
