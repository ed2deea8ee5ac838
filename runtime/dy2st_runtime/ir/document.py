"""JSON that may have been written by anybody: every value is asked for with its type, and a refusal names its place."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from dy2st_runtime.errors import LoadError


@dataclasses.dataclass(frozen=True)
class Json:
    """A value of a document and the way to it (``program.json: programs[0].name``)."""

    value: Any
    path: str

    def fail(self, expected: str) -> NoReturn:
        """Raise: this value is not what is expected here.

        Raises:
            LoadError: always.
        """
        seen = json.dumps(self.value)
        raise LoadError(f"{self.path} is {seen if len(seen) <= 60 else seen[:57] + '...'}, expected {expected}")

    def field(self, key: str) -> Json:
        """Return a field that an object must have."""
        result = self.optional(key)
        if result is None:
            raise LoadError(f"{self.path} has no field {key!r}")
        return result

    def some(self, key: str) -> Sequence[Json]:
        """Return the items of an array that an object may have."""
        result = self.optional(key)
        return () if result is None else result.array()

    def optional(self, key: str) -> Json | None:
        """Return a field that an object may have."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        return Json(self.value[key], f"{self.path}.{key}") if key in self.value else None

    def fields(self) -> dict[str, Json]:
        """Return all fields of an object."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        return {key: Json(value, f"{self.path}.{key}") for key, value in self.value.items()}

    def array(self, length: int | None = None) -> list[Json]:
        """Return the items of an array."""
        if not isinstance(self.value, list) or (length is not None and len(self.value) != length):
            self.fail("an array" if length is None else f"an array of {length} items")
        return [Json(item, f"{self.path}[{index}]") for index, item in enumerate(self.value)]

    def text(self, among: Collection[str] = ()) -> str:
        """Return a string; with ``among``, one of these."""
        if not isinstance(self.value, str):
            self.fail("a string")
        if "\0" in self.value:
            self.fail("a string without a null character")
        if among and self.value not in among:
            self.fail(f"one of {', '.join(among)}")
        return self.value

    def integer(self, least: int | None = None) -> int:
        """Return an integer."""
        if type(self.value) is not int or (least is not None and self.value < least):
            self.fail("an integer" if least is None else f"an integer of at least {least}")
        return self.value

    def boolean(self) -> bool:
        """Return ``true`` or ``false``."""
        if not isinstance(self.value, bool):
            self.fail("true or false")
        return self.value

    def identifier(self) -> str:
        """Return a string that is a Python identifier."""
        if not self.text().isidentifier():
            self.fail("an identifier")
        return self.text()


def parse(data: bytes, name: str) -> Json:
    """Read a document.

    Args:
        data: UTF-8 text.
        name: what messages call it.

    Raises:
        LoadError: it is not JSON, has a field twice, or has a number that JSON does not have.
    """
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{name} is not valid JSON: {error}") from None
    return Json(value, f"{name}:")


def dump(value: Any, indent: int | None = None) -> bytes:
    """Write a document; the same value gives the same bytes."""
    separators = (",", ":") if indent is None else None
    return json.dumps(value, allow_nan=False, separators=separators, indent=indent).encode("ascii")


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    results = dict(pairs)
    if len(results) != len(pairs):
        raise ValueError("an object has a field twice")
    return results


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value
