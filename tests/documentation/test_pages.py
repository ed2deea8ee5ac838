"""Every block of Python on every page runs, and prints what the page says."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.documentation.pages import ROOT, Session, agrees, blocks, with_code


@pytest.fixture(autouse=True)
def as_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a page does to settings of the process ends with it."""
    monkeypatch.chdir(tmp_path)
    levels = {name: logging.getLogger(name).level for name in ("dy2st.transform", "dy2st.capture", "dy2st.cache", "dy2st.exec")}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in with_code()])
def test_each_block_of_a_page_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(tmp_path)
    monkeypatch.setitem(sys.modules, "model", session.module)
    torch.manual_seed(0)
    for block in blocks(page):
        printed = session.run(block)
        assert agrees(block, printed), f"{page.name}:{block.line} shows\n{block.shown}\nand printed\n{printed}"
    beside = [block for block in blocks(page) if block.title]
    assert len(beside) == 2 * len(session.compared), "each pair of blocks side by side is compared"
