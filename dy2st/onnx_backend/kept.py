"""Graphs of programs, kept on the disk: making one takes seconds, reading one takes none."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dy2st import exporting, lowering, onnx_backend
from dy2st.onnx_backend.graph import Graph, create, from_text, to_text
from dy2st_runtime import analyses, ir, passes, primitives
from dy2st_runtime.archive import serialize
from dy2st_runtime.errors import Dy2stError
from dy2st_runtime.executors.native import build
from dy2st_runtime.ir.document import dump
from dy2st_runtime.ir.program import Program


def graph(program: Program, values: Sequence[Any]) -> Graph:
    """Return the graph of a program, from the disk if it was made before; see :func:`dy2st.onnx_backend.graph.create`."""
    key = _key(program, values)
    if key is not None and (value := _read(folder() / key)) is not None:
        return value
    result = create(program, values)
    if key is not None:
        _write(folder(), key, result)
    return result


def folder() -> Path:
    """Return where graphs are kept."""
    return build.cache_folder() / "onnx"


def _key(program: Program, values: Sequence[Any]) -> str | None:
    """Return what decides the graph; ``None`` for a program that is not plain data."""
    kinds = [type(value).__name__ for value in values]
    try:
        text = dump(serialize.to_json(program))
    except Dy2stError:
        return None
    return hashlib.sha256(text + repr((kinds, torch.get_default_dtype(), _makers())).encode()).hexdigest()[:32]


@functools.cache
def _makers() -> str:
    """Return the code that makes graphs."""
    own = [Path(package.__file__ or "").parent for package in (analyses, exporting, ir, lowering, onnx_backend, passes, primitives)]
    files = sorted(path for folder in own for path in folder.rglob("*.py"))
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("torch", "onnx", "onnxscript")]
    return hashlib.sha256(b"".join([path.read_bytes() for path in files])).hexdigest() + "".join(versions)


def _read(path: Path) -> Graph | None:
    try:
        head, _, model = path.read_bytes().partition(b"\n")
        checked, _, text = head.partition(b" ")
        if hashlib.sha256(text + model).hexdigest().encode() != checked:
            return None
        return from_text(model, text.decode())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(directory: Path, key: str, graph: Graph) -> None:
    """Into a temporary file, which then takes its name at once; a full disk or a folder that cannot be written is no error."""
    text = to_text(graph).encode()
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with build.renamed(directory / key) as part:
            part.write_bytes(hashlib.sha256(text + graph.model).hexdigest().encode() + b" " + text + b"\n" + graph.model)
