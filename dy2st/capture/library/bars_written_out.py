"""What stands for a progress bar of ``tqdm``: it shows nothing. It is converted like the user's code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def size_of(iterable: Any) -> Any:
    """Return how many items there are to go through; ``None`` if nobody knows."""
    try:
        return len(iterable)
    except TypeError:
        return None


class ProgressBar:
    """A bar that gives what it was given, and counts.

    Args:
        iterable: what it goes through.
        desc, total, leave, disable, initial: as ``tqdm`` has them.
        options: how it would look.
    """

    def __init__(
        self, iterable: Any = None, desc: Any = None, total: Any = None, leave: Any = True, *,
        disable: Any = False, initial: Any = 0, **options: Any,
    ) -> None:  # fmt: skip
        self.iterable, self.desc, self.leave, self.disable, self.n = iterable, desc, leave, disable, initial
        self.total = size_of(iterable) if total is None and iterable is not None else total

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __len__(self) -> int:
        size: int = self.total if self.iterable is None else len(self.iterable)
        return size

    def __bool__(self) -> bool:
        return bool(self.iterable) if self.total is None else self.total > 0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def update(self, n: Any = 1) -> None:
        """Count: a bar that is shown does."""
        if not self.disable:
            self.n += n

    def reset(self, total: Any = None) -> None:
        """Count from the beginning."""
        self.n = 0
        if total is not None:
            self.total = total

    def set_description(self, desc: Any = None, refresh: Any = True) -> None:
        """Take a description, which nobody sees."""
        self.desc = desc

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Show nothing."""

    set_description_str = set_description
    close = clear = refresh = unpause = set_postfix = set_postfix_str = display = moveto = show
