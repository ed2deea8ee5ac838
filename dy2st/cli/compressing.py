"""``dy2st quantize`` and ``dy2st prune``: a smaller archive, and a table of what that costs."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch.utils._pytree import tree_flatten

from dy2st.cli.benching import in_turns
from dy2st.cli.output import clean, console, duration, size, table
from dy2st.cli.running import arguments
from dy2st_runtime.archive import archive
from dy2st_runtime.archive.archive import Example, Model
from dy2st_runtime.errors import SaveError
from dy2st_runtime.module import LoadedModule

Compress = Callable[[Model], tuple[Model, list[str], dict[str, str]]]
_SEED = 0


def compress(
    path: Path,
    output: Path,
    method: Compress,
    given: Sequence[str],
    seconds: float,
    backend: str | None,
    namespaces: Collection[str],
) -> None:
    """Write an archive that is smaller than another, and print how the two compare.

    Raises:
        SaveError: there is nothing to make smaller, or the file would replace the original.
        SignatureError: the examples do not fit.
    """
    if output.exists() and output.samefile(path):
        raise SaveError(f"{output} is the original, which the new archive would replace: name another file")
    model = archive.read_model(path, namespaces)
    result, names, left = method(model)
    calls = _calls(_loaded(model, backend), given)
    before = [_result(archive.read_model(path, namespaces), call, backend) for call in calls]  # what one call writes no other reads
    archive.write(output, result)
    after = [_result(archive.read_model(output, namespaces), call, backend) for call in calls]
    both = [archive.read_model(file, namespaces) for file in (path, output)]
    rows = [(call[0], _times(both, call, seconds, backend)) for call in calls]
    out = console()
    out.print(_compared(path, output, rows, [difference(*pair) for pair in zip(before, after, strict=True)]))
    if not calls:
        out.print("not run: the archive has no examples; give some with --examples", style="yellow", soft_wrap=True)
    out.print(f"{len(names)} weights are stored otherwise: {clean(', '.join(names))}", markup=False, soft_wrap=True)
    for name, reason in left.items():
        out.print(clean(f"left alone: {name} ({reason})"), style="yellow", markup=False, soft_wrap=True)


Call = tuple[str, str, Example]
"""What to call it, the method, and the arguments."""


def _loaded(model: Model, backend: str | None) -> LoadedModule:
    result = LoadedModule(model.methods, model.state, backend, None, about=model.about, examples=model.examples)
    return result.eval()


def _calls(model: LoadedModule, given: Sequence[str]) -> list[Call]:
    """Return the calls to compare: of ``forward`` with each file, or those that the archive has."""
    if given:
        return [(Path(file).name, archive.FORWARD, arguments(model, archive.FORWARD, [file])) for file in given]
    return [(name, name, example) for name, example in model.examples.items()]


def _result(model: Model, call: Call, backend: str | None) -> Any:
    _, method, (args, kwargs) = call
    with torch.no_grad():
        torch.manual_seed(_SEED)
        return getattr(_loaded(model, backend), method)(*args, **kwargs)


def _times(models: Sequence[Model], call: Call, seconds: float, backend: str | None) -> list[float]:
    """Return how long a call of each model takes, measured in turns."""
    _, method, (args, kwargs) = call
    functions = [functools.partial(getattr(_loaded(model, backend), method), *args, **kwargs) for model in models]
    with torch.no_grad():
        for function in functions:
            function()
        return [statistics.median(mine) for mine in in_turns(functions, seconds, 5)]


def _compared(path: Path, output: Path, rows: Sequence[tuple[str, list[float]]], differences: Sequence[tuple[str, str]]) -> Table:
    result = table(f"{path.name} and {output.name}", "", ">original", ">new", ">")
    old, new = path.stat().st_size, output.stat().st_size
    result.add_row("size", size(old), size(new), f"{new / old:.2f} times")
    for name, (slow, fast) in rows:
        result.add_row(f"time of {clean(name)}", duration(slow), duration(fast), f"{fast / slow:.2f} times")
    for (name, _), (away, largest) in zip(rows, differences, strict=True):
        result.add_row(f"difference of {clean(name)}", "", clean(away), clean(largest))
    return result


def difference(expected: Any, given: Any) -> tuple[str, str]:
    """Return how far a result is from another, for people: the norm of the difference over the norm, and the largest difference.

    Example:
        >>> difference([torch.tensor([3.0, 4.0])], [torch.tensor([3.0, 4.5])])
        ('10 %', 'at most 0.5')
    """
    (mine, made_of), (theirs, other) = tree_flatten(given), tree_flatten(expected)
    if made_of != other:
        return "another structure", ""
    away = norm = largest = 0.0
    for a, b in zip(mine, theirs, strict=True):
        if not isinstance(a, torch.Tensor) and not isinstance(b, (int, float)):
            if a != b:
                return "another result", f"{a!r} instead of {b!r}"
            continue
        left, right = (torch.as_tensor(value).detach() for value in (a, b))
        if left.shape != right.shape or left.dtype != right.dtype:
            return "another result", f"{_told(left)} instead of {_told(right)}"
        kind = torch.complex128 if right.is_complex() else torch.float64
        apart = (left.to(kind) - right.to(kind)).abs()
        away, norm = away + float(apart.square().sum()), norm + float(right.to(kind).abs().square().sum())
        largest = max(largest, float(apart.max()) if apart.numel() else 0.0)
    share = 100 * (away / norm) ** 0.5 if norm else 0.0
    return f"{share:.3g} %", f"at most {largest:.3g}"


def _told(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
