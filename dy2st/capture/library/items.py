"""Builtins that go through the items of something, whose values or whose number may be known only at run time."""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching import optional
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.collections import ordering
from dy2st.capture.containers import lists, ranges, tuples, wide_dicts
from dy2st.capture.containers.iterables import Columns, RuntimeIterable, Stream
from dy2st.capture.environment import written_out
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.iterables import iterators, runtime_iterables, watching
from dy2st.capture.iterables.generators import is_given
from dy2st.capture.library.registry import Handler, handles
from dy2st.capture.looping import comprehensions, iteration, zipped
from dy2st.capture.looping.truth import logical_not, truth
from dy2st.capture.looping.unrolled import at_most
from dy2st.capture.operators import comparisons, relations
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.types import lattice, tensor_traits
from dy2st.capture.values import dict_views
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractTuple, in_any_order, representing
from dy2st.capture.values.kinds import is_symbolic, number_kind
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st_runtime.primitives import scalars


def _compares_here(value: Any) -> bool:
    return is_symbolic(value) or isinstance(value, AbstractArray) or relations.is_followed(value)


def _extreme(function: Any, target: Any, before: Any) -> Handler:
    """Return ``min`` and ``max``: of numbers one operation, of tensors the comparisons that Python makes."""

    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        key = kwargs.get("key")
        given = in_any_order(args[0]) if key is None else args[0]
        values = iteration.collected(given) if len(args) == 1 else list(args)
        if session.lists.of(values) is not None:
            return _extreme_at_runtime(session, function, values, before, **kwargs)
        if not values or not (any(_compares_here(value) for value in values) or key is not None):
            return function(values, **kwargs)
        if key is None and all(isinstance(v, (int, float, torch.SymInt, torch.SymFloat)) for v in values):
            kinds = {"float" if number_kind(value) == "float" else "int" for value in values}
            if len(kinds) < 2 or tensor_traits.NUMBER not in session.traits.apart:
                lattice.mix_numbers(kinds)
                return session.number(target, values, "float" if "float" in kinds else "int")
        score: Any = (lambda item: item) if key is None else functools.partial(session.call, key)
        best, top = values[0], score(values[0])
        for value in values[1:]:
            result = score(value)
            best, top = _choose(session, before(result, top), (value, result), (best, top))
        return best

    return handle


def _extreme_at_runtime(session: Session, function: Any, values: Any, before: Any, key: Any = None, **default: Any) -> Any:
    """Return the smallest or largest of as many items as there are at run time."""
    items = zipped.by_position(session, values)

    def search() -> Any:
        best = items.at(0)
        top = best if key is None else session.call(key, best)
        rest = zipped.by_position(session, values[1:] if session.lists.of(values) is None else lists.tail(session, values))

        def look(item: Any) -> None:
            nonlocal best, top
            result = item if key is None else session.call(key, item)
            best, top = _choose(session, before(result, top), (item, result), (best, top))

        session.allocations.own_variables(look)
        iteration.capture_for(rest, look, ("best", "top"), None)
        return best

    if "default" in default:
        return capture_if_exp(items.length() > 0, search, lambda: default["default"])
    empty = f"{function.__name__}() arg is an empty sequence" if sys.version_info < (3, 12) else _EMPTY.format(function.__name__)
    check(session, items.length() > 0, ValueError, empty)
    return search()


_EMPTY = "{}() iterable argument is empty"


def _choose(session: Session, test: Any, if_true: Any, if_false: Any) -> Any:
    test = truth(session, test)
    if is_symbolic(test):
        return capture_if_exp(test, lambda: if_true, lambda: if_false)
    return if_true if test else if_false


handles(min)(_extreme(min, scalars.minimum, functools.partial(relations.related, "<")))
handles(max)(_extreme(max, scalars.maximum, functools.partial(relations.related, ">")))


@handles(sum)
def _sum(session: Session, values: Any, start: Any = 0) -> Any:
    if isinstance(start, (list, tuple, AbstractTuple)):
        return session.call(written_out.total, values, start)
    total, values = start, wide_dicts.of_whole_numbers(session, values)

    def add(item: Any) -> None:
        nonlocal total
        total = total + item

    if not iteration.is_of_runtime_length(values):
        return sum(iteration.iterated(values), start)
    session.allocations.own_variables(add)
    iteration.capture_for(values, add, ("total",), None)
    return total


