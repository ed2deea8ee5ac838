"""Functions that remember their results, as ``functools.lru_cache`` makes them."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from dy2st import errors
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.environment.sources import is_in
from dy2st.capture.library.effects import CachedFunction, at_each_call
from dy2st.capture.session.regions import Region
from dy2st.capture.session.session import Session
from dy2st.capture.unconverted import opaque, unseen_writes
from dy2st.capture.values.signals import Signal
from dy2st.capture.writes.places import CellPlace, Place
from dy2st_runtime.ir.program import nested_blocks, node_blocks
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
    except errors.CaptureError as refusal:
        session.blocks.roll_back(attempt)
        session.places.written_at = written
        return _remembered(session, function, args, kwargs, refusal)
    made = [node for node in _since(session, before) if node.op != "placeholder"]  # those are older, or stand for what is
    changes_older = any(_changes_older(node, made) for node in made)
    if not changes_older and not _writes(session, attempt[0]) and not any(map(_acts, made)):
        session.blocks.commit(attempt)
        return result
    names = _names_written(session, attempt[0], changes_older)
    session.blocks.roll_back(attempt)
    session.places.written_at = written
    session.written_by_python.update((name, (function.__qualname__, session.here())) for name in names)
    if result is None:
        return at_each_call(session, function, *args, **kwargs)
    if _has_its_result(function, args, kwargs) or _is_asked_once(session, args, kwargs):
        return _from_python(session, function, args, kwargs)
    raise errors.CaptureError(
        f"{function.__qualname__}() remembers its results, and writes, prints or draws something when it has none yet; a program "
        "would do so at each call",
        session.here(),
        fix="call it before the static function, and pass in what it gives",
    )


def _remembered(session: Session, function: CachedFunction[Any], args: Any, kwargs: Any, refusal: errors.CaptureError) -> Any:
    """Return what Python gives for constants, where no program can do what the function does: it reads a file, say.

    It does so once, as in eager, and later calls get the same object.

    Raises:
        CaptureError: eager might not call it, or it writes to something outside that the capture may have read.
    """
    wrapped = function.__wrapped__
    if not (_is_asked_once(session, args, kwargs) and isinstance(wrapped, types.FunctionType)):
        raise refusal
    before = unseen_writes.reached(value for part in opaque.with_helpers(wrapped) for value in opaque.found(part))
    result = _from_python(session, function, args, kwargs)
    if unseen_writes.have_changed(before):
        raise refusal
    return result


def _is_asked_once(session: Session, args: Any, kwargs: Any) -> bool:
    """Tell whether each call of the program asks for a result, and for that of the same constants."""

    def is_constant(value: Any) -> bool:
        return isinstance(value, CONSTANTS) or (type(value) in (tuple, frozenset) and all(map(is_constant, value)))

    return session.blocks.at_root and all(map(is_constant, (*args, *kwargs.values())))


def _from_python(session: Session, function: CachedFunction[Any], args: Any, kwargs: Any) -> Any:
    """Return what Python gives: where nothing is remembered yet, it does now what eager would do."""
    given = functools.partial(function, **kwargs) if kwargs else function
    with session.suspended(), _disable_current_modes():
        result = given(*args)
    session.tracker.read(result, session.tracker.table.answer(given, args, f"{function.__name__}()"))
    return result


def _names_written(session: Session, region: Region, changes_older: bool) -> list[str]:
    """Return the names of what is written that was there before, and of all lists of the program where one of these is."""
    places = [entry.place for entry in region.undo_log.entries.values()]
    owners = [place.cell if isinstance(place, CellPlace) else place.owner for place in places]
    if changes_older:
        owners += [given.items for given in session.outside.growing_lists.values()]
    sources = [session.tracker.source_of(owner) for owner in owners]
    return [source.name for source in sources if source is not None]


def check_apart(session: Session, written: Collection[str]) -> None:
    """Check that the program writes nothing that such functions write, which Python calls: what it knows of it is older.

    Raises:
        CaptureError: it does.
    """
    for name, (function, where) in session.written_by_python.items():
        if any(is_in(one, name) for one in written):
            raise errors.CaptureError(
                f"{function}() remembers its results: Python calls it at run time, and both it and the program write to {name}",
                where,
                fix="write to something else in one of the two, or call the function before the static one",
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


def _changes_older(node: fx.Node, made: Sequence[fx.Node]) -> bool:
    """Tell whether an operation, or one in its blocks, changes a list of the program that is older than the operations made now."""
    if node.target in control.LIST_CHANGES:
        return node.args[0] not in made
    inner = (part for block in node_blocks(node) for one in nested_blocks(block) for part in one.graph.nodes)
    changed = (part.args[0] for part in inner if part.target in control.LIST_CHANGES)
    takes = any(isinstance(one, fx.Node) and one.op == "placeholder" for one in changed)
    return takes and any(used.op == "placeholder" and used not in made for used in node.all_input_nodes)


def _acts(node: fx.Node) -> bool:
    if isinstance(node.target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in node.target.tags
    nested = (inner for block in node_blocks(node) for inner in block.graph.nodes if inner.op == "call_function")
    keeps = node.target is control.call_ and getattr(node.args[0], "only_keeps", False)  # what was written before this call
    return (node.target in _EFFECTS and not keeps) or any(map(_acts, nested))
