"""Sums of matrix products become one product, where that is less work, and stay what they are."""

from __future__ import annotations

import pytest
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from dy2st_runtime.executors.inductor.products import join_sums

aten = torch.ops.aten


def products(graph):
    return len(graph.find_nodes(op="call_function", target=aten.mm.default))


def check(function, *shapes, expected, dtype=torch.float64):
    """Join the sums of a function of matrices; compare values and count products."""
    torch.manual_seed(0)
    args = [torch.randn(shape, dtype=dtype) for shape in shapes]
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(arg) for arg in args]
        made = make_fx(function)(*fakes)
    before = products(made.graph)
    join_sums(made.graph)
    made.recompile()
    assert (before, products(made.graph)) == expected
    assert_close(fx.Interpreter(made).run(*args), function(*args))


def test_three_products_become_one():
    def total(a, b, c, d, e, f):
        return aten.mm(a, b) + aten.mm(c, d) + aten.mm(e, f)

    check(total, (8, 2), (2, 9), (8, 3), (3, 9), (8, 1), (1, 9), expected=(3, 1))
    check(total, (8, 2), (2, 9), (8, 3), (3, 9), (8, 1), (1, 9), expected=(3, 1), dtype=torch.float32)


def test_transposed_operands_and_other_terms():
    def total(a, b, c, d, e):
        return e + (aten.mm(a.permute(1, 0), b) + (aten.mm(c.permute(1, 0), d) + e.sin())), e.cos()

    check(total, (2, 8), (2, 9), (2, 8), (2, 9), (8, 9), expected=(2, 1))


def test_operands_that_several_sums_share_are_put_together_once():
    def totals(a, b, c, d):
        left, right = a.permute(1, 0), b.permute(1, 0)
        late = aten.mm(left, c.sin()) + aten.mm(right, d.sin())
        return late, aten.mm(left, c) + aten.mm(right, d)

    check(totals, (2, 8), (2, 8), (2, 9), (2, 9), expected=(4, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c, d: aten.mm(a, b) + aten.mm(c, d) * 2,
        lambda a, b, c, d: torch.add(aten.mm(a, b), aten.mm(c, d), alpha=2),
        lambda a, b, c, d: (lambda product: (product + aten.mm(c, d), product.sin()))(aten.mm(a, b)),
        lambda a, b, c, d: aten.mm(a, b) + d[0],
    ],
    ids=["factor", "alpha", "used twice", "broadcast"],
)
def test_what_is_no_plain_sum_stays(function):
    shapes = [(8, 2), (2, 9), (8, 2), (2, 9)]
    with FakeTensorMode() as mode:
        made = make_fx(function)(*[mode.from_tensor(torch.randn(shape)) for shape in shapes])
    before = str(made.graph)
    join_sums(made.graph)
    assert str(made.graph) == before


def test_sums_of_long_products_stay_as_they_are():
    check(lambda a, b, c, d: aten.mm(a, b) + aten.mm(c, d), (8, 50), (50, 9), (8, 50), (50, 9), expected=(2, 2))
