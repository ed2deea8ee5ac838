"""``dy2st check --world``: all processes in one, before any of them is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

pytest.importorskip("typer")
pytest.importorskip("rich")

from tests.cli.test_commands import bad, good

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="needs torch.distributed")
_HERE = "tests.distributed.test_check_world"


def meets(x: torch.Tensor) -> Any:
    total = x.sum()
    dist.all_reduce(total)
    if total > 0:
        dist.all_reduce(x)
    return x


def parts(x: torch.Tensor) -> Any:
    if x.sum() > 0:
        dist.all_reduce(x)
    return x


def other_order(x: torch.Tensor) -> Any:
    y = x.clone()
    if dist.get_rank() == 2:
        dist.broadcast(y, 0)
    dist.all_reduce(y)
    if dist.get_rank() != 2:
        dist.broadcast(y, 0)
    return y


def from_first_to_last(x: torch.Tensor) -> Any:
    y, last = x.clone(), dist.get_world_size() - 1
    if dist.get_rank() == 0:
        dist.send(y, last)
    elif dist.get_rank() == last:
        dist.recv(y, 0)
    dist.barrier()
    return y


class Planned(nn.Module):
    """Needs four processes."""

    def __init__(self) -> None:
        super().__init__()
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
        self.rows, self.columns = mesh.get_group("rows"), mesh.get_group("columns")
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.linear(x).detach()
        dist.all_reduce(y, group=self.rows)
        if y.sum() > 0:
            dist.all_reduce(y, group=self.rows)
        return y


class Crossed(Planned):
    def forward(self, x: torch.Tensor) -> Any:
        y = self.linear(x).detach()
        dist.all_reduce(y, group=self.rows)
        if y.sum() > 0:
            dist.all_reduce(y, group=self.columns)
        return y


def test_processes_that_meet() -> None:
    for name in ("meets", "from_first_to_last", "Planned"):
        assert "4 processes meet" in good("check", "--world", "4", f"{_HERE}:{name}", "-s", "f32[4]")
    assert not dist.is_initialized()


def test_processes_that_part() -> None:
    text = bad("check", "--world", "2", f"{_HERE}:parts", "-s", "f32[4]")
    assert "all_reduce at" in text and "ranks [0, 1]" in text and text.count("test_check_world.py:") == 2
    text = bad("check", "--world", "4", f"{_HERE}:Crossed", "-s", "f32[4]")
    assert "ranks [0, 1]" in text and "ranks [2, 3]" in text  # the columns, for which the rows have not decided together


def test_processes_with_different_programs() -> None:
    text = bad("check", "--world", "3", f"{_HERE}:other_order", "-s", "f32[4]")
    assert "rank 0 does all_reduce at test_check_world.py:" in text and "where rank 2 does broadcast at" in text


def test_worlds_that_do_not_fit(tmp_path: Path) -> None:
    assert "rank 0: RuntimeError" in bad("check", "--world", "3", f"{_HERE}:Planned", "-s", "f32[4]")
    assert "no_such" in bad("check", "--world", "2", f"{_HERE}:no_such", "-s", "f32[4]")
