"""The phases of the rewrite, and the tables of rewrites and operators that the construct files fill.

The order of the phases is the order of the enum; a (phase, node type) pair and an operator name register once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import gast

from dy2st.names import Operators

if TYPE_CHECKING:
    from dy2st.constructs.context import Context

Rewritten: TypeAlias = "gast.AST | list[gast.stmt]"
Rewrite: TypeAlias = "Callable[[Any, Context], Rewritten]"
Operator = TypeVar("Operator", bound=Callable[..., Any])
RewriteT = TypeVar("RewriteT", bound=Callable[..., Any])


class Phase(enum.Enum):
    """What is true after each phase."""

    DESUGAR = "no match, zero-argument super(), annotated assignment, private name; global and nonlocal stand first"
    RETURNS = "no return inside if, while or for"
    JUMPS = "no break, continue or loop else"
    BLOCKS = "no if, while, for or try with handlers, but around a yield; no name without a value"
    EXPRESSIONS = "and, or, not, a if b else c, is, in, a < b < c, f-string, assert and raise are operators"
    CALLS = "every call goes through the call operator"
    ACCESS = "every attribute, item, display, comprehension, starred argument, container operator and unbound name has an operator"


LAST_READABLE = Phase.EXPRESSIONS
"""The phase after which the tree is shown to users; the later ones only add noise for a reader."""

_rewrites: dict[Phase, dict[type, Rewrite]] = {phase: {} for phase in Phase}
_operators: dict[str, Callable[..., Any]] = {}


def rewrites(node_type: type, phase: Phase) -> Callable[[RewriteT], RewriteT]:
    """Register a function `(node, context) -> replacement` for one node type in one phase."""

    def register(rewrite: RewriteT) -> RewriteT:
        if node_type in _rewrites[phase]:
            raise RuntimeError(f"{node_type.__name__} already has a rewrite in phase {phase.name}")
        _rewrites[phase][node_type] = rewrite
        return rewrite

    return register


def operator(name: str) -> Callable[[Operator], Operator]:
    """Register the run-time half of a construct under the name that generated code uses."""

    def register(function: Operator) -> Operator:
        if name in _operators:
            raise RuntimeError(f"operator {name} is defined twice")
        _operators[name] = function
        return function

    return register


def rewrites_of(phase: Phase) -> dict[type, Rewrite]:
    """Return the rewrites of a phase, by the type of node."""
    return _rewrites[phase]


def namespace() -> Operators:
    """Return a new object with every operator as an attribute: what the hidden cell of a converted function holds."""
    return Operators(**_operators)
