"""``dy2st diff``."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from pathlib import Path

import torch
from rich.console import Console

from dy2st.cli.output import clean, console
from dy2st_runtime.archive import archive
from dy2st_runtime.archive.state import StateValue
from dy2st_runtime.ir.printing import short_dtype

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def compare(first: Path, second: Path, namespaces: Collection[str]) -> bool:
    """Print how two archives differ; whether they do not."""
    out = console()
    if first.read_bytes() == second.read_bytes():
        out.print("the same bytes")
        return True
    a, b = archive.read_model(first, namespaces), archive.read_model(second, namespaces)
    differs = [
        _texts(
            out, "about", [f"{key}: {text}" for key, text in a.about.items()], [f"{key}: {text}" for key, text in b.about.items()]
        ),
        _texts(out, "programs", _programs(a), _programs(b)),
        _state(out, a, b),
    ]
    if not any(differs):
        out.print("the same programs and state, written otherwise")
    return not any(differs)


def _programs(model: archive.Model) -> list[str]:
    lines = []
    for name, programs in model.methods.items():
        for program in programs:
            lines += [f"{name} for {' and '.join(program.modes)}", *str(program).splitlines()]
    return lines


def _texts(out: Console, title: str, first: list[str], second: list[str]) -> bool:
    lines = [line for line in difflib.unified_diff(first, second, lineterm="", n=2) if not line.startswith(("---", "+++"))]
    if lines:
        out.print(f"{title}:", style="bold")
    for line in lines:
        out.print(clean(line), style=_STYLES.get(line[0]), markup=False, soft_wrap=True)
    return bool(lines)


def _state(out: Console, a: archive.Model, b: archive.Model) -> bool:
    first, second = ({entry.name: entry for entry in model.state} for model in (a, b))
    lines = [f"- {name}: {_told(first[name])}" for name in first.keys() - second.keys()]
    lines += [f"+ {name}: {_told(second[name])}" for name in second.keys() - first.keys()]
    for name in first.keys() & second.keys():
        lines += [f"  {name}: {text}" for text in _differences(first[name], second[name])]
    if lines:
        out.print("state:", style="bold")
    for line in sorted(lines, key=lambda line: line[2:]):
        out.print(clean(line), style=_STYLES.get(line[0]), markup=False, soft_wrap=True)
    return bool(lines)


def _told(entry: StateValue) -> str:
    if isinstance(entry.value, torch.Tensor):
        return f"{entry.kind} {short_dtype(entry.value.dtype)}[{', '.join(map(str, entry.value.shape))}]"
    return f"{entry.kind} {entry.value!r}"


def _differences(a: StateValue, b: StateValue) -> Iterator[str]:
    if _told(a) != _told(b) or a.persistent != b.persistent:
        yield f"{_told(a)} has become {_told(b)}"
    elif isinstance(a.value, torch.Tensor) and not _equal(a.value, b.value):
        changed = int((a.value != b.value).sum())
        largest = (
            (a.value.detach().to(torch.float64) - b.value.detach().to(torch.float64)).abs().max()
            if not a.value.is_complex()
            else None
        )
        size = "" if largest is None else f", at most by {float(largest):.3g}"
        yield f"{changed} of {a.value.numel()} values differ{size}"


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())
