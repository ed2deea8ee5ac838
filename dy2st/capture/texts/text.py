"""Strings that contain values known only at run time: put together when the program prints or raises them."""

from __future__ import annotations

import functools
import itertools
import operator
import re
import string
from collections.abc import Iterator, Sequence
from typing import Any

from torch import fx

from dy2st import errors
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.texts.wording import flat, is_constant, node_value
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion, options_of
from dy2st.capture.values.texts import RuntimeString, Text
from dy2st_runtime.primitives import control, text

_FINAL = (*SYMBOLIC_NUMBERS, RuntimeString, fx.Node)
"""What does not change in place."""


def fstring(*parts: Any) -> Any:
    """Return an f-string; each part is text, or ``(value, conversion or None, format specification)``."""
    session = current()
    if session is None or all(isinstance(p, str) or (is_constant(p[0]) and isinstance(p[2], str)) for p in parts):
        return text.join_parts(parts)
    return put_together(session, parts)


def put_together(session: Session, parts: Sequence[Any]) -> Any:
    """Return the text of some parts.

    A string if all of it is known, a tagged union of strings where few unions of constants are not.
    """
    chosen = _of_options(session, parts)
    return create(session, parts) if chosen is None else chosen


_MOST_TEXTS = 8
"""Of how many constants a text may be one; of more it is one that the program makes."""


def _of_options(session: Session, parts: Sequence[Any]) -> Any:
    """Return the text of tagged unions of constants, next to nothing else that is known only at run time.

    A tagged union of texts.
    """
    values = [(part, None, "") if isinstance(part, str) else part for part in parts]
    known = all(isinstance(part[2], str) and all(map(is_constant, options_of(part[0]))) for part in values)
    chosen = [part for part in values if isinstance(part[0], TaggedUnion)]
    count = functools.reduce(lambda ways, part: ways * len(options_of(part[0])), chosen, 1)
    if not known or not chosen or count > _MOST_TEXTS:
        return None
    try:
        return _joined_options(session, values)
    except (TypeError, ValueError):  # one that cannot be formatted raises in its branch
        return None


def _joined_options(session: Session, values: Sequence[Any]) -> Any:
    first = next(index for index, part in enumerate(values) if isinstance(part[0], TaggedUnion))
    union, *shape = values[first]

    def with_option(option: Any) -> Any:
        return [*values[:first], (option, *shape), *values[first + 1 :]]

    if any(isinstance(part[0], TaggedUnion) for part in values[first + 1 :]):
        return session.over(union, lambda option: _joined_options(session, with_option(option)))
    return TaggedUnion(session, union.tag, {tag: text.join_parts(with_option(option)) for tag, option in union.options.items()})


def create(session: Session, parts: Sequence[Any]) -> str | Text:
    """Return a text of parts as they are now: what may change in place afterwards is put into words at once."""
    pieces = flat(session, parts)
    if all(isinstance(part, str) for part in pieces):
        return "".join(pieces)
    if all(isinstance(part, str) or isinstance(part[0], _FINAL) for part in pieces):
        return Text(pieces)
    string = RuntimeString()
    session.builder.call(control.format_, (pieces,), {}, string)
    return Text(((string, None, ""),))


_PRINTF = re.compile(r"%(?:\((?P<key>[^)]*)\))?(?P<rest>[#0\- +]*[\d*]*(?:\.[\d*]*)?[hlL]?[diouxXeEfFgGcrsa%])")


def percent(session: Session, template: str, values: Any) -> Any:
    """Return ``template % values``.

    Raises:
        CaptureError: the width of a field is among the values.
    """
    if all(map(is_constant, values if isinstance(values, tuple) else (values,))):
        return template % values
    given = iter(values if isinstance(values, tuple) else (values,))
    parts: list[Any] = []
    end = 0
    for field in _PRINTF.finditer(template):
        parts.append(template[end : field.start()])
        end = field.end()
        key, rest = field["key"], field["rest"]
        if "*" in rest:
            raise errors.CaptureError("a '%' format whose width is a value", session.here(), fix="use an f-string")
        if rest == "%":
            parts.append("%")
            continue
        value = next(given, _NOTHING) if key is None else session.call(operator.getitem, values, key)
        if value is _NOTHING:
            raise TypeError("not enough arguments for format string")
        parts.append((value, "%", f"%{rest}"))
    if next(given, _NOTHING) is not _NOTHING and not isinstance(values, dict):
        raise TypeError("not all arguments converted during string formatting")
    return put_together(session, [*parts, template[end:]])


