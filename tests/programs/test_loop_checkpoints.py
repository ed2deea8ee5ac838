"""Loops that keep snapshots: values, gradients and random numbers are those of the loop as a whole, bit for bit."""

from __future__ import annotations

import copy
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dy2st
import dy2st_runtime
from dy2st_runtime.executors import native, python
from dy2st_runtime.executors.loops import Loop
from dy2st_runtime.executors.native import build


def tensors(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    torch.manual_seed(3)
    return [(torch.randn(shape) * 0.6).requires_grad_() for shape in shapes]


def gradients(function: Callable[..., Any], inputs: list[torch.Tensor], *args: Any) -> list[Any]:
    """Return results, gradients, and the state of random numbers."""
    torch.manual_seed(7)
    result = function(*inputs, *args)
    parts = [part for part in (result if isinstance(result, tuple) else (result,)) if isinstance(part, torch.Tensor)]
    total = sum(part.sin().sum() for part in parts if part.requires_grad)
    collected = torch.autograd.grad(total, inputs, allow_unused=True) if isinstance(total, torch.Tensor) else [None]
    flags = [part.requires_grad for part in parts]
    return [*parts, *collected, torch.get_rng_state(), *map(torch.tensor, flags)]


def same(function: Callable[..., Any], inputs: list[torch.Tensor], *args: Any, snapshots: tuple[int, ...] = (1, 3, 10)) -> None:
    """Compare with eager; the loop keeps snapshots."""
    expected = gradients(function, inputs, *args)
    for number in snapshots:
        static = dy2st.to_static(function, loop_checkpoints=number)
        for one, other in zip(gradients(static, inputs, *args), expected, strict=True):
            assert (one is None) == (other is None)
            assert one is None or torch.equal(one, other)
        assert "= loop with" in str(static.program(*inputs, *args))


def cell(x, w, b, count):
    step = 0
    while step < count:
        x = torch.tanh(x @ w + b) * 0.9 + x * 0.1 - (w * b).sum(0)
        step = step + 1
    return x, step


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40, 333])
def test_tensors_from_outside_that_are_used_often(count):
    same(cell, tensors((4, 8), (8, 8), (8,)), torch.tensor(count))


def test_what_is_carried_and_read_too():
    def run(x, w, count):
        y, before = x, x
        for _ in range(count):
            y, before = torch.tanh(y * w + before * x) + x, y
        return y, before

    same(run, tensors((5,), (5,)), torch.tensor(57))


def test_views_and_tensors_that_are_one():
    def run(x, w, count):
        first, whole, other = x[0], x, x
        for _ in range(count):
            whole = torch.sin(whole * w) + first + other
            first, other = whole[1], whole
        return whole, first

    same(run, tensors((3, 4), (4,)), torch.tensor(25))


def test_what_has_no_gradient():
    def run(x, w, count):
        time, seen, state = torch.zeros(()), torch.zeros(3), torch.zeros(3)
        counted = torch.zeros(3, dtype=torch.int64)
        for step in range(count):
            time = time + 0.1
            seen = seen.maximum(state.detach())
            with torch.no_grad():
                counted = counted + (state > 0)
            state = torch.tanh(state + w * x * time) * (step + 1) / (step + 2)
        return state, time, seen, counted

    same(run, tensors((3,), (3,)), torch.tensor(30))


def test_only_a_later_iteration_has_a_gradient():
    def run(w, limit):
        x = torch.zeros(3)
        y = torch.zeros(3)
        while x.sum() < limit:
            y = x * 2
            x = x + w.exp()
        return x, y

    same(run, tensors((3,)), torch.tensor(50.0))


def test_branches_loops_and_exits_inside():
    def run(x, w, count):
        for step in range(count):
            if x.sum() > 0:
                x = x - w.sigmoid()
            else:
                x = x + w * 0.3
            inner = 0
            while x.abs().max() > 1 and inner < 3:
                x = x * w.tanh()
                inner += 1
            if step > 20 and x.sum() > 0.5:
                break
        return x

    same(run, tensors((3,), (3,)), torch.tensor(40))


def test_random_numbers():
    def run(x, w, count):
        for _ in range(count):
            x = torch.dropout(torch.tanh(x * w), 0.3, True) + torch.randn(4) * 0.1 + torch.rand_like(x) * w
        return x, torch.rand(2)

    same(run, tensors((4,), (4,)), torch.tensor(100))


def test_autocast_inside():
    def run(x, w, count):
        for _ in range(count):
            with torch.autocast("cpu", torch.bfloat16):
                y = x @ w
            x = torch.tanh(y.float() + x)
        return x

    same(run, tensors((4, 4), (4, 4)), torch.tensor(12))


