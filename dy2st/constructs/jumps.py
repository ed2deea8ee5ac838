"""`break`, `continue` and the `else` of loops.

    while n < 9:            →   break_1 = False
        n += 1                  while not break_1 and n < 9:
        if n % 2:                   n += 1
            continue                if n % 2:
        if n > m:                       pass
            break                   elif n > m:
        k += n                          break_1 = True
    else:                           else:
        k = 0                           k += n
                                if not break_1:
                                    k = 0

As for returns, a branch that always jumps takes the statements after it as the other branch; otherwise flags guard
them. The test is not evaluated, and an iterator not advanced, after a `break`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import gast

from dy2st import names
from dy2st.analysis.exits import may_jump
from dy2st.constructs.bodies import Lower, map_bodies, may_discard, start_handlers
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, Rewritten, rewrites
from dy2st.constructs.returns import split
from dy2st.source import template
from dy2st.source.nodes import GuardedFor


@rewrites(gast.While, Phase.JUMPS)
def rewrite_while(node: gast.While, context: Context) -> Rewritten:
    """Return a `while` whose body reaches its end on every way."""
    if id(node) in context.plain:
        return node
    jumps = _Jumps(node.body, context, node)
    orelse = node.orelse
    node.body, node.orelse = jumps.lowered(), []
    if jumps.breaks:
        test = "not flag and test"
        node.test = context.expression(test, node.test, flag=jumps.break_flag, test=node.test)
    return jumps.around(node, orelse)


@rewrites(gast.For, Phase.JUMPS)
def rewrite_for(node: gast.For, context: Context) -> Rewritten:
    """Return a `for` whose body reaches its end on every way."""
    if id(node) in context.plain:
        return node
    jumps = _Jumps(node.body, context, node)
    orelse = node.orelse
    node.body, node.orelse = jumps.lowered(), []
    if not jumps.breaks:
        return jumps.around(node, orelse)
    test = context.expression("not flag", node.iter, flag=jumps.break_flag)
    guarded = GuardedFor(target=node.target, iter=node.iter, test=test, body=node.body, orelse=[], type_comment=None)
    return jumps.around(template.place(guarded, node), orelse)


class _Jumps:
    """The jumps of one loop. In a `tail` list, falling off the end starts the next iteration."""

    def __init__(self, body: Sequence[gast.stmt], context: Context, at: gast.stmt) -> None:
        self._body = body
        self._context = context
        self._at = at
        self.breaks = any(may_jump(node, gast.Break) for node in body)
        self.break_flag, self._continue_flag = context.namer.numbered(names.BREAK, names.CONTINUE)
        self._continue_used = False

    def lowered(self) -> list[gast.stmt]:
        """Return the body without jumps."""
        body = self._tail(self._body)
        if self._continue_used:
            body = [*self._set(self._continue_flag, False, self._at), *body]
        return body

    def around(self, loop: gast.stmt, orelse: list[gast.stmt]) -> list[gast.stmt]:
        """Return the loop between its flag and its `else`."""
        if not self.breaks:
            return [loop, *orelse]
        start = self._set(self.break_flag, False, self._at)
        if not orelse:
            return [*start, loop]
        at = orelse[0]
        after = self._context.statements("if not flag:\n    body", at, flag=self.break_flag, body=orelse)
        return [*start, loop, *after]

    def _tail(self, body: Sequence[gast.stmt]) -> list[gast.stmt]:
        for index, node in enumerate(body):
            if _may_jump(node):
                done = [*body[:index], *self._tail_statement(node, body[index + 1 :])]
                return done or self._context.statements("pass", node)
        return list(body)

    def _tail_statement(self, node: gast.stmt, rest: Sequence[gast.stmt]) -> list[gast.stmt]:
        if isinstance(node, gast.Break):
            return self._set(self.break_flag, True, node)
        if isinstance(node, gast.Continue):
            return []
        if isinstance(node, gast.If):
            moved = split(node, rest, self._tail)
            if moved is not None:
                return [moved]
        elif not rest and not getattr(node, "orelse", None):
            return [self._mapped(node, self._tail)]
        kinds = self._kinds(node)
        return [self._flag_statement(node), *self._guard(self._tail(rest), node, kinds)]

    def _flag(self, body: Sequence[gast.stmt]) -> list[gast.stmt]:
        for index, node in enumerate(body):
            if _may_jump(node):
                return [*body[:index], *self._flag_with_rest(node, body[index + 1 :])]
        return list(body)

    def _flag_with_rest(self, node: gast.stmt, rest: Sequence[gast.stmt]) -> list[gast.stmt]:
        if isinstance(node, gast.Break):
            return self._set(self.break_flag, True, node)
        if isinstance(node, gast.Continue):
            self._continue_used = True
            return self._set(self._continue_flag, True, node)
        if isinstance(node, gast.If):
            moved = split(node, rest, self._flag)
            if moved is not None:
                return [moved]
        kinds = self._kinds(node)
        return [self._flag_statement(node), *self._guard(self._flag(rest), node, kinds)]

    def _flag_statement(self, node: gast.stmt) -> gast.stmt:
        kinds = [] if isinstance(node, gast.If) else self._kinds(*getattr(node, "body", ()))
        self._mapped(node, self._flag)
        if getattr(node, "orelse", None) and kinds:
            node.orelse = self._guard(node.orelse, node, kinds)
        return node

    def _mapped(self, node: gast.stmt, lower: Lower) -> gast.stmt:
        kinds = self._kinds(*node.body) if may_discard(node, _may_jump) else []
        map_bodies(node, lower, final=list)
        for flag in kinds:
            start_handlers(node, functools.partial(self._set, flag, False, node))
        return node

    def _kinds(self, *nodes: gast.stmt) -> list[str]:
        """Return the flags that tell whether a jump was taken inside `nodes`."""
        flags = {gast.Break: self.break_flag, gast.Continue: self._continue_flag}
        return [flag for kind, flag in flags.items() if any(may_jump(node, kind) for node in nodes)]

    def _guard(self, body: list[gast.stmt], at: gast.stmt, flags: list[str]) -> list[gast.stmt]:
        if not body:
            return []
        self._continue_used |= self._continue_flag in flags  # also where the only one stands behind another jump
        text = "if not flag:\n    body" if len(flags) == 1 else "if not (flag or other):\n    body"
        return self._context.statements(text, at, flag=flags[0], other=flags[-1], body=body)

    def _set(self, flag: str, value: bool, at: gast.stmt) -> list[gast.stmt]:
        return self._context.statements("flag = value", at, flag=flag, value=template.constant(value, at))


def _may_jump(node: gast.stmt) -> bool:
    return may_jump(node, gast.Break, gast.Continue)
