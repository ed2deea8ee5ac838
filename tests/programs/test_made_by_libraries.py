"""Objects of ``torch.distributions`` that the function makes: given back, kept in modules, joined and carried; sizes in them."""

import pytest
import torch
from torch import distributions as dist

import dy2st
from tests.oracle import agree

P, N = torch.tensor([0.2, 0.3]), torch.tensor([-0.2, -0.3])


def of(given):
    """What a distribution says: its class, moments, sizes, a sample and how probable that is."""
    torch.manual_seed(0)
    sample = given.sample()
    return type(given), given.mean, given.variance, given.batch_shape, given.event_shape, sample, given.log_prob(sample)


MAKERS = {
    "normal": lambda x: dist.Normal(x, x.exp()),
    "log_normal": lambda x: dist.LogNormal(x, 1.0),
    "categorical": lambda x: dist.Categorical(logits=x),
    "independent": lambda x: dist.Independent(dist.Normal(x, 1.0), 1),
    "mixture": lambda x: dist.MixtureSameFamily(dist.Categorical(logits=x), dist.Normal(x, 1.0)),
    "multivariate": lambda x: dist.MultivariateNormal(x, torch.eye(2)),
    "on_a_branch": lambda x: dist.Normal(x, 1.0) if x.sum() > 0 else dist.Laplace(x, 2.0),
    "expanded_on_a_branch": lambda x: dist.Normal(x, 1.0).expand((3, 2)) if x.sum() > 0 else dist.Normal(x, 1.0),
}


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_distribution_is_given_back(make, backend):
    static = dy2st.to_static(make, backend=backend)
    for x in (P, N):
        for one, other in zip(of(make(x)), of(static(x)), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True) if isinstance(one, torch.Tensor) else None
            assert isinstance(one, torch.Tensor) or one == other
    assert len(static.program_cache) == 1


def test_a_transform_and_its_inverse_hold_each_other():
    def program(x):
        there = dist.AffineTransform(x, 2.0)
        back = there.inv
        return back(x), there

    result, there = dy2st.to_static(program)(P)
    assert torch.equal(result, program(P)[0]) and there.inv.inv is there and torch.equal(there.loc, P)


def test_a_distribution_of_each_iteration_is_carried():
    def program(x, n):
        prior, steps = dist.Normal(x, 1.0), []
        for i in range(int(n)):
            prior = dist.Normal(prior.mean + 1, prior.stddev * 0.5)
            steps.append(dist.Normal(x * i, 1.0))
        return prior.log_prob(x), [step.mean for step in steps], prior.batch_shape

    agree(program, [(P, torch.tensor(n)) for n in (2, 0, 1, 5)])


def test_sizes_are_in_lists_and_are_the_ones_that_they_are():
    def program(x, n):
        first = last = x.shape
        sizes = []
        for i in range(int(n)):
            last = torch.Size([4]) if i == 1 else last
            sizes.append(x[: i + 1].shape)
        return last is first, last, x.reshape(last), sizes, len(sizes)

    agree(program, [(torch.arange(4.0), torch.tensor(n)) for n in (2, 0, 1, 3)])


class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(6))
        self.prior = self.view = None

    def forward(self, x):
        if self.prior is None:
            self.prior = dist.Normal(self.weight.detach().sum() * x, 1.0)
            self.view = self.weight.view(2, 3)
        return self.prior.log_prob(x), torch.zeros_like(self.view) + self.view.t().sum()


def test_what_a_module_keeps_from_its_first_call_is_read_in_the_next():
    agree(Cached(), [P, N, P], programs=2)
