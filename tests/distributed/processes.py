"""Processes that talk to each other over gloo, each with a time by which it has to be done: nothing hangs."""

from __future__ import annotations

import datetime
import multiprocessing
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["torch", "torch.distributed.fsdp", "torch.distributed.tensor.parallel", "dy2st"])


def _work(function: Callable[..., Any], rank: int, world: int, folder: str, timeout: float, arguments: tuple[Any, ...]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        meeting = f"file://{folder}/meet"
        dist.init_process_group(
            "gloo", init_method=meeting, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=timeout)
        )
        result = function(rank, *arguments)
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        torch.save(traceback.format_exc(), f"{folder}/{rank}.error")
        raise
    torch.save(result, f"{folder}/{rank}.result")


def run(function: Callable[..., Any], folder: Path, *arguments: Any, world: int = 2, timeout: float = 60) -> list[Any]:
    """Call a function in several processes and return what each gave, by rank.

    Args:
        function: of a module; its first argument is the rank.
        folder: an empty one, where the processes meet.
        *arguments: further ones.
        world: how many processes.
        timeout: seconds until they are ended, and this raises.

    Raises:
        AssertionError: a process raised, or was not done in time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    given = [(function, rank, world, str(folder), timeout / 2, arguments) for rank in range(world)]
    processes = [_SERVER.Process(target=_work, args=one, daemon=True) for one in given]
    for process in processes:
        process.start()
    deadline = datetime.datetime.now() + datetime.timedelta(seconds=timeout)
    for process in processes:
        process.join(max(0.0, (deadline - datetime.datetime.now()).total_seconds()))
    late = [rank for rank, process in enumerate(processes) if process.is_alive()]
    for process in processes:
        process.kill()
        process.join()
    failures = [f"rank {path.stem}: {torch.load(path, weights_only=False)}" for path in sorted(folder.glob("*.error"))]
    assert not late and not failures, "\n".join((f"not done in time: ranks {late}", *failures))
    return [torch.load(folder / f"{rank}.result", weights_only=False) for rank in range(world)]
