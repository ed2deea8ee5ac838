"""Whole training steps as programs: backward passes, gradients, optimizers; weights and states are eager's bit for bit."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

import dy2st


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x):
        return self.a(x) if x.mean() > 0 else self.b(x)


class EarlyExit(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), nn.Linear(4, 2)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
            if x.mean() > 0:
                break
        return self.head(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        count = 0
        while x.mean() > 0 and count < 5:
            x, count = torch.tanh(self.cell(x)), count + 1
        return self.head(x)


class Both(nn.Module):
    """Reaches its weights on every way."""

    def __init__(self):
        super().__init__()
        self.net, self.norm = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.net(self.norm(x))
        return y * 2 if y.sum() > 0 else F.dropout(y, 0.5)


MODELS = [Experts, EarlyExit, Recurrent, Both]
OPTIMIZERS = {
    "SGD": {}, "SGD momentum": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, "Adam": {}, "AdamW": {"weight_decay": 0.1},
    "Adam amsgrad": {"amsgrad": True}, "Adagrad": {}, "Adadelta": {}, "Adamax": {}, "NAdam": {}, "RAdam": {}, "RMSprop": {},
    "RMSprop centered": {"centered": True, "momentum": 0.5}, "Rprop": {}, "ASGD": {}, "Adafactor": {}, "SGD foreach": {"foreach": True},
    "AdamW foreach": {"foreach": True}, "AdamW fused": {"fused": True}, "SGD fused": {"fused": True}, "Adam maximize": {"maximize": True},
}  # fmt: skip


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def batches(count, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(4, 4, generator=generator, dtype=dtype), torch.randn(4, 2, generator=generator, dtype=dtype))
        for _ in range(count)
    ]


def observed(objects):
    """What a training run leaves: weights, gradients, states of optimizers and schedulers."""
    results = []
    for value in objects:
        if isinstance(value, nn.Module):
            results += [value.state_dict(), [None if p.grad is None else p.grad.clone() for p in value.parameters()]]
        elif hasattr(value, "state_dict"):
            results.append(value.state_dict())
    return copy.deepcopy(results)


def same(one, other):
    a, b = (tree_leaves(value, is_leaf=lambda part: part is None) for value in (one, other))
    assert len(a) == len(b)
    for mine, theirs in zip(a, b):
        if isinstance(mine, torch.Tensor):
            assert (
                torch.allclose(mine, theirs, 0, 0, equal_nan=True)
                and mine.stride() == theirs.stride()
                and mine.dtype is theirs.dtype
            )
        elif not callable(mine):
            assert mine == theirs


def run(function, make, calls):
    torch.manual_seed(0)
    objects = make()
    results = []
    for call in calls:
        result = function(*objects, *call)
        results.append([part.detach().clone() if isinstance(part, torch.Tensor) else part for part in tree_leaves(result)])
    return results, observed(objects), torch.get_rng_state()


def agree(function, make, calls, programs=None):
    """Check that a static training step leaves what eager leaves, on each executor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = run(function, make, calls)
        for backend in ("native", "python"):
            static = dy2st.to_static(function, backend=backend)
            same(run(static, make, calls), expected)
            if programs is not None:
                assert len(static.program_cache) <= programs


def maker(kind, name, dtype=torch.float32, **options):
    def make():
        model = kind().to(dtype)
        return model, getattr(torch.optim, name.partition(" ")[0])(model.parameters(), lr=0.01, **options)

    return make


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_of_torch(name):
    agree(step, maker(Both, name, **OPTIMIZERS[name]), batches(4), programs=3)


@pytest.mark.parametrize("kind", [Experts, EarlyExit, Recurrent])
@pytest.mark.parametrize("name", [pytest.param("SGD momentum", marks=pytest.mark.slow), "AdamW"])
def test_weights_that_only_some_ways_reach(kind, name):
    agree(step, maker(kind, name, **OPTIMIZERS[name]), batches(12))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_hundred_steps(name, kind, dtype):
    agree(step, maker(kind, name, dtype, **OPTIMIZERS[name]), batches(100, dtype))


def test_muon():
    def make():
        model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 2, bias=False))
        return model, torch.optim.Muon(model.parameters(), lr=0.01)

    agree(step, make, batches(3), programs=2)


