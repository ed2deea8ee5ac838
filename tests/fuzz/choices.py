"""Where the grammar's choices come from: a seeded generator, or hypothesis, which can make a failing program smaller."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies

T = TypeVar("T")


class Choices(Protocol):
    """What the grammar asks."""

    def pick(self, options: Sequence[T]) -> T:
        """One of some options; the first is the simplest."""
        ...

    def chance(self, percent: int) -> bool:
        """Whether something that happens in so many of a hundred cases does; ``False`` is the simpler answer."""
        ...

    def count(self, least: int, most: int) -> int:
        """A number, both ends included."""
        ...


class Seeded:
    """Choices that a seed decides: program number 17 of seed 3 is always the same."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        """One of some options."""
        return self._random.choice(options)

    def chance(self, percent: int) -> bool:
        """Whether it happens."""
        return self._random.randrange(100) < percent

    def count(self, least: int, most: int) -> int:
        """A number."""
        return self._random.randint(least, most)


class Drawn:
    """Choices that hypothesis makes."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self._draw = draw

    def pick(self, options: Sequence[T]) -> T:
        """One of some options."""
        return options[self._draw(strategies.integers(0, len(options) - 1))]

    def chance(self, percent: int) -> bool:
        """Whether it happens."""
        return self._draw(strategies.integers(0, 99)) >= 100 - percent

    def count(self, least: int, most: int) -> int:
        """A number."""
        return self._draw(strategies.integers(least, most))
