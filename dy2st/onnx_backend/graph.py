"""A program as an ONNX graph of values: arguments and state come in, what the root block gives goes out.

What a call changes in place comes out too, as it is afterwards. Where eager would raise, the graph says so or fails to run:
conditions of the root block are one more result, those of branches and loops select an item that is not there.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import fx

from dy2st.errors import ExportError
from dy2st.lowering import arithmetic, onnx_models
from dy2st.lowering.aliasing import facts
from dy2st.lowering.context import check_hazards, place, refuse
from dy2st.lowering.inputs import example
from dy2st.lowering.interpreter import Interpreter
from dy2st.lowering.module import LoweredModule, lower
from dy2st.lowering.preparing import lower_prepared
from dy2st.lowering.refusals import refuse_random_numbers
from dy2st.lowering.values import DTYPES, ListValue, Number, as_tensor, is_number
from dy2st_runtime import control, scalars
from dy2st_runtime.module import LoadedModule
from dy2st_runtime.passes.origins import UntoldError, with_origins
from dy2st_runtime.program import Block, InputSlot, Program, StateSlot
from dy2st_runtime.structure import Const, DictOf, Leaf, TupleOf

aten = torch.ops.aten

_TALKS = (control.print_, control.call_, control.apply_)
_LIST_PLACES = (control.list_get, control.list_set, control.list_pop)
_DIVISIONS = ("operator.truediv", "operator.floordiv", "operator.mod", "divmod")
_TO_WHOLE = ("scalar.to_int", "round", "math.floor", "math.ceil", "math.trunc")
_GROWING = ("operator.mul", "operator.add", "operator.sub", "operator.pow", "operator.lshift", "pow")
_LARGEST = 2.0**62
_TENSOR_DIVISIONS = ("div", "div_", "floor_divide", "floor_divide_", "remainder", "remainder_", "fmod", "fmod_")
_INDEXED = ("embedding", "index_select", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "index_add", "index_add_",
            "index_copy", "index_copy_", "index_fill", "index_fill_", "scatter_reduce", "scatter_reduce_")  # fmt: skip
_UNSEEN = ("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "one_hot", "take", "take_along_dim", "embedding_bag")
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


def made(program: Program, values: Sequence[Any]) -> Graph:
    """The graph of a program.

    Args:
        program: any program.
        values: of its inputs and state, at the call that it is made for: the kinds of numbers are taken from there.

    Raises:
        ExportError: ONNX cannot hold it, with the user's line.
    """
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
    return Graph(model, tuple(module.found.results), tuple(module.found.written), module.found.holds)


# -- what is lowered ---------------------------------------------------------------------------------------------------------


def _check(program: Program) -> None:
    refuse_random_numbers(program, "onnxruntime")
    for slot in _slots(program):
        if slot.dtype is not None and slot.dtype not in _DTYPES:
            raise ExportError(f"{program.origin}: {slot.name!r} has dtype {slot.dtype}, which onnxruntime does not compute with")
    for node in program.nodes():
        if node.target in _TALKS:
            raise refuse(node, f"{getattr(node.target, 'name', node.target)} runs in Python")
        if _operator(node) in _UNSEEN:
            raise refuse(node, f"{node.target} refuses some values, and its ONNX form does not")


def _slots(program: Program) -> list[InputSlot | StateSlot]:
    return [*program.inputs, *program.states]


def _flat(program: Program, values: Sequence[Any]) -> tuple[Program, tuple[Any, ...]]:
    """The program with all state as arguments, and numbers as tensors."""
    try:
        told = with_origins(program)
    except UntoldError as error:
        raise ExportError(f"{program.origin}: {error}") from None
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
class _Found:
    """See :class:`Graph`; not kept in a list of the module, which ``torch.export`` puts back to what it was."""

    results: list[Result] = dataclasses.field(default_factory=list)
    written: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    holds: int | None = None


class _Flat(LoweredModule):
    """Runs a flat program while ``torch.export`` watches.

    Attributes:
        found: what is known once it ran.
    """

    def __init__(self, flat: Program, told: tuple[Any, ...]) -> None:
        super().__init__(LoadedModule([flat], ()), flat)
        self._numbers, self._told = told
        self.context: Interpreter = _Careful(self.context.in_place)
        self.found = _Found()

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
        """The arguments, with sizes of which nothing is known if it must be."""
        from dy2st.lowering.module import _with_opaque_sizes

        return _with_opaque_sizes(self.program, args) if self.opaque else args

    def _collected(self, outputs: Sequence[Any], leaves: Sequence[Any], changed: Sequence[int]) -> Any:
        tensors: list[torch.Tensor] = []
        places: dict[int, int] = {}

        def place_of(value: torch.Tensor) -> int:
            if id(value) not in places:
                places[id(value)] = len(tensors)
                tensors.append(value)
            return places[id(value)]

        self.found.results.clear()
        self.found.written.clear()
        numbered = [as_tensor(value) if is_number(value) else value for value in outputs]
        for output, (value, tensor) in zip(self._told, zip(outputs, numbered)):
            if isinstance(output, int) and output >= 0:
                self.found.results.append(Result("given", output))
            elif isinstance(value, (Number, torch.SymInt)):
                kind = value.kind if isinstance(value, Number) else "int"
                self.found.results.append(Result(kind, place_of(tensor)))
            elif isinstance(value, torch.Tensor):
                which = place_of(numbered[output[0]]) if isinstance(output, tuple) else None
                self.found.results.append(Result("tensor", place_of(value), None, which, value.dtype is torch.bool))
            elif value is None or isinstance(value, (bool, int, float, str)):
                self.found.results.append(Result("constant", value=value))
            else:
                raise self._refused(value)
        self.found.written += [(position, place_of(leaves[position])) for position in changed]
        conditions = self.context.conditions  # type: ignore[attr-defined]  # ours
        self.found.holds = place_of(torch.stack([each.reshape(()) for each in conditions]).all()) if conditions else None
        return tuple(tensor.clone() for tensor in tensors) or (torch.zeros(()),)

    def _refused(self, value: Any) -> ExportError:
        what = "a list whose length is known only when it runs" if isinstance(value, ListValue) else f"a {type(value).__name__}"
        return ExportError(f"{self.program.origin}: a result is {what}")


# -- what eager would refuse -------------------------------------------------------------------------------------------------


class _Careful(Interpreter):
    """Lowers what a program asserts, and what eager's operators refuse, to conditions of the graph.

    Attributes:
        conditions: of the root block.
    """

    def __init__(self, in_place: bool) -> None:
        super().__init__(True, None, in_place)
        self.conditions: list[torch.Tensor] = []
        self._blocks: list[list[tuple[fx.Node, torch.Tensor]]] = []

    def run_block(self, block: Block, inputs: Sequence[Any]) -> list[Any]:
        self._blocks.append([])
        try:
            outputs = super().run_block(block, inputs)
        finally:
            found = self._blocks.pop()
        if not self._blocks:
            self.conditions += [condition for _, condition in found]
            return outputs
        return _tied(outputs, found) if found else outputs

    def assert_true(self, node: fx.Node, condition: torch.Tensor, text: str) -> None:
        self._blocks[-1].append((node, condition))

    def assertion(self, node: fx.Node, condition: Any) -> None:
        super().assertion(node, condition)
        known = arithmetic.truth(condition) if condition is not None else True
        if isinstance(known, Number) and known.checks:
            self.assert_true(node, known.tensor, "")

    def _operation(self, node: fx.Node, resolve: Callable[[Any], Any]) -> Any:
        target, args = node.target, self._arguments(node, resolve)
        number = scalars.NAMES.get(target)  # type: ignore[arg-type]  # whatever it is
        if number in _TO_WHOLE and isinstance(args[0], Number) and args[0].kind == "float":
            self.assert_true(node, args[0].tensor.abs() < _LARGEST, "")
        if number in _GROWING and all(map(_may_be_large, args)):
            return self._bounded(node, super()._operation(node, resolve), args)
        if number in _DIVISIONS and _is_whole(args[1]):
            divisor = args[1]
            self.assert_true(node, divisor.tensor != 0, "")
            safe = dataclasses.replace(divisor, tensor=torch.where(divisor.tensor == 0, 1, divisor.tensor))
            return arithmetic.calculate(cast(Any, target), (args[0], safe))
        if target in _LIST_PLACES and isinstance(args[0], ListValue) and args[0].items is None:
            self._check_place(node, args[1] if len(args) > 1 else -1, as_tensor(args[0].length))
        name = _operator(node)
        if name == "select" and isinstance(args[2], Number):
            self._check_place(node, args[2], as_tensor(args[0].shape[args[1]]))
        if name in _INDEXED:
            index = next(value for value in args[1:] if isinstance(value, torch.Tensor) and not value.is_floating_point())
            self.assert_true(node, (index >= 0).all(), "")
            if name == "embedding":
                self.assert_true(node, (index < args[0].shape[0]).all(), "")
        if name in _TENSOR_DIVISIONS and (whole := _whole_divisor(args)) is not None:
            self.assert_true(node, (whole != 0).all(), "")
            safe_divisor = torch.where(whole == 0, 1, whole).to(whole.dtype)
            return super()._operation(node, lambda value: _replaced(resolve(value), whole, safe_divisor))
        return super()._operation(node, resolve)

    def _arguments(self, node: fx.Node, resolve: Callable[[Any], Any]) -> tuple[Any, ...]:
        found: tuple[Any, ...] = () if any(isinstance(value, Block) for value in node.args) else resolve(node.args)
        return found

    def _bounded(self, node: fx.Node, made: Any, args: Sequence[Any]) -> Any:
        """A whole number that Python would let grow beyond 64 bits."""
        if isinstance(made, Number) and made.kind == "int":
            function: Any = node.target
            about = function(*(as_tensor(value).to(torch.float64) for value in args))
            self.assert_true(node, about.abs() < _LARGEST, "")
        return made

    def _check_place(self, node: fx.Node, index: Any, size: torch.Tensor) -> None:
        position = as_tensor(index, "int")
        self.assert_true(node, torch.logical_and(position < size, position >= -size), "")


def _operator(node: fx.Node) -> str | None:
    target = node.target
    return target._schema.name.removeprefix("aten::") if isinstance(target, torch._ops.OpOverload) else None


def _may_be_large(value: Any) -> bool:
    """Whether adding a number again and again may leave 64 bits before the user's patience ends."""
    return isinstance(value, Number) or (isinstance(value, int) and abs(value) > 2**31)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Number) and value.kind != "float"


