"""Computing with hypervectors, which are tensors of classes with methods, in liquid networks and in hyperbolic space."""

from __future__ import annotations

import functools

import torch

from tests.corpus.registry import Subject, named, published


def _normal(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def _record(kind: str) -> Subject:
    import torchhd

    vectors = torchhd.random(6, 64, kind)

    def run(x):
        keys, values = vectors[:3], vectors[3:]
        record = torchhd.multiset(torchhd.bind(keys, values))
        score = torchhd.cosine_similarity(torchhd.bind(record, keys[0].inverse()), values)
        return record.normalize() if x.sum() > 0 else record.permute(1), score, score.argmax()

    return Subject(run, [(_normal(3).abs(),), (-_normal(3).abs(),)])


for _kind in ("MAP", "BSC", "HRR", "FHRR", "VTB"):
    named(f"record_of_hypervectors_{_kind}", "torchhd", functools.partial(_record, _kind))


@published("torchhd")
def factors_of_a_hypervector() -> Subject:
    import torchhd

    codes = torchhd.random(4, 256), torchhd.random(4, 256)

    def run(i, j):
        bound = torchhd.bind(codes[0][i], codes[1][j])
        domains = torch.stack(codes)
        guess, steps = torch.stack([torchhd.multiset(part) for part in codes]), 0
        while steps < 10:
            better = torchhd.resonator(bound, guess, domains)
            steps += 1
            if torch.all(better == guess):
                break
            guess = better
        return guess, steps

    return Subject(run, [(torch.tensor(1), torch.tensor(2)), (torch.tensor(3), torch.tensor(0))])


@published("torchhd")
def hypervector_of_a_graph() -> Subject:
    import torchhd

    nodes = torchhd.random(5, 64)

    def run(weights):
        graph = nodes[0] * 0
        for i in range(5):
            if weights[i] > 0:
                graph = torchhd.bundle(graph, torchhd.bind(nodes[i], nodes[(i + 1) % 5]))
        return torchhd.cleanup(graph, nodes, threshold=-1.0), torchhd.dot_similarity(graph, nodes)

    return Subject(run, [(_normal(5),), (-_normal(5),)])


@published("torchhd")
def centroids_learned_online() -> Subject:
    import torchhd
    from torchhd.models import Centroid

    class Learner(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.centroids = torchhd.embeddings.Projection(5, 64), Centroid(64, 3)

        def forward(self, x, y):
            codes = torchhd.hard_quantize(self.embedding(x))
            self.centroids.add(codes, y)
            if (self.centroids(codes, dot=True).argmax(-1) != y).any():
                self.centroids.add_online(codes, y)
            return self.centroids(codes)

    labels = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 0, 2, 1])
    return Subject(Learner(), [(_normal(4, 5), labels[0]), (_normal(4, 5, seed=2), labels[1])])


@published("ncps")
def closed_form_network_with_wiring() -> Subject:
    from ncps.torch import CfC
    from ncps.wirings import AutoNCP

    return Subject(CfC(4, AutoNCP(12, 3, seed=1)), [(_normal(2, 6, 4),), (_normal(2, 6, 4, seed=3),)])


@published("ncps")
def liquid_time_constants() -> Subject:
    from ncps.torch import LTC

    model = LTC(4, 6)

    def run(x, times):
        output, state = model(x, timespans=times)
        return output if output.mean() > 0 else -output, state

    return Subject(run, [(_normal(1, 5, 4, seed=seed), _normal(1, 5).abs()) for seed in (0, 3)])


@published("hypll")
def mean_in_hyperbolic_space() -> Subject:
    from hypll.manifolds.poincare_ball import Curvature, PoincareBall
    from hypll.tensors import ManifoldTensor

    ball = PoincareBall(Curvature())

    def run(x, weight):
        points = ManifoldTensor(data=ball.project(ManifoldTensor(x, ball)).tensor, manifold=ball)
        middle = ball.frechet_mean(points) if weight > 0 else ball.midpoint(points)
        return middle.tensor, ball.dist(points, middle)

    return Subject(run, [(_normal(4, 3, scale=0.2), torch.tensor(weight)) for weight in (1.0, -1.0)])