_NOTHING = object()


def formatted(session: Session, template: str, args: Sequence[Any], kwargs: Any) -> Any:
    """Return ``template.format(*args, **kwargs)``; ``template.format_map(kwargs)`` without ``args``."""
    return put_together(session, _fields(template, args, kwargs, itertools.count()))


def _fields(template: str, args: Sequence[Any], kwargs: Any, position: Iterator[int]) -> list[Any]:
    """Return the parts of a format string; a specification may have fields of its own."""
    formatter = string.Formatter()
    parts: list[Any] = []
    for literal, field, specification, conversion in formatter.parse(template):
        parts.append(literal)
        if field is None:
            continue
        name = f"{next(position)}{field}" if not field or field[0] in ".[" else field
        value = _field(name, args, kwargs)
        nested = specification is not None and "{" in specification
        spec = Text(tuple(_fields(specification or "", args, kwargs, position))) if nested else specification or ""
        parts.append((value, conversion, spec))
    return parts


def _field(name: str, args: Sequence[Any], kwargs: Any) -> Any:
    """Return what a replacement field names: ``"0.loss[1]"``."""
    first, steps = string._string.formatter_field_name_split(name)  # type: ignore[attr-defined]  # as string.Formatter does
    if isinstance(first, int) and first >= len(args):
        raise IndexError(f"Replacement index {first} out of range for positional args tuple")
    result = args[first] if isinstance(first, int) else need().call(operator.getitem, kwargs, first)
    for is_attribute, step in steps:
        result = need().call(getattr if is_attribute else operator.getitem, result, step)
    return result


def connected(separator: str, items: list[Any]) -> Any:
    """Return ``separator.join(items)``."""
    session = need()
    known = session.lists.of(items)
    if known is not None:
        string = RuntimeString()
        session.builder.call(control.list_join, (known, separator), {}, string)
        return Text.of(string)
    texts = (str, Text, TaggedUnion, RuntimeString)
    if all(isinstance(item, str) for item in items) or not all(isinstance(item, texts) for item in items):
        return separator.join(items)
    parts: list[Any] = []
    for index, item in enumerate(items):
        parts += [separator] * (index > 0) + [item if isinstance(item, str) else (item, None, "")]
    return put_together(session, parts)


def joined(session: Session, values: Sequence[Any], separator: str) -> tuple[Any, ...]:
    """Return the parts of ``separator.join(map(str, values))``, as arguments of a node."""
    parts: list[Any] = []
    for index, value in enumerate(values):
        if index and separator:
            parts.append(separator)
        parts.append((value, "s", ""))
    return flat(session, parts)


def as_runtime_string(session: Session, given: Text) -> RuntimeString:
    """Return the string of the program that a text is."""
    known = given.string
    if known is not None:
        return known
    runtime_string = RuntimeString()
    session.builder.bind(runtime_string, node_value(session, given))
    return runtime_string


def compared(session: Session, operation: Any, left: Any, right: Any) -> Any:
    """Tell whether a string known only at run time is another, or is not."""
    sides = tuple(as_runtime_string(session, side) if isinstance(side, Text) else side for side in (left, right))
    return session.number(operation, sides, "bool")


def _equal(left: Text, right: Any) -> Any:
    return compared(need(), operator.eq, left, right) if isinstance(right, (str, Text)) else NotImplemented


def _not_equal(left: Text, right: Any) -> Any:
    return compared(need(), operator.ne, left, right) if isinstance(right, (str, Text)) else NotImplemented


Text.as_runtime_string = lambda self: as_runtime_string(need(), self)  # type: ignore[method-assign]
Text.__eq__, Text.__ne__ = _equal, _not_equal  # type: ignore[method-assign,assignment]  # operations of the program


__all__ = ["Text", "fstring", "joined"]
