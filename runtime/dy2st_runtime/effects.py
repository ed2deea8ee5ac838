"""What a program changes outside of itself, carried out on a module."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from torch import nn

from dy2st_runtime.errors import SaveError
from dy2st_runtime.program import Effect, Program
from dy2st_runtime.structure import unflatten

_ATTRIBUTE = re.compile(r"self((\.[^\W\d]\w*)+)")


def attribute_path(target: str, names: Collection[str]) -> list[str] | None:
    """Where on the module an effect writes.

    Args:
        target: as the user wrote it (``self.rnn.h``), or the name of a state slot.
        names: the names of the state slots.

    Returns:
        The names of the submodules and of the attribute; ``None`` when it is something else than an attribute.
    """
    if target in names:
        return target.split(".")
    written = _ATTRIBUTE.fullmatch(target)
    return written[1].removeprefix(".").split(".") if written else None


def check(program: Program) -> None:
    """Check that a loaded module can carry out every effect.

    Raises:
        SaveError: the program changes something that is no attribute of the module.
    """
    names = {slot.name for slot in program.states}
    for effect in program.effects:
        if attribute_path(effect.target, names) is None:
            raise SaveError(
                f"{program.origin}: {program.name} changes {effect.target}, which is not an attribute of the module, "
                "so it would be lost when the model is loaded elsewhere; return the value instead"
            )


def apply(module: nn.Module, program: Program, outputs: Sequence[Any]) -> None:
    """Carry out the effects of one call, in order."""
    names = {slot.name for slot in program.states}
    for effect in program.effects:
        path = attribute_path(effect.target, names)
        assert path is not None, "checked when the program was saved"
        *parents, name = path
        _apply_one(effect, container(module, parents), name, outputs)


def _apply_one(effect: Effect, owner: nn.Module, name: str, outputs: Sequence[Any]) -> None:
    if effect.kind == "delete":
        next(table for table in (owner._parameters, owner._buffers, owner.__dict__) if name in table).pop(name)
        return
    value = unflatten(effect.value, outputs)
    if effect.kind == "extend":
        owner.__dict__.setdefault(name, []).extend(value)
    elif name in owner._parameters or name in owner._buffers:
        setattr(owner, name, value)
    else:
        owner.__dict__[name] = value  # an attribute of the saved module may be called like one of LoadedModule


def container(module: nn.Module, path: Sequence[str]) -> nn.Module:
    """The submodule at a path, made of plain modules where there is none."""
    for name in path:
        inner = module._modules.get(name)
        if inner is None:
            inner = module._modules[name] = nn.Module().train(module.training)
        module = inner
    return module
