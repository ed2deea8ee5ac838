"""What the patterns of a ``match`` statement ask of a subject, and what they take from it.

A pattern looks at a subject twice: :func:`matches` tells whether it fits, and where it does :func:`bound_values` gives the values
of its names. What the structure of the subject decides is decided during the capture; equality with a value, the length of a list
of the program, and which of several values a subject is, may be decided by a tensor.
"""

from __future__ import annotations

import collections.abc
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from dy2st import errors
from dy2st.capture.attributes import access, attributes
from dy2st.capture.branching import optional
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.calls import call
from dy2st.capture.calls import call as calls
from dy2st.capture.looping.truth import condition, logical_not, truth_value
from dy2st.capture.operators import comparisons
from dy2st.capture.session.session import need
from dy2st.capture.values.abstract_objects import contents, is_dict
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import TaggedUnion

Found: TypeAlias = dict[str, Any]
_SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
"""Builtin classes whose one positional pattern takes the subject itself."""
_NO_SEQUENCES = (str, bytes, bytearray)


class Pattern:
    """One pattern; this one fits everything and binds nothing."""

    names: tuple[str, ...] = ()
    """What it binds, in order of appearance."""

    def fits(self, subject: Any) -> Any:
        """Tell whether the pattern fits: a Python bool, or a symbolic one."""
        return True

    def bind(self, subject: Any, value: Found) -> None:
        """Put the values of the names into ``value``; the pattern fits."""


def matches(pattern: Pattern, subject: Any) -> Any:
    """Tell whether a pattern fits a subject."""
    if isinstance(subject, TaggedUnion):
        return subject.session.over(subject, lambda option: matches(pattern, option))
    if optional.has_optional(subject) and not _answers_itself(pattern, subject):
        return optional.case_split(need(), subject, lambda one: matches(pattern, one))
    return condition(pattern.fits(subject))


def bound_values(pattern: Pattern, subject: Any) -> tuple[Any, ...]:
    """Return the values of a pattern's names, where it fits; a subject that is one of several is one of those it fits."""
    if isinstance(subject, TaggedUnion):
        fitting = {tag: option for tag, option in subject.options.items() if matches(pattern, option) is not False}
        if len(fitting) > 1 and not isinstance(pattern, (Anything, As)):
            narrowed = TaggedUnion(subject.session, subject.tag, fitting)
            return subject.session.over(narrowed, lambda option: bound_values(pattern, option))  # type: ignore[no-any-return]
        subject = next(iter(fitting.values())) if len(fitting) == 1 else TaggedUnion(subject.session, subject.tag, fitting)
    if optional.has_optional(subject) and not (isinstance(pattern, (Anything, As)) or _answers_itself(pattern, subject)):
        return _bound_in_each(pattern, subject)
    values: Found = {}
    pattern.bind(subject, values)
    return tuple(values[name] for name in pattern.names)


def _bound_in_each(pattern: Pattern, subject: Any) -> tuple[Any, ...]:
    """Return the same of a dict with items that are there on some ways only: of those of its ways that fit."""

    def fitting(one: Any) -> Any:
        return bound_values(pattern, one) if matches(pattern, one) is not False else (None,) * len(pattern.names)

    return optional.case_split(need(), subject, fitting)  # type: ignore[no-any-return]


def _bind_part(pattern: Pattern, subject: Any, values: Found) -> None:
    if pattern.names:
        values.update(zip(pattern.names, bound_values(pattern, subject), strict=True))


class Anything(Pattern):
    """``name``, or ``_`` without a name."""

    def __init__(self, name: str | None) -> None:
        self.names = () if name is None else (name,)

    def bind(self, subject: Any, value: Found) -> None:
        value.update(dict.fromkeys(self.names, subject))


class Star(Anything):
    """``*name`` in a sequence."""


class Value(Pattern):
    """A value, compared as ``==`` does."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def fits(self, subject: Any) -> Any:
        return comparisons.equal(subject, self.value)


class Singleton(Pattern):
    """``None``, ``True`` or ``False``."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def fits(self, subject: Any) -> Any:
        return comparisons.is_(subject, self.value)


class As(Pattern):
    """``pattern as name``."""

    def __init__(self, name: str, inner: Pattern) -> None:
        self.inner, self.name, self.names = inner, name, (*inner.names, name)

    def fits(self, subject: Any) -> Any:
        return matches(self.inner, subject)

    def bind(self, subject: Any, value: Found) -> None:
        _bind_part(self.inner, subject, value)
        value[self.name] = subject


