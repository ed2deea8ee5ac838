"""What an object that a program makes has in place of an attribute, where the program reads and changes it while it is in a list.

b.n = [0]            for the program, an attribute is a list with one item, which all copies of the object share
close(b)             does that with the attributes of an object that a program is given, when the program looks into it first
open_(items)         puts what is in these lists into the objects, when they leave the program
owner(b)             which of the objects that have these lists is the one of the user's: the first

What a branch or loop gives of an object is its lists, of which the program makes an object again where it needs one; ``owner``
gives the first that was made, or that the program was given.
"""

from __future__ import annotations

import contextlib
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from dy2st_runtime.compiled import COMPILED


def _refuse() -> NoReturn:
    raise TypeError("an attribute that a program changes is used outside of it")


class Cell:
    """An attribute of an object, or an item of a dict.

    Attributes:
        items: a list of what it is.
        refuse: what is raised by whoever takes the cell for what is in it.
    """

    __slots__ = ("items",)
    refuse: Callable[[], NoReturn] = staticmethod(_refuse)

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return repr(self.items[0])

    def _fail(self, *args: Any, **kwargs: Any) -> NoReturn:
        type(self).refuse()

    __iter__ = __len__ = __bool__ = __call__ = __add__ = __radd__ = __mul__ = __rmul__ = __getitem__ = __sub__ = __rsub__ = _fail
    __truediv__ = __rtruediv__ = __lt__ = __gt__ = __le__ = __ge__ = __float__ = __int__ = __index__ = __neg__ = __abs__ = _fail
    __copy__ = __deepcopy__ = __reduce_ex__ = __contains__ = __eq__ = __ne__ = _fail
    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Note that an operation of torch is no exception."""
        cls.refuse()


_local = threading.local()


@contextlib.contextmanager
def owners() -> Iterator[None]:
    """Inside, in this thread, :func:`owner` knows what it has been asked for, and what :func:`close` has been given."""
    if getattr(_local, "owners", None) is not None:
        yield
        return
    _local.owners = {}
    try:
        yield
    finally:
        _local.owners = None


def owner(value: Any) -> Any:
    """Return the first object that has these cells."""
    known: dict[int, Any] = _local.owners
    first = next((part for _, part in parts(value) if type(part) is Cell), None)
    if first is None:
        return value
    return None if first.items is None else known.setdefault(id(first.items), value)  # of a way that the program has not gone


WITHOUT_CELLS = (torch.Tensor, torch.nn.Module, type, types.FunctionType, types.ModuleType)
"""What has attributes, and never cells."""
PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None), torch.Tensor, torch.nn.Parameter))
"""The classes of most of what is in objects, found without a look at their bases."""


def open_(value: Any) -> None:
    """Put what is in the cells of all objects in a value into their places."""
    open_all([value])


def open_all(values: list[Any]) -> None:
    """Do that with several values, each object once."""
    if COMPILED.library is not None:
        COMPILED.library.open(values)
        return
    seen: set[int] = set()
    for value in values:
        _open(value, seen)


def _open(value: Any, seen: set[int]) -> None:
    if type(value) in PLAIN or id(value) in seen or isinstance(value, WITHOUT_CELLS):
        return
    seen.add(id(value))
    if isinstance(value, (list, tuple)):
        for part in value:
            _open(part, seen)
        return
    for name, part in parts(value):
        inside = part.items[0] if type(part) is Cell else part
        if inside is not part:
            put(value, name, inside)
        if type(inside) not in PLAIN:
            _open(inside, seen)


@contextlib.contextmanager
def closing() -> Iterator[None]:
    """Inside, in this thread, :func:`close` puts what objects hold in cells; at the end they have no cells any more."""
    closed: list[Any] = []
    library, before = COMPILED.library, getattr(_local, "closed", None)
    if library is None:
        _local.closed = closed
    else:
        outside = library.collect((closed, getattr(_local, "owners", None)))
        _local.closed = None
    try:
        yield
    finally:
        _local.closed = before
        if library is not None:
            library.collect(outside)
        open_all(closed)


def close(value: Any) -> None:
    """Put the attributes of an object, or the items of a dict, in cells, unless they are; one that the program made has some."""
    closed = getattr(_local, "closed", None)
    if closed is None:
        if COMPILED.library is not None:
            COMPILED.library.close(value)
        return
    held = [(name, part) for name, part in parts(value) if type(part) is not Cell]
    if not held:
        return
    closed.append(value)
    known = getattr(_local, "owners", None)
    for name, part in held:
        cell = Cell([part])
        put(value, name, cell)
        if known is not None:
            known[id(cell.items)] = value


def put(value: Any, name: Any, part: Any) -> None:
    """Put something in the place of an attribute of an object, or of an item of a dict."""
    if isinstance(value, dict):
        value[name] = part
    elif name in (table := getattr(value, "__dict__", {})):
        table[name] = part  # past a property of that name
    else:
        object.__setattr__(value, name, part)


def parts(value: Any) -> list[tuple[Any, Any]]:
    """Return the attributes of an object, or the items of a dict."""
    if isinstance(value, dict):
        return list(value.items())
    table = [(name, part) for name, part in getattr(value, "__dict__", {}).items() if name[:8] != "__dy2st_"]
    for name, described in slots_of(type(value)):
        with contextlib.suppress(AttributeError):
            table.append((name, described.__get__(value, type(value))))
    return table


_SLOTS: dict[int, tuple[weakref.ref[type], list[tuple[str, types.MemberDescriptorType]]]] = {}
"""The slots of classes, by the identity of these: the user's metaclass may have a say in what they are equal to."""


def slots_of(kind: type) -> list[tuple[str, types.MemberDescriptorType]]:
    """Return the slots that the objects of a class have, with their names."""
    known = _SLOTS.get(id(kind))
    if known is not None and known[0]() is kind:
        return known[1]
    pairs = [(name, described) for base in kind.__mro__ for name, described in vars(base).items()]
    result = [(name, one) for name, one in pairs if isinstance(one, types.MemberDescriptorType)]
    result = [(name, one) for name, one in result if name != "__dict__"]  # a SimpleNamespace has it like a slot
    key = id(kind)
    _SLOTS[key] = weakref.ref(kind, lambda _: _SLOTS.pop(key, None) and None), result
    return result


COMPILED.when_loaded(lambda library: library.use(Cell, slots_of, WITHOUT_CELLS, tuple(PLAIN)))
