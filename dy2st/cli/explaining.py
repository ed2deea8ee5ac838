"""``dy2st explain``: a page that shows what becomes of a function."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import linecache
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from dy2st.cli import page
from dy2st.cli.output import clean, console
from dy2st.errors import CaptureError, ConversionError, Dy2stError, SignatureError
from dy2st.input_spec import InputSpec
from dy2st.saving.layers import static_of
from dy2st.static.conversion import convert_root
from dy2st.static.static_function import StaticFunction
from dy2st_runtime.ir.program import Program

_DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i8": torch.int8, "i16": torch.int16,
    "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool, "c64": torch.complex64,
}  # fmt: skip
_NUMBERS = {"int": int, "float": float, "bool": bool}
_TENSOR = re.compile(r"(\w+)\[(.*)\]")
_COMMENT = re.compile(r"  # ([^#]*):(\d+)$")


def explain(name: str, specs: Sequence[str], output: Path) -> None:
    """Write the page of a function.

    Args:
        name: where to import it from, ``package.module:function`` or ``package.module:Class.method``.
        specs: its arguments, as ``f32[n, 4]`` for tensors and as Python writes them for constants.
        output: the page.

    Raises:
        SignatureError: there is no such function, or a specification makes no sense.
    """
    result = [spec(text) for text in specs] or None
    layer = import_named(name)  # a static function does not keep it alive
    output.write_text(page.html(_explained(name, static_of(layer, result))), encoding="utf-8")
    console().print(clean(f"wrote {output}"), markup=False, soft_wrap=True)


def spec(text: str) -> Any:
    """Return an argument as it is written on the command line.

    Raises:
        SignatureError: it is neither a tensor nor a constant.

    Example:
        >>> spec("f32[n, 4]")
        InputSpec(shape=(None, 4), dtype=torch.float32, name=None)
    """
    match = _TENSOR.fullmatch(text.strip())
    if match is not None and match[1] in _DTYPES:
        sizes = [size.strip() for size in match[2].split(",") if size.strip()]
        return InputSpec([int(size) if size.isdecimal() else None for size in sizes], _DTYPES[match[1]])
    if text.strip() in _NUMBERS:
        return _NUMBERS[text.strip()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise SignatureError(f"{text} is neither a tensor, as f32[n, 4], nor a constant of Python") from None


def import_named(name: str) -> Any:
    """Return what a name on the command line is of; of a class of modules one that is made.

    Raises:
        SignatureError: there is no such thing.
    """
    module_name, sign, path = name.partition(":")
    if not sign or not path:
        raise SignatureError(f"{name} does not name a function as package.module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        result: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise SignatureError(f"{module_name} cannot be imported: {error}") from error
    for part in path.split("."):
        if isinstance(result, type) and issubclass(result, torch.nn.Module):
            result = _instance(result)
        if not hasattr(result, part):
            raise SignatureError(f"{module_name} has no {path}")
        result = getattr(result, part)
    return _instance(result) if isinstance(result, type) and issubclass(result, torch.nn.Module) else result


def _instance(module: type[torch.nn.Module]) -> torch.nn.Module:
    try:
        return module()
    except TypeError as error:
        raise SignatureError(f"a {module.__name__} cannot be made without arguments ({error}): name one that is made") from None


def _explained(name: str, static: StaticFunction) -> page.Page:
    converted = convert_root(static.function)
    code = static.function.__code__
    file = code.co_filename
    numbers = [None if line is None else page.place(file, line) for line in converted.user_lines]
    transformed = [page.Line(text, at) for text, at in zip(converted.source.splitlines(), numbers, strict=False)]
    program, problem = _program(static)
    places = {(file, code.co_firstlineno)}
    if program is not None:
        places |= {(node.meta["location"].file, node.meta["location"].line) for node in program.nodes() if "location" in node.meta}
    sites = tuple(dict.fromkeys(static.report().sites))
    places |= {(site.location.file, site.location.line) for site in sites}
    return page.Page(
        name=name,
        sources=tuple(_sources(places, (file, code.co_firstlineno))),
        transformed=tuple(transformed),
        program=() if program is None else tuple(_program_lines(program)),
        problem=problem,
        sites=tuple(
            page.Site(page.place(site.location.file, site.location.line), site.construct, site.outcome, site.reason)
            for site in sites
        ),
    )


def _program(static: StaticFunction) -> tuple[Program | None, str]:
    takes_nothing = not [p for p in inspect.signature(static.function).parameters if p != "self"]
    if static.options.input_spec is None and not takes_nothing:
        cached = [captured.program for captured in static.program_cache]
        return (cached[0], "") if cached else (None, "Give the arguments with --spec to see the program.")
    try:
        return static.program(), ""
    except (CaptureError, ConversionError) as error:
        return None, str(error)
    except Dy2stError:
        raise
    except Exception as error:  # of the user's code, which runs at the capture
        return None, f"{type(error).__name__}: {error}"


def _program_lines(program: Program) -> Iterator[page.Line]:
    files = {
        os.path.basename(node.meta["location"].file): node.meta["location"].file
        for node in program.nodes()
        if "location" in node.meta
    }
    files[os.path.basename(program.origin.file)] = program.origin.file
    for text in str(program).splitlines():
        match = _COMMENT.search(text)
        if match is not None and match[1] in files:
            yield page.Line(text[: match.start()], page.place(files[match[1]], int(match[2])))
        else:
            yield page.Line(text, None)


def _sources(places: set[tuple[str, int]], root: tuple[str, int]) -> Iterator[page.Source]:
    """Yield the functions around some places, the root first."""
    results: dict[tuple[str, int], page.Source] = {}
    for file, line in sorted(places, key=lambda place: (place != root, place)):
        around = _function_around(file, line)
        if around is not None and (file, around[0]) not in results:
            first, last, name = around
            lines = [page.Line(linecache.getline(file, n).rstrip("\n"), page.place(file, n), n) for n in range(first, last + 1)]
            results[file, first] = page.Source(name, f"{os.path.basename(file)}:{first}", tuple(_dedented(lines)))
    yield from results.values()


def _dedented(lines: Sequence[page.Line]) -> list[page.Line]:
    indent = min((len(line.text) - len(line.text.lstrip()) for line in lines if line.text.strip()), default=0)
    return [dataclasses.replace(line, text=line.text[indent:]) for line in lines]


def _function_around(file: str, line: int) -> tuple[int, int, str] | None:
    """Return the outermost function of a file around a line, classes left out: its first and last line and its name."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= line <= (node.end_lineno or node.lineno):
                return first, node.end_lineno or node.lineno, node.name
    return None
