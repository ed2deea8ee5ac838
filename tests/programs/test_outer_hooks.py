"""Hooks that were registered before the call, and run in a backward pass of the program."""

import pytest
import torch

import dy2st
from dy2st.errors import CaptureError
from tests.oracle import same

X = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(3, 2)
        self.inner.factor, self.inner.level = 1.0, 3.0

    def forward(self, x):
        self.inner.factor = self.inner.factor + 1
        self.inner.kept = x.detach()
        return self.inner(x)


def writes(module, *grads):
    module.inner_grads = grads


def doubles(parameter):
    parameter.grad.mul_(2)


def step(model, x):
    model.zero_grad()
    model(x).pow(2).sum().backward()
    return model.inner.weight.grad.clone()


REFUSED = {
    "a read of what the step writes": lambda m: m.weight.register_hook(lambda g: g * m.factor),
    "a read after the gradient is added": lambda m: m.weight.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(m.factor)),
    "a read by name": lambda m: m.weight.register_hook(lambda g: g * getattr(m, "fac" + "tor")),
    "a read by the hook of a module": lambda m: m.register_full_backward_hook(lambda m, gi, go: (m.kept * go[0].sum(),)),
    "a write": lambda m: m.weight.register_post_accumulate_grad_hook(lambda p: setattr(m, "seen", p.grad)),
    "a write of the hook of a module": lambda m: m.register_full_backward_hook(writes),
    "a write before": lambda m: m.register_full_backward_pre_hook(writes),
}
SAME = {
    "another gradient": lambda m: m.weight.register_hook(lambda g: g * m.level),
    "in place": lambda m: m.weight.register_post_accumulate_grad_hook(doubles),
    "of a module": lambda m: m.register_full_backward_hook(lambda m, gi, go: tuple(g * m.level for g in gi)),
    "before": lambda m: m.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,)),
}


@pytest.mark.parametrize("register", REFUSED.values(), ids=REFUSED)
def test_hooks_that_see_or_are_seen_are_refused(register):
    model = Model()
    register(model.inner)
    with pytest.raises(CaptureError, match="in a backward pass of the program"):
        dy2st.to_static(step)(model, X.clone().requires_grad_())


@pytest.mark.parametrize("register", SAME.values(), ids=SAME)
def test_hooks_that_only_compute_run(register):
    models = Model(), Model()
    for model in models:
        register(model.inner)
    static = dy2st.to_static(step)
    for _ in range(3):
        same(step(models[0], X.clone().requires_grad_()), static(models[1], X.clone().requires_grad_()))
    assert models[0].inner.factor == models[1].inner.factor == 4.0


def test_gradients_that_are_asked_for():
    def f(model, x):
        return torch.autograd.grad(model(x).pow(2).sum(), x)

    model = Model()
    model.inner.register_full_backward_hook(writes)
    with pytest.raises(CaptureError, match="in a backward pass of the program"):
        dy2st.to_static(f)(model, X.clone().requires_grad_())
