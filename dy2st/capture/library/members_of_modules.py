"""The parameters, buffers and parts of a module: each is given once, wherever the module has it.

Where branches have given the module its tensors, only the program knows which of them are one. Those that were there before have to
stay different ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from dy2st.capture.branching import tensor_keys
from dy2st.capture.library import members_written_out
from dy2st.capture.library.registry import handles
from dy2st.capture.session.session import Session
from dy2st.capture.values.symbolic import TaggedUnion

_Module = torch.nn.Module
_TABLES = {_Module.named_parameters: "_parameters", _Module.named_buffers: "_buffers"}
_NAMED = {_Module.parameters: "named_parameters", _Module.buffers: "named_buffers"}


def _members(module: torch.nn.Module, table: str) -> list[Any]:
    parts, values = [module], []
    while parts:
        part = parts.pop()
        values += part.__dict__.get(table, {}).values()
        parts += [child for child in part.__dict__.get("_modules", {}).values() if isinstance(child, _Module)]
    return values


def _is_decided(session: Session, values: list[Any]) -> bool:
    """Tell whether it is known during the capture which of the tensors of a module are one."""
    if any(isinstance(value, TaggedUnion) for value in values):
        return False
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    inside = [tensor for tensor in tensors if not tensor_keys.is_outside(session, tensor)]
    return not tensor_keys.may_share(session, tensors, inside)


def _guard_apart(session: Session, values: list[Any], kind: str) -> None:
    """Note that those from outside have to stay different ones: each is given once."""
    found = {id(value): session.tracker.source_of(value) for value in values if isinstance(value, (torch.Tensor, _Module))}
    sources = [source for source in found.values() if source is not None]
    if len(sources) > 1:
        session.tracker.guards.all_apart(sources, kind)


def _handle_named(function: Any, table: str) -> None:
    @handles(function)
    def named(session: Session, module: Any, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Any:
        values = _members(module, table)
        _guard_apart(session, values, table.strip("_"))
        if _is_decided(session, values):
            return function(module, prefix, recurse, remove_duplicate)
        modules = [*module.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)] if recurse else [(prefix, module)]
        return session.call(iter, session.call(members_written_out.named_members, modules, table, remove_duplicate))


def _handle(function: Any, name: str, table: str) -> None:
    @handles(function)
    def members(session: Session, module: Any, recurse: bool = True) -> Any:
        values = _members(module, table)
        _guard_apart(session, values, table.strip("_"))
        if _is_decided(session, values):
            return function(module, recurse)
        named = session.call(getattr(module, name), recurse=recurse)
        return session.call(iter, session.call(members_written_out.members, named))


for _named, _table in _TABLES.items():
    _handle_named(_named, _table)
for _plain, _name in _NAMED.items():
    _handle(_plain, _name, _TABLES[getattr(_Module, _name)])


def _handle_parts(function: Any) -> None:
    @handles(function)
    def parts(session: Session, module: Any, *args: Any, **kwargs: Any) -> Any:
        _guard_apart(session, [module, *_members(module, "_modules")], "modules")
        found = function(module, *args, **kwargs)
        remembered = [*args, *kwargs.values()]
        return found if any(isinstance(value, set) for value in remembered) else _own_memo(found)


def _own_memo(found: Iterator[Any]) -> Iterator[Any]:
    """Give the items of a generator whose set of what it has given is its own: a block that a tensor decides may take them."""
    steps = (item for item in found)
    steps.__name__, steps.__qualname__ = found.__name__, found.__qualname__  # type: ignore[attr-defined]
    return steps


for _parts in (_Module.modules, _Module.named_modules, _Module.children, _Module.named_children):
    _handle_parts(_parts)
