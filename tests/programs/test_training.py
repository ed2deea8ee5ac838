"""Training through a program is training in eager: values, gradients of any order, random numbers, hooks and modes, bit for bit."""

from __future__ import annotations

import copy
import functools
import types
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils import checkpoint

from dy2st import to_static
from tests.oracle import agree, same

X = torch.tensor([1.0, -2.0, 3.0])
BATCH = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


def eager_and_static(make: Any) -> tuple[Any, Any]:
    """The same module in eager and static."""
    torch.manual_seed(0)
    eager = make()
    static = copy.deepcopy(eager)
    return eager, to_static(static)


def train(net: Any, batches: Any, optimizer: Any, steps: int = 1) -> Any:
    """Losses, parameters, gradients and buffers after some steps."""
    torch.manual_seed(1)
    made = optimizer(net.parameters())
    losses = []
    for _ in range(steps):
        for x in batches:
            made.zero_grad()
            loss = (net(x) ** 2).mean()
            loss.backward()
            made.step()
            losses.append(loss.detach())
    grads = {name: p.grad for name, p in net.named_parameters()}
    return losses, grads, {k: v.clone() for k, v in net.state_dict().items()}


def trains(make: Any, batches: Any = (BATCH, -BATCH, BATCH * 2), programs: int = 1, optimizer: Any = None) -> Any:
    eager, static = eager_and_static(make)
    optimizer = optimizer or functools.partial(torch.optim.SGD, lr=0.1)
    same(train(eager, batches, optimizer), train(static, batches, optimizer))
    if programs:
        assert len(static.forward.program_cache) == programs
    return static


