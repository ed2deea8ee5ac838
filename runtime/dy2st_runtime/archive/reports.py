"""Warnings and log entries of a program as plain data and back."""

from __future__ import annotations

from typing import Any

from torch import fx

from dy2st_runtime.ir.document import Json
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.reports import Frame, FromFrames, function_of, name_of, variables_of

DATA_TARGET = "set_data_"
"""The target of an operation that assigns ``tensor.data``."""
TARGET = "report_"
"""The target of an operation that warns or logs."""

_NAMED = frozenset({"category", "stacklevel", "source", "skip_file_prefixes", "exc_info", "stack_info"})
_MOST_LINES = 1 << 31


def frames_to_json(node: fx.Node) -> dict[str, Any] | None:
    """Return what tells which function an operation calls, and from where; ``None`` unless it warns or logs."""
    call = node.args[0] if node.target is control.call_ else None
    names = name_of(call.function) if isinstance(call, FromFrames) else None
    if names is None or not isinstance(call, FromFrames):
        return None
    frames = [[frame.file, frame.line, frame.function, frame.variables.get("__name__") or ""] for frame in call.frames]
    return {"target": TARGET, "function": list(names), "frames": frames}


def read_frames(json: Json, kwargs: dict[str, Any]) -> FromFrames:
    """Return what an operation calls that warns or logs."""
    owner, name = (part.text() for part in json.field("function").array(2))
    function = function_of(owner, name)
    if function is None:
        json.field("function").fail("a function that warns or logs")
    if not kwargs.keys() <= _NAMED:
        json.field("kwargs").fail(f"arguments among {', '.join(sorted(_NAMED))}")
    return FromFrames(function, [_read_frame(frame) for frame in json.field("frames").array()])


def _read_frame(json: Json) -> Frame:
    file, line, function, module = json.array(4)
    if line.integer(1) >= _MOST_LINES:
        line.fail("the number of a line")
    if "\0" in file.text():
        file.fail("the name of a file")
    return Frame(file.text(), line.integer(), function.text(), variables_of(module.text(), file.text()))
