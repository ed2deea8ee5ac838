"""The statement lists inside a statement that is not a loop, and jumps that do not get out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import gast

from dy2st.source.nodes import walk

Lower: TypeAlias = Callable[[Sequence[gast.stmt]], list[gast.stmt]]
Node = TypeVar("Node", bound=gast.stmt)


def map_bodies(node: Node, lower: Lower, final: Lower | None = None) -> Node:
    """Replace each statement list of `if`, `with` and `try` in place; `final` is for `finally`, in which no jump may stand."""
    if isinstance(node, gast.With):
        node.body = lower(node.body)
    elif isinstance(node, gast.If):
        node.body, node.orelse = lower(node.body), lower(node.orelse)
    elif isinstance(node, gast.Try) or type(node).__name__ == "TryStar":
        node.body = lower(node.body)
        for handler in node.handlers:
            handler.body = lower(handler.body)
        node.orelse = lower(node.orelse) if node.orelse else []
        node.finalbody = (final or lower)(node.finalbody)
    return node


def may_discard(node: gast.stmt, leaves: Callable[[gast.stmt], bool]) -> bool:
    """Tell whether an exception may replace a jump out of the body of `node` and land in its handlers.

    It must come after the jump: from a `finally`, or from a context manager on its way out.
    """
    if not getattr(node, "handlers", None):
        return False
    inside = [inner for statement in node.body for inner in walk(statement)]
    return any(isinstance(inner, gast.With | gast.Try) and leaves(inner) for inner in inside)


def start_handlers(node: gast.Try, reset: Callable[[], list[gast.stmt]]) -> None:
    """Put statements at the start of each handler."""
    for handler in node.handlers:
        handler.body = [*reset(), *handler.body]
