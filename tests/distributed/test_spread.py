"""Models whose weights are spread over processes by a plan, alone and sharded too; checkpoints of models of both kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, parallelize_module

import dy2st
from tests.distributed.models import WIDTH, Net, batches, compared, differences, train
from tests.distributed.processes import run

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down, self.skip = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.down(torch.relu(self.up(x)))
        steps = 0
        while h.abs().max() > 0.6 and steps < 3:
            h = self.down(torch.tanh(self.up(h))) * 0.5
            steps += 1
        if h.sum() > 0:
            return h + self.skip(x)
        return h - x


_PLAN = {"up": ColwiseParallel(), "down": RowwiseParallel()}


def _planned(rank: int) -> list[str]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    def plan(block: Any) -> Any:
        return parallelize_module(block, mesh, _PLAN)

    # what the processes of a mesh train on is the same: each has a part of the weights
    before = compared(Block, plan, lambda block: plan(dy2st.to_static(block)), 0)
    after = compared(Block, plan, lambda block: dy2st.to_static(plan(block)), 0)
    one_process = Block()
    train(one_process, batches(0, 20))
    spread = dy2st.to_static(plan(Block()))
    train(spread, batches(0, 20))
    return [before, after, f"{differences(one_process, spread) < 1e-6}", f"{len(spread.forward.program_cache)} program"]


def test_a_plan_for_tensors_trains_as_eager_does(tmp_path: Path) -> None:
    assert run(_planned, tmp_path) == [["", "", "True", "1 program"]] * 2


def _in_two_dimensions(rank: int) -> str:
    meshes = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))

    def wrap(block: Any) -> Any:
        return fully_shard(parallelize_module(block, meshes["tensor"], _PLAN), mesh=meshes["data"])

    def inside(block: Any) -> Any:
        return fully_shard(nn.Sequential(wrap(block), nn.Linear(WIDTH, 2)), mesh=meshes["data"])

    found = compared(Block, wrap, lambda block: wrap(dy2st.to_static(block)), 0)
    torch.manual_seed(1)
    eager = inside(Block())
    torch.manual_seed(1)
    static = dy2st.to_static(inside(Block()))
    losses = [train(model, batches(0, 5)) for model in (eager, static)]
    return found if losses[0] == losses[1] and not differences(eager, static) else f"{found} {losses}"


def test_a_plan_and_sharding(tmp_path: Path) -> None:
    assert run(_in_two_dimensions, tmp_path, world=4) == [""] * 4


def _checkpointed(rank: int, folder: str) -> list[float]:
    static = fully_shard(dy2st.to_static(Net(1, by_data=False)))
    train(static, batches(0, 4))
    dcp.save({"model": get_model_state_dict(static)}, checkpoint_id=folder)
    found = []
    for other in (fully_shard(dy2st.to_static(Net(1, by_data=False))), dy2st.to_static(Net(1, by_data=False))):
        other(batches(0, 1)[0])
        state = {"model": get_model_state_dict(other)}
        dcp.load(state, checkpoint_id=folder)
        set_model_state_dict(other, state["model"])
        found.append(differences(static, other))
    return found


def test_checkpoints_are_of_the_module(tmp_path: Path) -> None:
    assert run(_checkpointed, tmp_path / "run", str(tmp_path / "checkpoint")) == [[0.0, 0.0]] * 2


# -- one process is enough for what is refused -----------------------------------------------------------------------------


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Any]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_spread_tensors_in_converted_code_are_refused(mesh: Any) -> None:
    def made(x: torch.Tensor) -> Any:
        return DTensor.from_local(x, mesh, [Replicate()]).to_local() * 2

    weight = distribute_tensor(torch.ones(2, 2), mesh, [Shard(0)])

    def found(x: torch.Tensor) -> Any:
        return weight * 2

    def given(x: torch.Tensor) -> Any:
        return x * 2

    for function, argument in ((made, torch.ones(2)), (found, torch.ones(2)), (given, weight)):
        with pytest.raises(dy2st.Dy2stError, match="DTensor|spread over processes"):
            dy2st.to_static(function)(argument)


def test_spread_results_are_refused(mesh: Any) -> None:
    block = Block()
    parallelize_module(block, mesh, {"up": ColwiseParallel(use_local_output=False)})
    static = dy2st.to_static(lambda x: block.up(x))
    static(torch.ones(1, WIDTH))  # runs in eager, to learn what it gives
    with pytest.raises(dy2st.CaptureError, match=r"block\.up.*DTensor"):
        static(torch.ones(1, WIDTH))


def test_hooks_that_spread_tensors_run_with_their_module(mesh: Any) -> None:
    block, expected = Block(), Block()
    plan = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate(), use_local_output=True)
    parallelize_module(block, mesh, plan)
    static = dy2st.to_static(lambda x: block(x) * 2)
    for seed in range(4):
        x = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(seed))
        assert torch.allclose(static(x), expected(x) * 2, atol=1e-6)


def test_a_backward_pass_inside_is_refused(mesh: Any) -> None:
    block = parallelize_module(Block(), mesh, _PLAN)

    def step(x: torch.Tensor) -> Any:
        loss = block(x).sum()
        loss.backward()
        return loss

    static = dy2st.to_static(step)
    static(torch.ones(2, WIDTH))  # runs in eager, to learn what the modules give
    with pytest.raises(dy2st.CaptureError, match="share the gradients"):
        static(torch.ones(2, WIDTH))
