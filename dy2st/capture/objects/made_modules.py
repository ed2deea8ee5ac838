"""Modules that the captured code makes: what torch's own code puts into them is as new as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dy2st.capture.session.session import Session
from dy2st_runtime.ir.flattening import attributes
from dy2st_runtime.ir.structure import CollectionOf, ListOf, ObjectOf, Structure


def own(session: Session, module: torch.nn.Module, given: Any, register: Callable[[Session, Any], Any]) -> None:
    """Note that a module has been made, with the containers and modules in it.

    Args:
        session: the capture.
        module: the module.
        given: what its ``__init__`` was given: the modules in that are older.
        register: notes that an object has been made.
    """
    modules = (leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.nn.Module))
    _own(session, module, {id(part) for one in modules for part in one.modules()}, register)


def _own(session: Session, module: torch.nn.Module, older: set[int], register: Callable[[Session, Any], Any]) -> None:
    for part in vars(module).values():
        if isinstance(part, (dict, set)):
            session.allocations.created[id(part)] = part
            session.allocations.own(part)
    for child in vars(module).get("_modules", {}).values():
        is_known = id(child) in session.allocations.created or session.tracker.source_of(child) is not None
        if isinstance(child, torch.nn.Module) and not is_known and id(child) not in older:
            register(session, child)
            _own(session, child, older, register)


def is_part(session: Session, value: Any) -> bool:
    """Tell whether a value is a module that the captured code has made, or a set in one."""
    return isinstance(value, (torch.nn.Module, set)) and id(value) in session.allocations.created


def parts_of(value: Any) -> tuple[Sequence[Any], Callable[[tuple[Structure, ...]], Structure]]:
    """Return the parts of such a module or set, and how to describe it from those of its parts."""
    if isinstance(value, set):
        return list(value), lambda items: CollectionOf("set", (ListOf(items),))
    inside = attributes(value)
    return list(inside.values()), lambda items: ObjectOf(type(value), tuple(inside), items)


def holds_abstract(session: Session, value: Any) -> bool:
    """Tell whether a value is a module of which nobody has seen that it is made, with tensors of the program."""
    if not isinstance(value, torch.nn.Module) or session.tracker.source_of(value) is not None:
        return False
    return any(map(session.fakes.is_abstract, (*value.parameters(), *value.buffers())))
