"""Functions that remember their results, as ``functools.lru_cache`` makes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from dy2st import errors
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.library.effects import CachedFunction, at_each_call
from dy2st.capture.session.regions import Region
from dy2st.capture.session.session import Session
from dy2st.capture.values.signals import Signal
from dy2st.capture.writes.places import CellPlace, Place
from dy2st_runtime.ir.program import node_blocks
from dy2st_runtime.primitives import control

_EFFECTS = (control.call_, control.print_)


def call_cached(session: Session, function: CachedFunction[Any], args: Any, kwargs: Any, inlined: Callable[[], Any]) -> Any:
    """Call one as if nothing were remembered; one that does something outside of itself does it when Python calls it.

    Args:
        session: the capture.
        function: it.
        args, kwargs: its arguments.
        inlined: calls what it wraps, which becomes a part of the program.

    Raises:
        CaptureError: what it does outside would be done at each call, and what it gives is not known before.
    """
    attempt, written = session.blocks.begin_attempt([]), dict(session.places.written_at)
    before = next(iter(reversed(session.builder.graph.nodes)), None)
    try:
        result = inlined()
    except Signal:
        session.blocks.roll_back(attempt)
        raise
    if not _writes(session, attempt[0]) and not any(map(_acts, _since(session, before))):
        session.blocks.commit(attempt)
        return result
    session.blocks.roll_back(attempt)
    session.places.written_at = written
    if result is None:
        return at_each_call(session, function, *args, **kwargs)
    known = _has_its_result(function, args, kwargs)
    if known or (session.blocks.at_root and not kwargs and all(isinstance(value, CONSTANTS) for value in args)):
        with session.suspended():
            result = session.tracker.answer(function, args, f"{function.__name__}()")
        if isinstance(result, CONSTANTS):
            return result
    raise errors.CaptureError(
        f"{function.__qualname__}() remembers its results, and writes, prints or draws something when it has none yet; a program "
        "would do so at each call",
        session.here(),
        fix="call it before the static function, and pass in what it gives",
    )


def _has_its_result(function: CachedFunction[Any], args: Any, kwargs: Any) -> bool:
    """Tell whether a function of no arguments remembers its only result: then it does nothing, on whatever way it is called."""
    alone = not (args or kwargs or inspect.signature(function.__wrapped__).parameters)
    return alone and function.cache_info().currsize > 0


def _writes(session: Session, region: Region) -> bool:
    """Tell whether something is written that was there before."""
    return any(not _is_new(session, entry.place, region) for entry in region.undo_log.entries.values())


def _is_new(session: Session, place: Place, region: Region) -> bool:
    time = session.allocations.allocated_at(place.cell if isinstance(place, CellPlace) else place.owner)
    return time is not None and time > region.start


def _since(session: Session, before: fx.Node | None) -> Iterator[fx.Node]:
    for node in reversed(session.builder.graph.nodes):
        if node is before:
            return
        yield node


def _acts(node: fx.Node) -> bool:
    if isinstance(node.target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in node.target.tags
    nested = (inner for block in node_blocks(node) for inner in block.graph.nodes if inner.op == "call_function")
    keeps = node.target is control.call_ and getattr(node.args[0], "only_keeps", False)  # what was written before this call
    return (node.target in _EFFECTS and not keeps) or any(map(_acts, nested))
