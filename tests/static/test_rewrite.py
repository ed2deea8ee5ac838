import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dy2st
from tests.oracle import agree, same
from tests.runtime.passes.optimized import operators

FLAG = torch.ones(8)


def composed(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def fused(x, weight, eps):
    return torch.rms_norm(x, weight.shape, weight, eps)


def softplus(x):
    return torch.log1p(torch.exp(x))


def one_softplus(x):
    return F.softplus(x)


@pytest.fixture(scope="module")
def norm():
    return dy2st.rewrite(composed, fused, torch.randn(4, 8), torch.randn(8), 1e-6)


@pytest.fixture(scope="module")
def soft():
    return dy2st.rewrite(softplus, one_softplus, torch.randn(4))


def places(rule, function, *args, **kwargs):
    """How often a rule matches; where it does, the result must stay what it is."""
    with torch.no_grad():
        static = dy2st.to_static(function, passes=[rule], **kwargs)
        expected, found = function(*args), static(*args)
        torch.testing.assert_close(found, expected)
        return rule.count(dy2st.to_static(function, **kwargs).program(*args))


# ---- where it matches


@pytest.mark.parametrize("sizes", [(4, 8), (1, 3), (7, 64)])
def test_any_size_and_number(norm, sizes):
    def function(x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 0.25) * weight

    assert places(norm, function, torch.randn(sizes), torch.randn(sizes[1])) == 1


def test_operands_in_either_order(norm):
    def function(x, weight):
        return weight * (torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * x)

    assert places(norm, function, torch.randn(4, 8), torch.randn(8)) == 1


def test_a_rule_fits_dynamic_sizes(norm):
    spec = [dy2st.InputSpec([None, 8]), dy2st.InputSpec([8])]
    assert places(norm, lambda x, w: composed(x, w, 1e-6), torch.randn(4, 8), torch.randn(8), input_spec=spec) == 1


def reshaped(x):
    return (x.t() * 2).reshape(x.shape[0] * 1, x.shape[1])


def test_a_dynamic_size_in_the_replacement():
    rule = dy2st.rewrite(lambda x: torch.exp(x).log(), lambda x: x + torch.zeros(x.shape[0], 1), torch.randn(3, 2))

    def function(x):
        return torch.log(torch.exp(x))

    with torch.no_grad():
        static = dy2st.to_static(function, passes=[rule], input_spec=[dy2st.InputSpec([None, 2])])
        for size in (3, 5, 0):
            x = torch.randn(size, 2)
            torch.testing.assert_close(static(x), x)
    assert operators(static.program(torch.randn(3, 2))).count("exp") == 0


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8))

    def forward(self, x, n):
        while n > 0:
            x = composed(x, self.weight, 1e-5)
            if x.sum() > 0:
                x = x + composed(x, self.weight * 2, 1e-5)
            n = n - 1
        return composed(composed(x, self.weight, 1e-5), self.weight, 1e-4)


def test_in_all_blocks_and_through_gradients(norm):
    torch.manual_seed(0)
    net = Nested()
    static = dy2st.to_static(Nested(), passes=[norm])
    static.load_state_dict(net.state_dict())
    for n in (2, 0):
        x = torch.randn(4, 8)
        expected, found = net(x, torch.tensor(n)), static(x, torch.tensor(n))
        torch.testing.assert_close(found, expected)
        a, b = (torch.autograd.grad(y.square().sum(), m.weight)[0] for y, m in ((expected, net), (found, static)))
        torch.testing.assert_close(a, b)
    program = static.forward.program(torch.randn(4, 8), torch.tensor(2))
    dy2st.verify(program)
    assert operators(program).count("rms_norm") == 4 and "rsqrt" not in operators(program)
    assert norm.count(program) == 0


def test_a_pattern_in_its_own_replacement_ends():
    rule = dy2st.rewrite(torch_neg, twice_negated, torch.ones(3))
    with torch.no_grad():
        static = dy2st.to_static(torch_neg, passes=[rule])
        assert torch.equal(static(torch.ones(3)), -torch.ones(3))
    assert operators(static.program(torch.ones(3))) == ["neg", "neg", "neg"]


def torch_neg(x):
    return -x


def twice_negated(x):
    return -(-(-x))


# ---- where it does not


def other_dtype(x, w):
    return composed(x.double(), w.double(), 1e-6)


def other_rank(x, w):
    return composed(x[None], w, 1e-6)


def other_weight(x, w):
    return composed(x, w[:, None][:4], 1e-6)


def other_number(x, w):
    return x * torch.rsqrt(x.pow(3).mean(-1, keepdim=True) + 1e-6) * w


def used_outside(x, w):
    square = x.pow(2)
    return x * torch.rsqrt(square.mean(-1, keepdim=True) + 1e-6) * w + square


def used_in_a_branch(x, w):
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    y = x * scale * w
    if y.sum() > 0:
        y = y + scale
    return y


