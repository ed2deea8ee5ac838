"""Text that is put together while a program runs: the parts of a ``print``, an f-string or an exception's message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dy2st_runtime.arrays.calls import as_array

_CONVERSIONS: dict[str, Callable[[object], Any]] = {"r": repr, "s": str, "a": ascii, "f": lambda value: value}


def join_parts(parts: Sequence[Any]) -> str:
    """Join the parts of a text.

    Args:
        parts: strings, taken as they are, and triples ``(value, conversion, format_spec)``: the conversion is ``"r"``,
            ``"s"``, ``"a"``, ``None``, or ``"%"`` for a specification of the ``%`` operator; the specification is text or
            again a sequence of parts. After ``"array "`` or ``"scalar "`` it is of what NumPy makes of a tensor, and ``"f"`` is
            none there.

    Example:
        >>> join_parts(["x = ", (1.5, None, ".2f")])
        'x = 1.50'
    """
    return "".join(part if isinstance(part, str) else _format(*part) for part in parts)


_KINDS: dict[str, Callable[[Any], Any]] = {"array": as_array, "scalar": lambda tensor: as_array(tensor)[()]}
"""What a tensor is shown as: an array of NumPy, or one of its numbers."""


def _format(value: Any, conversion: str | None, specification: Any) -> str:
    if value is None and specification:
        return ""  # the text of another way than the one that was taken: no value is known, and nobody reads it
    if conversion == "%":
        return str(specification % (value,))
    if conversion is not None:
        *kind, conversion = conversion.split()
        value = _CONVERSIONS[conversion](_KINDS[kind[0]](value) if kind else value)
    return format(value, specification if isinstance(specification, str) else join_parts(specification))


def part(string: str, start: int | None, stop: int | None, step: int | None) -> str:
    """Return ``string[start:stop:step]``."""
    return string[start:stop:step]


def contains(string: str, other: str) -> bool:
    """Return ``other in string``."""
    return other in string


def to_int(string: str, base: int) -> int:
    """Return ``int(string, base)``."""
    return int(string, base)


def to_float(string: str) -> float:
    """Return ``float(string)``."""
    return float(string)


ANSWERS: dict[str, str] = {
    **dict.fromkeys(("startswith", "endswith", "isdigit", "isdecimal", "isnumeric", "isalpha", "isalnum", "isspace"), "bool"),
    **dict.fromkeys(("islower", "isupper", "istitle", "isidentifier", "isascii", "isprintable"), "bool"),
    **dict.fromkeys(("find", "rfind", "count"), "int"),
}
"""Methods of strings that tell something, and the type of the answer."""
_CHANGES = (
    "lower upper title capitalize casefold swapcase strip lstrip rstrip replace removeprefix removesuffix ljust rjust center zfill "
    "expandtabs"
)
CHANGES = tuple(_CHANGES.split())
"""Methods of strings that give another one."""

TARGETS: dict[str, Callable[..., Any]] = {
    "text.part": part,
    "text.contains": contains,
    "text.to_int": to_int,
    "text.to_float": to_float,
    "text.ord": ord,
    **{f"str.{name}": getattr(str, name) for name in (*ANSWERS, *CHANGES, "__len__")},
}
"""What a program may do with a string, by name; archives rely on the names."""
