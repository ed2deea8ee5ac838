"""Progress bars of ``tqdm``, around which many packages write their loops: a program shows none."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from dy2st.capture.library.bars_written_out import ProgressBar
from dy2st.capture.session.session import Session
from dy2st.frames import level_outside

_PLACES = ("iterable", "desc", "total", "leave", "file", "ncols", "mininterval", "maxinterval", "miniters", "ascii", "disable")


def is_bar(kind: type) -> bool:
    """Tell whether a class is one of tqdm's own."""
    known = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    return known is not None and kind.__module__.partition(".")[0] == "tqdm" and issubclass(kind, known)


def create(session: Session, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what stands for a bar; one that eager would show is told of."""
    given = {**dict(zip(_PLACES, args)), **kwargs}
    given.setdefault("disable", bool(os.environ.get("TQDM_DISABLE")))
    if given["disable"] is None:
        given["disable"] = not getattr(given.get("file") or sys.stderr, "isatty", lambda: True)()
    bar = session.call(ProgressBar, **given)
    if given["disable"] is False:
        warnings.warn(
            "a program shows no progress bars: tqdm(..., disable=True) says that none is wanted", stacklevel=level_outside()
        )
    return bar
