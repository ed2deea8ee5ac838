"""Profiles: time by line, iterations of loops, outcomes of conditions, and what torch.profiler shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import dy2st
from dy2st_runtime.executors.native import build
from dy2st_runtime.profiling import profile

pytestmark = pytest.mark.skipif(build.library() is None, reason="there is no compiler")


def collatz(x: Any, n: Any) -> Any:
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
            x = torch.tanh(x)
    return x, n


FIRST = collatz.__code__.co_firstlineno
STATIC = dy2st.to_static(collatz, backend="native")


def call() -> None:
    STATIC(torch.ones(2), torch.tensor(6))


def test_lines_with_their_loops_and_branches(tmp_path: Path) -> None:
    call()
    with profile() as seen:
        call()
        call()
    call()
    lines = {line.location.line - FIRST: line for line in seen.lines}
    assert (lines[1].entries, lines[1].iterations, lines[1].trips) == (2, 16, 16)
    assert (lines[2].then, lines[2].orelse) == (12, 4)
    assert lines[3].operations == 12 and lines[6].operations == 4
    assert all(line.seconds > 0 for line in seen.lines)
    text = str(seen)
    assert "16 iterations in 2 loops" in text and "12 true, 4 false" in text and f"collatz (test_profiling.py:{FIRST + 1})" in text
    seen.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["name"] == "aten::tanh" for event in events) == 4
    assert all(event["dur"] >= 0 and event["args"]["line"].startswith(__file__) for event in events)


def test_one_profile_at_a_time() -> None:
    with profile():
        with pytest.raises(dy2st.Dy2stError, match="only one"), profile():
            pass
    with profile() as seen:
        pass
    assert seen.lines == []


def test_the_profiler_of_torch_shows_the_users_lines() -> None:
    call()
    with torch.profiler.profile() as seen:
        call()
    names = {event.key: event.count for event in seen.key_averages()}
    assert names[f"collatz (test_profiling.py:{FIRST + 6})"] == 2
    assert names["aten::tanh"] == 2
