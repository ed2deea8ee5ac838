"""What a program changes outside of itself, carried out on a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from dy2st_runtime.errors import SaveError
from dy2st_runtime.ir.paths import Key, Path, parse, written
from dy2st_runtime.ir.program import Effect, Program, StateSlot
from dy2st_runtime.ir.unflattening import unflatten


def place_of(target: str, slots: Mapping[str, StateSlot]) -> Path | None:
    """Return where on the module an effect writes.

    Args:
        target: as the user wrote it (``self.rnn.h``), or the name of a state slot.
        slots: the state slots by name.

    Returns:
        The place; ``None`` when it is something else than an attribute, or an item of one.
    """
    if target in slots:
        return parse(target, items=slots[target].kind not in ("parameter", "buffer"))
    return written(target)


def check(program: Program) -> None:
    """Check that a loaded module can carry out every effect.

    Raises:
        SaveError: the program changes something that is no attribute of the module.
    """
    slots = {slot.name: slot for slot in program.states}
    for effect in program.effects:
        if place_of(effect.target, slots) is None:
            raise SaveError(
                f"{program.origin}: {program.name} changes {effect.target}, which is not an attribute of the module, "
                "so it would be lost when the model is loaded elsewhere; return the value instead"
            )


def apply(module: nn.Module, program: Program, outputs: Sequence[Any], results: dict[int, Any]) -> None:
    """Carry out the effects of one call, in order; ``results`` takes the containers that they share with its result."""
    slots = {slot.name: slot for slot in program.states}
    collected = []
    for effect in program.effects:
        place = place_of(effect.target, slots)
        assert place is not None, "checked when the program was saved"
        owner = container(module, place.owner)
        held = _held(effect, owner, place)  # before any of them is replaced
        collected.append((effect, owner, place.name, held, place.items))
    for effect, owner, name, held, items in collected:
        if effect.in_place:
            _fill(held, unflatten(effect.value, outputs, results))
        elif items:
            held[items[-1]] = unflatten(effect.value, outputs, results)
        else:
            _apply_one(effect, owner, name, outputs, results)


def _held(effect: Effect, owner: nn.Module, place: Path) -> Any:
    """Return the container that an effect writes to, if it is not the module itself."""
    if effect.in_place:
        return item(owner.__dict__[place.name], place.items)
    return item(owner.__dict__[place.name], place.items[:-1]) if place.items else None


def _fill(held: Any, contents: Any) -> None:
    if isinstance(held, dict):
        held.clear()
        held.update(contents)
    else:
        held[:] = contents


def _apply_one(effect: Effect, owner: nn.Module, name: str, outputs: Sequence[Any], results: dict[int, Any]) -> None:
    if effect.kind == "delete":
        next(table for table in (owner._parameters, owner._buffers, owner.__dict__) if name in table).pop(name)
        return
    value = unflatten(effect.value, outputs, results)
    if effect.kind == "extend":
        owner.__dict__.setdefault(name, []).extend(value)
    elif name in owner._parameters or name in owner._buffers:
        setattr(owner, name, value)
    else:
        owner.__dict__[name] = value  # an attribute of the saved module may be called like one of LoadedModule


def item(value: Any, items: Sequence[Key]) -> Any:
    """Return what is at a place inside of nested lists, tuples and dicts."""
    for key in items:
        value = value[key]
    return value


def container(module: nn.Module, path: Sequence[str]) -> nn.Module:
    """Return the submodule at a path, made of plain modules where there is none."""
    for name in path:
        inner = module._modules.get(name)
        if inner is None:
            inner = module._modules[name] = nn.Module().train(module.training)
        module = inner
    return module
