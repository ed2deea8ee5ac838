"""Optimizers of whole training steps, and parts of models with data-dependent results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.corpus.registry import Subject, named, published


def _rows(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _steps(module: str, kind: str, **options: Any) -> Callable[[], Subject]:
    def make() -> Subject:
        import importlib

        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = getattr(importlib.import_module(module), kind)(model.parameters(), **options)
        if hasattr(optimizer, "train"):
            optimizer.train()

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return Subject(step, [(_rows(4, 3, seed=seed), _rows(4, 2, seed=seed + 9)) for seed in range(4)], [model])

    return make


named("steps_without_a_schedule", "schedulefree", _steps("schedulefree", "AdamWScheduleFree", lr=0.01, warmup_steps=2))
named("steps_of_prodigy", "prodigyopt", _steps("prodigyopt", "Prodigy"))
named("steps_of_adapted_adam", "dadaptation", _steps("dadaptation", "DAdaptAdam"))
named("steps_of_came", "came_pytorch", _steps("came_pytorch", "CAME", lr=0.01))


@published("torchtime", saves=True)
def missing_values_of_series() -> Subject:
    from torchtime.impute import forward_impute, replace_missing

    def imputed(x: torch.Tensor, fill: torch.Tensor) -> Any:
        return forward_impute(x, fill), replace_missing(x, fill)

    fill = torch.tensor([1.0, 2.0, 3.0])
    holes = [_rows(2, 5, 3, seed=seed).masked_fill(_rows(2, 5, 3, seed=seed + 7) > 0.6, float("nan")) for seed in range(3)]
    return Subject(imputed, [*((x, fill) for x in holes), (_rows(2, 5, 3), fill)])


@published("segment_anything", saves=True)
def run_lengths_of_masks() -> Subject:
    from segment_anything.utils.amg import mask_to_rle_pytorch

    masks = [*(_rows(2, 6, 6, seed=seed) > 0 for seed in range(2)), torch.zeros(2, 6, 6, dtype=torch.bool)]
    return Subject(lambda mask: mask_to_rle_pytorch(mask), [(mask,) for mask in masks])
