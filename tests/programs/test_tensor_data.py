"""``tensor.data``, read and assigned: what eager leaves in which memory, with optimizers that go on with it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
import dy2st_runtime
from dy2st.errors import CaptureError
from dy2st_runtime.passes.pipeline import optimize
from tests.oracle import same

VALUES = [torch.ones(3), -torch.ones(3), torch.tensor([1.0, 3.0, -2.0]), torch.tensor([2.0, 1.0, 1.0])]
ROWS = [torch.randn(5, 3, generator=torch.Generator().manual_seed(seed)) * 2 + seed - 1 for seed in range(3)]


class Initialized(nn.Module):
    """Takes its first batch to begin with."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.zeros(1, 3)), nn.Parameter(torch.zeros(1, 3))
        self.register_buffer("is_done", torch.tensor(0.0))

    def forward(self, z: Any) -> Any:
        if not self.is_done > 0:
            start = -torch.log(z.std(dim=0, keepdim=True) + 1e-6)
            self.scale.data = start.data
            self.shift.data = (-z.mean(dim=0, keepdim=True) * torch.exp(self.scale)).data
            self.is_done = torch.tensor(1.0)
        return z * torch.exp(self.scale) + self.shift


class Changed(nn.Module):
    """Changes what autograd has saved, behind its back."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: Any) -> Any:
        y = (self.w * self.w * x).sum()
        if x.sum() > 0:
            self.w.data.mul_(0.5)
            self.w.data[0] = 7
        else:
            self.w.data.copy_(x)
        return y, self.w * 2, self.w.data.clone()


class Shared(nn.Module):
    """Has its parameters lie in the memory of others, in a loop and in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.v = nn.Parameter(torch.tensor([1.0, 2.0, 3.0])), nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        before, view = self.w.detach(), self.w.view(-1)
        memory = x.clone()
        for _ in range(int(x.abs().sum()) % 3):
            self.w.data = memory
            memory.add_(1)
        after = self.w.view(-1) * 1
        if x.sum() > 0:
            self.v.data = self.w
            self.w.data.add_(10)
        return before + view.detach(), after, self.v * x, self.w * 3


SUBJECTS = [(Initialized, ROWS), (Changed, VALUES), (Shared, VALUES)]


def trained(model: Any, called: Any, values: list[Any]) -> list[Any]:
    """What some steps of training give and leave, and which parameters share memory then."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen: list[Any] = []
    for x in values:
        given = called(x)
        results = given if isinstance(given, tuple) else (given,)
        optimizer.zero_grad()
        sum(value.sum() for value in results if value.requires_grad).backward()
        optimizer.step()
        seen += [value.detach().clone() for value in results]
        seen += [parameter.grad for parameter in model.parameters()]
        seen.append(len({parameter.data_ptr() for parameter in model.parameters()}))
    return [*seen, *model.state_dict().values()]


@pytest.mark.parametrize(("kind", "values"), SUBJECTS)
@pytest.mark.parametrize("backend", ["python", "native"])
def test_training_leaves_what_eager_leaves(kind: Any, values: Any, backend: str) -> None:
    eager, model = kind(), kind()
    parameters = list(model.parameters())
    static = dy2st.to_static(model, backend=backend)
    same(trained(eager, eager, values), trained(model, static, values))
    assert all(one is other and type(one.data) is torch.Tensor for one, other in zip(parameters, static.parameters()))
    assert len(static.forward.program_cache) == 1


@pytest.mark.parametrize(("kind", "values"), SUBJECTS)
def test_it_is_saved(kind: Any, values: Any, tmp_path: Path) -> None:
    eager = kind()
    dy2st.save(kind(), tmp_path / "model.dy2st", input_spec=[values[0]])
    dy2st.save_inference_model(tmp_path / "inference.dy2st", kind(), input_spec=[values[0]])
    loaded = dy2st_runtime.load(tmp_path / "model.dy2st")
    same(trained(eager, eager, values), trained(loaded, loaded, values))
    eager, loaded = kind(), dy2st_runtime.load(tmp_path / "inference.dy2st")
    with torch.no_grad():
        same([eager(x) for x in values], [loaded(x) for x in values])


@pytest.mark.parametrize(("kind", "values"), SUBJECTS)
@pytest.mark.parametrize("gradients", [True, False])
def test_passes_change_nothing(kind: Any, values: Any, gradients: bool) -> None:
    eager = kind()
    static = dy2st.to_static(kind(), passes=[partial(optimize, gradients=gradients)])
    with torch.no_grad():
        same([eager(x) for x in values], [static(x) for x in values])


def test_a_view_from_before_stays_in_the_memory_from_before() -> None:
    def moved(w: Any, x: Any) -> Any:
        total = 0
        for i in range(int(x.abs().sum())):
            view = w.view(-1)
            w.data = x * i
            total = total + view * 2 + w.view(-1)
        return total

    for passes in ([], [partial(optimize, gradients=False)]):
        static = dy2st.to_static(moved, passes=passes)
        for x in VALUES:
            one, other = torch.zeros(3), torch.zeros(3)
            same([moved(one, x), one], [static(other, x), other])


def test_what_would_change_its_layout_is_refused() -> None:
    def assigned(parameter: Any, value: Any) -> None:
        parameter.data = value

    parameter = nn.Parameter(torch.ones(3))
    for value, what in ((torch.ones(2), "shape"), (torch.ones(3).double(), "dtype"), (torch.ones(6)[::2], "stride")):
        with pytest.raises(CaptureError, match=f"another {what}"):
            dy2st.to_static(assigned)(parameter, value)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
        dy2st.to_static(assigned)(parameter, 3)
    assert torch.equal(parameter, torch.ones(3))
