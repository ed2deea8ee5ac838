"""``dy2st check``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from dy2st.cli.output import clean, console, size, told
from dy2st.errors import LoadError
from dy2st_runtime.archive import archive


def check(paths: Sequence[Path], namespaces: Collection[str]) -> bool:
    """Read archives as loading them does; whether all are whole."""
    out, whole = console(), True
    for path in paths:
        try:
            model = archive.read_model(path, namespaces)
        except (LoadError, OSError) as error:
            whole = False
            text = told(error)
            out.print(text if isinstance(error, OSError) else f"{path}: {text}", style="red", markup=False, soft_wrap=True)
            continue
        operations = sum(1 for program in model.programs for _ in program.nodes())
        what = (
            f"{size(path.stat().st_size)}, {', '.join(model.methods)}, {operations} operations, {len(model.state)} entries of state"
        )
        out.print(clean(f"{path}: whole ({what})"), style="green", markup=False, soft_wrap=True)
    return whole
