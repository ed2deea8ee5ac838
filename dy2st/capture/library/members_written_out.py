"""How a module gives its parameters and buffers, all at once: a tensor may decide which it has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def named_members(
    modules: Iterable[tuple[str, torch.nn.Module]], table: str, remove_duplicate: bool
) -> list[tuple[str, torch.Tensor]]:
    """Return ``named_parameters()`` and ``named_buffers()``."""
    known = set()
    found: list[Any] = []
    for prefix, module in modules:
        for name, value in getattr(module, table).items():
            if value is None or value in known:
                continue
            if remove_duplicate:
                known.add(value)
            found.append((prefix + ("." if prefix else "") + name, value))
    return found


def members(named: Iterable[tuple[str, torch.Tensor]]) -> list[torch.Tensor]:
    """Return ``parameters()`` and ``buffers()``."""
    return [value for _, value in named]
