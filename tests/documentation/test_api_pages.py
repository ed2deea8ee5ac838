"""The pages of the API have every public name."""

from __future__ import annotations

import pkgutil
import re

import pytest

import dy2st
import dy2st_runtime
from dy2st import errors
from tests.documentation.pages import ROOT

NAMES = re.findall(
    r"^::: ([\w.]+)", "".join((ROOT / "docs" / f"{page}.md").read_text() for page in ("api", "runtime_api")), re.MULTILINE
)


@pytest.mark.parametrize("package", [dy2st, dy2st_runtime], ids=lambda package: package.__name__)
def test_each_public_name_is_on_a_page(package: object) -> None:
    shown = [pkgutil.resolve_name(name) for name in NAMES] + [
        getattr(errors, name) for name in errors.__all__ if name != "Location"
    ]
    missing = [name for name in package.__all__ if not any(getattr(package, name) is each for each in shown)]
    assert not missing