# -- whole loops ---------------------------------------------------------------------------------------------------------------


def epochs(model, optimizer, xs, ys):
    for x, y in zip(xs, ys):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss


def until_converged(model, optimizer, xs, ys):
    count, norm = 0, torch.tensor(1.0)
    while norm > 0.2 and count < 20:
        optimizer.zero_grad()
        loss = F.mse_loss(model(xs[0]), ys[0])
        loss.backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        optimizer.step()
        count += 1
    return loss, count


def by_hand(model, optimizer, xs, ys):
    total = torch.zeros(())
    for x, y in zip(xs, ys):
        loss = F.mse_loss(model(x), y)
        if loss > 0.5:
            loss.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.05 * p.grad
                    p.grad = None
        total = total + loss.detach()
    return total


def accumulating(model, optimizer, xs, ys):
    for index, (x, y) in enumerate(zip(xs, ys)):
        (F.mse_loss(model(x), y) / 2).backward()
        if (index + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()


def until_worse(model, optimizer, xs, ys):
    best, bad, losses = torch.tensor(1e9), 0, []
    for x, y in zip(xs, ys):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if loss < best:
            best, bad = loss.detach(), 0
        else:
            bad += 1
            if bad > 2:
                break
    return losses, best


@pytest.mark.parametrize("loop", [epochs, until_converged, by_hand, accumulating, until_worse])
def test_loops_of_steps_are_one_program_for_any_number_of_them(loop):
    def make():
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        return model, torch.optim.SGD(model.parameters(), lr=0.05)

    generator = torch.Generator().manual_seed(3)
    sizes = (1, 4, 6, 3)
    calls = [(torch.randn(n, 3, 4, generator=generator), torch.randn(n, 3, 2, generator=generator)) for n in sizes]
    spec = [None, None, dy2st.InputSpec([None, 3, 4]), dy2st.InputSpec([None, 3, 2])]
    static = dy2st.to_static(loop, input_spec=spec)
    same(run(static, make, calls), run(loop, make, calls))
    assert len(static.program_cache) <= 2


def test_the_state_of_an_optimizer_is_made_in_a_loop():
    def make():
        model = nn.Linear(4, 2)
        return model, torch.optim.Adam(model.parameters(), lr=0.05)

    calls = [(torch.ones(n, 3, 4), torch.zeros(n, 3, 2)) for n in (2, 3, 1)]
    spec = [None, None, dy2st.InputSpec([None, 3, 4]), dy2st.InputSpec([None, 3, 2])]
    same(run(dy2st.to_static(epochs, input_spec=spec), make, calls), run(epochs, make, calls))


# -- gradients -------------------------------------------------------------------------------------------------------------------


def kept(model, optimizer, x, y):
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    return [p.grad.clone() for p in model.parameters()]


def added_up(model, optimizer, x, y):
    first = model[0].weight.grad
    F.mse_loss(model(x), y).backward()
    return [p.grad.norm() for p in model.parameters()], first is model[0].weight.grad, first is None


def penalty(model, optimizer, x, y):
    optimizer.zero_grad()
    x = x.clone().requires_grad_()
    model(x).sum().backward(create_graph=True)
    loss = (x.grad.norm() - 1) ** 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, x.grad


def perturbed(model, optimizer, x, y):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        loss = F.mse_loss(model(x + delta), y)
        loss.backward()
        delta.data = (delta + 0.1 * delta.grad.sign()).clamp(-0.3, 0.3)
        delta.grad.zero_()
    return delta.detach(), loss


def retained(model, optimizer, x, y):
    hidden = model[0](x)
    hidden.retain_grad()
    loss = F.mse_loss(model[2](torch.tanh(hidden)), y)
    loss.backward(retain_graph=True)
    first = hidden.grad
    loss.backward()
    return first, hidden.grad, first is hidden.grad


def of_some_inputs(model, optimizer, x, y):
    optimizer.zero_grad()
    weight = model[0].weight
    F.mse_loss(model(x), y).backward(inputs=[weight])
    return weight.grad, model[2].weight.grad is None


def of_several(model, optimizer, x, y):
    optimizer.zero_grad()
    out = model(x)
    out.backward(torch.ones_like(out))
    torch.autograd.backward([model(x).sum(), model(x + 1).sum()])
    return [p.grad for p in model.parameters()]


def detached(model, optimizer, x, y):
    optimizer.zero_grad()
    hidden = model[0](x)
    hidden.detach_()
    model[2](hidden).sum().backward()
    return model[0].weight.grad is None, model[2].weight.grad


def in_a_branch(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    if x.mean() > 0:
        loss.backward()
        if model[0].weight.grad.sum() > 0:
            model[0].weight.grad = None
    return [None if p.grad is None else p.grad * 2 for p in model.parameters()]


def from_outer_product(model, optimizer, x, y):
    parameters = dict(model.named_parameters())
    optimizer.zero_grad()
    fast = parameters
    for _ in range(2):
        loss = F.mse_loss(torch.func.functional_call(model, fast, (x,)), y)
        grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
        fast = {name: p - 0.1 * grad for (name, p), grad in zip(fast.items(), grads)}
    outer = F.mse_loss(torch.func.functional_call(model, fast, (x + 1,)), y)
    outer.backward()
    return outer


def hooked(model, optimizer, x, y):
    optimizer.zero_grad()
    scale = x.sum()
    handle = model[0].weight.register_hook(lambda grad: grad * scale)
    other = model[2].weight.register_hook(lambda grad: grad * 2)
    F.mse_loss(model(x), y).backward()
    handle.remove()
    F.mse_loss(model(x), y).backward()
    other.remove()
    return [p.grad for p in model.parameters()]


GRADIENTS = [
    kept, added_up, penalty, perturbed, retained, of_some_inputs, of_several, detached, in_a_branch, from_outer_product, hooked,
]  # fmt: skip


@pytest.mark.parametrize("function", GRADIENTS)
def test_gradients(function):
    def make():
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        return model, torch.optim.SGD(model.parameters(), lr=0.05)

    agree(function, make, batches(5), programs=4)


def test_gradients_of_arguments_are_those_of_the_call():
    @dy2st.to_static
    def f(x):
        if x.sum() > 0:
            x.pow(2).sum().backward()
        return x.grad

    for values in ([1.0, 2.0], [-1.0, 0.0], [3.0, 4.0]):
        x = torch.tensor(values, requires_grad=True)
        result = f(x)
        assert result is x.grad
        assert (result is None) == (values[0] < 0) and (result is None or torch.equal(result, 2 * x.detach()))
    assert len(f.program_cache) == 1


def test_what_a_loop_carries_is_changed_in_place():
    weight = nn.Parameter(torch.tensor(1.5))

    def f(x, n):
        weight.grad = None
        x, i = x * 1, torch.zeros(())
        while i < n:
            x, i = x.mul_(0.5) * weight, i + 1
        x.sum().backward()
        return weight.grad

    static = dy2st.to_static(f)
    for n in (0, 1, 3):
        expected, result = (function(torch.ones(3, requires_grad=True), torch.tensor(n)) for function in (f, static))
        assert (expected is None and result is None) or torch.equal(expected, result)


def test_operations_made_of_others_have_gradients():
    weight = nn.Parameter(torch.ones(3, 2))

    @dy2st.to_static(input_spec=[dy2st.InputSpec([None, 3]), dy2st.InputSpec([None, 2])])
    def f(x, y):
        weight.grad = None
        a, b = torch.broadcast_tensors(x @ weight, y)
        (a * b).sum().backward()
        return a.requires_grad, b.requires_grad, weight.grad

    x, y = torch.ones(4, 3), torch.arange(8.0).reshape(4, 2)
    a, b, grad = f(x, y)
    assert (a, b) == (True, False) and torch.equal(grad, x.T @ y)


def test_gradients_go_on_into_what_is_before_the_call():
    weight = nn.Parameter(torch.ones(3))

    @dy2st.to_static
    def f(x):
        x.pow(2).sum().backward()

    f(weight * 2)
    assert torch.equal(weight.grad, torch.full((3,), 8.0))


# -- what goes with them ---------------------------------------------------------------------------------------------------------


def scheduled(model, optimizer, scheduler, x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
    return loss, optimizer.param_groups[0]["lr"], scheduler.get_last_lr()


SCHEDULERS = {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=20),
    "sequential": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o, [torch.optim.lr_scheduler.ConstantLR(o, 0.1, 2), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)], [3]
    ),
    "cyclic": lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers(name):
    def make():
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return model, optimizer, SCHEDULERS[name](optimizer)

    agree(scheduled, make, batches(8), programs=2 if "cyc" in name else 5)


@pytest.mark.parametrize("options", [{"nesterov": True}, {"foreach": True}])
def test_a_momentum_that_a_scheduler_changes(options):
    def make():
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, **options)
        return model, optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=20)

    agree(scheduled, make, batches(8), programs=2)


