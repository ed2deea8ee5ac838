"""The transforms of `torch.func` inside of a static function."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from torch import func, nn

import dy2st
import dy2st_runtime
from tests.oracle import agree, same
from tests.programs.values import signs, vec

D = {"dtype": torch.float64}
W = torch.tensor([2.0, 3.0, 4.0], **D).requires_grad_()
LINEAR, OTHER = nn.Linear(3, 3, **D), nn.Linear(3, 3, **D)


def rows():
    values = [[1.0, 2.0, 3.0], [4.0, 5.0, -6.0]], [[-1.0, -2.0, 0.5], [0.1, 0.2, -0.3]]
    return [(torch.tensor(value, **D).requires_grad_(),) for value in values]


def poly(x):
    return (x**3 * W).sum() if x.sum() > 0 else torch.sin(x).sum()


def halved(x):
    parts = []
    while x.abs().sum() > 1:
        x = x / 2
        parts.append(x)
    return torch.stack(parts).sum() if len(parts) > 0 else x.sum()


def checked(x):
    if x.sum() < 0:
        raise ValueError("negative")
    return x.pow(2).sum()


def loud(x):
    print(x.shape, x)
    return x.pow(2).sum()


def in_place(x):
    y = x * 1
    y[0] = 5.0
    y += x
    return (y * x).sum()


def without_gradient(x):
    with torch.no_grad():
        c = x**2
    return (x**2 - c).sum() if x.requires_grad else x.sum()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * 3 * ctx.saved_tensors[0]


FUNCTIONS = [
    poly, halved, checked, loud, in_place, without_gradient,
    lambda v: Square.apply(v).sum(),
    lambda v: nn.functional.dropout(v, 0.5).pow(2).sum() + (torch.rand_like(v) * v).sum(),
    lambda v: torch.autograd.grad(v.pow(3).sum(), v, create_graph=True)[0].sum(),
    lambda v: func.grad(poly)(v).sum(),
    functools.partial(lambda k, v: (v * k).sum(), W),
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("grad", [False, True])
def test_func_grad_gives_the_gradients_of_eager(function, grad):
    agree(lambda x: (func.grad(function)(x), func.grad_and_value(function)(x)), signs(grad=grad))


@pytest.mark.parametrize("argnums", [0, 1, -1, (0, 1), (1,)])
def test_transforms_differentiate_the_arguments_that_argnums_names(argnums):
    def f(x):
        product = lambda a, b: a * b  # noqa: E731
        return (
            func.grad(lambda a, b: (a * b).sum(), argnums)(x, W), func.jacrev(product, argnums)(x, W),
            () if argnums == -1 else (func.jacfwd(product, argnums)(x, W), func.hessian(lambda *v: product(*v).sum(), argnums)(x, W)),
        )  # fmt: skip

    agree(f, signs(grad=True))


def test_results_and_arguments_of_any_structure():
    def f(x):
        return (
            func.grad(lambda d: ((d["a"] * d["b"][0]).sum(), (d["a"], {"c": d["b"][0].sin()})), has_aux=True)({"a": x, "b": [W]}),
            func.jacrev(lambda v: {"a": v * W, "b": (v.sum(), v)})(x),
            func.jacfwd(lambda v: ([v * W, v.sum()], v * 2), has_aux=True)(x),
            func.jvp(lambda a, b: ((a * b, a.sum()), b), (x, W), (W, x), has_aux=True),
        )

    agree(f, signs(grad=True))


def test_vjp_gives_a_function():
    def f(x):
        (a, b), back, aux = func.vjp(lambda d: ((d["a"] * d["b"], d["a"].sum()), d["a"].cos()), {"a": x, "b": W}, has_aux=True)
        total = back((a, b))[0]["a"]
        y, cube = func.vjp(lambda v: v**3, x)
        if x.sum() > 0:
            total = total + cube(y)[0]
        for _ in range(int(x.sum().abs())):
            total = total + cube(torch.ones_like(y))[0]
        return total, aux, torch.vmap(cube)(torch.eye(3, **D))

    agree(f, signs(grad=True))


@pytest.mark.parametrize("apply", [func.jacrev, func.jacfwd])
def test_transforms_of_transforms_give_higher_derivatives(apply):
    def f(x):
        g = lambda v: v**3 * v.sum()  # noqa: E731
        return apply(apply(g))(x), func.jvp(func.grad(lambda v: (v**4).sum()), (x,), (x.detach() * 2,))[1], apply(LINEAR)(x)

    agree(f, signs(grad=True))


BATCHED = [
    lambda x: torch.vmap(lambda r: r.dot(W) * r.shape[0])(x),
    lambda x: torch.vmap(lambda r, s: (r * s, r.sum()), in_dims=(0, None), out_dims=(1, 0))(x, W),
    lambda x: torch.vmap(lambda c: c.sum(), in_dims=1)(x),
    lambda x: torch.vmap(lambda c: c.sum(), in_dims=-1)(x),
    lambda x: torch.vmap(lambda d: {"o": d["a"] * d["b"]}, in_dims=({"a": 0, "b": None},))({"a": x, "b": W}),
    lambda x: torch.vmap(torch.vmap(lambda a: a * 2 + 1))(x),
    lambda x: torch.vmap(func.grad(lambda v: (v**3 * W).sum()))(x),
    lambda x: torch.vmap(func.jacrev(LINEAR))(x),
    lambda x: torch.vmap(lambda r: torch.where(r.sum() > 0, r, -r))(x),
    lambda x: torch.vmap(lambda r: torch.dropout(r, 0.5, True), randomness="different")(x),
    lambda x: torch.vmap(lambda r: r + torch.rand(3), randomness="same", chunk_size=1)(x),
    lambda x: torch.vmap(lambda r: (r, W), out_dims=(0, None))(x),
    lambda x: torch.vmap(lambda r, k: r * k)(x, k=W),
    lambda x: torch.vmap(LINEAR)(x),
    lambda x: func.jacrev(torch.vmap(torch.sin))(x),
]


@pytest.mark.parametrize("function", BATCHED)
def test_vmap_runs_a_function_over_batches_as_in_eager(function):
    agree(function, rows())


def test_vmap_runs_over_the_states_of_several_models():
    def f(x):
        parameters, buffers = func.stack_module_state([LINEAR, OTHER])
        call = lambda p, b, v: func.functional_call(LINEAR, (p, b), (v,))  # noqa: E731
        return torch.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)

    agree(f, rows())


def test_gradients_of_each_sample():
    def f(x):
        loss = lambda p, v: func.functional_call(LINEAR, p, (v.unsqueeze(0),)).pow(2).mean()  # noqa: E731
        return torch.vmap(func.grad(loss), in_dims=(None, 0))(dict(LINEAR.named_parameters()), x)

    agree(f, rows())


def test_batches_of_any_size():
    def f(x):
        return (
            torch.vmap(lambda r: r * W * r.shape[0])(x),
            func.grad(lambda v: (v**2 * v.shape[0]).sum())(x),
            func.jacrev(lambda v: v.sum(0))(x),
        )

    calls = [(torch.arange(3.0 * n, **D).reshape(n, 3),) for n in (2, 3, 1)]
    agree(f, calls, spec=[dy2st.InputSpec([None, 3], torch.float64)])


scale = 2.0
outside_gradient = func.grad(lambda v: (v * W * scale).sin().sum())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3, **D)
        self.rows = torch.vmap(self.row)

    def row(self, r):
        return self.linear(r)

    @functools.partial(torch.vmap, in_dims=(None, 0))
    def twice(self, r):
        return r * 2

    def forward(self, x):
        return self.rows(x) if x.sum() > 0 else outside_gradient(x)


def test_transforms_made_outside_are_called_inside():
    agree(Net(), rows())


def test_what_a_transform_made_outside_reads_is_guarded(monkeypatch):
    static = dy2st.to_static(lambda x: outside_gradient(x))
    for value in (2.0, 3.0):
        monkeypatch.setitem(globals(), "scale", value)
        torch.testing.assert_close(static(vec(1.0, 2.0, 3.0)), outside_gradient(vec(1.0, 2.0, 3.0)), rtol=0, atol=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: func.grad(lambda v: v * 2)(x),
        lambda x: func.grad(checked)(x.long()),
        lambda x: torch.vmap(lambda r: r if r > 0 else -r)(x),
        lambda x: torch.vmap(lambda r: r * r.item())(x),
        lambda x: torch.vmap(lambda r: r + torch.rand(3))(x),
        lambda x: torch.vmap(lambda r: r * x.new_ones(2))(torch.stack([x, x])),
    ],
)
def test_errors_of_torch_when_the_program_runs(function):
    agree(function, signs())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: func.grad(lambda v: 1.0)(x),
        lambda x: func.grad(lambda v: v.sum())(1.0),
        lambda x: func.grad(lambda v: v.sum(), has_aux=True)(x),
        lambda x: torch.vmap(lambda v: v, in_dims=2)(x),
        lambda x: torch.vmap(lambda v: 1.0)(x),
        lambda x: func.jacrev(lambda v: (v, 1))(x),
        lambda x: func.jvp(torch.sin, x, x),
        lambda x: func.jvp(torch.sin, (x,), (x, x)),
    ],
)
def test_errors_of_torch_at_capture(function):
    with pytest.raises((RuntimeError, ValueError)) as expected:
        function(vec(1.0, 2.0))
    with pytest.raises(expected.type):
        dy2st.to_static(function)(vec(1.0, 2.0))


def counts(x):
    seen = []

    def f(v):
        seen.append(v)
        return v.sum()

    return func.grad(f)(x), len(seen)


def made_in_a_branch(x):
    if x.sum() > 0:
        _, back = func.vjp(torch.sin, x)
    else:
        _, back = func.vjp(torch.cos, x)
    return back(x)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (counts, "writes a list"),
        (made_in_a_branch, "what torch.func.vjp gave is called outside"),
        (lambda x: func.vjp(torch.sin, x)[1], "that it makes itself"),
        (lambda x: func.jacfwd(torch.mul, -1)(x, x), "for which torch gives zeros"),
        (lambda x: func.linearize(torch.sin, x)[0], "torch.func.linearize"),
    ],
)
def test_transforms_that_cannot_be_captured_are_refused_with_a_reason(function, says):
    with pytest.raises(dy2st.CaptureError, match=says) as error:
        dy2st.to_static(function)(vec(1.0, 2.0, 3.0))
    assert __file__ in str(error.value) or "makes itself" in says


def test_a_program_with_transforms_is_saved_and_loaded(tmp_path):
    def f(x):
        a = func.grad(lambda v: (v**3 * x).sum())(x)
        if x.sum() > 0:
            a = a + func.vjp(lambda v: v * x, x)[1](a)[0]
        batch = torch.vmap(lambda r: r * x.sum(), randomness="same")(x)
        return a, func.hessian(lambda v: (v**3).sum())(x), batch, func.jvp(torch.sin, (x,), (a,))

    static = dy2st.to_static(f)
    static(signs()[0])
    dy2st.save(static, tmp_path / "m.dy2st")
    loaded = dy2st_runtime.load(tmp_path / "m.dy2st")
    for call in signs():
        torch.testing.assert_close(loaded(call), f(call), rtol=0, atol=0)


@dy2st.to_static
def static_energy(x):
    if x.sum() > 0:
        return (x**3).sum()
    return (x**2).sum()


def energy(x):
    if x.sum() > 0:
        return (x**3).sum()
    return (x**2).sum()


TRANSFORMS = {
    "grad": torch.func.grad,
    "grad of grad": lambda f: torch.func.grad(lambda x: torch.func.grad(f)(x).sum()),
    "jacrev": torch.func.jacrev,
    "jacfwd": torch.func.jacfwd,
    "hessian": torch.func.hessian,
    "vjp": lambda f: lambda x: torch.func.vjp(f, x)[1](torch.tensor(2.0, dtype=x.dtype)),
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),)),
    "functionalize": torch.func.functionalize,
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=list(TRANSFORMS))
def test_of_a_static_function(transform):
    for x in signs():
        same(transform(energy)(x), transform(static_energy)(x))


def test_vmap_of_a_static_function():
    rows = torch.stack(signs())
    scaled = dy2st.to_static(lambda x, k: x.sin() * k)
    same(torch.vmap(lambda x: x.sin() * 2)(rows), torch.vmap(lambda x: scaled(x, 2))(rows))
    with pytest.raises(RuntimeError, match="vmap: It looks like"):
        torch.vmap(static_energy)(rows)


def test_functional_call_of_a_static_module():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()).double()
    static = dy2st.to_static(copy.deepcopy(model))
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def gradients(module):
        def loss(given, x):
            return torch.func.functional_call(module, given, (x,)).sum()

        return torch.vmap(torch.func.grad(loss), (None, 0))(parameters, torch.stack(signs()))

    same(gradients(model), gradients(static))
