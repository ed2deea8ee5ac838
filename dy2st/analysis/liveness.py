"""Which names may be read later, at each statement: a backward walk over structured control flow.

It runs after JUMPS: a `break`, a `continue` or the `else` of a loop is only left in generator functions.
Too much is safe here, too little is not: an operand that may be skipped never ends a life.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import gast

from dy2st.analysis.exits import may_jump
from dy2st.analysis.flow import bound_by
from dy2st.analysis.scopes import names_in

Live: TypeAlias = frozenset[str]
_NOTHING: Live = frozenset()


@dataclass(frozen=True)
class Lives:
    """What is live around one `if`, loop, `try` or `with`."""

    after: Live
    head: Live
    """Loops: before the test or the next step of the iterator. `if`: before the statement. `try`: before what follows its body."""
    entries: tuple[Live, ...]
    """At the start of each of its blocks, in order."""


def liveness(body: Sequence[gast.stmt]) -> dict[int, Lives]:
    """Return the lives around each `if`, loop, `try` and `with` of a function body, by the identity of the statement."""
    walk = _Liveness()
    walk.body(body, _NOTHING, _NOTHING)
    return walk.lives


class _Liveness:
    """`live` is what is live after, `caught` what is live wherever an exception of this statement may land."""

    def __init__(self) -> None:
        self.lives: dict[int, Lives] = {}

    def body(self, statements: Sequence[gast.stmt], live: Live, caught: Live) -> Live:
        for statement in reversed(statements):
            live = self._statement(statement, live, caught)
        return live

    def _statement(self, node: gast.stmt, live: Live, caught: Live) -> Live:
        if isinstance(node, gast.If):
            return self._if(node, live, caught)
        if isinstance(node, gast.While):
            return self._while(node, live, caught)
        if isinstance(node, gast.For):
            return self._for(node, live, caught)
        if isinstance(node, gast.Try) or type(node).__name__ == "TryStar":
            return self._try(node, live, caught)
        if isinstance(node, gast.With):
            return self._with(node, live, caught)
        if isinstance(node, gast.Return | gast.Raise):
            return _reads(node) | caught
        deleted = frozenset(names_in([node]).deletes)
        return (live - bound_by(node) - deleted) | _reads(node) | caught

    def _if(self, node: gast.If, live: Live, caught: Live) -> Live:
        then = self.body(node.body, live, caught)
        orelse = self.body(node.orelse, live, caught)
        before = _reads(node.test) | then | orelse | caught
        self.lives[id(node)] = Lives(live | caught, before, (then, orelse))
        return before

    def _while(self, node: gast.While, live: Live, caught: Live) -> Live:
        head = _reads(node.test) | self.body(node.orelse, live, caught) | live | caught
        while True:
            entry = self.body(node.body, head, self._jumping(node, head, caught))
            if entry <= head:
                break
            head |= entry
        self.lives[id(node)] = Lives(live, head, (head, entry))
        return head

    def _for(self, node: gast.For, live: Live, caught: Live) -> Live:
        targets = names_in([node.target])
        test = _reads(getattr(node, "test", None))
        head = self.body(node.orelse, live, caught) | live | caught | test
        while True:
            entry = self.body(node.body, head, self._jumping(node, head, caught))
            before = (entry - frozenset(targets.writes)) | frozenset(targets.reads)
            if before <= head:
                break
            head |= before
        self.lives[id(node)] = Lives(live, head, (before,))
        return head | _reads(node.iter)

    @staticmethod
    def _jumping(node: gast.While | gast.For, head: Live, caught: Live) -> Live:
        """Return what is live wherever an exception or a jump of a loop that stays as it is may land."""
        return head | caught if any(may_jump(statement, gast.Break, gast.Continue) for statement in node.body) else caught

    def _try(self, node: gast.Try, live: Live, caught: Live) -> Live:
        final = self.body(node.finalbody, live, caught)
        escaping = final | caught if node.finalbody else caught
        handled = escaping
        entries: list[Live] = []
        for handler in node.handlers:
            name = frozenset() if handler.name is None else frozenset({handler.name.id})
            entries.append(_reads(handler.type) | (self.body(handler.body, final, escaping) - name))
            handled |= entries[-1]
        orelse = self.body(node.orelse, final, escaping)
        before = self.body(node.body, orelse, handled) | handled
        self.lives[id(node)] = Lives(final | escaping, handled | orelse, (before, *entries, orelse))
        return before

    def _with(self, node: gast.With, live: Live, caught: Live) -> Live:
        inside = self.body(node.body, live, caught | live)  # a context manager may swallow an exception
        bound = frozenset(names_in(item.optional_vars for item in node.items).writes)
        self.lives[id(node)] = Lives(live | caught, live, (inside,))
        return (inside - bound) | frozenset(names_in(node.items).reads) | caught | live


def _reads(node: gast.AST | None) -> Live:
    return frozenset(names_in([node]).reads)