def test_a_scheduler_that_looks_at_the_loss():
    def function(model, optimizer, scheduler, x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step(loss)
        return optimizer.param_groups[0]["lr"]

    def make():
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return model, optimizer, torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)

    agree(function, make, batches(8), programs=4)


@pytest.mark.parametrize("average", [{}, {"multi_avg_fn": torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)}])
def test_averaged_weights(average):
    def function(model, optimizer, averaged, x, y):
        loss = step(model, optimizer, x, y)
        averaged.update_parameters(model)
        return loss

    def make():
        model = nn.Linear(4, 2)
        return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.swa_utils.AveragedModel(model, **average)

    agree(function, make, batches(5), programs=3)


def test_scaled_gradients_skip_steps():
    def function(model, optimizer, scaler, x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    def make():
        model = nn.Linear(4, 2)
        return (
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2),
        )

    agree(function, make, [*batches(3), (torch.full((4, 4), 1e5), torch.zeros(4, 2)), *batches(2)], programs=3)


@pytest.mark.parametrize("name", ["SGD momentum", "AdamW fused"])
def test_scaled_gradients_that_only_some_ways_have(name):
    def function(model, optimizer, scaler, x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss * 1e30 if x.abs().max() > 2.5 else loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss, scaler.get_scale()

    def make():
        model, optimizer = maker(Experts, name, **OPTIMIZERS[name])()
        return model, optimizer, torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)

    agree(function, make, [(x * (1 + number % 3), y) for number, (x, y) in enumerate(batches(6))], programs=3)


