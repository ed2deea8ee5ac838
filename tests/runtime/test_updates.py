"""What the native executor does in place without the dispatcher: bits, versions, aliasing and errors are eager's."""

from __future__ import annotations

import itertools

import pytest
import torch

import dy2st

NUMBERS = (0.001, -0.3, 0.5, 0.7, 1, 1.0, 2, float("inf"), float("nan"), 1e300)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().view(torch.int64 if tensor.dtype == torch.float64 else torch.int32)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one.isnan(), other.isnan()) and (
        torch.equal(bits(one.nan_to_num(nan=7.0)), bits(other.nan_to_num(nan=7.0)))
    )  # fmt: skip


@torch.no_grad()
def scaled(x, y, z, number):
    x.mul_(number).add_(y)
    x.sub_(z, alpha=number)
    x.add_(y, alpha=number)
    return x.div_(z).mul_(y).sub_(number)


@torch.no_grad()
def averaged(x, y, z, number):
    x.lerp_(y, number)
    x.addcmul_(y, z, value=number)
    x.addcdiv_(y, z, value=number)
    return x.addcmul_(x, x).add_(1)


@torch.no_grad()
def onto_itself(x, y, z, number):
    x.add_(x, alpha=0.1).mul_(x).lerp_(x, 0.3)
    y.add_(y[:1].clone()).addcmul_(x, x, value=0.01)
    return x


def inputs(shape, dtype):
    torch.manual_seed(3)
    return [torch.randn(shape, dtype=dtype) for _ in range(3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("function", [scaled, averaged, onto_itself])
def test_the_bits_are_eagers(function, dtype):
    static = dy2st.to_static(function, backend="native")
    for shape, number in itertools.product([(), (1,), (7,), (3, 5), (129,), (40000,), (0,)], NUMBERS):
        given = [
            x if dtype.is_floating_point else (x * 10).long()
            for x in inputs(shape, torch.float64 if dtype == torch.int64 else dtype)
        ]
        ours, theirs = [x.clone() for x in given], [x.clone() for x in given]
        try:
            expected = function(*theirs, number)
        except Exception as error:
            with pytest.raises(type(error)):
                static(*ours, number)
            continue
        result = static(*ours, number)
        assert result is ours[0] and expected is theirs[0]
        for one, other in zip(ours, theirs):
            assert one._version == other._version
            assert same(one.double(), other.double()), (shape, number)


def of_parts(function):
    """Call a function with tensors that are parts of others, not contiguous, or in the same memory."""

    def run(base, number):
        results = []
        for x, y, z in (
            (base[:4], base[2:6], base[4:8]),
            (base[:4], base[:4], base[4:8]),
            (base.view(5, 4).t()[:, :4], base[:16].view(4, 4), torch.ones(4, 4)),
            (base.detach(), base, base * 2),
        ):
            try:
                results.append(function(x, y, z, number).clone())
            except RuntimeError as error:
                results.append(str(error).partition("\n")[0])
        return results, base, base._version

    return run


@pytest.mark.parametrize("function", [scaled, averaged])
def test_memory_that_tensors_share(function):
    static = dy2st.to_static(function, backend="native")
    for number in (0.25, 1):
        ours, theirs = (torch.linspace(0.5, 2, 20) for _ in range(2))
        for one, other in zip(of_parts(static)(ours, number)[0], of_parts(function)(theirs, number)[0]):
            assert one == other if isinstance(one, str) else torch.equal(one, other)
        assert torch.equal(ours, theirs) and ours._version == theirs._version


def test_what_is_saved_for_a_backward_pass_is_seen_to_change():
    def step(w, x):
        loss = (w * w * x).sum()
        with torch.no_grad():
            w.mul_(0.5)
        loss.backward()
        return loss

    for function in (step, dy2st.to_static(step, backend="native")):
        w = torch.ones(4, requires_grad=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            function(w, torch.arange(4.0))


def test_leaves_cannot_be_changed_where_gradients_are_recorded():
    def step(w, x):
        w.add_(x, alpha=0.5)
        return w

    for function in (step, dy2st.to_static(step, backend="native")):
        w = torch.ones(4, requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            function(w, torch.arange(4.0))
        assert torch.equal(w.detach(), torch.ones(4)) and function(torch.ones(4), torch.ones(4)).tolist() == [1.5] * 4


def test_gradients_flow_through_what_is_changed_in_place():
    def step(w, x):
        y = w * 2
        y.add_(x, alpha=0.5).mul_(x)
        return y.addcmul_(x, w).sum()

    results = []
    for function in (step, dy2st.to_static(step, backend="native")):
        w = torch.linspace(1, 2, 4, requires_grad=True)
        function(w, torch.arange(4.0)).backward()
        results.append(w.grad)
    assert torch.equal(*results)


def test_gradients_that_are_set_and_read():
    def step(w, x, how):
        w.grad = None if how > 1 else x
        there = w.grad is not None
        y = w.grad * 2 if there else x
        w.grad = y if how > 0 else w.grad
        return y, w.grad, there

    static = dy2st.to_static(step, backend="native")
    for how in (0, 1, 2, 0):
        for x in (torch.ones(4), torch.arange(4.0)):
            ours, theirs = (torch.ones(4, requires_grad=True) for _ in range(2))
            one, other = static(ours, x, torch.tensor(how)), step(theirs, x, torch.tensor(how))
            assert (one[1] is ours.grad, one[1] is x, one[0] is one[1]) == (
                other[1] is theirs.grad,
                other[1] is x,
                other[0] is other[1],
            )
            assert torch.equal(one[0], other[0]) and one[2] == other[2]


def test_gradients_of_another_size_are_refused():
    def step(w, x):
        w.grad = x.view(-1)
        return w

    for function in (step, dy2st.to_static(step, backend="native")):
        with pytest.raises(RuntimeError, match="size"):
            function(torch.ones(2, 2, requires_grad=True), torch.ones(2, 2))
