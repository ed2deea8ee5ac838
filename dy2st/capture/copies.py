"""Dicts and objects of which a list of the program has a copy.

    outs.append(d)          the program's list holds a dict of its own, and `outs[0]` is a third one during the capture
    d["h"] = x              in Python all three are one: nobody may change any of them

Reading them makes no difference.
"""

from __future__ import annotations

from typing import Any

from dy2st import errors
from dy2st.capture.values import options_of
from dy2st_runtime.structure import children


class Copies:
    """Which objects have a copy in a list of the program, or are one."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}

    def add(self, item: Any) -> None:
        """Nobody may change an object from now on."""
        self._objects[id(item)] = item

    def __contains__(self, value: Any) -> bool:
        return id(value) in self._objects

    def check(self, owner: Any, here: errors.Location | None) -> None:
        """An object is about to be changed.

        Raises:
            CaptureError: it is one of these.
        """
        if owner in self:
            kind = type(owner).__name__
            make = "{**item, key: value}" if isinstance(owner, dict) else "dataclasses.replace(item, field=value)"
            raise errors.CaptureError(
                f"a {kind} is changed that is an item of a list that changes length inside a captured block",
                here,
                fix=f"put a new one in its place: items[k] = {make}",
            )

    def check_identity(self, left: Any, right: Any, here: errors.Location | None) -> None:
        """Whether two objects are one is asked, of which one has a copy.

        Raises:
            CaptureError: they may be.
        """
        if type(left) is type(right):
            raise errors.CaptureError(
                f"whether two names hold the same {type(left).__name__} out of a list that changes length is not known",
                here,
                fix="compare what is in them, or their positions in the list",
            )

    def follow(self, value: Any, *others: Any) -> None:
        """A value stands for one of some others from now on."""
        if not self._objects:
            return
        for part in options_of(value):
            given = [option for other in others for option in options_of(other)]
            if any(other in self for other in given):
                self.add(part)
            parts = children(part)
            for other in given:
                found = children(other)
                if parts is not None and found is not None and len(parts[0]) == len(found[0]):
                    for one, two in zip(parts[0], found[0]):
                        self.follow(one, two)
