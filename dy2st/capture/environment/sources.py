"""Where a value that the capture met comes from, so that it can be fetched and checked again at each call.

A source is a step from another source: an attribute, an item, the content of a closure cell. Its root is an argument of the
call, or an object held weakly where that is possible, so that a program never keeps a module alive.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st.capture.environment.users_code import as_written, is_users_function
from dy2st.capture.values import storage
from dy2st_runtime.arrays.calls import in_memory

ACTS_FOR_USER = False

GONE: Any = type("Gone", (), {"__repr__": lambda self: "<gone>"})()
"""What a source gives when the way to it no longer exists."""

PROXIES: tuple[Any, ...] = (weakref.ProxyType, weakref.CallableProxyType)


class Source:
    """One step of a path.

    Attributes:
        parent: the source it starts from; ``None`` for a root.
        name: the path as the user would write it (``self.conv.weight``).
        step: takes the parent's value (for a root: the arguments) to this one.
        index: its position in the table.
        key: what kind of step it is, the index of the parent, and the name or item it goes to.
    """

    __slots__ = ("index", "key", "name", "parent", "step")

    def __init__(self, parent: Source | None, name: str, step: Callable[[Any], Any], index: int, key: tuple[Any, ...]) -> None:
        self.parent, self.name, self.step, self.index, self.key = parent, name, step, index, key


@dataclasses.dataclass(frozen=True, eq=False)
class ToObject:
    """The step to an object by itself, which the captured function keeps alive."""

    value: Any

    def __call__(self, arguments: Any) -> Any:
        return self.value


@dataclasses.dataclass(frozen=True, eq=False)
class ToReferent:
    """The step to an object by itself, as long as somebody keeps it alive."""

    reference: Callable[[], Any]

    def __call__(self, arguments: Any) -> Any:
        return self.reference()


def is_in(name: str, whole: str) -> bool:
    """Tell whether the name of a source is that of another one, or of something in what that gives."""
    return name == whole or name.startswith((f"{whole}[", f"{whole}."))


class SourceTable:
    """All sources of one program; parents come before children.

    Attributes:
        late: the indices of those that were asked for since :meth:`begin_late`; ``None`` before that.
        all_late: whether all count as such.
    """

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.late: set[int] | None = None
        self.all_late = False
        self._known: dict[tuple[Any, ...], Source] = {}

    def argument(self, position: int, name: str) -> Source:
        """Return the leaf or opaque object at a position of the call's arguments."""
        return self._make(("argument", position), None, name, lambda arguments: arguments[position])

    def held(self, value: Any, name: str) -> Source:
        """Return an object by itself; weakly if its class allows."""
        try:
            step: Callable[[Any], Any] = ToReferent(weakref.ref(value))
        except TypeError:
            step = ToObject(value)
        return self._make(("held", id(value)), None, name, step)

    def strong(self, value: Any, name: str) -> Source:
        """Return an object that the captured function itself keeps alive: its globals, a cell of its closure."""
        return self._make(("held", id(value)), None, name, ToObject(value))

    def answer(self, function: Callable[..., Any], args: tuple[Any, ...], name: str) -> Source:
        """Return what a function of a library answers now."""
        key = ("answer", id(function), *map(id, args))
        return self._make(key, None, name, lambda arguments: function(*args))

    def of_library(self, owner: Any, name: str) -> Source:
        """Return what stands under a name in a module or class of a library."""
        text = f"{owner.__name__}.{name}"
        return self._make(("library", owner, name), None, text, lambda arguments: getattr(owner, name, GONE))

    def attribute(self, parent: Source, name: str) -> Source:
        """Return an attribute of the parent's value."""
        step = functools.partial(_attribute_of, name=name)
        return self._make(("attribute", parent.index, name), parent, f"{parent.name}.{name}", step)

    def plain_attribute(self, parent: Source, name: str) -> Source:
        """Return the same without ``__getattr__``."""
        step = functools.partial(_without_fallback, name=name)
        return self._make(("plain attribute", parent.index, name), parent, f"{parent.name}.{name}", step)

    def item(self, parent: Source, key: Any, name: str | None = None) -> Source:
        """Return an item of the parent's value."""
        text = name if name is not None else f"{parent.name}[{storage.shown_key(key)}]"
        return self._make(("item", parent.index, type(key), key), parent, text, functools.partial(held_item, key=key))

    def length(self, parent: Source) -> Source:
        """Return how long the parent's value is."""
        return self._make(("length", parent.index), parent, f"len({parent.name})", len)

    def cell(self, parent: Source, name: str) -> Source:
        """Return the content of a closure cell."""
        return self._make(("cell", parent.index), parent, name, operator.attrgetter("cell_contents"))

    def referent(self, parent: Source, step: Callable[[Any], Any]) -> Source:
        """Return what a weak reference or proxy leads to, if that is still alive, or what a partial function calls."""
        return self._make(("referent", parent.index), parent, f"{parent.name}()", step)

    def part(self, parent: Source, step: Callable[[Any], Any]) -> Source:
        """Return a list of what is in a dict or set, which a function makes of it."""
        return self._make(("part", parent.index, step.__name__), parent, f"{parent.name}: {step.__name__.strip('_')}", step)

    def memory(self, parent: Source) -> Source:
        """Return a tensor in the memory of an array of NumPy."""
        return self._make(("memory", parent.index), parent, parent.name, in_memory)

    def context(self, parent: Source, step: Callable[[Any], Any]) -> Source:
        """Return what stands for the value of a context variable."""
        return self._make(("context", parent.index), parent, parent.name, step)

    def child(self, parent: Source, kind: str, key: str) -> Source:
        """Return an entry of ``_modules``, ``_parameters`` or ``_buffers``, under the name that the module tree gives it."""
        get = operator.attrgetter(kind)
        return self._make((kind, parent.index, key), parent, f"{parent.name}.{key}", lambda module: get(module)[key])

    def _make(self, key: tuple[Any, ...], parent: Source | None, name: str, step: Callable[[Any], Any]) -> Source:
        if key not in self._known:
            self._known[key] = source = Source(parent, name, step, len(self.sources), key)
            self.sources.append(source)
        if self.late is not None:
            self.late.add(self._known[key].index)
        return self._known[key]

    def begin_late(self, repeats: bool) -> None:
        """Note that the program calls something here that may change what sources give.

        Args:
            repeats: whether that may be before what was read until now.
        """
        self.late = set() if self.late is None else self.late
        self.all_late |= repeats

    def is_late(self, source: Source) -> bool:
        """Tell whether code under capture may have read a source after such a call.

        Variables are read whenever their function runs, and what a container holds when the container is met.
        """
        if self.late is None:
            return False
        parent = source.parent
        if self.all_late or source.index in self.late or source.key[0] == "cell" or parent is None:
            return True
        return source.key[0] == "item" and (parent.key[0] == "held" or self.is_late(parent))


