"""From a code object to the node of the file that it was compiled from.

A file is parsed once (per content); a function is found by its first line and name, several lambdas on one line by the
columns that their bytecode records, or by compiling the candidates where Python records none. A function that a rewritten one
defines is looked up in the text that its definer was found in.
"""

from __future__ import annotations

import ast
import dataclasses
import dis
import functools
import linecache
import os
import re
import time
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from dy2st.errors import SourceNotFoundError

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_STARTED = time.time()
_GLOBAL = re.compile(r"(?:^|[:;])\s*global\b", re.MULTILINE)
"""Where a statement may begin with that word."""
_SCAFFOLD = frozenset({"RESUME", "MAKE_CELL", "COPY_FREE_VARS", "NOP"})


@dataclass(frozen=True)
class Located:
    """A function's node (positions count from the start of its file) and the class that lexically encloses it.

    Attributes:
        node: the function.
        class_name: of the class.
        shared: the globals that functions of its file assign or delete.
    """

    node: FunctionNode
    class_name: str | None
    shared: frozenset[str] = frozenset()


_texts: dict[int, tuple[weakref.ref[types.CodeType], str]] = {}
"""For code that was compiled from a rewritten tree, by its identity, the text that this tree was parsed from."""


def locate(code: types.CodeType, module_globals: dict[str, Any] | None = None) -> Located:
    """Return the definition that `code` was compiled from; SourceNotFoundError when there is none, or more than one."""
    text = text_of(code, module_globals)
    try:
        tree = _tree(code.co_filename, text)
    except SyntaxError as error:
        raise SourceNotFoundError(code, "the file no longer parses") from error
    results = [located for located in _walk(tree, None, code.co_firstlineno) if _may_be(located.node, code)]
    if not results:  # before Python 3.12 what stands in an f-string may claim another line than the statement around it has
        definitions = list(_walk(tree, None, None))
        results = [located for located in definitions if _may_be(located.node, code)] or _renamed(definitions, code, text)
    if len(results) > 1:
        results = _narrow(results, code)
    if not results:
        line = code.co_firstlineno
        edited = _is_recent(code.co_filename)
        raise SourceNotFoundError(code, f"line {line} of the file holds no such definition; was it edited?", edited)
    if len({ast.dump(located.node) for located in results}) > 1:
        raise SourceNotFoundError(code, "several look-alike functions share its line; put each on its own line")
    is_certain = _known_text(code) is not None or not _is_recent(code.co_filename)
    if not is_certain and not any(_same(code, compiled) for compiled in _compiled(code.co_filename, text)):
        raise SourceNotFoundError(code, "its file was edited after it was imported; restart, or reload the module", edited=True)
    return dataclasses.replace(results[0], shared=_declared(code.co_filename, text))


def compiled_from(code: types.CodeType, text: str) -> None:
    """Note that the functions which `code` defines come from this text, whatever their file holds later."""
    for inside in filter(_is_code, code.co_consts):
        key = id(inside)
        _texts[key] = weakref.ref(inside, lambda _, key=key, texts=_texts: texts.pop(key, None)), text  # type: ignore[misc]
        compiled_from(inside, text)


def _known_text(code: types.CodeType) -> str | None:
    result = _texts.get(id(code))
    return result[1] if result is not None and result[0]() is code else None


def source_line(filename: str, line: int) -> str:
    """Return one line of a file, empty when it is not there."""
    return linecache.getline(filename, line)


def text_of(code: types.CodeType, module_globals: dict[str, Any] | None) -> str:
    """Return the text of the file that `code` comes from."""
    known = _known_text(code)
    if known is not None:
        return known
    name = code.co_filename
    if name.startswith("<frozen"):  # it has been compiled with Python itself, from the file that its module names
        name = (module_globals or {}).get("__file__") or name
    linecache.checkcache(name)
    lines = linecache.getlines(name, module_globals)
    if not lines:
        raise SourceNotFoundError(code, "its text is in no file that Python can read")
    return "".join(lines)


@functools.lru_cache(maxsize=64)
def _tree(filename: str, text: str) -> ast.Module:
    try:
        return ast.parse(text, filename)
    except SystemError:  # Python 3.11 loses count where a garbage collection parses, too
        return ast.parse(text, filename)


@functools.lru_cache(maxsize=64)
def _declared(filename: str, text: str) -> frozenset[str]:
    """Return the names that stand in a ``global`` statement of a file."""
    if _GLOBAL.search(text) is None:  # most files speak of such names, and have no statement: to go through a tree takes long
        return frozenset()
    statements = (node for node in ast.walk(_tree(filename, text)) if isinstance(node, ast.Global))
    return frozenset(name for statement in statements for name in statement.names)


def _is_recent(filename: str) -> bool:
    """Tell whether a file has changed since this process started: what was compiled from it may have been another text."""
    try:
        return os.stat(filename).st_mtime > _STARTED
    except OSError:
        return False


