"""Losses, metrics and inference of medical images."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.corpus.registry import Subject, named, published


def _images(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _masks(*shape: int, seed: int = 2) -> list[torch.Tensor]:
    return [(_images(*shape, seed=seed) > 0).float(), torch.zeros(shape)]


def _loss(name: str, channels: int, **options: bool) -> Callable[[], Subject]:
    def make() -> Subject:
        import monai.losses

        x = _images(2, channels, 4, 4).requires_grad_()
        return Subject(getattr(monai.losses, name)(**options), [(x, mask) for mask in _masks(2, 1, 4, 4)])

    return make


named("monai_dice", "monai", _loss("DiceLoss", 1, sigmoid=True))
named("monai_generalized_dice", "monai", _loss("GeneralizedDiceLoss", 3, softmax=True, to_onehot_y=True))
named("monai_focal", "monai", _loss("FocalLoss", 3, to_onehot_y=True))


@published("monai")
def monai_dice_of_each() -> Subject:
    from monai.metrics import compute_dice

    truth = _masks(2, 2, 4, 4, seed=3)[0]
    return Subject(compute_dice, [(mask, truth) for mask in _masks(2, 2, 4, 4)])


@published("monai")
def monai_roc_auc() -> Subject:
    from monai.metrics import compute_roc_auc

    return Subject(compute_roc_auc, [(_images(8), mask) for mask in _masks(8)])


@published("monai")
def monai_panoptic_quality() -> Subject:
    from monai.metrics import compute_panoptic_quality

    labels = torch.arange(16).reshape(4, 4) % 3
    return Subject(lambda a, b: compute_panoptic_quality(a, b, remap=False), [(labels, labels), (labels, labels * 0 + 1)])


@published("monai")
def monai_sliding_window() -> Subject:
    from monai.inferers import sliding_window_inference

    net = torch.nn.Conv2d(1, 1, 1)
    calls = [(_images(1, 1, 7, 7),), (_images(1, 1, 7, 7) * 3,)]
    return Subject(lambda x: sliding_window_inference(x, (4, 4), 2, net, overlap=0.25), calls)
