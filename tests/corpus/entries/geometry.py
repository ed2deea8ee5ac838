"""Rotations, poses, manifolds, equivariant layers, splines."""

from __future__ import annotations

import torch

from tests.corpus.registry import Subject, published


def _points(*shape: int, seed: int = 1, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


_ROTATIONS = [(torch.linalg.qr(_points(4, 3, 3))[0],), (torch.eye(3).repeat(4, 1, 1),)]


@published("roma", saves=True)
def roma_quaternions() -> Subject:
    import roma

    return Subject(roma.rotmat_to_unitquat, _ROTATIONS)


@published("roma")
def roma_euler_angles() -> Subject:
    import roma

    return Subject(lambda rotation: roma.rotmat_to_euler("xyz", rotation), _ROTATIONS)


@published("roma")
def roma_procrustes() -> Subject:
    import roma

    return Subject(roma.special_procrustes, [(_points(4, 3, 3),), (-torch.eye(3).repeat(4, 1, 1) + _points(4, 3, 3, scale=0.1),)])


@published("roma")
def roma_registration() -> Subject:
    import roma

    points = _points(8, 3)
    calls = [(points, _points(8, 3, seed=2)), (points, points * 2 + 1)]
    return Subject(lambda a, b: roma.rigid_points_registration(a, b, compute_scaling=True), calls)


@published("pypose")
def pypose_chain() -> Subject:
    import pypose

    def run(x, p):
        pose = pypose.se3(x).Exp()
        q = pose.Act(p)
        return pose.Inv().Act(q) if q.norm() > 3 else q

    return Subject(run, [(_points(4, 6, scale=0.3), _points(4, 3, scale=0.1)), (_points(4, 6), _points(4, 3, scale=9.0))])


@published("pypose")
def pypose_closest_points() -> Subject:
    import pypose

    points = _points(1, 8, 3)
    return Subject(lambda a, b: pypose.module.ICP()(a, b).tensor(), [(points, points + 0.1), (points, points * 1.1)])


@published("geoopt")
def geoopt_poincare_distance() -> Subject:
    import geoopt

    ball = geoopt.PoincareBall()
    return Subject(
        lambda x, u: ball.dist(ball.projx(x), ball.projx(u)),
        [(_points(3, 4, scale=s), _points(3, 4, scale=2 * s)) for s in (0.1, 4.0)],
    )


@published("geoopt")
def geoopt_birkhoff_projection() -> Subject:
    import geoopt

    return Subject(geoopt.BirkhoffPolytope().projx, [(_points(3, 3).abs(),), (_points(3, 3, scale=9.0).abs(),)])


@published("geoopt")
def geoopt_lorentz_logarithm() -> Subject:
    import geoopt

    model = geoopt.Lorentz()
    return Subject(
        lambda x, u: model.logmap(model.projx(x), model.projx(u)), [(_points(3, 4), _points(3, 4, seed=n)) for n in (2, 1)]
    )


@published("e3nn")
def spherical_harmonics() -> Subject:
    from e3nn import o3

    return Subject(lambda x: o3.spherical_harmonics([0, 1, 2], x, normalize=True), [(_points(4, 3),), (_points(4, 3, seed=2),)])


@published("e3nn")
def equivariant_gate() -> Subject:
    from e3nn import nn, o3

    class Gated(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Gate("2x0e", [torch.tanh], "1x0e", [torch.sigmoid], "1x1o")
            self.linear = o3.Linear("2x0e+1x1o", self.gate.irreps_in)

        def forward(self, x):
            y = self.gate(self.linear(x))
            return y if y.sum() > 0 else -y

    return Subject(Gated(), [(_points(4, 5),), (-_points(4, 5),)])


@published("torch_cubic_spline_grids")
def spline_grid() -> Subject:
    from torch_cubic_spline_grids import CubicCatmullRomGrid2d

    return Subject(CubicCatmullRomGrid2d(resolution=(4, 5), n_channels=2), [(_points(4, 2, seed=n).sigmoid(),) for n in (1, 2)])
