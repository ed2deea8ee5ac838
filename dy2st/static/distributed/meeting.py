"""What becomes of branches and loops of a new program in which several processes work together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import distributed

from dy2st.capture.distributed.wrappers import is_sharding_there, state_of
from dy2st.capture.outputs.captured import Captured
from dy2st.errors import DivergenceError
from dy2st.frames import level_outside
from dy2st_runtime.analyses.communication import group_of
from dy2st_runtime.distributed.boundaries import group_of_state, parameters_of
from dy2st_runtime.distributed.collectives import Group
from dy2st_runtime.ir.program import Program
from dy2st_runtime.passes.distributed.agreement import with_agreement
from dy2st_runtime.passes.distributed.meeting import Meetings
from dy2st_runtime.passes.distributed.together import taken_together


class DivergenceWarning(UserWarning):
    """Processes may take different ways to an operation that they have to do together."""


def meet(captured: Captured, program: Program, read: Callable[[], Sequence[Any]], uniform: str | None) -> Program:
    """Do what the user has chosen where processes may part ways.

    Args:
        captured: the program with its surroundings.
        program: it, after the user's passes.
        read: gives the values of its sources.
        uniform: see :func:`dy2st.to_static`.

    Raises:
        DivergenceError: they may, and it is not allowed, or cannot be cured.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        return program
    sharded = _sharded(captured, program, read)
    if not sharded and not any(group_of(node) is not None for node in program.nodes()):
        return program
    if uniform == "check":
        return with_agreement(program, sharded)
    if uniform == "auto":
        return taken_together(program, sharded)
    if distributed.get_world_size() > 1:
        for told in Meetings(program, sharded).told():
            if uniform == "error":
                raise DivergenceError(f'{told}; make its condition the same in all processes, or use uniform="auto"')
            warnings.warn(f"{told}: processes may part ways there; see uniform=", DivergenceWarning, level_outside())
    return program


def _sharded(captured: Captured, program: Program, read: Callable[[], Sequence[Any]]) -> dict[int, Group]:
    """Return the groups of the parameters among the inputs of a program that are gathered around it."""
    if not is_sharding_there():
        return {}
    values = read()
    instances = {id(value): value for value in values if isinstance(value, torch.nn.Module)}
    groups: dict[int, Group] = {}
    for instance in instances.values():
        for module in instance.modules():
            for hook in module._forward_pre_hooks.values():
                state = state_of(hook)
                for parameter in () if state is None else parameters_of(state):
                    if hasattr(parameter, "_unsharded_param"):
                        groups[id(parameter._unsharded_param)] = group_of_state(state)
    found = [groups.get(id(get(values))) for get in captured.states]
    first = len(program.inputs)
    return {first + position: group for position, group in enumerate(found) if group is not None}