def _whole_divisor(args: Sequence[Any]) -> torch.Tensor | None:
    """The divisor of a division that only whole numbers make, where it is a tensor."""
    divisor = args[1] if len(args) > 1 else None
    if isinstance(divisor, Number) and divisor.kind != "float":
        return divisor.tensor
    return divisor if isinstance(divisor, torch.Tensor) and not divisor.is_floating_point() else None


def _replaced(value: Any, old: Any, new: Any) -> Any:
    if value is old:
        return new
    if isinstance(value, Number) and value.tensor is old:
        return dataclasses.replace(value, tensor=new)
    return type(value)(_replaced(item, old, new) for item in value) if isinstance(value, (tuple, list)) else value


def _tied(outputs: list[Any], found: Sequence[tuple[fx.Node, torch.Tensor]]) -> list[Any]:
    """The outputs of a block, one of which cannot be computed where a condition is false: it takes an item that is not there.

    Raises:
        ExportError: the block has no tensor to tie them to.
    """
    holds = torch.stack([condition.reshape(()) for _, condition in found]).all()
    missing = torch.logical_not(holds).to(torch.int64).reshape(1)
    for position, value in enumerate(outputs):
        tensor = value.tensor if isinstance(value, Number) and value.form is None else value
        if not isinstance(tensor, torch.Tensor):
            continue
        one = torch.index_select(torch.ones(1, dtype=tensor.dtype), 0, missing).reshape(())
        tied = torch.logical_and(tensor, one) if tensor.dtype is torch.bool else tensor * one
        made = list(outputs)
        made[position] = tied if tensor is value else dataclasses.replace(value, tensor=tied)
        return made
    raise ExportError(f"{place(found[0][0])}what is checked here is in a branch or loop that gives no tensor")


# -- on disk -----------------------------------------------------------------------------------------------------------------


def to_text(graph: Graph) -> str:
    """What is kept beside the model."""
    results = [dataclasses.astuple(result) for result in graph.results]
    return json.dumps({"results": results, "written": graph.written, "holds": graph.holds})


def from_text(model: bytes, text: str) -> Graph:
    """The inverse of :func:`to_text`."""
    found = json.loads(text)
    results = tuple(Result(*result) for result in found["results"])
    return Graph(model, results, tuple((a, b) for a, b in found["written"]), found["holds"])
