"""Operators and backward functions of the user's own: one operation of the program each, with their own gradients."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.function import once_differentiable

import dy2st
from tests.devices import DEVICE
from tests.oracle import agree

SIGNS = [[1.5, 2.0, -0.7], [-1.0, -2.0, 0.5], [3.0, 0.1, 0.2]]


def inputs():
    return [torch.tensor(values, requires_grad=True) for values in SIGNS]


@torch.library.custom_op("dy2st_custom::scale", mutates_args=())
def scale(x: torch.Tensor, k: float) -> torch.Tensor:
    return x * k


@scale.register_fake
def _(x, k):
    return torch.empty_like(x)


def _keep_factor(ctx, inputs, output):
    ctx.k = inputs[1]


scale.register_autograd(lambda ctx, g: (g * ctx.k, None), setup_context=_keep_factor)


@torch.library.custom_op("dy2st_custom::waves", mutates_args=())
def waves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sin(), x.cos()


@waves.register_fake
def _(x):
    return torch.empty_like(x), torch.empty_like(x)


def _keep_input(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


waves.register_autograd(
    lambda ctx, a, b: a * ctx.saved_tensors[0].cos() - b * ctx.saved_tensors[0].sin(), setup_context=_keep_input
)


@torch.library.custom_op("dy2st_custom::total", mutates_args=())
def total(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(parts).sum(0)


@total.register_fake
def _(parts):
    return torch.empty_like(parts[0])


def _keep_length(ctx, inputs, output):
    ctx.n = len(inputs[0])


total.register_autograd(lambda ctx, g: [g] * ctx.n, setup_context=_keep_length)


@torch.library.custom_op("dy2st_custom::increase", mutates_args=("x",))
def increase(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("dy2st_custom::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    return x * 3


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, g):
        return g


_library = torch.library.Library("dy2st_custom", "FRAGMENT")
_library.define("rounded(Tensor x) -> Tensor")
_library.impl("rounded", lambda x: Rounded.apply(x) + 1, "CompositeImplicitAutograd")
_library.define("only_on_cpu(Tensor x) -> Tensor")
_library.impl("only_on_cpu", lambda x: x + 1, "CPU")


def in_branch_and_loop(x):
    if x.sum() > 0:
        x = scale(x, 2.0)
    while x.abs().max() > 1:
        x = scale(x, 0.5)
    return x


def several_results(x):
    a, b = waves(x)
    return a * b if a.sum() > 0 else a - b


def list_of_tensors(x):
    return total([x, x * 2]) if x.sum() > 0 else total([x])


def in_place(x):
    y = x.detach().clone()
    while y.sum() < 10:
        increase(y)
    return y * x


def made_of_a_function(x):
    x = torch.ops.dy2st_custom.rounded(x * 3)
    return x if x.sum() > 0 else -x


@pytest.mark.parametrize("function", [in_branch_and_loop, several_results, list_of_tensors, in_place, made_of_a_function])
def test_operators_with_gradients_of_their_own(function):
    agree(function, inputs())


def test_an_operator_made_of_a_function_is_recorded_once():
    program = dy2st.to_static(made_of_a_function).program(torch.ones(3, requires_grad=True))
    assert str(program).count("dy2st_custom") == 1
    assert "call_" not in str(program)


class Products(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        x, y = ctx.saved_tensors
        return g * y if ctx.needs_input_grad[0] else None, g * x if ctx.needs_input_grad[1] else None


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3 if x.sum() > 0 else x * 1

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g if x.sum() > 0 else g


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()


def for_one_operand(x):
    a, b = Products.apply(x.detach() * 2, x)
    return (a, b) if a.sum() > 5 else (a * 2, b)


def twice_differentiated(x):
    y = Cubed.apply(x)
    if y.sum() > 0:
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y + g
    return y


def in_a_loop(x):
    for _ in range(2):
        x = Cubed.apply(x)
    while x.abs().sum() < 50:
        x = Once.apply(x) * 30
    return x


@pytest.mark.parametrize("function", [for_one_operand, twice_differentiated, in_a_loop])
def test_functions_with_a_backward_of_their_own(function):
    agree(function, inputs())


@pytest.mark.skipif(DEVICE.type == "cuda", reason="the operator has a kernel for the CPU only")
@pytest.mark.parametrize("operator", [unknown, torch.ops.dy2st_custom.only_on_cpu])
def test_the_real_kernel_shows_what_an_operator_without_a_fake_one_gives(operator):
    def handled(x):
        try:
            return operator(x)
        except RuntimeError:
            return x

    for function in (operator, lambda x: operator(x) if x.sum() > 0 else x, handled):
        agree(lambda x, function=function: function(x), [torch.ones(2), -torch.ones(2)])


@torch.library.custom_op("dy2st_custom::repeated", mutates_args=())
def repeated(x: torch.Tensor, times: int) -> torch.Tensor:
    return torch.cat([x] * times)


@torch.library.custom_op("dy2st_custom::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@torch.library.custom_op("dy2st_custom::turned", mutates_args=())
def turned(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.t().contiguous(), x.sum(1) > 0


@torch.library.custom_op("dy2st_custom::short", mutates_args=())
def short(x: torch.Tensor) -> torch.Tensor:
    return x[: 4 if float(x.flatten()[0]) < 100 else 2].clone()


def test_sizes_that_runs_of_the_real_kernel_show_stay_dynamic():
    def function(x):
        y = repeated(x, 2)
        turned_y, kept = turned(y)
        found = positive(y.flatten())
        return y.shape, turned_y * 2, kept, found.shape[0], found.sum()

    static = dy2st.to_static(function, input_spec=[dy2st.InputSpec([None, 2])])
    for length in (3, 4, 5, 1):
        x = torch.randn(length, 2)
        for got, wanted in zip(static(x), function(x), strict=True):
            assert torch.equal(got, wanted) if isinstance(wanted, torch.Tensor) else got == wanted
    assert len(static.program_cache) == 1


def test_a_size_that_the_data_changes_after_all_is_an_error_at_run_time():
    static = dy2st.to_static(lambda x: short(x) * 2)
    assert static(torch.ones(6)).shape == (4,)
    with pytest.raises(RuntimeError, match="another size than the runs"):
        static(torch.full((6,), 200.0))


def test_operands_that_only_the_real_kernel_takes_are_captured():
    def grouped(a, b, ends):
        y = torch._grouped_mm(a, b, offs=ends)
        return y * 2 if y.sum() > 0 else y

    spec = [dy2st.InputSpec([None, 16]), dy2st.InputSpec([2, 16, 8]), dy2st.InputSpec([2], torch.int32)]
    static = dy2st.to_static(grouped, input_spec=spec)
    for rows in (6, 8, 12):
        given = torch.randn(rows, 16), torch.randn(2, 16, 8), torch.tensor([rows // 2, rows], dtype=torch.int32)
        for sign in (1, -1):
            assert torch.equal(static(given[0] * sign, *given[1:]), grouped(given[0] * sign, *given[1:]))
    assert len(static.program_cache) == 1


def test_what_autograd_refuses_is_said_as_eager_does():
    def leaf_in_place(x):
        x = x.clone().requires_grad_()
        if x.sum() > 0:
            x += 1
        return x

    agree(leaf_in_place, [torch.ones(2), -torch.ones(2)])


class Scaled(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return scale(x, 2.0)
        return x


def test_a_saved_model_needs_the_namespace_of_its_operators_to_load(tmp_path):
    path = tmp_path / "model.dy2st"
    dy2st.save(Scaled(), path, [dy2st.InputSpec([3])])
    with pytest.raises(dy2st.LoadError, match="dy2st_custom"):
        dy2st.load(path)
    loaded = dy2st.load(path, namespaces=["dy2st_custom"])
    for x in inputs():
        assert torch.equal(loaded(x), Scaled()(x))
    report = dy2st.export(Scaled(), tmp_path / "model.pt2", input_spec=[dy2st.InputSpec([3])])
    assert report
