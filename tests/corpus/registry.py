"""The registry of published code: each entry is a program of a package from PyPI, as its users call it."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


@dataclasses.dataclass
class Subject:
    """What is called.

    Attributes:
        function: a function or an ``nn.Module``.
        calls: the arguments of each call, by position or (a dict) by name; they take different ways through the code.
        roots: objects whose state is compared after each call.
    """

    function: Any
    calls: Sequence[tuple[Any, ...] | dict[str, Any]]
    roots: Sequence[Any] = ()


@dataclasses.dataclass
class Entry:
    """One program.

    Attributes:
        name: of the entry.
        module: the module that must be importable.
        make: makes the subject anew, the same each time.
        saves: whether the program is saved, loaded and compared too.
    """

    name: str
    module: str
    make: Callable[[], Subject]
    saves: bool

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return importlib.util.find_spec(self.module) is not None


ENTRIES: dict[str, Entry] = {}


def published(module: str, *, saves: bool = False) -> Callable[[Callable[[], Subject]], Callable[[], Subject]]:
    """Register what makes a subject under its name.

    Args:
        module: the module of the package.
        saves: whether the program is saved and loaded too.

    Returns:
        A decorator.
    """

    def register(make: Callable[[], Subject]) -> Callable[[], Subject]:
        named(make.__name__, module, make, saves=saves)
        return make

    return register


def named(name: str, module: str, make: Callable[[], Subject], *, saves: bool = False) -> None:
    """Register what makes a subject."""
    assert name not in ENTRIES, name
    ENTRIES[name] = Entry(name, module, make, saves)


def load() -> dict[str, Entry]:
    """Import all modules of entries, and give the entries by name."""
    for found in pkgutil.iter_modules([str(Path(__file__).parent / "entries")]):
        importlib.import_module(f"tests.corpus.entries.{found.name}")
    return ENTRIES
