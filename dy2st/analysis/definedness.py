"""Which names are surely bound before each statement: a forward walk over structured control flow.

Too little is safe here: a name that is wrongly left out only gets an undefined marker that nobody sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import gast

from dy2st.analysis.flow import bound_by, certain_walruses, unbound_by
from dy2st.analysis.scopes import names_in
from dy2st.source.nodes import walk

Bound: TypeAlias = frozenset[str]


def definedness(body: Sequence[gast.stmt], entry: Bound) -> dict[int, Bound]:
    """Return the names surely bound before each statement of `body`, nested ones included, by the statement's identity."""
    walk = _Definedness()
    walk.body(body, entry)
    return walk.before


class _Definedness:
    """A state of None means that no way leads here."""

    def __init__(self) -> None:
        self.before: dict[int, Bound] = {}

    def body(self, statements: Sequence[gast.stmt], state: Bound | None) -> Bound | None:
        for statement in statements:
            self.before[id(statement)] = frozenset() if state is None else state
            state = None if state is None else self._statement(statement, state)
        return state

    def _statement(self, node: gast.stmt, state: Bound) -> Bound | None:
        if isinstance(node, gast.If):
            state |= certain_walruses(node.test)
            return _join(self.body(node.body, state), self.body(node.orelse, state))
        if isinstance(node, gast.While | gast.For):
            return self._loop(node, state)
        if isinstance(node, gast.Try) or type(node).__name__ == "TryStar":
            return self._try(node, state)
        if isinstance(node, gast.With):
            inside = state | frozenset(names_in(item.optional_vars for item in node.items).writes)
            self.body(node.body, inside)
            return state - unbound_in(node.body)
        if isinstance(node, gast.Return | gast.Raise):
            return None
        return (state | bound_by(node)) - unbound_by(node)

    def _loop(self, node: gast.While | gast.For, state: Bound) -> Bound:
        head = state - unbound_in(node.body)
        targets = names_in([node.target]).writes if isinstance(node, gast.For) else ()
        self.body(node.body, head | frozenset(targets))
        self.body(node.orelse, head)
        return head - unbound_in(node.orelse)

    def _try(self, node: gast.Try, state: Bound) -> Bound | None:
        deleted = unbound_in([node])
        end = self.body(node.body, state)
        end = self.body(node.orelse, end)
        for handler in node.handlers:
            name = frozenset() if handler.name is None else frozenset({handler.name.id})
            handled = self.body(handler.body, (state - deleted) | name)
            end = _join(end, None if handled is None else handled - name)
        after = self.body(node.finalbody, end)
        self.body(node.finalbody, state - deleted)
        return after


def _join(one: Bound | None, other: Bound | None) -> Bound | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def unbound_in(body: Sequence[gast.stmt]) -> Bound:
    """Return names that `body` may unbind, through `del` or the end of an `except ... as name`."""
    results = set(names_in(body).deletes)
    for statement in body:
        results.update(_handler_names(statement))
    return frozenset(results)


def _handler_names(node: gast.AST) -> set[str]:
    names = set()
    for child in walk(node):
        if isinstance(child, gast.ExceptHandler) and child.name is not None:
            names.add(child.name.id)
    return names
