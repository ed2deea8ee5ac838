"""Private names: inside a class, Python compiles `self.__x` as `self._Class__x`.

A converted function is compiled outside of its class, so the names are spelled out beforehand, nested functions too.
A nested class mangles its own body with its own name.
"""

from __future__ import annotations

import gast

from dy2st.analysis.scopes import outside_parts
from dy2st.source.nodes import children


def mangle(node: gast.AST, class_name: str) -> None:
    """Spell out the private names under `node`, in place."""
    prefix = class_name.lstrip("_")
    if prefix:
        _mangle(node, prefix)


def _mangle(node: gast.AST, prefix: str) -> None:
    if isinstance(node, gast.ClassDef):
        if _mangled(node.name, prefix) != node.name:
            for statement in node.body:
                mangle(statement, node.name)  # by the name as written, which is about to change
            node.name = _mangled(node.name, prefix)
        for part in outside_parts(node):
            _mangle(part, prefix)
        return
    for field in ("id", "attr", "name", "asname", "arg", "rest"):
        value = getattr(node, field, None)
        if isinstance(value, str) and field in node._fields:
            setattr(node, field, _mangled(value, prefix))
    if isinstance(node, gast.Global | gast.Nonlocal):
        node.names = [_mangled(name, prefix) for name in node.names]
    for child in children(node):
        _mangle(child, prefix)


def _mangled(name: str, prefix: str) -> str:
    is_private = name.startswith("__") and not name.endswith("__") and "." not in name
    return f"_{prefix}{name}" if is_private else name