def written_on_the_way(x, w):
    x = x + 0
    square = x.pow(2)
    x.mul_(2)
    return x * torch.rsqrt(square.mean(-1, keepdim=True) + 1e-6) * w


def other_mode_on_the_way(x, w):
    square = x.pow(2)
    with torch.autocast("cpu", torch.bfloat16):
        return x * torch.rsqrt(square.mean(-1, keepdim=True) + 1e-6) * w


def one_of_two_tensors(x, w):
    return x * torch.rsqrt((x + 1).pow(2).mean(-1, keepdim=True) + 1e-6) * w


@pytest.mark.parametrize(
    "function",
    [
        other_dtype, other_rank, other_weight, other_number, used_outside, used_in_a_branch, written_on_the_way, other_mode_on_the_way,
        one_of_two_tensors,
    ],
)  # fmt: skip
def test_what_a_rule_does_not_fit_is_left_alone(norm, function):
    assert places(norm, function, torch.randn(4, 8).abs(), torch.rand(8)) == 0


def test_a_result_written_in_place_is_left_alone(soft):
    def function(x):
        y = torch.log1p(torch.exp(x))
        y.mul_(2)
        return y

    assert places(soft, function, torch.randn(4)) == 0
    agree(function, [torch.randn(4)], static=dy2st.to_static(function, passes=[soft]))


def test_replacements_that_share_memory_stay_inside():
    rule = dy2st.rewrite(lambda x: x * 1.0, lambda x: x, torch.randn(4))

    def inside(x):
        return (x * 1.0).exp()

    def outside(x):
        return x * 1.0

    assert places(rule, inside, torch.randn(4)) == 1 and places(rule, outside, torch.randn(4)) == 0
    with torch.no_grad():
        x = torch.ones(4)
        y = dy2st.to_static(outside, passes=[rule])(x)
    assert y is not x and y.data_ptr() != x.data_ptr()


def test_sizes_that_are_computed_with_stand_for_themselves():
    rule = dy2st.rewrite(halves, swapped, torch.randn(2, 8))
    assert places(rule, halves, torch.randn(2, 8)) == 1
    assert places(rule, halves, torch.randn(2, 6)) == 0


def halves(x):
    a, b = x[:, : x.shape[1] // 2], x[:, x.shape[1] // 2 :]
    return torch.cat([b, a], 1)


def swapped(x):
    return torch.roll(x, x.shape[1] // 2, 1)


# ---- what is no rule


def two(x):
    return x, x


def branching(x):
    return x + 1 if x.sum() > 0 else x - 1


def in_place(x):
    return (x + 0).add_(1)


def random(x):
    return x + torch.rand_like(x) * 0


def closing(x):
    return x + FLAG


def unused(x):
    torch.exp(x)
    return x + 1


def plus_one(x):
    return x + 1


def identity(x):
    return x


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (two, two, "the pattern of a rule must return one tensor, not a tuple"),
        (branching, plus_one, "no effects, random numbers or control flow"),
        (in_place, plus_one, "calls aten.add_.Tensor"),
        (random, identity, "calls aten.rand_like.default"),
        (closing, plus_one, "reads FLAG, a tensor from outside"),
        (unused, plus_one, "that its result does not use"),
        (plus_one, lambda x: x + 2, "computes something else"),
        (plus_one, lambda x: (x + 1).double(), r"returns a torch.float64\[8\], the pattern a torch.float32\[8\]"),
        (identity, identity, "nothing to look for"),
    ],
)
def test_functions_that_make_no_rule_are_refused(pattern, replacement, message):
    with pytest.raises(dy2st.RewriteError, match=message):
        dy2st.rewrite(pattern, replacement, torch.ones(8))


def test_arguments_that_make_no_rule_are_refused():
    with pytest.raises(dy2st.RewriteError, match="example arguments"):
        dy2st.rewrite(plus_one, plus_one)
    with pytest.raises(dy2st.RewriteError, match="tensor argument 1"):
        dy2st.rewrite(lambda x, y: x + 1, lambda x, y: x + y, torch.zeros(3), torch.ones(3))


def test_examples_are_left_as_they_are(norm):
    x, w = torch.randn(4, 8), torch.randn(8)
    before = x.clone(), w.clone()
    dy2st.rewrite(composed, fused, x, w, 1e-6)
    same((x, w), before)
    assert repr(norm) == "Rule(composed to fused: 6 operations become 1)"


def test_a_factor_of_a_sum_keeps_its_side():
    rule = dy2st.rewrite(lambda x, y: torch.add(x, y.exp(), alpha=2), lambda x, y: y.exp() * 2 + x, torch.ones(3), torch.ones(3))
    assert places(rule, lambda x, y: torch.add(x, y.exp(), alpha=2), torch.ones(3), torch.ones(3)) == 1
    assert places(rule, lambda x, y: torch.add(y.exp(), x, alpha=2), torch.ones(3), torch.ones(3)) == 0
