"""Python numbers among the arguments of a call that are inputs of the program, and not constants of it."""

from __future__ import annotations

import dataclasses

KINDS = (bool, int, float)


@dataclasses.dataclass(frozen=True)
class NumberArgument:
    """Stands for any number of a kind where arguments are made up to capture a function with.

    Attributes:
        kind: ``"bool"``, ``"int"`` or ``"float"``.
    """

    kind: str