def test_scaled_gradients_in_a_loop():
    def function(model, optimizer, scaler, x, y):
        steps = 0
        while x.norm() > 2 and steps < 4:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
            scaler.scale(loss * 1e30 if x.abs().max() > 3 else loss).backward()
            scaler.step(optimizer)
            scaler.update()
            x, steps = x * 0.6, steps + 1
        return steps, scaler.get_scale()

    def make():
        return *maker(Experts, "SGD")(), torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)

    agree(function, make, [(x * (number % 4), y) for number, (x, y) in enumerate(batches(6))], programs=3)


def test_scaled_gradients_of_nothing_are_eagers_error():
    def function(model, optimizer, scaler, x, y):
        optimizer.zero_grad()
        loss = scaler.scale(F.mse_loss(model(x), y))
        if x.sum() > 0:
            loss.backward()
        scaler.step(optimizer)

    model = nn.Linear(4, 2)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        dy2st.to_static(function)(model, optimizer, scaler, -torch.ones(2, 4), torch.ones(2, 2))


def test_clipping_tells_of_a_model_without_parameters():
    static = dy2st.to_static(lambda model: nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    with pytest.warns(UserWarning, match="empty generator"):
        assert static(nn.ReLU()) == 0


def test_a_closure():
    def function(model, optimizer, x, y):
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure)

    agree(function, maker(Experts, "Adam"), batches(6))


def test_two_optimizers():
    def function(one, other, of_one, of_other, x, y):
        of_other.zero_grad()
        other(torch.cat([one(x).detach(), y], 1)).mean().backward()
        of_other.step()
        of_one.zero_grad()
        loss = -other(torch.cat([one(x), y], 1)).mean()
        loss.backward()
        of_one.step()
        return loss

    def make():
        one, other = nn.Linear(4, 2), nn.Linear(4, 1)
        return one, other, torch.optim.Adam(one.parameters()), torch.optim.SGD(other.parameters(), lr=0.1)

    agree(function, make, batches(4), programs=2)


