"""Breakpoints, tracing, logs and the views of what has become of a function."""

from __future__ import annotations

import bdb
import io
import linecache
import logging
import os
import pdb
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import dy2st
from dy2st import logs, to_static
from dy2st_runtime.executors import python

X = torch.tensor([1.0, 2.0, 9.0])
ROOT = Path(__file__).parents[2]


def halved(x: Any) -> Any:
    n = 0
    while x.sum() > 3:
        y = x / 2  # in the loop
        x = y
        n += 1
    if n > 1:
        x = x + 1  # then
    else:
        x = x - 1  # else
    return shifted(x)


def shifted(x: Any) -> Any:
    return x * 2  # in the helper


def line_of(function: Any, marker: str) -> int:
    first = function.__code__.co_firstlineno
    return next(n for n in range(first, first + 30) if f"# {marker}" in linecache.getline(__file__, n))


class Stops(bdb.Bdb):
    """A debugger that goes on at once, and remembers where it stopped and what it saw there."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def user_line(self, frame: Any) -> None:
        if self.break_here(frame):
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            self.seen.append((f"{frame.f_code.co_name}: {line}", dict(frame.f_locals)))
        self.set_continue()


@pytest.fixture(autouse=True)
def _no_tracing() -> Iterator[None]:
    before = sys.gettrace()
    yield
    sys.settrace(before)


# -- debuggers ---------------------------------------------------------------------------------------------------------------


def test_breakpoints_on_the_users_lines_stop_the_capture() -> None:
    debugger = Stops()
    for function, marker in ((halved, "in the loop"), (halved, "then"), (halved, "else"), (shifted, "in the helper")):
        assert debugger.set_break(__file__, line_of(function, marker)) is None
    debugger.runcall(to_static(halved), X)
    places = dict.fromkeys(place for place, _ in debugger.seen)
    assert list(places) == [
        "halved: y = x / 2  # in the loop",
        "halved: x = x + 1  # then",
        "halved: x = x - 1  # else",
        "shifted: return x * 2  # in the helper",
    ]
    assert all("x" in names for _, names in debugger.seen)


def test_breakpoints_in_the_code_of_a_program() -> None:
    static = to_static(halved, backend="python")
    compiled = python.prepared(static.program(X))
    debugger = Stops()
    (line,) = [n for n, text in enumerate(compiled.text.splitlines(), 1) if "div(" in text]
    assert debugger.set_break(compiled.file, line) is None
    assert torch.equal(debugger.runcall(static, X), halved(X))
    assert len(debugger.seen) == 2
    assert debugger.seen[0][0].startswith("run: div_1 = div(")
    assert compiled.lines[line].line == line_of(halved, "in the loop")


def test_breakpoint_and_set_trace_stop_in_the_users_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []

    def stop():
        frame = sys._getframe(1)
        stops.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno, set(frame.f_locals)))

    monkeypatch.setattr(sys, "breakpointhook", stop)

    def f(x, k=2):
        y = x + k
        if x.sum() > 0:
            z = y * 2
            breakpoint()  # stop
            return z
        breakpoint()
        return y

    static = to_static(f)
    assert torch.equal(static(X), f(X))
    assert torch.equal(static(-X), f(-X))
    file, name, line, names = stops[0]
    assert (file, name, line) == (__file__, "f", line_of(f, "stop"))
    assert {"x", "k", "y", "z"} <= names


def test_pdb_stops_in_the_users_lines() -> None:
    commands, output = io.StringIO("p x.shape\np k\nn\np y.shape\nc\n"), io.StringIO()
    debugger = pdb.Pdb(stdin=commands, stdout=output, nosigint=True, readrc=False)

    def f(x):
        k = 3
        y = x + 1
        if x.sum() > 0:
            debugger.set_trace()
            y = y[:2] * k
            y = y + 1
        else:
            y = y[1:]
        return y

    assert torch.equal(to_static(f)(X), (X + 1)[:2] * 3 + 1)
    shown = output.getvalue()
    assert "torch.Size([3])" in shown
    assert "(Pdb) 3" in shown
    assert "-> y = y + 1" in shown
    assert "torch.Size([2])" in shown


def test_tracing_sees_the_users_lines() -> None:
    seen = set()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != __file__:
            return None
        seen.add(frame.f_lineno)
        return trace

    static = to_static(halved)
    sys.settrace(trace)
    try:
        static(X)
    finally:
        sys.settrace(None)
    first = halved.__code__.co_firstlineno
    assert set(range(first + 1, first + 11)) - {first + 8} <= seen  # all of them, save `else:`
    assert line_of(shifted, "in the helper") in seen


def test_tracebacks_name_the_users_lines() -> None:
    def f(x, i):
        if x.sum() > 0:
            x = taken(x, i)
        return x

    def taken(x, i):
        return x + x[i]  # the line

    static = to_static(f)
    static(X, torch.tensor(1))
    with pytest.raises(IndexError) as caught:
        static(X, torch.tensor(7))
    text = "".join(traceback.format_exception(caught.value))
    assert f'File "{__file__}", line {line_of(taken, "the line")}, in taken\n    return x + x[i]  # the line\n' in text
    assert "<program" not in text


# -- logs --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet() -> Iterator[None]:
    yield
    dy2st.set_verbosity(0)
    dy2st.set_code_level(0)


SCALE = 2


def scaled(x: Any, k: int = 1) -> Any:
    if x.sum() > 0:
        return x * SCALE * k
    return shifted(x)


def test_stages_on_standard_logging(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    with caplog.at_level(logging.DEBUG, "dy2st"):
        static = to_static(scaled)
        static(X)
        static(-X)
        static(X.double())
        monkeypatch.setattr(sys.modules[__name__], "SCALE", 3)
        static(X)
    said = [(record.name, record.getMessage()) for record in caplog.records if record.name.startswith("dy2st")]
    misses = [text for name, text in said if name == "dy2st.cache" and "miss" in text]
    assert misses == [
        "scaled: miss, no program for (a tensor [3] of torch.float32, 1) yet; programs for 0 other signatures",
        "scaled: miss, no program for (a tensor [3] of torch.float64, 1) yet; programs for 1 other signatures",
        "scaled: miss, SCALE is not what it was (== 2)",
    ]
    assert ("dy2st.cache", "scaled: hit") in said
    line = scaled.__code__.co_firstlineno
    captures = [text for name, text in said if name == "dy2st.capture"]
    assert captures[0].startswith(f"captured scaled ({__file__}:{line}): ")
    assert f"{__file__}:{line + 1}: if, captured: the test depends on a tensor" in captures
    assert any(text.startswith("program scaled(x: f32[3], ") or text.startswith("program scaled(x: f32[3])") for text in captures)
    assert sum(name == "dy2st.exec" for name, _ in said) == 4


def test_a_refusal_is_logged_with_its_function(caplog: pytest.LogCaptureFixture) -> None:
    def f(x):
        return x.data_ptr()

    with caplog.at_level(logging.INFO, "dy2st"), pytest.raises(dy2st.CaptureError):
        to_static(f)(X)
    assert "f cannot be captured: " in caplog.text


@pytest.mark.usefixtures("quiet")
def test_verbosity_says_how_much_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    dy2st.set_verbosity(1)
    static = to_static(lambda x: x + 1)
    static(X)
    first = capsys.readouterr()
    assert "[dy2st.transform] converted " in first.err
    assert "[dy2st.cache] " in first.err and "[dy2st.capture] captured " in first.err
    assert "[dy2st.exec]" not in first.err and "program " not in first.err.replace("no program", "")
    assert first.out == ""
    dy2st.set_verbosity(2, also_to_stdout=True)
    static(X)
    second = capsys.readouterr()
    assert second.out == second.err
    assert "hit\n[dy2st.exec] " in second.err
    dy2st.set_verbosity(0)
    static(X)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(ValueError, match="set_verbosity takes a number"):
        dy2st.set_verbosity("all")


@pytest.mark.usefixtures("quiet")
def test_a_code_level_shows_the_code_after_a_phase(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x):
        for i in range(3):
            if x.sum() > i:
                break
        return shifted(x)

    static = to_static(f)
    dy2st.set_code_level()
    static(X)
    shown = capsys.readouterr().err
    assert static.code.strip() in shown
    assert "def shifted(x" in shown
    dy2st.set_code_level(3, also_to_stdout=True)
    static(X.double())
    shown = capsys.readouterr()
    assert shown.out == shown.err
    assert "after JUMPS:" in shown.out and "break_1" in shown.out and "if_stmt" not in shown.out
    dy2st.set_code_level(0)
    static(X.long())
    assert capsys.readouterr().err == ""


def test_the_environment_chooses_stages(tmp_path: Path) -> None:
    program = tmp_path / "model.py"
    program.write_text(
        textwrap.dedent("""
        import torch, dy2st

        @dy2st.to_static
        def f(x):
            return x + 1

        f(torch.ones(2))
        """)
    )
    paths = os.pathsep.join([str(ROOT), str(ROOT / "runtime")])
    environment = {**os.environ, "PYTHONPATH": paths, "DY2ST_LOGS": "cache, exec,wrong"}
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment, check=True)
    assert "DY2ST_LOGS names wrong; the stages are transform, capture, cache, exec, and all" in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("[dy2st.")]
    assert [line.partition("]")[0] for line in lines] == ["[dy2st.cache", "[dy2st.exec"]


def test_loggers_are_named_in_the_module() -> None:
    assert [logger.name for logger in (logs.transform, logs.capture, logs.cache, logs.execution)] == [
        f"dy2st.{stage}" for stage in logs.STAGES
    ]


# -- views -------------------------------------------------------------------------------------------------------------------


def test_a_diff_shows_source_and_code_side_by_side() -> None:
    def f(x):
        y = x + 1
        if x.sum() > 0:
            y = y * "a long string".count("o") * x.abs().clamp(min=0.5).sum()
        return y

    lines = to_static(f).diff(100).splitlines()
    assert max(map(len, lines)) <= 100
    left, right = ([line[start:end].strip() for line in lines] for start, end in ((0, 48), (51, 100)))
    assert left[0] == right[0] == "def f(x):"
    (position,) = [n for n, line in enumerate(left) if line == "y = x + 1"]
    assert right[position] == "y = x + 1" and lines[position][49] == " "
    (position,) = [n for n, line in enumerate(left) if line == "if x.sum() > 0:"]
    assert lines[position][49] in "<|"
    (position,) = [n for n, line in enumerate(right) if line == "def then_1():"]
    assert lines[position][49] == ">"


def test_a_diff_of_a_method_has_no_indent() -> None:
    class Net(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    text = to_static(Net()).forward.diff()
    assert "return x if x.sum() > 0 else -x" in text
    assert "_dy2st.if_exp(" in text
