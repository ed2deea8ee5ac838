"""Wrappers of ``torch.distributed`` around programs, and in them: weights after twenty steps are those of eager."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

import dy2st
from tests.distributed.models import Net, compared
from tests.distributed.processes import run

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo")

_CPU = torch.device("cpu")


def _compress(model: Any) -> Any:
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return model


def _average_itself(model: Any) -> Any:
    def hook(state, bucket):  # type: ignore[no-untyped-def]  # torch compares the annotations, if there are any
        work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size() + 1), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    model.register_comm_hook(None, hook)
    return model


def _sharded(module: Any, **settings: Any) -> Any:
    """Shard each layer, and the rest."""
    for layer in module.layers:
        fully_shard(layer, **settings)
    return fully_shard(module, **settings)


def _finely(module: Any) -> Any:
    for layer in module.layers:
        for part in (layer.first, layer.second, layer.norm):
            fully_shard(part)
    return fully_shard(module)


_unused = functools.partial(DistributedDataParallel, find_unused_parameters=True)
_cast = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
_WAYS: dict[str, tuple[Callable[[Any], Any], dict[str, Any], dict[str, Any]]] = {
    "replicas": (_unused, {}, {}),
    "accumulated": (_unused, {}, {"every": 4}),
    "buffers_apart": (functools.partial(_unused, broadcast_buffers=False), {}, {}),
    "views": (functools.partial(_unused, gradient_as_bucket_view=True), {}, {}),
    "compressed": (lambda module: _compress(_unused(module)), {}, {}),
    "own_hook": (lambda module: _average_itself(_unused(module)), {}, {}),
    "all_used": (DistributedDataParallel, {"kinds": ("all",)}, {}),
    "static_graph": (functools.partial(DistributedDataParallel, static_graph=True), {"kinds": ("all",)}, {}),
    "sharded_at_once": (fully_shard, {"by_data": False}, {}),
    "sharded": (_sharded, {"by_data": False}, {}),
    "sharded_finely": (_finely, {"by_data": False}, {}),
    "kept_gathered": (functools.partial(_sharded, reshard_after_forward=False), {"by_data": False}, {}),
    "cast": (functools.partial(_sharded, mp_policy=_cast), {"by_data": False, "kinds": ("branch", "skip", "either")}, {}),
    "flat": (functools.partial(FullyShardedDataParallel, device_id=_CPU), {}, {}),
    "flat_apart": (functools.partial(FullyShardedDataParallel, device_id=_CPU, use_orig_params=True), {}, {}),
}


def _static_first(wrap: Any, backend: str, module: Any) -> Any:
    return wrap(dy2st.to_static(module, backend=backend))


def _wrapped_first(wrap: Any, backend: str, module: Any) -> Any:
    return dy2st.to_static(wrap(module), backend=backend)


def _train(rank: int, ways: list[str], numbers: list[int], backends: list[str]) -> list[str]:
    found = []
    for way in ways:
        wrap, model, settings = _WAYS[way]
        for number in numbers:
            for order in (_static_first, _wrapped_first):
                for backend in backends:
                    static = functools.partial(order, wrap, backend)
                    text = compared(functools.partial(Net, number, **model), wrap, static, rank, **settings)
                    if text:
                        found.append(f"{way}, model {number}, {order.__name__}, {backend}: {text}")
    return found


_QUICK = ("replicas", "accumulated", "own_hook", "static_graph", "sharded", "sharded_finely", "cast", "flat_apart")


@pytest.mark.parametrize("way", [way if way in _QUICK else pytest.param(way, marks=pytest.mark.slow) for way in _WAYS])
def test_weights_are_those_of_eager(way: str, tmp_path: Path) -> None:
    assert run(_train, tmp_path, [way], [1], ["native"]) == [[], []]


def test_the_python_executor_does_the_same(tmp_path: Path) -> None:
    assert run(_train, tmp_path, ["replicas", "sharded"], [3], ["python"]) == [[], []]


@pytest.mark.slow
@pytest.mark.parametrize("way", _WAYS)
def test_weights_are_those_of_eager_for_many_models(way: str, tmp_path: Path) -> None:
    numbers = [*range(10, 30)]
    assert run(_train, tmp_path, [way], numbers, ["native", "python"], timeout=900) == [[], []]


@pytest.mark.slow
def test_four_processes(tmp_path: Path) -> None:
    assert run(_train, tmp_path, ["replicas", "sharded", "sharded_finely"], [4, 5], ["native"], world=4, timeout=300) == [[]] * 4
