"""Builtins that go through the items of something, whose values or whose number may be known only at run time."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch

from dy2st import errors
from dy2st.capture import iteration, lists
from dy2st.capture.branch import capture_if_exp
from dy2st.capture.library.registry import Handler, handles
from dy2st.capture.session import Session
from dy2st.capture.truth import truth
from dy2st.capture.values import is_symbolic, number_kind
from dy2st_runtime import scalars


def _extreme(function: Any, target: Any, before: Any) -> Handler:
    """``min`` and ``max``: of numbers one operation, of tensors the comparisons that Python makes."""

    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        values = _items(session, args[0]) if len(args) == 1 else list(args)
        key = kwargs.get("key")
        if values is None or not (any(map(is_symbolic, values)) or (key is not None and values)):
            return function(*args, **kwargs)
        if not values:
            return function(*args, **kwargs)
        if key is None and all(isinstance(v, (int, float, torch.SymInt, torch.SymFloat)) for v in values):
            kind = "float" if any(number_kind(v) == "float" for v in values) else "int"
            return session.number(target, values, kind)
        best = values[0]
        for value in values[1:]:
            score = value if key is None else session.call(key, value)
            top = best if key is None else session.call(key, best)
            best = _choose(session, before(score, top), value, best)
        return best

    return handle


def _choose(session: Session, test: Any, if_true: Any, if_false: Any) -> Any:
    if is_symbolic(test):
        return capture_if_exp(test, lambda: if_true, lambda: if_false)
    return if_true if test else if_false


def _items(session: Session, value: Any) -> list[Any] | None:
    if isinstance(value, torch.Tensor):
        if value.dim() and not isinstance(value.shape[0], int):
            raise errors.CaptureError(
                "this takes the items of a tensor whose length is known only at run time", session.here(),
                fix="use the tensor method: x.amax(), x.amin(), x.sum(), x.any(), x.all()",
            )  # fmt: skip
        return list(value.unbind(0))
    if session.runtime_list(value) is not None:
        raise errors.CaptureError(
            "this takes the items of a list that changes length inside a captured block", session.here(),
            fix="use torch.stack(items) and a tensor method, or a for loop",
        )  # fmt: skip
    return list(value) if isinstance(value, (list, tuple, set, dict)) else None


handles(min)(_extreme(min, scalars.minimum, operator.lt))
handles(max)(_extreme(max, scalars.maximum, operator.gt))


@handles(sum)
def _sum(session: Session, values: Any, start: Any = 0) -> Any:
    runtime = iteration.as_runtime(values)
    if runtime is None:
        return sum(iteration.iterated(values), start)
    total = start

    def add(item: Any) -> None:
        nonlocal total
        total = total + item

    iteration.capture_for(runtime, add, ("total",), None)
    return total


@handles(any)
def _any(session: Session, values: Any) -> Any:
    return _fold(session, values, any, lambda value, rest: capture_if_exp(value, lambda: True, rest), True)


@handles(all)
def _all(session: Session, values: Any) -> Any:
    return _fold(session, values, all, lambda value, rest: capture_if_exp(value, rest, lambda: False), False)


def _fold_at_runtime(session: Session, items: Any, decided: bool) -> Any:
    """``any`` and ``all`` of as many items as there are at run time."""
    result: Any = not decided

    def look(item: Any) -> None:
        nonlocal result
        found = truth(session, item)
        result = session.number(scalars.logical_or if decided else scalars.logical_and, (result, found), "bool")

    iteration.capture_for(items, look, ("result",), None)
    return result


def _fold(session: Session, values: Any, plain: Any, capture: Any, decided: bool) -> Any:
    runtime = iteration.as_runtime(values)
    if runtime is not None:
        return _fold_at_runtime(session, runtime, decided)
    items = _items(session, values)
    items = list(values) if items is None else items

    def rest(position: int) -> Any:
        for index in range(position, len(items)):
            value = truth(session, items[index])
            if is_symbolic(value):
                return capture(value, functools.partial(rest, index + 1))
            if bool(value) is decided:
                return decided
        return not decided

    return rest(0)


@handles(range)
def _range(session: Session, *args: Any) -> Any:
    return iteration.range_(*args) if any(map(is_symbolic, args)) else range(*args)


@handles(enumerate)
def _enumerate(session: Session, iterable: Any, start: Any = 0) -> Any:
    return iteration.enumerate_(iterable, start)


@handles(zip)
def _zip(session: Session, *iterables: Any, **kwargs: Any) -> Any:
    return iteration.zip_(*iterables, **kwargs)


@handles(reversed)
def _reversed(session: Session, iterable: Any) -> Any:
    return iteration.reversed_(iterable)


@handles(list, takes_choices=True)
def _list(session: Session, values: Any = ()) -> Any:
    known = session.runtime_list(values)
    if known is not None:
        return lists.copy(session, known)
    made = list(iteration.iterated(values))
    session.own_list(made)
    return made


@handles(tuple)
def _tuple(session: Session, values: Any = ()) -> Any:
    if session.runtime_list(values) is not None:
        raise errors.CaptureError(
            "a tuple of a length that is known only at run time", session.here(), fix="keep the list, or torch.stack it"
        )
    return tuple(iteration.iterated(values))


@handles(map)
def _map(session: Session, function: Any, *iterables: Any) -> Any:
    return [session.call(function, *items) for items in zip(*(iteration.iterated(i) for i in iterables))].__iter__()


@handles(filter)
def _filter(session: Session, function: Any, values: Any) -> Any:
    kept = []
    for value in iteration.iterated(values):
        keep = truth(session, value if function is None else session.call(function, value))
        if is_symbolic(keep):
            raise errors.CaptureError(
                "filter() with a condition that a tensor decides", session.here(), fix="use a boolean mask: x[mask]"
            )
        if keep:
            kept.append(value)
    return iter(kept)


@handles(sorted)
def _sorted(session: Session, values: Any, *, key: Any = None, reverse: bool = False) -> Any:
    items = list(iteration.iterated(values))
    keys = [item if key is None else session.call(key, item) for item in items]
    if any(map(is_symbolic, keys)):
        raise errors.CaptureError("sorted() by values known only at run time", session.here(), fix="use torch.sort")
    made = [items[i] for i in sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)]
    session.own_list(made)
    return made
