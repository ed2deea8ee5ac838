"""Ranges: what is asked of one is arithmetic, and never a walk through its numbers, whether or not its bounds are known."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol

import torch

from dy2st import errors
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.containers.iterables import RuntimeIterable
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, need
from dy2st.capture.values.abstract_objects import AbstractObject, Represents
from dy2st.capture.values.kinds import is_number, number_kind
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion
from dy2st.capture.values.texts import Text
from dy2st_runtime.primitives import scalars

_OUT = "range object index out of range"
_NO_INDEX = "only integer tensors of a single element can be converted to an index"


class Numbers(Protocol):
    """A range of Python's, or one of the program."""

    @property
    def start(self) -> Any: ...

    @property
    def stop(self) -> Any: ...

    @property
    def step(self) -> Any: ...


@dataclasses.dataclass(frozen=True, eq=False)
class RuntimeRange(AbstractObject, example=range(0)):
    """A range of which a bound is known only at run time; branches and loops join its bounds."""

    start: Any
    stop: Any
    step: Any
    __class__ = property(lambda self: range)  # isinstance() asks for it

    def length(self) -> Any:
        """Return ``len(self)``, computed once in a block and those inside of it."""
        session = need()
        known = self.__dict__.get("_length")
        if known is not None and session.builder.is_inside(known[0]):
            return known[1]
        result = session.number(scalars.range_length, (self.start, self.stop, self.step), "int")
        session.shapes.constrain_size(result)
        self.__dict__["_length"] = session.builder, result
        return result

    def positions(self) -> RuntimeIterable:
        """Return its numbers by position."""
        return RuntimeIterable(self.length, lambda k: self.start + k * self.step, "a range")

    def index(self, value: Any) -> Any:
        """Return ``self.index(value)``."""
        return index(need(), self, value)

    def count(self, value: Any) -> Any:
        """Return ``self.count(value)``."""
        return count(need(), self, value)

    def _refuse(self, *args: Any) -> NoReturn:
        raise errors.CaptureError(
            "a range whose bounds are known only at run time is used by code that was not converted, or made text",
            need().here(),
            fix="print its bounds, or pass list(numbers)",
        )

    def __getitem__(self, key: Any) -> Any:
        return item(need(), self, key)

    __str__ = __format__ = __iter__ = __len__ = __contains__ = __bool__ = _refuse


RuntimeRange.__name__ = "range"  # Python's errors name a class so


def index_of(session: Session, key: Any, items: Any) -> Any:
    """Return an index of a sequence of Python's: a whole number or a slice of such."""
    if isinstance(key, slice):
        bounds = (key.start, key.stop, key.step)
        start, stop, step = (None if bound is None else whole(session, bound, lambda value: [][value:]) for bound in bounds)
        if isinstance(step, torch.SymInt) and session.in_flight.pending:
            check(session, step != 0, ValueError, "slice step cannot be zero")
        return slice(start, stop, step)
    plain: Iterator[Any] = (kind() for kind in (str, list, tuple) if isinstance(items, kind))
    example: Any = items.example if isinstance(items, Represents) else next(plain, items)
    return whole(session, key, lambda value: example[value])


def whole(session: Session, value: Any, ask: Callable[[Any], Any] = operator.index) -> Any:
    """Return a number that Python takes as an integer; raise what eager raises for one that gives none.

    Args:
        session: the capture.
        value: a number, symbolic or not, a tensor, or what the user gives instead.
        ask: called with a value that gives no integer, for Python's own error.
    """
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() or value.is_complex() or value.numel() != 1:
            raise raised(TypeError(_NO_INDEX))
        value = value.item()
    if isinstance(value, torch.SymBool):
        return session.number(scalars.to_int, (value,), "int")
    if isinstance(value, (int, torch.SymInt, TaggedUnion)):
        return value
    if isinstance(value, torch.SymFloat) or not hasattr(type(value), "__index__"):
        try:
            ask(0.0 if isinstance(value, torch.SymFloat) else value.example if isinstance(value, Represents) else value)
        except TypeError as error:
            raise raised(TypeError(*error.args)) from None
    return session.call(operator.index, value)


