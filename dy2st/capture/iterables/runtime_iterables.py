"""Iterables whose length is known only at run time: a list of the program, a range, the rows of a tensor, a view of a dict."""

from __future__ import annotations

import operator
from typing import Any

import torch

from dy2st.capture.branching import optional
from dy2st.capture.containers import lists, ranges, wide_dicts
from dy2st.capture.containers.iterables import RuntimeIterable, Stream
from dy2st.capture.environment.users_code import has_own
from dy2st.capture.session.session import need
from dy2st.capture.texts import methods
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractTable, contents, representing
from dy2st.capture.values.texts import Text


def reversed_(iterable: Any) -> Any:
    """Return ``reversed``."""
    iterable = contents(iterable)
    items = as_runtime(iterable)
    if items is None:
        return reversed(iterable) if not isinstance(iterable, torch.Tensor) else reversed(iterable.unbind(0))
    kind = type(reversed([])) if not isinstance(iterable, ranges.RuntimeRange) else type(iter(range(0)))
    if isinstance(iterable, optional.RuntimeView):
        kind = type(reversed(iterable.example))
    backwards = RuntimeIterable(items.length, lambda k: items.at(items.length() - 1 - k), f"reversed {items.what}")
    return iterator_of(kind, backwards)


def iterator_of(kind: type, items: RuntimeIterable) -> Any:
    """Return an iterator of a kind, such as ``zip``, that gives some items, and goes on where it stopped."""
    return representing(Stream, kind)(items, as_it_is, resumes=True)


def as_it_is(item: Any, then: Any, live: Any, test: Any) -> None:
    """Have a stream give what its source gives."""
    then(item)


def as_runtime(iterable: Any) -> RuntimeIterable | None:
    """Return the iterable as one whose length is known only at run time; ``None`` if Python knows it."""
    session, iterable = need(), contents(iterable)
    if isinstance(iterable, RuntimeIterable):
        return iterable
    if isinstance(iterable, optional.RuntimeView):
        return wide_dicts.steps(session, iterable)
    if isinstance(iterable, AbstractTable):
        return wide_dicts.steps(session, optional.view(iterable, "keys"))
    if isinstance(iterable, ranges.RuntimeRange):
        return iterable.positions()
    if isinstance(iterable, Text):
        return RuntimeIterable(
            lambda: methods.length(session, iterable), lambda k: methods.character(session, iterable, k), "a string"
        )
    known = session.lists.of(iterable)
    if known is not None and not has_own(iterable, "__iter__"):
        return lists.iterable(session, known)
    if isinstance(iterable, torch.Tensor) and iterable.dim() and not isinstance(iterable.shape[0], int):
        rows = lists.unbind(session, iterable)
        return lists.iterable(session, rows)
    if isinstance(iterable, AbstractArray) and iterable.items.dim() and not isinstance(iterable.items.shape[0], int):
        return RuntimeIterable(iterable.length, lambda k: session.call(operator.getitem, iterable, k), "an array")
    return None


def of_range(numbers: range) -> RuntimeIterable:
    return RuntimeIterable(lambda: len(numbers), lambda k: numbers.start + k * numbers.step, "a range")
