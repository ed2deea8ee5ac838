"""What users read when something goes wrong: goldens, which ``DY2ST_UPDATE_GOLDEN=1`` writes anew."""

from __future__ import annotations

import os
import re
import traceback
from pathlib import Path

import pytest

from tests.errors import programs
from tests.errors.programs import MISTAKES, Mistake

GOLDEN = Path(__file__).parent / "golden"
FILE = programs.__file__
UNBOUND = (
    "local variable 'y' referenced before assignment",  # Python 3.10
    "cannot access local variable 'y' where it is not associated with a value",
)


def golden_of(mistake: Mistake) -> Path:
    """The file with the message."""
    name = re.sub("(?<=[a-z])(?=[A-Z])", "_", mistake.function.__name__).lower()
    return GOLDEN / f"{name}.txt"


def message(error: BaseException) -> str:
    """The traceback below the call, without the carets that differ between versions of Python."""
    frames = traceback.extract_tb(error.__traceback__)
    start = next(position for position, frame in enumerate(frames) if frame.name == "show")
    shown = [frame for frame in frames[start + 1 :] if "site-packages" not in frame.filename]
    lines = [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n    {frame.line}' for frame in shown]
    if isinstance(error, SyntaxError):
        caret = " " * ((error.offset or 1) - 1) + "^"
        text = f'{error.msg}\n  File "{error.filename}", line {error.lineno}\n{(error.text or "").rstrip()}\n{caret}'
    else:
        text = str(error).replace(*UNBOUND)
    lines += [f"{type(error).__qualname__}: {text}", *getattr(error, "__notes__", ())]
    return "\n".join(lines).replace(FILE, "model.py") + "\n"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.function.__name__)
def test_a_mistake_is_told_as_in_its_golden(mistake: Mistake) -> None:
    with pytest.raises(Exception) as caught:
        mistake.show()
    written = message(caught.value)
    path = golden_of(mistake)
    if os.environ.get("DY2ST_UPDATE_GOLDEN"):
        path.write_text(written)
    assert path.read_text() == written


def test_every_golden_belongs_to_a_mistake() -> None:
    assert {golden_of(mistake) for mistake in MISTAKES} == set(GOLDEN.glob("*.txt"))
