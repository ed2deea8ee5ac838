"""Lists of the program: lists that change their length inside a captured block.

The Python list object stays the user's handle; each operation on it becomes an operation of the program, in place, so every name
that holds the list sees the change, as in Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from dy2st import errors
from dy2st.capture.branching import elements
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import outside_lists, ranges
from dy2st.capture.containers.iterables import RuntimeIterable
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.recording import failing
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.session import Session
from dy2st.capture.types import absent_attributes, lattice, mismatches, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import contents
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, RuntimeList, TaggedUnion
from dy2st.capture.writes.places import ContentsPlace
from dy2st_runtime.primitives import control

CALLS_METHODS_FOR_USER = True


def unbind(session: Session, tensor: torch.Tensor) -> RuntimeList:
    """Return the rows of a tensor whose first size is known only at run time."""
    with quiet():
        row = tensor.new_empty(tensor.shape[1:])
        if tensor.requires_grad:
            row = row.requires_grad_().clone()
    result = session.lists.new(lattice.type_of(row))
    session.builder.call(torch.ops.aten.unbind.int, (tensor, 0), {}, result)
    return result


def iterable(session: Session, items: RuntimeList) -> RuntimeIterable:
    """Return a list of the program as something to loop over."""
    return RuntimeIterable(lambda: length(session, items), lambda k: _at(session, items, k), "a list")


def length(session: Session, items: RuntimeList) -> Any:
    """Return ``len(items)``."""
    result = session.shapes.fresh_int(size=True)
    session.builder.bind(result, session.builder.call_raw(control.list_len, (session.builder.node_of(items),)))
    return outside_lists.length_before(session, items) + result if items.is_appended else result


def get(session: Session, items: RuntimeList, index: Any) -> Any:
    """Return ``items[index]``."""
    index = ranges.index_of(session, index, items.items)
    if isinstance(index, slice):
        result = session.lists.new(items.element, alone=True)
        session.builder.call(control.list_slice, (items, index), {}, result)
        return result.items
    index = _reached(session, items, index, "list index out of range")
    return _at(session, items, index)


def _at(session: Session, items: RuntimeList, index: Any) -> Any:
    """Return an item that is there."""
    return _take(session, items, control.list_get, (items, index), "list index out of range")


def _reached(session: Session, items: RuntimeList, index: Any, message: str) -> Any:
    """Return an index as a number; the operation itself finds out that nothing is there, unless others see the exception pass."""
    index = session.to_number(index)
    is_cell = id(items.items) in session.lists.of_cells  # the check would record what is in cells, and read them for it
    if items.element is not None and not is_cell and (session.in_flight.pending or session.in_flight.has_written()):
        count = length(session, items)
        if not isinstance(index, int) or index >= 0:
            check(session, count > index, IndexError, message)
        if not isinstance(index, int) or index < 0:
            check(session, count >= -index, IndexError, message)
    return index


def tail(session: Session, items: list[Any]) -> Any:
    """Return ``items[1:]`` of a list of the program."""
    known = session.lists.of(items)
    assert known is not None
    return get(session, known, slice(1, None))


def _take(session: Session, items: RuntimeList, target: control.Control, args: tuple[Any, ...], empty: str) -> Any:
    if items.element is None:
        _fail(session, items, empty)
    node = session.builder.call_raw(target, tuple(map(session.builder.argument, args)))
    return elements.taken(session, items, node)


def _fail(session: Session, items: RuntimeList, message: str) -> NoReturn:
    """Note that nothing has been put into the list before; where a loop is open, one of its iterations may put something in."""
    if not items.alone and (session.blocks.is_in_loop or not session.lists.is_empty(items)):
        error = errors.CaptureError(
            "this takes an item out of a list before anything has been put in", session.here(), fix="put an item in before the loop"
        )
        if not session.blocks.is_in_loop:
            raise error
        session.lists.unfilled.append((items, error))
    raise_empty(session, message)


def raise_empty(session: Session, message: str) -> NoReturn:
    """Raise what Python raises for an item of an empty list."""
    error = IndexError(message)
    session.in_flight.raised.append(error)
    raise error


def put_in(session: Session, items: RuntimeList, value: Any) -> Any:
    """Make room for a new item in the type of the items; gives the item as an argument of a node."""
    session.lists.puts_in(items)
    elements.check_kept(session, value)
    normalized = elements.normalized(session, value)
    elements.stands_in(session, items, normalized)
    _take_in(session, items, elements.type_of(session, normalized))
    return elements.item_node(session, value, normalized)


def create(session: Session, items: list[Any]) -> RuntimeList:
    """Turn a Python list into a list of the program, here and now.

    Raises:
        CaptureError: it holds what cannot be an item.
    """
    element = None
    arguments, normalized = [], []
    for item in list.__iter__(items):
        elements.check_kept(session, item)
        normalized.append(elements.normalized(session, item))
        element = _common(session, element, elements.type_of(session, normalized[-1]))
        arguments.append(elements.item_node(session, item, normalized[-1]))
    result = session.lists.convert(items, element)
    for item in normalized:
        elements.stands_in(session, result, item)
    session.builder.bind(result, session.builder.call_raw(control.list_, (arguments,)))
    return result


def _take_in(session: Session, items: RuntimeList, kind: value_types.Type | None) -> None:
    joined = _common(session, items.element, kind)
    if joined != items.element:
        items.element = joined
        session.lists.widened.append(items.items)
        for outer, item in items.places:
            _take_in(session, outer, elements.type_of(session, item))
        for item in items.held:  # another of them may be the one that something was put in
            for inner, element in elements.lists_of_kinds(session, item, joined):
                _take_in(session, inner, element)


def _common(session: Session, element: value_types.Type | None, other: value_types.Type | None) -> value_types.Type | None:
    """Return what the elements of two lists have in common."""
    try:
        return lattice.join_elements(element, other)
    except mismatches.Mismatch as error:
        raise errors.LoopVariableError(
            "the items of this list are of too many kinds",
            session.here(),
            seen=error.told("in the list", "as the new item"),
            fix="give the items the same dtype and number of dimensions, or keep one list for each kind",
        ) from None


def method(session: Session, target: list[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a method of a list, called by converted code."""
    known = session.lists.of(target)
    if known is None:
        if name in _CHANGING:
            session.places.write(ContentsPlace(target))
        if name in ("pop", "insert") and args and isinstance(args[0], (torch.Tensor, *SYMBOLIC_NUMBERS)):
            return _METHODS[name](session, session.lists.required(target), *args, **kwargs)
        result = getattr(storage.base_of(target), name)(target, *args, **kwargs)
        if name == "copy":
            session.lists.own(result)
        return result
    handler = _METHODS.get(name)
    if handler is None:
        raise errors.CaptureError(
            f"list.{name}() is not available on a list that changes length inside a captured block",
            session.here(),
            fix="use append, extend, insert, pop, indexing, len, a for loop, torch.stack or torch.cat",
        )
    _check_arguments(name, handler, args, kwargs)
    return handler(session, known, *args, **kwargs)


