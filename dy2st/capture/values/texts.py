"""Texts made of symbolic parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from dy2st.capture.values.abstract_objects import Represents
from dy2st.errors import CaptureError


class Text(Represents, example="", is_named=False):
    """A string whose text is known only at run time: the parts that ``join_parts`` puts together.

    It is no dataclass: what is one is a container of its fields.
    """

    __slots__ = ("__weakref__", "parts")

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts

    @classmethod
    def of(cls, string: RuntimeString) -> Text:
        """Return the text that an operation of the program makes."""
        return cls(((string, None, ""),))

    @property
    def string(self) -> RuntimeString | None:
        """The string of the program that it is, if it is nothing more."""
        match self.parts:
            case ((RuntimeString() as string, None | "s", ""),):
                return string
        return None

    def as_runtime_string(self) -> RuntimeString:
        """Return the string of the program that it is, put together where that is recorded now."""
        raise NotImplementedError  # see texts.text

    def __add__(self, other: Any) -> Any:
        return Text((*self.parts, *_text_parts(other))) if isinstance(other, (str, Text)) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Text((other, *self.parts)) if isinstance(other, str) else NotImplemented

    def __repr__(self) -> str:
        return "f" + repr("".join(part if isinstance(part, str) else "{...}" for part in self.parts))

    def __iter__(self) -> Iterator[Any]:
        raise CaptureError(
            "code that was not converted goes through the characters of a string known only at run time",
            fix="go through them in a for loop, or with list(text)",
        )

    def __format__(self, specification: str) -> str:
        raise CaptureError(
            "a string with values known only at run time is formatted by code that was not converted",
            fix="use an f-string or str.format, and print or raise the text",
        )

    def _refuse(self, *args: Any) -> NoReturn:
        raise CaptureError(
            "a string known only at run time is looked up, or asked for its truth value, by code that was not converted",
            fix="compare it with == in an if statement of converted code",
        )

    __hash__ = __bool__ = _refuse


def _text_parts(value: str | Text) -> tuple[Any, ...]:
    return value.parts if isinstance(value, Text) else (value,)


class RuntimeString:
    """A string that an operation of the program makes."""
