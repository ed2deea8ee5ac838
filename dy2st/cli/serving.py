"""``dy2st serve``: from words of the command line to the options of a server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dy2st.errors import ServingError
from dy2st_runtime import serving
from dy2st_runtime.serving.repository import SUFFIX

KEY = "DY2ST_API_KEY"
"""The environment variable with the API key: other users of a machine see the command line of a process, and not this."""


def serve(models: Sequence[str], api_key_file: Path | None, **options: Any) -> int:
    """Serve archives until the process is told to end.

    Args:
        models: archives, or folders with one for each version, as ``path`` or ``name=path``.
        api_key_file: a file with the API key.
        **options: of :class:`dy2st_runtime.serving.Options`.

    Returns:
        The exit status.

    Raises:
        ServingError: it cannot start.
    """
    options["threads"] = options.get("threads") or cores()
    options["torch_threads"] = options.get("torch_threads") or max(1, cores() // options["threads"])
    return serving.run(serving.Options(models=named(models), api_key=_key(api_key_file), **options))


def named(models: Sequence[str]) -> dict[str, str]:
    """Return archives by the names of their models: ``name=path``, or a path whose last part is the name.

    Raises:
        ServingError: two have one name.

    Example:
        >>> named(["nets/digits.dy2st", "best=nets/digits-7.dy2st"])
        {'digits': 'nets/digits.dy2st', 'best': 'nets/digits-7.dy2st'}
    """
    result: dict[str, str] = {}
    for text in models:
        name, sign, path = text.partition("=")
        if not sign or "/" in name:
            name, path = Path(text).name.removesuffix(SUFFIX), text
        if name in result:
            raise ServingError(f"two models are called {name}: give one another name, as other={path}")
        result[name] = path
    return result


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _key(path: Path | None) -> str | None:
    if path is None:
        key = os.environ.get(KEY)
    else:
        key = path.read_text(encoding="utf-8").strip()
        if not key:
            raise ServingError(f"{path} has no API key in it")
    if key is not None and not key.isascii():
        raise ServingError("an API key has letters, digits and signs of ASCII alone")
    return key or None