class Branchy(nn.Module):
    """An if, a while and a for, each with parameters of its own, some of which a call does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(3, 3) for _ in range(3))
        self.unused = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            x = torch.tanh(self.a(x))
        else:
            x = torch.sigmoid(self.b(x))
        while x.abs().max() > 0.5:
            x = x * 0.5 + torch.tanh(self.c(x)) * 0.05
        for _ in range(int(x.shape[0])):
            x = x + x.sin()
        return x


OPTIMIZERS = {
    "sgd": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "adam": functools.partial(torch.optim.Adam, lr=0.01),
    "adamw": functools.partial(torch.optim.AdamW, lr=0.01, foreach=True),
    "rmsprop": functools.partial(torch.optim.RMSprop, lr=0.01),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_over_several_steps(optimizer: str) -> None:
    eager, static = eager_and_static(Branchy)
    batches = (BATCH, -BATCH, BATCH.abs(), BATCH * 3)
    same(train(eager, batches, OPTIMIZERS[optimizer], 3), train(static, batches, OPTIMIZERS[optimizer], 3))
    assert len(static.forward.program_cache) == 1


def test_the_gradient_of_a_parameter_of_another_branch_stays_none() -> None:
    eager, static = eager_and_static(Branchy)
    for net in (eager, static):
        net(BATCH.abs()).sum().backward()
    for net in (eager, static):
        assert net.b.weight.grad is None and net.unused.weight.grad is None
        assert net.a.weight.grad is not None
    same([p.grad for p in eager.parameters()], [p.grad for p in static.parameters()])


def test_double_gradients_of_parameters() -> None:
    eager, static = eager_and_static(Branchy)
    found = []
    for net in (eager, static):
        x = BATCH.clone().requires_grad_()
        (gx,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        (gx**2).sum().backward()
        found.append((gx, x.grad, [p.grad for p in net.parameters()]))
    same(found[0], found[1])


def _loop(x: Any, trips: Any) -> Any:
    for _ in range(int(trips)):
        x = x * x.sin() + 0.1
    while x.sum() > 1:
        x = x * 0.5
    if x.sum() < 0:
        x = x.exp()
    return x


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_loop_passes_gradcheck_for_any_number_of_iterations(trips: int) -> None:
    static = to_static(_loop)
    x = torch.tensor([0.3, -0.7, 0.9], dtype=torch.float64, requires_grad=True)
    count = torch.tensor(trips)
    assert torch.autograd.gradcheck(static, (x, count))
    assert torch.autograd.gradgradcheck(static, (x, count))
    same(_loop(x, count), static(x, count))
    assert len(static.program_cache) == 1


def test_jacobian_and_functional_transforms_of_gradients() -> None:
    static = to_static(_loop)
    x = torch.tensor([0.3, -0.7, 0.9])
    count = torch.tensor(2)
    same(
        torch.autograd.functional.jacobian(lambda v: _loop(v, count), x),
        torch.autograd.functional.jacobian(lambda v: static(v, count), x),
    )
    same(
        torch.autograd.functional.hessian(lambda v: _loop(v, count).sum(), x),
        torch.autograd.functional.hessian(lambda v: static(v, count).sum(), x),
    )


def test_gradients_taken_inside_agree_or_are_refused() -> None:
    def f(x: Any) -> Any:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = (x**3).sum()
            (g,) = torch.autograd.grad(y, x)
        return g

    try:
        agree(f, [X, -X])
    except Exception as error:
        assert "autograd.grad" in str(error) and "test_training.py" in str(error)


class Dropouts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        x = self.drop(x)
        if x.sum() > 0:
            x = F.dropout(self.linear(x), 0.3, self.training)
        else:
            x = x + torch.rand_like(x) + torch.randn(3)
        for _ in range(3):
            x = torch.bernoulli(torch.sigmoid(x)) + x
        return x * torch.randperm(3) + torch.randint(0, 5, (3,))


def test_random_numbers_are_drawn_as_in_eager() -> None:
    eager, static = eager_and_static(Dropouts)
    for mode in (True, False, True):
        eager.train(mode), static.train(mode)
        states = []
        for net in (eager, static):
            torch.manual_seed(7)
            out = [net(x) for x in (BATCH, -BATCH, BATCH)]
            states.append((out, torch.get_rng_state()))
        same(states[0], states[1])
    assert len(static.forward.program_cache) == 2


def test_a_generator_is_an_argument() -> None:
    def f(x: Any, generator: Any) -> Any:
        if x.sum() > 0:
            return x + torch.rand(3, generator=generator)
        return x

    static = to_static(f)
    for x in (X, -X, X):
        a, b = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
        same(f(x, a), static(x, b))
        same(f(x, a), static(x, b))
        same(a.get_state(), b.get_state())


def test_batch_norm_and_friends() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv1d(1, 4, 2), nn.BatchNorm1d(4), nn.ReLU(), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4, track_running_stats=True)
            )
            self.last = nn.BatchNorm1d(4)

        def forward(self, x: Any) -> Any:
            y = self.layers(x[:, None])
            if y.sum() > 0:
                y = self.last(y)
            return self.last(y).mean(-1)

    static = trains(Net)
    eager = copy.deepcopy(static)
    same(static.eval()(BATCH), eager.eval()(BATCH))


def test_a_cumulative_batch_norm() -> None:
    eager, static = eager_and_static(lambda: nn.Sequential(nn.BatchNorm1d(3, momentum=None)))
    for scale in (1, 2, 3):
        same(static(BATCH * scale), eager(BATCH * scale))
    same(static.state_dict(), eager.state_dict())
    same(static.eval()(BATCH), eager.eval()(BATCH))


# -- hooks -------------------------------------------------------------------------------------------------------------------


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        if x.sum() > 0:
            return self.a(x) * scale
        return self.b(x) * scale


def _hooks(net: Any, log: list[Any]) -> None:
    net.a.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    net.a.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True)
    net.a.register_forward_hook(lambda module, args, out: out + args[0])
    net.b.register_forward_hook(lambda module, args, kwargs, out: out * 3, with_kwargs=True)
    net.register_forward_pre_hook(lambda module, args, kwargs: ((args[0] + 0.5,), {"scale": 2.0}), with_kwargs=True)
    net.register_forward_hook(lambda module, args, out: out - 1)
    net.register_forward_hook(lambda module, args, out: log.append("called"))


def test_forward_hooks_run_as_in_eager() -> None:
    eager, static = eager_and_static(Hooked)
    logs: tuple[list[Any], list[Any]] = ([], [])
    for net, log in zip((eager, static), logs):
        _hooks(net, log)
    for x in (BATCH, -BATCH, BATCH.abs(), -BATCH.abs()):
        same(eager(x), static(x))
    assert logs[0] == logs[1]


def test_hooks_with_tensor_control_flow() -> None:
    def hook(module: Any, args: Any, out: Any) -> Any:
        if out.sum() > 0:
            return out * 2
        return None

    eager, static = eager_and_static(Hooked)
    for net in (eager, static):
        net.a.register_forward_hook(hook)
    try:
        for x in (BATCH, -BATCH, BATCH.abs(), -BATCH.abs()):
            same(eager(x), static(x))
    except AssertionError:
        raise
    except Exception as error:
        assert "test_training.py" in str(error)


def test_tensor_hooks_registered_inside_run_in_the_backward() -> None:
    log = types.SimpleNamespace(seen=[])

    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * 3)
        if x.sum() > 0:
            z = y.exp()
            z.register_hook(lambda g: log.seen.append(g.clone()))
            return z
        return y.sin()

    static = to_static(f)
    results = []
    for runner in (f, static):
        log.seen.clear()
        for x in (X, -X, X):
            x = x.clone().requires_grad_()
            runner(x).sum().backward()
            results.append((x.grad, list(log.seen)))
    same(results[:3], results[3:])
    assert len(static.program_cache) == 1


def test_tensor_hooks_registered_outside_run_in_the_backward() -> None:
    found = []
    eager, static = eager_and_static(Branchy)
    for net in (eager, static):
        log: list[Any] = []
        net.a.weight.register_hook(lambda g: g * 2)
        net.c.weight.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.clone()))
        x = BATCH.abs().requires_grad_()
        x.register_hook(lambda g: log.append(g.clone()))
        out = net(x)
        out.register_hook(lambda g: log.append(g))
        out.sum().backward()
        found.append((log, [p.grad for p in net.parameters()], x.grad))
    same(found[0], found[1])


def test_backward_hooks_of_the_static_module() -> None:
    found = []
    eager, static = eager_and_static(Branchy)
    for net in (eager, static):
        log: list[Any] = []
        net.register_full_backward_hook(lambda module, gi, go: log.append((gi, go)))
        net.register_full_backward_pre_hook(lambda module, go: (go[0] * 2,))
        x = BATCH.clone().requires_grad_()
        net(x).sum().backward()
        found.append((log, x.grad, [p.grad for p in net.parameters()]))
    same(found[0], found[1])


def test_backward_hooks_of_a_submodule() -> None:
    found: list[Any] = []
    for net in eager_and_static(Branchy):
        log: list[Any] = []
        net.a.register_full_backward_hook(lambda module, gi, go: log.append((gi, go)))
        net(BATCH).sum().backward()
        found.append((log, [p.grad for p in net.parameters()]))
    same(found[0], found[1])


def test_global_module_hooks_run_while_they_are_registered() -> None:
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, args, out: out + 1 if isinstance(module, nn.Linear) else None
    )
    try:
        eager, static = eager_and_static(Branchy)
        same(eager(BATCH), static(BATCH))
    finally:
        handle.remove()
    same(eager(BATCH), static(BATCH))


# -- autograd in parts ---------------------------------------------------------------------------------------------------------


class Clamp(torch.autograd.Function):
    """Its backward is not what autograd would do."""

    @staticmethod
    def forward(ctx: Any, x: Any, low: float) -> Any:
        ctx.save_for_backward(x)
        return x.clamp(min=low)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 10 + x, None


def test_custom_autograd_functions_use_their_own_backward() -> None:
    def f(x: Any) -> Any:
        y = Clamp.apply(x * 1.5, 0.0)
        if y.sum() > 2:
            y = Clamp.apply(y - 1, 0.5)
        for _ in range(int(x.shape[0])):
            y = Clamp.apply(y, 0.1)
        return y

    agree(f, [X.clone().requires_grad_(), (-X).requires_grad_(), (X * 3).requires_grad_()])


def test_no_grad_in_parts() -> None:
    @torch.no_grad()
    def frozen(x: Any) -> Any:
        if x.sum() > 0:
            return x * 2
        return x * 3

    def f(x: Any) -> Any:
        with torch.no_grad():
            a = x * 2
            if a.sum() > 0:
                a = a + 1
        b = frozen(x)
        with torch.set_grad_enabled(False):
            c = x.exp()
            with torch.enable_grad():
                d = x.sin()
        assert not a.requires_grad and not b.requires_grad and not c.requires_grad
        if x.sum() > 0:
            with torch.no_grad():
                e = x * 5
        else:
            e = x * 7
        return x * a + b + c * d + e

    agree(f, [X.clone().requires_grad_(), (-X).requires_grad_()])
    with torch.no_grad():
        agree(f, [X.clone().requires_grad_(), (-X).requires_grad_()])


def test_inference_mode_inside_agrees_or_is_refused() -> None:
    def f(x: Any) -> Any:
        with torch.inference_mode():
            a = (x * 2).sum()
        return x * 2 + float(a)

    try:
        agree(f, [X, -X])
    except AssertionError:
        raise
    except Exception as error:
        assert "inference_mode" in str(error)


def test_a_call_in_inference_mode_gives_inference_tensors() -> None:
    eager, static = eager_and_static(Branchy)
    for x in (BATCH, -BATCH):
        with torch.inference_mode():
            a, b = eager(x), static(x)
        same(a, b)
        assert a.is_inference() and b.is_inference()
        same(eager(x), static(x))


def test_a_decorator_of_grad_mode_on_forward() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        @torch.no_grad()
        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                return self.linear(x)
            return x

    eager, static = eager_and_static(Net)
    for x in (BATCH, -BATCH):
        same(eager(x), static(x))


def test_detach_data_and_requires_grad() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x.detach() * y
        if z.sum() > 0:
            z = z + x.data
        w = torch.zeros(3, requires_grad=True)
        return z * x + (w * 2).sum(), z.requires_grad, w.requires_grad

    agree(f, [(X.clone().requires_grad_(), X.clone().requires_grad_()), ((-X).requires_grad_(), X.clone().requires_grad_())])


def test_in_place_on_views() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        view = y[1:]
        view.mul_(3)
        if x.sum() > 0:
            view += 1
            y[0] = x[1] * 2
        view.view(-1)[0] = 5
        for i in range(int(x.shape[0])):
            y[i] *= 2
        return y.exp().log()

    agree(f, [X.clone().requires_grad_(), (-X).requires_grad_()])


def test_accumulation_into_a_tensor_of_results() -> None:
    def f(x: Any) -> Any:
        out = torch.zeros(3, 3)
        for i in range(3):
            if x[i] > 0:
                out[i] = x * x[i]
            else:
                out[i, i] = x[i]
        return out

    agree(f, [X.clone().requires_grad_(), (-X).requires_grad_()])


def test_autocast_inside_and_around_agrees_with_eager() -> None:
    def inside(x: Any, w: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ w
            if y.sum() > 0:
                y = y @ w
        with torch.autocast("cpu", enabled=False):
            z = x @ w
        return y.float() + z

    def plain(x: Any, w: Any) -> Any:
        y = x @ w
        if y.sum() > 0:
            y = y @ w
        return y

    w = torch.eye(3).requires_grad_()
    calls = [(BATCH.clone().requires_grad_(), w), (-BATCH, w)]
    agree(inside, calls, programs=2)
    with torch.autocast("cpu", torch.bfloat16):
        agree(plain, calls, programs=2)
        agree(inside, calls, programs=2)
    eager, static = eager_and_static(Branchy)
    with torch.autocast("cpu", torch.bfloat16):
        a, b = eager(BATCH), static(BATCH)
    same(a, b)
    a.sum().backward(), b.sum().backward()
    same([p.grad for p in eager.parameters()], [p.grad for p in static.parameters()])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.complex64])
def test_branches_and_loops_take_tensors_of_other_dtypes(dtype: torch.dtype) -> None:
    def f(x: Any) -> Any:
        if x.abs().sum() > 1:
            x = x * 2 + 0.1
        while x.abs().sum() > 1:
            x = x * 0.3
        return x.abs()

    agree(f, [X.to(dtype).requires_grad_(), (X * 0.01).to(dtype).requires_grad_(), (-X).to(dtype).requires_grad_()])


def test_inputs_that_require_a_gradient_and_inputs_that_do_not() -> None:
    def f(x: Any, y: Any) -> Any:
        if x.sum() > 0:
            return x * 2
        return y * 3

    a, b = X.clone(), X.clone().requires_grad_()
    agree(f, [(a, a), (b, b), (a, b), (-b.detach(), b)], programs=None)


# -- modules of torch and of users ---------------------------------------------------------------------------------------------


class Gate(nn.Module):
    """A user's module with tensor control flow, to put among torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            return self.linear(x)
        return x * 0.5