@handles(any)
def _any(session: Session, values: Any) -> Any:
    return _decide(session, values, True)


@handles(all)
def _all(session: Session, values: Any) -> Any:
    return _decide(session, values, False)


def _decide(session: Session, values: Any, decided: bool) -> Any:
    """Return ``any`` and ``all``: look at items until one decides."""
    result: Any = not decided

    def going() -> Any:
        return result if not decided else logical_not(result)

    def look(item: Any) -> None:
        nonlocal result
        result = truth(session, item)

    session.allocations.own_variables(look)
    iteration.capture_for(in_any_order(values), look, ("result",), going)
    return result


@handles(range)
def _range(session: Session, *args: Any) -> Any:
    return iteration.range_(*args) if any(map(is_symbolic, args)) else range(*args)


@handles(enumerate)
def _enumerate(session: Session, iterable: Any, start: Any = 0) -> Any:
    return session.iterators.note_made(zipped.enumerate_(iterable, ranges.whole(session, start)))


def _taken_at_once(session: Session, value: Any) -> Any:
    """Return what an iterator that ends has left, which several branches are to go through; anything else as it is."""
    endless = (Stream, RuntimeIterable, itertools.count, itertools.repeat, itertools.cycle)
    is_iterator = isinstance(value, Iterator) and not isinstance(value, endless) and not iterators.is_written_by_user(value)
    if not is_iterator:
        return value
    items = tuple(at_most(session, iterators.over(value)))
    session.iterators.spend(value)  # Python leaves what it does not need
    return items


@handles(zip, takes_unions=True)
def _zip(session: Session, *iterables: Any, **kwargs: Any) -> Any:
    union = next((value for value in iterables if isinstance(value, TaggedUnion)), None)
    if union is not None:
        given = [_taken_at_once(session, value) for value in iterables]
        return session.over(union, lambda option: session.call(zip, *(option if v is union else v for v in given), **kwargs))
    return session.iterators.note_made(zipped.zip_(*iterables, **kwargs))


@handles(reversed)
def _reversed(session: Session, iterable: Any) -> Any:
    is_table = isinstance(iterable, (dict, *dict_views.KINDS))
    if session.iterators.is_of_program() and type(iterable) in (list, tuple, range) and not session.lists.of(iterable):
        backwards = zipped.positions_of(session, iterable[::-1])
        return runtime_iterables.iterator_of(type(reversed(iterable)), backwards)
    return session.iterators.note_made(runtime_iterables.reversed_(watching.stepped(iterable) if is_table else iterable))


@handles(list, takes_unions=True)
def _list(session: Session, values: Any = ()) -> Any:
    if isinstance(values, TaggedUnion):
        return session.over(values, lambda option: session.call(list, option))
    return iteration.collected(values)


@handles(tuple)
def _tuple(session: Session, values: Any = ()) -> Any:
    return tuples.of(session, iteration.collected(values))


@handles(map)
def _map(session: Session, function: Any, *iterables: Any) -> Any:
    if session.iterators.is_of_program() and iterables:
        return zipped.mapped(session, map, lambda *item: session.call(function, *item), *iterables)

    def through(item: Any, then: Any, live: Any, test: Any) -> None:
        then(session.call(function, *item) if len(iterables) > 1 else session.call(function, item))

    given = zipped.zip_(*iterables) if len(iterables) > 1 else iterables[0]
    if isinstance(given, Columns):
        return Columns(given.present, [functools.partial(_through, session, function, column) for column in given.columns])
    return session.iterators.note_made(representing(Stream, map)(comprehensions.source_of(given), through, resumes=True))


def _through(session: Session, function: Any, column: Callable[[], Any]) -> Any:
    return session.call(function, column())


