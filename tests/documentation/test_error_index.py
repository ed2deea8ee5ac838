"""The error index has a section for each class, which the errors themselves name."""

from __future__ import annotations

import re

import pytest

import dy2st
import dy2st_runtime.errors
from dy2st import errors
from tests.documentation.pages import ROOT

CLASSES = [kind for name in errors.__all__ if isinstance(kind := getattr(errors, name), type) and issubclass(kind, Exception)]
PAGE = ROOT / dy2st_runtime.errors.INDEX
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("kind", CLASSES)
def test_each_class_has_a_section(kind: type[Exception]) -> None:
    assert kind.__name__ in SECTIONS


def test_each_section_has_a_class() -> None:
    assert set(SECTIONS) <= {kind.__name__ for kind in CLASSES}


def test_each_section_shows_an_error_and_its_fix() -> None:
    bases = {"Dy2stError", "ConversionError"}
    shown = {name for name, text in SECTIONS.items() if f"\n{name}: " in text and "**Fix.**" in text}
    assert shown | bases == set(SECTIONS)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_names_its_section(kind: type[Exception]) -> None:
    if issubclass(kind, errors.ExampleErrors):
        error: Exception = kind("message", [ValueError()])
    else:
        error = kind.__new__(kind)
        dy2st.Dy2stError.__init__(error, "message")
    assert error.__notes__ == [f"See docs/errors.md#{kind.__name__.lower()}"]


def test_a_subclass_of_elsewhere_names_the_section_of_its_base() -> None:
    class OfAnApplication(dy2st.SaveError):
        pass

    assert OfAnApplication("message").__notes__ == ["See docs/errors.md#saveerror"]
