"""``dy2st check``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from dy2st.cli.explaining import import_named, spec
from dy2st.cli.output import clean, console, size, told
from dy2st.distributed import worlds
from dy2st.errors import LoadError
from dy2st.saving.layers import static_of
from dy2st.static.static_function import StaticFunction
from dy2st_runtime.archive import archive


def check_world(name: str, specs: Sequence[str], world: int) -> bool:
    """Capture a function as each process of a world does, and tell where processes would not meet; whether they all do.

    Args:
        name: where to import it from, as for ``dy2st explain``.
        specs: its arguments, written as there.
        world: how many processes there are.
    """
    given = [spec(text) for text in specs] or None
    layers = []

    def make() -> StaticFunction:
        layers.append(import_named(name))  # a static function does not keep its module alive
        return static_of(layers[-1], given)

    found, out = worlds.findings(make, world), console()
    for text in found:
        out.print(clean(f"{name}: {text}"), style="red", markup=False, soft_wrap=True)
    if not found:
        out.print(clean(f"{name}: {world} processes meet wherever they work together"), style="green", markup=False, soft_wrap=True)
    return not found


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
