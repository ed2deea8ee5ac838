"""What eager would refuse, as conditions of the graph.

Those of the root block are one more result. Those of a branch or loop select an item that is not there, and the block around asks
for what the branch or loop gives: onnxruntime leaves out what nobody asks for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import fx

from dy2st.errors import ExportError
from dy2st.lowering import arithmetic
from dy2st.lowering.context import location, refuse
from dy2st.lowering.interpreter import Interpreter
from dy2st.lowering.values import ListValue, Number, as_tensor
from dy2st_runtime.ir.program import Block
from dy2st_runtime.primitives import control, scalars

_LIST_PLACES = (control.list_get, control.list_set, control.list_pop)
_DIVISIONS = ("operator.truediv", "operator.floordiv", "operator.mod", "divmod")
_TO_WHOLE = ("scalar.to_int", "round", "math.floor", "math.ceil", "math.trunc")
_GROWING = ("operator.mul", "operator.add", "operator.sub", "operator.pow", "operator.lshift", "pow")
_LARGEST = 2.0**62
_TENSOR_DIVISIONS = ("div", "div_", "floor_divide", "floor_divide_", "remainder", "remainder_", "fmod", "fmod_")
_INDEXED = ("embedding", "index_select", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "index_add", "index_add_",
            "index_copy", "index_copy_", "index_fill", "index_fill_", "scatter_reduce", "scatter_reduce_")  # fmt: skip
_BY_TENSORS = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put")
_OF_SOME = (
    "max", "min", "amax", "amin", "aminmax", "argmax", "argmin", "mean", "nanmean", "std", "std_mean", "var", "var_mean", "any",
    "median", "nanmedian", "mode", "kthvalue", "quantile", "norm", "linalg_vector_norm", "logsumexp", "mse_loss", "l1_loss",
    "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
)  # fmt: skip
"""What refuses tensors without entries, or gives something of its own for them, and gives something else in onnxruntime."""


class Careful(Interpreter):
    """Lowers what a program asserts, and what eager's operators refuse, to conditions of the graph.

    Attributes:
        conditions: of the root block.
    """

    def __init__(self, in_place: bool) -> None:
        super().__init__(True, None, in_place)
        self.conditions: list[torch.Tensor] = []
        self._blocks: list[list[tuple[fx.Node, torch.Tensor]]] = []
        self._tied = False
        """Whether a block inside of the operation that is lowered has conditions."""

    def run_block(self, block: Block, inputs: Sequence[Any]) -> list[Any]:
        self._blocks.append([])
        try:
            outputs = super().run_block(block, inputs)
        finally:
            result = self._blocks.pop()
        if not self._blocks:
            self.conditions += [condition for _, condition in result]
            return outputs
        self._tied = self._tied or bool(result)
        return _tied(outputs, result) if result else outputs

    def assert_true(self, node: fx.Node, condition: torch.Tensor, text: str) -> None:
        self._blocks[-1].append((node, condition))

    def assertion(self, node: fx.Node, condition: Any) -> None:
        super().assertion(node, condition)
        known = arithmetic.truth(condition) if condition is not None else True
        if isinstance(known, Number) and known.checks:
            self.assert_true(node, known.tensor, "")

    def _operation(self, node: fx.Node, resolve: Callable[[Any], Any]) -> Any:
        result = self._lowered(node, resolve)
        target = node.target
        if not node.users and isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable:
            self._ask_for(node, result)  # it is there for what it may raise
        return result

    def _ask_for(self, node: fx.Node, obj: Any) -> None:
        """Have what an operation gives computed, whoever uses it."""
        for value in obj if isinstance(obj, (tuple, list)) else (obj,):
            tensor = value.tensor if isinstance(value, Number) else value
            if isinstance(tensor, torch.Tensor):
                one = tensor.reshape(-1)[:1]
                self.assert_true(node, torch.logical_or(one == one, one != one).all(), "")

    def _lowered(self, node: fx.Node, resolve: Callable[[Any], Any]) -> Any:
        if any(isinstance(value, Block) for value in node.args):
            return self._with_blocks(node, resolve)
        target, args = node.target, resolve(node.args)
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
        self._check_places(node, args)
        if operator_of(node) in _TENSOR_DIVISIONS and (whole := _whole_divisor(args)) is not None:
            self.assert_true(node, (whole != 0).all(), "")
            safe_divisor = torch.where(whole == 0, 1, whole).to(whole.dtype)
            return super()._operation(node, lambda value: _replaced(resolve(value), whole, safe_divisor))
        return super()._operation(node, resolve)

    def _with_blocks(self, node: fx.Node, resolve: Callable[[Any], Any]) -> Any:
        """Return a branch or loop: what is checked in it is asked for, whoever uses what it gives."""
        around, self._tied = self._tied, False
        try:
            result = super()._operation(node, resolve)
            if self._tied:
                self._ask_for(node, result)
        finally:
            self._tied = around
        return result

    def _check_places(self, node: fx.Node, args: tuple[Any, ...]) -> None:
        """Check that items and entries that are taken or replaced are there."""
        if node.target in _LIST_PLACES and isinstance(args[0], ListValue):
            index = args[1] if len(args) > 1 else -1
            if args[0].items is None:
                self._check_place(node, index, as_tensor(args[0].length))
            elif isinstance(index, (Number, torch.SymInt)):
                self._check_place(node, index, as_tensor(len(args[0].items)))
        name = operator_of(node)
        if name == "select" and isinstance(args[0], torch.Tensor):
            size = args[0].shape[args[1]]
            if isinstance(args[2], Number) or not isinstance(size, int):
                self._check_place(node, args[2], as_tensor(size))
        elif name in _INDEXED:
            index = next(value for value in args[1:] if isinstance(value, torch.Tensor) and not value.is_floating_point())
            size = args[0].shape[0 if name == "embedding" else args[1]] if args[0].dim() else 1
            self.assert_true(node, torch.logical_and(index >= 0, index < as_tensor(size)).all(), "")
        elif name in _BY_TENSORS:
            self._check_indices(node, args[0], args[1])
        elif name in _OF_SOME and any(size == 0 for size in args[0].shape if isinstance(size, int)):
            raise refuse(node, f"{name} of a tensor without entries is something else in onnxruntime")
        elif name in _OF_SOME and not all(isinstance(size, int) for size in args[0].shape):
            self.assert_true(node, as_tensor(args[0].numel()) > 0, "")

    def _check_indices(self, node: fx.Node, tensor: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> None:
        dim = 0
        for index in indices:
            if index is not None and index.dtype in (torch.bool, torch.uint8):
                dim += index.dim()
                continue
            if index is not None:
                size = as_tensor(tensor.shape[dim])
                self.assert_true(node, torch.logical_and(index < size, index >= -size).all(), "")
            dim += 1

    def _bounded(self, node: fx.Node, obj: Any, args: Sequence[Any]) -> Any:
        """Return a whole number that Python would let grow beyond 64 bits."""
        if isinstance(obj, Number) and obj.kind == "int":
            function: Any = node.target
            about = function(*(as_tensor(value).to(torch.float64) for value in args))
            self.assert_true(node, about.abs() < _LARGEST, "")
        return obj

    def _check_place(self, node: fx.Node, index: Any, size: torch.Tensor) -> None:
        position = as_tensor(index, "int")
        self.assert_true(node, torch.logical_and(position < size, position >= -size), "")


def operator_of(node: fx.Node) -> str | None:
    """Return the name of the operator of PyTorch that a node calls, if it calls one."""
    target = node.target
    return target._schema.name.removeprefix("aten::") if isinstance(target, torch._ops.OpOverload) else None


def _may_be_large(value: Any) -> bool:
    """Tell whether adding a number again and again may leave 64 bits before the user's patience ends."""
    return isinstance(value, Number) or (isinstance(value, int) and abs(value) > 2**31)


