"""Optimal transport: loops to convergence."""

from __future__ import annotations

from typing import Any

import torch

from tests.corpus.registry import Subject, named, published

_a = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
_cost = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]], dtype=torch.float64)


def _ot(name: str, *options: Any, **more: Any) -> Any:
    def make() -> Subject:
        import ot

        function: Any = ot
        for part in name.split("."):
            function = getattr(function, part)
        return Subject(lambda a, b, m: function(a, b, m, *options, **more), [(_a, _a.flip(0), _cost), (_a, _a, _cost * 5)])

    return make


named("ot_sinkhorn", "ot", _ot("sinkhorn", 0.5))
named("ot_sinkhorn_log", "ot", _ot("sinkhorn", 0.1, method="sinkhorn_log"))
named("ot_sinkhorn_stabilized", "ot", _ot("sinkhorn", 0.1, method="sinkhorn_stabilized"))
named("ot_greenkhorn", "ot", _ot("bregman.greenkhorn", 0.5, numItermax=40))
named("ot_sinkhorn_unbalanced", "ot", _ot("unbalanced.sinkhorn_unbalanced", 0.5, 1.0))
named("ot_entropic_partial", "ot", _ot("partial.entropic_partial_wasserstein", 0.5, m=0.6))


@published("ot")
def ot_sliced() -> Subject:
    import ot

    torch.manual_seed(1)
    projections = torch.randn(3, 8)
    x = torch.randn(6, 3, requires_grad=True)
    return Subject(
        lambda x, y: ot.sliced_wasserstein_distance(x, y, projections=projections),
        [(x, torch.randn(6, 3)), (x, torch.randn(6, 3) * 3)],
    )


@published("ot")
def ot_wasserstein_1d() -> Subject:
    import ot

    x = torch.randn(6, requires_grad=True)
    return Subject(lambda x, y: ot.wasserstein_1d(x, y, p=2), [(x, torch.randn(6)), (x, torch.randn(6) * 3)])


@published("geomloss")
def geomloss_sinkhorn() -> Subject:
    from geomloss import SamplesLoss

    loss = SamplesLoss("sinkhorn", p=2, blur=0.1, diameter=4.0, backend="tensorized")
    torch.manual_seed(1)
    x = torch.randn(6, 2, requires_grad=True)
    return Subject(loss, [(x, torch.randn(6, 2)), (x, torch.randn(6, 2) + 1)])


@published("geomloss")
def geomloss_sinkhorn_of_any_diameter() -> Subject:
    from geomloss import SamplesLoss

    loss = SamplesLoss("sinkhorn", p=2, blur=0.1, backend="tensorized")
    torch.manual_seed(1)
    x = torch.randn(6, 2, requires_grad=True)
    return Subject(loss, [(x, torch.randn(6, 2)), (x, torch.randn(6, 2) * 5)])
