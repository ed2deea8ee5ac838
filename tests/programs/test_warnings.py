"""Warnings and log entries: their text, and the line, module and counting of the user's code."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from typing import Any

import pytest

import dy2st
from tests.programs.values import vec

VALUES = [vec(5), vec(40), vec(0.5), vec(5)]


class Own(UserWarning):
    pass


@dataclass
class Fields:
    n: Any


def halved(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x = x / 2
        n += 1
    return n


def plain(x: Any) -> None:
    n = halved(x)
    warnings.warn(f"halved {n} times")  # noqa: B028
    warnings.warn("constant", Own, stacklevel=1)
    warnings.warn(
        "many lines",
        DeprecationWarning,
        stacklevel=1,
    )
    for i in range(n):
        warnings.warn(f"iteration {i}", category=Own, stacklevel=1)


def in_functions(x: Any) -> None:
    n = halved(x)

    def inner(level: int) -> None:
        if n > 1:
            warnings.warn(f"inside {n}", RuntimeWarning, stacklevel=level)

    inner(1)
    inner(2)
    inner(3)


def of_objects(x: Any) -> None:
    n = halved(x)
    warnings.warn(Own(f"own {n}"), stacklevel=1)
    warnings.warn(Own("constant"), stacklevel=2)
    warnings.warn("a" if n > 2 else "b", stacklevel=1)
    warnings.warn_explicit(f"explicit {n}", Own, "file.py", 3)


def seen(function: Any, action: Any) -> Any:
    globals().pop("__warningregistry__", None)
    errors = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        for x in VALUES:
            try:
                function(x)
            except Warning as error:
                errors.append(repr(error))
    found = [(str(w.message), type(w.message), w.category, w.filename, w.lineno) for w in caught]
    return found, errors, sorted(map(str, globals().get("__warningregistry__", {})))


@pytest.mark.parametrize("action", ["always", "default", "once", "module", "error"])
@pytest.mark.parametrize("function", [plain, in_functions, of_objects])
def test_warnings_are_those_of_eager_in_one_program(function, action):
    static = dy2st.to_static(function)
    assert seen(function, action) == seen(static, action)
    assert len(static.program_cache) == 1


def test_log_entries_are_those_of_eager(caplog):
    logger = logging.getLogger(__name__)

    def f(x):
        n = halved(x)
        logger.warning("n %d %s", n, Fields(n))
        logging.error(f"root {n}")
        logger.log(30, "at %r, %s", Fields(n), [n, x])
        logger.warning("%(a)s", {"a": Fields(n)})
        logger.warning("name %s", "a" if n > 2 else "b", stacklevel=2)
        return x

    def entries(function):
        caplog.clear()
        for x in VALUES:
            function(x)
        return [
            (r.getMessage(), r.levelno, r.pathname, r.lineno, r.funcName) for r in caplog.records if r.name in ("root", __name__)
        ]

    assert entries(f) == entries(dy2st.to_static(f))
