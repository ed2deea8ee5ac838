"""What learners use: losses of many kinds, optimizers as functions, distributions of actions, attributions, attacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.corpus.registry import Subject, named, published


def _normal(*shape: int, seed: int = 1, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


_EVENT, _TIME, _TIES = torch.tensor([1, 0, 1, 1, 0, 1]).bool(), torch.arange(1.0, 7.0), torch.tensor([1.0, 2, 2, 2, 5, 6])


@published("torchsurv")
def survival_likelihood() -> Subject:
    from torchsurv.loss.cox import neg_partial_log_likelihood

    return Subject(neg_partial_log_likelihood, [(_normal(6, 1), _EVENT, _TIME), (_normal(6, 1), _EVENT, _TIES)])


@published("torchsurv")
def concordance_index() -> Subject:
    from torchsurv.metrics.cindex import ConcordanceIndex

    return Subject(
        lambda risk, event, time: ConcordanceIndex()(risk, event, time), [(_normal(6), _EVENT, t) for t in (_TIME, _TIES)]
    )


@published("torchopt")
def functional_optimizer() -> Subject:
    import torchopt

    optimizer = torchopt.sgd(0.1, momentum=0.9)

    def run(w, target):
        state = optimizer.init((w,))
        for _ in range(3):
            gradients = torch.autograd.grad(((w - target) ** 2).sum(), (w,))
            updates, state = optimizer.update(gradients, state, inplace=False)
            (w,) = torchopt.apply_updates((w,), updates, inplace=False)
        return w

    return Subject(run, [(_normal(3).requires_grad_(), _normal(3, seed=2)), (_normal(3).requires_grad_(), _normal(3, scale=8.0))])


def _system() -> list[tuple[torch.Tensor, torch.Tensor]]:
    a = _normal(4, 4)
    return [(a @ a.T + torch.eye(4), _normal(4)), (torch.eye(4), _normal(4))]


@published("torchopt", saves=True)
def conjugate_gradients_of_torchopt() -> Subject:
    from torchopt import linalg

    return Subject(lambda a, b: linalg.cg(lambda x: a @ x, b, maxiter=20, rtol=1e-4, atol=1e-4), _system())


@published("sb3_contrib")
def conjugate_gradients_of_trpo() -> Subject:
    from sb3_contrib.common.utils import conjugate_gradient_solver

    return Subject(lambda a, b: conjugate_gradient_solver(lambda v: a @ v, b), _system())


@published("stable_baselines3")
def squashed_actions() -> Subject:
    from stable_baselines3.common.distributions import SquashedDiagGaussianDistribution

    def run(mean, log_std):
        distribution = SquashedDiagGaussianDistribution(2).proba_distribution(mean, log_std)
        actions = distribution.get_actions()
        return actions, distribution.log_prob(actions)

    return Subject(run, [(_normal(3, 2), _normal(3, 2)), (_normal(3, 2, scale=4.0), _normal(3, 2))])


@published("torch_optimizer")
def root_of_a_matrix() -> Subject:
    from torch_optimizer.shampoo import _matrix_power

    return Subject(lambda a: _matrix_power(a, -0.5), [(a,) for a, _ in _system()])


def _segmentation(name: str, *args: Any) -> Callable[[], Subject]:
    def make() -> Subject:
        import pytorch_optimizer

        x, mask = _normal(2, 1, 4, 4).requires_grad_(), (_normal(2, 1, 4, 4, seed=3) > 0).float()
        return Subject(getattr(pytorch_optimizer, name)(*args), [(x, mask), (x, torch.zeros_like(mask))])

    return make


for _loss in ("LovaszHingeLoss", "BCEFocalLoss", "FocalTverskyLoss"):
    named(f"loss_{_loss}", "pytorch_optimizer", _segmentation(_loss))
named("loss_Jaccard", "pytorch_optimizer", _segmentation("JaccardLoss", "binary"))


@published("pytorch_optimizer")
def bi_tempered_loss() -> Subject:
    from pytorch_optimizer import BiTemperedLogisticLoss

    return Subject(BiTemperedLogisticLoss(0.8, 1.4), [(_normal(4, 3, scale=s), torch.eye(3)[[0, 2, 1, 1]]) for s in (1.0, 9.0)])


def _classifier(inputs: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(inputs, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))


@published("captum")
def integrated_gradients() -> Subject:
    from captum.attr import IntegratedGradients

    attribution = IntegratedGradients(_classifier(3))
    return Subject(lambda x: attribution.attribute(x, target=1, n_steps=5), [(_normal(2, 3),), (_normal(2, 3, scale=3.0),)])


@published("captum")
def ablation_of_features() -> Subject:
    from captum.attr import FeatureAblation

    attribution = FeatureAblation(_classifier(3))
    return Subject(lambda x: attribution.attribute(x, target=0), [(_normal(2, 3),), (_normal(2, 3, scale=3.0),)])


def _attack(name: str, **options: Any) -> Callable[[], Subject]:
    def make() -> Subject:
        import torchattacks

        attack = getattr(torchattacks, name)(_classifier(16).eval(), eps=0.1, **options)
        images = _normal(2, 1, 4, 4).sigmoid()
        return Subject(lambda x, y: attack.forward(x, y), [(images, torch.tensor([0, 1])), (images, torch.tensor([2, 1]))])

    return make


named("attack_by_sign", "torchattacks", _attack("FGSM"))
named("attack_by_projection", "torchattacks", _attack("PGD", alpha=0.05, steps=2))


@published("higher")
def differentiable_inner_loop() -> Subject:
    import higher

    class Learner(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(3, 1)

        def forward(self, x, y):
            optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
            with higher.innerloop_ctx(self.net, optimizer) as (net, inner):
                for _ in range(2):
                    inner.step(((net(x) - y) ** 2).mean())
                return net(x)

    return Subject(Learner(), [(_normal(4, 3), _normal(4, 1)), (_normal(4, 3, scale=2.0), _normal(4, 1))])


def _trajectories(seed: int) -> tuple[torch.Tensor, ...]:
    done = _normal(2, 5, 1, seed=seed + 3) > 0.7
    return (*(_normal(2, 5, 1, seed=seed + k) for k in range(3)), done, done)


@published("torchrl")
def advantages_of_trajectories() -> Subject:
    from torchrl.objectives.value.functional import generalized_advantage_estimate, reward2go

    def function(value, next_value, reward, done, terminated):
        advantage, target = generalized_advantage_estimate(0.9, 0.95, value, next_value, reward, done, terminated)
        return advantage, target, reward2go(reward, done, 0.9)

    return Subject(function, [_trajectories(1), _trajectories(5)])
