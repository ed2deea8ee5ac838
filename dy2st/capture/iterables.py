"""Something to loop over whose length is known only at run time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from dy2st import errors
from dy2st.capture.session import need


@dataclasses.dataclass(frozen=True, eq=False)
class RuntimeIterable:
    """Something to loop over whose length is known only at run time.

    Attributes:
        length: gives the number of items; asked before each trip, since a list may grow meanwhile.
        at: gives the item at a position.
        what: in words.
    """

    length: Callable[[], Any]
    at: Callable[[Any], Any]
    what: str

    def __iter__(self) -> Iterator[Any]:
        session = need()
        raise errors.CaptureError(
            f"{self.what} has a length that is known only at run time, and is not consumed by a for statement",
            session.here(),
            fix="loop over it with a for statement in converted code",
        )
