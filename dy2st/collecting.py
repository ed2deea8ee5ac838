"""The collector of garbage while a capture makes many objects that stay: it would look through all of them again and again."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_RARELY = (100_000, 50, 1_000)
"""How many objects are made between collections of the young ones, and how many of those between collections of the older ones."""


class Collecting:
    """The collector's thresholds of one process, which several threads may want raised at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = self._raised = (0, 0, 0)

    @contextlib.contextmanager
    def rarely(self) -> Iterator[None]:
        """Have garbage collected less often inside, and then as often as before; what is set meanwhile stays."""
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = gc.get_threshold()
                if self._before[0]:  # 0 says that there is to be no collection
                    gc.set_threshold(*map(max, self._before, _RARELY))
                self._raised = gc.get_threshold()
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside and gc.get_threshold() == self._raised:
                    gc.set_threshold(*self._before)


COLLECTING = Collecting()