def test_modules_in_containers_train_as_in_eager() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seq = nn.Sequential(Gate(), nn.ReLU(), nn.Sequential(Gate(), nn.Tanh()))
            self.many = nn.ModuleList([Gate(), Gate()])
            self.named = nn.ModuleDict({"a": Gate(), "b": nn.Linear(3, 3)})
            self.weights = nn.ParameterList([nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))])
            self.table = nn.ParameterDict({"w": nn.Parameter(torch.ones(3))})

        def forward(self, x: Any) -> Any:
            x = self.seq(x)
            for index, layer in enumerate(self.many):
                x = layer(x) + self.weights[index]
            for name, layer in self.named.items():
                x = layer(x) if name == "a" else x + layer(x)
            if x.sum() > 0:
                x = self.many[-1](x) * self.table["w"]
            return x

    trains(Net)


def test_parametrized_modules_train_as_in_eager() -> None:
    class Symmetric(nn.Module):
        def forward(self, w: Any) -> Any:
            if w.sum() > 0:
                return w.triu() + w.triu(1).transpose(-1, -2)
            return w

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = parametrizations.weight_norm(nn.Linear(3, 3))
            self.b = nn.Linear(3, 3)
            parametrize.register_parametrization(self.b, "weight", Symmetric())
            self.c = parametrizations.spectral_norm(nn.Linear(3, 3))
            self.d = parametrizations.orthogonal(nn.Linear(3, 3))

        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                x = self.a(x)
            return self.d(self.c(self.b(x)))

    torch.manual_seed(0)
    eager = Net()
    torch.manual_seed(0)
    static = to_static(Net())
    optimizer = functools.partial(torch.optim.SGD, lr=0.1)
    same(train(eager, (BATCH, -BATCH), optimizer), train(static, (BATCH, -BATCH), optimizer))


