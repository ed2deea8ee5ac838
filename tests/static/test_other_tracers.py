"""Static functions inside what other tracers of torch look at."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dy2st import TracingError, enable_to_static, load, save, to_static


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, trips: int = 2) -> torch.Tensor:
        for _ in range(trips):
            x = self.linear(x)
            if x.abs().max() > 2:
                x = x / 2
        while x.norm() > 1:
            x = x * 0.5
        return x


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(torch.sin(x)) + torch.cos(x)


def made(is_captured: bool) -> Outer:
    inner = to_static(Inner())
    for _ in range(3 if is_captured else 0):
        inner(torch.ones(3, 4))
    return Outer(inner)


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Any:
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("is_captured", [False, True])
def test_compile_leaves_a_static_function_to_itself(is_captured: bool) -> None:
    model, eager = made(is_captured), Outer(Inner())
    compiled = torch.compile(model, backend="eager")
    for scale in (0.01, 1.0, 100.0):
        x = torch.full((3, 4), scale)
        results = []
        for module in (compiled, eager):
            module.zero_grad()
            y = module(x)
            y.sum().backward()
            results.append((y.detach(), eager.inner.linear.weight.grad if module is eager else model.inner.linear.weight.grad))
        assert all(torch.equal(a, b) for a, b in zip(*results))
    assert len(model.inner.forward.program_cache) == 1


def test_compiled_static_function_itself() -> None:
    static = to_static(lambda x: x * 2 if x.sum() > 0 else -x)
    compiled = torch.compile(static, backend="eager")
    assert [compiled(torch.tensor([v])).item() for v in (3.0, -3.0)] == [6.0, 3.0]


def test_full_graph_compile_says_why() -> None:
    with pytest.raises(Exception, match="is a program already"):
        torch.compile(made(False), backend="eager", fullgraph=True)(torch.ones(3, 4))


@pytest.mark.parametrize("is_captured", [False, True])
def test_jit_trace_is_refused(is_captured: bool) -> None:
    model, x = made(is_captured), torch.ones(3, 4)
    with pytest.raises(TracingError, match=r"torch.jit.trace would keep one path through Inner.forward"):
        torch.jit.trace(model, (x,), check_trace=False)
    assert torch.equal(model(x), Outer(Inner())(x))
    enable_to_static(False)
    try:
        traced = torch.jit.trace(model, (x,), check_trace=False)
    finally:
        enable_to_static(True)
    assert torch.equal(traced(x), model(x))


def test_export_says_what_to_use() -> None:
    with pytest.raises(Exception) as caught:
        torch.export.export(made(True), (torch.ones(3, 4),))
    assert any("dy2st.export(model, 'model.pt2')" in text for text in caught.value.__notes__)


def test_a_loaded_model_is_compiled_around(tmp_path: Path) -> None:
    save(Inner(), tmp_path / "model.dy2st", input_spec=[torch.ones(3, 4)])
    model, eager = Outer(load(tmp_path / "model.dy2st")), Outer(Inner())
    compiled = torch.compile(model, backend="eager")
    for scale in (0.01, 1.0, 100.0):
        x = torch.full((3, 4), scale)
        assert torch.equal(compiled(x), eager(x))
    with pytest.raises(TracingError, match="one path through forward"):
        torch.jit.trace(model, (x,), check_trace=False)
    with pytest.raises(Exception) as caught:
        torch.export.export(model, (x,))
    assert any("dy2st.export(model, 'model.pt2')" in text for text in caught.value.__notes__)


def test_signature_is_that_of_the_bound_method() -> None:
    assert inspect.signature(to_static(Inner()).forward) == inspect.signature(Inner().forward)
    assert list(inspect.signature(to_static(lambda a, b=1: a)).parameters) == ["a", "b"]
