"""`return` inside `if`, loops and `try`: one exit at the end.

    if x.sum() > 0:         →   if x.sum() > 0:
        return x                    result = x
    y = -x                      else:
    return y                        y = -x
                                    result = y
                                return result

A branch that always returns takes the statements after it as the other branch. Where that cannot be seen, a flag guards
them:

    for x in xs:            →   returned = False
        if x > 0:               for x in xs:
            return x                if x > 0:
    return None                         result = x
                                        returned = True
                                        break
                                if not returned:
                                    result = None
                                return _dy2st.returned_value(result)

A function whose returns all stand outside of these is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gast

from dy2st import names
from dy2st.analysis.blocks import is_block_statement
from dy2st.analysis.exits import ends, may_leave
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st.constructs.bodies import map_bodies, may_discard, start_handlers
from dy2st.constructs.context import Context
from dy2st.constructs.registry import Phase, operator, rewrites
from dy2st.source import template

_LOOPS = (gast.While, gast.For)


@rewrites(gast.FunctionDef, Phase.RETURNS)
def rewrite_function(node: gast.FunctionDef, context: Context) -> gast.FunctionDef:
    """Give the function one exit, if a return stands inside an `if`, a loop or a `try`."""
    if node is not context.root or context.yields or not _needs_rewrite(node.body):
        return node
    lowering = _Returns(context)
    last = node.body[-1]
    body = lowering.tail(node.body, last)
    text = "return _dy2st.returned_value(result)" if lowering.flagged else "return result"
    node.body = [*body, *context.statements(text, last, result=lowering.result)]
    return node


def without_returns(body: Sequence[gast.stmt], context: Context) -> list[gast.stmt]:
    """Return statements that fall off their end where `body` returns; the values are evaluated, and forgotten."""
    return _Returns(context).tail(body, body[-1]) if any(map(_may_return, body)) else list(body)


def with_flag(body: Sequence[gast.stmt], context: Context) -> tuple[list[gast.stmt], list[gast.stmt]]:
    """Return statements that fall off their end where `body` returns, and those that return then what it has returned."""
    if not any(map(_may_return, body)):
        return list(body), []
    lowering = _Returns(context)
    return lowering.kept(body)


@operator("returned_value")
def returned_value(value: Any) -> Any:
    """Return the value of a function that may have returned early from a loop: by now one has been set."""
    return value.without_unbound() if isinstance(value, TaggedUnion) else value


def _needs_rewrite(body: Sequence[gast.stmt]) -> bool:
    return any(_returns_in_block(statement) for statement in body)


def _returns_in_block(node: gast.stmt) -> bool:
    if is_block_statement(node):
        return _may_return(node)
    return any(_needs_rewrite(body) for body in _bodies(node))


def _bodies(node: gast.stmt) -> list[Sequence[gast.stmt]]:
    results: list[Sequence[gast.stmt]] = []
    map_bodies(node, lambda body: results.append(body) or list(body))  # type: ignore[func-returns-value]
    return results


def _may_return(node: gast.stmt) -> bool:
    return may_leave(node, gast.Return)


class _Returns:
    """`tail` lists reach the end of the function when they fall off; `flag` lists reach guarded statements."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.flagged = False
        self.result = context.namer.fresh(names.RESULT)
        self._returned = context.namer.fresh(names.RETURNED)

    def kept(self, body: Sequence[gast.stmt]) -> tuple[list[gast.stmt], list[gast.stmt]]:
        """Return statements that set the flag and the result where `body` returns, and those that return the result if it did."""
        at = body[-1]
        text = "if returned:\n    return result"
        leave = self._context.statements(text, at, returned=self._returned, result=self.result)
        return [*self._set_returned(False, body[0]), *self._flag(body, False)], leave

    def tail(self, body: Sequence[gast.stmt], end: gast.stmt) -> list[gast.stmt]:
        """Return statements that set the result on every way through `body`; `end` places an implicit `return None`."""
        for index, node in enumerate(body):
            if _may_return(node):
                before, rest = list(body[:index]), body[index + 1 :]
                return before + self._tail_statement(node, rest, end)
        falls_off = not ends(body)
        return list(body) + (self._set_result(template.constant(None, end), end) if falls_off else [])

    def _tail_statement(self, node: gast.stmt, rest: Sequence[gast.stmt], end: gast.stmt) -> list[gast.stmt]:
        if isinstance(node, gast.Return):
            return self._set_result(node.value or template.constant(None, node), node)
        if isinstance(node, gast.If):
            moved = split(node, rest, lambda body: self.tail(body, end))
            if moved is not None:
                return [moved]
        elif not rest and not isinstance(node, _LOOPS) and not getattr(node, "orelse", None):
            start = self._set_result(template.constant(None, node), node)
            return [*start, map_bodies(node, lambda body: self.tail(body, end), final=list)]
        self.flagged = True
        start = self._set_returned(False, node)
        return [*start, *self._flag_statement(node, False), *self._guard(self.tail(rest, end), node)]

    def _flag(self, body: Sequence[gast.stmt], in_loop: bool) -> list[gast.stmt]:
        for index, node in enumerate(body):
            if _may_return(node):
                before, rest = list(body[:index]), body[index + 1 :]
                return before + self._flag_with_rest(node, rest, in_loop)
        return list(body)

    def _flag_with_rest(self, node: gast.stmt, rest: Sequence[gast.stmt], in_loop: bool) -> list[gast.stmt]:
        if isinstance(node, gast.Return):
            return self._flag_statement(node, in_loop)
        if isinstance(node, gast.If) and not in_loop:
            moved = split(node, rest, lambda body: self._flag(body, in_loop))
            if moved is not None:
                return [moved]
        done = self._flag_statement(node, in_loop)
        after = self._flag(rest, in_loop)
        if not in_loop:
            return [*done, *self._guard(after, node)]
        if isinstance(node, _LOOPS):
            leave = self._context.statements("if returned:\n    break", node, returned=self._returned)
            return [*done, *leave, *after]
        return [*done, *after]

    def _flag_statement(self, node: gast.stmt, in_loop: bool) -> list[gast.stmt]:
        if isinstance(node, gast.Return):
            value = node.value or template.constant(None, node)
            leave = self._context.statements("break", node) if in_loop else []
            return [*self._set_result(value, node), *self._set_returned(True, node), *leave]
        if isinstance(node, _LOOPS):
            node.body = self._flag(node.body, True)
            node.orelse = self._flag(node.orelse, in_loop)
            return [node]
        guarded = not in_loop and not isinstance(node, gast.If) and _may_leave_any(getattr(node, "body", ()))
        discards = may_discard(node, _may_return)
        map_bodies(node, lambda body: self._flag(body, in_loop), final=list)
        if discards:
            start_handlers(node, lambda: self._set_returned(False, node))
        if guarded and getattr(node, "orelse", None):
            node.orelse = self._guard(node.orelse, node)
        return [node]

    def _guard(self, body: list[gast.stmt], at: gast.stmt) -> list[gast.stmt]:
        if not body:
            return []
        return self._context.statements("if not returned:\n    body", at, returned=self._returned, body=body)

    def _set_returned(self, flag: bool, at: gast.stmt) -> list[gast.stmt]:
        value = template.constant(flag, at)
        return self._context.statements("returned = value", at, returned=self._returned, value=value)

    def _set_result(self, value: gast.expr, at: gast.stmt) -> list[gast.stmt]:
        return self._context.statements("result = value", at, result=self.result, value=value)


def _may_leave_any(body: Sequence[gast.stmt]) -> bool:
    return any(_may_return(node) for node in body)


def split(node: gast.If, rest: Sequence[gast.stmt], lower: Callable[[Sequence[gast.stmt]], list[gast.stmt]]) -> gast.If | None:
    """Return the `if` with the statements after it moved into the branch that reaches them; None if both may reach them."""
    if ends(node.body):
        node.body, node.orelse = lower(node.body), lower([*node.orelse, *rest])
    elif ends(node.orelse):
        node.body, node.orelse = lower([*node.body, *rest]), lower(node.orelse)
    elif not rest:
        node.body, node.orelse = lower(node.body), lower(node.orelse)
    else:
        return None
    return node
