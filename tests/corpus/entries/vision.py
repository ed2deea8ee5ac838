"""Detection, geometry and images."""

from __future__ import annotations

import torch

from tests.corpus.registry import Subject, published

_boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.5, 0.5, 4.5, 4.0], [9.0, 9.0, 12.0, 13.0], [0.0, 0.0, 1.0, 1.0]])
_scores = torch.tensor([0.9, 0.8, 0.3, 0.6])


@published("kornia", saves=True)
def kornia_nms() -> Subject:
    from kornia.geometry.bbox import nms

    return Subject(lambda b, s: nms(b, s, 0.5), [(_boxes, _scores), (_boxes * 0 + _boxes[:1], _scores)])


@published("kornia")
def kornia_ransac_homography() -> Subject:
    from kornia.geometry.homography import find_homography_dlt_iterated

    torch.manual_seed(1)
    points = torch.rand(1, 8, 2)
    return Subject(
        lambda a, b, w: find_homography_dlt_iterated(a, b, w, n_iter=3),
        [(points, points * 2 + 1, torch.ones(1, 8)), (points, points.flip(-1), torch.ones(1, 8))],
    )


@published("kornia", saves=True)
def kornia_canny() -> Subject:
    from kornia.filters import Canny

    torch.manual_seed(1)
    return Subject(Canny(hysteresis=True), [(torch.rand(1, 1, 8, 8),), (torch.zeros(1, 1, 8, 8),)])


@published("kornia", saves=True)
def kornia_quaternions() -> Subject:
    from kornia.geometry.conversions import rotation_matrix_to_quaternion

    torch.manual_seed(1)
    return Subject(
        rotation_matrix_to_quaternion, [(torch.linalg.qr(torch.randn(3, 3, 3))[0],), (torch.eye(3).repeat(3, 1, 1) * -1,)]
    )


@published("kornia")
def kornia_augmentation() -> Subject:
    import kornia.augmentation as K

    model = K.AugmentationSequential(K.RandomHorizontalFlip(p=0.5), K.RandomAffine(20.0, p=0.5))
    return Subject(model, [(torch.rand(3, 1, 6, 6),), (torch.rand(3, 1, 6, 6),)])


@published("kornia")
def kornia_connected_components() -> Subject:
    from kornia.contrib import connected_components

    torch.manual_seed(1)
    image = (torch.rand(1, 1, 8, 8) > 0.5).float()
    return Subject(lambda x: connected_components(x, num_iterations=8), [(image,), (image * 0,)])


@published("kornia")
def kornia_ransac() -> Subject:
    from kornia.geometry.ransac import RANSAC

    def pair(noise: float) -> tuple[torch.Tensor, torch.Tensor]:
        points = torch.randn(12, 2)
        return points, points * 1.5 + 0.3 + noise * torch.randn(12, 2)

    return Subject(RANSAC("homography", inl_th=0.5, batch_size=16, max_iter=4), [pair(0.0), pair(2.0), pair(0.1)])
