"""Modules that change between the calls of a function of theirs: eager and static have to agree after each change."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
from pathlib import Path
from typing import Any

import torch

import dy2st

_START = "import abc, dataclasses, decimal, enum, functools, sys, threading, types\nimport numpy as np\nimport torch\n"


class Source:
    """Text that becomes a file of its own, so that the code in it has lines."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0

    def run(self, text: str, space: dict[str, Any]) -> None:
        """Execute some statements."""
        self._count += 1
        file = self._folder / f"step_{self._count}.py"
        file.write_text(text)
        exec(compile(text, str(file), "exec"), space)


def agree(folder: Path, text: str, *changes: str) -> None:
    """Check that ``f(torch.ones(2))`` of a module is the same in eager and static, at first and after each change, two times.

    Args:
        folder: for files.
        text: the module; ``arguments`` in it may be a function that makes the arguments.
        changes: statements that run in the module.
    """
    eager, static = (_results(folder / name, text, changes, wrap) for name, wrap in (("a", _as_it_is), ("b", dy2st.to_static)))
    assert static == eager


def _as_it_is(function: Any) -> Any:
    return function


def _results(folder: Path, text: str, changes: tuple[str, ...], wrap: Any) -> list[Any]:
    folder.mkdir()
    file = folder / "changing.py"
    file.write_text(_START + text)
    spec = importlib.util.spec_from_file_location("changing", file)
    assert spec is not None and spec.loader is not None
    module = sys.modules["changing"] = importlib.util.module_from_spec(spec)
    source = Source(folder)
    try:
        spec.loader.exec_module(module)
        function = wrap(module.f)
        results = [_outcome(module, function)]
        for change in changes:
            source.run(change, vars(module))
            results += [_outcome(module, function), _outcome(module, function)]
        return results
    finally:
        del sys.modules["changing"]


def _outcome(module: Any, function: Any) -> Any:
    """Return what a call gives, or raises, and what it prints."""
    arguments = module.arguments() if hasattr(module, "arguments") else ()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = repr(function(torch.ones(2), *arguments))
        except ArithmeticError as error:
            result = repr(error)
    return result, printed.getvalue()
