"""Sets that captured code makes: their members may depend on what is known only when the program runs.

seen = {"a"}                a table of the members. In a branch each is an item of a dict: one that is there on some ways only is a
if x.sum() > 0:             tagged union between being there and not. ``"b" in seen`` asks for its tag; what needs to know all
members
    seen.add("b")           (``len(seen)``, a loop) is done once with the member and once without.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Sequence
from typing import Any

from dy2st import errors
from dy2st.capture.branching import keys, lookup, optional, tensor_keys
from dy2st.capture.collections import made_tables
from dy2st.capture.iterables.iterators import over
from dy2st.capture.looping import iteration
from dy2st.capture.looping.truth import both, logical_not
from dy2st.capture.objects import table_sites
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, need
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractKeys, AbstractSet
from dy2st.capture.values.symbolic import TaggedUnion, may_be_undefined
from dy2st.capture.writes.places import ItemPlace


class CapturedSet(AbstractSet):
    """A set during a capture."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, items: Iterable[Any] = ()) -> None:
        if hasattr(self, "table"):  # the user's code calls it by hand
            self.clear()
            self.update(items)

    def length(self) -> Any:
        """Return ``len(self)``, known only at run time or before."""
        if optional.is_counted(self.table):
            return optional.length(need(), self.table)
        return _case_split(self, len)

    # -- changes -----------------------------------------------------------------------------------------------------------

    def add(self, item: Any) -> None:
        keys.over(need(), item, self._add)

    def _add(self, item: Any) -> None:
        check_member(need(), item, self)
        tensor_keys.over(need(), self.table, item, self._put)

    def _put(self, item: Any) -> None:
        if item in self.table and not may_be_undefined(self.table[item]):
            return
        need().places.write(ItemPlace(self.table, item))
        self.table[item] = None

    def discard(self, item: Any) -> None:
        def known(one: Any) -> None:
            lookup.find(need(), self.table, one, self._discard, lambda: _check_hashable(one))

        keys.over(need(), keys.as_member(need(), item), known)

    def _discard(self, item: Any) -> None:
        tensor_keys.over(need(), self.table, item, self._take)

    def _take(self, item: Any) -> None:
        if item in self.table:
            optional.remove(need(), self.table, item)

    def remove(self, item: Any) -> None:
        wanted = keys.as_member(need(), item)

        def missing(one: Any) -> None:
            if wanted is not item:
                raise raised(KeyError(item))
            self._remove(one)

        def known(one: Any) -> None:
            lookup.find(need(), self.table, one, self._remove, lambda: missing(one))

        keys.over(need(), wanted, known)

    def _remove(self, item: Any) -> None:
        tensor_keys.over(need(), self.table, item, lambda one: optional.pop(need(), self.table, one))

    def pop(self) -> Any:
        if any(map(may_be_undefined, self.table.values())) and optional.case_split(need(), self.table, len) is not len(self.table):
            self._refuse("pop() takes a member of a set whose members depend on a branch", "remove a member that you name")
        if not self.table:
            raise raised(KeyError("pop from an empty set"))
        item = next(iter(set(self.table)))
        self.remove(item)
        return item

    def clear(self) -> None:
        for item in list(self.table):
            self.discard(item)

    def update(self, *others: Any) -> None:
        for other in others:
            _case_split(other, lambda items: _each(self.add, items))

    def difference_update(self, *others: Any) -> None:
        for other in others:
            _case_split(other, lambda items: _each(self.discard, items))

    def intersection_update(self, *others: Any) -> None:
        for other in others:
            _case_split(_hashed(other), lambda items: self._keep(set(items)))

    def symmetric_difference_update(self, other: Any) -> None:
        _case_split(_hashed(other), lambda items: _case_split(self, lambda own: self._toggle(own, set(items))))

    def _keep(self, kept: set[Any]) -> None:
        for item in [item for item in self.table if item not in kept]:
            keep = lambda one, item=item: None if one in kept else self.discard(item)  # noqa: E731
            tensor_keys.over(need(), dict.fromkeys(kept), item, keep)

    def _toggle(self, own: set[Any], other: set[Any]) -> None:
        tensor_keys.check(need(), other.union(own), other)
        for item in other:
            (self.discard if item in own else self.add)(item)

    # -- new sets ----------------------------------------------------------------------------------------------------------

    def copy(self) -> Any:
        return made_tables.followed(need(), _create(self.table.copy()))

    def union(self, *others: Any) -> Any:
        return self._changed(CapturedSet.update, *others)

    def difference(self, *others: Any) -> Any:
        return self._changed(CapturedSet.difference_update, *others)

    def intersection(self, *others: Any) -> Any:
        return self._changed(CapturedSet.intersection_update, *others)

    def symmetric_difference(self, other: Any) -> Any:
        return self._changed(CapturedSet.symmetric_difference_update, other)

    def _changed(self, change: Callable[..., None], *others: Any) -> Any:
        session, result = need(), self.copy()
        if isinstance(result, CapturedSet):
            change(result, *others)
        else:
            session.call(getattr(result, change.__name__), *others)
        return result

    # -- questions ---------------------------------------------------------------------------------------------------------

    def isdisjoint(self, other: Any) -> Any:
        return self._asked(set.isdisjoint, other)

    def issubset(self, other: Any) -> Any:
        return self._asked(set.issubset, other)

    def issuperset(self, other: Any) -> Any:
        return self._asked(set.issuperset, other)

    def _asked(self, question: Callable[[set[Any], Any], Any], other: Any) -> Any:
        def ask(own: set[Any], items: Any) -> Any:
            items = items if isinstance(items, (*_SETS, list, tuple)) else list(items)
            items = _as_set(items) if question.__name__ in _COMPARING else items
            if tensor_keys.may_share(need(), own, items):
                return _asked_of_each(question.__name__, own, items)
            return question(own, items)

        return _case_split(self, lambda own: _case_split(_hashed(other), lambda items: ask(own, items)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members("is iterated"))

    def __len__(self) -> int:
        return len(self._members("has its length taken"))

    def __contains__(self, item: Any) -> bool:
        return item in self._members("is searched")

    def __repr__(self) -> str:
        return repr(self._members("is turned into text"))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return set, (list(self),)

    def _members(self, use: str) -> set[Any]:
        if optional.has_optional(self):
            self._refuse(
                f"a set whose members depend on a branch {use} in code that was not converted",
                "do it in converted code, or in the branch",
            )
        return set(self.table)

    def _refuse(self, message: str, fix: str) -> None:
        raise errors.CaptureError(message, need().here(), fix=fix)


CapturedSet.__name__ = "set"  # Python's errors name a class so


def _asked_of_each(question: str, own: Iterable[Any], others: Iterable[Any]) -> Any:
    """Return what a question about two sets says where only the program knows which tensors are one."""
    others = dict.fromkeys(others)
    if question == "isdisjoint":
        return _all(lambda item: logical_not(_is_in(item, own)), others)
    parts = _all(lambda item: _is_in(item, others), own), _all(lambda item: _is_in(item, own), others)
    is_part, has_part = parts if question in ("issubset", "eq", "ne", "le", "lt") else parts[::-1]
    match question:
        case "eq" | "ne":
            alike = _both(is_part, has_part)
            return alike if question == "eq" else logical_not(alike)
        case "lt" | "gt":
            return _both(is_part, logical_not(has_part))
    return is_part


def _is_in(item: Any, members: Iterable[Any]) -> Any:
    table = dict.fromkeys(members)
    return tensor_keys.over(need(), table, item, lambda one: one in table)


def _all(test: Callable[[Any], Any], items: Iterable[Any]) -> Any:
    return functools.reduce(_both, map(test, items), True)


def _both(one: Any, other: Any) -> Any:
    return both(need(), one, other)


def _each(change: Callable[[Any], None], items: Iterable[Any]) -> None:
    for item in items:
        change(item)


def owned(session: Session, items: Iterable[Any]) -> CapturedSet:
    """Return the set that the code that runs now has made."""
    return _create(dict.fromkeys(items))


def display(session: Session, items: Sequence[Any]) -> Any:
    """Return the set that a display makes."""
    result = made_tables.followed(session, _create({}))
    for item in items:
        _add(session, result, item)
    return result


def _add(session: Session, members: Any, item: Any) -> None:
    if isinstance(members, CapturedSet):
        members.add(item)
    else:
        session.call(members.add, item)


def collected(session: Session, kind: type, items: Any) -> Any:
    """Return ``set(items)``, ``frozenset(items)``."""
    if isinstance(items, AbstractKeys):
        raise errors.DataDependentError(
            "a frozen set is made of numbers that are known only at run time",
            session.here(),
            fix="make it a set, or a tuple of its members in order: tuple(sorted(members))",
        )
    if not isinstance(items, (set, frozenset, dict)):
        if iteration.is_of_runtime_length(items):
            result = made_tables.followed(session, _create({}))
            iteration.capture_for(items, lambda item: _add(session, result, item), (), None)
            return result if kind is set else session.call(frozenset, result)
        items = iteration.collected(items)
    if kind is set:
        by_each = keys.any_open(items) or any(map(tensor_keys.is_key, items))
        return display(session, items) if by_each else made_tables.followed(session, owned(session, set(items)))
    tensor_keys.check(session, items, items)
    return keys.over_all(session, items, lambda known: _frozen(session, known)) if keys.any_open(items) else frozenset(items)


def _frozen(session: Session, items: Sequence[Any]) -> frozenset[Any]:
    for item in items:
        check_member(session, item)
    return frozenset(items)


METHODS = frozenset(("union", "difference", "intersection", "symmetric_difference", "isdisjoint", "issubset", "issuperset"))
"""What sets do that change nothing."""


def are_open(session: Session, owner: frozenset[Any], others: Sequence[Any]) -> bool:
    """Tell whether a method of a set gets members that only the program knows."""
    if any(isinstance(other, (TaggedUnion, AbstractSet, AbstractKeys)) or optional.has_optional(other) for other in others):
        return True
    items = [item for other in others if isinstance(other, (list, tuple, dict, *_SETS)) for item in storage.plain(other)]
    return keys.any_open(items) or tensor_keys.may_share(session, owner, items)


def of_frozen(session: Session, owner: frozenset[Any], name: str, others: Sequence[Any]) -> Any:
    """Return a method of a frozen set that gets such members."""
    result = getattr(owned(session, owner), name)(*others)
    return session.call(frozenset, result) if isinstance(result, AbstractSet) else result


def of_outside(members: set[Any]) -> CapturedSet:
    """Return what stands for a set that was there before the capture."""
    captured_set = CapturedSet()
    captured_set.table = dict.fromkeys(members)
    return captured_set


def _followed(value: Any) -> Any:
    return owned(need(), value) if type(value) is set else value


def _create(table: dict[Any, Any]) -> CapturedSet:
    session, result = need(), CapturedSet()
    result.table = table
    for part in (result, table):
        session.allocations.own(part)
        session.allocations.created[id(part)] = part
    table_sites.note(session, result)
    return result


def check_member(session: Session, item: Any, owner: CapturedSet | None = None) -> None:
    """Check a member: a set and a dict look up what is in them by its value.

    Raises:
        NeedsApart: it is a number known only at run time, and the set can be one of the program.
        CaptureError: it is a number known only at run time.
    """
    if lookup.is_runtime(item):
        error = errors.DataDependentError(
            "a number that is known only at run time is put into a set",
            session.here(),
            fix="keep the numbers in a list or a tensor: `n in numbers` searches a list, torch.unique gives the distinct ones",
        )
        table_sites.require(session, owner, error)


def _check_hashable(item: Any) -> None:
    """Raise what Python raises where a set is searched for what has no hash."""
    if not lookup.is_runtime(item):
        hash(item)


def _case_split(value: Any, use: Callable[[Any], Any]) -> Any:
    """Do something with the members of a set, once for each that it may have, or with the items of anything else."""
    if isinstance(value, CapturedSet):
        return optional.case_split(need(), value.table, lambda table: use(set(table)))
    if optional.has_optional(value):
        return optional.case_split(need(), value, use)
    return use(value if isinstance(value, (set, frozenset)) else over(value))


def _hashed(items: Any) -> Any:
    """Return items that are looked up all at once: as a set, where one of them is known only when the program runs."""
    known = isinstance(items, (list, tuple)) and need().lists.of(items) is None
    return display(need(), items) if known and keys.any_open(items) else items


_SETS = (set, frozenset)
_COMPARING = ("eq", "ne", "lt", "le", "gt", "ge")
_LIKE_SETS = (*_SETS, KeysView, ItemsView)


def _of_sets(do: Callable[[Any, Any], Any], kinds: tuple[type, ...] = _LIKE_SETS) -> Callable[[Any, Any], Any]:
    """Return an operator: Python's take sets, or views of dicts too, which know what to do with a set."""
    return lambda self, other: do(self, other) if isinstance(other, kinds) else NotImplemented


def _as_set(items: Any) -> Any:
    return items if isinstance(items, _SETS) else set(items)


def _operators() -> None:
    """Do ``a | b``, ``a |= b``, ``a <= b``…"""

    def binary(method: str) -> Callable[[Any, Any], Any]:
        return _of_sets(lambda self, other: getattr(self, method)(other))

    def reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def of(other: Any, own: set[Any]) -> Any:
            tensor_keys.check(need(), other, own)
            return _followed(function(other, own))

        return _of_sets(lambda self, other: _case_split(self, lambda own: of(other, own)))

    def inplace(method: str) -> Callable[[Any, Any], Any]:
        return _of_sets(lambda self, other: [getattr(self, method)(other), self][1], _SETS)

    def compared(question: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return _of_sets(lambda self, other: self._asked(question, other))

    for name, method in [("or", "union"), ("and", "intersection"), ("sub", "difference"), ("xor", "symmetric_difference")]:
        setattr(CapturedSet, f"__{name}__", binary(method))
        setattr(CapturedSet, f"__r{name}__", reflected(getattr(operator, f"{name}_" if name in ("or", "and") else name)))
        setattr(CapturedSet, f"__i{name}__", inplace("update" if name == "or" else f"{method}_update"))
    for name in _COMPARING:
        setattr(CapturedSet, f"__{name}__", compared(getattr(operator, name)))


_operators()
