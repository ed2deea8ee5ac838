"""How the workers of a server tell each other which models clients have loaded and unloaded: a file that each looks at."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator


class Wishes:
    """What was asked last of each model, and how many times something was.

    Args:
        folder: of the server; ``None`` for a server of one worker, which tells nobody.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> one, other = Wishes(folder), Wishes(folder)
        >>> one.tell("net", False)
        >>> other.news(), other.news(), one.news()
        ([('net', False)], [], [])
    """

    def __init__(self, folder: str | None) -> None:
        self._path = None if folder is None else os.path.join(folder, "wishes.json")
        self._seen: dict[str, int] = {}

    def tell(self, name: str, is_wanted: bool) -> None:
        """Say that a model was loaded, or unloaded."""
        if self._path is None:
            return
        with _locked(f"{self._path}.lock"):
            table = self._read()
            count = table.get(name, (0, False))[0] + 1
            table[name] = count, is_wanted
            with open(f"{self._path}.new", "w", encoding="utf-8") as file:
                json.dump(table, file)
            os.replace(f"{self._path}.new", self._path)
        self._seen[name] = count

    def news(self) -> list[tuple[str, bool]]:
        """Return the models that others have been asked for since, and whether to have them."""
        result = []
        for name, (count, is_wanted) in self._read().items():
            if self._seen.get(name, 0) < count:
                self._seen[name] = count
                result.append((name, is_wanted))
        return result

    def _read(self) -> dict[str, tuple[int, bool]]:
        if self._path is None:
            return {}
        try:
            with open(self._path, encoding="utf-8") as file:
                return {name: (count, is_wanted) for name, (count, is_wanted) in json.load(file).items()}
        except (OSError, ValueError):
            return {}


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    import fcntl  # there are several workers on POSIX alone

    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
