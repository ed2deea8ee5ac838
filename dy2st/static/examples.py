"""Arguments that fit the programs that a function has already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from dy2st.capture.outputs.captured import Captured
from dy2st.errors import SignatureError
from dy2st_runtime.ir.program import InputSlot, Program, slot_type
from dy2st_runtime.ir.structure import Structure
from dy2st_runtime.ir.unflattening import unflatten


def arguments_like(name: str, programs: Iterable[Captured]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments like those of the calls so far.

    Args:
        name: of the function.
        programs: those of the calls so far.

    Raises:
        SignatureError: there were no calls, or of several signatures.
    """
    known = {_signature(captured.program): captured.program for captured in programs}
    if len(known) != 1:
        ways = ", ".join(sorted({_shown(program) for program in known.values()}))
        seen = f"was called in {len(known)} ways: {ways}" if known else "was never called"
        raise SignatureError(f"{name} has no input_spec and {seen}; pass input_spec to say what to save")
    (program,) = known.values()
    args, kwargs = unflatten(program.in_structure, [_example(slot) for slot in program.inputs])
    return args, kwargs


def _signature(program: Program) -> tuple[str, Structure, tuple[Any, ...]]:
    """Return the arguments that a program is for."""
    return _shown(program), program.in_structure, tuple((slot.dtype, slot.shape, slot.device) for slot in program.inputs)


def _shown(program: Program) -> str:
    inputs = ", ".join(f"{slot.name}: {slot_type(slot)}" for slot in program.inputs)
    return f"{program.name}({inputs})"


def _example(slot: InputSlot) -> Any:
    """Return an input of a program that fits: zeros."""
    if slot.number is not None:
        return {"bool": False, "int": 0, "float": 0.0}[slot.number]
    sizes = [size if isinstance(size, int) else 2 for size in slot.shape]
    return torch.zeros(sizes, dtype=slot.dtype, device=slot.device)
