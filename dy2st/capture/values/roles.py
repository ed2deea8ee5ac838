"""What the modules of this package do for the user's code: they say so themselves, in constants that are read from their frames.

A module without a mark is what its package is.
"""

from __future__ import annotations

import enum
import sys


class Role(enum.Enum):
    """A mark, by the name of the constant."""

    ACTS = "ACTS_FOR_USER"
    """It does what the user's code says (index, call, compare, iterate …), and does not only keep the books: what it raises
    is what the user's code raises."""
    MAKES_TEXTS = "MAKES_TEXTS_FOR_USER"
    """It asks values for texts that the user's code asks for."""
    CALLS_METHODS = "CALLS_METHODS_FOR_USER"
    """It applies special methods of the user's classes where the user's code does."""
    RUNS_STATIC_FUNCTIONS = "RUNS_STATIC_FUNCTIONS"
    """It is called by the user, and runs a program."""


def has(module: str, role: Role) -> bool:
    """Tell whether a module has a mark.

    Args:
        module: its name.
        role: the mark.
    """
    while module:
        marked = getattr(sys.modules.get(module), role.value, None)
        if marked is not None:
            return bool(marked)
        module = module.rpartition(".")[0]
    return False
