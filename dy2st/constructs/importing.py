"""Imports inside of functions: what they take out of a module is read from outside.

    from m import a, b as c     →   _dy2st.imports(None, 'm', 'a', 'b')
                                    from m import a, b as c
    from .m import a            →   _dy2st.imports(globals(), '.m', 'a')
                                    from .m import a
    import m.n as k             →   _dy2st.imports(None, 'm', 'n')
                                    import m.n as k

The statement itself stays: it imports the module, and raises what there is to raise.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

import gast

from dy2st.capture import current
from dy2st.capture.attributes import attributes
from dy2st.capture.environment.users_code import is_library
from dy2st.capture.session.session import Session
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites


@rewrites(gast.ImportFrom, Phase.CALLS)
def rewrite_import(node: gast.ImportFrom, context: Context) -> list[gast.stmt]:
    """Rewrite an import of names."""
    space = "globals()" if node.level else "None"
    texts = ["." * node.level + (node.module or ""), *(alias.name for alias in node.names)]
    call = f"_dy2st.imports({space}, {', '.join(map(repr, texts))})"
    return [*context.statements(call, node), node]


@rewrites(gast.Import, Phase.CALLS)
def rewrite_module(node: gast.Import, context: Context) -> list[gast.stmt]:
    """Rewrite an import of modules."""
    names = [alias.name.split(".") if alias.asname else [alias.name.partition(".")[0]] for alias in node.names]
    steps = [(".".join(parts[:end]), *parts[end : end + 1]) for parts in names for end in range(1, len(parts) + (len(parts) == 1))]
    text = "\n".join(f"_dy2st.imports(None, {', '.join(map(repr, step))})" for step in steps)
    return [*context.statements(text, node), node]


@operator("imports")
def imports(space: dict[str, Any] | None, name: str, /, *names: str) -> None:
    """Note that code takes some attributes out of a module: they are guarded as others are, absent ones too."""
    session = current()
    if session is None:
        return
    try:
        full = importlib.util.resolve_name(name, (space or {}).get("__package__"))
        module = importlib.import_module(full)
    except Exception:  # the statement says what is wrong
        _guard_absent(session, name)
        return
    if not is_library(full):
        table = session.tracker.table
        session.tracker.read(module, table.item(table.strong(sys.modules, "sys.modules"), full, full))
    for attribute in names:
        if f"{full}.{attribute}" not in sys.modules or hasattr(module, attribute):
            attributes.attr_or(module, attribute, None)


def _guard_absent(session: Session, name: str) -> None:
    """Note that a module cannot be imported: who puts it among those that are there changes that."""
    table = session.tracker.table
    if name not in sys.modules:
        session.tracker.guards.missing(table.item(table.strong(sys.modules, "sys.modules"), name, name))
