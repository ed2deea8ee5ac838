"""Distributions, samplers, Gaussian processes and flows."""

from __future__ import annotations

from typing import Any

import torch

from tests.corpus.registry import Subject, named, published


def _pyro(name: str, *parameters: Any, **options: Any) -> Any:
    def make() -> Subject:
        import pyro.distributions as dist

        kind = getattr(dist, name)

        def run(*args):
            d = kind(*args, **options)
            sample = d.sample()
            return sample, d.log_prob(sample)

        return Subject(run, [parameters, tuple(p * 2 for p in parameters)])

    return make


named("pyro_von_mises", "pyro", _pyro("VonMises", torch.tensor([0.3, 1.0]), torch.tensor([0.5, 4.0])))
named("pyro_projected_normal", "pyro", _pyro("ProjectedNormal", torch.tensor([0.3, 1.0])))
named("pyro_zero_inflated_poisson", "pyro", _pyro("ZeroInflatedPoisson", torch.tensor([0.3, 3.0]), gate=torch.tensor([0.3, 0.1])))
named("pyro_log_normal", "pyro", _pyro("LogNormal", torch.tensor([0.5, 0.2]), torch.tensor([0.5, 0.2])))
named("pyro_dirichlet", "pyro", _pyro("Dirichlet", torch.tensor([0.5, 0.2, 3.0])))
named("pyro_gamma_poisson", "pyro", _pyro("GammaPoisson", torch.tensor([0.5, 3.0]), torch.tensor([0.5, 3.0])))


@published("pyro")
def pyro_rejection_standard_gamma() -> Subject:
    from pyro.distributions.testing.rejection_gamma import RejectionStandardGamma

    def run(concentration):
        d = RejectionStandardGamma(concentration)
        x = d.rsample()
        return x, d.log_prob(x)

    return Subject(run, [(torch.tensor([1.5, 3.0]),), (torch.tensor([1.0, 9.0]),)])


@published("pyro", saves=True)
def pyro_discrete_hmm() -> Subject:
    import pyro.distributions as dist

    def run(initial, transition, x):
        hmm = dist.DiscreteHMM(initial, transition, dist.Normal(torch.tensor([-1.0, 1.0]), 1.0))
        return hmm.log_prob(x)

    torch.manual_seed(1)
    initial, transition = torch.randn(2).log_softmax(0), torch.randn(2, 2).log_softmax(1)
    return Subject(run, [(initial, transition, torch.randn(7)), (initial, transition, torch.randn(7) * 4)])


@published("pyro")
def pyro_elbo() -> Subject:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import Trace_ELBO

    def model(data):
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        with pyro.plate("data", 5):
            pyro.sample("x", dist.Normal(z, 1.0), obs=data)

    def guide(data):
        loc = pyro.param("loc", torch.tensor(0.5))
        pyro.sample("z", dist.Normal(loc, 0.3))

    pyro.clear_param_store()
    return Subject(lambda data: Trace_ELBO().differentiable_loss(model, guide, data), [(torch.randn(5),), (torch.randn(5) + 3,)])


@published("pyro")
def pyro_condition_and_trace() -> Subject:
    import pyro
    import pyro.distributions as dist
    from pyro import poutine

    def model():
        coin = pyro.sample("coin", dist.Bernoulli(0.5))
        loc = 3.0 if coin > 0 else -3.0
        return pyro.sample("x", dist.Normal(loc, 1.0))

    def run(x):
        trace = poutine.trace(poutine.condition(model, data={"x": x})).get_trace()
        return trace.log_prob_sum()

    return Subject(run, [(torch.tensor(0.5),), (torch.tensor(3.0),)])


@published("gpytorch")
def gp_posterior() -> Subject:
    import gpytorch

    class GP(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 6)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = GP(x, torch.sin(x * 6), likelihood).eval()

    def run(points):
        posterior = model(points)
        return posterior.mean, posterior.variance

    return Subject(run, [(torch.linspace(0, 1, 4),), (torch.linspace(0, 2, 4),)])


@published("gpytorch")
def gp_marginal_likelihood() -> Subject:
    import gpytorch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

    def run(x, y):
        d = gpytorch.distributions.MultivariateNormal(torch.zeros(6), kernel(x).add_jitter(1e-2))
        return d.log_prob(y)

    x = torch.linspace(0, 1, 6)
    return Subject(run, [(x, torch.sin(x * 6)), (x * 3, torch.cos(x))])


@published("gpytorch")
def gp_variational_bound() -> Subject:
    import gpytorch

    class Approximate(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self, points: torch.Tensor) -> None:
            distribution = gpytorch.variational.CholeskyVariationalDistribution(points.shape[0])
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution))
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    torch.manual_seed(1)
    model = Approximate(torch.randn(4, 1))
    bound = gpytorch.mlls.VariationalELBO(gpytorch.likelihoods.GaussianLikelihood(), model, num_data=8)
    calls = [(torch.randn(8, 1), torch.randn(8)) for _ in range(2)]
    return Subject(lambda x, y: -bound(model(x), y), calls)


@published("linear_operator", saves=True)
def conjugate_gradients() -> Subject:
    from linear_operator.utils.linear_cg import linear_cg

    def run(a, b):
        return linear_cg(a.matmul, b, tolerance=1e-3, max_iter=30)

    torch.manual_seed(1)
    a = torch.randn(12, 12)
    b = torch.randn(12, 1)
    return Subject(run, [(a @ a.T + torch.eye(12), b), (torch.eye(12) * 2, b)])


