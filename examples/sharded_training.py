"""Sharded training of a model whose processes take different ways, on one process or on many.

    python examples/sharded_training.py
    torchrun --nproc-per-node 2 examples/sharded_training.py

The model refines its answer until it is good enough, skips a layer, and leaves early where it can: each process by its
own data. `fully_shard` alone needs all of them to take one way. With uniform="auto" they go together, and the weights are
those that DistributedDataParallel gives.
"""

from __future__ import annotations

import os
import tempfile

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import dy2st


class Refiner(nn.Module):
    """Layers of which each process uses as many as its batch needs."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.enter, self.calm, self.refine, self.leave = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        h = torch.tanh(self.enter(x))
        if x.std() < 1:
            return self.leave(h), 0
        h = h + self.calm(h) if x.mean() > 0 else h
        steps = 0
        while h.abs().mean() > 0.3 and steps < 6:
            h = 0.85 * h + 0.1 * torch.tanh(self.refine(h))
            steps += 1
        return self.leave(h), steps


def begin() -> None:
    """Be one of the processes that torchrun has started, or the only one."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/meet", rank=0, world_size=1)


def batch(step: int) -> Tensor:
    """Return what this process trains on."""
    generator = torch.Generator().manual_seed(1000 * dist.get_rank() + step)
    return torch.randn(8, 16, generator=generator) * (0.7 + 0.1 * (step % 7))


def train(model: nn.Module, steps: int) -> tuple[list[float], list[int]]:
    """Train to give the batch back; returns the losses and how often it was refined."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses, refined = [], []
    for step in range(steps):
        x = batch(step)
        found, count = model(x)
        loss = (found - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        refined.append(count)
    return losses, refined


def main(steps: int = 60) -> dict[str, object]:
    """Train the same model sharded, as a program, and as replicas, in eager.

    Args:
        steps: of each training.
    """
    begin()
    torch.manual_seed(0)
    replicas = DistributedDataParallel(Refiner(), find_unused_parameters=True)
    torch.manual_seed(0)
    sharded = dy2st.to_static(Refiner(), uniform="auto")
    for layer in (sharded.calm, sharded.refine):
        fully_shard(layer)
    fully_shard(sharded)

    expected, _ = train(replicas, steps)
    losses, refined = train(sharded, steps)
    pairs = zip(replicas.parameters(), sharded.parameters(), strict=True)
    difference = max((a - b.full_tensor()).abs().max().item() for a, b in pairs)
    first, last = sum(losses[:7]) / 7, sum(losses[-7:]) / 7
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: loss {first:.3f} to {last:.3f}, refined {refined[-8:]} times;")
    print(f"  weights differ by {difference:.1e} from those of replicas")
    result = {
        "first_loss": first, "last_loss": last, "refined": sorted(set(refined)), "identical_losses": losses == expected,
        "difference": difference, "programs": len(sharded.forward.program_cache),
    }  # fmt: skip
    dist.destroy_process_group()
    return result


if __name__ == "__main__":
    main()