@pytest.mark.parametrize("training", [True, False])
def test_a_transformer_encoder_trains_and_infers_as_in_eager(training: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(4, 2, 8, 0.1, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, x: Any) -> Any:
            mask = torch.zeros(x.shape[:2], dtype=torch.bool)
            mask[:, -1] = x.sum() > 0
            y = self.encoder(x, src_key_padding_mask=mask)
            if y[0, 0, 0] > 0:  # not the sum, which is 0 but for rounding after the last norm
                y = y * 2
            return y

    x = torch.randn(2, 5, 4)
    eager, static = eager_and_static(Net)
    eager.train(training), static.train(training)
    if training:
        same(train(eager, (x, -x), OPTIMIZERS["sgd"]), train(static, (x, -x), OPTIMIZERS["sgd"]))
    for mode in (torch.enable_grad, torch.no_grad):
        with mode():
            for value in (x, -x):
                torch.manual_seed(0)
                a = eager(value)
                torch.manual_seed(0)
                b = static(value)
                if training or torch.is_grad_enabled():
                    same(a, b)
                else:  # eager takes one fused kernel for inference, the program the operations that it stands for
                    torch.testing.assert_close(a, b)


def test_recurrent_modules_and_attention() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 4, num_layers=2, dropout=0.2, batch_first=True, bidirectional=True)
            self.gru = nn.GRU(8, 4, batch_first=True)
            self.cell = nn.LSTMCell(4, 4)
            self.attention = nn.MultiheadAttention(4, 2, dropout=0.1, batch_first=True)
            self.norm = nn.LayerNorm(4)

        def forward(self, x: Any) -> Any:
            y, (h, c) = self.lstm(x[None])
            y, _ = self.gru(y)
            y, weights = self.attention(y, y, y)
            h, c = self.cell(y[:, 0])
            if weights.sum() > 0:
                h, c = self.cell(y[:, 1], (h, c))
            return self.norm(h) + y

    trains(Net)


