"""Programs as AOTInductor packages; compiling one takes ten seconds or more."""

import shutil

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import dy2st
from dy2st import ExportError
from dy2st.exporting import aoti
from tests.lowering.programs import FUNCTIONS, made
from tests.lowering.test_export_examples import model

compiled = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "Counter"])
def test_every_program_exports_as_a_verified_package(name, tmp_path):
    layer, specification = made(name)
    report = dy2st.export(layer, tmp_path / "model.pt2", "aoti", input_spec=specification)
    assert report.format == "aoti"
    assert report.verified >= 4
    assert report.largest_difference < 1e-5
    assert torch._inductor.aoti_load_package(str(tmp_path / "model.pt2")) is not None


@compiled
@pytest.mark.slow
def test_the_package_of_greedy_decode_gives_equal_results(tmp_path):
    """Attention over a cache whose size is known only when it runs."""
    layer, specification, inputs = model("greedy_decode")
    report = dy2st.export(layer, tmp_path / "model.pt2", "aoti", input_spec=specification, inputs=inputs)
    assert report.verified >= 4 and report.largest_difference == 0


def test_products_of_any_size():
    a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    traced = make_fx(lambda a, b: torch.bmm(a, b) * 2, tracing_mode="symbolic")(a, b)
    plain = make_fx(lambda a, b: torch.bmm(a, b) * 2, tracing_mode="fake")(a, b)
    seen = []
    with torch._inductor.config.patch(post_grad_custom_pre_pass=seen.append), aoti.products_of_any_size():
        change = torch._inductor.config.post_grad_custom_pre_pass
        for graph in (traced.graph, plain.graph):
            change(graph)
    assert seen == [traced.graph, plain.graph]
    assert [str(node.target) for node in plain.graph.nodes][2:-1] == ["aten.bmm.default", "aten.mul.Tensor"]
    traced.recompile()
    assert "baddbmm" in traced.code and "bmm.default" not in traced.code.replace("baddbmm.default", "")
    assert torch.equal(traced(a, b), torch.bmm(a, b) * 2)


def test_a_program_with_state_is_refused_as_a_package(tmp_path):
    layer, specification = made("Counter")
    with pytest.raises(ExportError, match=r"an AOTInductor package keeps nothing|no C\+\+ compiler"):
        dy2st.export(layer, tmp_path / "model.pt2", "aoti", input_spec=specification)


def test_a_missing_compiler_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    layer, specification = made("two_ways")
    with pytest.raises(ExportError, match=r"there is no C\+\+ compiler"):
        dy2st.export(layer, tmp_path / "model.pt2", "aoti", input_spec=specification)
