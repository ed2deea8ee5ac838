"""Identity, equality and membership of what converted code compares.

Containers are compared item by item where a value in them is known only at run time; a list whose length is known only then, in a
loop of the program.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import functools
import inspect
import itertools
import operator as python
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st.capture.attributes.attributes import attr
from dy2st.capture.attributes.class_attributes import call_own, of_class
from dy2st.capture.branching import elements, keys, lookup, optional, tensor_keys, unions
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.branching.optional import RuntimeView
from dy2st.capture.containers import complex_numbers, ranges, set_views, tuples
from dy2st.capture.containers.complex_numbers import RuntimeComplex
from dy2st.capture.containers.iterables import RuntimeIterable
from dy2st.capture.environment import written_out
from dy2st.capture.environment.users_code import has_own, user_method
from dy2st.capture.looping import iteration, zipped
from dy2st.capture.looping.truth import truth
from dy2st.capture.objects import cells
from dy2st.capture.operators import plain_identity, wide_tables
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.texts import methods
from dy2st.capture.types import tensor_classes
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractKeys, AbstractSet, contents
from dy2st.capture.values.dict_views import KINDS
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion, may_be_undefined, options_of
from dy2st.capture.values.texts import Text
from dy2st_runtime.primitives import scalars

CALLS_METHODS_FOR_USER = True

_EQUAL_TABLES = (dict.__eq__, collections.OrderedDict.__eq__)
_METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)
_SETS = (set, frozenset, AbstractSet, AbstractKeys)
_HASHED = (set, frozenset, dict, KINDS[0])
_ITEMS = (KINDS[2], KINDS[5])
_SEARCHED = (list, tuple, set, frozenset, dict, range, collections.deque, *KINDS)


def is_(left: Any, right: Any) -> Any:
    """Return ``left is right``."""
    session = current()
    if session is not None and left is not right:
        session.tuples.compare(left, right)
        left, right = (session.carried.told(session.tuples.told(value)) for value in (left, right))
        session.places.tell_apart(left, options_of(right))
    return _are_one(left, right)


def _are_one(left: Any, right: Any) -> Any:
    if isinstance(left, TaggedUnion) or isinstance(right, TaggedUnion):
        return _is_one_of(left, right) if isinstance(left, TaggedUnion) else _is_one_of(right, left)
    if isinstance(left, tuple) and isinstance(right, tuple) and left is not right and need().tracker.are_same_argument(left, right):
        return True
    if left is not right and any(isinstance(value, (*SYMBOLIC_NUMBERS, Text)) for value in (left, right)):
        return plain_identity.are_one(need(), left, right)
    session = current()
    if session is not None and left is not right and any(_may_be_copy(session, value) for value in (left, right)):
        return _are_one_in_lists(session, left, right)
    if left is not right and isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return need().number(python.is_, (left, right), "bool")  # a branch may have given either of two tensors
    if session is not None and not session.ownership.is_new(left) and not session.ownership.is_new(right):
        session.tracker.compared(left, right)
    elif session is not None and _are_told_by_run(session, left, right):
        return session.number(python.is_, (session.lists.of(left), session.lists.of(right)), "bool")
    return left is right


def _are_told_by_run(session: Session, left: Any, right: Any) -> bool:
    """Tell whether two are lists of the program: a loop that does not run gives the list that it was given."""
    return left is not right and session.lists.of(left) is not None and session.lists.of(right) is not None


def _is_one_of(union: TaggedUnion, other: Any) -> Any:
    """Return ``union is other``: where that can be told for each option, the tag says it, and what it says is known in a branch."""
    by_run = (TaggedUnion, torch.Tensor, *SYMBOLIC_NUMBERS, Text)
    if (
        isinstance(other, by_run)
        or any(_may_be_copy(need(), value) for value in (other, *options_of(union)))
        or any(_are_told_by_run(need(), option, other) for option in options_of(union))
        or (plain_identity.kind_of(other) and any(isinstance(option, by_run) for option in options_of(union)))
    ):
        return unions.over(union, lambda option: _are_one(option, other))
    return unions.is_option(union, lambda option: _are_one(option, other))


def _may_be_copy(session: Session, value: Any) -> bool:
    """Tell whether a value is, or has, a copy in a list of the program."""
    known = session.lists.of(value)
    return value in session.places.copies or (known is not None and bool(known.places))


def _holds_copy(session: Session, value: Any) -> bool:
    """Tell whether a value is such a copy, or a list or tuple that holds one."""
    if not isinstance(value, (list, tuple)):
        return value in session.places.copies
    return any(_holds_copy(session, item) for item in storage.plain(value))


def _are_one_in_lists(session: Session, left: Any, right: Any) -> Any:
    """Return whether two values are one, of which a list of the program holds one at least.

    Raises:
        NeedsApart: they are objects that have to have cells.
        CaptureError: nobody knows.
    """
    are_outside = [elements.is_outside(session, value) for value in (left, right)]
    if all(are_outside):
        session.tracker.compared(left, right)
    if type(left) is not type(right) or any(are_outside):
        return False  # what comes from outside is held itself
    of_cells = cells.pairs(left, right)
    for mine, other in ((left, right), *of_cells):
        sides = session.lists.of(mine), session.lists.of(other)
        if sides[0] is not None and sides[1] is not None:
            return session.number(python.is_, sides, "bool")
        if of_cells and sides != (None, None):
            return False  # what has been put in has lists of the program in all of its cells
    session.places.copies.refuse_identity(left, session.here(), session.traits.apart)


def equal(left: Any, right: Any) -> Any:
    """Return ``left == right``."""
    session = current()
    if session is None:
        return left == right
    left, right = optional.now(session, left), optional.now(session, right)
    for union, other in ((left, lambda option: equal(option, right)), (right, lambda option: equal(left, option))):
        if isinstance(union, TaggedUnion):
            return session.over(union, other)
    if wide_tables.are_wide(session, left, right):
        return wide_tables.equal(left, right, equal)
    for table, rest in ((left, right), (right, left)):
        if optional.is_open(table, "__eq__"):
            return optional.case_split(session, table, functools.partial(equal, rest))
    return _equal(session, left, right)


_COMPARED: dict[type, Callable[[Session, Any, Any], Any]] = {
    ranges.RuntimeRange: ranges.equal,
    RuntimeComplex: complex_numbers.equal,
}
"""Classes of what the program makes that are equal to others by what they hold."""


def _equal(session: Session, left: Any, right: Any) -> Any:
    left, right = set_views.compared(session, left, right)
    if isinstance(right, type(left)) and type(right) is not type(left) and has_own(right, "__eq__"):
        left, right = right, left  # the method of a subclass comes first
    if isinstance(left, (list, tuple, dict)) and has_own(left, "__eq__"):
        return _equal_objects(session, left, right)
    if tuples.one_is(left, right):
        return tuples.are(left, right) and equal_lists(session, tuples.as_list(session, left), tuples.as_list(session, right))
    if (compare := next((_COMPARED[type(side)] for side in (left, right) if type(side) in _COMPARED), None)) is not None:
        return compare(session, left, right)
    if session.lists.of(left) is not None or session.lists.of(right) is not None:
        return equal_lists(session, left, right)
    if isinstance(left, (tuple, list)) and isinstance(right, storage.base_of(left)):
        items = [storage.plain(side) for side in (left, right)]  # Python asks no method of their classes
        of_program = holds_runtime(left, right) or any(_holds_copy(session, side) for side in (left, right))
        if len(items[0]) != len(items[1]) or not of_program:
            return left == right
        return _all_same(session, [*zip(*items, strict=True)])
    if _are_tables(left, right):
        tensor_keys.check(session, storage.keys_of(left), storage.keys_of(right))
        if holds_runtime(storage.contents_of(left), storage.contents_of(right)):
            return _equal_tables(session, *map(storage.copy_of, (left, right)))
    return _equal_objects(session, left, right)


def _are_tables(left: Any, right: Any) -> bool:
    """Tell whether two values are dicts that are compared as Python does it."""
    return all(isinstance(side, dict) and type(side).__eq__ in _EQUAL_TABLES for side in (left, right))


def _equal_tables(session: Session, left: dict[Any, Any], right: dict[Any, Any]) -> Any:
    in_order = all(isinstance(side, collections.OrderedDict) for side in (left, right))
    if len(left) != len(right):
        return False
    shared = [*itertools.takewhile(right.__contains__, left)]
    same_values = _all_same(session, [(left[key], right[key]) for key in shared])
    return same_values if len(shared) == len(left) and not (in_order and [*left] != [*right]) else False


def _all_same(session: Session, pairs: list[tuple[Any, Any]]) -> Any:
    """Tell whether the values of each pair are alike; those after one that is not are not compared, which might raise."""
    for index, pair in enumerate(pairs):
        test, rest = same(session, *pair), pairs[index + 1 :]
        if not is_symbolic(test):
            if not test:
                return False
        elif all(map(_is_plain, itertools.chain(*rest))):
            return session.call(all, [test, *(same(session, *pair) for pair in rest)])
        else:
            return capture_if_exp(test, functools.partial(_all_same, session, rest), lambda: False)
    return True


def _is_plain(value: Any) -> bool:
    """Tell whether comparing a value with another one of these does nothing but to tell."""
    if isinstance(value, torch.Tensor):
        return not tensor_classes.is_users(type(value)) and not value.dim()
    return isinstance(value, (*SYMBOLIC_NUMBERS, Text)) or type(value) in (bool, int, float, str, type(None))


def _equal_objects(session: Session, left: Any, right: Any) -> Any:
    own = user_method(type(left), "__eq__") or getattr(type(left), "__eq__", None)
    if own is object.__eq__:
        if any(_may_be_copy(session, value) for value in (left, right)) and not has_own(right, "__eq__"):
            return is_(left, right)
        session.tracker.identity(left)
        session.tracker.identity(right)
    elif isinstance(left, _METHODS) and isinstance(right, _METHODS):
        session.tracker.compared(left.__self__, right.__self__)
    elif dataclasses.is_dataclass(left) and type(left) is type(right) and not isinstance(left, type):
        fields = [field.name for field in dataclasses.fields(left) if field.compare]
        sides = [[attr(side, name) for name in fields] for side in (left, right)]
        if is_generated(own) and holds_runtime(*sides):
            return _equal(session, *map(tuple, sides))
    elif isinstance(own, types.FunctionType) and not isinstance(left, torch.Tensor):
        of_class(session, left, "__eq__")
        result = session.call(types.MethodType(own, left), right)
        unions.check_answered(session, result, own)
        return left == right if result is NotImplemented else result
    return left == right


def is_generated(method: Any) -> bool:
    """Tell whether ``dataclasses`` has written a method."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    return code is not None and code.co_filename in ("<string>", dataclasses.__file__)


