"""The nodes of a tree, one after the other, and nodes that exist only between two phases."""

from __future__ import annotations

from collections.abc import Iterable

import gast

_FIELDS: dict[type, tuple[str, ...]] = {}
"""Of a class of nodes the fields that may hold nodes, contexts of names excepted."""
_NO_NODES = frozenset({"ctx", "type_comment", "kind", "attr", "arg", "asname", "lineno"})


def fields_of(kind: type) -> tuple[str, ...]:
    """Return the fields of a class of nodes that may hold nodes of interest: none looks at the context of a name."""
    fields = _FIELDS.get(kind)
    if fields is None:
        names: Iterable[str] = kind._fields  # type: ignore[attr-defined]
        fields = _FIELDS[kind] = tuple(name for name in names if name not in _NO_NODES)
    return fields


def children(node: gast.AST) -> list[gast.AST]:
    """Return the direct children of a node."""
    results: list[gast.AST] = []
    for field in fields_of(type(node)):
        value = getattr(node, field, None)
        if isinstance(value, gast.AST):
            results.append(value)
        elif isinstance(value, list):
            results += [child for child in value if isinstance(child, gast.AST)]
    return results


def walk(node: gast.AST) -> list[gast.AST]:
    """Return a node and all nodes under it, those nearer to it first."""
    results = [node]
    for part in results:
        results += children(part)
    return results


class GuardedFor(gast.For):  # type: ignore[misc]  # gast is untyped
    """A `for` that asks `test` before each step of its iterator; what a `for` with a `break` becomes.

    JUMPS makes it, BLOCKS turns it into a call, so it never reaches the compiler.
    """

    _fields = ("target", "iter", "test", "body", "orelse", "type_comment")


class TestBoolOp(gast.BoolOp):  # type: ignore[misc]  # gast is untyped
    """An `and` or `or` of which only the truth value counts, because it is (part of) the test of a statement.

    DESUGAR and BLOCKS make it, EXPRESSIONS turns it into a call.
    """
