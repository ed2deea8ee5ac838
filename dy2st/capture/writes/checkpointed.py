"""Operations that a program does again in the backward pass: the marks that they carry until the capture is over."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from torch import fx

INSIDE, GIVEN, RESULTS = "checkpoints", "checkpoints_given", "checkpoints_results"
"""Under these keys of the ``meta`` of an operation are each :class:`Region` that it is in, the outermost first, those that take
what it gives as an argument of the function, and those of which it is a result."""

SNAPSHOTS = "snapshots"
"""Under this key of a loop are how many snapshots it is to keep, and whether code around it says so."""


@dataclasses.dataclass(eq=False, frozen=True)
class Region:
    """What one call of ``torch.utils.checkpoint.checkpoint`` has recorded.

    Attributes:
        options: of the call, those that are no defaults.
        is_reentrant: whether autograd learns of the results alone.
    """

    options: dict[str, Any]
    is_reentrant: bool

    def mark(self, nodes: Iterable[Any], key: str) -> None:
        """Mark some operations."""
        for node in nodes:
            if isinstance(node, fx.Node):
                node.meta[key] = (self, *node.meta.get(key, ()))

    def has(self, node: fx.Node, key: str) -> bool:
        """Tell whether an operation has a mark."""
        return self in node.meta.get(key, ())
