"""What puts abstract values into the places that hold what is read."""

from __future__ import annotations

from typing import Any, Protocol

from dy2st.capture.environment.sources import Source
from dy2st.capture.writes.places import Place

ACTS_FOR_USER = False


class AbstractObjects(Protocol):
    """What stands during a capture for what it reads."""

    def dynamic_number(self, source: Source, value: Any) -> Any:
        """Return what stands for a number that is an input of the program."""

    def stand_at(self, place: Place, abstract: Any) -> None:
        """Put such a number, or a tuple with one, into the place that holds it."""

    def is_input(self, value: Any, source: Source) -> bool:
        """Tell whether something stands for a set, deque or array from outside."""

    def is_table(self, value: Any, source: Source) -> bool:
        """Tell whether a dict or set from outside is one of the program."""

    def is_of_call(self, value: Any) -> bool:
        """Tell whether the captured code has made an object."""

    def is_growing(self, items: Any, source: Source) -> bool:
        """Tell whether the length of a list or deque differs from call to call."""

    def growing(self, items: list[Any], source: Source) -> None:
        """Make a list of the program of a list from outside that is longer at each call."""

    def is_object_input(self, value: Any, source: Source) -> bool:
        """Tell whether an object of a plain class differs from call to call."""

    def object_input(self, value: Any, source: Source, place: Place) -> None:
        """Make an input of the program of an object from outside, and put what stands for it into the place that holds it."""

    def collection(self, value: Any, place: Place | None) -> None:
        """Put what stands for a set, deque, array or container among the arguments into the place that holds it, if that may be."""
