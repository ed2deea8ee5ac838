"""Tensors that are made of other tensors (quantised weights): programs read the parts, as they are at each call."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dy2st
import dy2st_runtime


class Rounded(torch.Tensor):
    """A weight of whole numbers and a scale."""

    @staticmethod
    def __new__(cls, whole, scale, rows=1):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype, device=whole.device)

    def __init__(self, whole, scale, rows=1):
        self.whole, self.scale, self.rows = whole, scale, rows

    def __tensor_flatten__(self):
        return ["whole", "scale"], {"rows": self.rows}

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls(parts["whole"], parts["scale"], context["rows"])

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is F.linear:
            x, weight, bias = args
            return x @ (weight.whole.to(x.dtype).mT * weight.scale * weight.rows) + bias
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return cls(args[0].whole, args[0].scale, args[0].rows)
        raise NotImplementedError(f"{function}")


class Net(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.first.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x):
        return self.first(x) if x.sum() > 0 else -self.first(x)


def weight(seed, rows=1):
    generator = torch.Generator().manual_seed(seed)
    return Rounded(torch.randint(-9, 9, (4, 4), generator=generator, dtype=torch.int8), torch.tensor(0.5), rows)


INPUTS = (torch.ones(2, 4), -torch.ones(2, 4))


@pytest.fixture
def static():
    return dy2st.to_static(Net(weight(0)))


def agrees(static):
    with dy2st.enable_to_static(False):
        expected = [static(x) for x in INPUTS]
    return all(torch.equal(static(x), y) for x, y in zip(INPUTS, expected))


def test_a_weight_that_is_replaced_is_seen(static):
    assert agrees(static)
    static.first.weight = nn.Parameter(weight(1), requires_grad=False)
    assert agrees(static)
    static.first.weight.scale.mul_(2)
    assert agrees(static)
    static.first.weight.whole = weight(2).whole
    assert agrees(static)
    assert len(static.forward.program_cache) == 1


def test_how_a_weight_is_made_of_its_parts_is_guarded(static):
    assert agrees(static)
    static.first.weight = nn.Parameter(weight(1, rows=3), requires_grad=False)
    assert agrees(static)
    static.first.weight = nn.Parameter(torch.randn(4, 4))
    assert agrees(static)
    assert len(static.forward.program_cache) == 3


def test_the_parts_are_saved(static, tmp_path):
    expected = [static(x) for x in INPUTS]
    dy2st.save(static, tmp_path / "net.dy2st", input_spec=[dy2st.InputSpec([2, 4])])
    loaded = dy2st_runtime.load(tmp_path / "net.dy2st")
    assert all(torch.equal(loaded(x), y) for x, y in zip(INPUTS, expected))


def test_an_operation_that_has_the_whole_is_refused():
    class Whole(Net):
        def forward(self, x):
            return x + self.first.weight if x.sum() > 0 else x

    with pytest.raises((dy2st.CaptureError, NotImplementedError)):
        dy2st.to_static(Whole(weight(0)))(INPUTS[0])
