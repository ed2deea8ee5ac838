"""Boxes that cover one another, points that are far apart, shapes fitted to points, signals told apart."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.corpus.registry import Subject, named, published


def _rows(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _boxes(seed: int) -> torch.Tensor:
    low = _rows(12, 3, seed=seed).abs() * 2
    scores = torch.rand(12, 1, generator=torch.Generator().manual_seed(seed))
    return torch.cat([scores, low, low + 2 + _rows(12, 3, seed=seed + 1).abs()], 1)


@published("nms_3d", saves=True)
def boxes_that_others_do_not_cover() -> Subject:
    from nms_3d import nms_3d

    return Subject(lambda boxes: nms_3d(boxes, 0.2, return_indices=True), [(_boxes(1),), (_boxes(3),)])


@published("torch_fps", saves=True)
def points_far_apart_and_their_neighbours() -> Subject:
    from torch_fps._reference import fps_knn_reference

    def run(points, valid, first):
        return fps_knn_reference(points, valid, first, 3, 2)

    valid = torch.ones(2, 10, dtype=torch.bool)
    some = torch.arange(20).view(2, 10) % 3 > 0
    calls = [(_rows(2, 10, 3), valid, torch.tensor([0, 3])), (_rows(2, 10, 3, seed=3), some, torch.tensor([1, 2]))]
    return Subject(run, calls)


def _fit(kind: str) -> Callable[[], Subject]:
    def make() -> Subject:
        import importlib

        fit = getattr(importlib.import_module(f"torch_ransac3d.{kind}"), f"{kind}_fit")
        flat = _rows(30, 3)
        flat[:20, 2] *= 0.01
        return Subject(lambda points: fit(points, 0.05, 10, 2), [(flat,), (_rows(30, 3, seed=2),)])

    return make


for _kind in ("plane", "line", "sphere"):
    named(f"{_kind}_of_most_points", "torch_ransac3d", _fit(_kind))


@published("cpd_pytorch")
def points_moved_onto_others() -> Subject:
    from cpd_pytorch import RigidRegistration

    def run(x, y):
        return RigidRegistration(X=x, Y=y, max_iterations=20).register()

    return Subject(run, [(_rows(10, 3), _rows(10, 3) + 0.3), (_rows(10, 3), _rows(10, 3, seed=4))])


@published("online_triplet_loss", saves=True)
def loss_of_all_triplets() -> Subject:
    from online_triplet_loss.losses import batch_all_triplet_loss

    def run(labels, x):
        return batch_all_triplet_loss(labels, x, 0.3)

    x = _rows(6, 3).requires_grad_()
    return Subject(run, [(torch.tensor(labels), x) for labels in ([0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 1], [0] * 6)])


@published("fast_bss_eval", saves=True)
def loss_of_the_best_order_of_sources() -> Subject:
    from fast_bss_eval.torch.metrics import sdr_pit_loss

    def run(reference, estimate):
        return sdr_pit_loss(estimate, reference, filter_length=16)

    sources = _rows(2, 1200)
    swapped = (sources.flip(0) + 0.1 * _rows(2, 1200, seed=4)).requires_grad_()
    return Subject(run, [(sources, _rows(2, 1200, seed=2).requires_grad_()), (sources, swapped)])


@published("torchyin", saves=True)
def pitch_of_frames() -> Subject:
    import torchyin

    seconds = torch.arange(8000) / 8000
    tone = torch.sin(2 * torch.pi * 220 * seconds)
    return Subject(lambda x: torchyin.estimate(x, 8000, 50, 1000), [(tone,), (_rows(8000),), (torch.zeros(8000),)])


@published("torch_kf", saves=True)
def states_filtered_and_smoothed() -> Subject:
    from torch_kf import GaussianState, KalmanFilter

    step = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    kalman = KalmanFilter(step, torch.tensor([[1.0, 0.0]]), torch.eye(2) * 0.1, torch.eye(1))

    def run(measured):
        start = GaussianState(torch.zeros(1, 2, 1), torch.eye(2)[None])
        states = kalman.rts_smooth(kalman.filter(start, measured, return_all=True))
        return states.mean, states.covariance

    missing = _rows(6, 1, 1, 1)
    missing[2] = float("nan")
    return Subject(run, [(_rows(6, 1, 1, 1),), (missing,)])


@published("mpc", saves=True)
def quadratic_program_in_a_box() -> Subject:
    from mpc.pnqp import pnqp

    root = _rows(2, 3, 3)
    square = root @ root.mT + torch.eye(3)
    calls = [(square, _rows(2, 3)), (square, _rows(2, 3) * 5), (square * 3, _rows(2, 3, seed=4))]
    return Subject(lambda h, q: pnqp(h, q, -torch.ones(2, 3), torch.ones(2, 3)), calls)