def _check_arguments(name: str, handler: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise what a list of Python's raises where a method is called with too few or too many arguments."""
    try:
        inspect.signature(handler).bind(None, None, *args, **kwargs)
    except TypeError:
        try:
            getattr([], name)(*args, **kwargs)
        except TypeError as error:
            raise raised(TypeError(*error.args)) from None


def append(session: Session, items: RuntimeList, value: Any) -> None:
    """Do ``items.append(value)``."""
    item = put_in(session, items, value)
    session.builder.call_raw(control.list_append, (session.builder.node_of(items), item))


def _extend(session: Session, items: RuntimeList, values: Any) -> None:
    session.lists.puts_in(items)
    other = session.lists.of(contents(values))
    if other is not None:
        _take_in(session, items, other.element)
        session.builder.call_raw(control.list_extend, (session.builder.node_of(items), session.builder.argument(other)))
        return
    for value in values.unbind(0) if isinstance(values, torch.Tensor) else values:
        append(session, items, value)


def _insert(session: Session, items: RuntimeList, index: Any, value: Any) -> None:
    item, builder = put_in(session, items, value), session.builder
    builder.call_raw(control.list_insert, (builder.argument(items), builder.argument(ranges.whole(session, index)), item))


def _pop(session: Session, items: RuntimeList, index: Any = -1) -> Any:
    session.lists.takes_out(items)
    empty = "pop from empty list"
    index = ranges.whole(session, index)
    if not _is_last(index) and items.element is not None and (session.in_flight.pending or session.in_flight.has_written()):
        check(session, length(session, items) > 0, IndexError, empty)
    index = _reached(session, items, index, empty if _is_last(index) else "pop index out of range")
    return _take(session, items, control.list_pop, (items, index), empty)


def _is_last(index: Any) -> bool:
    return isinstance(index, int) and index == -1


def _clear(session: Session, items: RuntimeList) -> None:
    session.lists.takes_out(items)
    session.builder.call(control.list_clear, (items,))


def _reverse(session: Session, items: RuntimeList) -> None:
    session.builder.call(control.list_reverse, (items,))


def copy(session: Session, items: RuntimeList) -> Any:
    """Return ``items.copy()``."""
    result = session.lists.new(items.element, alone=True)
    session.builder.call(control.list_copy, (items,), {}, result)
    return result.items


def concat(session: Session, left: list[Any], right: list[Any]) -> list[Any]:
    """Return ``left + right``."""
    parts = [session.lists.of(items) for items in (left, right)]
    if parts == [None, None]:
        result = left + right
        session.lists.own(result)
        return result
    one, other = (known or copied(session, items) for known, items in zip(parts, (left, right)))
    joined = session.lists.new(_common(session, one.element, other.element), alone=True)
    session.builder.call(control.list_concat, (one, other), {}, joined)
    return joined.items


def copied(session: Session, items: list[Any]) -> RuntimeList:
    """Return a new list of the program with the items of a Python list."""
    copied = list(items)
    session.lists.own(copied)
    return session.lists.make(copied)


def repeat(session: Session, items: list[Any], times: Any) -> Any:
    """Return ``items * times``."""
    if isinstance(times, TaggedUnion):
        return session.over(times, lambda option: repeat(session, items, option))
    if not isinstance(times, (torch.Tensor, *SYMBOLIC_NUMBERS)) and not hasattr(type(times), "__index__"):
        raise raised(TypeError(f"can't multiply sequence by non-int of type '{absent_attributes.class_name(times)}'"))
    if session.lists.of(items) is None and not isinstance(times, (torch.Tensor, *SYMBOLIC_NUMBERS)):
        result = items * times
        session.lists.own(result)
        return result
    known = session.lists.of(items) or copied(session, items)
    many = session.lists.new(known.element, alone=True)
    session.builder.call(control.list_repeat, (known, session.to_number(times)), {}, many)
    return many.items


_METHODS: dict[str, Callable[..., Any]] = {
    "append": append, "extend": _extend, "insert": _insert, "pop": _pop, "clear": _clear, "reverse": _reverse, "copy": copy,
    "__getitem__": get,
}  # fmt: skip
_CHANGING = {"append", "extend", "insert", "pop", "clear", "reverse", "remove", "sort"}


def set_item(session: Session, items: RuntimeList, index: Any, value: Any) -> None:
    """Do ``items[index] = value``."""
    if isinstance(index, slice):
        session.lists.takes_out(items)
        session.lists.puts_in(items)
        if index.step not in (None, 1):
            failing.refuse_if_named(
                session, ValueError(), "an extended slice that is assigned", "compare the lengths with an if statement"
            )
        other = session.lists.of(value) or copied(session, list(value))
        _take_in(session, items, other.element)
        index = ranges.index_of(session, index, items.items)
        session.builder.call(control.list_assign, (items, index, other))
        return
    index = _reached(session, items, ranges.index_of(session, index, items.items), "list assignment index out of range")
    item, builder = put_in(session, items, value), session.builder
    builder.call_raw(control.list_set, (builder.argument(items), builder.argument(index), item))


def del_item(session: Session, items: RuntimeList, index: Any) -> None:
    """Do ``del items[index]``."""
    session.lists.takes_out(items)
    index = ranges.index_of(session, index, items.items)
    if not isinstance(index, slice):
        index = _reached(session, items, index, "list assignment index out of range")
    session.builder.call(control.list_delete, (items, index))
