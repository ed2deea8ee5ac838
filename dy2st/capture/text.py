"""Strings that contain values known only at run time: put together when the program prints or raises them."""

from __future__ import annotations

import functools
import itertools
import operator
import re
import string
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dy2st import errors
from dy2st.capture.session import Session, current, need
from dy2st.capture.values import (
    SYMBOLIC_NUMBERS,
    Choice,
    RuntimeList,
    RuntimeString,
    Text,
    choice_in,
    is_symbolic,
    options_of,
    with_option,
)
from dy2st_runtime import control, scalars, text

_FINAL = (*SYMBOLIC_NUMBERS, RuntimeString, fx.Node)
"""What does not change in place."""
_MADE_AT_RUNTIME = (Text, Choice, RuntimeString, RuntimeList, fx.Node)


def has_runtime_parts(session: Session, value: Any) -> bool:
    """Whether the text of a value is known only at run time."""
    waiting, seen = [value], set[int]()
    while waiting:
        part = waiting.pop()
        if is_symbolic(part) or isinstance(part, _MADE_AT_RUNTIME) or session.lists.of(part) is not None:
            return True
        if id(part) not in seen:  # it may hold itself
            inside = _shown_parts(part)
            seen.update([id(part)] if inside else ())
            waiting += inside
    return False


def _shown_parts(value: Any) -> list[Any]:
    """What the text of a value shows."""
    if isinstance(value, BaseException):
        return list(value.args) if type(value).__str__ in _STR_OF_ERRORS else []
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, (list, tuple)) else []


_STR_OF_ERRORS = (BaseException.__str__, KeyError.__str__)
"""How exceptions show their arguments, where the user has written nothing else."""


def _of_error(error: BaseException, conversion: str | None) -> list[Any]:
    """The parts of the text of an exception, made of its arguments."""
    if conversion in ("r", "a"):
        shown = [part for arg in error.args for part in (", ", (arg, conversion, ""))]
        return [f"{type(error).__name__}(", *shown[1:], ")"]
    if len(error.args) == 1:
        return [(error.args[0], "r" if isinstance(error, KeyError) else "s", "")]
    return [(error.args, "s", "")]


def fstring(*parts: Any) -> Any:
    """An f-string; each part is text, or ``(value, conversion or None, format specification)``."""
    session = current()
    runtime = session is not None and any(
        has_runtime_parts(session, p if isinstance(p, Text) else (p[0], p[2])) for p in parts if not isinstance(p, str)
    )
    if not runtime:
        return text.join_parts(parts)
    assert session is not None
    return put_together(session, parts)


def put_together(session: Session, parts: Sequence[Any]) -> Any:
    """The text of some parts: a choice of texts, where few choices of constants are all that is known only at run time."""
    chosen = _of_options(session, parts)
    return made(session, parts) if chosen is None else chosen


_MOST_TEXTS = 8
"""Of how many constants a text may be one; of more it is one that the program makes."""


def _of_options(session: Session, parts: Sequence[Any]) -> Any:
    """The text of choices of constants, next to nothing else that is known only at run time: a choice of texts."""
    values = [(part, None, "") if isinstance(part, str) else part for part in parts]
    known = all(isinstance(part[2], str) and all(map(_is_constant, options_of(part[0]))) for part in values)
    chosen = [part for part in values if isinstance(part[0], Choice)]
    count = functools.reduce(lambda ways, part: ways * len(options_of(part[0])), chosen, 1)
    if not known or not chosen or count > _MOST_TEXTS:
        return None
    try:
        return _joined_options(session, values)
    except (TypeError, ValueError):  # one that cannot be formatted raises in its branch
        return None


def _joined_options(session: Session, values: Sequence[Any]) -> Any:
    first = next(index for index, part in enumerate(values) if isinstance(part[0], Choice))
    choice, *shape = values[first]

    def with_option(option: Any) -> Any:
        return [*values[:first], (option, *shape), *values[first + 1 :]]

    if any(isinstance(part[0], Choice) for part in values[first + 1 :]):
        return session.over(choice, lambda option: _joined_options(session, with_option(option)))
    return Choice(session, choice.tag, {tag: text.join_parts(with_option(option)) for tag, option in choice.options.items()})


def _is_constant(value: Any) -> bool:
    return isinstance(value, (str, int, float, bytes, type(None))) and type(value).__module__ == "builtins"


def made(session: Session, parts: Sequence[Any]) -> Text:
    """A text of parts as they are now: what may change in place afterwards is put into words at once."""
    flat = _flat(session, parts)
    if all(isinstance(part, str) or isinstance(part[0], _FINAL) for part in flat):
        return Text(flat)
    string = RuntimeString()
    session.builder.call(control.format_, (flat,), {}, string)
    return Text(((string, None, ""),))


_PRINTF = re.compile(r"%(?:\((?P<key>[^)]*)\))?(?P<rest>[#0\- +]*[\d*]*(?:\.[\d*]*)?[hlL]?[diouxXeEfFgGcrsa%])")


def percent(session: Session, template: str, values: Any) -> Any:
    """``template % values``.

    Raises:
        CaptureError: the width of a field is among the values.
    """
    if not has_runtime_parts(session, values):
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
        value = next(given, _NOTHING) if key is None else values[key]
        if value is _NOTHING:
            raise TypeError("not enough arguments for format string")
        parts.append((value, "%", f"%{rest}"))
    if next(given, _NOTHING) is not _NOTHING and not isinstance(values, dict):
        raise TypeError("not all arguments converted during string formatting")
    return put_together(session, [*parts, template[end:]])


_NOTHING = object()


