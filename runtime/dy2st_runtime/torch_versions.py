"""Which releases of PyTorch this package is tested with; with others it runs as well as it can."""

from __future__ import annotations

import re
import warnings

import torch

TESTED = ("2.11", "2.12", "2.13", "2.14", "2.15")
"""From the first to the last; the table of results is in ``docs/versions.md``."""


def warn_if_untested(version: str = torch.__version__) -> None:
    """Warn of a release older or newer than those that are tested.

    Args:
        version: as PyTorch gives it (``2.13.0+cpu``, ``2.16.0a0+git1234``).
    """
    release = re.match(r"(\d+)\.(\d+)", version)
    if release is not None and not _numbers(TESTED[0]) <= _numbers(release.group()) <= _numbers(TESTED[-1]):
        warnings.warn(
            f"dy2st is tested with torch {', '.join(TESTED[:-1])} and {TESTED[-1]}; with torch {version}, which is installed, "
            "programs may fail to be captured or to run",
            UserWarning,
            stacklevel=2,
        )


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
