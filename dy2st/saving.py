"""From a layer or static function to an archive, and back."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import torch

from dy2st.capture.capture import Captured
from dy2st.errors import SignatureError
from dy2st.signature import InputSpec
from dy2st.static_function import StaticFunction
from dy2st_runtime import module as runtime
from dy2st_runtime.archive import save_programs
from dy2st_runtime.program import Program, StateSlot


def save(layer: Any, path: str | os.PathLike[str], input_spec: Sequence[Any] | None) -> None:
    """See :func:`dy2st.save`."""
    static = _static(layer, input_spec)
    owner = static.instance
    module = owner if isinstance(owner, torch.nn.Module) else None
    captured, values = static.capture_examples()
    program, state = _named(captured, values, module)
    save_programs(path, [program], [state], module)


def load(path: str | os.PathLike[str]) -> runtime.LoadedModule:
    """See :func:`dy2st.load`."""
    return runtime.load(path)


def _static(layer: Any, specs: Sequence[Any] | None) -> StaticFunction:
    if specs is not None:
        specs = [_spec(entry) for entry in specs]
    found = layer.forward if isinstance(layer, torch.nn.Module) else layer
    if isinstance(found, StaticFunction):
        if specs is None:
            return found
        return StaticFunction(found.function, specs, found.instance)
    function = getattr(found, "__func__", found)
    if not hasattr(function, "__code__"):
        raise SignatureError(f"save takes an nn.Module or a static function, not a {type(layer).__name__}")
    return StaticFunction(function, specs, getattr(found, "__self__", None))


def _spec(entry: Any) -> Any:
    if isinstance(entry, torch.Tensor):
        return InputSpec.from_tensor(entry)
    if isinstance(entry, (list, tuple)):
        return type(entry)(_spec(item) for item in entry)
    return entry


def _named(captured: Captured, values: list[Any], module: torch.nn.Module | None) -> tuple[Program, list[Any]]:
    """The program with its state slots named as the module names them, and the live values of the slots."""
    names = _tensor_names(module)
    slots: list[StateSlot] = []
    state: list[Any] = []
    for slot, get in zip(captured.program.states, captured.states):
        value = get(values)
        state.append(value)
        slots.append(_slot(slot, value, names))
    renamed = {old.name: new.name for old, new in zip(captured.program.states, slots)}
    effects = tuple(dataclasses.replace(e, target=renamed.get(e.target, e.target.removeprefix("self."))) for e in captured.program.effects)
    return dataclasses.replace(captured.program, states=tuple(slots), effects=effects), state


def _slot(slot: StateSlot, value: Any, names: dict[int, tuple[str, str, bool]]) -> StateSlot:
    if isinstance(value, torch.Tensor) and id(value) in names:
        name, kind, persistent = names[id(value)]
        return dataclasses.replace(slot, name=name, kind=kind, persistent=persistent)
    if slot.name.startswith("self."):
        return dataclasses.replace(slot, name=slot.name.removeprefix("self."))
    kind = "constant" if isinstance(value, torch.Tensor) else slot.kind
    return dataclasses.replace(slot, name="".join(c if c.isalnum() else "_" for c in slot.name), kind=kind)


def _tensor_names(module: torch.nn.Module | None) -> dict[int, tuple[str, str, bool]]:
    """For each parameter and buffer: its dotted name, kind, and whether it is part of the ``state_dict``."""
    found: dict[int, tuple[str, str, bool]] = {}
    if module is None:
        return found
    for prefix, owner in module.named_modules():
        for kind, table in (("parameter", owner._parameters), ("buffer", owner._buffers)):
            for name, tensor in table.items():
                if tensor is not None:
                    dotted = f"{prefix}.{name}" if prefix else name
                    found.setdefault(id(tensor), (dotted, kind, name not in owner._non_persistent_buffers_set))
    return found