def formatted(session: Session, template: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``template.format(*args, **kwargs)``."""
    if not has_runtime_parts(session, (*args, *kwargs.values())):
        return template.format(*args, **kwargs)
    return put_together(session, _fields(template, args, kwargs, itertools.count()))


def _fields(template: str, args: Sequence[Any], kwargs: dict[str, Any], position: Iterator[int]) -> list[Any]:
    """The parts of a format string; a specification may have fields of its own."""
    formatter = string.Formatter()
    parts: list[Any] = []
    for literal, field, specification, conversion in formatter.parse(template):
        parts.append(literal)
        if field is None:
            continue
        name = f"{next(position)}{field}" if not field or field[0] in ".[" else field
        value = formatter.get_field(name, args, kwargs)[0]
        nested = specification is not None and "{" in specification
        spec = Text(tuple(_fields(specification or "", args, kwargs, position))) if nested else specification or ""
        parts.append((value, conversion, spec))
    return parts


def connected(separator: str, items: list[Any]) -> Any:
    """``separator.join(items)``."""
    session = need()
    known = session.lists.of(items)
    if known is not None:
        string = RuntimeString()
        session.builder.call(control.list_join, (known, separator), {}, string)
        return Text.of(string)
    texts = (str, Text, Choice, RuntimeString)
    if all(isinstance(item, str) for item in items) or not all(isinstance(item, texts) for item in items):
        return separator.join(items)
    parts: list[Any] = []
    for index, item in enumerate(items):
        parts += [separator] * (index > 0) + [item if isinstance(item, str) else (item, None, "")]
    return put_together(session, parts)


def joined(session: Session, values: Sequence[Any], separator: str) -> tuple[Any, ...]:
    """The parts of ``separator.join(map(str, values))``, as arguments of a node."""
    parts: list[Any] = []
    for index, value in enumerate(values):
        if index and separator:
            parts.append(separator)
        parts.append((value, "s", ""))
    return _flat(session, parts)


def value(session: Session, given: Any) -> Any:
    """A value as an argument of a node: a text becomes the string that an operation makes."""
    if isinstance(given, Text):
        return session.builder.call_raw(control.format_, (session.builder.argument(_flat(session, given.parts)),))
    if type(given) in (tuple, list) and session.lists.of(given) is None:
        return type(given)(value(session, item) for item in given)
    return session.lists.of(given) or sized(session, given)


def made_string(session: Session, given: Text) -> RuntimeString:
    """The string of the program that a text is."""
    known = given.string
    if known is not None:
        return known
    made = RuntimeString()
    session.builder.bind(made, value(session, given))
    return made


def compared(session: Session, operation: Any, left: Any, right: Any) -> Any:
    """Whether a string known only at run time is another, or is not."""
    sides = tuple(made_string(session, side) if isinstance(side, Text) else side for side in (left, right))
    return session.number(operation, sides, "bool")


def _equal(left: Text, right: Any) -> Any:
    return compared(need(), operator.eq, left, right) if isinstance(right, (str, Text)) else NotImplemented


def _not_equal(left: Text, right: Any) -> Any:
    return compared(need(), operator.ne, left, right) if isinstance(right, (str, Text)) else NotImplemented


Text.__eq__, Text.__ne__ = _equal, _not_equal  # type: ignore[method-assign,assignment]  # operations of the program


def sized(session: Session, given: Any) -> Any:
    """A ``torch.Size`` as the operation that makes it, which in a node would be a tuple; everything else as it is."""
    if isinstance(given, torch.Size):
        return session.builder.call_raw(scalars.size_of, tuple(session.builder.argument(size) for size in given))
    return given


def _flat(session: Session, parts: Sequence[Any]) -> tuple[Any, ...]:
    """Texts inside texts spliced in, Python values turned into text, neighbouring strings joined."""
    flat: list[Any] = []
    for part in parts:
        if isinstance(part, str):
            _add(flat, part)
            continue
        inner, conversion, specification = part
        if isinstance(inner, BaseException) and has_runtime_parts(session, inner) and specification == "":
            for piece in _flat(session, _of_error(inner, conversion)):
                _add(flat, piece)
            continue
        choice = choice_in(inner)
        if choice is not None:
            inner = _chosen(session, choice, inner, conversion, specification)
            conversion, specification = None, ""
        if isinstance(inner, Text) and conversion in (None, "s") and specification == "":
            for piece in _flat(session, inner.parts):
                _add(flat, piece)
        elif has_runtime_parts(session, inner) or not isinstance(specification, str):
            spec = specification if isinstance(specification, str) else _flat(session, _parts(specification))
            flat.append((value(session, inner), conversion, spec))
        else:
            _add(flat, text.join_parts([(inner, conversion, specification)]))
    return tuple(flat)


def _parts(specification: Text | tuple[Any, ...]) -> tuple[Any, ...]:
    """The parts of a format specification that is made at run time; a tuple has been taken apart already."""
    return specification.parts if isinstance(specification, Text) else specification


def _chosen(session: Session, choice: Choice, value: Any, conversion: str | None, specification: Any) -> Any:
    """The text of a value that is one of several, or has one in it, made in the branch of each."""
    return session.over(choice, lambda option: _string(session, with_option(value, choice, option), conversion, specification))


def _string(session: Session, option: Any, conversion: str | None, specification: Any) -> RuntimeString:
    string = RuntimeString()
    session.builder.call(control.format_, (_flat(session, [(option, conversion, specification)]),), {}, string)
    return string


def _add(flat: list[Any], piece: Any) -> None:
    if isinstance(piece, str) and flat and isinstance(flat[-1], str):
        flat[-1] += piece
    elif piece != "":
        flat.append(piece)


__all__ = ["Text", "fstring", "has_runtime_parts", "joined", "sized", "value"]