def equal_lists(session: Session, left: Any, right: Any) -> Any:
    """Compare two lists of which one has a length that is known only at run time."""
    if not isinstance(left, list) or not isinstance(right, list):
        return False
    if left is right:
        return True
    a, b = (zipped.by_position(session, items) for items in (left, right))

    def items() -> Any:
        result: Any = True
        going = lambda: result  # noqa: E731

        def look(pair: Any) -> None:
            nonlocal result
            result = same(session, *pair)

        session.allocations.own_variables(look)
        iteration.capture_for(zipped.zip_(a, b), look, ("result",), going)
        return result

    return capture_if_exp(a.length() == b.length(), items, lambda: False)


def holds_runtime(*containers: Any) -> bool:
    """Tell whether one of some tuples or lists has a value known only at run time in it."""
    items = [item for container in containers for item in storage.plain(container)]
    return any(
        is_symbolic(i)
        or isinstance(i, (TaggedUnion, Text))
        or (isinstance(i, (tuple, list)) and holds_runtime(i))
        or (type(i) is dict and holds_runtime(i.values()))
        for i in items
    )


def not_equal(left: Any, right: Any) -> Any:
    """Return ``left != right``."""
    session = current()
    for union, other in ((left, lambda option: not_equal(option, right)), (right, lambda option: not_equal(left, option))):
        if isinstance(union, TaggedUnion):
            return union.session.over(union, other)
    own: Any = type(left).__ne__
    if session is None or (
        not tuples.one_is(left, right)
        and own is not object.__ne__
        and not isinstance(left, (tuple, list))
        and not _are_tables(left, right)
    ):
        return left != right
    result = equal(left, right)
    return session.number(scalars.logical_not, (result,), "bool") if is_symbolic(result) else not result


