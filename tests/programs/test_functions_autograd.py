"""Gradients inside of a static function: leaves made there, `torch.autograd.grad`, functions with a backward of their own, hooks."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import functional
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import dy2st
from tests.oracle import agree, same
from tests.programs.values import signs, vec

D = {"dtype": torch.float64}


def cube(x):
    return (x**3).sum()


def choose(x):
    return torch.sin(x) if x.sum() > 0 else x**2


def test_leaves_made_inside_require_gradients():
    def f(x):
        made = [
            torch.zeros(3, requires_grad=True, **D), torch.ones_like(x, requires_grad=True), x.new_ones(3, requires_grad=True),
            torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor([x[0], 1.0, 2.0], requires_grad=True),
            torch.full((3,), 2.0, requires_grad=True), nn.Parameter(torch.ones(3, **D)), torch.randn(3, requires_grad=True),
            x.detach().clone().requires_grad_(),
        ]  # fmt: skip
        with torch.no_grad():
            made.append(torch.ones(3, requires_grad=True, **D))
        late = x.detach()
        late.requires_grad = True
        plain = torch.ones(3, requires_grad=False)
        return [leaf * x for leaf in [*made, late]], plain * x

    agree(f, signs())


def test_grad_of_leaves_made_inside():
    def f(x):
        with torch.no_grad():
            w = torch.zeros(3, requires_grad=True, **D)
            with torch.enable_grad():
                loss = ((w - x) ** 2).sum()
            (g,) = torch.autograd.grad(loss, w)
            w -= g
        return w.detach()

    agree(f, signs())


def test_steps_of_an_inner_optimization():
    def f(x, rate):
        w = torch.ones(3, requires_grad=True, **D)
        while (loss := ((x * w) ** 2).sum()) > 0.5:
            (g,) = torch.autograd.grad(loss, w, create_graph=True)
            w = w - rate * g
        return (x * w).sum()

    agree(f, [(x / 5, torch.tensor(0.3, **D)) for x in signs(grad=True)])


@pytest.mark.parametrize(
    "options", [{}, {"create_graph": True}, {"retain_graph": True}, {"create_graph": True, "allow_unused": True}]
)
def test_grad_through_a_branch(options):
    def f(x):
        y = choose(x)
        (g,) = torch.autograd.grad(y.sum(), x, **options)
        return g * 2

    agree(f, signs(grad=True))


def test_autograd_grad_gives_second_derivatives():
    def f(x):
        (g,) = torch.autograd.grad(cube(x), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
        return (g.norm() - 1) ** 2 + h.sum()

    agree(f, signs(grad=True))


def test_gradient_that_only_one_branch_has():
    def f(x):
        z = torch.ones(3, requires_grad=True, **D)
        y = (x * z).sum() if x.sum() > 0 else cube(x)
        g, h = torch.autograd.grad(y, [x, z], allow_unused=True, retain_graph=True)
        if h is None:
            return g, h
        return g + h, h

    agree(f, signs(grad=True))


def test_gradient_that_is_never_there():
    def f(x):
        z = torch.ones(3, requires_grad=True, **D)
        (none,) = torch.autograd.grad(cube(x), [z], allow_unused=True, retain_graph=True)
        (zeros,) = torch.autograd.grad(cube(x), [z], materialize_grads=True)
        return none, zeros, x

    agree(f, signs(grad=True))


def test_unused_input_is_eagers_error():
    def f(x):
        z = torch.ones(3, requires_grad=True, **D)
        return torch.autograd.grad(cube(x), [z])

    agree(f, signs(grad=True))


def test_batched_gradients_and_functional():
    def f(x):
        batch = torch.eye(3, **D)
        (g,) = torch.autograd.grad(x**2, x, batch, is_grads_batched=True)
        return g, functional.jacobian(lambda v: v**2, x), functional.hessian(cube, x)

    agree(f, signs(grad=True))


class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * ctx.k, None


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, flag=True):
        ctx.save_for_backward(a, b)
        return a + b, (a * b if flag else a)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g, h):
        a, b = ctx.saved_tensors
        return g + h * b, g + h * a, None


class Separate(torch.autograd.Function):
    @staticmethod
    def forward(x, k):
        return (x * k, x.argmax()) if x.sum() > 0 else (x - k, x.argmin())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        return g * ctx.k * 2, None


class Deciding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        total = x
        while total.norm() > 1:
            total = total / 2
        return total if x.sum() > 0 else x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 7 if x.sum() > 0 else g


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 5


def test_own_backward_in_branches_and_loops():
    def f(x):
        k = 2 if x.sum() > 0 else 3
        y = Power.apply(x, k)
        if x.sum() > 0:
            y = Power.apply(y, 0.1)
        while y.norm() > 1:
            y = Power.apply(y / y.norm(), 0.5)
        a, b = Pair.apply(x, y)
        c, _ = Pair.apply(x, y, False)
        return a * b + c, Power.apply

    def without_method(x):
        return f(x)[0]

    agree(without_method, signs(grad=True))


power = Power.apply


def test_own_backward_under_a_name_of_its_method():
    def f(x):
        return power(x, 2) if x.sum() > 0 else power(x, 0.5)

    agree(f, signs(grad=True))


def test_own_backward_with_a_forward_that_tensors_decide():
    def f(x):
        y, position = Separate.apply(x, x.sum())
        z = x * 1
        same = InPlace.apply(z)
        return Deciding.apply(x) + y, position, same, z

    agree(f, signs(grad=True))


class Popping(torch.autograd.Function):
    """Its forward changes an argument, and gives an input back."""

    @staticmethod
    def forward(ctx, x, table):
        scale = table.pop("scale")
        ctx.save_for_backward(x)
        return (x, x * scale) if x.sum() > 0 else (x, x - scale)

    @staticmethod
    def backward(ctx, g, h):
        return g, None


class Setting:
    value = 3


class Reading(torch.autograd.Function):
    """Its forward reads what the caller has set."""

    @staticmethod
    def forward(ctx, x):
        ctx.n = x.shape[0]
        return x * Setting.value if any(ctx.needs_input_grad) or x.sum() > 0 else x - Setting.value

    @staticmethod
    def backward(ctx, g):
        return g


def test_an_own_backward_that_no_gradient_reaches_is_captured_with_its_forward():
    def f(x):
        k = 2 if x.sum() > 0 else 3
        y = Power.apply(x, k)
        a, b = Pair.apply(x, y, False)
        c, position = Separate.apply(x, k=x.sum())
        z = x * 1
        same = InPlace.apply(z)
        d, e = Popping.apply(x, {"scale": 2})
        return y, a, b, c, position, same is z, z, d is x, d, e, Deciding.apply(x)

    static = agree(f, signs())
    assert "apply" not in str(static.program(signs()[0]))


def test_a_forward_sees_what_its_caller_has_set():
    def f(x):
        Setting.value = 7
        try:
            return Reading.apply(x)
        finally:
            Setting.value = 3

    agree(f, signs())


def test_an_own_backward_under_no_grad_is_captured_with_its_forward():
    def f(x):
        with torch.no_grad():
            y, z = Popping.apply(x, {"scale": 2})
            a = Reading.apply(x)
        return y, y.requires_grad, z, a, torch.is_grad_enabled()

    static = agree(f, signs(grad=True))
    assert "apply" not in str(static.program(vec(1, 2, 3, grad=True)))


def test_a_forward_that_no_program_can_do_is_called_as_it_is():
    class OfData(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.data * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    agree(lambda x: OfData.apply(x) if x.sum() > 0 else x, signs())


def test_a_forward_of_numpy_is_refused_at_its_line():
    class ByNumpy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.from_numpy(x.detach().numpy() * 2)

    with pytest.raises(dy2st.errors.CaptureError, match=r"numpy\(\)"):
        dy2st.to_static(ByNumpy.apply)(vec(1, 2, 3))


class Weighted:
    def __init__(self, weight):
        self.weight = weight


class ByObject(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, holder):
        return x * holder.weight

    @staticmethod
    def backward(ctx, g):
        return g, None


@pytest.mark.parametrize("choose_weight", [lambda x: x.sum(), lambda x: 2 if x.sum() > 0 else 3, lambda x: x.sum().item()])
def test_an_own_backward_gets_an_object_with_values_of_the_program(choose_weight):
    agree(lambda x: ByObject.apply(x, Weighted(choose_weight(x))), signs(grad=True))


def test_an_own_backward_gets_an_object_with_plain_values():
    agree(lambda x: ByObject.apply(x, Weighted(3)) if x.sum() > 0 else x, signs(grad=True))


class Noticing(nn.Module):
    def __init__(self, register):
        super().__init__()
        self.inner = nn.Linear(3, 3, **D)
        register(self.inner)

    def forward(self, x):
        y = self.inner(x) if x.sum() < 5 else self.inner(x - 1)
        for _ in range(2):
            y = self.inner(y)
        return y


@pytest.mark.parametrize(
    "register",
    [
        lambda m: m.register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,)),
        lambda m: m.register_full_backward_pre_hook(lambda module, go: (go[0] * 3,)),
        lambda m: [m.register_full_backward_hook(lambda module, gi, go: None), m.register_full_backward_pre_hook(lambda m, go: go)],
        lambda m: m.register_forward_pre_hook(lambda module, args: (args[0] * 2,) if args[0].sum() > 0 else None),
        lambda m: m.register_forward_pre_hook(lambda module, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True),
        lambda m: m.register_forward_hook(lambda module, args, out: out * 2 if out.sum() > 0 else None),
        lambda m: m.register_forward_hook(lambda module, args, out: out.register_hook(lambda g: g * 2) and None),
    ],
)
def test_hooks_of_modules_change_outputs_and_gradients_as_in_eager(register):
    agree(Noticing(register), signs(grad=True))


def test_backward_hooks_see_the_gradients_of_each_call():
    seen: list[float] = []
    model = Noticing(lambda m: m.register_full_backward_hook(lambda module, gi, go: seen.append(go[0].sum().item())))
    x = vec(1, 2, 3, grad=True)
    model(x).sum().backward()
    expected, seen[:] = list(seen), []
    static = dy2st.to_static(model)
    static(x).sum().backward()
    assert seen == expected and len(seen) == 3


def test_old_backward_hooks_are_refused():
    model = Noticing(lambda m: m.register_backward_hook(lambda module, gi, go: None))
    with pytest.raises(dy2st.errors.CaptureError, match="register_full_backward_hook"):
        dy2st.to_static(model)(vec(1, 2, 3))


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(3, 3, **D) for _ in range(4)])

    def forward(self, x):
        if x.sum() > 0:
            x = checkpoint(self.layers[0], x, use_reentrant=False)
        while x.norm() > 3:
            x = checkpoint(lambda v: v * 0.5 if v.sum() > 0 else v * 0.25, x, use_reentrant=False)
        return checkpoint_sequential(self.layers, 2, checkpoint(choose, x, use_reentrant=False), use_reentrant=False)


def test_a_checkpointed_model_gives_eagers_results_and_gradients():
    agree(Checkpointed(), signs(grad=True))


def test_a_reentrant_checkpoint_gives_eagers_gradients():
    def f(x):
        return checkpoint(choose, x, use_reentrant=True)

    x, y = vec(1, 2, 3, grad=True), vec(1, 2, 3, grad=True)
    f(x).sum().backward()
    dy2st.to_static(f)(y).sum().backward()
    assert torch.equal(x.grad, y.grad)


class Accumulating(nn.Module):
    """Takes the gradients that have come to its buffer and parameter, as codebooks with moving averages do."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(3, **D))
        self.scale = nn.Parameter(torch.ones(3, **D))

    def forward(self, x):
        y = x * 2
        if x.sum() > 0:
            if self.mean.grad is not None:
                y = y + self.mean.grad
            else:
                self.mean.grad = None
            self.mean.data.lerp_(x.detach(), 0.1)
        y = y + self.scale if self.scale.grad is None else y - self.scale.grad
        return y, torch.ones(3).grad, x.grad is None, x.detach().grad