def keeps_everything(run, inputs):
    """Check that a loop which cannot be done again has eager's gradients, and no snapshots."""
    static = dy2st.to_static(run, loop_checkpoints=2)
    for one, other in zip(gradients(static, inputs, torch.tensor(9)), gradients(run, inputs, torch.tensor(9)), strict=True):
        assert torch.equal(one, other)
    assert "= loop with" not in str(static.program(*inputs, torch.tensor(9)))


def test_autocast_around_keeps_everything():
    """It casts a weight once for all iterations, which sums the gradients in its dtype."""

    def run(x, w, count):
        with torch.autocast("cpu", torch.bfloat16):
            for _ in range(count):
                x = torch.tanh(x @ w)
        return x

    keeps_everything(run, tensors((4, 4), (4, 4)))


def test_tensors_that_are_used_before_and_after():
    def run(x, w, count):
        y = torch.sin(x * w) * x
        for _ in range(count):
            y = torch.tanh(y * w + x) * w
        for _ in range(count):
            y = torch.sin(y * w - x * w) + x
        if y.sum() > -1000:
            y = y * w + x * w
        return (y * w).exp() + x

    inputs = tensors((5,), (5,))
    same(run, inputs, torch.tensor(33))
    static = dy2st.to_static(lambda x, w, count: (run(x, w, count), w), loop_checkpoints=3)
    assert static(*inputs, torch.tensor(3))[1] is inputs[1]


def test_modules_and_other_loops():
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.cell, self.norm = nn.GRUCell(3, 3), nn.LayerNorm(3)

        def forward(self, x, count):
            h = torch.zeros_like(x)
            for _ in range(count):
                h = self.norm(self.cell(x, h))
            while h.norm() > 1:
                h = h * 0.9
            return h

    eager = Model()
    static = dy2st.to_static(copy.deepcopy(eager), loop_checkpoints=4)
    (x,) = tensors((2, 3))
    both = []
    for model in (eager, static):
        model(x, torch.tensor(31)).sin().sum().backward()
        both.append([parameter.grad for parameter in model.parameters()])
    assert all(map(torch.equal, *both))


def test_the_context_manager():
    def run(x, w, count):
        with dy2st.checkpointed(3):
            for _ in range(count):
                x = torch.tanh(x * w)
        for _ in range(count):
            x = torch.sin(x * w)
        return x

    inputs = tensors((3,), (3,))
    static = dy2st.to_static(run)
    for one, other in zip(gradients(static, inputs, torch.tensor(20)), gradients(run, inputs, torch.tensor(20)), strict=True):
        assert torch.equal(one, other)
    text = str(static.program(*inputs, torch.tensor(20)))
    assert text.count("= loop with") == 1 == text.count("= while ")
    with dy2st.checkpointed(3):
        assert "= loop with" not in str(dy2st.to_static(lambda x, n: cell(x, x, x, n)).program(torch.ones(2, 2), torch.tensor(3)))


@pytest.mark.parametrize("make_runner", [python.runner, native.runner])
def test_it_keeps_no_more_than_asked_for(make_runner, monkeypatch):
    inputs = tensors((4, 8), (8, 8), (8,))
    program = dy2st.to_static(cell, loop_checkpoints=10).program(*inputs, torch.tensor(3))
    node = next(node for node in program.nodes() if "snapshots" in node.kwargs)
    loop = Loop(node.args[1], make_runner)
    longest = []
    run = Loop.run
    monkeypatch.setattr(Loop, "run", lambda self, most, *rest: (longest.append(most), run(self, most, *rest))[1])
    x, w, b = inputs
    values = {"x": x, "n": 0, "step": 0}
    kept: list[torch.Tensor] = []
    names = [inner.name for inner in node.args[1].inputs]
    given = [values.get(name, {"w": w, "b": b}.get(name, torch.tensor(1000))) for name in names]
    count = len(node.args[2])
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        result = next(
            value for value in loop(given[:count], given[count:], True, 10) if isinstance(value, torch.Tensor) and value.dim()
        )
    assert len(kept) <= 10 + 4
    longest.clear()
    result.sum().backward()
    assert 0 < max(longest) <= 2 * 64
    assert sum(longest) < 3 * 1000


def test_gradients_of_gradients_are_refused():
    inputs = tensors((2, 2), (2, 2), (2,))
    static = dy2st.to_static(cell, loop_checkpoints=3)
    result, _ = static(*inputs, torch.tensor(9))
    with pytest.raises(RuntimeError, match="gradients of a loop with snapshots cannot be differentiated"):
        torch.autograd.grad(result.sum(), inputs, create_graph=True)


def test_twice_with_retain_graph_and_never_without():
    inputs = tensors((2, 2), (2, 2), (2,))
    result, _ = dy2st.to_static(cell, loop_checkpoints=3)(*inputs, torch.tensor(9))
    first = torch.autograd.grad(result.sum(), inputs, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(result.sum(), inputs)))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(result.sum(), inputs)


