"""Which tests run which statements of the capture.

A statement is told by its function and its line in it, so that what is known outlives changes of other functions.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import hashlib
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_HITS = "_statements_that_ran"

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclasses.dataclass
class Run:
    """One test.

    Attributes:
        seconds: how long it took.
        statements: what it ran.
    """

    seconds: float
    statements: set[str]


def scopes(tree: ast.Module) -> Iterator[tuple[str, Scope]]:
    """All functions and classes of a module with their qualified names, outer ones first."""
    todo: list[tuple[str, ast.AST]] = [("", tree)]
    for name, owner in todo:
        for child in ast.iter_child_nodes(owner):
            if isinstance(child, Scope):
                inner = f"{name}.{child.name}".lstrip(".")
                yield inner, child
                todo.append((inner, child))
            else:
                todo.append((name, child))


def statement(file: str, scope: str, line: int) -> str:
    """What a statement is called.

    Args:
        file: the module's path.
        scope: the function's qualified name.
        line: its line, from the function's first.
    """
    return f"{file}:{scope}:{line}"


def instrumented(tree: ast.Module, file: str) -> ast.Module:
    """A module whose functions note which statements they run."""
    functions = [(name, scope) for name, scope in scopes(tree) if not isinstance(scope, ast.ClassDef)]
    for name, function in reversed(functions):  # inner ones first: a statement belongs to its innermost function
        for owner in [function, *_inside(function)]:
            for field in ("body", "orelse", "finalbody"):
                if isinstance(block := getattr(owner, field, None), list):
                    setattr(owner, field, _noting(block, file, name, function))
    return tree


def _inside(function: ast.AST) -> Iterator[ast.AST]:
    """What is in a function, without what is in scopes in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, Scope):
            yield child
            yield from _inside(child)


def _noting(block: list[ast.stmt], file: str, name: str, function: Scope) -> list[ast.stmt]:
    noted: list[ast.stmt] = []
    for each in block:
        note = ast.parse(f"{_HITS}.add({statement(file, name, each.lineno - function.lineno)!r})").body[0]
        for node in ast.walk(note):
            ast.copy_location(node, each)
        noted += [note, each]
    return noted


class Recorder:
    """A plugin of pytest: notes what each test that passes has run, and how long it took.

    Args:
        seconds: of the processor, after which to stop; which tests have run by then is left to chance.
    """

    def __init__(self, seconds: float) -> None:
        self.runs: dict[str, Run] = {}
        self._end = time.process_time() + seconds
        self._hits: set[str] = set()
        self._before: set[str] | None = None
        """What ran before the first test: with the imports, for all of them."""
        setattr(builtins, _HITS, self._hits)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        random.Random(0).shuffle(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if time.process_time() > self._end:
            item.session.shouldstop = "there is no time for more"
        if self._before is None:
            self._before = set(self._hits)
        self._hits.clear()
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.runs[report.nodeid] = Run(report.duration, self._hits | (self._before or set()))


@dataclasses.dataclass
class Known:
    """What is known about the tests of a file.

    Attributes:
        tests: how long each took.
        statements: the numbers of the tests that run a statement.
    """

    tests: dict[str, float]
    statements: dict[str, list[int]]

    @classmethod
    def of(cls, runs: dict[str, Run]) -> Known:
        """What is known once the tests have run."""
        statements: dict[str, list[int]] = {}
        for number, run in enumerate(runs.values()):
            for each in run.statements:
                statements.setdefault(each, []).append(number)
        return cls({name: run.seconds for name, run in runs.items()}, statements)


class Map:
    """What is known about test files, kept in a folder until they change."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder, self._root = folder, root
        self._known: dict[str, Known] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def __getitem__(self, file: str) -> Known | None:
        if file not in self._known and self._path(file).exists():
            self._known[file] = Known(**json.loads(self._path(file).read_text()))
        return self._known.get(file)

    def __setitem__(self, file: str, known: Known) -> None:
        self._path(file).write_text(json.dumps(dataclasses.asdict(known)))

    def _path(self, file: str) -> Path:
        text = (self._root / file).read_bytes()
        return self._folder / f"{file.replace('/', '.')}-{hashlib.sha256(text).hexdigest()[:12]}.json"