def in_(value: Any, container: Any) -> Any:
    """Return ``value in container``."""
    session = current()
    if session is None:
        return value in container
    container = optional.now(session, container)
    for union, other in ((value, lambda option: in_(option, container)), (container, lambda option: in_(value, option))):
        if isinstance(union, TaggedUnion):
            return session.over(union, other)
    value = keys.as_member(session, value) if isinstance(container, _SETS) else value
    container = container.table if isinstance(container, AbstractSet) else contents(container)
    if keys.has_union(value):
        return keys.over_unions(session, value, lambda known: in_(known, container))
    if isinstance(container, torch.Tensor):
        return (container == value).any()
    if isinstance(container, Text) or (isinstance(container, str) and isinstance(value, Text)):
        return methods.contains_text(session, container, value)
    if isinstance(container, ranges.RuntimeRange) or ranges.is_asked_at_runtime(container, value):
        return ranges.contains(session, container, value)
    if isinstance(container, RuntimeView) and container.name == "keys":
        return in_(value, container.table)
    known = session.lists.of(container) is not None and not has_own(container, "__contains__")
    if known or isinstance(container, (RuntimeIterable, RuntimeView)):
        return position(session, container, value) >= 0
    return _in_plain(session, value, container)


def _in_plain(session: Session, value: Any, container: Any) -> Any:
    if isinstance(value, torch.Tensor) and _are_outside(session, value, container):
        return lookup.by_identity(session, {}, value) in container
    if isinstance(container, _HASHED) and not isinstance(value, torch.Tensor):
        tensor_keys.check(session, container, (value,))
    if optional.is_open(container, "__contains__"):
        held = storage.plain(container)
        if isinstance(value, torch.Tensor):  # found by its identity, whatever the other keys are
            return tensor_keys.over(session, held, value, lambda one: one in held and unions.presence(held[one]))
        if not _any_runtime(value, container) and may_be_undefined(held.get(value)):
            return unions.presence(held[value])
        return optional.case_split(session, container, lambda table: in_(value, table))
    if isinstance(getattr(type(container), "__contains__", None), types.FunctionType):
        return truth(session, call_own(session, container, "__contains__", value))
    if isinstance(container, (list, tuple)) or (isinstance(container, _SEARCHED) and _any_runtime(value, container)):
        items: list[Any] = [*(storage.plain(container) if isinstance(container, (list, tuple)) else container)]  # type: ignore[misc]
        alike = _same_item if type(container) in _ITEMS else _same_key if isinstance(container, _HASHED) else same
        return _is_among(session, value, items, alike)
    if isinstance(container, collections.abc.Iterator):
        return session.call(written_out.is_among, value, container)
    return value in container