def referent(reference: Any) -> Any:
    """Return what a weak reference or proxy leads to; ``None`` if that is gone."""
    if type(reference) not in PROXIES:
        return weakref.ref.__call__(reference)
    try:
        return reference.__init__.__self__  # a proxy has nothing of its own that could be asked for
    except ReferenceError:
        return None


def wrapped_by(partial: functools.partial[Any]) -> Any:
    """Return what a partial function calls: classes made from ``partial`` may mean something else by ``func``."""
    return functools.partial.func.__get__(partial)


def behind(value: Any) -> Any:
    """Return the object that a proxy stands for; any other value as it is."""
    result = referent(value) if type(value) in PROXIES else None
    return value if result is None else result


def follows_reads(kind: type) -> bool:
    """Tell whether the user's class of an object has a method that is called where an attribute is read, or is not there."""
    asked = (getattr(kind, name, None) for name in ("__getattribute__", "__getattr__"))
    return any(method is not torch.nn.Module.__getattr__ and is_users_function(as_written(method)) for method in asked)


def _attribute_of(owner: Any, name: str) -> Any:
    """Return an attribute, past the methods with which a class of the user's follows it: they run where the code reads it."""
    if not follows_reads(type(owner)):
        return operator.attrgetter(name)(owner)
    try:
        return object.__getattribute__(owner, name)
    except AttributeError:
        held = storage.own(owner, name)  # a module's tables are not where Python looks itself
        return GONE if held is storage.MISSING else held


def _without_fallback(owner: Any, name: str) -> Any:
    """Return an attribute that an object or its class has."""
    described = storage.of_class(type(owner), name)
    if described is not storage.MISSING and not storage.is_slot(described):
        return described
    held = storage.own(owner, name)
    return GONE if held is storage.MISSING else held


def held_item(owner: Any, key: Any) -> Any:
    """Return an item of a container.

    Its class has no say: a ``Counter`` gives what is not there, and a ``defaultdict`` makes it.
    """
    if isinstance(owner, dict):
        return dict.get(owner, key, GONE)
    return owner[key] if type(owner) in (list, tuple) else storage.base_of(owner).__getitem__(owner, key)


def fetch(sources: Sequence[Source], arguments: Sequence[Any]) -> list[Any]:
    """Return the values of all sources now; :data:`GONE` where a path has broken."""
    values: list[Any] = []
    for source in sources:
        start = arguments if source.parent is None else values[source.parent.index]
        values.append(step(source, start))
    return values


def step(source: Source, start: Any) -> Any:
    """Return the value of a source, from its parent's (or the arguments)."""
    if start is GONE or start is None:
        return GONE
    try:
        return source.step(start)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        return GONE
