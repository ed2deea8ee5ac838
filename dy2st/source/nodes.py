"""Nodes that exist only between two phases."""

from __future__ import annotations

import gast


class GuardedFor(gast.For):  # type: ignore[misc]  # gast is untyped
    """A `for` that asks `test` before each step of its iterator; what a `for` with a `break` becomes.

    JUMPS makes it, BLOCKS turns it into a call, so it never reaches the compiler.
    """

    _fields = ("target", "iter", "test", "body", "orelse", "type_comment")


class TestBoolOp(gast.BoolOp):  # type: ignore[misc]  # gast is untyped
    """An `and` or `or` of which only the truth value counts, because it is (part of) the test of a statement.

    DESUGAR and BLOCKS make it, EXPRESSIONS turns it into a call.
    """
