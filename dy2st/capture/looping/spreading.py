"""`*xs` in a display or a call, where the length of `xs` is known only at run time.

[x, *xs], (x, *xs)      a list or tuple of the program
f(*xs)                  of a function with `*args`: they are a tuple of the program; of another one: a branch for each number
                        of arguments that it takes
max(*xs), zip(*xs)      what they do with one argument for each item
"""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching import optional
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.containers import lists, tuples
from dy2st.capture.containers.iterables import Columns
from dy2st.capture.iterables import iterators
from dy2st.capture.looping import comprehensions, iteration
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.texts import text
from dy2st.capture.types import mismatches, value_types
from dy2st.capture.values.symbolic import RuntimeList, TaggedUnion
from dy2st.capture.values.texts import Text
from dy2st_runtime.ir.structure import TupleOf

_MOST = 8
"""How many arguments a function may take for which there is a branch for each number of them."""


class Spread:
    """Stands for the items of a list of the program among the items of a display, or the arguments of a call."""

    def __init__(self, items: Any) -> None:
        self.items = items


class Rest(Spread):
    """Stands for the items that go to ``*args`` of a function, whose other parameters have their arguments."""


def spread(session: Session, value: Any) -> Any:
    """Return what a starred part of a display or call steps through."""
    value = optional.now(session, value)
    if optional.is_open(value, "__iter__"):
        value = session.call(list, value)
    if isinstance(value, TaggedUnion):
        value = iterators.over(value, "Value after * must be an iterable, not {}")
    runtime = isinstance(value, (Columns, TaggedUnion)) or iteration.is_of_runtime_length(value)
    if not runtime:
        return iteration.iterated(value)
    items = iteration.collected(value)
    return items if session.lists.of(items) is None else [Spread(items)]


def spliced(session: Session, parts: Sequence[Any]) -> list[Any]:
    """Return a new list of the program: the parts, with the items of those that are spread."""
    results: list[Any] = []
    session.lists.own(results)
    session.lists.make(results)
    for part in parts:
        if isinstance(part, Spread):
            session.call(results.extend, part.items)
        else:
            session.call(results.append, part)
    return results


def call(session: Session, function: Any, args: Sequence[Any], kwargs: dict[str, Any], *, is_users: bool) -> Any:
    """Return a call with such arguments.

    Args:
        function: what is called.
        args: with a :class:`Spread` among them.
        kwargs: those with a name.
        is_users: whether it may be a function that is converted.

    Raises:
        CaptureError: the function takes a number of arguments that Python must know.
    """
    if function in (max, min):
        return _extreme(session, function, args, kwargs)
    if function is zip and len(args) == 1 and not kwargs:
        return _columns(session, args[0].items)
    separator = kwargs.get("sep", " ")
    if function is print and kwargs.keys() <= {"sep", "end"} and isinstance(separator, str):
        words = comprehensions.mapped(spliced(session, args), lambda item: session.call(str, item))
        return session.call(print, text.connected(separator, words), end=kwargs.get("end", "\n"))
    if isinstance(function, functools.partial):
        return session.call(function.func, *function.args, *args, **{**function.keywords, **kwargs})
    signature = _signature(function) if is_users else None
    if signature is None or len(signature.parameters) > _MOST:
        raise refused(session, function)
    return _with_each_number(session, function, args, kwargs, tuple(signature.parameters.values()))


def refused(session: Session, function: Any) -> errors.CaptureError:
    """Return the error for a function that gets such arguments, and takes a number of them that Python must know."""
    return errors.CaptureError(
        f"{getattr(function, '__qualname__', function)}() gets the items of a list as its arguments, "
        "and their number is known only at run time",
        session.here(),
        fix="pass the list itself, torch.stack(items), or the items that it needs: f(items[0], items[1])",
    )


def _signature(function: Any) -> inspect.Signature | None:
    """Return the signature of a user's function; ``None`` for one that Python does not know."""
    known = function.forward if isinstance(function, torch.nn.Module) else function
    code = known.__init__ if isinstance(known, type) else getattr(known, "__func__", known)  # type: ignore[misc]
    if not isinstance(code, types.FunctionType):
        return None
    result = inspect.signature(known, follow_wrapped=False)
    takes_rest = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in result.parameters.values())
    return None if takes_rest and isinstance(function, torch.nn.Module) else result


