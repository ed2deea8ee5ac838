"""What the dicts and sets of which only the program knows the keys ask of the capture."""

from __future__ import annotations

from typing import Any

from dy2st.capture.branching import keys, optional
from dy2st.capture.collections import made_tables, runtime_tables
from dy2st.capture.library.registry import handles
from dy2st.capture.objects import table_sites
from dy2st.capture.session.session import Session
from dy2st.capture.values.abstract_objects import AbstractKeys, AbstractSet, in_any_order


@handles(runtime_tables.find)
def _find(session: Session, known: list[Any], key: Any) -> Any:
    return made_tables.find(session, known, key)


@handles(runtime_tables.under)
def _under(session: Session, values: list[Any], position: Any) -> Any:
    return made_tables.under(session, values, position)


@handles(runtime_tables.made)
def _made(session: Session, kind: type[Any]) -> Any:
    return made_tables.empty(session, kind)


@handles(runtime_tables.made_default)
def _made_default(session: Session, factory: Any) -> Any:
    result = made_tables.empty(session, runtime_tables.RuntimeDefaultDict)
    result.default_factory = factory
    return result


@handles(runtime_tables.shown)
def _shown(session: Session, table: Any, name: str) -> Any:
    return optional.view(table, name)


@handles(runtime_tables.is_runtime)
def _is_runtime(session: Session, value: Any) -> bool:
    return isinstance(value, AbstractKeys)


@handles(runtime_tables.as_member)
def _as_member(session: Session, key: Any) -> Any:
    return keys.as_member(session, key)


@handles(runtime_tables.members)
def _members(session: Session, items: Any) -> Any:
    if optional.has_optional(items) and isinstance(items, AbstractSet):
        table_sites.unite(session, (items,))
    return in_any_order(items)
