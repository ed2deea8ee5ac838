"""A program that fails, with everything removed that it does not need to fail."""

from __future__ import annotations

import ast
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Program = TypeVar("Program", bound=Any)
"""A dataclass with the text of a module as ``source``."""


def reduced(program: Program, fails: Callable[[Program], bool], seconds: float = 60.0) -> Program:
    """The smallest program found in some seconds for which ``fails`` still holds."""
    end = time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        position = len(list(_edits(ast.parse(program.source)))) - 1
        while position >= 0 and time.monotonic() < end:
            smaller = _smaller(program, position)
            if smaller is not None and fails(smaller):
                program, changed = smaller, True
                position = min(position, len(list(_edits(ast.parse(program.source)))))
            position -= 1
    return program


def _smaller(program: Program, position: int) -> Program | None:
    """The program after one edit, if that makes it smaller."""
    tree = ast.parse(program.source)
    list(_edits(tree))[position]()
    try:
        text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        compile(text, "<program>", "exec")
    except (SyntaxError, ValueError):
        return None
    return dataclasses.replace(program, source=text) if len(text) < len(program.source) else None


def _edits(tree: ast.AST) -> Iterator[Callable[[], None]]:
    """What can be done to a tree: each makes it smaller. Later ones are larger steps."""
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                yield from _simpler(node, field, value)
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                for index, item in enumerate(value):
                    yield from _simpler(value, index, item)
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody", "cases"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                yield from _statements(body, field)


def _simpler(owner: object, key: object, value: ast.expr) -> Iterator[Callable[[], None]]:
    """An expression becomes one of its parts."""

    def put(part: ast.expr) -> Callable[[], None]:
        def edit() -> None:
            if isinstance(owner, list):
                owner[key] = part  # type: ignore[call-overload]
            else:
                setattr(owner, key, part)  # type: ignore[arg-type]

        return edit

    for part in ast.iter_child_nodes(value):
        if isinstance(part, ast.expr):
            yield put(part)
    if isinstance(value, ast.Tuple) and len(value.elts) > 1:
        for index in range(len(value.elts)):

            def drop(elements: list[ast.expr] = value.elts, index: int = index) -> None:
                del elements[index]

            yield drop


def _statements(body: list[ast.stmt], field: str) -> Iterator[Callable[[], None]]:
    """Statements are left out, one or several at a time, or come out of the statement that they are in."""
    for index, statement in enumerate(body):
        inner = getattr(statement, "body", None)
        if isinstance(inner, list) and not isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.match_case)):

            def unwrap(index: int = index, inner: list[ast.stmt] = inner) -> None:
                body[index : index + 1] = inner

            yield unwrap
        if len(body) > 1 or field in ("orelse", "finalbody"):

            def delete(index: int = index) -> None:
                del body[index]

            yield delete
    for size in (2, 4, len(body) // 4, len(body) // 2):
        for start in range(0, len(body) - size + 1, max(size, 1)) if size > 1 else ():

            def delete_some(start: int = start, size: int = size) -> None:
                del body[start : start + size]
                if not body:
                    body.append(ast.Pass())

            yield delete_some