def _is_whole(value: Any) -> bool:
    return isinstance(value, Number) and value.kind != "float"


def _whole_divisor(args: Sequence[Any]) -> torch.Tensor | None:
    """Return the divisor of a division that only whole numbers make, where it is a tensor."""
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


def _tied(outputs: list[Any], results: Sequence[tuple[fx.Node, torch.Tensor]]) -> list[Any]:
    """Return the outputs of a block, one of which cannot be computed where a condition is false: it takes an item that is not
    there.

    Raises:
        ExportError: the block has no tensor to tie them to.
    """
    holds = torch.stack([condition.reshape(()) for _, condition in results]).all()
    missing = torch.logical_not(holds).to(torch.int64).reshape(1)
    for position, value in enumerate(outputs):
        tensor = value.tensor if isinstance(value, Number) and value.form is None else value
        if not isinstance(tensor, torch.Tensor):
            continue
        one = torch.index_select(torch.ones(1, dtype=tensor.dtype), 0, missing).reshape(())
        tied = torch.logical_and(tensor, one) if tensor.dtype is torch.bool else tensor * one
        collected = list(outputs)
        collected[position] = tied if tensor is value else dataclasses.replace(value, tensor=tied)
        return collected
    raise ExportError("what is checked here is in a branch or loop that gives no tensor", location(results[0][0]))
