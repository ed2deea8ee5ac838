"""Clusters, mixtures and neighbours: iterations until nothing moves."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.corpus.registry import Subject, named, published


def _points(seed: int = 1, scale: float = 0.1) -> torch.Tensor:
    """Twenty points around three centers."""
    centers = torch.tensor([[0.0, 0.0], [3.0, 3.0], [-3.0, 2.0]])
    return centers[torch.arange(20) % 3] + _rows(20, 2, seed=seed) * scale


def _rows(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _k_means_of_neighbours(differentiable: bool) -> Callable[[], Subject]:
    def make() -> Subject:
        from kmeans_gpu import KMeans

        clusters = KMeans(3, max_iter=30, differentiable=differentiable, max_neighbors=4)
        calls = [
            (_points()[None], _rows(1, 4, 20), _points()[None, :3]),
            (_rows(1, 20, 2), _rows(1, 4, 20), _rows(1, 3, 2, seed=5)),
        ]
        return Subject(clusters, [(x.requires_grad_(), features.requires_grad_(), centers) for x, features, centers in calls])

    return make


named("k_means_of_neighbours", "kmeans_gpu", _k_means_of_neighbours(False), saves=True)
named("k_means_of_neighbours_with_gradients", "kmeans_gpu", _k_means_of_neighbours(True), saves=True)


@published("torch_kmeans", saves=True)
def k_means_from_several_starts() -> Subject:
    from torch_kmeans import KMeans

    clusters = KMeans(n_clusters=3, num_init=2, max_iter=20, verbose=False)
    return Subject(clusters, [(_points()[None],), (_rows(1, 20, 2),), (_points(5, 2.0)[None],)])


@published("balanced_kmeans", saves=True)
def k_means_of_equal_size() -> Subject:
    from balanced_kmeans import kmeans_equal

    return Subject(lambda x: kmeans_equal(x, 4, 5, max_iters=20), [(_points()[None],), (_rows(1, 20, 2),)])


@published("minibatch_kmeans")
def k_means_in_batches() -> Subject:
    from minibatch_kmeans import MiniBatchKMeans

    def run(x):
        clusters = MiniBatchKMeans(3, random_state=torch.Generator().manual_seed(0))
        clusters.fit(x)
        return clusters.predict(x)

    return Subject(run, [(_points(),), (_rows(20, 2),)])


@published("bayesian_changepoint_detection")
def changes_seen_online() -> Subject:
    import functools

    from bayesian_changepoint_detection import StudentT, constant_hazard, online_changepoint_detection

    def run(x):
        return online_changepoint_detection(x, functools.partial(constant_hazard, 10), StudentT(0.1, 0.01, 1, 0))

    return Subject(run, [(_rows(12),), (torch.cat([_rows(6), _rows(6) + 5]),)])
