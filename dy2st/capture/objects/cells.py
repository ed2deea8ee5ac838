"""Objects that are changed while a list of the program has a copy of them: their attributes are lists with one item each.

for b in beams: b.n += 1        →   cell = b.n; cell[0] = cell[0] + 1

All copies of the object share these lists, so a change is seen through each. A capture begins without; where an object is changed
of which there is a copy, it begins again, and the objects of that class have cells from when they are made, dicts from when they
are put in. When they leave the program, what is in the cells is put in their places.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, NoReturn, TypeGuard

from torch import fx

from dy2st import errors
from dy2st.capture.session.session import Session
from dy2st.capture.types import tensor_traits, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.signals import NeedsApart
from dy2st.capture.values.symbolic import RuntimeList, TaggedUnion, Undefined, options_of
from dy2st.capture.writes.places import AttributePlace, ItemPlace
from dy2st_runtime.ir.flattening import attributes
from dy2st_runtime.ir.structure import CellOf
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.cells import Cell


def _refuse() -> NoReturn:
    raise errors.CaptureError(
        "an attribute or item of an object that is changed in a list of any length is used by code that was not converted",
        fix="read it in converted code, and pass what it is",
    )


Cell.refuse = staticmethod(_refuse)


def create(session: Session, value: Any) -> Cell:
    """Return a new cell."""
    items = [value]
    session.lists.own(items)
    cell = Cell(items)
    session.allocations.own(cell)
    return cell


def are(held: Any) -> TypeGuard[Cell | TaggedUnion]:
    """Tell whether an attribute or item is in a cell, or in one of several."""
    return type(held) is Cell or (isinstance(held, TaggedUnion) and all(type(option) is Cell for option in options_of(held)))


def read(session: Session, cell: Cell | TaggedUnion) -> Any:
    """Return what is in a cell, or in one of several: no cell of a way that the program has not gone is read."""
    if isinstance(cell, TaggedUnion):
        return session.over(cell, lambda option: read(session, option))
    session.lists.of_cells[id(cell.items)] = cell.items
    return session.call(operator.getitem, cell.items, 0)


def write(session: Session, cell: Cell | TaggedUnion, value: Any) -> None:
    """Change what is in a cell, or in one of several."""
    if isinstance(cell, TaggedUnion):
        session.over(cell, lambda option: write(session, option, value))
        return
    session.lists.of_cells[id(cell.items)] = cell.items
    session.call(operator.setitem, cell.items, 0, value)


def give_attributes(session: Session, value: Any) -> None:
    """Note that an object has been made whose attributes may be changed while it is in a list."""
    if not session.places.copies.is_wanted(type(value), session.traits.apart) or id(value) not in session.allocations.created:
        return
    for name, item in attributes(value).items():
        if not isinstance(item, (Cell, Undefined)):
            session.places.write(AttributePlace(value, name))
            storage.keep(value, name, create(session, item))


def give_parts(session: Session, value: Any) -> None:
    """Do the same of an object or dict that is put in now: an object may be before its ``__init__`` has ended."""
    if type(value) is dict:
        _give_items(session, value)
    elif isinstance(value, (list, tuple, dict, type)):
        return
    elif all(session.allocations.is_inside(AttributePlace(value, name), session.blocks.region) for name in attributes(value)):
        give_attributes(session, value)


def _give_items(session: Session, table: Any) -> None:
    if not session.places.copies.is_wanted(dict, session.traits.apart):
        return
    for key, item in table.items():
        if not isinstance(item, (Cell, Undefined)) and session.allocations.is_inside(ItemPlace(table, key), session.blocks.region):
            dict.__setitem__(table, key, create(session, item))


def pairs(left: Any, right: Any) -> list[tuple[list[Any], list[Any]]]:
    """Return the lists of the cells that two objects have in the same places: they are one where the objects are."""
    tables = [value if isinstance(value, dict) else {} if isinstance(value, type) else attributes(value) for value in (left, right)]
    return [
        (cell.items, other.items)
        for name, cell in dict.items(tables[0])
        if type(cell) is Cell and type(other := tables[1].get(name)) is Cell
    ]


def is_known_by_them(session: Session, value: Any) -> bool:
    """Tell whether the program knows by its cells which object a value is, wherever it stands; a cell is known with its object."""
    return tensor_traits.OWNERS in session.traits.apart and (type(value) is Cell or next(_of(value), None) is not None)


def may_be_known_by_them(session: Session, value: Any) -> bool:
    """Tell whether the program would know an object by its cells, if it had them."""
    apart = session.traits.apart
    return tensor_traits.OWNERS in apart and session.places.copies.is_wanted(type(value), apart)


def require_owners(session: Session, value: Any) -> None:
    """Have the program know by its cells which object a value is; where it cannot have some, nothing happens.

    Raises:
        NeedsApart: another capture can.
    """
    if isinstance(value, (list, tuple)) or not (isinstance(value, dict) or attributes(value)):
        return
    session.places.copies.require_cells(value, session.traits.apart)
    if tensor_traits.OWNERS not in session.traits.apart and next(_of(value), None) is not None:
        raise NeedsApart(tensor_traits.OWNERS)


def _of(value: Any) -> Iterator[Cell]:
    """Yield the cells of an object or dict."""
    parts = dict.values(value) if isinstance(value, dict) else attributes(value).values() if _is_object(value) else ()
    return (option for part in parts for option in options_of(part) if type(option) is Cell)


def _is_object(value: Any) -> bool:
    return not isinstance(value, (list, tuple, Cell))


def holds(table: Any) -> bool:
    """Tell whether a dict has cells for items."""
    return isinstance(table, dict) and any(map(are, dict.values(table)))


def as_read(session: Session, table: dict[Any, Any]) -> dict[Any, Any]:
    """Return a dict with what is in the cells of another one."""
    return {key: read(session, item) if are(item) else item for key, item in dict.items(table)}


def are_in(value: Any) -> bool:
    """Tell whether a value of the program is a list of objects that have cells, which are opened where it leaves the program."""
    return isinstance(value, RuntimeList) and _has_cells(value.element)


def leave(session: Session, value: RuntimeList | fx.Node) -> None:
    """Note that such a list or an object leaves the program, which does no more with it: objects get what is in their cells."""
    node = value if isinstance(value, fx.Node) else session.builder.argument(value)
    session.builder.call_raw(control.item_open, (node,))


def _has_cells(kind: value_types.Type | None) -> bool:
    match kind:
        case value_types.ListType(element):
            return _has_cells(element)
        case value_types.TaggedUnionType(options):
            return any(map(_has_cells, options))
        case value_types.ContainerType(structure, items):
            return isinstance(structure, CellOf) or any(map(_has_cells, items))
    return False
