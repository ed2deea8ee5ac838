"""Which objects the captured code has made, and which were there before."""

from __future__ import annotations

from typing import Any

from dy2st.capture.environment.tracking import Tracker
from dy2st.capture.session.allocations import Allocations
from dy2st.capture.session.list_table import ListTable
from dy2st.capture.values.kinds import is_mutable
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st_runtime.ir.flattening import children

ACTS_FOR_USER = False


class Ownership:
    """Tells objects of one capture from those that are older.

    Args:
        allocations: when objects were made.
        tracker: where objects from outside come from.
        lists: the lists of the capture.
    """

    def __init__(self, allocations: Allocations, tracker: Tracker, lists: ListTable) -> None:
        self._allocations, self._tracker, self._lists = allocations, tracker, lists

    def own_all(self, value: Any) -> None:
        """Note that a value has been made now, with every container in it that does not come from outside."""
        if self._tracker.source_of(value) is not None:
            return
        parts = value.options.values() if isinstance(value, TaggedUnion) else (children(value) or ((),))[0]
        if isinstance(value, list):
            self._lists.own(value)
        elif parts or is_mutable(value):  # an empty one may be filled
            self._allocations.own(value)
        for part in parts:
            if self._allocations.allocated_at(part) is None:
                self.own_all(part)

    def is_new(self, value: Any) -> bool:
        """Tell whether a value is an object that the captured code has made."""
        result = id(value) in self._allocations.created
        return result or (self._allocations.allocated_at(value) is not None and self._tracker.source_of(value) is None)

    def is_older(self, value: Any, time: int) -> bool:
        """Tell whether a value is a list, dict or dataclass that was there at a time.

        Others may hold it; it is passed on as it is.
        """
        if not (is_mutable(value) or isinstance(value, list)):  # a list of a class of the user's has no parts
            return False
        allocated = self._allocations.allocated_at(value)
        return allocated <= time if allocated is not None else self._tracker.source_of(value) is not None
