"""What values known only at run time say of themselves where code that is not converted makes a text of them.

``repr(deque([n]))`` is put together in C, which asks ``n`` for its own text. While someone waits who knows what to do with it, the
answer is a mark, found in the text afterwards (:mod:`.wording`). Anybody else is refused: a text with the name of a symbol in it
is wrong at every call of the program.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st.capture.environment.same_contents import PATCH_MARK
from dy2st.capture.recording.patches import methods_patch
from dy2st.capture.session.session import current
from dy2st.capture.values.roles import Role, has
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, Stale, TaggedUnion, Undefined, may_be_undefined
from dy2st.capture.values.texts import Text
from dy2st.errors import CaptureError

_FOR_THEMSELVES = ("torch.", "sympy.", "dy2st.", "dy2st_runtime.", "logging", "pdb", "bdb", "traceback", "warnings", "_pytest.")
"""Modules that ask for messages of their own, or for a person who debugs."""
_BEGIN, _END, _END_OF_ITEM = "\ue000", "\ue001", "\ue002"
_MARK = re.compile(rf"{_BEGIN}(\d+){_END}|\[{_BEGIN}(\d+){_END_OF_ITEM}(?:, {_BEGIN}\d+{_END_OF_ITEM})*\]")
"""A value, or a list of the program with what stands in it."""
_ESCAPED = "\\ue000"
_local = threading.local()


class Marks:
    """The values that have answered with a mark, each with the conversion and format specification that were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, str | None, str]] = []

    def mark(self, value: Any, conversion: str | None, specification: str) -> str:
        """Return the answer of a value."""
        self.asked.append((value, conversion, specification))
        return f"{_BEGIN}{len(self.asked) - 1}{_END_OF_ITEM if isinstance(value, Stale) else _END}"

    def split(self, text: str) -> list[Any]:
        """Return a text with marks as parts of a text.

        Raises:
            CaptureError: whoever made the text did more than put parts next to each other.
        """
        parts: list[Any] = []
        end = 0
        for match in _MARK.finditer(text):
            value, conversion, specification = self.asked[int(match[1] or match[2])]
            known = value.runtime.items if isinstance(value, Stale) and value.runtime is not None else value
            parts += [text[end : match.start()], (known, conversion, specification)]
            end = match.end()
        parts.append(text[end:])
        if any(isinstance(part, str) and (_BEGIN in part or _ESCAPED in part) for part in parts):
            raise _refused()
        return parts


@contextlib.contextmanager
def answering(marks: Marks | None) -> Iterator[None]:
    """Open a scope in which values answer with marks; with ``None`` one in which they refuse."""
    before = getattr(_local, "marks", None)
    _local.marks = marks
    try:
        yield
    finally:
        _local.marks = before


def _answered(value: Any, conversion: str | None, specification: str, describe: Callable[[], str]) -> str:
    if current() is None or _asks_for_itself(sys._getframe(2)):
        return describe()
    marks: Marks | None = getattr(_local, "marks", None)
    if marks is None or may_be_undefined(value):
        raise _refused()
    return marks.mark(value, conversion, specification)


def _asks_for_itself(caller: Any) -> bool:
    name = caller.f_globals.get("__name__", "")
    return f"{name}.".startswith(_FOR_THEMSELVES) and not has(name, Role.MAKES_TEXTS)


def _refused() -> CaptureError:
    return CaptureError(
        "code that was not converted makes a text of a value that is known only at run time",
        fix="make the text in converted code, with an f-string, str(), repr() or str.format(); or pass in a Python value",
    )


def _methods(kind: Any) -> dict[str, Callable[..., str]]:
    as_repr, as_format = kind.__repr__, kind.__format__

    def shown(self: Any, **options: Any) -> str:  # torch passes tensor_contents on
        return _answered(self, "r", "", lambda: as_repr(self, **options))

    def text(self: Any) -> str:
        return _answered(self, "s", "", lambda: as_repr(self))

    def formatted(self: Any, specification: str) -> str:
        return _answered(self, None, specification, lambda: as_format(self, specification))

    return {"__repr__": shown, "__str__": text, "__format__": formatted}


def _marked_methods(kind: type) -> dict[str, Any]:
    methods = _methods(kind)
    for method in methods.values():
        setattr(method, PATCH_MARK, True)
    return methods


TEXTS = methods_patch((torch.Tensor, torch.nn.Parameter, *SYMBOLIC_NUMBERS), _marked_methods)
"""Tensors and numbers of a capture answer so."""

for _kind in (Text, TaggedUnion, Stale, Undefined):
    for _name, _method in _methods(_kind).items():
        setattr(_kind, _name, _method)
