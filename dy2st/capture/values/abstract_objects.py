"""What stands for sets, deques and tuples from outside."""

from __future__ import annotations

import collections
from typing import Any, NoReturn

from dy2st.errors import CaptureError


class AbstractObject:
    """What stands for a set or deque during a capture, and records what is done with it."""

    __slots__ = ()

    def length(self) -> Any:
        """Return ``len(self)``: a number, symbolic or not."""
        raise NotImplementedError


class AbstractSet(AbstractObject):
    """What stands for a set; it is none, so that code written in C goes through its methods, and finds out.

    Attributes:
        table: a dict with the members as keys; a value that may be :class:`Undefined` marks one that may not be there.
    """

    table: dict[Any, Any]
    __class__ = property(lambda self: set)  # isinstance() asks for it


class AbstractDeque(AbstractObject):
    """What stands for a deque; it is none, for the same reason.

    Attributes:
        items: a list of what is in it.
        maxlen: of the deque.
    """

    items: list[Any]
    maxlen: int | None
    __class__ = property(lambda self: collections.deque)  # isinstance() asks for it


class AbstractTuple(AbstractObject):
    """What stands for a tuple of a length that is known only at run time; see tuples.py.

    Args:
        session: the capture.
        items: a list of the program, which nobody changes.
    """

    def __init__(self, session: Any, items: list[Any]) -> None:
        self.session, self.items = session, items

    def length(self) -> Any:
        return self.session.call(len, self.items)

    def index(self, *args: Any) -> NoReturn:
        """Do ``self.index(item)``: where nothing is found, a list has other words.

        Raises:
            CaptureError: always.
        """
        raise CaptureError("index() of a tuple of a length that is known only at run time", fix="use list(items).index(item)")

    def count(self, item: Any) -> Any:
        """Return ``self.count(item)``."""
        return self.session.call(self.items.count, item)

    def _refuse(self, *args: Any) -> NoReturn:
        raise CaptureError(
            "a tuple of a length that is known only at run time is used by code that was not converted, or as the key of a dict",
            fix="loop over it in converted code, or pass torch.stack(items)",
        )

    __iter__ = __len__ = __getitem__ = __contains__ = __eq__ = __ne__ = __repr__ = __bool__ = __hash__ = _refuse


def contents(value: Any) -> Any:
    """Return the list of what is in a deque, or in a tuple of a length that is known only at run time; any other value as it is."""
    return value.items if isinstance(value, (AbstractDeque, AbstractTuple)) else value