@functools.lru_cache(maxsize=64)
def _compiled(filename: str, text: str) -> tuple[types.CodeType, ...]:
    """Return every code object in a file as it is now."""
    results = [compile(text, filename, "exec", dont_inherit=True)]
    for code in results:
        results += filter(_is_code, code.co_consts)
    return tuple(results)


def _walk(node: ast.AST, class_name: str | None, line: int | None) -> Iterator[Located]:
    """Give every function in a tree, or those in what covers a line: a file is long, and is asked once for each function in it."""
    if isinstance(node, _FUNCTIONS):
        yield Located(node, class_name)
    for field, value in ast.iter_fields(node):
        inside = node.name if isinstance(node, ast.ClassDef) and field in ("body", "type_params") else class_name
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and (line is None or not isinstance(child, ast.stmt) or _covers(child, line)):
                yield from _walk(child, inside, line)


def _covers(statement: ast.stmt, line: int) -> bool:
    decorators = getattr(statement, "decorator_list", None)
    first = decorators[0].lineno if decorators else statement.lineno
    return first <= line <= (statement.end_lineno or line)


def _may_be(node: FunctionNode, code: types.CodeType) -> bool:
    if _first_line(node) != code.co_firstlineno:
        return False
    return _argument_names(node) == code.co_varnames[: len(_argument_names(node))] and _name(node) == code.co_name


def _renamed(definitions: list[Located], code: types.CodeType, text: str) -> list[Located]:
    """Return the definitions that are those of a code object but for its name: torch 2.15 renames its decorators' functions."""
    places = [one for one in _compiled(code.co_filename, text) if one.co_firstlineno == code.co_firstlineno and _same(one, code)]
    return [located for located in definitions if any(_may_be(located.node, one) for one in places)]


def _first_line(node: FunctionNode) -> int:
    if not isinstance(node, ast.Lambda) and node.decorator_list:
        return node.decorator_list[0].lineno
    return node.lineno


def _name(node: FunctionNode) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _argument_names(node: FunctionNode) -> tuple[str, ...]:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return tuple(argument.arg for argument in every if not _is_private(argument.arg))


def _is_private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")


def _narrow(results: list[Located], code: types.CodeType) -> list[Located]:
    columns = _columns(code)
    if columns is None:
        return [located for located in results if _compiles_to(located.node, code)]
    first, last = columns
    spans = [(_span(located.node), located) for located in results]
    around = [(span, located) for span, located in spans if span[0] <= first and last <= span[1]]
    innermost = max((span[0] for span, _ in around), default=None)
    return [located for span, located in around if span[0] == innermost]


Position: TypeAlias = tuple[int, int]


def _columns(code: types.CodeType) -> tuple[Position, Position] | None:
    """First and last position that the instructions of `code` itself record; None before Python 3.11."""
    if not hasattr(code, "co_positions"):
        return None
    starts: list[Position] = []
    ends: list[Position] = []
    for instruction in dis.get_instructions(code):
        position: Any = getattr(instruction, "positions", None)
        if instruction.opname in _SCAFFOLD or position is None or position.col_offset is None:
            continue
        start = (position.lineno, position.col_offset)
        end = (position.end_lineno, position.end_col_offset)
        if start < end:  # Python 3.11 gives implicit instructions an empty place
            starts.append(start)
            ends.append(end)
    return (min(starts), max(ends)) if starts else None


def _span(node: FunctionNode) -> tuple[Position, Position]:
    first, last = (node.body, node.body) if isinstance(node, ast.Lambda) else (node.body[0], node.body[-1])
    end = (last.end_lineno or last.lineno, last.end_col_offset or last.col_offset)
    return (first.lineno, first.col_offset), end


def _compiles_to(node: FunctionNode, code: types.CodeType) -> bool:
    """Tell whether compiling `node` alone, under the free names of `code`, gives the same instructions."""
    if not isinstance(node, ast.Lambda):
        return True
    parameters = [ast.arg(arg=name) for name in code.co_freevars]
    no_arguments: dict[str, Any] = {"posonlyargs": [], "kwonlyargs": [], "kw_defaults": [], "defaults": []}
    around = ast.Lambda(args=ast.arguments(args=parameters, **no_arguments), body=node)
    module = ast.fix_missing_locations(ast.Expression(body=around))
    outer = next(const for const in compile(module, code.co_filename, "eval").co_consts if _is_code(const))
    compiled = [const for const in outer.co_consts if _is_code(const)]
    return any(_same(candidate, code) for candidate in compiled)


def _is_code(value: object) -> bool:
    return isinstance(value, types.CodeType)


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    return _fingerprint(one) == _fingerprint(other)


def _fingerprint(code: types.CodeType) -> tuple[object, ...]:
    """Return what code does, whatever it is called: before Python 3.11 constants hold qualified names."""
    constants = [const for const in code.co_consts if "<lambda>" not in str(const) or _is_code(const)]
    inside = tuple(_fingerprint(const) if isinstance(const, types.CodeType) else repr(const) for const in constants)
    return code.co_code, code.co_names, code.co_varnames, inside
