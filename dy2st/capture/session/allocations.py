"""When the objects that captured code works with were made: what a block has made itself is no state of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from dy2st.capture.session.regions import Region
from dy2st.capture.values.abstract_objects import AbstractSet
from dy2st.capture.values.symbolic import options_of
from dy2st.capture.writes.places import AttributePlace, CellPlace, Place
from dy2st_runtime.ir.flattening import children


class Allocations:
    """The clock of one capture, and the times at which objects were made by it.

    Attributes:
        created: the lists, exceptions and objects that the capture has made, by identity.
        followed: those of plain classes: containers of their attributes.
        sites: dicts and sets, by identity, with where the code has made them.
    """

    def __init__(self) -> None:
        self.created: dict[int, Any] = {}
        self.followed: dict[int, Any] = {}
        self.sites: dict[int, tuple[Any, tuple[str, ...]]] = {}
        self._clock = itertools.count()
        self._allocations: dict[int, tuple[Any, int]] = {}

    def now(self) -> int:
        """Return a time later than all before."""
        return next(self._clock)

    def own(self, value: Any, since: int | None = None) -> None:
        """Note that an object has been made now, or at a time ``since``: it is no state of the blocks begun before."""
        self._allocations.setdefault(id(value), (value, self.now() if since is None else since))

    def own_variables(self, function: Callable[..., Any]) -> None:
        """Note that the variables that a function of ours shares with the code around it are made now.

        No state of the blocks begun.
        """
        for cell in getattr(function, "__closure__", None) or ():
            self.own(cell)

    def stands_for(self, value: Any, *others: Any) -> None:
        """Note that a value stands for one of some others: a dict is made where these are."""
        given = [option for other in others for option in options_of(other)]
        sites = tuple(dict.fromkeys(site for option in given for site in self.sites.get(id(option), (None, ()))[1]))
        for option in options_of(value) if sites else ():
            if isinstance(option, (dict, AbstractSet)) and not any(option is other for other in given):
                self.sites[id(option)] = option, sites

    def allocated_at(self, value: Any) -> int | None:
        """Tell when an object was made; ``None`` if it is older than the capture, or nobody saw it."""
        result = self._allocations.get(id(value))
        return result[1] if result is not None else None

    def is_since(self, time: int, value: Any) -> bool:
        """Tell whether an object has been made at a time or later."""
        allocated = self.allocated_at(value)
        return allocated is not None and allocated >= time

    def is_inside(self, place: Place, region: Region) -> bool:
        """Tell whether a place is part of what a block has made itself, so that nobody outside can see that it is written."""
        if isinstance(place, AttributePlace) and not region.repeats and children(place.owner) is None:
            return False  # nobody passes on what is in it
        time = self.allocated_at(place.cell if isinstance(place, CellPlace) else place.owner)
        return time is not None and time > region.start
