"""``dy2st export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dy2st
from dy2st.cli.output import clean, console
from dy2st.errors import Dy2stError, SignatureError

_SUFFIXES = {"pt2": ".pt2", "onnx": ".onnx", "aoti": ".aoti.pt2"}


def export(archive: Path, to: str | None, output: Path | None, *, verify: bool, max_growth: int | None, opset: int | None) -> None:
    """Convert an archive and print the report."""
    if to is not None and to not in _SUFFIXES:
        raise SignatureError(f"there is no format {to!r}; choose one of {', '.join(_SUFFIXES)}")
    if output is None:
        if to is None:
            raise SignatureError("say which format with --to, or which file with --output")
        output = archive.with_suffix(_SUFFIXES[to])
    convert: Any = getattr(dy2st, "export", None)
    if convert is None:
        raise Dy2stError("this version of dy2st does not export")
    options = {name: value for name, value in {"max_growth": max_growth, "opset": opset}.items() if value is not None}
    report = convert(str(archive), output, to, verify=verify, **options)
    console().print(clean(str(report)), markup=False, soft_wrap=True)
