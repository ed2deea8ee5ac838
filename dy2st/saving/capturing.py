"""The programs of some functions, in both modes of their module, with the state that they carry from call to call."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dy2st.capture import on_raise
from dy2st.errors import CaptureError, Dy2stError, SaveError
from dy2st.frames import level_outside
from dy2st.saving import fresh_optimizers
from dy2st.saving.carried_state import Taken, carried, with_recordings
from dy2st.saving.modes import OneModeWarning, in_mode
from dy2st.saving.state_names import Names
from dy2st.static.calls.call import Call
from dy2st.static.dynamic_state import Dims
from dy2st.static.static_function import StaticFunction
from dy2st_runtime.archive import serialize
from dy2st_runtime.archive.state import StateValue
from dy2st_runtime.ir.program import Location, Program


@dataclasses.dataclass(frozen=True)
class Saved:
    """What goes into an archive, what each program asked about the mode of its call, and the number of the method it is of.

    Also why the programs keep nothing of what is written before they raise, if so.
    """

    programs: list[Program]
    values: list[list[Any]]
    attributes: list[StateValue]
    asked: list[Mapping[str, Location | None]]
    methods: list[int]
    unrecorded: Dy2stError | None = None

    def taking(self, positions: Sequence[int]) -> Saved:
        """With some of the programs only."""
        some: dict[str, Any] = {
            name: [getattr(self, name)[at] for at in positions] for name in ("programs", "values", "asked", "methods")
        }
        return dataclasses.replace(self, **some)


def capture_modes(captures: Sequence[Capture], module: torch.nn.Module | None, records: bool) -> Saved:
    """Return the programs for the mode that the module is in, which must be right, and those for the other mode if they are."""
    read = [value for capture in captures for value in capture.taken(None, {}, False).values]
    optimizers = fresh_optimizers.fresh(read)
    if not optimizers:
        return _capture_modes(captures, module, records)
    again = [Capture(capture.static, capture.call, capture.module, capture.with_hooks) for capture in captures]
    with fresh_optimizers.begun(optimizers):
        return _capture_modes(again, module, records)


def _capture_modes(captures: Sequence[Capture], module: torch.nn.Module | None, records: bool) -> Saved:
    current = _named(captures, [None], module, records)
    if module is None:
        return dataclasses.replace(current, programs=[dataclasses.replace(current.programs[0], any_mode=True)])
    other = not module.training
    try:
        both = _named(captures, [None, other], module, records)
    except Exception as error:
        here, there = ("evaluation", "training") if other else ("training", "evaluation")
        warnings.warn(
            f"{', '.join(program.name for program in current.programs)} is saved for {here} mode only; "
            f"it cannot be saved for {there} mode: {type(error).__name__}: {error}",
            OneModeWarning,
            stacklevel=level_outside(),
        )
        return current
    kept = []
    for first in range(0, len(both.programs), 2):
        if _text(both.programs[first]) == _text(both.programs[first + 1]):
            both.programs[first] = dataclasses.replace(both.programs[first], any_mode=True)
            kept.append(first)
        else:
            kept += [first, first + 1]
    return both.taking(kept)


def _text(program: Program) -> Any:
    recording = None if program.recording is None else dataclasses.replace(program.recording, training=False)
    return serialize.to_json(dataclasses.replace(program, training=False, recording=recording))


def _named(captures: Sequence[Capture], modes: Sequence[bool | None], module: torch.nn.Module | None, records: bool) -> Saved:
    """Return the programs of each capture in each mode (``None`` for the flags as they are), with the state that they share.

    With ``records``, they keep what they leave when they raise, if an archive can say that.
    """
    if not records:
        return _named_so(captures, modes, module, False)
    try:
        return _named_so(captures, modes, module, True)
    except (SaveError, CaptureError) as error:
        return dataclasses.replace(_named_so(captures, modes, module, False), unrecorded=error)


def _named_so(captures: Sequence[Capture], modes: Sequence[bool | None], module: torch.nn.Module | None, records: bool) -> Saved:
    programs = _with_carried_state(captures, modes, records)
    for taken in programs:
        kind, name = taken.captured.users_class, taken.captured.program.name
        if kind is not None:
            raise SaveError(
                f"{name} takes or gives tensors of the class {kind.__qualname__}, which no file can hold; "
                "take and give plain tensors: x.as_subclass(torch.Tensor)"
            )
    names = Names(module, programs)
    named = [names.program(taken) for taken in programs]
    for program in named:
        serialize.to_json(program)
    values = [[get(part.values) for part in with_recordings([taken]) for get in part.captured.states] for taken in programs]
    methods = [number for number in range(len(captures)) for _ in modes]
    return Saved(named, values, names.attributes(), [taken.captured.asked for taken in programs], methods)


def _with_carried_state(captures: Sequence[Capture], modes: Sequence[bool | None], records: bool) -> list[Taken]:
    """Return the programs; what one keeps from call to call and one reads is an input of the one that reads it.

    Raises:
        SaveError: that cannot be.
        Exception: what a capture raises.
    """
    dynamic: dict[str, Dims] = {}
    while True:
        programs = [capture.taken(mode, dynamic, records) for capture in captures for mode in modes]
        result = carried(programs)
        if not result:
            return programs
        dynamic = {**dynamic, **result}


class Capture:
    """Captures a function in the modes of its module."""

    def __init__(self, static: StaticFunction, call: Call, module: torch.nn.Module | None, with_hooks: bool) -> None:
        self.static, self.call, self.module, self.with_hooks = static, call, module, with_hooks
        self._programs: dict[Any, Taken] = {}

    def taken(self, mode: bool | None, dynamic: Mapping[str, Dims], records: bool) -> Taken:
        """Return the program for one mode, with its recording if that is asked for and keeps anything."""
        result = self._taken(mode, dynamic, False)
        if not records or not result.captured.writes:
            return result
        recording = self._taken(mode, dynamic, True)
        return dataclasses.replace(result, recording=recording) if on_raise.may_leave(recording.captured.program) else result

    def _taken(self, mode: bool | None, dynamic: Mapping[str, Dims], records: bool) -> Taken:
        key = (mode, frozenset(dynamic.items()), records)
        if key not in self._programs:
            with contextlib.nullcontext() if mode is None or self.module is None else in_mode(self.module, mode):
                captured, values = self.static.capture_apart(self.call, dynamic, self.with_hooks, records)
            bound = (source for source in captured.sources if source.key == ("argument", 0))
            root = next(bound, None) if self.static.instance is not None else None
            self._programs[key] = Taken(captured, values, root)
        return self._programs[key]
