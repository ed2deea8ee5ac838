"""Programs that talk to another process: each is run by two processes, in eager and as a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable


def all_reduce_then_branch(x: torch.Tensor) -> Any:
    y = x.clone()
    dist.all_reduce(y)
    if y.sum() > 40:
        y = y * 2
    return y


def work_is_waited_for_later(x: torch.Tensor) -> Any:
    y = x.clone()
    work = dist.all_reduce(y, op=dist.ReduceOp.MAX, async_op=True)
    z = x * 2
    work.wait()
    return y + z


def in_branches(x: torch.Tensor) -> Any:
    y = x.clone()
    if torch.isfinite(x.sum()):
        dist.all_reduce(y)
        y = y + 1
    else:
        dist.broadcast(y, 0)
    return y


def in_loops(x: torch.Tensor) -> Any:
    y, n = x.clone(), torch.zeros(())
    while n < 3:
        dist.all_reduce(y)
        y, n = y / 2, n + 1
    while y.sum() < 100:
        if dist.all_reduce(y, async_op=True).wait():
            y = y * 2
    return y


def number_before_and_after(x: torch.Tensor) -> Any:
    y = x.clone()
    before = y.sum().item()
    dist.all_reduce(y)
    return before, y.sum().item(), before + y.sum().item()


def gathers(x: torch.Tensor) -> Any:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x)
    whole = x.new_empty(4)
    dist.all_gather_single(whole, x)
    return torch.cat(parts), whole, parts


def reduces_and_scatters(x: torch.Tensor) -> Any:
    one, two, three = x.new_empty(1), x.new_empty(2), x.new_empty(2)
    dist.reduce_scatter_single(one, x.clone())
    dist.reduce_scatter(two, [x, x + 1])
    dist.scatter(three, [x, x * 5] if dist.get_rank() == 0 else None, src=0)
    return one * 2, two + three


def to_all(x: torch.Tensor) -> Any:
    parts, single = [torch.empty(1), torch.empty(1)], torch.empty(2)
    dist.all_to_all(parts, list(x.split(1)))
    dist.all_to_all_single(single, x)
    dist.barrier()
    return torch.cat(parts) + single


def to_one(x: torch.Tensor) -> Any:
    y = x.clone()
    dist.reduce(y, 0)
    if dist.get_rank() == 0:
        parts = [torch.empty(2), torch.empty(2)]
        dist.gather(x, parts, dst=0)
        return y, parts
    dist.gather(x, dst=0)
    return x, [x]


def from_one_to_the_other(x: torch.Tensor) -> Any:
    if dist.get_rank() == 0:
        dist.send(x, 1)
        return x
    y = torch.empty(2)
    source = dist.recv(y)
    return y + source


def both_at_once(x: torch.Tensor) -> Any:
    y, peer = torch.empty(2), 1 - dist.get_rank()
    started = dist.isend(x * 3, peer), dist.irecv(y, peer)
    for work in started:
        work.wait()
    z = torch.empty(2)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, y, peer), dist.P2POp(dist.irecv, z, peer)]):
        work.wait()
    return y, z


def argument_in_place(x: torch.Tensor) -> Any:
    dist.all_reduce(x)
    return x.sum()


def functional_ones(x: torch.Tensor) -> Any:
    y = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
    if y.sum() > 40:
        y = y * y
    return y


def with_gradients(x: torch.Tensor) -> Any:
    y = differentiable.all_reduce(x * 2)
    return (torch.cat(differentiable.all_gather(y * x)) ** 2).sum()


PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    function.__name__: function
    for function in (
        all_reduce_then_branch, work_is_waited_for_later, in_branches, in_loops, number_before_and_after, gathers,
        reduces_and_scatters, to_all, to_one, from_one_to_the_other, both_at_once, argument_in_place, functional_ones,
        with_gradients,
    )
}  # fmt: skip
DIFFERENTIATED = (functional_ones, with_gradients)
