"""The formats: how each is written, and how what was written is run again to be checked."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from dy2st.errors import ExportError
from dy2st.exporting.inputs import example
from dy2st.exporting.preparing import lower_prepared
from dy2st.lowering.export import Lowered, lower
from dy2st.lowering.module import LoweredModule
from dy2st_runtime.ir.program import Program
from dy2st_runtime.module import LoadedModule


@dataclasses.dataclass(frozen=True)
class Runner:
    """What was written, to be run.

    Attributes:
        call: calls it; gives the tensors of its result.
        state: gives the parameters and buffers as they are now, by name.
    """

    call: Callable[[tuple[Any, ...], dict[str, Any]], Sequence[torch.Tensor]]
    state: Callable[[], Mapping[str, torch.Tensor]] = dict


_TALKATIVE = (
    "torch._export.serde.serialize",
    "torch.onnx",
    "torch._inductor",
    "onnxscript",
    "onnx_ir.passes.common.initializer_deduplication",
)
"""Loggers that tell of what is no concern of the caller."""


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Silence what PyTorch's exporters warn about: it is of no use to who did not write the graph."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def to_exported_program(loaded: LoadedModule, program: Program, checks: bool, max_growth: int | None) -> Lowered:
    """Return the program as ``torch.export`` has it.

    Args:
        loaded: where the state is.
        program: the program.
        checks: whether assertions become part of it; it is prepared for ONNX otherwise, which has none.
        max_growth: see :func:`dy2st.export`.

    Raises:
        ExportError: it cannot be.
    """

    def lowered(program: Program) -> Lowered:
        return lower(LoweredModule(loaded, program, checks, max_growth), *example(program))

    return lowered(program) if checks else lower_prepared(program, lowered)


def write_pt2(lowered: Lowered, path: str) -> None:
    """Write a ``.pt2`` file."""
    with quietly():
        torch.export.save(lowered.exported, path)


def read_pt2(path: str) -> Runner:
    """Return what runs a ``.pt2`` file that was just written here; loading one from elsewhere may run code from it."""
    with quietly():
        module = torch.export.load(path).module()

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[torch.Tensor]:
        with torch.no_grad():
            return [leaf for leaf in torch.utils._pytree.tree_leaves(module(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]

    return Runner(run, lambda: {**dict(module.named_parameters()), **dict(module.named_buffers())})


def sized(path: str) -> int:
    """Return the size of a file in bytes."""
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise ExportError(f"{path} was not written: {error}") from error
