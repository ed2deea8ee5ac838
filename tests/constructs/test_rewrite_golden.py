"""Generated code, construct by construct.

A golden file holds cases: a module that defines `f`, an arrow, and the code that `f` turns into (with every call and
access rewritten when the case starts with `# full`). A case without arrow rewrites nothing. Run with
DY2ST_UPDATE_GOLDEN=1 to write the arrows, and review the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.constructs.plain_python import conversion

GOLDEN = Path(__file__).parent / "golden"
SEPARATOR = "=====\n"
ARROW = ">>>>>\n"


def cases(path: Path) -> list[str]:
    return path.read_text().split(SEPARATOR)


def generated(source: str) -> str:
    function = conversion(source)
    return (function.full_source if source.startswith("# full") else function.source) + "\n"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_generated_code_is_that_of_the_golden_file(path: Path) -> None:
    sources = [case.partition(ARROW)[0] for case in cases(path)]
    written = SEPARATOR.join(f"{source}{ARROW}{generated(source)}" for source in sources)
    if os.environ.get("DY2ST_UPDATE_GOLDEN"):
        path.write_text(written)
    assert path.read_text() == written
