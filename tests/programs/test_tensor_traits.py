"""What tensors tell beside their values, on each way: `requires_grad`, `is_leaf`, `grad_fn is None`, their class, `is_conj`, identity."""

from __future__ import annotations

import pytest
import torch

import dy2st
from tests.oracle import agree

GRAD = torch.ones(2, requires_grad=True), (-torch.ones(2)).requires_grad_()
PLAIN = torch.ones(2), -torch.ones(2)
COMPLEX = torch.tensor([1 + 2j, 3 - 1j])


def test_requires_grad_after_a_loop_of_any_number_of_iterations():
    def f(x, n):
        h = torch.zeros(2)
        for _ in range(int(n)):
            h = h + x
        if h.requires_grad:
            return h * 2
        return h + 1

    agree(f, [(GRAD[0], torch.tensor(n)) for n in (2, 0, 1)])


def test_requires_grad_in_the_test_of_a_loop():
    def f(x):
        h = torch.zeros(2)
        while h.sum() < 3:
            h = h + x.abs() + 1
            if h.requires_grad and h.sum() > 2:
                break
        return h.requires_grad, h

    agree(f, [GRAD[0], GRAD[1] * 0.1])


def test_leaves_and_functions_of_autograd_after_a_branch():
    def f(x):
        h = x if x.sum() > 0 else x * 2
        return h + 1 if h.is_leaf else h - 1, h.grad_fn is None, h.requires_grad

    agree(f, GRAD)


def test_what_an_early_return_detaches():
    def kept(x):
        if x.sum() > 0:
            return x.detach()
        return x * 2

    def f(x):
        y = kept(x) * 3
        return y.requires_grad, y + (1 if y.requires_grad else 0)

    agree(f, GRAD)


def test_a_leaf_on_both_ways_is_a_leaf():
    def f(x, y):
        h = x if x.sum() > 0 else y
        return h.is_leaf, h.requires_grad, h.grad_fn is None

    agree(f, [(x, GRAD[0].clone().detach().requires_grad_()) for x in GRAD])
    agree(f, [(x, PLAIN[0]) for x in GRAD])


def test_requires_grad_of_what_containers_hold():
    def f(x, n):
        h = (torch.zeros(2), {"a": torch.ones(2)})
        for _ in range(int(n)):
            h = (h[0] + x, {"a": h[1]["a"] * x})
        items = [x, torch.zeros(2)]
        if x.sum() > 0:
            items[0] = items[1]
        return h[0].requires_grad and h[1]["a"].requires_grad, [item.requires_grad for item in items]

    agree(f, [(x, torch.tensor(n)) for x in GRAD for n in (2, 0)])


def test_gradients_switched_off_in_a_branch():
    def f(x):
        if x.sum() > 0:
            with torch.no_grad():
                y = x * 2
        else:
            y = x * 2
        return y.requires_grad, y

    agree(f, GRAD)


@pytest.mark.parametrize("change", [lambda h, x: h.add_(x), lambda h, x: h.requires_grad_(), lambda h, x: h.detach_()])
def test_a_tensor_that_a_branch_changes_in_place_is_refused_where_it_is_asked(change):
    def f(x):
        h = torch.zeros(2) + x.detach() if change(torch.zeros(2), x).requires_grad else x * 2
        if x.sum() > 0:
            change(h, x)
        return h.requires_grad

    with pytest.raises(dy2st.errors.CaptureError, match="changes it in place"):
        dy2st.to_static(f)(GRAD[0])


class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.ones(2))
        self.b = torch.nn.Parameter(torch.full((2,), 3.0))


class ParameterOrNot(Weights):
    def forward(self, x):
        w = self.a if x.sum() > 0 else self.a.detach()
        return x + 1 if isinstance(w, torch.nn.Parameter) else x - 1


class EitherParameter(Weights):
    def forward(self, x):
        w = self.a if x.sum() > 0 else self.b
        return (
            isinstance(w, torch.nn.Parameter),
            type(w) is torch.nn.Parameter,
            w.is_leaf,
            type(self.a) is torch.nn.Parameter,
            x * w,
        )


