"""Attributes that an object has itself, written where it keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from dy2st.capture.attributes import tensor_attributes
from dy2st.capture.branching import unions
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.objects import cells
from dy2st.capture.session.session import Session
from dy2st.capture.values import storage
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st.capture.writes.places import AttributePlace
from dy2st.errors import CaptureError

Setter = Callable[[Any, str, Any], None]


def write(session: Session, target: Any, name: str, value: Any, setter: Setter) -> None:
    """Have an object keep an attribute."""
    held = storage.own(target, name)
    if cells.are(held):
        cells.write(session, held, value)
        return
    session.places.write(AttributePlace(target, name))
    held_in = [table for table in storage.tables(target) if name in table]
    for table in held_in:
        session.blocks.key_orders.write(table, name, unions.presence, unions.where_there)
    if isinstance(target, torch.Tensor):
        tensor_attributes.written(session, target, name)
    if isinstance(target, torch.nn.Module):
        check_table(session, target, name, value)
    setter(target, name, value)
    taken_out(session, held_in, name)


def delete(session: Session, target: Any, name: str, deleter: Callable[[Any, str], None]) -> None:
    """Have an object keep an attribute no more."""
    session.outside.ask_presence(AttributePlace(target, name))
    session.places.write(AttributePlace(target, name))
    held_in = [table for table in storage.tables(target) if name in table]
    deleter(target, name)
    taken_out(session, held_in, name)


def by_presence(session: Session, place: AttributePlace, step: Callable[[], None]) -> None:
    """Do something once with an attribute that is there on some ways only, and once without."""
    held = place.read()

    def once(known: Any) -> None:
        session.places.write(place)
        place.write(known)
        step()

    there = unions.presence(held)
    if isinstance(there, bool):
        once(held.without_unbound() if there else MISSING)
    else:
        capture_if_exp(there, lambda: once(held.without_unbound()), lambda: once(MISSING))


def check_table(session: Session, module: torch.nn.Module, name: str, value: Any) -> None:
    """Check a module: it keeps what it does not register where it has something of that name.

    Raises:
        CaptureError: a tensor decides where that is.
    """
    held = storage.own(module, name)
    if not isinstance(held, TaggedUnion) or storage.may_register(value) or not storage.may_register(held):
        return
    if all(map(storage.may_register, held.options.values())):
        return
    key = AttributePlace(module, name).key
    if storage.is_mixed(held) or any(entry.kept_in == "__dict__" and entry.place.key == key for entry in session.blocks.entries()):
        raise CaptureError(
            f"a tensor decides where a module keeps its attribute '{name}', and the attribute is assigned again",
            session.here(),
            fix="register it in the same way in both branches, or under two names",
        )


def taken_out(session: Session, tables: Iterable[dict[str, Any]], name: str) -> None:
    """Note that an attribute was in some dicts: if it comes back to one that does not have it any more, it comes last."""
    for table in tables:
        if name not in table:
            session.blocks.key_orders.taken_out(table, name)
