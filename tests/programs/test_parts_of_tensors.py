"""Tensors that are taken apart into as many as only the program knows."""

import pytest
import torch

import dy2st
import dy2st_runtime
from tests import worlds


def rows(x):
    return x[x[:, 0] > 0].unbind(), torch.unbind(x[x[:, 0] > 0].t(), dim=-1)


def gates(x):
    total = x.sum() * 0
    for row in (x[x > 0][:, None] * x[0]).unbind(1):
        for gate in (row * x[:, :1]).unbind(dim=0):
            total = total + gate.max()
    return total


def of_a_size(x):
    return x[x[:, 0] > 0].split(2), x.split(int((x > 3).sum()) - 3), x.unsafe_split(int((x > 0).sum()))


def of_a_number(x):
    halves = x[x[:, 0] > 0].chunk(2)
    n = int((x > 3).sum()) - 3
    return halves, len(halves), x.chunk(n), torch.tensor_split(x, n, dim=0), torch.chunk(x, (x > 0).sum().item(), dim=1)


def joined_again(x):
    first, *others = x[x[:, 0] > -2].chunk(3)
    return torch.cat([part * k for k, part in enumerate(x.split(int(x.max()) // 2 + 1))]), first, torch.cat(others)


FUNCTIONS = [rows, gates, of_a_size, of_a_number, joined_again]


def _inputs():
    whole = torch.arange(12.0).reshape(6, 2)
    return [(whole * scale - 3).requires_grad_() for scale in (1.0, 0.5, 3.0, 0.2)]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_tensor_is_taken_apart_into_as_many_as_a_tensor_decides(function):
    def make():
        inputs = _inputs()

        def call(run, x):
            result = run(x)
            leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
            total = sum((leaf * torch.arange(1.0, leaf.numel() + 1).view(leaf.shape)).sum() for leaf in leaves)
            return result, torch.autograd.grad(total, x)

        return worlds.World(function, inputs, [lambda run, x=x: call(run, x) for x in inputs])

    worlds.agree(make, programs=1)


def test_a_program_with_parts_is_saved(tmp_path):
    path = tmp_path / "parts.dy2st"
    dy2st.save(of_a_number, path, input_spec=[_inputs()[0].detach()])
    loaded = dy2st_runtime.load(path)
    for x in _inputs():
        x = x.detach()
        try:
            expected = of_a_number(x)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)):
                loaded(x)
        else:
            torch.testing.assert_close(loaded(x), expected, rtol=0, atol=0)
