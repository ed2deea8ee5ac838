"""Collectives as operations: of any group, in branches and loops, with gradients, printed, saved and loaded, profiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import dy2st
import dy2st_runtime
from dy2st import InputSpec
from tests.distributed.processes import run

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")


class Groups(nn.Module):
    """Works with the groups of a mesh of two by two processes."""

    def __init__(self, mesh: Any) -> None:
        super().__init__()
        self.rows, self.columns, self.mesh = mesh.get_group("rows"), mesh.get_group("columns"), mesh
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> Any:
        y = (x * self.weight).detach().clone()
        dist.all_reduce(y, group=self.rows)
        dist.all_reduce(y, op=dist.ReduceOp.MAX, group=self.columns)
        if y.sum() > 8:
            dist.all_reduce(y, op=dist.ReduceOp.MIN, group=self.columns)
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(self.columns))]
        dist.all_gather(parts, x.detach(), group=self.columns)
        z = functional.all_reduce(x * self.weight, "sum", (self.mesh, 0))
        steps = torch.zeros(())
        while steps < y.max():
            steps += 2
            z = z + functional.all_reduce(z, "avg", self.columns)
            steps += 1
        return y, parts, z * y


def gathers(x: torch.Tensor) -> Any:
    n = dist.get_world_size()
    whole = differentiable.all_gather(x * x)
    total = whole[0]
    for part in whole[1:]:
        total = total + part * 2
    if total.sum() > 0:
        total = differentiable.all_reduce(total * 3)
    scattered = differentiable.reduce_scatter(torch.empty_like(x), [x * (k + 1) for k in range(n)])
    exchanged = differentiable.all_to_all([torch.empty_like(x) for _ in range(n)], [x * k for k in range(n)])
    told = differentiable.broadcast(x * 2, 0)
    return (total * scattered).sum() + sum(part.sum() for part in exchanged) + told.sum()


def functional_gradients(x: torch.Tensor) -> Any:
    n = dist.get_world_size()
    whole = functional.all_gather_tensor_autograd(x * x, 0, dist.group.WORLD)
    steps = 0
    while steps < 2:
        whole = whole + functional.all_gather_tensor_autograd(x * steps, 0, dist.group.WORLD)
        steps += 1
    part = functional.reduce_scatter_tensor_autograd(whole, "sum", 0, dist.group.WORLD)
    return (part * x).sum() / n


def _trained(function: Callable[[torch.Tensor], Any], backend: str, rank: int) -> str:
    static = dy2st.to_static(function, backend=backend)
    for trial in range(3):
        given = [torch.arange(2.0).add(rank - trial).requires_grad_() for _ in range(2)]
        results = [one(x) for one, x in zip((function, static), given)]
        for result in results:
            result.backward()
        if not torch.equal(*results) or not torch.equal(given[0].grad, given[1].grad):  # type: ignore[arg-type]
            return f"{function.__name__} on {backend}: {results}, {[x.grad for x in given]}"
    return "" if len(static.program_cache) == 1 else f"{function.__name__}: {len(static.program_cache)} programs"


def _with_gradients(rank: int) -> list[str]:
    return [_trained(function, backend, rank) for function in (gathers, functional_gradients) for backend in ("native", "python")]


def test_gradients_go_through_collectives(tmp_path: Path) -> None:
    assert run(_with_gradients, tmp_path) == [["", "", "", ""]] * 2


def _same(a: Any, b: Any) -> bool:
    return all(torch.equal(x, y) for x, y in zip(torch.utils._pytree.tree_leaves(a), torch.utils._pytree.tree_leaves(b)))


def _refusal(function: Callable[[], Any]) -> str:
    try:
        function()
    except dy2st.Dy2stError as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def _saved(rank: int, folder: str) -> list[Any]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    net = Groups(mesh)
    static = dy2st.to_static(Groups(mesh))
    x = torch.arange(2.0) + rank
    found: list[Any] = [_same(net(x), static(x)), _same(net(x * 3), static(x * 3)), len(static.forward.program_cache)]
    path = Path(folder, f"{rank}.dy2st")
    dy2st.save(static, path, input_spec=[InputSpec([2])])
    for backend in ("native", "python"):
        loaded = dy2st_runtime.load(path, backend=backend)
        found += [_same(net(x), loaded(x)), _same(net(x * 3), loaded(x * 3))]
    dist.barrier()
    refused = _refusal(lambda: dy2st_runtime.load(Path(folder, f"{(rank + 1) % 4}.dy2st")))
    return [*found, "GroupError" in refused]


def test_groups_of_a_mesh_are_saved_by_name(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    found = run(_saved, tmp_path / "run", str(tmp_path / "saved"), world=4)
    assert found == [[True, True, 1, True, True, True, True, True]] * 4
    with pytest.raises(dy2st_runtime.GroupError, match=r"torch\.distributed has not been set up"):
        dy2st_runtime.load(tmp_path / "saved" / "0.dy2st")


def test_processes_of_another_rank_or_number_do_not_load_it(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        dy2st.save(_of_this_rank, tmp_path / "model.dy2st", input_spec=[InputSpec([2])])
        assert torch.equal(dy2st_runtime.load(tmp_path / "model.dy2st")(torch.ones(2)), torch.ones(2))
        text = str(dy2st.to_static(_of_this_rank).program(torch.ones(2)))
        assert "call_(all_reduce[op=MAX], (clone,)" in text and "call_(broadcast, (clone, 0)" in text
    finally:
        dist.destroy_process_group()
    with pytest.raises(dy2st_runtime.GroupError):
        dy2st_runtime.load(tmp_path / "model.dy2st")


def _of_this_rank(x: torch.Tensor) -> Any:
    y = x.clone()
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    dist.broadcast(y, 0)
    work = dist.all_reduce(y, async_op=True)
    work.wait()
    return y + dist.get_rank()


def test_collectives_are_profiled_by_line(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        static = dy2st.to_static(_of_this_rank)
        static(torch.ones(2))
        with dy2st.profile() as profile:
            static(torch.ones(2))
        text = str(profile)
    finally:
        dist.destroy_process_group()
    assert len([line for line in text.splitlines() if "_of_this_rank (test_collectives.py:" in line]) == 6
