"""The variables that code objects name and that are not their own."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator

_SHIFTS = {dis.opmap["LOAD_GLOBAL"]: 1 if sys.version_info >= (3, 11) else 0, dis.opmap["LOAD_NAME"]: 0}
"""Of the instructions that look up a global how many bits of the argument say something else than which name."""
_GLOBAL_WRITES = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL"))
_FREE_WRITES = frozenset({"STORE_DEREF", "DELETE_DEREF"})


def global_names(code: types.CodeType) -> Iterator[str]:
    """Yield the names that a code object, or one inside it, looks up among globals and builtins, in order."""
    higher = 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2]):
        if operation == dis.EXTENDED_ARG:
            higher = (higher | argument) << 8
            continue
        shift = _SHIFTS.get(operation)
        if shift is not None:
            yield code.co_names[(higher | argument) >> shift]
        higher = 0
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from global_names(const)


def written_globals(code: types.CodeType) -> Iterator[str]:
    """Yield the globals that a code object, or one inside it, writes."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBAL_WRITES:
            yield instruction.argval
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from written_globals(const)


def written_free(code: types.CodeType) -> Iterator[str]:
    """Yield the variables of enclosing functions that a code object, or one inside it, writes."""
    if not code.co_freevars:
        return
    for instruction in dis.get_instructions(code):
        if instruction.opname in _FREE_WRITES and instruction.argval in code.co_freevars:
            yield instruction.argval
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from (name for name in written_free(const) if name in code.co_freevars)
