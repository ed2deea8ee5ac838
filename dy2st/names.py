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

TAKE = "_dy2st_take"
"""What a generator function that gives its items to a loop calls with each."""

GIVEN = "given_"
"""What the names begin with that are made up in such a function: the loop's body may have those without."""

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
    """Hands out identifiers that occur nowhere in the function being converted.

    Args:
        taken: the identifiers in it.
        prefix: what all begin with.
    """

    def __init__(self, taken: Iterable[str], prefix: str = "") -> None:
        self._taken, self._prefix = set(taken), prefix

    def fresh(self, base: str) -> str:
        """Return `base` itself if nobody uses it, else `base_1`, `base_2`, ..."""
        if self._prefix:
            return self.numbered(base)[0]
        if base not in self._taken:
            self._taken.add(base)
            return base
        return self.numbered(base)[0]

    def numbered(self, *bases: str) -> tuple[str, ...]:
        """Return `base_n` for each base, under the first number that is free for all of them."""
        bases = tuple(self._prefix + base for base in bases)
        number = 1
        while not self._taken.isdisjoint(f"{base}_{number}" for base in bases):
            number += 1
        names = tuple(f"{base}_{number}" for base in bases)
        self._taken.update(names)
        return names
