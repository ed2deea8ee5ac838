"""Python iterators that captured code steps through.

They cannot be rewound. A block that is captured may not run, and one may be captured twice: so the capture keeps account of which
block took items from which iterator, and refuses what would find the iterator at a place that only the run of the program knows.
Iterators that the user wrote in Python are objects like any other: their methods are converted, what they write is noted.
"""

from __future__ import annotations

import collections.abc
import copy
import dis
import gc
import io
import types
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.attributes import access, class_attributes
from dy2st.capture.branching import optional
from dy2st.capture.containers.iterables import RuntimeIterable, Stream
from dy2st.capture.environment import written_out
from dy2st.capture.environment.plain_values import gives_once, is_counter
from dy2st.capture.environment.users_code import has_own, is_converted_module
from dy2st.capture.iterables import watching
from dy2st.capture.iterables.generators import UserGenerator
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.raising.unwinding import handled
from dy2st.capture.session.iterators import sources
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.values import dict_views, storage
from dy2st.capture.values.symbolic import Stale, TaggedUnion
from dy2st.capture.writes.places import CellPlace, Place
from dy2st_runtime.primitives import control

END: Any = object()
"""What :func:`step` gives when there is no further item."""

GENERATORS = (types.GeneratorType, UserGenerator)

_EFFECTS = frozenset({"STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "DELETE_ATTR", "DELETE_SUBSCR", "STORE_GLOBAL", "DELETE_GLOBAL"})
_CHANGING = frozenset(
    ("append", "extend", "insert", "remove", "pop", "popleft", "appendleft", "clear", "add", "discard", "update", "setdefault",
     "sort", "reverse", "popitem", "print")
)  # fmt: skip


def started(iterable: Any) -> Any:
    """Return ``iter(iterable)``; a tensor gives its rows."""
    session = need()
    if isinstance(iterable, TaggedUnion):
        iterable = over(iterable)
    if isinstance(iterable, torch.Tensor) and iterable.dim():
        return iter(iterable.unbind(0))
    own = _written_by_user(iterable, "__iter__")
    if own is not None:
        class_attributes.of_class(session, iterable, "__iter__")
        return session.call(types.MethodType(own, iterable))
    if _written_by_user(iterable, "__getitem__") is not None and not hasattr(type(iterable), "__iter__"):
        return _by_position(iterable)
    if isinstance(iterable, collections.abc.Iterator):
        take(session, iterable)
    return iter(iterable)


def opened(iterable: Any) -> Any:
    """Return what the ``__iter__`` of the user's gives, where its length is known only at run time, or its steps.

    Anything else is given back as it is.
    """
    if _written_by_user(iterable, "__iter__") is None or optional.is_open(iterable, "__iter__"):
        return iterable
    iterator = started(iterable)
    return iterator if isinstance(iterator, (TaggedUnion, RuntimeIterable, Stream)) else steps(iterator)


def over(iterable: Any, refusal: str = "'{}' object is not iterable") -> Any:
    """Return what Python itself may iterate over instead: a tensor by its rows, an object of the user's through its converted
    methods.

    Args:
        iterable: anything, or a tagged union: then it is what is in either now.
        refusal: what Python says of an option that is not iterable, with its class.
    """
    session = current()
    if session is None:
        return iterable
    iterable = optional.now(session, iterable)
    in_order = not has_own(iterable, "__iter__") and session.blocks.key_orders.asks(iterable) is not None
    if in_order or optional.is_open(iterable, "__iter__"):
        iterable = optional.case_split(session, iterable, tuple, ordered=True)
    if isinstance(iterable, TaggedUnion):
        iterable = session.over(iterable, lambda option: _in_tuple(option, refusal))
    if isinstance(iterable, torch.Tensor) and iterable.dim():
        return iterable.unbind(0)
    if isinstance(iterable, collections.abc.Iterator) and not is_written_by_user(iterable):
        take(need(), iterable)
        return steps(iterable) if session.iterators.older.runs_code(iterable) else iterable
    by_user = [name for name in ("__iter__", "__next__", "__getitem__") if _written_by_user(iterable, name) is not None]
    if not by_user:
        return iterable
    iterator = started(iterable)
    if isinstance(iterator, TaggedUnion):
        return session.over(iterator, lambda option: _in_tuple(option, refusal))
    return steps(iterator)


def _in_tuple(option: Any, refusal: str) -> Any:
    kind: Any = type(option)
    if not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
        raise raised(TypeError(refusal.format(kind.__name__)))
    return need().call(tuple, option)


def steps(iterator: Any) -> Iterator[Any]:
    """Yield what an iterator gives, step by step."""
    while (item := step(iterator)) is not END:
        yield item


def step(iterator: Any, is_alone: bool = False) -> Any:
    """Return ``next(iterator)``, or :data:`END`.

    Args:
        iterator: what gives the item.
        is_alone: whether nobody else takes from it from now on: each step may be in another block than the one before.
    """
    own = _written_by_user(iterator, "__next__")
    if own is None:
        if not is_alone:
            _note_step(iterator)
        item = _next(iterator, END)
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, Stale):
                raise errors.CaptureError(
                    "this loop takes items from a list that changes its length where a tensor decides",
                    need().here(),
                    fix="loop over the list itself, or over a copy: list(items)",
                )
        return item
    try:
        with handled(lambda: (StopIteration,)):
            return need().call(types.MethodType(own, iterator))
    except StopIteration:
        return END


def _note_step(iterator: Any) -> None:
    """Note which block takes a step of an iterator that is kept."""
    session = current()
    if session is None or not session.iterators.made:
        return
    for one in (iterator, *sources(iterator)):
        if id(one) in session.iterators.made and not isinstance(one, Stream):
            _note(session, one)


def _next(iterator: Any, *default: Any) -> Any:
    session = current()
    if session is not None and isinstance(iterator, dict_views.ITERATORS):
        _check_unchanged(session, iterator)
    if session is None or not session.iterators.older.runs_code(iterator):
        return next(iterator, *default)
    try:
        return session.iterators.older.resumed(iterator, next, iterator)
    except StopIteration:
        if default:
            return default[0]
        raise


def _check_unchanged(session: Session, iterator: Any) -> None:
    """Refuse to go on over a dict of which a tensor has decided the keys meanwhile: Python's own iterator sees the Python object.

    Raises:
        CaptureError: it has.
    """
    for table in gc.get_referents(iterator):
        if isinstance(table, dict) and optional.is_unsure(session, table):
            raise errors.CaptureError(
                "this takes items from a dict of which a tensor has decided the keys, or their order, since the iterator was made",
                session.here(),
                fix="take the items before, or from a copy: iter(list(table))",
            )


def check_asked(session: Session, iterator: Any) -> None:
    """Check a value of which somebody asks how far it is, or makes another, where it is an iterator.

    Raises:
        Signal: a tensor has decided how many of its items have been taken.
        CaptureError: the program knows how far it is.
    """
    session.iterators.check_left(iterator)
    if isinstance(iterator, Stream):
        raise errors.CaptureError(
            "an iterator of which a tensor decides how far it is is copied, or asked for its length",
            session.here(),
            fix="collect what is left in a list: rest = list(iterator)",
        )


def copied(iterator: Any) -> Any:
    """Return another iterator that gives what an iterator has left; ``None`` where Python cannot make one."""
    if isinstance(iterator, (*_OF_CONTAINERS, *dict_views.ITERATORS, watching.Steps)):
        return copy.copy(iterator)
    if type(iterator) not in (enumerate, zip):
        return None
    kind, parts, *state = iterator.__reduce__()
    given = tuple(map(copied, parts[:1] if kind is enumerate else parts))
    if any(part is None for part in given):
        return None
    return enumerate(given[0], parts[1]) if kind is enumerate else zip(*given, strict=bool(state))


_OF_CONTAINERS: tuple[type, ...] = (*(type(iter(kind())) for kind in (list, tuple, str)), type(iter(range(0))))
"""Iterators of which a copy stands where they stand."""


def gives_by_steps(iterable: Any) -> bool:
    """Tell whether code may run, and raise, on the way to an item: what has been taken by then is where it was put."""
    if isinstance(iterable, collections.abc.Iterator):
        return not isinstance(iterable, (*_OF_CONTAINERS, *dict_views.ITERATORS))
    return any(_written_by_user(iterable, name) is not None for name in ("__iter__", "__getitem__"))


def is_written_by_user(iterator: Any) -> bool:
    """Tell whether the steps of an iterator are functions that can be converted."""
    return _written_by_user(iterator, "__next__") is not None


def next_(iterator: Any, *default: Any) -> Any:
    """Return ``next(iterator, default)``."""
    if not is_written_by_user(iterator):
        session = need()
        if is_counter(iterator) and session.tracker.source_of(iterator) is not None and id(iterator) not in session.iterators.taken:
            return _counted(session, iterator)
        take(session, iterator)
        return _next(iterator, *default)
    step = types.MethodType(_written_by_user(iterator, "__next__"), iterator)
    return need().call(written_out.attempted, step, StopIteration, lambda: default[0]) if default else need().call(step)


def _counted(session: Session, counter: Any) -> Any:
    """Return the next number of a counter from outside (``next(self.ids)``): the program takes it when it runs."""
    session.iterators.counters[id(counter)] = counter
    number = session.shapes.fresh_int()
    session.builder.call(control.call_, (next, (counter,), {}), {}, number)
    return number


def take(session: Session, iterator: Any) -> None:
    """Note that items are taken from an iterator by the block that is recorded now.

    Raises:
        CaptureError: another block may have taken some, or the iterator does more than give items.
    """
    if isinstance(iterator, UserGenerator):
        return  # it looks itself, at each step
    if isinstance(iterator, io.IOBase) and id(iterator) not in session.allocations.created:
        raise errors.CaptureError(
            f"a {type(iterator).__name__} from outside is read, and would be so only once, at capture",
            session.here(),
            fix="read it outside of the static function, and pass in what it gives as an argument",
        )
    if isinstance(iterator, Stream) and iterator.resumes and not session.iterators.is_spent(iterator):
        return  # the program knows how far it has come
    session.tracker.step_at_capture(iterator)
    if id(iterator) in session.iterators.counters:
        session.iterators.fail_spent(iterator)
    if not session.blocks.at_root:
        check_pure(session, iterator)
        check_own(session, iterator)
    session.iterators.older.check(iterator)
    _note(session, iterator)
    for one in sources(iterator):
        if id(one) in session.iterators.made and not (isinstance(one, Stream) and one.resumes):
            _note(session, one)


def _note(session: Session, iterator: Any) -> None:
    taken = session.iterators.taken.get(id(iterator))
    if taken is not None and (taken[1] is None or not session.builder.is_inside(taken[1])):
        session.iterators.fail_spent(iterator)
    session.iterators.taken[id(iterator)] = (iterator, session.builder)
    session.blocks.region.iterators.append(iterator)


def check_pure(session: Session, iterator: Any) -> None:
    """Refuse a generator that changes things outside of it, to be run where a tensor decides.

    Raises:
        CaptureError: it does.
    """
    if isinstance(iterator, GENERATORS) and _has_effects(iterator.gi_code):
        raise _impure(session, iterator)


def check_own(session: Session, *values: Any) -> None:
    """Refuse iterators that take from one that was there before, to be stepped through where a tensor decides.

    Raises:
        CaptureError: there is one.
    """
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or not isinstance(value, _STEPPED):
            continue
        seen.add(id(value))
        source = session.tracker.source_of(value) if gives_once(value) else None
        if source is not None:
            raise errors.CaptureError(
                f"a tensor decides how many items are taken from '{source.name}', an iterator that was there before",
                session.here(),
                seen=f"a {type(value).__name__}, which cannot be put back where it was",
                fix="take the items before the branch or loop, or go through a list by position",
            )
        waiting += storage.plain(value) if isinstance(value, tuple) else gc.get_referents(value)


_STEPPED = (collections.abc.Iterator, tuple, types.BuiltinMethodType, types.MethodWrapperType)
"""What may take from an iterator, and what may hold such."""


def quietly(session: Session, iterator: Any, take_items: Callable[[], Any]) -> Any:
    """Take items from an iterator where a tensor decides how many.

    Raises:
        CaptureError: it is a generator that changes more than variables of its own.
    """
    if not isinstance(iterator, UserGenerator):
        return take_items()
    attempt = session.blocks.begin_attempt([])
    items = take_items()
    if not all(iterator.owns(write.place) for write in attempt[0].undo_log.writes().values()):
        raise _impure(session, iterator)
    session.blocks.commit(attempt)
    return items


def _impure(session: Session, iterator: Any) -> errors.CaptureError:
    if isinstance(iterator, UserGenerator):
        iterator.ask_to_give()
    return errors.CaptureError(
        f"the generator {iterator.__qualname__}() changes something or prints, and a tensor decides whether it runs",
        session.here(),
        fix="write the loop of the generator where its items are used, or have it give items only",
    )


def _has_effects(code: types.CodeType) -> bool:
    for instruction in dis.get_instructions(code):
        outside = instruction.opname == "STORE_DEREF" and instruction.argval in code.co_freevars
        if outside or instruction.opname in _EFFECTS or instruction.argval in _CHANGING:
            return True
    return False


def reads_nothing_of(iterator: Any, changed: Collection[Place]) -> bool:
    """Tell whether an iterator is a generator whose next items do not depend on some places: then they may be taken at once."""
    if not isinstance(iterator, GENERATORS) or not all(isinstance(place, CellPlace) for place in changed):
        return False
    frame = iterator.gi_frame
    if frame is None or frame.f_globals.get("__name__", "").startswith("dy2st."):
        return False
    names = set(iterator.gi_code.co_freevars)
    for value in frame.f_locals.values():
        names.update(value.__code__.co_freevars if isinstance(value, types.FunctionType) else ())
    return names.isdisjoint(str(place) for place in changed)


def _by_position(iterable: Any) -> Iterator[Any]:
    position = 0
    while True:
        try:
            with handled(lambda: (IndexError,)):
                item = access.item(iterable, position)
        except IndexError:
            return
        yield item
        position += 1


def _written_by_user(value: Any, name: str) -> Any:
    result = getattr(type(value), name, None)
    if not isinstance(result, types.FunctionType) or isinstance(value, torch.Tensor):
        return None
    is_own = result.__module__.startswith("dy2st.") and not is_converted_module(result.__module__)
    return None if is_own else result