def length(numbers: Numbers) -> Any:
    """Return ``len(numbers)``."""
    return numbers.length() if type(numbers) is RuntimeRange else len(numbers)  # type: ignore[arg-type]  # a range


def contains(session: Session, numbers: Numbers, value: Any) -> Any:
    """Return ``value in numbers``."""
    value = session.to_number(value)
    if not is_number(value):
        return False
    start, stop, step = numbers.start, numbers.stop, numbers.step

    def within(first: Any, end: Any) -> Any:
        return session.number(scalars.logical_and, (first, end), "bool")

    def up() -> Any:
        return within(start <= value, value < stop)

    def down() -> Any:
        return within(stop < value, value <= start)

    def met() -> Any:
        item = value if number_kind(value) == "int" else session.call(int, value)
        return within(item == value, (item - start) % step == 0)

    return _if(_if(step > 0, up, down), met, lambda: False)


def _if(test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    known = need().shapes.known(test) if isinstance(test, torch.SymBool) else test
    if isinstance(known, bool):
        return then() if known else orelse()
    return capture_if_exp(test, then, orelse)


def index(session: Session, numbers: Numbers, value: Any) -> Any:
    """Return ``numbers.index(value)``."""
    if not is_number(value) and not isinstance(value, torch.Tensor):  # Python goes through the numbers then
        raise raised(ValueError("sequence.index(x): x not in sequence"))
    message = Text(((value, "r", ""), " is not in range"))
    check(session, contains(session, numbers, value), ValueError, message)
    return (session.call(int, value) - numbers.start) // numbers.step


def count(session: Session, numbers: Numbers, value: Any) -> Any:
    """Return ``numbers.count(value)``."""
    return session.call(int, contains(session, numbers, value))


METHODS: dict[str, Callable[[Session, Numbers, Any], Any]] = {"index": index, "count": count}


def item(session: Session, numbers: Numbers, key: Any) -> Any:
    """Return ``numbers[key]``."""
    key = index_of(session, key, range(0))
    if isinstance(key, slice):
        return _part(session, numbers, key)
    size = length(numbers)
    position = _if(key < 0, lambda: key + size, lambda: key)
    for holds in (position >= 0, position < size):
        check(session, holds, IndexError, _OUT)
    return numbers.start + position * numbers.step


def _part(session: Session, numbers: Numbers, key: slice) -> Any:
    if key.step not in (None, 1):
        raise errors.CaptureError(
            "a range is sliced with a step, and its bounds or those of the slice are known only at run time",
            session.here(),
            fix="write the range that is meant",
        )
    size = length(numbers)

    def bound(given: Any, missing: Any) -> Any:
        if given is None:
            return missing
        from_start = _if(given < 0, lambda: given + size, lambda: given)
        return session.number(scalars.minimum, (session.number(scalars.maximum, (from_start, 0), "int"), size), "int")

    start, stop = (numbers.start + bound(*pair) * numbers.step for pair in ((key.start, 0), (key.stop, size)))
    return RuntimeRange(start, stop, numbers.step)


def equal(session: Session, left: Any, right: Any) -> Any:
    """Return ``left == right``, where one is a range of the program."""
    if not all(type(side) in (range, RuntimeRange) for side in (left, right)):
        return False
    size = length(left)

    def ends() -> Any:
        return _if(left.start == right.start, lambda: _if(size == 1, lambda: True, lambda: left.step == right.step), lambda: False)

    def alike() -> Any:
        return _if(size == 0, lambda: True, ends)

    return _if(size == length(right), alike, lambda: False)


def is_asked_at_runtime(value: Any, *others: Any) -> bool:
    """Tell whether what is asked of a range of Python's depends on what is known only at run time."""
    return type(value) is range and any(isinstance(other, (torch.Tensor, *SYMBOLIC_NUMBERS)) for other in others)