def test_a_weight_that_is_changed_before_the_backward_pass():
    x, w, b = tensors((2, 2), (2, 2), (2,))
    result, _ = dy2st.to_static(cell, loop_checkpoints=3)(x, w, b, torch.tensor(9))
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


TOTAL = torch.zeros(())


def _prints(x, w):
    print("step")
    return x * w


def _in_place(x, w):
    TOTAL.add_(x.detach().sum())
    return x * w


@pytest.mark.parametrize(("step", "reason"), [(_prints, "prints"), (_in_place, "changes a tensor in place")])
def test_what_cannot_be_done_twice(step, reason):
    def run(x, w, count):
        x = x * 1
        with dy2st.checkpointed(2):
            for _ in range(count):
                x = step(x, w)
        return x

    with pytest.raises(dy2st.CaptureError, match=f"a loop under dy2st.checkpointed {reason}"):
        dy2st.to_static(run)(*tensors((2,), (2,)), torch.tensor(3))


def test_a_list_that_grows():
    def run(x, w, count):
        rows = []
        for _ in range(count):
            x = x * w
            rows.append(x)
        return torch.stack(rows)

    keeps_everything(run, tensors((2,), (2,)))


def test_an_exception_in_an_iteration():
    def run(x, w, count):
        for _ in range(count):
            x = x * w
            if x.sum() > 100:
                raise ValueError("too large")
        return x

    static = dy2st.to_static(run, loop_checkpoints=2)
    with pytest.raises(ValueError, match="too large"):
        static(torch.ones(3, requires_grad=True), torch.full((3,), 2.0), torch.tensor(20))
    same(run, tensors((2,), (2,)), torch.tensor(9))


@pytest.mark.parametrize("number", [0, -1, 2.5, True, "3"])
def test_numbers_that_are_none(number):
    with pytest.raises(dy2st.SignatureError, match="takes a number of snapshots"):
        dy2st.to_static(cell, loop_checkpoints=number)
    with pytest.raises(dy2st.SignatureError, match="takes a number of snapshots"):
        dy2st.checkpointed(number)


# -- files -------------------------------------------------------------------------------------------------------------------


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(3, 3)

    def forward(self, x, limit):
        steps = 0
        while x.norm() > limit and steps < 50:
            x = torch.tanh(self.inner(x)) * 0.95
            steps += 1
        return self.inner(x)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    spec = [dy2st.InputSpec([None, 3]), dy2st.InputSpec([])]
    dy2st.save(dy2st.to_static(Model(), loop_checkpoints=4, input_spec=spec), tmp_path / "model")
    return tmp_path / "model"


def test_a_saved_model(saved):
    model, loaded = Model(), dy2st_runtime.load(saved)
    (x,) = tensors((2, 3))
    both = []
    for one in (model, loaded):
        result = one(x, torch.tensor(0.01))
        parameters = dict(one.named_parameters())
        both.append([result, *torch.autograd.grad(result.sum(), [x, parameters["inner.weight"], parameters["inner.bias"]])])
    assert all(map(torch.equal, *both))


def test_for_inference(tmp_path: Path):
    spec = [dy2st.InputSpec([None, 3]), dy2st.InputSpec([])]
    static = dy2st.to_static(Model().eval(), loop_checkpoints=4, input_spec=spec)
    dy2st.save_inference_model(tmp_path / "inference", static)
    loaded = dy2st_runtime.load(tmp_path / "inference")
    assert "= loop with" not in str(loaded.program)
    (x,) = tensors((2, 3))
    assert torch.equal(loaded(x.detach(), torch.tensor(0.01)), Model()(x, torch.tensor(0.01)))


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_a_runner_without_python(saved, tmp_path: Path):
    (x,) = tensors((2, 3))
    np.save(tmp_path / "x.npy", x.detach().numpy())
    np.save(tmp_path / "limit.npy", np.array(0.01, dtype=np.float32))
    words = [str(build.build_runner(quiet=True)), str(saved), "--output", str(tmp_path)]
    words += [word for name in ("x", "limit") for word in ("--input", str(tmp_path / f"{name}.npy"))]
    subprocess.run(words, check=True, timeout=60)
    got = torch.from_numpy(np.load(tmp_path / "result.npy"))
    torch.testing.assert_close(got, Model()(x, torch.tensor(0.01)).detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["pt2", "onnx"])
def test_exports(tmp_path: Path, name):
    pytest.importorskip("onnx")
    spec = [dy2st.InputSpec([None, 3]), dy2st.InputSpec([])]
    static = dy2st.to_static(Model().eval(), loop_checkpoints=4, input_spec=spec)
    (x,) = tensors((2, 3))
    dy2st.export(static, tmp_path / f"model.{name}", inputs=[(x.detach(), torch.tensor(0.01))])
