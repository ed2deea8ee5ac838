"""What runs programs, by name.

An executor takes a program apart once and gives a function that runs it. All of them take every program and do what the
reference executor ``"python"`` does.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from dy2st_runtime.errors import BackendError
from dy2st_runtime.executors import cpp, native, python
from dy2st_runtime.ir.program import Program
from dy2st_runtime.primitives import cells, control

Runner = Callable[[Sequence[Any]], tuple[Any, ...]]
"""Runs one program: takes the values of the root block's inputs, gives those of its outputs."""


@dataclasses.dataclass(frozen=True)
class Backend:
    """One executor.

    Attributes:
        runner: makes the runner of a program.
        require: raises :class:`BackendError` where it cannot be used, and says what to install; called whenever it is asked for.
    """

    runner: Callable[[Program], Runner]
    require: Callable[[], None] = lambda: None


def _inductor(program: Program) -> Runner:
    from dy2st_runtime.executors import inductor  # what it imports of torch takes a while, and most processes do without

    return inductor.runner(program)


def _not_registered(program: Program | None = None) -> NoReturn:
    raise BackendError(
        "backend='onnxruntime' makes ONNX of programs, which this package alone cannot: install it with "
        "pip install 'dy2st[onnx]', and import dy2st first"
    )


BACKENDS: dict[str, Backend] = {
    "python": Backend(python.runner),
    "native": Backend(native.runner),
    "inductor": Backend(_inductor),
    "cpp": Backend(cpp.runner),
    "onnxruntime": Backend(_not_registered, require=_not_registered),  # dy2st.onnx_backend registers it
}
"""Every executor by name."""

DEFAULT = "native"
"""The executor where nothing else is asked for."""


def register(name: str, backend: Backend) -> None:
    """Add an executor, or give one that has a name alone what makes its runners.

    Args:
        name: what users call it.
        backend: what it is.

    Example:
        >>> register("reference", Backend(python.runner))
        >>> choose("reference")
        'reference'
        >>> del BACKENDS["reference"]
    """
    BACKENDS[name] = backend


def available() -> list[str]:
    """Return the names of the executors that can be used here."""

    def is_usable(name: str) -> bool:
        try:
            choose(name)
        except BackendError:
            return False
        return True

    return [name for name in BACKENDS if is_usable(name)]


def choose(backend: str | None) -> str:
    """Return the executor that a name stands for.

    Args:
        backend: a key of :data:`BACKENDS`; ``None`` for what the environment variable ``DY2ST_BACKEND`` says, or else for
            :data:`DEFAULT`.

    Returns:
        A key of :data:`BACKENDS`.

    Raises:
        BackendError: there is no such executor, or something that it needs is not installed.

    Example:
        >>> choose("python")
        'python'
    """
    asked = os.environ.get("DY2ST_BACKEND") or DEFAULT if backend is None else backend
    if asked not in BACKENDS:
        where = " (the environment variable DY2ST_BACKEND says so)" if backend is None else ""
        raise BackendError(f"there is no backend {asked!r}{where}; choose one of {', '.join(map(repr, BACKENDS))}")
    BACKENDS[asked].require()
    return asked


def runner(program: Program, backend: str | None = None) -> Runner:
    """Return what runs a program, made when it is asked for first and kept with the program's root block.

    Args:
        program: any program. Change its blocks before, not after.
        backend: see :func:`choose`.

    Returns:
        The function that runs it.

    Raises:
        BackendError: there is no such executor.
    """
    name = choose(backend)
    kept = program.block.runners
    return kept.get(name) or kept.setdefault(name, _knowing_owners(program, BACKENDS[name].runner(program)))


def _knowing_owners(program: Program, run: Runner) -> Runner:
    if not any(node.target is control.item_owner for node in program.nodes()):
        return run

    def run_knowing_owners(inputs: Sequence[Any]) -> tuple[Any, ...]:
        with cells.owners():
            return run(inputs)

    return run_knowing_owners