def _until(session: Session, function: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    """Yield ``iter(function, sentinel)``."""
    while True:
        item = session.call(function)
        last = truth(session, comparisons.equal(item, sentinel))
        if is_symbolic(last):
            raise errors.CaptureError(
                "iter(function, sentinel) ends where a tensor decides", session.here(), fix="write a while loop with a break"
            )
        if last:
            return
        yield item


@handles(iter, takes_unions=True)
def _iter(session: Session, value: Any, *sentinel: Any) -> Any:
    if sentinel:
        return _until(session, value, *sentinel)
    value = _shown_by_program(session, value)
    runtime = runtime_iterables.as_runtime(value)
    if runtime is None:
        by_user = has_own(value, "__iter__") and not isinstance(value, torch.Tensor)
        if session.iterators.is_of_program() and not isinstance(value, Iterator) and not by_user:
            runtime = zipped.positions_of(session, value)
            return runtime_iterables.iterator_of(_kind_of_iterator(value), runtime)
        is_in_block = session.blocks.nesting > 1 and type(value) in (list, tuple)
        iterator = session.call(written_out.Items, value) if is_in_block else iterators.started(value)
        return iterator if iterator is value else session.iterators.note_made(iterator)
    if runtime is value:
        return value
    return runtime_iterables.iterator_of(_kind_of_iterator(value), runtime)


def _shown_by_program(session: Session, value: Any) -> Any:
    """Return what shows the keys, values or items of a dict where only the program knows which there are; else the value."""
    shown = watching.shown_table(session, value)
    is_open = shown is not None and isinstance(shown[0], dict) and optional.is_unsure(session, shown[0])
    return optional.view(*shown) if shown is not None and is_open else value


def _kind_of_iterator(value: Any) -> type:
    return type(iter(())) if isinstance(value, torch.Tensor) else type(iter(getattr(value, "example", value)))


@handles(next)
def _next(session: Session, iterator: Any, *default: Any) -> Any:
    if isinstance(iterator, optional.RuntimeView):
        raise raised(TypeError(f"'{type(iterator).__name__}' object is not an iterator"))
    if isinstance(iterator, RuntimeIterable):
        session.iterators.spend(iterator)
        return _first(session, Stream(iterator, runtime_iterables.as_it_is), default)
    if (isinstance(iterator, Stream) and iterator.resumes) or is_given(iterator):
        return _first(session, iterator, default)
    if not isinstance(iterator, Stream) or iterator.has_begun:
        return iterators.next_(iterator, *default)
    if iterator.has_any_length:
        return _first(session, iterator, default)
    if not _is_plain(iterator.source):
        return iterators.next_(iterator, *default)
    source = iterator.source
    before, iterator.source = itertools.tee(source)
    attempt = session.blocks.begin_attempt(())
    with contextlib.suppress(errors.CaptureError):
        item = iterators.next_(iterator, *default)
        session.blocks.commit(attempt)
        return item
    session.blocks.roll_back(attempt)  # the first item is another one on each way; the error has passed, and nobody raises it again
    result = _first(session, Stream(before, iterator.through, iterator.bound), default)
    for one in (iterator, source):
        session.iterators.spend(one)
    return result


_OF_ITEMS: tuple[type, ...] = (*(type(iter(kind())) for kind in (list, tuple, dict)), type(iter(range(0))))


def _is_plain(iterator: Any) -> bool:
    """Tell whether taking an item of an iterator runs no code of the user's."""
    if isinstance(iterator, (enumerate, zip)):
        return all(map(_is_plain, gc.get_referents(iterator)))
    return isinstance(iterator, (*_OF_ITEMS, watching.Steps, int, tuple, type(None)))


def _first(session: Session, iterator: Any, default: tuple[Any, ...]) -> Any:
    """Return what ``next`` gives, of a generator of which a tensor decides what is left then."""
    result = session.call(written_out.first_or if default else written_out.first, iterator, *default)
    if isinstance(iterator, Stream) and not iterator.resumes:
        session.iterators.spend(iterator, alone=True)
    return result


@handles(filter)
def _filter(session: Session, function: Any, values: Any) -> Any:
    def keeps(item: Any) -> Any:
        return item if function is None else session.call(function, item)

    def through(item: Any, then: Any, live: Any, test: Any) -> None:
        comprehensions.when((keeps,), (item,), lambda: then(item), live)

    return session.iterators.note_made(representing(Stream, filter)(comprehensions.source_of(values), through, resumes=True))


@handles(sorted)
def _sorted(session: Session, values: Any, *, key: Any = None, reverse: Any = False) -> Any:
    if type(values) in (dict, collections.OrderedDict, collections.Counter) and key is None:
        values = values.keys()  # their order makes no difference
    values = in_any_order(values) if key is None else values
    return ordering.in_order(session, iteration.collected(values), key, reverse)
