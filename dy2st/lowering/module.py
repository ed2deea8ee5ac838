"""A program as a module that ``torch.export`` can follow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn

from dy2st.errors import ExportError
from dy2st.lowering import arguments
from dy2st.lowering.context import check_hazards
from dy2st.lowering.interpreter import Interpreter
from dy2st.lowering.results import input_leaves, result, with_opaque_sizes
from dy2st.lowering.values import DTYPES, Number, as_tensor, is_number
from dy2st_runtime.call import effects
from dy2st_runtime.ir.paths import parse
from dy2st_runtime.ir.program import Program
from dy2st_runtime.ir.structure import Leaf
from dy2st_runtime.module import LoadedModule

_KEPT = "state_{}"


def kept_name(program: Program, number: int) -> str:
    """Under which name an exported model has a state slot: that of the model, but for what is no parameter or buffer there."""
    slot = program.states[number]
    return slot.name if slot.kind in ("parameter", "buffer") else _KEPT.format(number)


class LoweredModule(nn.Module):
    """A module whose ``forward`` runs a program in terms of what ``torch.export`` knows.

    Parameters and buffers keep their names. Attributes that the program reads and writes are buffers here, numbers among them
    tensors of no dimension.

    Args:
        loaded: where the state is.
        program: one of its programs.
        checks: whether assertions become part of the result.
        max_growth: see :func:`dy2st.export`.
    """

    def __init__(self, loaded: LoadedModule, program: Program, checks: bool = True, max_growth: int | None = None) -> None:
        super().__init__()
        self.program = program
        self.opaque = False
        """Whether nothing at all is taken to be known of dynamic sizes, as in the program itself."""
        self.context = Interpreter(checks, max_growth, any(_changes(node) for node in program.nodes()))
        self._parameters.update(loaded._parameters)
        self._buffers.update(loaded._buffers)
        self._modules.update(loaded._modules)
        self._non_persistent_buffers_set.update(loaded._non_persistent_buffers_set)
        self._kept: dict[str, str] = {}
        for number, slot in enumerate(program.states):
            if slot.kind in ("parameter", "buffer"):
                continue
            value = loaded.state_value(slot)
            name = self._kept[slot.name] = kept_name(program, number)
            tensor = value.detach().clone() if isinstance(value, torch.Tensor) else as_tensor(value)
            self.register_buffer(name, tensor, persistent=slot.kind != "constant")
        self.training = program.training
        self.forward = self._with_names(arguments.signature(program))

    def _with_names(self, signature: inspect.Signature) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs)
            return self._run(given.args, given.kwargs)

        forward.__signature__ = signature  # type: ignore[attr-defined]  # what inspect looks for
        return forward

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the program's result, with numbers as tensors."""
        check_hazards(self.program.block)
        leaves = input_leaves(self.program, args, kwargs)
        leaves = with_opaque_sizes(self.program, leaves) if self.opaque else leaves
        state = [self._state(number) for number in range(len(self.program.states))]
        outputs = self.context.run_block(self.program.block, [*leaves, *state])
        for effect in self.program.effects:
            self._write(effect, outputs)
        return result(self.program, self.program.out_structure, outputs)

    def _state(self, number: int) -> Any:
        slot = self.program.states[number]
        tensor = self._tensor(slot.name)
        if slot.kind != "number":
            return tensor
        kind = next(kind for kind, dtype in DTYPES.items() if dtype == tensor.dtype)
        return Number(kind, tensor.clone())

    def _tensor(self, name: str) -> torch.Tensor:
        if name in self._kept:
            return self._buffers[self._kept[name]]  # type: ignore[return-value]  # registered above
        path = parse(name)
        owner: nn.Module = self
        for part in path.owner:
            owner = owner._modules[part]  # type: ignore[assignment]  # as in the loaded module
        value: torch.Tensor = getattr(owner, path.name)
        return value

    def _write(self, effect: Any, outputs: Sequence[Any]) -> None:
        """Give a buffer its new contents."""
        slots = {slot.name: slot for slot in self.program.states}
        place = effects.place_of(effect.target, slots)
        name = str(place)
        known = name in self._kept or (name in slots and slots[name].kind in ("parameter", "buffer"))
        if effect.kind != "set" or not isinstance(effect.value, Leaf) or not known:
            raise ExportError(
                f"{self.program.name} changes {effect.target}; an exported model keeps tensors and numbers "
                "that it also reads from call to call, and nothing else; return the value instead",
                self.program.origin,
            )
        value, target = outputs[effect.value.index], self._tensor(name)
        value = as_tensor(value) if is_number(value) else value
        if not isinstance(value, torch.Tensor) or value.dtype != target.dtype or value.shape != target.shape:
            raise ExportError(
                f"{self.program.name} changes the dtype or size of {effect.target}, which an exported model "
                "cannot; give it its final size from the beginning",
                self.program.origin,
            )
        target.copy_(value)


def _changes(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
