"""Which Python lists have become lists of the program, and who made each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.session.allocations import Allocations
from dy2st.capture.session.blocks import Blocks
from dy2st.capture.session.regions import Region
from dy2st.capture.session.written_places import WrittenPlaces
from dy2st.capture.types import value_types
from dy2st.capture.values.signals import NeedsRuntimeList
from dy2st.capture.values.symbolic import RuntimeList, Stale
from dy2st.capture.writes.places import ContentsPlace
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import control


class ListTable:
    """The lists of one capture.

    Args:
        blocks: those that are open.
        allocations: when objects were made.
        places: what is written.
        make: turns a Python list into a list of the program, here and now.

    Attributes:
        widened: the lists of the program whose items have come to be of further kinds, in order.
        unfilled: lists out of which an open loop takes an item where nobody is known to have put one in, with what is wrong if so.
        of_cells: lists that hold one item at any time, by identity.
    """

    def __init__(
        self, blocks: Blocks, allocations: Allocations, places: WrittenPlaces, make: Callable[[list[Any]], RuntimeList]
    ) -> None:
        self._blocks, self._allocations, self._places, self._make = blocks, allocations, places, make
        self.widened: list[list[Any]] = []
        self.unfilled: list[tuple[RuntimeList, CaptureError]] = []
        self.of_cells: dict[int, list[Any]] = {}
        self._of_others = [0, 0]
        """How many operations put items into lists that other handles stand for too, and how many take some out."""
        self._by_id: dict[int, RuntimeList] = {}
        self._kept: dict[int, Any] = {}
        self._owner: dict[int, BlockBuilder] = {}

    def own(self, items: list[Any]) -> None:
        """Note that a list has been made by the code that runs now."""
        self._owner[id(items)] = self._blocks.builder
        self._allocations.created[id(items)] = items
        self._allocations.own(items)

    def new(self, element: Any, alone: bool = False) -> RuntimeList:
        """Return a list of the program; ``alone`` where it is made here, and no other handle stands for it."""
        items: list[Any] = []
        runtime_list = RuntimeList(items, element, alone)
        runtime_list.others_put_in = self._of_others[0]
        self._allocations.own(items)
        items.append(Stale(runtime_list))
        self._by_id[id(items)] = runtime_list
        self._allocations.created[id(items)] = items
        return runtime_list

    def of_outside(self, element: Any) -> RuntimeList:
        """Return a list that each call of the program is given."""
        runtime_list = RuntimeList([], element, alone=True)
        self._stand_for(runtime_list)
        return runtime_list

    def owner_is_here(self, items: list[Any]) -> bool:
        """Tell whether a list was made in the block that is recorded now (or before the capture began, and this is the root)."""
        return self._blocks.is_at(self._owner.get(id(items), self._blocks.root.builder))

    def make(self, items: list[Any]) -> RuntimeList:
        """Turn a Python list into a list of the program, here and now."""
        return self._make(items)

    def required(self, items: list[Any]) -> RuntimeList:
        """Return a Python list as a list of the program, which it has to be for what comes next.

        Where a block around this one made it, that one has to make it a list of the program: this block goes on as if it had, and
        starts again at its end, so that all such lists are found in one look.

        Raises:
            NeedsRuntimeList: it is from outside.
        """
        known = self.of(items)
        if known is None and not self.owner_is_here(items):
            if id(items) not in self._owner:
                raise NeedsRuntimeList(items)
            self._blocks.needed_lists.append(items)
        return known or self.make(items)

    def to_make(self, needed: NeedsRuntimeList, anywhere: bool = False) -> list[list[Any]]:
        """Return which lists become lists of the program here: those that this block has made, or any (see :meth:`required`)."""
        return [items for items in needed.lists if self.of(items) is None and (anywhere or self.owner_is_here(items))]

    def make_all(self, lists: Sequence[list[Any]]) -> None:
        """Turn Python lists into lists of the program, here and now; one in another may be one then already."""
        for items in lists:
            self.required(items)

    @staticmethod
    def raise_others(needed: NeedsRuntimeList, made: Sequence[list[Any]]) -> None:
        """Start again further out where some lists do not become lists of the program here: that finds the others again.

        Raises:
            NeedsRuntimeList: some were made in blocks around this one.
        """
        others = [items for items in needed.lists if not any(items is one for one in made)]
        if others:
            raise NeedsRuntimeList(*others).with_traceback(needed.__traceback__)

    def has_widened(self, since: int, region: Region) -> bool:
        """Tell whether the items of a list that is older than a region have come to be of further kinds."""
        allocations = [self._allocations.allocated_at(items) for items in self.widened[since:]]
        return any(allocated is None or allocated <= region.start for allocated in allocations)

    @contextlib.contextmanager
    def look(self) -> Iterator[Callable[[bool], bool]]:
        """Look at the body of a loop; gives what is told whether it has been recorded, and raises then if its lists are wrong."""
        known, outer, is_recorded = len(self.unfilled), self._blocks.is_in_loop, False

        def recorded(is_so: bool) -> bool:
            nonlocal is_recorded
            is_recorded = is_so
            for items, error in self.unfilled[known:]:
                is_wrong = items.element is None and not self.is_empty(items)
                if is_so and is_wrong and not outer:  # an iteration of a loop around this one may put something in
                    raise error
            return is_so

        try:
            yield recorded
        finally:
            if not (is_recorded and outer):
                del self.unfilled[known:]

    def convert(self, items: list[Any], element: value_types.Type | None) -> RuntimeList:
        """Have a Python list stand for a list of the program from now on."""
        runtime_list = RuntimeList(items, element, alone=True)
        runtime_list.others_put_in = self._of_others[0]
        self._blocks.region.lists.append(id(items))
        self._places.write(ContentsPlace(items))
        self._stand_for(runtime_list)
        return runtime_list

    def convert_outside(self, items: list[Any], element: value_types.Type | None) -> RuntimeList:
        """Do the same of a list from outside, which stays one in all blocks."""
        runtime_list = RuntimeList(items, element)
        self._places.write_at_root(ContentsPlace(items))
        self._stand_for(runtime_list)
        return runtime_list

    def _stand_for(self, runtime_list: RuntimeList) -> None:
        items = runtime_list.items
        self._by_id[id(items)], self._kept[id(items)] = runtime_list, items
        stale = [Stale(runtime_list)] * (list.__len__(items) + 1)
        list.__setitem__(items, slice(None), stale)  # whoever looks at it as a Python list, or goes on iterating over it, must fail

    def copy(self, items: RuntimeList) -> list[Any]:
        """Return a new list of the program with the same items."""
        result = self.new(items.element, alone=True)
        self._blocks.builder.call(control.list_copy, (items,), {}, result)
        return result.items

    def of(self, value: Any) -> RuntimeList | None:
        """Return the list of the program that a Python list has become, if it has."""
        return self._by_id.get(id(value)) if isinstance(value, list) else None

    def is_empty(self, items: RuntimeList) -> bool:
        """Tell whether a list has no item here: nobody is known to have put one in, nor may another handle have done so."""
        return items.element is None and (items.alone or items.others_put_in == self._of_others[0])

    def puts_in(self, items: RuntimeList) -> None:
        """Note that an operation puts items into a list."""
        items.put_in += 1
        self._of_others[0] += not items.alone

    def takes_out(self, items: RuntimeList) -> None:
        """Note that an operation takes items out of a list."""
        items.taken_out += 1
        self._of_others[1] += not items.alone

    def changes(self, items: RuntimeList) -> tuple[int, int]:
        """Return how many operations may have put items into a list, and taken some out, until now."""
        others = (0, 0) if items.alone else self._of_others
        return items.put_in + others[0], items.taken_out + others[1]

    def forget(self, region: Region) -> None:
        """Note that lists of a block that is undone are Python lists again."""
        for item in region.lists:
            self._by_id.pop(item, None)
