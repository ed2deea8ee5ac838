"""Functions, methods and closures as users write them: the same before and after the rewrite."""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dy2st.static.conversion import convert
from tests.constructs.plain_python import converted, load, outcome

MODULE = load((Path(__file__).parent / "idioms.txt").read_text())
A, B = MODULE["A"], MODULE["B"]
NUMBERED = """
    a1 a2 a3 ann chain cls dead_with delete ee exc gl imports late nested_loops rec tricky trystar undefined_inner withs
"""


def check(function: Any, *args: Any, **kwargs: Any) -> None:
    expected = outcome(function, *copy.deepcopy(args), **kwargs)
    assert outcome(converted(function), *copy.deepcopy(args), **kwargs) == expected


@pytest.mark.parametrize("name", NUMBERED.split())
@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_a_rewritten_function_does_the_same(name: str, number: int) -> None:
    check(MODULE[name], number)


@pytest.mark.parametrize(
    ("method", "args", "kwargs"),
    [
        (B.f, (B(), -1), {}),
        (B.f, (B(), 2), {}),
        (B.__init__, (B(),), {}),
        (B.k, (B(),), {"key": 2, "w": 1}),
        (B.p.fget, (B(),), {}),
        (B.st, (1,), {}),
        (B.cm.__func__, (B, 5), {}),
        (B.cm.__func__, (B, 1), {}),
        (A._A__p, (A(),), {}),
    ],
)
def test_a_rewritten_method_does_the_same(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(method, *args, **kwargs)


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("kw", (1, 2, 3), {"c": 4, "e": 5}),
        ("kw", (0,), {"c": 1}),
        ("starred", ([1, 2, 3],), {}),
        ("sub", ([1, 2, 3, 4],), {}),
        ("dead", (), {}),
    ],
)
def test_a_rewritten_function_takes_the_same_arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(MODULE[name], *args, **kwargs)


def test_lambdas_on_one_line() -> None:
    for function in MODULE["pair"]()[:2]:
        check(function)
    check(MODULE["pair"]()[2](0))


def test_closures_share_code_not_cells() -> None:
    plain, rewritten = MODULE["outer"](5), converted(MODULE["outer"](5))
    other = converted(MODULE["outer"](7))
    assert other.__code__ is rewritten.__code__
    assert [plain(4), plain(1)] == [rewritten(4), rewritten(1)]
    assert other(0) == 7


def test_a_rewritten_function_keeps_its_header() -> None:
    plain, rewritten = MODULE["kw"], converted(MODULE["kw"])
    for attribute in ("__name__", "__qualname__", "__defaults__", "__kwdefaults__", "__module__", "__annotations__"):
        assert getattr(rewritten, attribute) == getattr(plain, attribute)
    assert rewritten.__globals__ is plain.__globals__


def test_conversion_lists_free_global_and_written_names() -> None:
    method, writer = convert(B.f), convert(MODULE["gl"])
    assert method.free_names == ("__class__",)
    assert method.global_names == ("super", "B")
    assert (writer.written_globals, writer.global_names, writer.written_free) == (("GG",), ("GG",), ())
    assert convert(MODULE["outer"](1)).written_free == ("z",)


def test_frames_carry_the_name_of_the_function() -> None:
    try:
        converted(MODULE["deep"])(1)
    except ZeroDivisionError as error:
        filename = MODULE["deep"].__code__.co_filename
        frames = [frame.name for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
    assert set(frames) == ({"deep"} if sys.version_info >= (3, 11) else {"deep", "<lambda>"})


def test_nested_functions_keep_their_qualified_name() -> None:
    assert converted(MODULE["nested_name"])(1) == MODULE["nested_name"](1)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters are new in Python 3.12")
@pytest.mark.parametrize("number", [0, 3])
def test_a_rewritten_generic_function_does_the_same(number: int) -> None:
    check(load((Path(__file__).parent / "idioms_312.txt").read_text())["gen"], number)
