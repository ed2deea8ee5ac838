"""Every identifier that generated code may use, and the namer that keeps them apart from the user's."""

from __future__ import annotations

import types
from collections.abc import Iterable

OPERATORS = "_dy2st"
"""The hidden closure cell that holds the operator namespace."""


class Operators(types.SimpleNamespace):
    """What that cell holds."""


FACTORY = "_dy2st_factory"
"""The function whose parameters become the closure cells of a converted function; it is never called."""

FUNCTION = "_dy2st_function"
"""What the converted function is called inside the factory; it gets its own name back after compilation."""

LAMBDA = "lambda_"
"""The name under which a converted lambda is printed."""

RESULT = "result"
RETURNED = "returned"

THEN = "then"
ELSE = "else"
TEST = "test"
BODY = "body"
ITEM = "item"
BREAK = "break"
CONTINUE = "continue"
VALUE = "value"
OBJECT = "object"
KEY = "key"
SETTER = "set"
ERROR = "error"
SUBJECT = "subject"
CASE = "case"
BOUND = "bound"
FINAL = "final"
TRY = "try"
EXCEPT = "except"
WITH = "with"
ENTERED = "entered"
LEFT = "left"
PENDING = "pending"


class Namer:
    """Hands out identifiers that occur nowhere in the function being converted."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def fresh(self, base: str) -> str:
        """Return `base` itself if nobody uses it, else `base_1`, `base_2`, ..."""
        if base not in self._taken:
            self._taken.add(base)
            return base
        return self.numbered(base)[0]

    def numbered(self, *bases: str) -> tuple[str, ...]:
        """Return `base_n` for each base, under the first number that is free for all of them."""
        number = 1
        while not self._taken.isdisjoint(f"{base}_{number}" for base in bases):
            number += 1
        names = tuple(f"{base}_{number}" for base in bases)
        self._taken.update(names)
        return names