class FrozenOrNot(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.b.requires_grad_(False)

    def forward(self, x):
        layer = self.a if x.sum() > 0 else self.b
        y = layer(x)
        return y * 2 if y.requires_grad else y, any(p.requires_grad for p in layer.parameters())


@pytest.mark.parametrize("make", [ParameterOrNot, EitherParameter, FrozenOrNot])
def test_weights_that_a_branch_chooses(make):
    agree(make(), PLAIN)


def test_a_weight_that_is_frozen_between_calls_is_asked_again():
    class Asks(Weights):
        def forward(self, x):
            return x + 1 if self.a.requires_grad else x - 1

    module = Asks()
    static = dy2st.to_static(module)
    for on in (True, False, True):
        module.a.requires_grad_(on)
        assert torch.equal(static(PLAIN[0]), PLAIN[0] + (1 if on else -1))
    assert len(static.forward.program_cache) == 2


def test_arguments_that_differ_in_what_was_asked_have_programs_of_their_own():
    def leaf(x):
        return x.is_leaf, x.grad_fn is None

    def kind(x):
        return isinstance(x, torch.nn.Parameter), type(x) is torch.Tensor, type(x) is torch.nn.Parameter

    static = dy2st.to_static(leaf)
    for x in (GRAD[0], GRAD[0] * 2, GRAD[0]):
        assert static(x) == leaf(x)
    static = dy2st.to_static(kind)
    for x in (PLAIN[0], torch.nn.Parameter(PLAIN[0]), PLAIN[0]):
        assert static(x) == kind(x)


def test_lazily_conjugated_and_negated_tensors():
    def f(z):
        y = z.real
        if y.sum() > 0:
            z, y = z.conj(), torch._neg_view(y)
        return z.is_conj(), z * 2, z.imag, torch.view_as_real(z.resolve_conj()), y.is_neg(), y.resolve_neg() * 1

    agree(f, [COMPLEX, -COMPLEX])


def test_arguments_that_are_conjugated_negated_or_made_in_inference_mode():
    def f(z, y):
        return z.is_conj(), z.imag, y.is_neg(), y * 2, z.is_inference()

    static = dy2st.to_static(f)
    with torch.inference_mode():
        made = COMPLEX.clone()
    for z in (COMPLEX, COMPLEX.conj(), made):
        for y in (PLAIN[0], torch._neg_view(PLAIN[0])):
            expected, found = f(z, y), static(z, y)
            assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a is b for a, b in zip(expected, found))
    assert len(static.program_cache) == 1


def test_the_dtype_that_a_tensor_chooses_is_itself():
    def f(x):
        chosen = torch.float16 if x[0] > 0 else torch.int64
        y = x.to(chosen)
        return y.dtype is chosen, y.dtype == torch.int64, y.dtype is torch.float16

    agree(f, PLAIN)


def test_identity_of_tensors_that_may_not_be_there():
    def f(x, y):
        h = x if x.sum() > 0 else None
        k = y if y.sum() > 0 else None
        return h is x, x is h, h is k, h is None, k is not h

    agree(f, [(x, y.clone()) for x in PLAIN for y in PLAIN])


def test_how_often_a_tensor_has_been_written():
    def f(x):
        y = x * 1
        if x.sum() > 0:
            y.add_(1)
        return y._version, x._version, y * 2

    agree(f, PLAIN)
    static, x = dy2st.to_static(f), torch.ones(2)
    for count in range(3):
        assert static(x)[1] == x._version == count
        x.add_(1)
    agree(f, GRAD)


def test_tensors_that_are_made_anew_have_not_been_written():
    def f(x):
        made = [
            torch.zeros(3),
            torch.ones(2),
            torch.full((2,), 1.0),
            torch.eye(2),
            torch.arange(3),
            torch.rand(2),
            torch.randperm(3),
        ]
        made += [torch.zeros_like(x), x.new_ones(2), torch.empty(2).uniform_(), torch.tensor([1.0])]
        if x.sum() > 0:
            made[0].add_(1)
        return [tensor._version for tensor in made], made

    agree(f, PLAIN)


def test_gradients_that_the_function_switches_off_are_on_before_at_the_first_call_too():
    def f(x):
        y = x * 2
        torch.set_grad_enabled(False)
        return y, x * 3

    static = dy2st.to_static(f)
    for _ in range(2):
        torch.set_grad_enabled(True)
        made = static(GRAD[0])
        assert [part.requires_grad for part in made] == [True, False] and not torch.is_grad_enabled()


def test_gradients_that_a_branch_switches_off_for_good_are_refused_and_stay_on():
    def f(x):
        if x.sum() > 0:
            torch.set_grad_enabled(False)
        return x * 2

    with pytest.raises(dy2st.errors.CaptureError, match="switched on or off where a tensor decides"):
        dy2st.to_static(f)(GRAD[0])
    assert torch.is_grad_enabled()


def test_items_of_a_tensor_that_is_changed_in_place_after():
    def f(x, w):
        v = x * w
        for y, z in zip(v, v.roll(1)):
            if z > 1:
                v = v + y
            v[-1] += v.sum().detach()
        return v * 2

    w = torch.ones(3, requires_grad=True)
    agree(f, [(torch.tensor([1.0, 2.0, 0.5]), w), (torch.tensor([-1.0, -2.0, 0.5]), w)])


def test_leaves_that_are_told_apart_and_one_that_may_be_any():
    def f(x, n):
        y = x * 2
        y = y.detach() if x.sum() < 0 else y
        y = y.clone().requires_grad_() if n > 0 and y.is_leaf else y
        return y.sum() * 2

    agree(f, [(x, torch.tensor(n)) for x in GRAD for n in (1, -1)])
