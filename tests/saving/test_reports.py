"""Warnings and log entries of saved programs: what eager reports, with its line, class and counting."""

from __future__ import annotations

import json
import logging
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import dy2st
import dy2st_runtime
from dy2st.errors import LoadError

LOGGER = logging.getLogger("tests.saving.reports")
ONES = torch.ones(2)


def reports(x: Any, n: Any) -> Any:
    def inner(level: int) -> None:
        warnings.warn(f"inner {n.item()}", stacklevel=level)

    for i in range(int(n)):
        if x[0] > i:
            warnings.warn(f"step {i} of {n.item()}, {x.sum().item():.2f}", RuntimeWarning, stacklevel=1)
            warnings.warn(FutureWarning(f"as an object {i}"), stacklevel=1)
        LOGGER.warning("logged %d", i)
    if n > 2:
        inner(1)
        inner(2)
    else:
        warnings.warn("constant", DeprecationWarning, stacklevel=1)
        LOGGER.debug("not shown")
        logging.error("of the root")
    return x + n


def seen(function: Any, n: int, log: pytest.LogCaptureFixture) -> Any:
    log.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(ONES, torch.tensor(n))
    entries = [(entry.name, entry.levelname, entry.message, entry.pathname, entry.lineno, entry.funcName) for entry in log.records]
    return result.tolist(), [(str(w.message), w.category, w.filename, w.lineno) for w in caught], entries


@pytest.fixture
def path(tmp_path: Path) -> Path:
    result = tmp_path / "model.dy2st"
    dy2st.save(reports, result, input_spec=[ONES, torch.tensor(3)])
    return result


@pytest.mark.parametrize("backend", ["python", "native"])
def test_a_loaded_program_reports_what_eager_reports(path: Path, backend: str, caplog: pytest.LogCaptureFixture) -> None:
    loaded = dy2st_runtime.load(path, backend=backend)
    for n in (3, 0, 1, 5):
        assert seen(loaded, n, caplog) == seen(reports, n, caplog)


@pytest.mark.parametrize("backend", ["python", "native"])
def test_filters_and_counting_are_those_of_the_process(path: Path, backend: str) -> None:
    loaded = dy2st_runtime.load(path, backend=backend)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            loaded(ONES, torch.tensor(1))
    assert [str(warning.message) for warning in caught].count("constant") == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", FutureWarning)
        with pytest.raises(DeprecationWarning, match="constant"):
            loaded(ONES, torch.tensor(0))


@pytest.mark.parametrize(
    "damage",
    [
        {"function": ["os", "system"]},
        {"function": ["logging:a", "setLevel"]},
        {"frames": [["a.py", 0, "f", "m"]]},
        {"frames": [["a.py", 1 << 40, "f", "m"]]},
        {"kwargs": {"extra": None}},
    ],
)
def test_a_file_names_no_other_function(path: Path, damage: dict[str, Any], tmp_path: Path) -> None:
    from dy2st_runtime.archive import reports as module
    from dy2st_runtime.ir.document import Json

    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("program.json"))
    nodes = [node for program in _programs(document) for block in program["blocks"] for node in block["nodes"]]
    node = next(node for node in nodes if node["target"] == module.TARGET) | damage
    with pytest.raises(LoadError):
        module.read_frames(Json(node, "program.json"), node["kwargs"])


def _programs(document: Any) -> list[Any]:
    if isinstance(document, dict):
        own = [document] if "blocks" in document else []
        return own + [program for value in document.values() for program in _programs(value)]
    return [program for value in document for program in _programs(value)] if isinstance(document, list) else []