def test_gradients_from_before_the_call_are_read_at_each_call():
    eager, static = Accumulating(), dy2st.to_static(Accumulating())
    for prepare in (
        lambda model, x: None,
        lambda model, x: model(x)[0].sum().backward(),
        lambda model, x: model.zero_grad(),
        lambda model, x: setattr(model.mean, "grad", torch.full((3,), 5.0, **D)),
        lambda model, x: setattr(x, "grad", torch.ones(3, **D)),
    ):
        found = []
        for model in (eager, static):
            x = vec(1, 2, 3)
            prepare(model, x)
            found.append((model(x), model(-x), model.mean.clone()))
        same(*found)
    assert len(static.forward.program_cache) <= 5


@pytest.mark.parametrize("read", [lambda x: memoryview(x.detach().numpy()), lambda x: [x.untyped_storage()[0]]])
def test_a_forward_that_reads_the_data_of_a_tensor_is_refused(read):
    class Sorted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.tensor(read(x))

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(dy2st.errors.DataDependentError, match="known only when the program runs"):
        dy2st.to_static(Sorted.apply)(torch.ones(3, requires_grad=True))


def test_a_forward_may_make_a_tensor_of_the_items_of_another():
    class Listed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.tensor(list(x), device=x.device) * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    agree(lambda x: Listed.apply(x * 2), [(vec(1, 2, 3).requires_grad_(),), (vec(-1, 0, 3).requires_grad_(),)])


def test_a_forward_with_sizes_of_its_own_takes_a_way_that_its_input_decides():
    class Chosen(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            kept = x[x > 0] + x.new_ones(2)
            return kept * 2 if kept.sum() > 6 else kept

        @staticmethod
        def backward(ctx, grad):
            return grad.sum().expand(3)

    calls = [vec(1, -1, 2), vec(4, 1, -2), vec(1, 1, 1)]
    agree(lambda x: Chosen.apply(x * 2) + 1, [(x.requires_grad_(),) for x in calls])


def test_one_of_several_results_of_a_function_that_no_program_can_hold():
    known = {}

    class Best(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            best = None
            for k in range(3):
                if x.sum() > k:
                    best = x * k
            return best

        @staticmethod
        def backward(ctx, grad):
            known["calls"] = known.get("calls", 0) + 1
            return grad

    @dy2st.to_static
    def f(x):
        return Best.apply(x)

    with pytest.raises(dy2st.CaptureError, match="in its backward, which is outside of it") as info:
        f(torch.ones(2, requires_grad=True))
    assert "test_functions_autograd.py" in str(info.value)
