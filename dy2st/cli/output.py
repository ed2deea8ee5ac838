"""How commands print."""

from __future__ import annotations

import re

from rich.console import Console
from rich.table import Table

_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def console(stderr: bool = False) -> Console:
    """Return a console for the output (or error output) of this moment."""
    return Console(stderr=stderr, highlight=False)


def clean(text: str) -> str:
    """Return a text of an archive, without characters that would change the terminal."""
    return _UNPRINTABLE.sub("�", text)


def told(error: Exception) -> str:
    """Return an error in one line for people; what came out of a file is cleaned.

    Example:
        >>> told(FileNotFoundError(2, "No such file or directory", "model.dy2st"))
        'model.dy2st: No such file or directory'
    """
    known = isinstance(error, OSError) and error.filename is not None and error.strerror
    return clean(f"{error.filename}: {error.strerror}" if known else str(error))  # type: ignore[attr-defined]  # an OSError


def table(title: str, *columns: str) -> Table:
    """Return a table whose numbers stand on the right, in columns called ``>name``."""
    result = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2))
    for column in columns:
        result.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left", header_style="dim")
    return result


def size(count: float) -> str:
    """Return a number of bytes for people.

    Example:
        >>> size(1536)
        '1.5 KiB'
    """
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def duration(seconds: float) -> str:
    """Return a time for people.

    Example:
        >>> duration(0.00042)
        '420 µs'
    """
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"
    return "0 s"
