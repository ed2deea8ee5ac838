"""Every test starts from the same random numbers and leaves PyTorch's settings as it found them.

Each call of a static function is followed by a search for values of the capture in what the user can reach
(``DY2ST_CHECK_LEAKS=0`` in the environment switches it off). With ``DY2ST_OPTIMIZE=1`` in the environment, every captured program goes
through ``optimize``. With ``DY2ST_KEEP_PROGRAMS=FILE``, its blocks are written to a line of a file, for ``tests.runtime.lowerings``.
"""

import gc
import logging
import os
from collections.abc import Iterator, Sequence

import pytest
import torch

os.environ.setdefault("DY2ST_CHECK_LEAKS", "1")

from dy2st.static import programs
from dy2st_runtime.ir.program import Program
from dy2st_runtime.passes.application import Pass, apply_passes
from dy2st_runtime.passes.pipeline import optimize
from tests.devices import seed

# Torch describes what it traces, with tracebacks, as long as its log has a handler; those of pytest would get nothing but that.
logging.getLogger("torch.__trace").addHandler = lambda hdlr: None  # type: ignore[method-assign]

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # there is a process for each core

if os.environ.get("DY2ST_OPTIMIZE"):

    def _optimized(program: Program, passes: Sequence[Pass]) -> Program:
        if passes:
            return apply_passes(program, passes)
        return optimize(program, gradients=any(slot.requires_grad for slot in (*program.inputs, *program.states)))

    programs.apply_passes = _optimized

if os.environ.get("DY2ST_KEEP_PROGRAMS"):
    from tests.runtime.lowerings import described

    _apply = programs.apply_passes

    def _kept(program: Program, passes: Sequence[Pass]) -> Program:
        program = _apply(program, passes)
        line = described(program)
        if line is not None:
            with open(os.environ["DY2ST_KEEP_PROGRAMS"], "a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        return program

    programs.apply_passes = _kept


def pytest_collection_finish() -> None:
    """Keep what importing and collecting has made out of later garbage collections, which take a seventh of the time otherwise."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def reproducible() -> Iterator[None]:
    dtype = torch.get_default_dtype()
    grad = torch.is_grad_enabled()
    seed(0)
    yield
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(grad)


@pytest.fixture(scope="module")
def quick_collections() -> None:
    """Keep what the tests before have left out of a module's own garbage collections, each of which takes seconds otherwise."""
    gc.freeze()
