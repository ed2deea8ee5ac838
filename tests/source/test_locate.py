"""From a code object to its definition."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from typing import Any

import pytest

from dy2st.errors import SourceNotFoundError
from dy2st.source.locate import locate
from tests.constructs.plain_python import load


def text_of(function: Callable[..., Any]) -> str:
    return ast.unparse(locate(function.__code__).node).replace("lambda :", "lambda:")  # as Python 3.10 prints it


def test_decorated_function_starts_at_its_decorator() -> None:
    module = load("def d(f):\n    return f\n\n@d\n@d\ndef f():\n    return 1\n")
    assert text_of(module["f"]).endswith("return 1")


def test_same_name_on_other_lines() -> None:
    module = load("def f():\n    return 1\ng = f\ndef f():\n    return 2\n")
    assert "return 1" in text_of(module["g"])
    assert "return 2" in text_of(module["f"])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fs = [lambda x: x + 1, lambda x: x + 2]", ["lambda x: x + 1", "lambda x: x + 2"]),
        ("fs = [lambda: 0, lambda: 1, lambda x: 0]", ["lambda: 0", "lambda: 1", "lambda x: 0"]),
        ("fs = [lambda: (lambda: 2), (lambda: (lambda: 3))()]", ["lambda: lambda: 2", "lambda: 3"]),
        ("fs = [lambda a: a if a else 1, lambda a: a and 2]", ["lambda a: a if a else 1", "lambda a: a and 2"]),
    ],
)
def test_lambdas_on_one_line(line: str, expected: list[str]) -> None:
    assert [text_of(function) for function in load(line + "\n")["fs"]] == expected


def test_equal_lambdas_on_one_line_need_no_telling_apart() -> None:
    assert [text_of(function) for function in load("fs = [lambda: 1, lambda: 1]\n")["fs"]] == ["lambda: 1"] * 2


def test_enclosing_class() -> None:
    module = load("class A:\n    class _B:\n        def f(self):\n            def g(): pass\n            return g\n")
    method = module["A"]._B.f
    assert locate(method.__code__).class_name == "_B"
    assert locate(method(None).__code__).class_name == "_B"


def test_edited_file() -> None:
    function = load("def f():\n    return 1\n")["f"]
    filename = function.__code__.co_filename
    linecache.cache[filename] = (1, None, ["x = 1\n"], filename)
    with pytest.raises(SourceNotFoundError, match="was it edited"):
        locate(function.__code__)


def test_broken_file() -> None:
    function = load("def f():\n    return 1\n")["f"]
    filename = function.__code__.co_filename
    linecache.cache[filename] = (1, None, ["def (\n"], filename)
    with pytest.raises(SourceNotFoundError, match="no longer parses"):
        locate(function.__code__)
