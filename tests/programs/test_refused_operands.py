"""Where an operation refuses its operands, the exception is eager's, word for word."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import dy2st

X = torch.rand(2, 3)

REFUSED = {
    "a view": lambda x: (x + 1).t().view(-1),
    "a product": lambda x: x @ x,
    "a batch of products": lambda x: torch.bmm(x, x),
    "a broadcast": lambda x: x + torch.ones(7),
    "a broadcast into place": lambda x: x.add_(torch.ones(3, 2, 3)),
    "an expansion": lambda x: x.expand(7, 9),
    "joined tensors": lambda x: torch.cat([x, torch.ones(2)]),
    "stacked tensors": lambda x: torch.stack([x, x[0]]),
    "a split": lambda x: x.split([1, 9]),
    "a reshape": lambda x: x.reshape(7, 5),
    "a dimension": lambda x: x.sum(4),
    "an index": lambda x: x[5],
    "a mask": lambda x: x.masked_fill(torch.ones(9), 1),
    "a condition": lambda x: torch.where(x, x, x),
    "a kernel": lambda x: F.conv2d(x, x),
    "a weight": lambda x: F.linear(x, torch.ones(3, 9)),
    "a norm": lambda x: F.layer_norm(x, (7,)),
    "a matrix": lambda x: torch.linalg.cholesky(x),
    "a dtype": lambda x: x.to(torch.int32).softmax(0),
    "an equation": lambda x: torch.einsum("ij,jk->ik", x, x),
    "a product of two dtypes": lambda x: x @ torch.ones(3, 2, dtype=torch.float64),
    "a product with integers": lambda x: x @ torch.ones(3, 2, dtype=torch.int64),
    "a weight of another dtype": lambda x: F.linear(x, torch.ones(2, 3, dtype=torch.float64)),
    "a norm of another dtype": lambda x: F.layer_norm(x, (3,), torch.ones(3, dtype=torch.float64)),
    "positions": lambda x: x.gather(1, torch.zeros(2, 2, 2, dtype=torch.int64)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_exception_is_eagers(what):
    def function(x):
        return REFUSED[what](x)

    found = []
    for run in (function, dy2st.to_static(function)):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever eager raises
            run(X.clone())
        found.append((type(raised.value), str(raised.value).split("\nraised by")[0]))
    assert found[0] == found[1]


@pytest.mark.parametrize("what", sorted({*REFUSED} - {"a dtype"}))  # which its kernel refuses when the program runs
def test_what_was_written_before_is_kept(what):
    def function(x, log):
        log.append(x + 1)
        return REFUSED[what](x)

    static = dy2st.to_static(function)
    log: list[torch.Tensor] = []
    for calls in (1, 2):
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever eager raises
            static(X.clone(), log)
        assert len(log) == calls
        assert torch.equal(log[-1], X + 1)


def test_a_handler_reads_eagers_words():
    def function(x):
        try:
            return (x + 1).t().view(-1)
        except RuntimeError as error:
            return str(error)

    assert dy2st.to_static(function)(X) == function(X)


def test_asking_eager_changes_no_state():
    def function(x):
        try:
            x.add_(torch.ones(3, 2, 3))
        except RuntimeError:
            return x + torch.rand(2, 3)
        return x

    static = dy2st.to_static(function)
    for value in (X, X.to(torch.bfloat16), X[:1]):
        torch.manual_seed(0)
        expected = function(value.clone())
        torch.manual_seed(0)
        assert torch.equal(static(value.clone()), expected)


def test_large_operands_are_refused_without_being_made():
    def function(x):
        return x.expand(1 << 20, 1 << 12).contiguous() @ x

    with pytest.raises(RuntimeError, match="reduction dim"):
        dy2st.to_static(function)(torch.rand(1, 1 << 12))


class Marked(torch.Tensor):
    """A subclass."""


MARKED = torch.ones(3).as_subclass(Marked)


def test_a_tensor_of_a_class_of_its_own_from_outside_gives_results_of_the_class():
    def of_global(x):
        return x * MARKED

    net = torch.nn.Linear(2, 3)
    net._parameters["bias"] = MARKED
    for function, x in ((of_global, X), (lambda x: net(x), X[:, :2])):
        result = dy2st.to_static(function)(x)
        assert type(result) is Marked and torch.equal(result, function(x))
    own = torch.nn.Linear(2, 3)
    own.bias = type("Own", (torch.nn.Parameter,), {})(torch.ones(3))
    assert torch.equal(dy2st.to_static(own)(X[:, :2]), own(X[:, :2]))
