"""Iterators from outside that run code of the user's: generators that have begun, ``map`` and ``filter`` of functions.

    self.ids = counter(10)              outside, where ``counter`` is a generator function
    name = next(self.ids)               in the static function

Their frames cannot be converted. They run at capture on real values, as if there were no capture, and the program that comes of
it serves this call alone. What they do then comes before all that the program does, so it is refused where that could be seen.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from dy2st import errors
from dy2st.capture.environment.plain_values import gives_once
from dy2st.capture.environment.users_code import is_users_function
from dy2st.capture.session.session import Session
from dy2st.capture.unconverted import opaque, unseen_writes
from dy2st.capture.values.symbolic import CAPTURE_VALUES
from dy2st.code_names import written_free, written_globals
from dy2st_runtime.ir.flattening import children
from dy2st_runtime.ir.program import node_blocks
from dy2st_runtime.primitives import control

_HOLDING = (tuple, types.BuiltinMethodType, types.MethodWrapperType)
"""What may hold what iterators take from, or call."""
_RAISING = (control.assert_, control.raise_)


class OlderIterators:
    """The iterators from outside of a capture.

    Args:
        session: the capture.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left: dict[int, Any] = {}
        """What objects held when one of them had gone on: what they have written there, they may read."""

    def runs_code(self, iterator: Any) -> bool:
        """Tell whether an iterator that was there before the call runs code of the user's when items are taken from it."""
        if self._session.tracker.source_of(iterator) is None:
            return False
        return any(isinstance(value, (types.GeneratorType, types.FunctionType)) for value in _held(iterator))

    def check(self, iterator: Any) -> None:
        """Check an iterator of which items are about to be taken, at capture.

        Raises:
            CaptureError: it was there before, and the program may raise something instead when it runs.
        """
        if self._session.tracker.source_of(iterator) is not None and any(map(_raises, self._session.builder.graph.nodes)):
            raise _refused(self._session, iterator, "follows on operations that may raise")

    def resumed(self, iterator: Any, resume: Callable[..., Any], *args: Any) -> Any:
        """Go on with one that does.

        Args:
            iterator: the iterator.
            resume: a method of it, or a function that gets it.
            args: what that gets.

        Raises:
            CaptureError: eager would show something else.
        """
        session, held = self._session, [*_held(iterator)]
        parts = [part for function in _functions(held) for part in opaque.with_helpers(function)]
        found = [*held, *(value for part in parts for value in opaque.found(part))]
        before = unseen_writes.reached(found)
        session.outside.show(value for value, _ in before)
        changed = {id(value) for value, now in before if not self._has_left(value, now)}
        _check(session, iterator, parts, changed, args)
        versions = [(tensor, tensor._version) for tensor, _ in session.tracker.tensors()]
        try:
            with session.suspended(), _disable_current_modes():
                return resume(*args)
        finally:
            for value, contents in before:
                unseen_writes.note(session, value, contents)
            self._left |= {id(value): now for value, now in unseen_writes.reached(found)}
            if any(tensor._version != version for tensor, version in versions):
                raise _refused(session, iterator, "changes a tensor that the program reads")

    def _has_left(self, value: Any, now: Any) -> bool:
        return id(value) in self._left and unseen_writes.is_same(self._left[id(value)], now)


def _check(session: Session, iterator: Any, parts: list[types.FunctionType], changed: set[int], args: tuple[Any, ...]) -> None:
    """Refuse to go on with an iterator where that is to follow on what the program does, or nobody sees what it writes."""
    if any(isinstance(value, CAPTURE_VALUES) or _is_abstract(session, value) for value in args):
        raise _refused(session, iterator, "gets a value that only the program knows")
    if any(map(_acts, session.builder.graph.nodes)):
        raise _refused(session, iterator, "follows on operations that print, draw or write to tensors")
    if any(True for part in parts for names in (written_globals, written_free) for _ in names(part.__code__)):
        raise _refused(session, iterator, "assigns variables from outside")
    names = {(id(part.__globals__), name) for part in parts for name in part.__code__.co_names}
    if any(key[1] in changed or key[1:] in names for key in session.places.written_at):
        raise _refused(session, iterator, "may read what the static function has written before")


def _refused(session: Session, iterator: Any, what: str) -> errors.CaptureError:
    source = session.tracker.source_of(iterator)
    name = type(iterator).__name__ if source is None else f"'{source.name}', an iterator that was there before"
    return errors.CaptureError(
        f"items are taken at capture from {name}: it {what}",
        session.here(),
        seen=f"a {type(iterator).__name__}, which cannot be put back where it was",
        fix="take the item outside of the static function, and pass it in as an argument",
    )


def _is_abstract(session: Session, value: Any) -> bool:
    parts = children(value)
    if isinstance(value, torch.Tensor):
        return session.fakes.is_abstract(value)
    return parts is not None and any(isinstance(part, CAPTURE_VALUES) or _is_abstract(session, part) for part in parts[0])


def _acts(node: fx.Node) -> bool:
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags
    return node.target in (control.call_, control.print_) or any(map(_acts, _inside(node)))


def _raises(node: fx.Node) -> bool:
    return node.target in _RAISING or any(map(_raises, _inside(node)))


def _inside(node: fx.Node) -> Iterator[fx.Node]:
    return (inner for block in node_blocks(node) for inner in block.graph.nodes if inner.op == "call_function")


def _held(iterator: Any) -> Iterator[Any]:
    """Yield an iterator, those that it takes from, and what these hold: functions, variables of generators."""
    waiting, seen = [iterator], set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, types.GeneratorType):
            waiting += [] if value.gi_frame is None else [*value.gi_frame.f_locals.values(), value.gi_yieldfrom]
        elif isinstance(value, types.MethodType):
            waiting += [value.__func__, value.__self__]
        elif gives_once(value) or isinstance(value, _HOLDING):
            waiting += gc.get_referents(value)


def _functions(held: list[Any]) -> Iterator[types.FunctionType]:
    """Yield the functions of the user's among some values; a generator as one that is bound to its variables."""
    for value in held:
        if isinstance(value, types.FunctionType) and is_users_function(value):
            yield value
        elif isinstance(value, types.GeneratorType) and value.gi_frame is not None:
            code, frame = value.gi_code, value.gi_frame
            cells = [types.CellType(*[frame.f_locals[name]] * (name in frame.f_locals)) for name in code.co_freevars]
            yield types.FunctionType(code, frame.f_globals, value.__name__, None, tuple(cells))
