"""Building the native executor, and doing without it. Nothing is compiled here but what all tests share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import dy2st
from dy2st_runtime import executors
from dy2st_runtime.errors import BuildError
from dy2st_runtime.executors.native import build


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing is built or loaded, and the cache is empty."""
    monkeypatch.setattr(build, "_library", [])
    monkeypatch.setenv("DY2ST_CACHE", str(tmp_path))
    return tmp_path


def compiler(folder: Path, text: str) -> Path:
    file = folder / "compiler"
    file.write_text(f"#!{sys.executable}\n{text}\n")
    file.chmod(0o755)
    return file


def test_without_a_compiler_python_takes_over(unbuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(unbuilt / "no-such-compiler"))
    static = dy2st.to_static(lambda x: x * 2, backend="native")
    with pytest.warns(RuntimeWarning, match="cannot build its native executor.*no-such-compiler"):
        assert torch.equal(static(torch.ones(2)), torch.full((2,), 2.0))
    other = dy2st.to_static(lambda x: x * 3, backend="native")
    assert torch.equal(other(torch.ones(2)), torch.full((2,), 3.0))  # and says so once


def test_a_failing_compiler_is_quoted(unbuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys\nif '--version' not in sys.argv:\n    sys.exit('value.h: this compiler is from 1998')"
    monkeypatch.setenv("CXX", str(compiler(unbuilt, script)))
    with pytest.raises(BuildError, match="this compiler is from 1998"):
        build.build(quiet=True)
    with pytest.warns(RuntimeWarning, match="from 1998"):
        assert build.library() is None
    assert not list(unbuilt.rglob("*.part")), "what was not finished is gone"


def test_what_is_built_is_found_again(unbuilt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    script = "import sys, pathlib\nif '-o' in sys.argv:\n    pathlib.Path(sys.argv[sys.argv.index('-o') + 1]).write_text('made')"
    monkeypatch.setenv("CXX", str(compiler(unbuilt, script)))
    run = build._run
    monkeypatch.setattr(build, "_run", lambda command: made.append(command) or run(command))
    file = build.build(quiet=True)
    assert file.read_text() == "made" and len(made) == 1 + len(build.find_sources(but=build.STANDALONE))
    assert build.build(quiet=True) == file and len(made) == 1 + len(build.find_sources(but=build.STANDALONE))
    file.unlink()
    assert build.build(quiet=True) == file, "objects are kept"
    assert len(made) == 2 + len(build.find_sources(but=build.STANDALONE))


def test_the_compiler_is_named_by_cxx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", f"{sys.executable} -x")
    assert build.find_compiler() == [sys.executable, "-x"]


def test_it_is_a_backend() -> None:
    assert "native" in executors.BACKENDS