def test_eager_steps_before_and_after_share_the_state():
    static, calls = dy2st.to_static(step), batches(6)
    results = []
    for functions in ([step] * 6, [step, static, static, step, static, step]):
        torch.manual_seed(0)
        objects = maker(Experts, "Adam")()
        for function, call in zip(functions, calls):
            function(*objects, *call)
        results.append(observed(objects))
    same(*results)


def test_a_step_that_fails_half_way_leaves_what_eager_leaves():
    def function(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        if x.mean() > 0:
            raise ValueError("too large")
        optimizer.step()

    results = []
    for used in (function, dy2st.to_static(function)):
        torch.manual_seed(0)
        objects = maker(Both, "Adam")()
        for x, y in batches(4):
            with pytest.raises(ValueError, match="too large"):
                used(*objects, x.abs(), y)
            used(*objects, -x.abs(), y)
        results.append(observed(objects))
    same(*results)


# -- what is refused -------------------------------------------------------------------------------------------------------------


def test_a_hook_that_writes_and_runs_inside_is_refused():
    seen = []

    @dy2st.to_static
    def f(x):
        y = x * 2
        y.register_hook(lambda grad: seen.append(grad))
        y.sum().backward()

    with pytest.raises(dy2st.errors.CaptureError, match="writes a list, which is outside of it"):
        f(torch.ones(3, requires_grad=True))


def test_an_except_clause_for_what_backward_raises_is_refused():
    @dy2st.to_static
    def f(x):
        try:
            x.sum().backward()
        except RuntimeError:
            return 1

    with pytest.raises(dy2st.errors.CaptureError, match="backward"):
        f(torch.ones(3, requires_grad=True))


def test_errors_of_backward_are_eagers():
    @dy2st.to_static
    def f(x):
        (x * 2).backward()

    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        f(torch.ones(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="does not require grad"):
        f(torch.ones(()))


def test_a_gradient_of_another_shape_is_refused_as_in_eager():
    @dy2st.to_static
    def f(x):
        x.grad = torch.ones(2)

    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
        f(torch.ones(3, requires_grad=True))


def added_in_a_branch(a, b, x):
    out = a * 1
    if x > 0:
        out += b * x
    out.backward()


def put_in_in_a_branch(a, b, x):
    out = torch.zeros(2) + a
    if x > 0:
        out[0] = b * x
    out.sum().backward()


def added_in_a_loop(a, b, x):
    out = a * 1
    for i in range(int(x)):
        out += b * i
    out.backward()


def copied_in_either_branch(a, b, x):
    out = torch.zeros(2)
    if x > 0:
        out.copy_(b * x)
    else:
        out.copy_(a * x)
    out.sum().backward()


@pytest.mark.parametrize("function", [added_in_a_branch, put_in_in_a_branch, added_in_a_loop, copied_in_either_branch])
@pytest.mark.parametrize("backend", ["python", "native"])
def test_a_weight_that_only_a_change_in_place_reaches_may_have_no_gradient(function, backend):
    def step(a, b, x):
        a.grad = b.grad = None
        function(a, b, x)
        return a.grad, b.grad

    static = dy2st.to_static(step, backend=backend)
    (a, b), (c, d) = ([nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(2.0))] for _ in range(2))
    for number in (1.0, 0.0, 3.0, -1.0):
        x = torch.tensor(number)
        assert static(c, d, x) == step(a, b, x)


def test_a_branch_that_switches_gradients_before_a_backward_pass_is_refused():
    def step(w, v, x):
        if x > 0:
            w.requires_grad_(False)
        (w * v * x).backward()

    weights = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(1.0))
    with pytest.raises(dy2st.CaptureError, match="switches whether a tensor requires gradients"):
        dy2st.to_static(step)(*weights, torch.tensor(1.0))


@pytest.mark.parametrize("backend", ["python", "native"])
def test_gradients_that_only_a_change_in_place_reaches_may_be_none(backend):
    def f(a, b, x):
        out = a * 1
        if x > 0:
            out += b * x
        first, second = torch.autograd.grad(out, [a, b], allow_unused=True)
        return first, second is None, 0 if second is None else second * 2

    static = dy2st.to_static(f, backend=backend)
    weights = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(2.0))
    for number in (1.0, 0.0, 2.0, -1.0):
        assert static(*weights, torch.tensor(number)) == f(*weights, torch.tensor(number))
