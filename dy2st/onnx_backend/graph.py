"""A program as an ONNX graph of values: arguments and state come in, what the root block gives goes out.

What a call changes in place comes out too, as it is afterwards. Where eager would raise, the graph says so or fails to run:
conditions of the root block are one more result, those of branches and loops select an item that is not there.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dy2st.errors import ExportError
from dy2st.exporting import onnx_models
from dy2st.exporting.inputs import example
from dy2st.exporting.preparing import lower_prepared
from dy2st.exporting.refusals import refuse_random_numbers
from dy2st.lowering.aliasing import facts
from dy2st.lowering.context import check_hazards, refuse
from dy2st.lowering.export import lower
from dy2st.lowering.interpreter import Interpreter
from dy2st.lowering.module import LoweredModule
from dy2st.lowering.results import with_opaque_sizes
from dy2st.lowering.values import DTYPES, ListValue, Number, as_tensor, is_number
from dy2st.onnx_backend.careful import Careful, operator_of
from dy2st.onnx_backend.overlaps import overlapping
from dy2st_runtime.analyses.provenance import UntoldError, with_provenance
from dy2st_runtime.inference import without_backward
from dy2st_runtime.ir.program import InputSlot, Program, StateSlot
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, TupleOf
from dy2st_runtime.module import LoadedModule
from dy2st_runtime.primitives import control

aten = torch.ops.aten

_TALKS = (control.print_, control.call_, control.apply_)
_UNSEEN = (
    "cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "one_hot", "take", "take_along_dim", "embedding_bag", "bincount",
)  # fmt: skip
"""Operators that refuse some data, which the ONNX forms of them do not."""

_DTYPES = frozenset(
    {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32,
     torch.int64}
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Result:
    """One output of a program.

    Attributes:
        kind: ``"tensor"``, ``"bool"``, ``"int"``, ``"float"``, ``"given"`` for an input itself, or ``"constant"``.
        index: of the result of the graph, or of the input.
        value: of a constant.
        which: the result of the graph that tells which input it is, if it may be one.
        boolean: whether it is a tensor of truth values.
    """

    kind: str
    index: int = 0
    value: Any = None
    which: int | None = None
    boolean: bool = False


@dataclasses.dataclass(frozen=True)
class Graph:
    """A program in ONNX.

    Attributes:
        model: the ONNX model, as bytes; its inputs are those of the root block, by position.
        results: the outputs of the root block.
        written: the inputs that change in place, each with the result that it then holds.
        holds: the result that tells whether nothing was to be raised, if anything may be.
    """

    model: bytes
    results: tuple[Result, ...]
    written: tuple[tuple[int, int], ...]
    holds: int | None


def create(program: Program, values: Sequence[Any]) -> Graph:
    """Return the graph of a program.

    Args:
        program: any program.
        values: of its inputs and state, at the call that it is made for: the kinds of numbers are taken from there.

    Raises:
        ExportError: ONNX cannot hold it, with the user's line.
    """
    program = without_backward(program)
    _check(program)
    return lower_prepared(program, lambda prepared: _written(prepared, values))


def _written(program: Program, values: Sequence[Any]) -> Graph:
    flat, told = _flat(program, values)
    module = _Flat(flat, told)
    lowered = lower(module, *example(flat))
    if lowered.notes:
        raise ExportError(lowered.notes[0])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.onnx")
        onnx_models.write(lowered, flat, path, None)
        model = Path(path).read_bytes()
    return Graph(model, tuple(module.outputs.results), tuple(module.outputs.written), module.outputs.holds)


# -- what is lowered ---------------------------------------------------------------------------------------------------------


def _check(program: Program) -> None:
    refuse_random_numbers(program, "onnxruntime")
    for slot in _slots(program):
        if slot.dtype is not None and slot.dtype not in _DTYPES:
            raise ExportError(f"{slot.name!r} has dtype {slot.dtype}, which onnxruntime does not compute with", program.origin)
    for node in program.nodes():
        if node.target in _TALKS:
            raise refuse(node, f"{getattr(node.target, 'name', node.target)} runs in Python")
        if operator_of(node) in _UNSEEN:
            raise refuse(node, f"{node.target} refuses some values, and its ONNX form does not")
    overlap = overlapping(program.block)
    if overlap is not None:
        raise refuse(overlap, f"{overlap.target} may read a part of what it writes, which PyTorch refuses")


def _slots(program: Program) -> list[InputSlot | StateSlot]:
    return [*program.inputs, *program.states]


def _flat(program: Program, values: Sequence[Any]) -> tuple[Program, tuple[Any, ...]]:
    """Return the program with all state as arguments, and numbers as tensors."""
    try:
        told = with_provenance(program)
    except UntoldError as error:
        raise ExportError(f"{error}", program.origin) from None
    program = told.program
    slots = []
    for number, (slot, value) in enumerate(zip(_slots(program), values, strict=True)):
        dtype = slot.dtype if slot.dtype is not None else DTYPES[type(value).__name__]
        slots.append(InputSlot(f"input_{number}", dtype, slot.shape))
    leaves = TupleOf(tuple(Leaf(number) for number in range(len(slots))))
    flat = dataclasses.replace(
        program,
        inputs=tuple(slots),
        states=(),
        in_structure=TupleOf((leaves, DictOf((), ()))),
        out_structure=Const(None),
        effects=(),
        parameters=(),
    )
    numbers = tuple(slot.dtype is None for slot in _slots(program))
    return flat, (numbers, told.origins)


@dataclasses.dataclass
class _Outputs:
    """See :class:`Graph`; not kept in a list of the module, which ``torch.export`` puts back to what it was."""

    results: list[Result] = dataclasses.field(default_factory=list)
    written: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    holds: int | None = None


class _Flat(LoweredModule):
    """Runs a flat program while ``torch.export`` traces.

    Attributes:
        outputs: what is known once it ran.
    """

    def __init__(self, flat: Program, told: tuple[Any, ...]) -> None:
        super().__init__(LoadedModule([flat], ()), flat)
        self._numbers, self._told = told
        self.context: Interpreter = Careful(self.context.in_place)
        self.outputs = _Outputs()

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        check_hazards(self.program.block)
        leaves: list[Any] = list(self.given(args))
        for position, is_number_ in enumerate(self._numbers):
            if is_number_:
                kind = next(kind for kind, dtype in DTYPES.items() if dtype == leaves[position].dtype)
                leaves[position] = Number(kind, leaves[position].clone())
        changed = sorted(facts(self.program.block).tensors)
        for position in changed:
            leaves[position] = leaves[position].clone()
        self.context.conditions.clear()  # type: ignore[attr-defined]  # ours
        outputs = self.context.run_block(self.program.block, leaves)
        return self._collected(outputs, leaves, changed)

    def given(self, args: Sequence[Any]) -> Sequence[Any]:
        """Return the arguments, with sizes of which nothing is known if it must be."""
        return with_opaque_sizes(self.program, args) if self.opaque else args

    def _collected(self, outputs: Sequence[Any], leaves: Sequence[Any], changed: Sequence[int]) -> Any:
        tensors: list[torch.Tensor] = []
        places: dict[int, int] = {}

        def place_of(value: torch.Tensor) -> int:
            if id(value) not in places:
                places[id(value)] = len(tensors)
                tensors.append(value)
            return places[id(value)]

        self.outputs.results.clear()
        self.outputs.written.clear()
        numbered = [as_tensor(value) if is_number(value) else value for value in outputs]
        for output, (value, tensor) in zip(self._told, zip(outputs, numbered)):
            if isinstance(output, int) and output >= 0:
                self.outputs.results.append(Result("given", output))
            elif isinstance(value, (Number, torch.SymInt)):
                kind = value.kind if isinstance(value, Number) else "int"
                self.outputs.results.append(Result(kind, place_of(tensor)))
            elif isinstance(value, torch.Tensor):
                which = place_of(numbered[output[0]]) if isinstance(output, tuple) else None
                self.outputs.results.append(Result("tensor", place_of(value), None, which, value.dtype is torch.bool))
            elif value is None or isinstance(value, (bool, int, float, str)):
                self.outputs.results.append(Result("constant", value=value))
            else:
                raise self._refused(value)
        self.outputs.written += [(position, place_of(leaves[position])) for position in changed]
        conditions = self.context.conditions  # type: ignore[attr-defined]  # ours
        self.outputs.holds = place_of(torch.stack([each.reshape(()) for each in conditions]).all()) if conditions else None
        return tuple(tensor.clone() for tensor in tensors) or (torch.zeros(()),)

    def _refused(self, value: Any) -> ExportError:
        what = "a list whose length is known only when it runs" if isinstance(value, ListValue) else f"a {type(value).__name__}"
        return ExportError(f"a result is {what}", self.program.origin)


# -- on disk -----------------------------------------------------------------------------------------------------------------


def to_text(graph: Graph) -> str:
    """Return what is kept beside the model."""
    results = [dataclasses.astuple(result) for result in graph.results]
    return json.dumps({"results": results, "written": graph.written, "holds": graph.holds})


def from_text(model: bytes, text: str) -> Graph:
    """Return the inverse of :func:`to_text`."""
    value = json.loads(text)
    results = tuple(Result(*result) for result in value["results"])
    return Graph(model, results, tuple((a, b) for a, b in value["written"]), value["holds"])
