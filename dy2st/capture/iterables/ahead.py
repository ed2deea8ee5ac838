"""Items that are taken before the program knows whether the code asks for them.

That is no difference where it takes them without being noticed. Where it raises, draws random numbers or does what may fail on its
way to an item, the capture starts again, and takes each item where the code asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import fx

from dy2st.capture.iterables.generators import UserGenerator
from dy2st.capture.session.session import Session
from dy2st.capture.values.signals import NeedsSteps
from dy2st.errors import CaptureError
from dy2st_runtime.analyses.aliasing import writes
from dy2st_runtime.analyses.removable import is_removable
from dy2st_runtime.ir.program import node_blocks
from dy2st_runtime.primitives import control

_T = TypeVar("_T")

_FAILS = ("linalg_", "cholesky", "index", "gather", "select", "take", "scatter", "embedding", "multinomial", "bernoulli", "narrow")
"""How operators are called that may fail for the values of a tensor."""


_ACTS = (control.raise_, control.assert_, control.print_, control.call_, control.apply_, control.transform_)


def taken(session: Session, iterator: Any, take: Callable[[], _T]) -> _T:
    """Take items of an iterator of the user's.

    Args:
        session: the capture.
        iterator: a generator, or an object with ``__next__``.
        take: takes the items.

    Raises:
        NeedsSteps: it can be noticed that they are taken.
    """
    result, is_noticed = _looked_at(session, take, may_fail=True)
    if is_noticed:
        raise NeedsSteps(_code_of(iterator))
    return result[0]


def required_quiet(session: Session, take: Callable[[], _T], what: str) -> _T:
    """Take items that ``map`` or ``filter`` makes, to be looked up by position.

    Raises:
        CaptureError: it raises or acts on its way to them.
    """
    result, is_noticed = _looked_at(session, take, may_fail=False)
    if is_noticed:
        raise CaptureError(
            f"the items of {what} are made before the loop that takes them, and what makes them raises, prints, writes or draws",
            session.here(),
            fix="call it in the loop: for k, value in enumerate(values): item = function(value)",
        )
    return result[0]


def _looked_at(session: Session, take: Callable[[], _T], may_fail: bool) -> tuple[list[_T], bool]:
    """Take items; gives them, if nothing was raised, and whether it can be noticed that they are taken."""
    builder, mark = session.builder, session.builder.mark()
    try:
        result = [take()]
    except CaptureError:
        raise
    except Exception:
        return [], True
    return result, builder is session.builder and any(_is_noticed(node, may_fail) for node in _since(mark))


def is_in_steps(session: Session, iterator: Any) -> bool:
    """Tell whether the items of an iterator must not be taken before the code asks for them."""
    return _code_of(iterator) in session.request.in_steps


def _code_of(iterator: Any) -> Any:
    return iterator.key if isinstance(iterator, UserGenerator) else type(iterator)


def _since(mark: fx.Node) -> list[fx.Node]:
    found, node = [], mark.next
    while node.op != "root":
        found.append(node)
        node = node.next
    return found


def _is_noticed(node: fx.Node, may_fail: bool) -> bool:
    """Tell whether an operation raises, acts, or (if that is asked) may fail for what it is given."""
    if node.op != "call_function":
        return False
    target: Any = node.target
    if target in (control.if_, control.while_):
        return any(_is_noticed(inner, may_fail) for block in node_blocks(node) for inner in block.graph.nodes)
    if isinstance(target, torch._ops.OpOverload):
        name = target.name().partition("::")[2]
        acts = bool(writes(node)) or torch.Tag.nondeterministic_seeded in target.tags
        return acts or (may_fail and name.startswith(_FAILS))
    if isinstance(target, control.Control):
        return target in _ACTS
    return may_fail and not is_removable(node)
