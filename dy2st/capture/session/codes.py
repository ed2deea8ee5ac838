"""The code of the functions that one capture has entered: which function made which."""

from __future__ import annotations

import types

ACTS_FOR_USER = False


class Codes:
    """The code of the functions that have been called in one capture."""

    def __init__(self) -> None:
        self._roots: dict[int, types.CodeType] = {}

    def enter(self, function: types.FunctionType) -> None:
        """Note that a converted function is called."""
        self._roots[id(function.__code__)] = function.__code__

    def around(self, function: types.FunctionType) -> list[types.CodeType]:
        """Return the code around the definition of a function that has been made in one of these, outside first.

        Nothing for others.
        """
        for root in self._roots.values():
            result = _way(root, function.__code__)
            if result:
                return result
        return []


def _way(code: types.CodeType, wanted: types.CodeType) -> list[types.CodeType]:
    for const in code.co_consts:
        if const is wanted:
            return [code]
        if isinstance(const, types.CodeType):
            result = _way(const, wanted)
            if result:
                return [code, *result]
    return []
