"""Exceptions of the user's code, made anew each time a program raises them."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, eq=False)
class Recipe:
    """Makes one exception from the values that are known when the program runs.

    Attributes:
        kind: its class; ``__init__`` is not run again.
        count: how many of the values are its ``args``, after ``args``.
        args: those that are always the same.
        names: the attributes that take the values after those.
        fixed: the attributes that are always the same.
        links: for ``__cause__`` and ``__context__``, the exception that goes there; it takes the values that are left.
        suppress: its ``__suppress_context__``.
        copies: those of the fixed attributes whose lists and dicts are made anew as well.
        text: what an abstract value for a class of the user's says, where that is not what its base says.
        shares: whether its ``__context__`` is the exception that is its ``__cause__``.
        about: what Python keeps outside of its attributes: ``name`` and ``obj``. A file has none of that.
        itself: the exception that is raised each time, of one that the user's code has not made; a file does not keep it.
    """

    kind: type[BaseException]
    count: int
    args: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    links: tuple[tuple[str, Recipe], ...] = ()
    suppress: bool = False
    copies: frozenset[str] = frozenset()
    text: str | None = None
    shares: bool = False
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    itself: BaseException | None = None

    def __call__(self, *values: Any) -> BaseException:
        return self._create(iter(values))

    @property
    def needs_only_args(self) -> bool:
        """Whether its class and ``args`` tell all there is, but for what it was raised from."""
        return not self.names and not self.fixed and not any(link.takes for _, link in self.links)

    @property
    def takes(self) -> int:
        """How many values it takes."""
        return self.count + len(self.names) + sum(link.takes for _, link in self.links)

    @property
    def __name__(self) -> str:
        return self.kind.__name__

    def _create(self, values: Iterator[Any]) -> BaseException:
        if self.itself is not None:
            collections.deque(itertools.islice(values, self.takes), maxlen=0)
            return self.itself
        args = (*self.args, *(next(values) for _ in range(self.count)))
        result = self.kind.__new__(self.kind, *args)
        if not _has_own_init(self.kind):
            result.__init__(*args)  # type: ignore[misc]  # classes written in C may set what they print here
        fixed = {name: copied(value) if name in self.copies else value for name, value in self.fixed.items()}
        result.__dict__.update({**fixed, **{name: next(values) for name in self.names}})
        for name, value in self.about.items():
            setattr(result, name, value)
        for name, link in self.links:
            setattr(result, name, link._create(values))
        if self.shares:
            result.__context__ = result.__cause__
        result.__suppress_context__ = self.suppress
        if self.text is not None and is_abstract(self.kind):
            result.dy2st_text = self.text  # type: ignore[attr-defined]
        return result


def abstract(base: type[Exception], module: str, qualname: str) -> type[Exception]:
    """Return a class for the exceptions of a user's class that exists in another process."""
    table = {"__module__": module, "__qualname__": qualname, "__slots__": ("dy2st_text",), "__str__": _said}
    return type(qualname.rpartition(".")[2].replace("\0", ""), (base,), table)


def is_abstract(kind: type[BaseException]) -> bool:
    """Tell whether :func:`abstract` has made a class."""
    return kind.__str__ is _said


def has_own_text(kind: type[BaseException]) -> bool:
    """Tell whether code of the user's tells what exceptions of a class say."""
    return hasattr(kind.__str__, "__code__") and not is_abstract(kind)


def _said(self: Any) -> str:
    try:
        return str(self.dy2st_text)
    except AttributeError:
        return str(super(type(self), self).__str__())


def copied(value: Any) -> Any:
    """Return a value with copies of the lists and dicts in it."""
    if type(value) is list:
        return [copied(item) for item in value]
    if type(value) is tuple:
        return tuple(copied(item) for item in value)
    return {key: copied(item) for key, item in value.items()} if type(value) is dict else value


def _has_own_init(kind: type[BaseException]) -> bool:
    return hasattr(kind.__init__, "__code__")
