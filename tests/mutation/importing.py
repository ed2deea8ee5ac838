"""Modules of the capture, changed while they are imported: their files stay as they are."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

PACKAGE = "dy2st.capture"
FOLDER = Path(__file__).parents[2] / "dy2st" / "capture"

Change = Callable[[ast.Module, str], ast.Module]
"""What makes another module of one, given with its path in the folder."""


def sources() -> list[str]:
    """The paths of all modules in the folder."""
    return sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.py"))


def parsed(file: str) -> ast.Module:
    """A module as it is written."""
    return ast.parse((FOLDER / file).read_text())


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, change: Change) -> None:
        super().__init__(name, path)
        self._change = change

    def get_code(self, fullname: str) -> CodeType:
        file = str(Path(self.path).relative_to(FOLDER))
        tree = ast.fix_missing_locations(self._change(parsed(file), file))
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, change: Change) -> None:
        self._change = change

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != PACKAGE and not name.startswith(f"{PACKAGE}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin, self._change)
        return spec


def install(change: Change) -> None:
    """Change the modules of the capture from now on.

    Raises:
        RuntimeError: some of them are imported already.
    """
    if PACKAGE in sys.modules:
        raise RuntimeError(f"{PACKAGE} is imported already")
    sys.meta_path.insert(0, _Finder(change))