def _are_outside(session: Session, value: torch.Tensor, container: Any) -> bool:
    """Tell whether a tensor is looked up by its identity, and all are from outside and no arguments."""
    if not isinstance(container, (dict, set, frozenset)):
        return False
    members = [item for item in container if isinstance(item, torch.Tensor)]
    return not any(map(session.fakes.is_abstract, (session.outside.real(value), *members))) and not optional.has_optional(container)


def _any_runtime(value: Any, container: Any) -> bool:
    return holds_runtime((value,), container)


def _is_among(session: Session, value: Any, items: Sequence[Any], alike: Callable[[Session, Any, Any], Any]) -> Any:
    for index, item in enumerate(items):
        test = alike(session, value, item)
        if is_symbolic(test):
            return capture_if_exp(test, lambda: True, functools.partial(_is_among, session, value, items[index + 1 :], alike))
        if test:
            return True
    return False


def _same_key(session: Session, value: Any, item: Any) -> Any:
    """Tell whether a value is found where what is looked up has the same hash: that of a tensor is its identity."""
    by_identity = tensor_keys.is_key(value) or tensor_keys.is_key(item)
    return lookup.equal(session, value, item) if by_identity else same(session, value, item)


def _same_item(session: Session, value: Any, item: Any) -> Any:
    """Tell whether a pair is an item of a dict: its key is looked up, and then its value is compared."""
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    test = _same_key(session, value[0], item[0])
    alike = functools.partial(same, session, value[1], item[1])
    return capture_if_exp(test, alike, lambda: False) if is_symbolic(test) else test and alike()


def same(session: Session, value: Any, item: Any) -> Any:
    """Return ``value is item or value == item``, as containers compare: a Python bool, or a symbolic one."""
    if value is item:
        return True
    are_tensors = isinstance(value, torch.Tensor) and isinstance(item, torch.Tensor)
    if not are_tensors and not cells.pairs(value, item):  # by which the program knows whether they are one object
        return truth(session, equal(value, item))
    test = truth(session, is_(value, item))
    return capture_if_exp(test, lambda: True, lambda: truth(session, equal(value, item)))


def position(session: Session, container: Any, value: Any, alike: Callable[[Session, Any, Any], Any] | None = None) -> Any:
    """Return where the first item that is equal to a value stands in something of a length that is known only at run time.

    -1 if none.
    """
    items = zipped.by_position(session, container)
    result: Any = -1
    k: Any = 0
    going = lambda: result < 0  # noqa: E731

    def look(item: Any) -> None:
        nonlocal result, k
        result = capture_if_exp(truth(session, (alike or same)(session, value, item)), lambda: k, lambda: -1)
        k = k + 1

    session.allocations.own_variables(look)
    iteration.capture_for(items, look, ("result", "k"), going)
    return result
