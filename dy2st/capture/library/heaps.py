"""The function of ``heapq`` that is no loop over one list; the others are followed in Python."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from dy2st import errors
from dy2st.capture.library.registry import handles
from dy2st.capture.operators import relations
from dy2st.capture.session.session import Session
from dy2st.capture.values.kinds import is_symbolic


@handles(heapq.merge)
def _merge(session: Session, *iterables: Any, key: Callable[..., Any] | None = None, reverse: bool = False) -> Any:
    """Return ``heapq.merge``: which iterable gives the next item may be known only at run time."""
    if all(map(_is_known, iterables)) and key is None:
        return heapq.merge(*iterables, reverse=reverse)
    raise errors.CaptureError(
        "heapq.merge() of items whose order is known only at run time",
        session.here(),
        fix="sort them all: sorted([*first, *second])",
    )


def _is_known(items: Any) -> bool:
    if isinstance(items, range):
        return True
    return isinstance(items, (tuple, list)) and not any(is_symbolic(item) or relations.is_followed(item) for item in items)
