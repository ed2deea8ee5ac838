"""Modules that the captured code makes: what torch's own code puts into them is as new as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dy2st.capture.session.session import Session
from dy2st.capture.values.symbolic import options_of
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
    _own(session, module, set(map(id, _modules_in(tree_leaves(given)))), register)


def _modules_in(values: Iterable[Any]) -> list[torch.nn.Module]:
    """Return modules among some values, and those inside of them; of one of several, all."""
    results: dict[int, torch.nn.Module] = {}
    waiting = [option for value in values for option in options_of(value)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, torch.nn.Module) and id(value) not in results:
            results[id(value)] = value
            waiting += [option for child in vars(value).get("_modules", {}).values() for option in options_of(child)]
    return list(results.values())


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
