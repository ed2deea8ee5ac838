import functools

import pytest
import torch
from torch import nn

import dy2st
from dy2st_runtime import verify
from dy2st_runtime.passes.batch_norm import fold_batch_norm
from tests.runtime.passes.optimized import operators

ALWAYS = functools.partial(fold_batch_norm, always=True)


def trained(*layers):
    """A model whose statistics are not those it was made with."""
    torch.manual_seed(0)
    model = nn.Sequential(*layers)
    for module in model:
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            for value in (module.running_mean, module.running_var, *module.parameters()):
                nn.init.uniform_(value, 0.5, 2)
    return model.eval()


def agrees(model, x, left, passes=(ALWAYS,), spec=None):
    """Check values and gradients of a model, and how many batch normalisations are left."""
    made = dy2st.to_static(type(model)(*model).eval(), passes=list(passes), input_spec=spec)
    expected, found = model(x), made(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    parameters = list(model.parameters())
    for a, b in zip(*(torch.autograd.grad(y.square().sum(), parameters) for y in (expected, found))):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
    for captured in made.forward.program_cache:
        verify(captured.program)
        assert operators(captured.program).count("batch_norm") == left
    return made


@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        ((nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), (2, 3, 6, 6)),
        ((nn.Conv2d(4, 4, 3, 2, 1, groups=2, bias=False), nn.BatchNorm2d(4, eps=0.1), nn.ReLU()), (2, 4, 6, 6)),
        ((nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4)), (2, 3, 6)),
        ((nn.Conv3d(1, 2, 2), nn.BatchNorm3d(2)), (1, 1, 3, 3, 3)),
        ((nn.Linear(3, 4), nn.BatchNorm1d(4)), (5, 3)),
        ((nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4, dtype=torch.float32)), (5, 3)),
    ],
)
def test_batch_norm_is_folded_into_the_layer_before(layers, shape):
    agrees(trained(*layers), torch.randn(shape), 0)


def test_without_parameters_and_in_double():
    model = trained(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False)).double()
    agrees(model, torch.randn(2, 3, 6, 6, dtype=torch.float64), 0)


def test_new_weights_are_seen():
    model = trained(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    made = agrees(model, torch.randn(2, 3, 6, 6), 0)
    with torch.no_grad():
        for value in (*model.parameters(), model[1].running_mean):
            value.mul_(1.5)
        model[0].weight.data = model[0].weight.data * 2
    x = torch.randn(2, 3, 6, 6)
    torch.testing.assert_close(made(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        ((nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4)), (2, 3, 6, 6)),
        ((nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)), (2, 3, 6, 6)),
        ((nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3)), (2, 3, 6, 6)),
        ((nn.Linear(3, 4), nn.BatchNorm1d(5)), (2, 5, 3)),
    ],
)
def test_batch_norm_that_cannot_be_folded_is_left_alone(layers, shape):
    layers = list(layers)
    model = nn.Sequential(*layers).eval()
    agrees(model, torch.randn(shape), 1)


def test_training_is_left_alone():
    model = dy2st.to_static(trained(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train(), passes=[ALWAYS])
    model(torch.randn(2, 3, 6, 6))
    assert operators(next(iter(model.forward.program_cache)).program).count("batch_norm") == 1


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.conv(x)
        return self.norm(y) + y


def test_a_result_used_elsewhere_is_left_alone():
    static = dy2st.to_static(Twice().eval(), passes=[ALWAYS])
    assert torch.equal(
        static(torch.ones(1, 3, 5, 5)), static.norm(static.conv(torch.ones(1, 3, 5, 5))) + static.conv(torch.ones(1, 3, 5, 5))
    )


def test_batch_norm_is_folded_only_where_it_pays():
    large = trained(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    agrees(large, torch.randn(2, 3, 16, 16), 0, [fold_batch_norm])
    agrees(large, torch.randn(2, 3, 16, 16), 0, [fold_batch_norm], [dy2st.InputSpec([None, 3, 16, 16])])
    agrees(large, torch.randn(2, 3, 16, 16), 1, [fold_batch_norm], [dy2st.InputSpec([2, 3, None, None])])
    agrees(trained(nn.Linear(30, 40), nn.BatchNorm1d(40)), torch.randn(2, 30), 1, [fold_batch_norm])
