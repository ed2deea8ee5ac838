"""What stands for objects of other classes during a capture: sets, deques and tuples from outside, iterators."""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Generator
from typing import Any, ClassVar, NoReturn, TypeVar

from dy2st.errors import CaptureError


class Represents:
    """What represents an object of another class during a capture. The user's code is told of that class.

    Attributes:
        example: an object of the class: what is asked about the represented one's class and attributes is asked of it.
    """

    __slots__ = ()
    example: ClassVar[Any] = None

    def __init_subclass__(cls, example: Any = None, is_named: bool = True) -> None:
        if example is not None:
            cls.example = example
            if is_named:  # Python's own errors name the class
                kind = type(example)
                cls.__name__ = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def example_of(value: Any) -> Any:
    """Return an object of the class of what a value represents; any other value as it is: nothing is asked of the user's."""
    return value.example if isinstance(value, Represents) else value


class AbstractIterator(Represents):
    """What represents an iterator."""

    __slots__ = ()

    def taken_from(self) -> tuple[Any, ...]:
        """Return the iterators that it takes its items from."""
        return ()

    def __repr__(self) -> str:
        name = getattr(self, "__qualname__", "")
        return f"<{type(self).__name__} object {name + ' ' if name else ''}at {id(self):#x}>"


_Kind = TypeVar("_Kind", bound=type)


@functools.cache
def representing(base: _Kind, kind: type) -> _Kind:
    """Return the subclass of a class that represents iterators of a kind, such as ``map``."""
    return type(base.__name__, (base,), {}, example=_ITERATORS[kind])  # type: ignore[return-value]


def _nothing() -> Generator[Any]:
    yield from ()


GENERATOR = _nothing()
"""A generator that gives nothing."""
_EXAMPLES: tuple[Any, ...] = (
    GENERATOR, map(id, ()), filter(None, ()), zip(), enumerate(()), itertools.islice((), 0),
    *(iter(kind()) for kind in (list, tuple, str, bytes, dict, set, collections.deque, collections.OrderedDict)),
    iter("é"), iter(range(0)), iter(range(2**70)), iter({}.values()), iter({}.items()),
    reversed([]), reversed({}), reversed({}.values()), reversed({}.items()), reversed(collections.deque()),
)  # fmt: skip
_ITERATORS: dict[type, Any] = {type(example): example for example in _EXAMPLES}


class AbstractObject(Represents):
    """What stands for a set or deque during a capture, and records what is done with it."""

    __slots__ = ()

    def length(self) -> Any:
        """Return ``len(self)``: a number, symbolic or not."""
        raise NotImplementedError


class AbstractSet(AbstractObject, example=set()):
    """What stands for a set; it is none, so that code written in C goes through its methods, and finds out.

    Attributes:
        table: a dict with the members as keys; a value that may be :class:`Undefined` marks one that may not be there.
    """

    table: dict[Any, Any]
    __class__ = property(lambda self: set)  # isinstance() asks for it


OF_TABLES = frozenset(("_dy2st_keys", "_dy2st_values"))
"""The attributes of what stands for a dict or set of the program; what it represents has none of that name."""


class AbstractTable(Represents):
    """What stands for a dict or set under whose keys are numbers or texts that may be any.

    Attributes:
        _dy2st_keys: the keys in their order.
        _dy2st_values: what there is under each; a set has none.
    """

    _dy2st_keys: list[Any]
    _dy2st_values: list[Any]


class AbstractKeys(AbstractTable):
    """What stands for such a set, whose order is one that only Python knows."""


def in_any_order(value: Any) -> Any:
    """Return the members of such a set as a list, for what does not depend on their order; any other value as it is."""
    return value._dy2st_keys if isinstance(value, AbstractKeys) else value


def is_dict(value: Any) -> bool:
    """Tell whether a value stands for such a dict."""
    return isinstance(value, AbstractTable) and not isinstance(value, AbstractKeys)


class AbstractDeque(AbstractObject, example=collections.deque()):
    """What stands for a deque; it is none, for the same reason.

    Attributes:
        items: a list of what is in it.
        maxlen: of the deque.
    """

    items: list[Any]
    maxlen: int | None
    __class__ = property(lambda self: collections.deque)  # isinstance() asks for it


class AbstractTuple(AbstractObject, example=()):
    """What stands for a tuple of a length that is known only at run time; see tuples.py.

    Args:
        session: the capture.
        items: a list of the program, which nobody changes.
    """

    def __init__(self, session: Any, items: list[Any]) -> None:
        self.session, self.items = session, items

    def length(self) -> Any:
        return self.session.call(len, self.items)

    def index(self, *args: Any) -> NoReturn:
        """Do ``self.index(item)``: where nothing is found, a list has other words.

        Raises:
            CaptureError: always.
        """
        raise CaptureError("index() of a tuple of a length that is known only at run time", fix="use list(items).index(item)")

    def count(self, item: Any) -> Any:
        """Return ``self.count(item)``."""
        return self.session.call(self.items.count, item)

    def _refuse(self, *args: Any) -> NoReturn:
        raise CaptureError(
            "a tuple of a length that is known only at run time is used by code that was not converted, or as the key of a dict",
            fix="loop over it in converted code, or pass torch.stack(items)",
        )

    __iter__ = __len__ = __getitem__ = __contains__ = __eq__ = __ne__ = __repr__ = __bool__ = __hash__ = _refuse


def contents(value: Any) -> Any:
    """Return the list of what is in a deque, or in a tuple of a length that is known only at run time; any other value as it is."""
    return value.items if isinstance(value, (AbstractDeque, AbstractTuple)) else value
