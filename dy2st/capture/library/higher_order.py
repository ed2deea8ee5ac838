"""Functions of ``functools`` and ``itertools`` that call a function of the user's: it is converted like any other."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.distributions import kl
from torch.utils import _pytree as pytree

from dy2st import errors
from dy2st.capture.branching.optional import RuntimeView
from dy2st.capture.collections import made_tables
from dy2st.capture.containers.iterables import RuntimeIterable, Stream
from dy2st.capture.containers.ranges import RuntimeRange
from dy2st.capture.environment import written_out
from dy2st.capture.iterables.runtime_iterables import as_runtime
from dy2st.capture.library import steps_written_out
from dy2st.capture.library.at_once import decided, has_any_length
from dy2st.capture.library.registry import Handler, handles, handles_made_by
from dy2st.capture.looping import iteration
from dy2st.capture.looping.truth import truth
from dy2st.capture.session.session import Session
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion

_NOTHING: Any = object()


@handles(functools.reduce)
def _reduce(session: Session, function: Any, values: Any, initial: Any = _NOTHING) -> Any:
    values = decided(session, values)
    if has_any_length(values) and initial is _NOTHING:
        return session.call(steps_written_out.reduce, function, values)
    if has_any_length(values):
        return session.call(steps_written_out.reduce_from, function, values, initial)
    total = initial
    for value in iteration.iterated(values):
        total = value if total is _NOTHING else session.call(function, total, value)
    if total is _NOTHING:
        raise TypeError("reduce() of empty iterable with no initial value")
    return total


@handles_made_by(functools.singledispatch(lambda value: value).dispatch)
def _dispatch(session: Session, function: Any, kind: type) -> Any:
    """Return what a generic function of ``functools`` does with a class; a call that finds another one needs another program."""
    result = function(kind)
    session.tracker.read(result, session.tracker.table.answer(function, (kind,), f"dispatch({kind.__qualname__})"))
    return result


@handles(kl.kl_divergence)
def _kl_divergence(session: Session, p: Any, q: Any) -> Any:
    """Return a divergence by the function that is registered for two classes; torch's own code keeps what it has found."""
    union = next((value for value in (p, q) if isinstance(value, TaggedUnion)), None)
    if union is not None:
        return session.over(union, lambda option: _kl_divergence(session, *(option if one is union else one for one in (p, q))))
    kinds = session.call(type, p), session.call(type, q)
    function = kl._dispatch_kl(*kinds)
    if function is NotImplemented:
        return kl.kl_divergence(p, q)  # raises what eager raises
    names = ", ".join(kind.__qualname__ for kind in kinds)
    session.tracker.read(function, session.tracker.table.answer(kl._dispatch_kl, kinds, f"kl_divergence({names})"))
    return session.call(function, p, q)


@handles(itertools.starmap)
def _starmap(session: Session, function: Any, values: Any) -> Any:
    values = decided(session, values)
    if has_any_length(values) or (isinstance(values, Stream) and values.has_any_length):
        return session.call(iter, session.call(steps_written_out.starmap, function, values))
    return (session.call(function, *iteration.iterated(arguments)) for arguments in iteration.iterated(values))


@handles(itertools.accumulate)
def _accumulate(session: Session, values: Any, func: Any = None, *, initial: Any = None) -> Any:
    values = decided(session, values)
    if has_any_length(values) and initial is None:
        return session.call(iter, session.call(steps_written_out.accumulate, values, func or operator.add))
    return _accumulated(session, iteration.iterated(values), func, initial)


def _accumulated(session: Session, values: Any, function: Any, initial: Any) -> Iterator[Any]:
    total = _NOTHING
    for value in values if initial is None else itertools.chain((initial,), values):
        if total is _NOTHING:
            total = value
        else:
            total = total + value if function is None else session.call(function, total, value)
        yield total


def _selecting(name: str, select: Any) -> Handler:
    def handle(session: Session, predicate: Any, values: Any) -> Any:
        values = decided(session, values)
        if _may_decide(values):
            return session.call(getattr(steps_written_out, name), predicate, values)

        def holds(value: Any) -> bool:
            outcome = truth(session, value if predicate is None else session.call(predicate, value))
            if is_symbolic(outcome):
                raise errors.CaptureError(
                    f"itertools.{name}() with a condition that a tensor decides", session.here(),
                    fix="write a for loop with an if statement",
                )  # fmt: skip
            return bool(outcome)

        result: Iterator[Any] = select(holds, iteration.iterated(values))
        return result

    return handle


for _select in (itertools.takewhile, itertools.dropwhile, itertools.filterfalse):
    handles(_select)(_selecting(_select.__name__, _select))


@handles(itertools.compress)
def _compress(session: Session, data: Any, selectors: Any) -> Any:
    data, selectors = decided(session, data), decided(session, selectors)
    if _may_decide(selectors) or _may_decide(data):
        return session.call(steps_written_out.compress, data, selectors)
    return itertools.compress(iteration.iterated(data), iteration.iterated(selectors))


def _may_decide(values: Any) -> bool:
    """Tell whether something that ends has items that only the program knows: they are gone through at once then."""
    if isinstance(values, TaggedUnion):
        return any(map(_may_decide, values.options.values()))
    kinds = (torch.Tensor, RuntimeIterable, RuntimeRange, RuntimeView)
    items = values if isinstance(values, (list, tuple)) else ()
    return (
        isinstance(values, kinds)
        or as_runtime(values) is not None
        or any(isinstance(leaf, (torch.Tensor, TaggedUnion, *SYMBOLIC_NUMBERS)) for leaf in pytree.tree_leaves(list(items)))
    )


@handles(pytree.tree_map)
def _tree_map(session: Session, func: Any, tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Send each leaf through a function of the user's, which is converted."""
    session.blocks.key_orders.asks_within(tree)
    made_tables.check_unknown(session, pytree.tree_map, tree, *rests)
    leaves, spec = pytree.tree_flatten(tree, is_leaf=is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    result = pytree.tree_unflatten([session.call(func, *row) for row in zip(leaves, *others)], spec)
    session.ownership.own_all(result)
    return result


@handles(pytree.tree_map_only)
def _tree_map_only(session: Session, kinds: Any, func: Any, tree: Any, is_leaf: Any = None) -> Any:
    only = written_out.of_kinds if isinstance(kinds, (type, tuple)) else written_out.where
    return _tree_map(session, functools.partial(only, kinds, func), tree, is_leaf=is_leaf)
