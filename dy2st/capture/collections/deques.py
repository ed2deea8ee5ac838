"""Deques that captured code makes: a list underneath, which becomes a list of the program where it changes its length in a block.

window = deque(maxlen=3)    window.append(x)        →   items.append(x); del items[:-3]
                            window.popleft()        →   items.pop(0)
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Iterable, Iterator
from typing import Any

from dy2st import errors
from dy2st.capture.attributes import access
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.containers import lists, ranges
from dy2st.capture.environment import written_out
from dy2st.capture.iterables import iterators, runtime_iterables
from dy2st.capture.looping import iteration
from dy2st.capture.operators import comparisons
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import need
from dy2st.capture.texts import text
from dy2st.capture.types import absent_attributes
from dy2st.capture.values.abstract_objects import AbstractDeque, contents
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS


class CapturedDeque(AbstractDeque):
    """A deque during a capture."""

    __hash__ = None  # type: ignore[assignment]
    __dy2st_stands_in__ = True

    def __init__(self, items: Any = (), maxlen: int | None = None) -> None:
        if not hasattr(self, "items"):
            return
        if maxlen != self.maxlen:  # the user's code calls it by hand
            raise errors.CaptureError(
                "deque.__init__() gives a deque another maxlen", need().here(), fix="make a new deque: deque(window, maxlen)"
            )
        self.clear()
        self.extend(items)

    @classmethod
    def of_list(cls, items: list[Any], maxlen: int | None) -> CapturedDeque:
        """Return a deque of what is in a list, which is its own."""
        result = cls()
        result.items, result.maxlen = items, maxlen
        return result

    def length(self) -> Any:
        """Return ``len(self)``, known only at run time or before."""
        return need().call(len, self.items)

    __len__ = length

    # -- changes -----------------------------------------------------------------------------------------------------------

    def append(self, item: Any) -> None:
        need().call(self.items.append, item)
        self._drop_first()

    def appendleft(self, item: Any) -> None:
        need().call(self.items.insert, 0, item)
        if self.maxlen is not None:
            access.del_item(self.items, slice(self.maxlen, None))

    def extend(self, items: Any) -> None:
        if iterators.gives_by_steps(items):
            need().call(written_out.extended, self, items)
            return
        need().call(self.items.extend, iteration.collected(items))
        self._drop_first()

    def extendleft(self, items: Any) -> None:
        if iterators.gives_by_steps(items):
            need().call(written_out.extended_left, self, items)
            return
        session, left = need(), iteration.collected(items)
        session.call(left.reverse)
        access.set_item(self.items, slice(0, 0), left)
        if self.maxlen is not None:
            access.del_item(self.items, slice(self.maxlen, None))

    def _drop_first(self) -> None:
        if self.maxlen is not None:
            access.del_item(self.items, slice(None, -self.maxlen if self.maxlen else None))

    def pop(self) -> Any:
        _check(self.length() > 0, IndexError("pop from an empty deque"))
        return need().call(self.items.pop)

    def popleft(self) -> Any:
        _check(self.length() > 0, IndexError("pop from an empty deque"))
        return need().call(self.items.pop, 0)

    def insert(self, index: Any, item: Any) -> None:
        if self.maxlen is not None:
            _check(self.length() < self.maxlen, IndexError("deque already at its maximum size"))
        need().call(self.items.insert, index, item)

    def remove(self, item: Any) -> None:
        _check(comparisons.in_(item, self.items), ValueError(_absent("remove", item)))
        access.del_item(self.items, comparisons.position(need(), self.items, item))

    def clear(self) -> None:
        need().call(self.items.clear)

    def reverse(self) -> None:
        need().call(self.items.reverse)

    def rotate(self, n: Any = 1) -> None:
        session, length = need(), self.length()
        at = capture_if_exp(length > 0, lambda: length - n % length, lambda: 0) if is_symbolic(length) else length and -n % length
        turned = lists.concat(session, access.item(self.items, slice(at, None)), access.item(self.items, slice(None, at)))
        access.set_item(self.items, slice(None, None), turned)

    # -- questions ---------------------------------------------------------------------------------------------------------

    def copy(self) -> CapturedDeque:
        return create(self.items, self.maxlen)

    __copy__ = copy

    def count(self, item: Any) -> Any:
        return need().call(self.items.count, item)

    def index(self, item: Any, *bounds: Any) -> Any:
        if bounds:
            return need().call(self.items.index, item, *bounds)
        _check(comparisons.in_(item, self.items), ValueError(_absent("index", item)))
        return need().call(self.items.index, item)

    def __getitem__(self, index: Any) -> Any:
        return access.item(self.items, self._checked(index))

    def __setitem__(self, index: Any, item: Any) -> None:
        access.set_item(self.items, self._checked(index), item)

    def __delitem__(self, index: Any) -> None:
        access.del_item(self.items, self._checked(index))

    def _checked(self, index: Any) -> Any:
        index, length = ranges.whole(need(), index, lambda value: collections.deque()[value]), self.length()
        error = IndexError("deque index out of range")
        _check(index < length, error)
        _check(index >= -length, error)
        return index

    def __iter__(self) -> Iterator[Any]:
        if need().lists.of(self.items) is not None:
            raise _refusal("is iterated")
        return iter(self.items)

    def __reversed__(self) -> Any:
        return runtime_iterables.reversed_(self.items)

    def __contains__(self, item: Any) -> Any:
        return comparisons.in_(item, self.items)

    def __eq__(self, other: Any) -> Any:
        return comparisons.equal(self.items, _list_of(other)) if isinstance(other, self.__class__) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return comparisons.not_equal(self.items, _list_of(other)) if isinstance(other, self.__class__) else NotImplemented

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, self.__class__):
            raise raised(TypeError(f'can only concatenate deque (not "{absent_attributes.class_name(other)}") to deque'))
        return create(lists.concat(need(), self.items, _list_of(other)), self.maxlen)

    def __iadd__(self, other: Any) -> Any:
        self.extend(other)
        return self

    def __imul__(self, times: Any) -> Any:
        result = self * times
        self.clear()
        self.extend(result)
        return self

    def __mul__(self, times: Any) -> Any:
        return create(lists.repeat(need(), self.items, times), self.maxlen)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        if any(not isinstance(item, (str, int, float)) for item in self):
            raise _refusal("is turned into text")
        limit = "" if self.maxlen is None else f", maxlen={self.maxlen}"
        return f"deque({list(self)!r}{limit})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__class__, (list(self), self.maxlen)


CapturedDeque.__name__ = "collections.deque"  # Python's errors name a class so


def create(iterable: Iterable[Any] = (), maxlen: Any = None) -> CapturedDeque:
    """Return ``collections.deque(iterable, maxlen)``."""
    session, deque = need(), CapturedDeque()
    if isinstance(maxlen, SYMBOLIC_NUMBERS):
        raise errors.CaptureError(
            "the maxlen of a deque is known only at run time",
            session.here(),
            fix="keep a list, and delete its first items: del xs[:-n]",
        )
    deque.maxlen = operator.index(maxlen) if maxlen is not None else None
    if deque.maxlen is not None and deque.maxlen < 0:
        raise raised(ValueError("maxlen must be non-negative"))
    deque.items = iteration.collected(iterable)
    deque._drop_first()
    session.allocations.own(deque)
    session.allocations.created[id(deque)] = deque
    return deque


def of_outside(deque: collections.deque[Any]) -> CapturedDeque:
    """Return what stands for a deque that was there before the capture."""
    return CapturedDeque.of_list(list(deque), deque.maxlen)


def _list_of(deque: Any) -> list[Any]:
    items = contents(deque)
    return items if isinstance(items, list) else list(items)


def _check(holds: Any, error: Exception) -> None:
    """Raise an error if something does not hold: now, or when the program gets there."""
    if is_symbolic(holds):
        check(need(), holds, type(error), *error.args)
    elif not holds:
        raise raised(error)


def _absent(method: str, item: Any) -> Any:
    """Return what this Python says of an item that is not there."""
    try:
        getattr(collections.deque(), method)("x")
    except ValueError as error:
        before, name, after = str(error).partition("'x'")
        return text.Text((before, (item, "r", ""), after)) if name else before
    raise AssertionError


def _refusal(use: str) -> errors.CaptureError:
    return errors.CaptureError(
        f"a deque whose contents are known only at run time {use} in code that was not converted",
        need().here(),
        fix="loop over it in converted code, or take list(window)",
    )
