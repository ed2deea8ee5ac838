"""Every example in a docstring runs, and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import dy2st
import dy2st_runtime
from tests.packaging.test_directions import MODULES

OPTIONS = doctest.ELLIPSIS


def examples() -> Iterator[doctest.DocTest]:
    """The docstrings with examples. They may use ``torch``, ``dy2st`` and its public names without an import."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module, path in MODULES.items():
        if ">>>" in path.read_text(encoding="utf-8"):
            name = module.removesuffix(".__init__")
            found = finder.find(
                importlib.import_module(name),
                name,
                extraglobs={**{public: getattr(dy2st, public) for public in dy2st.__all__}, "torch": torch, "dy2st": dy2st},
            )
            yield from (test for test in found if test.examples)


@pytest.mark.parametrize("test", [*examples()], ids=lambda test: test.name)
def test_each_docstring_example_gives_what_it_says(test: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not any(example.options.get(doctest.SKIP) for example in test.examples)
    said: list[str] = []
    found = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False).run(test, out=said.append)
    assert found.failed == 0, "".join(said)


def test_each_public_function_has_an_example() -> None:
    shown = {test.name.rpartition(".")[2] for test in examples()}
    functions = {
        name
        for package in (dy2st, dy2st_runtime)
        for name in package.__all__
        if not isinstance(getattr(package, name), type) and callable(getattr(package, name))
    }
    assert functions - shown == {"declarative"}, "which is to_static"
