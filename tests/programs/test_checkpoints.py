"""``torch.utils.checkpoint`` in programs: eager's memory, gradients, random numbers and state."""

from __future__ import annotations

import copy
import functools
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

import dy2st
import dy2st_runtime
from dy2st_runtime.executors.native import build

SELECTED = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])


class Layers(nn.Module):
    """Layers with dropout and statistics; a tensor decides about each."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.3), nn.BatchNorm1d(8), nn.Sigmoid()) for _ in range(3)
        )
        self.options = options

    def forward(self, x):
        for layer in self.layers:
            if x.sum() > -1000:
                x = checkpoint(layer, x, **self.options)
        return x


def measured(function: Callable[..., Any], args: Sequence[Any], parameters: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """Return how many tensors a call saves, what it gives, and all gradients."""
    kept: list[torch.Tensor] = []
    args = [arg.detach().clone().requires_grad_(arg.requires_grad) if isinstance(arg, torch.Tensor) else arg for arg in args]
    inputs = [*(arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad), *parameters]
    for value in inputs:
        value.grad = None
    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        result = function(*args)
    count = len(kept)
    parts = [part for part in (result if isinstance(result, tuple) else (result,)) if isinstance(part, torch.Tensor)]
    sum(part.sin().sum() for part in parts if part.requires_grad).backward()
    return count, parts, [value.grad for value in inputs], torch.get_rng_state()


def same(eager: Any, static: Any, *args: Any, calls: int = 2) -> None:
    """Check that a static function keeps and gives what the eager one does; and the program redoes something."""
    own, others = (list(one.parameters()) if isinstance(one, nn.Module) else [] for one in (eager, static))
    for _ in range(calls):
        expected, got = measured(eager, args, own), measured(static, args, others)
        assert got[0] == expected[0]
        torch.testing.assert_close(got[1:], expected[1:], rtol=0, atol=0)
    if isinstance(eager, nn.Module):
        torch.testing.assert_close(dict(static.named_buffers()), dict(eager.named_buffers()), rtol=0, atol=0)
    assert "checkpoint with" in str(getattr(static, "forward", static).program(*args))


def both(function: Callable[..., Any]) -> tuple[Any, Any]:
    if isinstance(function, nn.Module):
        return function, dy2st.to_static(copy.deepcopy(function))
    return function, dy2st.to_static(function)


def points(*shape: int) -> torch.Tensor:
    torch.manual_seed(5)
    return torch.randn(*shape).requires_grad_()


@pytest.mark.parametrize(
    "options",
    [{"use_reentrant": False}, {"use_reentrant": True}, {"use_reentrant": False, "context_fn": SELECTED},
     {"use_reentrant": False, "early_stop": False}],
    ids=["plain", "reentrant", "selective", "late"],
)  # fmt: skip
def test_layers(options):
    torch.manual_seed(0)
    same(*both(Layers(**options)), points(4, 8))


def test_without_random_state():
    def run(x):
        return checkpoint(lambda v: torch.dropout(v.sin(), 0.5, True).cos(), x, use_reentrant=False, preserve_rng_state=False)

    same(*both(run), points(50))


def test_what_lives_at_the_same_time_is_what_lives_in_eager():
    """The saved tensors of the functions are gone after the forward pass, and are there one after the other in the backward pass."""

    def most(function: Callable[..., Any], x: torch.Tensor) -> int:
        alive = peak = 0

        class Counted:
            def __init__(self, tensor: torch.Tensor) -> None:
                nonlocal alive, peak
                alive += tensor.nbytes
                peak = max(peak, alive)
                self.tensor = tensor

            def __del__(self) -> None:
                nonlocal alive
                alive -= self.tensor.nbytes

        with torch.autograd.graph.saved_tensors_hooks(Counted, lambda counted: counted.tensor):
            result = function(x)
            result.sum().backward()
        return peak

    def layer(x):
        for _ in range(10):
            x = x.sin()
        return x

    def run(x):
        for _ in range(10):
            x = checkpoint(layer, x, use_reentrant=False)
        return x

    def inline(x):
        for _ in range(10):
            x = layer(x)
        return x

    x = points(100)
    assert most(dy2st.to_static(run), x) == most(run, x) == 10 * x.nbytes
    assert most(inline, x) == 100 * x.nbytes


def test_branches_loops_and_lists_inside():
    def part(x, n):
        rows = []
        while x.abs().max() > 0.5:
            x = torch.tanh(x) * 0.9
            rows.append(x)
        if n > 1:
            x = x * len(rows)
        return x.exp(), torch.stack([*rows, x]).sum(), len(rows)

    def run(x, n):
        y, total, count = checkpoint(part, x, n, use_reentrant=False)
        return y * count, total

    eager, static = both(run)
    for n in (1, 3):
        same(eager, static, points(3), torch.tensor(n))


def test_in_a_loop():
    def run(x):
        while x.norm() > 1:
            x = checkpoint(lambda v: v.sin().tanh().sin() * 0.9, x, use_reentrant=False)
        return x

    same(*both(run), points(30) * 3)


def test_nested():
    def inner(x):
        return x.sin().cos().sin()

    def outer(x):
        y = x.exp().tanh()
        if y.sum() > 0:
            y = checkpoint(inner, y, use_reentrant=False) * 2
        return checkpoint(inner, y.cos(), use_reentrant=False).cos()

    same(*both(lambda x: checkpoint(outer, x.sin(), use_reentrant=False)), points(5))


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_tensors_around_the_function(is_reentrant):
    def run(x, w):
        h = w.exp()
        return checkpoint(lambda v: (v * h).sin() + v, x, use_reentrant=is_reentrant) * 2

    same(*both(run), points(5), points(5))


def test_autocast_inside_and_around():
    model = nn.Linear(8, 8)

    def part(x):
        with torch.autocast("cpu", torch.bfloat16):
            x = model(x).sin()
        return model(x.float()).cos()

    def run(x):
        y = checkpoint(part, x, use_reentrant=False)
        with torch.autocast("cpu", torch.bfloat16):
            return y, checkpoint(lambda v: model(v).sin(), x, use_reentrant=False)

    same(*both(run), points(4, 8))


def test_keywords_views_and_arguments_given_back():
    def part(x, *, scale):
        return x.sin().cos() * scale, x[0], x

    def run(x, n):
        y, first, itself = checkpoint(part, x, scale=n, use_reentrant=False)
        return y * 2, first * 3, itself is x

    eager, static = both(run)
    same(eager, static, points(3, 2), torch.tensor(2))
    assert static(points(3, 2), torch.tensor(2))[2]


def test_what_the_function_writes():
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = torch.zeros(3)

        def forward(self, x):
            return checkpoint(self.part, x, use_reentrant=False)

        def part(self, x):
            h = x.sin().cos()
            self.last = h.detach()
            return h.sin()

    eager, static = both(Keeps())
    same(eager, static, points(3))
    assert torch.equal(eager.last, static.last)


def test_a_list_from_outside_is_changed_once():
    """What would change it twice is not done again."""

    def run(x):
        rows = [x]
        while rows[-1].norm() > 1:
            checkpoint(lambda v: rows.append(v.sin() * 0.8), rows[-1], use_reentrant=False)
        return torch.stack(rows)

    x = points(4)
    static = dy2st.to_static(run)
    result = static(x)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    again = run(x)
    assert torch.equal(result, again)
    assert torch.equal(torch.autograd.grad(torch.stack(list(again)).sum(), x)[0], gradient)


def test_an_exception_that_a_tensor_decides():
    def part(x):
        y = x.sin()
        if y.sum() > 100:
            raise ValueError("too large")
        return y.cos()

    def run(x):
        return checkpoint(part, x, use_reentrant=False) * 2

    eager, static = both(run)
    x = points(3)
    for function in (eager, static):
        with pytest.raises(ValueError, match="too large"):
            function(torch.full((200,), 1.5).requires_grad_())
    assert torch.equal(eager(x), static(x))
    assert torch.equal(*(torch.autograd.grad(function(x).sum(), x)[0] for function in (eager, static)))


def test_gradients_of_gradients():
    def run(x):
        return checkpoint(lambda v: v.sin().exp() * v, x, use_reentrant=False)

    x = points(4).double().detach().requires_grad_()
    assert torch.autograd.gradgradcheck(dy2st.to_static(run), (x,))


def test_a_sequence():
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)))
    same(*both(lambda x: checkpoint_sequential(layers, 2, x, use_reentrant=False)), points(3, 4))


def test_a_policy_of_the_users():
    seen: list[Any] = []

    def policy(context, operation, *args, **kwargs):
        seen.append(operation)
        return CheckpointPolicy.MUST_SAVE if operation is torch.ops.aten.sin.default else CheckpointPolicy.PREFER_RECOMPUTE

    def run(x):
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        return checkpoint(lambda v: v.cos().sin().cos(), x, use_reentrant=False, context_fn=contexts)

    same(*both(run), points(4))
    assert torch.ops.aten.sin.default in seen


def test_a_reentrant_one_without_gradients():
    def run(x, w):
        return checkpoint(lambda v: v * w, x, use_reentrant=True)

    for function in both(run):
        with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
            assert not function(torch.ones(3), points(3)).requires_grad


def test_without_use_reentrant():
    def run(x):
        return checkpoint(lambda v: v.sin(), x)

    for function in both(run):
        with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
            function(points(3)).sum().backward()


def test_without_gradients_nothing_is_done_again():
    static = dy2st.to_static(lambda x: checkpoint(torch.sin, x, use_reentrant=False))
    with torch.no_grad():
        assert "checkpoint with" not in str(static.program(torch.ones(3)))


@pytest.mark.parametrize(
    ("options", "match"),
    [({"use_reentrant": True, "v": 1}, "Unexpected keyword arguments: v"),
     ({"use_reentrant": True, "debug": True}, "only supported when use_reentrant=False")],
)  # fmt: skip
def test_bad_options(options, match):
    for function in both(lambda x: checkpoint(torch.sin, x, **options)):
        with pytest.raises(ValueError, match=match):
            function(points(3))


def test_an_option_that_a_tensor_decides():
    static = dy2st.to_static(lambda x: checkpoint(torch.sin, x, use_reentrant=False, preserve_rng_state=x.sum() > 0))
    with pytest.raises(dy2st.CaptureError, match="preserve_rng_state that is known only when the program runs"):
        static(points(3))


# -- files -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Layers, Path]:
    torch.manual_seed(0)
    model = Layers(use_reentrant=False)
    dy2st.save(dy2st.to_static(copy.deepcopy(model), input_spec=[dy2st.InputSpec([None, 8])]), tmp_path / "model")
    return model, tmp_path / "model"


def test_a_saved_model(saved):
    model, path = saved
    loaded = dy2st_runtime.load(path)
    parameters = dict(loaded.named_parameters())
    expected = measured(model, [points(4, 8)], list(model.parameters()))
    got = measured(loaded, [points(4, 8)], [parameters[name] for name, _ in model.named_parameters()])
    assert got[0] == expected[0]
    torch.testing.assert_close(got[1:], expected[1:], rtol=0, atol=0)


def test_a_policy_is_not_saved(tmp_path: Path):
    static = dy2st.to_static(Layers(use_reentrant=False, context_fn=SELECTED), input_spec=[dy2st.InputSpec([None, 8])])
    with pytest.raises(dy2st.SaveError, match="a value of type partial"):
        dy2st.save(static, tmp_path / "model")


def test_for_inference_it_is_done_in_place(saved, tmp_path: Path):
    model, _ = saved
    static = dy2st.to_static(copy.deepcopy(model).eval(), input_spec=[dy2st.InputSpec([None, 8])])
    dy2st.save_inference_model(tmp_path / "inference", static)
    loaded = dy2st_runtime.load(tmp_path / "inference")
    x = points(4, 8).detach()
    torch.testing.assert_close(loaded(x), model.eval()(x), rtol=0, atol=0)
    assert "checkpoint with" not in str(loaded.program)


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_a_runner_without_python(saved, tmp_path: Path):
    model, path = saved
    x = points(4, 8).detach()
    np.save(tmp_path / "x.npy", x.numpy())
    words = [str(build.build_runner(quiet=True)), str(path), "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path)]
    subprocess.run(words, check=True, timeout=60)
    got = torch.from_numpy(np.load(next(tmp_path.glob("out*.npy"), tmp_path / "result.npy")))
    torch.testing.assert_close(got, model.eval()(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["pt2", "onnx"])
def test_exports(saved, tmp_path: Path, name):
    pytest.importorskip("onnx")
    model, _ = saved
    static = dy2st.to_static(copy.deepcopy(model).eval(), input_spec=[dy2st.InputSpec([None, 8])])
    dy2st.export(static, tmp_path / f"model.{name}", inputs=[points(4, 8).detach()])