def test_embeddings_and_losses_train_as_in_eager() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(5, 3, padding_idx=0)
            self.bag = nn.EmbeddingBag(5, 3)
            self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)

        def forward(self, ids: Any) -> Any:
            x = self.embed(ids) + self.bag(ids[None])
            if (ids > 2).any():
                x = x * 2
            return self.loss(x, ids % 3)

    trains(Net, (torch.tensor([0, 1, 2, 2]), torch.tensor([4, 3, 0, 1])))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_inside_agree_or_are_refused(reentrant: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = Gate()

        def forward(self, x: Any) -> Any:
            x = x * 1
            x = checkpoint.checkpoint(self.gate, x, use_reentrant=reentrant)
            return checkpoint.checkpoint(lambda v: self.gate(v).sin(), x, use_reentrant=reentrant)

    eager, static = eager_and_static(Net)
    found = []
    for net in (eager, static):
        x = BATCH.clone().requires_grad_()
        try:
            net(x).sum().backward()
        except Exception as error:
            assert net is static and "checkpoint" in str(error) and "test_training.py" in str(error), error
            return
        found.append((x.grad, [p.grad for p in net.parameters()]))
    same(found[0], found[1])


def test_a_static_module_under_checkpoint() -> None:
    eager, static = eager_and_static(Gate)
    found = []
    for net in (eager, static):
        x = BATCH.clone().requires_grad_()
        checkpoint.checkpoint(net, x, use_reentrant=False).sum().backward()
        found.append((x.grad, [p.grad for p in net.parameters()]))
    same(found[0], found[1])


def test_saved_tensor_hooks_around() -> None:
    eager, static = eager_and_static(Branchy)
    found = []
    for net in (eager, static):
        packed: list[Any] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t):
            out = net(BATCH)
        out.sum().backward()
        found.append((packed, [p.grad for p in net.parameters()]))
    same(found[0], found[1])


