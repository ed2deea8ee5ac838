"""What PyTorch's compiler gets wrong, compiled with our guards: these programs go through it, C++ and all."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

import dy2st
from tests.fuzz.backends import uncompiled

W = torch.linspace(-0.4, 0.5, 64).view(8, 8)


def steps(x, n):
    """An operand of a branch lies in the result of a ``cat``; without iterations, memory of what the loop took is free for ``z``."""
    y = x @ W
    i = n * 0
    while i < n:
        one, two = y @ W, (y + 1) @ W
        new = y + (0.2 * y + 0.3 * one + 0.5 * two + 0.1 * x)
        last = torch.cat([new, i.expand(8, 1)], 1)[:, 1:] @ W
        if (new * one - two * last).sum() < 10:
            y = new
        else:
            y = y * 0.5
        i = i + 1
    z = x @ W.t()
    return y, z, z @ W


def test_operands_of_branches_and_loops_without_iterations():
    static = dy2st.to_static(steps, backend="inductor")
    with torch.no_grad():
        for n in (2, 0, 5, 1):
            x = torch.linspace(0, 1 + n, 64).view(8, 8)
            assert_close(static(x, torch.tensor(n)), steps(x, torch.tensor(n)))
    assert "compiled whole, with its branches and loops" in str(static.report())


def test_guards_count_in_the_key_of_the_compilers_cache():
    from dy2st_runtime.executors.inductor.guards import guarded

    settings = torch._inductor.config
    with guarded():
        own = settings.post_grad_custom_post_pass.uuid()
        with guarded():
            assert settings.post_grad_custom_post_pass.uuid() not in (None, own)
    with settings.patch(post_grad_custom_post_pass=lambda graph: None), guarded():
        assert settings.post_grad_custom_post_pass.uuid() is None


def equal_results(x, n):
    a = x * 2
    i = n * 0
    while i < n:
        a = a * 0.5 + 0.25
        i = i + 1
    return a * 3, a * 3, a.clone(), a.clone()


def nothing_added(x, n):
    zero = torch.zeros_like(x)
    i = n * 0
    while i < n:
        print(i.item())
        i = i + 1
    return x * 1.5 + zero, x + zero, x - zero + zero, [zero + x]


@pytest.mark.parametrize("function", [equal_results, nothing_added])
@pytest.mark.parametrize("training", [False, True])
def test_results_that_a_compiler_finds_to_be_the_same_are_tensors_of_their_own(function, training):
    static = dy2st.to_static(function, backend="inductor")
    with torch.set_grad_enabled(training), uncompiled():
        for n in (1, 0, 3):
            x = torch.ones(2, 3, requires_grad=training)
            wanted, found = function(x, torch.tensor(n)), static(x, torch.tensor(n))
            assert_close(found, wanted)
            leaves = [x, *tree_leaves(found)]
            assert len({leaf.untyped_storage().data_ptr() for leaf in leaves}) == len(leaves)
            if training:
                gradients = [torch.autograd.grad(sum(out.sum() for out in tree_leaves(r)), x)[0] for r in (wanted, found)]
                assert_close(*gradients)


def test_conversions_to_a_smaller_dtype_and_back_round():
    def f(x):
        return (x * 3).bfloat16().float() - x * 3

    x = torch.tensor([0.1234567, 1.7654321])
    assert torch.equal(dy2st.to_static(f, backend="inductor")(x), f(x))
