"""Which values of a program may share memory, and which memory is written.

    a = aten.view(x, [-1])      {x, a, c}: written, by add_
    b = aten.mul(x, 2)          {b}
    c = aten.add_(a, 1)

Values that may share memory are in one group, in all blocks together and whatever path is taken; what is unknown joins. The
inputs of the program are one group: a caller may pass a tensor and a view of it. A second set of groups tells which values may be
the same tensor object. What an operator says about its arguments is
believed where it has a kernel of its own; what is made of other operators may give back an argument without saying so.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import torch
from torch import fx

from dy2st_runtime.ir.program import Block, nested_blocks, node_blocks
from dy2st_runtime.primitives import control, modes

_OUTSIDE = "outside"
"""Stands for the memory that was there before the call."""

_NEW_RESULTS = frozenset(
    {
        "batch_norm", "instance_norm",
        "linear", "matmul", "conv1d", "conv2d", "conv3d", "layer_norm", "group_norm", "rms_norm", "softmax",
        "log_softmax", "square", "max_pool2d", "max_pool1d", "cross_entropy_loss", "binary_cross_entropy_with_logits",
        "scaled_dot_product_attention", "multiply", "divide", "subtract", "greater", "less", "greater_equal",
        "less_equal", "not_equal", "true_divide", "std", "var", "vstack", "hstack", "dstack", "column_stack", "argsort",
        "outer", "one_hot", "__and__", "__or__", "__xor__", "concat", "concatenate", "clip", "absolute", "where", "isclose",
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "conv_transpose1d", "conv_transpose2d", "linalg_inv", "inverse",
        "isfinite", "linalg_norm", "norm", "std_mean", "var_mean", "relu6", "selu", "log_sigmoid", "floor_divide",
    }
)  # fmt: skip
"""Made of other operators, and yet never give back the memory of an argument."""

_VIEWS = frozenset(
    {
        "t", "transpose", "permute", "view", "expand", "select", "slice", "unsqueeze", "squeeze", "narrow", "chunk", "split",
        "split_with_sizes", "unbind", "diagonal", "detach", "alias", "unfold", "as_strided",
    }
)  # fmt: skip
"""Give a new view of an argument, whatever it is like."""

_WRITTEN_UNTOLD = {"aten::batch_norm": (3, 4, 5), "aten::instance_norm": (3, 4, 5), "aten::_batch_norm_impl_index": (3, 4, 5)}
"""Operators that write arguments without saying so: the positions, then the one of the flag that makes them write."""

_NO_SHARING = frozenset(
    {
        control.list_len, control.list_order, control.list_find, control.format_, control.print_, control.assert_, control.raise_,
    }
)  # fmt: skip
_PYTHON = frozenset({control.call_, control.apply_})


def writes(node: fx.Node) -> list[fx.Node]:
    """Return the tensors whose memory an operation without blocks writes; changing a list writes none."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return list(_nodes(_written_arguments(node, target)))
    return list(node.all_input_nodes) if target in _PYTHON and not keeps(node) else []


def keeps(node: fx.Node) -> bool:
    """Tell whether it is Python that takes hold of its arguments, and does nothing to them: such a callable says so itself."""
    return node.target is control.call_ and getattr(node.args[0], "only_keeps", False)


def is_quiet(node: fx.Node) -> bool:
    """Tell whether an operation, with what is in its blocks, neither writes a tensor nor changes a mode nor runs Python."""
    if node.target in modes.TARGETS or node.target in _PYTHON or node.target is control.transform_:
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return not writes(node)
    return all(is_quiet(inner) for block in node_blocks(node) for inner in block.graph.nodes if inner.op == "call_function")