class Or(Pattern):
    """``one | other``."""

    def __init__(self, *alternatives: Pattern) -> None:
        self.alternatives, self.names = alternatives, alternatives[0].names

    def fits(self, subject: Any) -> Any:
        return _any([functools.partial(matches, alternative, subject) for alternative in self.alternatives])

    def bind(self, subject: Any, values: Found) -> None:
        if self.names:
            values.update(zip(self.names, self._values(subject, 0), strict=True))

    def _values(self, subject: Any, position: int) -> Any:
        pattern = self.alternatives[position]
        take = functools.partial(self._take, pattern, subject)
        if position == len(self.alternatives) - 1:
            return take()
        test = matches(pattern, subject)
        if is_symbolic(test):
            return capture_if_exp(test, take, lambda: self._values(subject, position + 1))
        return take() if test else self._values(subject, position + 1)

    def _take(self, pattern: Pattern, subject: Any) -> tuple[Any, ...]:
        values: Found = {}
        _bind_part(pattern, subject, values)
        return tuple(values[name] for name in self.names)


class _Parts(Pattern):
    """A pattern with patterns for parts of the subject."""

    def __init__(self, patterns: tuple[Pattern, ...]) -> None:
        self.patterns, self.names = patterns, tuple(name for pattern in patterns for name in pattern.names)

    def structure(self, subject: Any) -> Any:
        """Tell whether the parts are there."""
        raise NotImplementedError

    def part(self, subject: Any, position: int) -> Any:
        """Return the part for one of the patterns."""
        raise NotImplementedError

    def fits(self, subject: Any) -> Any:
        return _all(list(self._tests(subject)))

    def _tests(self, subject: Any) -> Iterator[Callable[[], Any]]:
        yield functools.partial(self.structure, subject)
        for position, pattern in enumerate(self.patterns):
            if not isinstance(pattern, Anything):
                yield functools.partial(self._part_fits, pattern, subject, position)

    def _part_fits(self, pattern: Pattern, subject: Any, position: int) -> Any:
        return matches(pattern, self.part(subject, position))

    def bind(self, subject: Any, values: Found) -> None:
        for position, pattern in enumerate(self.patterns):
            if pattern.names:
                _bind_part(pattern, self.part(subject, position), values)


class Sequence(_Parts):
    """``[a, b, *rest]``."""

    def __init__(self, *patterns: Pattern) -> None:
        super().__init__(patterns)
        stars = [position for position, pattern in enumerate(patterns) if isinstance(pattern, Star)]
        self.star = stars[0] if stars else None

    def structure(self, subject: Any) -> Any:
        subject = contents(subject)
        if not isinstance(subject, collections.abc.Sequence) or isinstance(subject, _NO_SEQUENCES):
            return False
        length = call.call(len, subject)
        return length == len(self.patterns) if self.star is None else length >= len(self.patterns) - 1

    def part(self, subject: Any, position: int) -> Any:
        subject = contents(subject)
        after = position - len(self.patterns)  # counted from the end
        if self.star is None or position < self.star:
            return access.item(subject, position)
        length = call.call(len, subject)
        if position > self.star:
            return access.item(subject, length + after)
        last = length + after + 1
        if isinstance(subject, list):
            return access.item(subject, slice(position, last))
        return [access.item(subject, index) for index in range(position, last)]


