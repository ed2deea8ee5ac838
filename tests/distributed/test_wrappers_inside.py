"""Modules of ``torch.distributed`` that a static function calls, what they cannot do there, and what they do around one."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import dy2st
from tests.distributed.models import KINDS, WIDTH, Net, batches, differences
from tests.distributed.processes import run

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")


def _loss(model: Any, batch: torch.Tensor) -> Any:
    result = model(batch)
    if result.sum() > 0:
        return result.square().mean() * 2
    return result.square().mean()


def _twice(model: Any, batch: torch.Tensor) -> Any:
    steps = 0
    result = model(batch)
    while steps < 2:
        result = result + model(batch * 0.5)
        steps += 1
    return result.square().mean()


def _by_name(model: Any, batch: torch.Tensor) -> Any:
    return model(x=batch).square().mean()


def _again_in_the_backward_pass(model: Any, batch: torch.Tensor) -> Any:
    return checkpoint(model, batch, use_reentrant=False).square().mean()


def _sharded(module: Any) -> Any:
    for layer in module.layers:
        fully_shard(layer)
    return fully_shard(module)


_replicas = functools.partial(DistributedDataParallel, find_unused_parameters=True)


def _steps(rank: int, wrap: Any, function: Any, by_data: bool, kinds: tuple[str, ...] = KINDS) -> list[str]:
    model = Net(6, by_data, kinds)
    eager, static = wrap(copy.deepcopy(model)), wrap(model)
    compute = dy2st.to_static(function)
    optimizers = [torch.optim.Adam(one.parameters(), 0.01) for one in (eager, static)]
    found = []
    for number, batch in enumerate(batches(rank, 8)):
        losses = []
        for one, run_it, optimizer in zip((eager, static), (function, compute), optimizers):
            one.train(number % 4 != 3)
            with torch.set_grad_enabled(number % 4 != 3):
                loss = run_it(one, batch)
            if number % 4 != 3:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        if losses[0] != losses[1]:
            found.append(f"step {number}: {losses}")
    if differences(eager, static):
        found.append(f"weights differ by {differences(eager, static)}")
    return found


@pytest.mark.parametrize(
    ("wrap", "function"), [(_replicas, _loss), (_replicas, _by_name), (_sharded, _loss), (_sharded, _twice), (_sharded, _by_name)]
)
def test_a_static_function_calls_one(wrap: Any, function: Any, tmp_path: Path) -> None:
    assert run(_steps, tmp_path, wrap, function, wrap is not _sharded) == [[], []]


def test_what_is_done_again_in_the_backward_pass_gathers_again(tmp_path: Path) -> None:
    assert run(_steps, tmp_path, _sharded, _again_in_the_backward_pass, False, ("norm",)) == [[], []]


# -- one process is enough for what is refused -----------------------------------------------------------------------------


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def _batch() -> torch.Tensor:
    return torch.ones(2, WIDTH)


def test_sharding_later_makes_another_program(group: None) -> None:
    net, expected = dy2st.to_static(Net(1)), Net(1)
    for count, shard in enumerate((lambda: None, lambda: _sharded(net))):
        shard()
        for _ in range(2):
            assert torch.equal(net(_batch()), expected(_batch()))
        assert len(net.forward.program_cache) == count + 1


def test_the_program_shows_where_parameters_are_gathered(group: None) -> None:
    net = _sharded(dy2st.to_static(Net(1, kinds=("norm",))))
    net(_batch())
    text = str(next(iter(net.forward.program_cache)).program)
    assert text.count("call_(gather(self.layers.0)") == text.count("call_(release(self.layers.0)") == 1


def _in_a_flat_one(net: Net) -> Any:
    net.layers[0] = FullyShardedDataParallel(net.layers[0], device_id=torch.device("cpu"))
    return net


def _as_a_group(net: Net) -> Any:
    fully_shard([net.layers[0], net.layers[1]])
    return fully_shard(net)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("shard", "message"), [(_in_a_flat_one, "FullyShardedDataParallel"), (_as_a_group, "as one group")], ids=["flat", "group"]
)
def test_other_kinds_of_groups_are_refused(shard: Any, message: str, group: None) -> None:
    with pytest.raises(dy2st.CaptureError, match=message):
        shard(dy2st.to_static(Net(1)))(_batch())


def _step(model: Any, batch: torch.Tensor) -> torch.Tensor:
    loss = model(batch).square().mean()
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize("wrap", [_replicas, _sharded])
def test_a_backward_pass_inside_is_refused(wrap: Callable[[nn.Module], Any], group: None) -> None:
    with pytest.raises(dy2st.CaptureError, match="share the gradients"):
        dy2st.to_static(_step)(wrap(Net(1)), _batch())


def test_a_part_outside_of_its_module_is_refused(group: None) -> None:
    net = _sharded(Net(1))
    with pytest.raises(dy2st.CaptureError, match="DTensor"):
        dy2st.to_static(lambda x: x * net.layers[0].first.weight.sum())(_batch())


@pytest.mark.parametrize("wrap", [_replicas, _sharded])
def test_they_are_not_saved(wrap: Callable[[nn.Module], Any], tmp_path: Path, group: None) -> None:
    model = wrap(Net(1))
    with pytest.raises(dy2st.Dy2stError, match="other processes|DTensor|spread"):
        dy2st.save(lambda x: model(x), tmp_path / "model.dy2st", input_spec=[dy2st.InputSpec([None, WIDTH])])
    static = dy2st.to_static(model)
    static(_batch())
    with pytest.raises((dy2st.Dy2stError, TypeError)):
        dy2st.save(static, tmp_path / "model.dy2st", input_spec=[dy2st.InputSpec([None, WIDTH])])
    assert not (tmp_path / "model.dy2st").exists()