class Aliasing:
    """The groups of values of one program.

    Args:
        root: its root block. The answers are for the blocks as they are now, and as :meth:`unite` says.
        inputs_apart: whether it is known that no two inputs of the program share memory.
    """

    def __init__(self, root: Block, inputs_apart: bool = False) -> None:
        self._memory, self._objects = _Groups(), _Groups()
        if not inputs_apart:
            self._join(_OUTSIDE, *root.inputs)
        for node in _operations(root):
            self._visit(node)
        for value in _nodes(root.outputs):
            self._note_escape(value)
        for node in _operations(root):
            for value in writes(node):
                self._memory.mark("written", value)
            for value in node.all_input_nodes if node.target in _PYTHON else ():
                self._note_escape(value)
            if node.target is control.call_ and getattr(node.args[0], "writes_outside", False):
                self._memory.mark("written", _OUTSIDE)  # by what it finds itself

    def share(self, a: fx.Node, b: fx.Node) -> bool:
        """Tell whether two values may share memory."""
        return self._memory.find(a) == self._memory.find(b)

    def is_written(self, value: fx.Node) -> bool:
        """Tell whether some operation of the program may write the memory of a value."""
        return self._memory.is_marked("written", value)

    def escapes(self, value: fx.Node) -> bool:
        """Tell whether the caller, or Python that the program calls, could tell if this were one tensor with another like it.

        For a view of what is there anyway that takes the very object; otherwise any part of its memory is enough.
        """
        return (self._objects if is_view(value) else self._memory).is_marked("escaped", value)

    def memory_escapes(self, value: fx.Node) -> bool:
        """Tell whether the caller, or Python that the program calls, may get hold of the memory of a value."""
        return self._memory.is_marked("escaped", value)

    def is_new(self, node: fx.Node) -> bool:
        """Tell whether an operation gives memory that no argument has."""
        return isinstance(node.target, torch._ops.OpOverload) and not shared_arguments(node, node.target)

    def unite(self, a: fx.Node, b: fx.Node) -> None:
        """Take note that one of two values stands for the other from now on."""
        self._join(a, b)

    # -- groups --------------------------------------------------------------------------------------------------------------

    def _join(self, *values: Hashable) -> None:
        self._memory.join(*values)
        self._objects.join(*values)

    def _note_escape(self, value: fx.Node) -> None:
        self._memory.mark("escaped", value)
        self._objects.mark("escaped", value)

    def _visit(self, node: fx.Node) -> None:
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            (self._memory.join if is_view(node) else self._join)(node, *_nodes(shared_arguments(node, target)))
        elif target is operator.getitem:
            self._visit_item(node)
        elif target in (control.if_, control.while_):
            self._visit_control(node)
        elif target is control.transform_:
            inner = [value for block in node_blocks(node) for value in (*block.inputs, *_nodes(block.outputs))]
            self._join(node, *node.all_input_nodes, *inner)
        elif target is control.call_ and getattr(node.args[0], "passes_through", False):
            for position, value in enumerate(node.args[1]):  # type: ignore[arg-type]  # the arguments of the call
                self._join((node, position), value)
        elif target in _PYTHON:
            self._join(node, _OUTSIDE, *node.all_input_nodes)
        elif isinstance(target, control.Control) and target not in _NO_SHARING:
            self._join(node, *node.all_input_nodes)

    def _visit_item(self, node: fx.Node) -> None:
        source, position = node.args
        if isinstance(source, fx.Node) and isinstance(position, int) and _has_parts(source):
            self._join(node, (source, position))
            if source.target is control.call_ and position >= len(source.args[1]):  # type: ignore[arg-type]
                self._join(node, _OUTSIDE)
        else:
            self._join(node, *node.all_input_nodes)

    def _visit_control(self, node: fx.Node) -> None:
        is_loop = node.target is control.while_
        carried: Any = node.args[2] if is_loop else ()
        operands: Any = node.args[3]
        results = 0
        for block in node_blocks(node):
            for inner, outer in zip(block.inputs, (*carried, *operands)):
                self._join(inner, *_nodes([outer]))
            outputs = block.outputs[1:] if is_loop else block.outputs
            results = len(outputs)
            for position, value in enumerate(outputs):
                self._join((node, position), *_nodes([value]), *(block.inputs[position : position + 1] if is_loop else ()))
        if any(user.target is not operator.getitem for user in node.users):
            self._join(node, *((node, position) for position in range(results)))


class _Groups:
    """Sets of values that only grow together; a mark on a value is one on its whole group."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}
        self._marks: set[tuple[str, Hashable]] = set()

    def find(self, value: Hashable) -> Hashable:
        result = value
        while (parent := self._parents.get(result, result)) != result:
            result = parent
        while value != result:  # the way is long where many were joined one by one
            self._parents[value], value = result, self._parents[value]
        return result

    def join(self, *values: Hashable) -> None:
        first = self.find(values[0])
        for value in values[1:]:
            other = self.find(value)
            if other != first:
                self._parents[other] = first
                self._marks |= {(name, first) for name in ("written", "escaped") if (name, other) in self._marks}

    def mark(self, name: str, value: Hashable) -> None:
        self._marks.add((name, self.find(value)))

    def is_marked(self, name: str, value: Hashable) -> bool:
        return (name, self.find(value)) in self._marks


def _has_parts(node: fx.Node) -> bool:
    """Tell whether each result of an operation shares memory with others than all of them."""
    of_call = node.target is control.call_ and getattr(node.args[0], "passes_through", False)
    return node.target in (control.if_, control.while_) or of_call


def _operations(root: Block) -> Iterator[fx.Node]:
    return (node for block in nested_blocks(root) for node in block.graph.nodes if node.op == "call_function")


def is_view(node: fx.Node) -> bool:
    """Tell whether an operation always gives a new view of its argument, never the argument."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.name().removeprefix("aten::").partition(".")[0] in _VIEWS


def _nodes(values: Any) -> Iterator[fx.Node]:
    """Return the nodes in a nest of values."""
    results: list[fx.Node] = []
    fx.node.map_arg(tuple(values) if isinstance(values, Iterable) else values, lambda node: results.append(node) or node)  # type: ignore[func-returns-value]
    return iter(results)


def _written_arguments(node: fx.Node, target: torch._ops.OpOverload[Any, Any]) -> list[Any]:
    untold = _WRITTEN_UNTOLD.get(target.name().partition(".")[0])
    if untold is not None:
        *positions, flag = untold
        writing = len(node.args) <= flag or node.args[flag] is not False
        return [node.args[position] for position in positions if position < len(node.args)] if writing else []
    return [value for argument, value in _arguments(node, target) if argument.alias_info and argument.alias_info.is_write]


def shared_arguments(node: fx.Node, target: torch._ops.OpOverload[Any, Any]) -> list[Any]:
    """Return the arguments whose memory the result may have."""
    schema = target._schema
    told = any(result.alias_info for result in schema.returns)
    if told:
        return [value for argument, value in _arguments(node, target) if argument.alias_info]
    name = target.name()
    if name.removeprefix("aten::").partition(".")[0] in _NEW_RESULTS or schema.overload_name == "out":
        return []
    believed = name.startswith(("aten::", "prims::")) and not _is_composite(name)
    undeclared = torch.Tag.maybe_aliasing_or_mutating in target.tags
    return [] if believed and not undeclared else [value for _, value in _arguments(node, target)]


def _is_composite(name: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))


def _arguments(node: fx.Node, target: torch._ops.OpOverload[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the arguments of a call beside their declarations."""
    for position, argument in enumerate(target._schema.arguments):
        if position < len(node.args):
            yield argument, node.args[position]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]
