"""From a code object to its definition."""

from __future__ import annotations

import ast
import importlib
import linecache
import os
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
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


def test_a_function_is_located_with_its_enclosing_class() -> None:
    module = load("class A:\n    class _B:\n        def f(self):\n            def g(): pass\n            return g\n")
    method = module["A"]._B.f
    assert locate(method.__code__).class_name == "_B"
    assert locate(method(None).__code__).class_name == "_B"


def test_a_function_whose_code_was_given_another_name_is_found() -> None:
    def renamed(x: int) -> int:
        return x + 1

    assert locate(renamed.__code__.replace(co_name="no_grad")) == locate(renamed.__code__)


def test_a_function_of_an_edited_file_is_refused() -> None:
    function = load("def f():\n    return 1\n")["f"]
    filename = function.__code__.co_filename
    linecache.cache[filename] = (1, None, ["x = 1\n"], filename)
    with pytest.raises(SourceNotFoundError, match="was it edited"):
        locate(function.__code__)


def test_a_file_that_no_longer_parses_is_refused() -> None:
    function = load("def f():\n    return 1\n")["f"]
    filename = function.__code__.co_filename
    linecache.cache[filename] = (1, None, ["def (\n"], filename)
    with pytest.raises(SourceNotFoundError, match="no longer parses"):
        locate(function.__code__)


FORMS = {
    "tabs": (b"class A:\n\tdef f(self):\n\t\tif self:\n\t\t\treturn 1\n\t\treturn 2\nf = A.f\n", "return 2"),
    "crlf": (b"def g():\r\n    return 0\r\n\r\ndef f():\r\n    return 1\r\n", "return 1"),
    "crlf_lambdas": (b"x = 1\r\nfs = [lambda: 1, lambda: 2]\r\nf = fs[1]\r\n", "lambda: 2"),
    "carriage_returns": (b"def g():\r    return 0\rdef f():\r    return 1\r", "return 1"),
    "form_feed": (b"def g():\n    return 0\n\x0c\ndef f():\n    return 1\n\x0cdef h():\n    return 3\n", "return 1"),
    "latin": ("# -*- coding: latin-1 -*-\nfs = [lambda: 'é', lambda: 'ü']\nf = fs[1]\n".encode("latin-1"), "ü"),
    "mark": (b"\xef\xbb\xbfdef f():\n    return 1\n", "return 1"),
    "wide": ("x = 'ñé'; fs = [lambda: 'é', lambda: 'ñ']; f = fs[1]\n".encode(), "ñ"),
    "lambda_lines": (b"fs = [lambda x: (x +\n   1), lambda x: (x +\n  2)]\nf = fs[1]\n", "x + 2"),
    "lambda_lines_apart": (b"f = (lambda\n  x:\n  x * 3)\n", "x * 3"),
    "line_separators": (
        'def g():\n    s = "a\\x1cb\x1c c\x85 \u2028"\n    return 1\n\ndef f():\n    return 2\n'.encode(),
        "return 2",
    ),
    "factory": (b"def make(k):\n    def inner(x):\n        return x + k\n    return inner\nf = make(1)\nmake(2)\n", "x + k"),
    "class_made_inside": (b"def make():\n    class C:\n        def m(self): return 5\n    return C\nf = make().m\n", "return 5"),
    "one_line": (b"if True:\n    def f(): return 1\nelse:\n    def f(): return 2\n", "return 1"),
    "alike_but_for_types": (b"g = lambda: 0; f = lambda: 0.0\n", "0.0"),
    "coroutine": (b"async def f():\n    return 1\n", "async def"),
}


@pytest.fixture
def importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bytes], Any]:
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, text: bytes) -> Any:
        (tmp_path / f"{name}.py").write_bytes(text)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    return make


@pytest.mark.parametrize("form", FORMS)
def test_a_definition_is_found_in_every_form_of_source(form: str, importing: Callable[[str, bytes], Any]) -> None:
    text, expected = FORMS[form]
    assert expected in text_of(importing(f"located_{form}", text).f)


def test_module_in_a_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("located_in_zip.py", "class K:\n    def f(self):\n        return 7\n")
    monkeypatch.syspath_prepend(str(archive))
    function = importlib.import_module("located_in_zip").K.f
    assert "return 7" in ast.unparse(locate(function.__code__, function.__globals__).node)


def test_code_without_a_file() -> None:
    space: dict[str, Any] = {}
    exec(compile("def f():\n    return 1\n", "<nowhere>", "exec"), space)
    with pytest.raises(SourceNotFoundError, match="no file"):
        locate(space["f"].__code__)


def test_code_that_linecache_knows() -> None:  # what notebooks and the prompt of Python 3.13 do
    text, space = "def f():\n    return 1\n", {}
    linecache.cache["<python-input-7>"] = (len(text), None, text.splitlines(True), "<python-input-7>")
    exec(compile(text, "<python-input-7>", "exec"), space)
    assert "return 1" in text_of(space["f"])


@pytest.mark.parametrize(
    "change", [b"def f(x):\n    return x * 222\n", b"def f(x):\n    return x + 1.0\n", b"\n\ndef f(x):\n    return 2\n"]
)
def test_file_that_changes_after_its_import(change: bytes, tmp_path: Path, importing: Callable[[str, bytes], Any]) -> None:
    name = f"located_edited_{len(change)}"
    function = importing(name, b"def f(x):\n    return x + 1\n").f
    path = tmp_path / f"{name}.py"
    path.write_bytes(change)
    os.utime(path, (time.time() + 5, time.time() + 5))
    with pytest.raises(SourceNotFoundError, match="edited"):
        locate(function.__code__)


def test_a_function_of_a_deleted_file_is_refused(tmp_path: Path, importing: Callable[[str, bytes], Any]) -> None:
    function = importing("located_deleted", b"def f():\n    return 1\n").f
    (tmp_path / "located_deleted.py").unlink()
    with pytest.raises(SourceNotFoundError, match="no file"):
        locate(function.__code__)
