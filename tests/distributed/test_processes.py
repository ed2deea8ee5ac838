"""Static functions in several processes: collectives are done at each call, what cannot be held whole is refused."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves

import dy2st
from tests.distributed.programs import DIFFERENTIATED, PROGRAMS

needs_gloo = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")
pytestmark = needs_gloo


def _same(a: Any, b: Any) -> bool:
    return all(
        torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(tree_leaves(a), tree_leaves(b), strict=True)
    )


def _compare(name: str, backend: str, rank: int) -> str | None:
    function = PROGRAMS[name]
    static = dy2st.to_static(function, backend=backend)
    differentiated = function in DIFFERENTIATED
    for trial in range(3):
        x, y = (torch.arange(2.0).add(1 + rank * 10 + trial).requires_grad_(differentiated) for _ in range(2))
        expected, found = function(x), static(y)
        if differentiated:
            expected.sum().backward()
            found.sum().backward()
            if not _same(x.grad, y.grad):
                return f"{name} on {backend}: gradient {y.grad}, and not {x.grad}"
        if not _same((expected, x), (found, y)):
            return f"{name} on {backend}: {found}, and not {expected}"
    return None if len(static.program_cache) == 1 else f"{name}: {len(static.program_cache)} programs"


def _run(rank: int, folder: str) -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    found = [_compare(name, backend, rank) for name in PROGRAMS for backend in ("python", "native")]
    dist.barrier()
    dist.destroy_process_group()
    Path(folder, f"{rank}").write_text("\n".join(filter(None, found)))


def test_collectives_are_waited_for_at_each_call(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_run, (str(tmp_path),), nprocs=2)  # type: ignore[attr-defined,no-untyped-call]
    assert [(tmp_path / str(rank)).read_text() for rank in (0, 1)] == ["", ""]


# -- one process is enough for what is refused -----------------------------------------------------------------------------


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def mesh(group: None) -> DeviceMesh:
    return init_device_mesh("cpu", (1,))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        if h.sum() > 0:
            return self.second(h) * 2
        return h


def _spread(net: Net, mesh: DeviceMesh) -> nn.Module:
    for linear in (net.first, net.second):
        linear.weight = nn.Parameter(distribute_tensor(linear.weight.detach(), mesh, [Shard(0)]))
    return net


@pytest.mark.parametrize("calls", [0, 2])
def test_parameters_that_are_spread_say_what_eager_says(calls: int, mesh: DeviceMesh) -> None:
    net = dy2st.to_static(Net())
    for _ in range(calls):
        net(torch.ones(1, 2))
    _spread(net, mesh)
    with pytest.raises(RuntimeError, match="mixed torch.Tensor and DTensor"):
        net(torch.ones(1, 2))


@pytest.mark.parametrize("backend", ["python", "native"])
def test_a_static_module_in_a_distributed_one_trains_as_eager(backend: str, group: None) -> None:
    net = Net()
    eager = DistributedDataParallel(copy.deepcopy(net), find_unused_parameters=True)
    static = DistributedDataParallel(dy2st.to_static(net, backend=backend), find_unused_parameters=True)
    ways = set()
    for seed in range(6):
        x = torch.randn(3, 2, generator=torch.Generator().manual_seed(seed))
        for model in (eager, static):
            model.zero_grad()
            model(x).sum().backward()
        gradients = [(p.grad, q.grad) for p, q in zip(eager.parameters(), static.parameters())]
        assert all(p is q is None or torch.equal(p, q) for p, q in gradients)  # type: ignore[arg-type]
        ways.add(tuple(p is None for p, _ in gradients))
    assert len(ways) == 2


def test_the_rank_is_checked_at_each_call(tmp_path: Path) -> None:
    @dy2st.to_static
    def where(x: torch.Tensor) -> Any:
        return (x + dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (x, 0)

    assert where(torch.ones(1))[1] == 0
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        assert where(torch.ones(1))[1] == 1
    finally:
        dist.destroy_process_group()
    assert where(torch.ones(1))[1] == 0


def test_what_python_objects_or_groups_do_is_refused(group: None) -> None:
    def objects(x: torch.Tensor) -> Any:
        found: list[Any] = [None]
        dist.all_gather_object(found, 1)
        return x * found[0]

    def groups(x: torch.Tensor) -> Any:
        dist.all_reduce(x, group=dist.new_group([0]))
        return x

    def returned(x: torch.Tensor) -> Any:
        return dist.all_reduce(x, async_op=True)

    def asked_elsewhere(x: torch.Tensor) -> Any:
        work = dist.all_reduce(x, async_op=True) if x.sum() > 0 else None
        if work is not None:
            work.wait()
        return x

    for function in (objects, groups, returned, asked_elsewhere):
        with pytest.raises(dy2st.CaptureError, match="test_processes.py"):
            dy2st.to_static(function)(torch.ones(2))
