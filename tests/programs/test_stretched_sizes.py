"""Broadcasting where only the program knows whether a size is 1."""

import pytest
import torch

import dy2st
from tests.oracle import agree

X = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))
Z = torch.randn(4, 4, generator=torch.Generator().manual_seed(2))
OPERATIONS = {
    "add": lambda x, z: (x + z, z + x, torch.add(z, x, alpha=2), x - z.mean(1, keepdim=True)),
    "where": lambda x, z: (torch.where(x > 0, x, z), torch.where(x > 0, z, 0.5), x.masked_fill(z > 0, 1.0)),
    "of_three": lambda x, z: (torch.addcmul(x, z, x), torch.addcmul(z, x, z), torch.lerp(z, x, 0.5), x.clamp(min=z)),
    "compare": lambda x, z: (x < z, torch.maximum(z, x), torch.atan2(z, x), (x != z).sum()),
    "in_place": lambda x, z: (x.clone().add_(z), x.clone().mul_(z[:, :1])),
    "of_other_kinds": lambda x, z: (x.double() + z, x.long() * z, z + 1 + x),
    "used_after": lambda x, z: ((x + z) @ x + z, (x * z)[:, :2].reshape(2, 4), (x - z).norm(dim=1)),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_branch_leaves_one_row_or_all(operation):
    def f(x, z, n):
        if n > 1:
            z = z.sum(0, keepdim=True)
        return operation(x, z)

    agree(f, [(X, Z, torch.tensor(3)), (X, Z, torch.tensor(0))])


EXPANSIONS = {
    "expand": lambda x, z: (z.expand(4, 4), z.expand((4, -1)).sum(1), z.expand(2, 4, 4)),
    "expand_as": lambda x, z: torch.nn.functional.mse_loss(x, z.expand_as(x)),
    "broadcast_to": lambda x, z: torch.broadcast_to(z, (4, 4)).reshape(16),
    "both": lambda x, z: z[:, : len(z)].expand(4, 4) + x,
    "tensors": lambda x, z: torch.broadcast_tensors(x, z)[1] * 2,
}


@pytest.mark.parametrize("expansion", EXPANSIONS.values(), ids=EXPANSIONS)
def test_one_row_or_all_are_expanded(expansion):
    def f(x, z, n):
        if n > 1:
            z = z.sum(0, keepdim=True)
        return expansion(x, z)

    agree(f, [(X, Z.clone().requires_grad_(), torch.tensor(n)) for n in (3, 0)])


def test_a_branch_leaves_one_row_or_as_many_as_the_argument_has():
    def f(x, n):
        w = x * 3
        for i in range(2):
            if n > i:
                w = w.mean(0, keepdim=True)
        return torch.where(x > w, x, w), w * x

    calls = [(torch.randn(rows, 3), torch.tensor(n)) for rows, n in ((4, 0), (4, 2), (2, 1), (1, 0), (1, 2))]
    agree(f, calls, spec=[dy2st.InputSpec([None, 3]), dy2st.InputSpec([], "int64")])


def test_gradients_are_those_of_the_size_that_it_has():
    def f(x, z, n):
        z = z.sum(0, keepdim=True) if n > 1 else z.sum(1, keepdim=True)
        return x * z

    calls = [(X.clone().requires_grad_(), Z.clone().requires_grad_(), torch.tensor(n)) for n in (3, 0)]
    agree(f, calls)


def test_a_loop_carries_a_column_and_then_a_row():
    def f(x, z, n):
        while n > 0:
            z = (x + z).mean(0, keepdim=True)
            n = n - 1
        return z

    agree(f, [(X, Z[:, :1], torch.tensor(n)) for n in (3, 0, 1)])


def test_as_many_rows_as_a_tensor_says():
    agree(lambda x, z, n: x + z[: n.item()], [(X, Z, torch.tensor(4)), (X, Z, torch.tensor(1))])
    agree(lambda x: x[x > 0] + torch.ones(3), [(torch.tensor([1.0, 1, 2]),), (torch.tensor([1.0, -1, -2]),)])


def test_sizes_that_do_not_fit_are_eagers_error():
    agree(lambda x: x[x > 0] + torch.ones(3), [(torch.tensor([1.0, 1, 2]),), (torch.tensor([1.0, 1, -2]),)])


def test_nothing_stretches_what_is_written():
    def f(x):
        kept = x[x > 0].clone()
        kept += torch.ones(2)
        return kept

    agree(f, [(torch.tensor([1.0, -1, 2]),), (torch.tensor([1.0, 1, -2]),)])


def test_a_clause_catches_what_does_not_fit():
    def f(x):
        try:
            return x[x > 0] + torch.ones(3)
        except RuntimeError as error:
            return str(error)

    agree(f, [(torch.tensor(row),) for row in ([1.0, 1, 2], [1.0, 1, -2], [-1.0, -1, 2], [-1.0, -1, -2])])


def test_what_is_known_of_a_size_on_one_way_holds_there_alone():
    def squeezed(x):
        kept = x[x > 0]
        if len(kept) == 1:
            return kept.squeeze(0).dim(), kept.squeeze(0)
        return kept.squeeze(0).dim(), kept

    def expanded(x):
        kept = x[: int(x.sum())]
        one = kept.expand(4) * 1 if len(kept) == 1 else kept.clone()
        return one, kept.expand(4) + 0 if len(kept) in (1, 4) else kept * 2

    rows = [torch.tensor(row) for row in ([1.0, -1, -2, 3], [3.0, 1, -1, 1], [2.0, -1, -2, 2])]
    for order in (rows, rows[::-1]):
        agree(squeezed, [(x,) for x in order])
        agree(expanded, [(x,) for x in order])


def test_sizes_of_what_is_there_on_some_ways_are_asked_on_these():
    def f(x, n):
        parts = []
        for k in range(1, n):
            parts.append(x * k)
        if len(parts) > 0:
            stacked = torch.stack(parts, dim=1)
            weights = torch.ones(1) * 0.5 if n == 2 else torch.arange(n - 1) * 1.0
        else:
            stacked = None
        if stacked is not None:
            added = torch.einsum("k,bkc->bc", weights, stacked)
        else:
            added = 0
        return x + added

    x = torch.rand(2, 3)
    agree(lambda x, n: f(x, int(n)), [(x, torch.tensor(n)) for n in (3, 2, 1, 4)])


@pytest.mark.parametrize(
    "stretched",
    [
        lambda x: x * x[:1],
        lambda x: torch.maximum(x[:1], x),
        lambda x: torch.where(x[:1] > 1, x, -x),
        lambda x: torch.zeros(2, 1, 1) + x[:1] + x,
    ],
)
def test_the_first_of_any_number_of_items_is_stretched(stretched):
    def f(x):
        return stretched(x[x > 0])

    rows = [1.0, 2.0, -1.0, 0.5], [-1.0, -2.0, -3.0, -4.0], [3.0, -1.0, -1.0, -1.0], [4.0, 5.0, 6.0, 7.0]
    agree(f, [(torch.tensor(row),) for row in rows])


SQUEEZED = {
    "rank": lambda y: (y.squeeze().dim(), y.squeeze(0).ndim, len(torch.squeeze(y).shape), y.unsqueeze(1).squeeze((0, 1)).dim()),
    "shape": lambda y: (tuple(y.squeeze().shape), y.squeeze().size(), y[:, None].squeeze(-1).shape, y[None].squeeze(0).shape),
    "branch": lambda y: y + 1 if y.squeeze().dim() == 0 else y - 1,
    "operations": lambda y: (y.squeeze().unsqueeze(-1), y.squeeze()[None] * 2, y.squeeze().flatten(), y.squeeze().tolist()),
    "several": lambda y: y[:, None].expand(-1, 2)[:, : y.shape[0]].squeeze().dim(),
    "indices": lambda y: torch.arange(6.0)[(y > 1).nonzero().squeeze()],
    "views": lambda y: (y.squeeze().mul_(2), y),
}


@pytest.mark.parametrize("use", SQUEEZED)
def test_a_size_that_may_be_one_is_squeezed_where_it_is(use):
    def f(x):
        return SQUEEZED[use](x[x > 0])

    rows = [torch.tensor(row) for row in ([1.0, -1, -2, 3], [3.0, -1, -1, -1], [-2.0, -1, -2, -2], [2.0, 1, 3, 4])]
    for order in (rows, rows[::-1]):
        agree(f, [(x,) for x in order])


def test_a_gradient_goes_through_a_size_that_may_be_one():
    def f(x):
        (gradient,) = torch.autograd.grad((x * x)[x > 0].squeeze().sum(), x)
        return gradient

    agree(f, [(torch.tensor(row, requires_grad=True),) for row in ([1.0, -1, -2], [3.0, 1, -1])])


def test_a_size_that_may_be_one_is_not_squeezed_in_place():
    @dy2st.to_static
    def f(x):
        return x[x > 0].squeeze_()

    with pytest.raises(dy2st.CaptureError, match=r"squeeze_\(\)"):
        f(torch.ones(2))


TOGETHER = {
    "last": lambda p, q: (q + p[-1:], p[-1:] * q, q[:, None] - p[None, -1:]),
    "of_any_size": lambda p, q: (p + q, torch.maximum(q, p), p[None] * q[None] + 1),
    "between": lambda p, q: (q - p[len(p) - 1 :], q + p[-2:-1], p[::2] * q),
    "of_three": lambda p, q: (torch.where(q > 1, q, p[-1:]), torch.lerp(q, p[-1:], 0.5), torch.addcmul(p, q, p[:1])),
    "in_place": lambda p, q: q.clone().add_(p[-1:]),
    "expand": lambda p, q: (p[-1:].expand(len(q)) * q, p[-1:].expand_as(q) - q, torch.broadcast_tensors(q, p[-1:])[1] * 2),
    "used_after": lambda p, q: (torch.cat([p, p[-1:] * q]), (p + q).view(1, -1) * p, (p * q).cumsum(0) - q),
}


@pytest.mark.parametrize("use", TOGETHER)
def test_sizes_that_only_the_program_knows_are_stretched_to_each_other(use):
    def f(x, y):
        return TOGETHER[use](x[x > 0], y[y > 0])

    rows = [torch.tensor(row) for row in ([1.0, 2, -1], [3.0, -1, -1], [-1.0, -1, -1], [4.0, 5, 6])]
    agree(f, [(x.clone().requires_grad_(), y.clone().requires_grad_()) for x in rows for y in rows])


def test_a_loop_adds_what_may_be_one_row():
    def f(x, n):
        rows = x[x[:, 0] > 0]
        while len(rows) < n:
            more = rows[-1:] + torch.arange(1.0, n - len(rows) + 1)[:2, None]
            rows = torch.cat([rows, more])
        return rows

    x = torch.tensor([[1.0, 2], [3, 4], [-1, 0]])
    agree(f, [(x, torch.tensor(n)) for n in (5, 1, 8, 3)])


def test_a_clause_sees_that_sizes_of_the_program_do_not_fit():
    def f(x, y):
        try:
            return x[x > 0] + y[y > 0]
        except RuntimeError as error:
            return str(error)

    rows = [torch.tensor(row) for row in ([1.0, 2, -1], [3.0, -1, -1], [-1.0, -1, -1], [4.0, 5, 6])]
    agree(f, [(x, y.clone()) for x in rows for y in rows])
