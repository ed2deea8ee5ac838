"""A place for what writes whole programs in torch's own operators for branches and loops, which is not part of this package.

``dy2st`` puts it here when it is imported; a process without ``dy2st`` does without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from dy2st_runtime.ir.program import Program

Lower = Callable[[Program, Sequence[Any]], fx.GraphModule]
"""Takes a program and values of its inputs. The graph it gives takes those values and gives the outputs of the root block as
tensors, with ``torch.cond`` and ``while_loop`` for branches and loops. Raises anything for a program that has none."""

_provided: list[Lower] = []


def provide(lower: Lower) -> None:
    """Put the maker of such graphs here.

    Args:
        lower: the maker; it takes the place of an earlier one.
    """
    _provided[:] = [lower]


def provided() -> Lower | None:
    """Return the maker of such graphs; ``None`` where there is none."""
    return _provided[0] if _provided else None
