"""Control and robots: model predictive control by samples, inverse kinematics, statistics and trajectories of agents."""

from __future__ import annotations

import torch

from tests.corpus.registry import Subject, published

_ROBOT = """<robot name="r"><link name="a"/><link name="b"/><link name="c"/><link name="d"/>
<joint name="one" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/><origin xyz="0 0 0.1"/>
<limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
<joint name="two" type="revolute"><parent link="b"/><child link="c"/><axis xyz="0 1 0"/><origin xyz="0.3 0 0"/>
<limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
<joint name="three" type="revolute"><parent link="c"/><child link="d"/><axis xyz="1 0 0"/><origin xyz="0.3 0 0"/>
<limit lower="-2" upper="2" effort="1" velocity="1"/></joint></robot>"""


def _noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@published("pytorch_mppi")
def path_integral_control() -> Subject:
    from pytorch_mppi import MPPI

    control = MPPI(
        lambda state, action: state + 0.1 * torch.cat([state[:, 1:], action], 1),
        lambda state, action: (state**2).sum(1) + 0.1 * (action**2).sum(1),
        2,
        torch.eye(1),
        num_samples=8,
        horizon=4,
        u_min=torch.tensor([-1.0]),
        u_max=torch.tensor([1.0]),
    )
    return Subject(lambda state: control.command(state), [(_noise(2, seed=seed),) for seed in range(3)], [control.U])


@published("pytorch_kinematics")
def inverse_kinematics() -> Subject:
    import pytorch_kinematics as kinematics

    chain = kinematics.build_serial_chain_from_urdf(_ROBOT, "d")

    def solve(position, first):
        solver = kinematics.PseudoInverseIK(
            chain,
            retry_configs=first,
            max_iterations=6,
            joint_limits=torch.tensor([[-2.0, 2.0]] * 3),
            early_stopping_any_converged=True,
            lr=0.2,
        )
        found = solver.solve(kinematics.Transform3d(pos=position))
        return found.solutions, found.err_pos, found.converged

    return Subject(solve, [(_noise(1, 3, seed=seed) * 0.2, _noise(2, 3, seed=seed + 4)) for seed in range(2)])


@published("rsl_rl", saves=True)
def normalized_observations() -> Subject:
    from rsl_rl.modules.normalization import EmpiricalNormalization

    class Normalized(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = EmpiricalNormalization(3, until=12)

        def forward(self, x):
            self.norm.update(x)
            return self.norm(x)

    return Subject(Normalized(), [(_noise(5, 3, seed=seed),) for seed in range(4)])


@published("rsl_rl")
def trajectories_split_and_padded() -> Subject:
    from rsl_rl.utils.utils import split_and_pad_trajectories, unpad_trajectories

    def run(x, dones):
        padded, masks = split_and_pad_trajectories(x, dones)
        return padded, masks, unpad_trajectories(padded, masks)

    return Subject(run, [(_noise(6, 2, 3), torch.tensor(ends)) for ends in ([[0, 0]] * 6, [[0, 1], [1, 0]] * 3, [[1, 1]] * 6)])
