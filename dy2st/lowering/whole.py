"""A program in torch's operators for branches and loops, for a compiler in the same process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental import _config as shape_settings

from dy2st.errors import ExportError
from dy2st.lowering.interpreter import Interpreter
from dy2st.lowering.values import as_tensor, is_number
from dy2st_runtime.ir.program import Program


class _Flat(nn.Module):
    """Runs the root block on values for its inputs."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.context = Interpreter(checks=True, max_growth=None, in_place=False)

    def forward(self, *values: Any) -> tuple[torch.Tensor, ...]:
        """Return the outputs, with numbers as tensors."""
        outputs = self.context.run_block(self.program.block, values)
        return tuple(as_tensor(value).clone() if is_number(value) else _tensor(value) for value in outputs)


def _tensor(value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise ExportError(f"a result is a {type(value).__name__}")
    return value


def lower(program: Program, values: Sequence[Any]) -> fx.GraphModule:
    """Write a program with ``torch.cond`` and ``while_loop``; see :data:`dy2st_runtime.executors.whole.Lower`.

    Args:
        program: it does nothing but compute tensors.
        values: of its inputs, tensors all of them.

    Raises:
        ExportError: it does more, or carries what those operators cannot.
    """
    module = _Flat(program)
    settings: Any = shape_settings  # its own type does not know of patch
    with torch.no_grad(), settings.patch(backed_size_oblivious=True):
        exported = torch.export.export(module, tuple(values), dynamic_shapes=(_dims(program),), strict=False)
    if module.context.notes:
        raise ExportError(next(iter(module.context.notes)))
    graph: fx.GraphModule = exported.graph_module
    return graph


def _dims(program: Program) -> tuple[dict[int, Any], ...]:
    """Return the sizes that may differ from call to call, for each input."""
    known: dict[str, Any] = {}
    slots: list[Any] = [*program.inputs, *program.states]
    return tuple(
        {
            dim: known.setdefault(size, torch.export.Dim(f"size_{size}", min=0))
            for dim, size in enumerate(slot.shape)
            if isinstance(size, str)
        }
        for slot in slots
    )