@published("linear_operator", saves=True)
def linear_solve_by_cg() -> Subject:
    import linear_operator

    def run(a, b):
        with linear_operator.settings.max_cholesky_size(1), linear_operator.settings.cg_tolerance(1e-2):
            return linear_operator.to_linear_operator(a).solve(b)

    torch.manual_seed(1)
    a = torch.randn(12, 12)
    return Subject(run, [(a @ a.T + torch.eye(12), torch.randn(12, 1)), (torch.eye(12), torch.randn(12, 1))])


@published("linear_operator", saves=True)
def safe_cholesky() -> Subject:
    from linear_operator.utils.cholesky import psd_safe_cholesky

    good = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
    return Subject(psd_safe_cholesky, [(good,), (torch.ones(2, 2),)])


@published("linear_operator", saves=True)
def pivoted_cholesky() -> Subject:
    import linear_operator

    torch.manual_seed(1)
    a = torch.randn(8, 8)

    def run(a):
        return linear_operator.pivoted_cholesky(linear_operator.to_linear_operator(a), rank=5, error_tol=1e-3)

    return Subject(run, [(a @ a.T + torch.eye(8),), (torch.eye(8) + 0.01 * torch.ones(8, 8),)])


def _flow(transform: Any) -> Any:
    def make() -> Subject:
        from nflows.distributions.normal import StandardNormal
        from nflows.flows.base import Flow

        torch.manual_seed(5)
        flow = Flow(transform(), StandardNormal([4]))
        x = torch.randn(6, 4)
        return Subject(flow.log_prob, [(x,), (x * 5,)], [flow])

    return make


def _spline_coupling() -> Any:
    from nflows.nn.nets import ResidualNet
    from nflows.transforms import PiecewiseRationalQuadraticCouplingTransform

    return PiecewiseRationalQuadraticCouplingTransform(
        mask=[1, 0, 1, 0], transform_net_create_fn=lambda i, o: ResidualNet(i, o, hidden_features=8, num_blocks=1), tails="linear"
    )


def _maf() -> Any:
    from nflows.transforms import BatchNorm, CompositeTransform, MaskedAffineAutoregressiveTransform, RandomPermutation

    return CompositeTransform([MaskedAffineAutoregressiveTransform(4, 8), RandomPermutation(4), BatchNorm(4)])


named("nflows_spline_coupling", "nflows", _flow(_spline_coupling))
named("nflows_masked_autoregressive", "nflows", _flow(_maf))


@published("nflows")
def nflows_sampling() -> Subject:
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow

    torch.manual_seed(5)
    flow = Flow(_spline_coupling(), StandardNormal([4]))

    class Sampler(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flow = flow

        def forward(self, shift):
            return self.flow.sample(5) + shift

    return Subject(Sampler(), [(torch.zeros(4),), (torch.ones(4),)])


@published("zuko")
def zuko_spline_flow() -> Subject:
    import zuko

    torch.manual_seed(5)
    flow = zuko.flows.NSF(features=3, context=2, transforms=2, hidden_features=(8,))

    class Likelihood(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flow = flow

        def forward(self, x, c):
            return self.flow(c).log_prob(x)

    return Subject(Likelihood(), [(torch.randn(4, 3), torch.randn(4, 2)), (torch.randn(4, 3) * 6, torch.randn(4, 2))])


@published("zuko")
def zuko_bisection() -> Subject:
    from zuko.utils import bisection

    def run(y, a, b):
        return bisection(torch.cos, y, a, b, n=12)

    return Subject(run, [(torch.tensor([0.1, 0.7]), torch.zeros(2), torch.full((2,), 3.0))])


@published("normflows")
def normflows_real_nvp() -> Subject:
    import normflows as nf

    torch.manual_seed(5)
    layers = []
    for _ in range(2):
        layers += [
            nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2], init_zeros=False)),
            nf.flows.Permute(2, mode="swap"),
            nf.flows.ActNorm(2),
        ]
    model = nf.NormalizingFlow(nf.distributions.DiagGaussian(2), layers)

    class KL(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flow = model

        def forward(self, x):
            return self.flow.forward_kld(x)

    return Subject(KL(), [(torch.randn(6, 2),), (torch.randn(6, 2) * 4,)])


@published("normflows")
def normflows_spline() -> Subject:
    import normflows as nf

    torch.manual_seed(5)
    flow = nf.flows.CoupledRationalQuadraticSpline(4, 1, 8)
    return Subject(flow, [(torch.randn(5, 4),), (torch.randn(5, 4) * 9,)])


@published("torch")
def torch_mixtures() -> Subject:
    import torch.distributions as D

    def run(logits, loc, x):
        d = D.MixtureSameFamily(D.Categorical(logits=logits), D.Normal(loc, 1.0))
        return d.log_prob(x), d.sample()

    return Subject(run, [(torch.randn(3), torch.randn(3), torch.tensor(0.3)), (torch.randn(3), torch.randn(3), torch.tensor(9.0))])


@published("pomegranate")
def hidden_markov_model_of_rows() -> Subject:
    from pomegranate.distributions import Normal
    from pomegranate.hmm import DenseHMM

    kinds = [Normal([0.0, 1.0], [1.0, 1.0], covariance_type="diag"), Normal([2.0, -1.0], [1.0, 2.0], covariance_type="diag")]
    model = DenseHMM(kinds, edges=[[0.7, 0.3], [0.2, 0.8]], starts=[0.5, 0.5], ends=[0.1, 0.1])
    calls = [(torch.randn(2, 5, 2, generator=torch.Generator().manual_seed(seed)),) for seed in (1, 2)]
    return Subject(lambda x: (model.log_probability(x), model.predict(x)), calls)