def test_functional_call_and_vmap_refuse_or_agree() -> None:
    eager, static = eager_and_static(Gate)
    weights = {name: p.detach() * 2 for name, p in eager.named_parameters()}
    same(torch.func.functional_call(eager, weights, (BATCH.abs(),)), torch.func.functional_call(static, weights, (BATCH.abs(),)))
    same(eager(BATCH), static(BATCH))
    grads = []
    for net in (eager, static):
        try:
            grads.append(torch.func.grad(lambda w: torch.func.functional_call(net, w, (BATCH.abs(),)).sum())(weights))
        except Exception as error:
            assert net is static, error
            return
    same(grads[0], grads[1])


def test_retain_grad_and_anomaly_mode() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y.retain_grad()
        if x.sum() > 0:
            return y, (y * 3).sum()
        return y, y.sum()

    static = to_static(f)
    found = []
    for runner in (f, static):
        with torch.autograd.set_detect_anomaly(True):
            x = X.clone().requires_grad_()
            y, out = runner(x)
            out.backward()
            found.append((y.grad, x.grad))
    same(found[0], found[1])


def test_gradient_accumulation_and_clipping() -> None:
    found = []
    for net in eager_and_static(Branchy):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        norms = []
        for _ in range(3):
            for x in (BATCH, -BATCH):
                net(x).sum().backward()
            norms.append(nn.utils.clip_grad_norm_(net.parameters(), 0.5))
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        found.append((norms, net.state_dict()))
    same(found[0], found[1])


def test_freezing_and_thawing_needs_two_programs() -> None:
    eager, static = eager_and_static(Branchy)
    for net in (eager, static):
        net.log = []
        for frozen in (True, False, True):
            net.a.requires_grad_(not frozen)
            net.zero_grad()
            net(BATCH.abs()).sum().backward()
            net.log.append([p.grad for p in net.parameters()])
    same(eager.log, static.log)
    assert len(static.forward.program_cache) == 2


def _scaled_roots(x: Any, y: Any) -> Any:
    total = x * 2 + 1
    for _ in range(3):
        if total.sum() > 4:
            total = torch.tanh(total * 0.5) + y
        else:
            total = total / 3 - y.sin()
    return total, total.square().mean()


def test_forward_mode_derivatives_are_those_of_eager() -> None:
    from torch.autograd import forward_ad

    static = to_static(_scaled_roots)
    for scale in (1.0, -2.0, 3.0):
        found = []
        for function in (_scaled_roots, static):
            with forward_ad.dual_level():
                x = forward_ad.make_dual(torch.linspace(-1, 2, 4) * scale, torch.ones(4))
                results = function(x, torch.full((4,), 0.25))
                found.append([tuple(forward_ad.unpack_dual(result)) for result in results])
        same(found[0], found[1])
        same(*(torch.func.jvp(f, (torch.ones(4), torch.zeros(4)), (torch.ones(4), torch.ones(4))) for f in (_scaled_roots, static)))
