"""Functions of the user's that run as they are written: what their code may read from outside is guarded before they run."""

from __future__ import annotations

import types
from typing import Any

import torch

from dy2st.capture.attributes import access
from dy2st.capture.attributes.attributes import attr, has_attr
from dy2st.capture.session.session import Session
from dy2st.capture.values.symbolic import CAPTURE_VALUES
from dy2st.capture.writes.places import CellPlace, ItemPlace, cell_value


def look(session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Guard what a function may read: its variables and arguments, and the attributes of them that it names."""
    names = _names(function.__code__)
    found = [*args, *kwargs.values(), *_variables(session, function, names)]
    access.look_into(session, *found)
    for value in found:
        if session.tracker.source_of(value) is None or isinstance(value, (torch.Tensor, type, types.ModuleType)):
            continue
        for name in names:
            if has_attr(value, name) is True and not callable(getattr(value, name)):
                access.look_into(session, attr(value, name))


def _variables(session: Session, function: types.FunctionType, names: dict[str, None]) -> list[Any]:
    """What a function finds in its closure and its globals."""
    tracker, table, space = session.tracker, session.tracker.table, function.__globals__
    root = table.strong(space, "globals()")
    tracker.know(space, root)
    found = []
    for name in names:
        if name in space:
            session.outside.read(ItemPlace(space, name), table.item(root, name, name))
            found.append(space[name])
    if tracker.source_of(function) is None:
        return found  # the cells of one that is made in the capture are the capture's
    own = table.held(function, function.__qualname__)
    for index, (name, cell) in enumerate(zip(function.__code__.co_freevars, function.__closure__ or ())):
        value = cell_value(cell)
        if not isinstance(value, (torch._subclasses.FakeTensor, *CAPTURE_VALUES)):
            step = table.item(table.attribute(own, "__closure__"), index, f"{name}'s cell")
            session.outside.read(CellPlace(cell, name), table.cell(step, name))
            found.append(value)
    return found


def _names(code: types.CodeType) -> dict[str, None]:
    """The globals and attributes that code names, that of its inner functions too."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