def _with_each_number(
    session: Session, function: Any, args: Sequence[Any], kwargs: dict[str, Any], parameters: Sequence[inspect.Parameter]
) -> Any:
    """Return a branch for each number of arguments that go to parameters with a name; what is left goes to ``*args``."""
    first = next(position for position, value in enumerate(args) if isinstance(value, Spread))
    before, rest = args[:first], spliced(session, args[first:])
    items = session.lists.of(rest)
    assert items is not None
    named = [
        parameter for parameter in parameters if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    has_rest = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    most, length = max(len(named) - len(before), 0), lists.length(session, items)

    def take(count: int) -> list[Any]:
        return [lists.get(session, items, position) for position in range(count)]

    def more() -> Any:
        if has_rest:
            left = Rest(lists.get(session, items, slice(most, None)))
            return session.call(function, *before, *take(most), left, **kwargs)
        raise raised(TypeError(_too_many(session, function, named, length + len(before))))

    def exactly(count: int) -> Any:
        if count == most + (not has_rest):
            return more()
        once = lambda: session.call(function, *before, *take(count), **kwargs)  # noqa: E731
        return capture_if_exp(length == count, once, lambda: exactly(count + 1))

    return exactly(0)


def _too_many(session: Session, function: Any, named: Sequence[inspect.Parameter], given: Any) -> Any:
    """Return what Python says."""
    known = function.forward if isinstance(function, torch.nn.Module) else function
    known = known.__init__ if isinstance(known, type) else known  # type: ignore[misc]
    own = int(hasattr(known, "__self__") or known is not function)
    needed = sum(parameter.default is parameter.empty for parameter in named)
    count = f"{len(named) + own}" if needed == len(named) else f"from {needed + own} to {len(named) + own}"
    takes = f"{known.__qualname__}() takes {count} positional argument{'s' * (len(named) + own != 1)} but "
    return Text((takes, (given + own, None, ""), " were given"))


def _extreme(session: Session, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return ``max`` and ``min``: of one argument they take the items."""
    values = spliced(session, args)
    if sum(not isinstance(value, Spread) for value in args) > 1:
        return session.call(function, values, **kwargs)
    items = session.lists.of(values)
    assert items is not None
    length = lists.length(session, items)
    check(session, length > 0, TypeError, f"{function.__name__} expected at least 1 argument, got 0")
    no_items = _refuses_to_iterate(items)
    if no_items is not None:
        check(session, length != 1, TypeError, no_items)
        return session.call(function, values, **kwargs)
    one = lambda: session.call(function, lists.get(session, items, 0), **kwargs)  # noqa: E731
    return capture_if_exp(length == 1, one, lambda: session.call(function, values, **kwargs))


def _refuses_to_iterate(items: RuntimeList) -> str | None:
    match items.element:
        case value_types.NumberType(kind):
            return f"'{kind}' object is not iterable"
        case value_types.TensorType(sizes=()):
            return "iteration over a 0-d tensor"
    return None


def _columns(session: Session, rows: list[Any]) -> Any:
    """Return ``zip(*rows)``."""
    known = session.lists.of(rows)
    assert known is not None
    if known.element is None:
        return iter(())
    if not (isinstance(known.element, value_types.ContainerType) and isinstance(known.element.structure, TupleOf)):
        raise errors.CaptureError(
            "zip(*rows) gets as many arguments as a list has items, which is known only at run time",
            session.here(),
            seen=f"rows that are {mismatches.text(known.element)}",
            fix="make each row a tuple of the same length, or keep one list for each column",
        )

    def column(position: int) -> Callable[[], Any]:
        return lambda: tuples.of(session, comprehensions.mapped(rows, operator.itemgetter(position)))

    return Columns(lists.length(session, known) > 0, [column(position) for position in range(len(known.element.items))])