class Mapping(_Parts):
    """``{"key": a, **rest}``."""

    def __init__(self, keys: tuple[Any, ...], rest: str | None, *patterns: Pattern) -> None:
        super().__init__(patterns)
        self.keys, self.rest = keys, rest
        self.names = (*self.names, *(() if rest is None else (rest,)))
        self._given: dict[int, tuple[Any, Any, dict[Any, Any]]] = {}
        """What the ``get`` of the user's mappings has given, by their identity, with the block that asked."""

    def structure(self, subject: Any) -> Any:
        if is_dict(subject):
            raise errors.CaptureError(
                "a pattern asks for keys of a dict of which only the program knows the keys",
                need().here(),
                fix="ask for them in an if statement: if 3 in table",
            )
        if not isinstance(subject, collections.abc.Mapping):
            return False
        if not _is_of_user(subject):
            return _all([functools.partial(comparisons.in_, key, subject) for key in self.keys])
        given: dict[Any, Any] = {}
        self._given[id(subject)] = subject, need().builder, given
        enough = [lambda: calls.call(len, subject) >= len(self.keys)] if self.keys else []
        return _all([*enough, *(functools.partial(self._has, subject, key, given) for key in self.keys)])

    def _has(self, subject: Any, key: Any, given: dict[Any, Any]) -> Any:
        given[key] = _got(subject, key)
        return logical_not(comparisons.is_(given[key], _NOTHING))

    def part(self, subject: Any, position: int) -> Any:
        key = self.keys[position]
        if not _is_of_user(subject):
            return access.item(subject, key)
        _, block, given = self._given.get(id(subject), (None, None, {}))
        value = given[key] if key in given and need().builder.is_inside(block) else _got(subject, key)
        if not isinstance(value, TaggedUnion):
            return value
        left = {tag: option for tag, option in value.options.items() if option is not _NOTHING}
        return next(iter(left.values())) if len(left) == 1 else TaggedUnion(value.session, value.tag, left)

    def bind(self, subject: Any, values: Found) -> None:
        super().bind(subject, values)
        if self.rest is not None:
            values[self.rest] = rest = calls.call(dict, subject)
            for key in self.keys:
                access.del_item(rest, key)


_NOTHING = object()
"""What a mapping gives for a key that it does not have."""


def _is_of_user(subject: Any) -> bool:
    """Tell whether what a mapping answers is told by methods in Python."""
    names = ("get", "__len__", "__getitem__", "__contains__", "__iter__", "keys")
    return any(isinstance(getattr(type(subject), name, None), types.FunctionType) for name in names)


def _answers_itself(pattern: Pattern, subject: Any) -> bool:
    """Tell whether a pattern asks the methods of a mapping, which find out what is in it."""
    return isinstance(pattern, Mapping) and isinstance(subject, collections.abc.Mapping) and _is_of_user(subject)


def _got(subject: Any, key: Any) -> Any:
    return calls.call(attributes.attr(subject, "get"), key, _NOTHING)


class Class(_Parts):
    """``Point(a, y=b)``."""

    def __init__(self, kind: Any, count: int, keywords: tuple[str, ...], *patterns: Pattern) -> None:
        super().__init__(patterns)
        self.kind, self.count, self.keywords = kind, count, keywords

    def structure(self, subject: Any) -> Any:
        if not isinstance(self.kind, type):
            raise TypeError("called match pattern must be a class")
        if not call.call(isinstance, subject, self.kind):
            return False
        attributes = [name for name in self._attributes() if name is not None]
        return all(call.call(hasattr, subject, name) for name in attributes)

    def _attributes(self) -> list[str | None]:
        """Return the attribute for each pattern; ``None`` for the subject itself."""
        known = self._positional()
        if len(known) < self.count:
            patterns = f"{len(known)} positional sub-pattern{'' if len(known) == 1 else 's'} ({self.count} given)"
            raise TypeError(f"{self.kind.__name__}() accepts {patterns}")
        results = [*known[: self.count], *self.keywords]
        twice = next((name for position, name in enumerate(results) if name in results[:position]), None)
        if twice is not None:
            raise TypeError(f"{self.kind.__name__}() got multiple sub-patterns for attribute {twice!r}")
        return results

    def _positional(self) -> tuple[str | None, ...]:
        if hasattr(self.kind, "__match_args__"):
            return self.kind.__match_args__  # type: ignore[no-any-return]
        return (None,) if issubclass(self.kind, _SELF_MATCHING) else ()

    def part(self, subject: Any, position: int) -> Any:
        name = self._attributes()[position]
        return subject if name is None else attributes.attr(subject, name)


def _all(tests: list[Callable[[], Any]]) -> Any:
    """Tell whether all tests hold; none is made after one that fails."""
    return _fold(tests, decided=False)


def _any(tests: list[Callable[[], Any]]) -> Any:
    """Tell whether one test holds; none is made after it."""
    return _fold(tests, decided=True)


def _fold(tests: list[Callable[[], Any]], decided: bool) -> Any:
    if not tests:
        return not decided
    first, *rest = tests
    value = condition(first())
    if not is_symbolic(value):
        return decided if bool(value) is decided else _fold(rest, decided)
    if not rest:
        return truth_value(value)
    others = lambda: truth_value(_fold(rest, decided))  # noqa: E731
    known = lambda: decided  # noqa: E731
    return capture_if_exp(value, *((known, others) if decided else (others, known)))
