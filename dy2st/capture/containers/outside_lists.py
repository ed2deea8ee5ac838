"""Lists from outside whose length differs from call to call: one program serves any length.

    self.log.append(loss)                     only appended to: the program holds what it appends, and reads nothing of the list
    x = self.memory[k]; self.memory.pop(0)    read, too: the list is an input of the program, which knows the type of its items

At first such a list is what the capture finds in it, and what is in it is guarded. The next call that finds it longer has a second
program captured, with the list as one of these, the first of them that the code allows (see :mod:`dy2st.static.dynamic_state`).
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Any

import torch
from torch.autograd import forward_ad

from dy2st import errors
from dy2st.capture.environment.request import ITEMS
from dy2st.capture.environment.sources import Source
from dy2st.capture.session.outside import State
from dy2st.capture.session.session import Session
from dy2st.capture.types import lattice, mismatches, value_types
from dy2st.capture.values.kinds import refused_kind
from dy2st.capture.values.symbolic import RuntimeList
from dy2st_runtime.ir.flattening import shallow
from dy2st_runtime.ir.program import StateSlot

_NUMBERS = {bool: "bool", int: "int", float: "float"}


class _NoItemError(Exception):
    """An item of a list from outside is of a kind of which a program does not take lists; the message says what it is."""


def create(session: Session, items: list[Any]) -> RuntimeList:
    """Turn a list from outside into a list of the program, which is an input of it.

    Raises:
        CaptureError: the code reads it, and there is something in it of which a program takes no list.
    """
    source = session.tracker.source_of(items)
    assert source is not None
    is_appended = session.outside.dynamic_state[source.name] != ITEMS
    element = None if is_appended else _element_of(session, source, items)
    result = session.lists.convert_outside(items, element)
    result.is_appended = is_appended
    session.outside.add_state(State(StateSlot(source.name, "new list" if is_appended else "list"), source, items, result))
    return result


def length_before(session: Session, items: RuntimeList) -> Any:
    """Return how long a list that is only appended to was before the call: a number that only the program knows."""
    parent = session.tracker.source_of(items.items)
    assert parent is not None
    source = session.tracker.table.length(parent)
    known = next((state.abstract for state in session.outside.states if state.source is source), None)
    return session.outside.dynamic_number(source, session.outside.growing_lists[id(items.items)][1]) if known is None else known


def _element_of(session: Session, source: Source, items: list[Any]) -> value_types.Type | None:
    """Return the type of the items of a list, and guard that they are of it at each call."""
    try:
        element = functools.reduce(lattice.join_elements, map(_type_of, list.__iter__(items)), None)
    except (_NoItemError, mismatches.Mismatch) as error:
        raise errors.CaptureError(
            "a list from outside that is longer at each call is read, and holds what a program takes no list of",
            session.here(),
            seen=str(error),
            fix="keep numbers, strings and tensors of one dtype and rank in it, or tuples of them",
        ) from None
    session.tracker.guards.add(source, "items", AreOf(element), f"is a list of {element}")
    return element


@dataclasses.dataclass(frozen=True, eq=False)
class AreOf:
    """The condition that all items of a list are of a type."""

    element: value_types.Type | None
    _known: set[Any] = dataclasses.field(default_factory=set)
    """Traits of items that are of it."""

    def __call__(self, now: Any) -> bool:
        return type(now) is list and forward_ad._current_level < 0 and all(map(self._is_of, now))

    def _is_of(self, item: Any) -> bool:
        traits = _traits(item)
        if traits not in self._known:
            try:
                if lattice.join_elements(self.element, _type_of(item)) != self.element:
                    return False
            except (_NoItemError, mismatches.Mismatch):
                return False
            self._known.add(traits)
        return True


def _traits(item: Any) -> Any:
    """Return what decides the type of an item."""
    if type(item) is torch.Tensor:
        strides = item.stride() if item.layout == torch.strided else None
        return item.dtype, item.device, item.shape, strides, item.requires_grad, item.is_leaf, refused_kind(item) is None
    if type(item) is tuple:
        return tuple(map(_traits, item))
    return type(item) if type(item) in (*_NUMBERS, str) else (type(item), id(item))


def _type_of(item: Any) -> value_types.Type:
    """Return the type of an item: a number or string is any of its kind.

    Raises:
        _NoItemError: there is none.
    """
    if type(item) in _NUMBERS:
        return value_types.NumberType(_NUMBERS[type(item)])
    if type(item) is str:
        return value_types.StringType()
    if item is None or isinstance(item, (enum.Enum, torch.dtype, torch.device)):
        return value_types.SameType(item)
    if type(item) is tuple:
        parts, structure = shallow(item)
        return value_types.ContainerType(structure, tuple(map(_type_of, parts)))
    if type(item) is torch.Tensor and not item.requires_grad and refused_kind(item) is None:
        return value_types.TensorType.of(item)
    what = " that requires a gradient" if type(item) is torch.Tensor and item.requires_grad else ""
    raise _NoItemError(f"a {type(item).__qualname__}{what}")
