"""Blocks prepared for running: for each operation what it calls, what it reads, and what nobody reads after it."""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing, is_view, keeps, writes
from dy2st_runtime.executors import python
from dy2st_runtime.executors.python.factories import below_autograd, is_factory
from dy2st_runtime.executors.python.operations import OPERATIONS
from dy2st_runtime.executors.python.wide_numbers import OF_ANY_SIZE
from dy2st_runtime.ir.program import Block, Location, Program, node_blocks
from dy2st_runtime.ir.structure import TupleOf
from dy2st_runtime.primitives import control, scalars

Build = Callable[[Sequence[Any]], tuple[tuple[Any, ...], dict[str, Any]]]


class Part(enum.Enum):
    """What an operation is to the blocks."""

    OPERATION = "operation"
    ITEM = "item"
    BRANCH = "branch"
    LOOP = "loop"


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One operation.

    Attributes:
        node: of the program.
        part: whether it is a branch or loop, or takes a part of what another operation has given.
        target: what the node calls.
        function: what is called for one example.
        reads: the nodes whose values it takes.
        build: makes the arguments of values in that order.
        blocks: those of a branch or loop.
        forgotten: the nodes whose values nobody reads after it.
        is_operator: whether it is an operator on tensors.
        is_quick: whether nothing is special about it: an operator that all examples do together, or one for all.
        is_pointwise: whether it treats each element by itself.
        one_by_one: whether it has to be done for each example.
        makes_list: whether it gives a list that the program takes as such.
        draws: whether it draws random numbers.
        keeps_views: whether it writes tensors, or gives a view.
        written: whether what it gives may be written in place, by part for a branch or loop.
        location: the user's line.
    """

    node: fx.Node
    part: Part
    target: Any
    function: Callable[..., Any]
    reads: tuple[fx.Node, ...]
    build: Build
    blocks: tuple[Plan, ...]
    forgotten: tuple[fx.Node, ...]
    is_operator: bool
    is_quick: bool
    is_pointwise: bool
    one_by_one: bool
    makes_list: bool
    draws: bool
    keeps_views: bool
    written: tuple[bool, ...]
    location: Location | None


@dataclasses.dataclass(slots=True)
class Plan:
    """A block.

    Attributes:
        inputs: its placeholders.
        used: for each of them whether something reads it.
        written: for each whether its tensor may be written in place.
        steps: the operations in order.
        outputs: nodes and constants.
        all_written: the nodes of the whole program whose tensors may be written in place, or parts of them.
    """

    inputs: tuple[fx.Node, ...]
    used: tuple[bool, ...]
    written: tuple[bool, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Any, ...]
    all_written: set[fx.Node]


def planned(program: Program, inputs_apart: bool) -> Plan:
    """Return the root block of a program, prepared with all that are inside of it.

    Args:
        program: any program.
        inputs_apart: whether no two of its inputs share memory.
    """
    return _Planner(Aliasing(program.block, inputs_apart)).plan(program.block)


class _Planner:
    def __init__(self, aliasing: Aliasing) -> None:
        self._aliasing = aliasing
        self._all_written: set[fx.Node] = set()

    def plan(self, block: Block) -> Plan:
        nodes = [node for node in block.graph.nodes if node.op == "call_function" and not keeps(node)]
        last = {used: node for node in nodes for used in node.all_input_nodes}
        kept = {value for value in block.outputs if isinstance(value, fx.Node)}
        forgotten: dict[fx.Node, list[fx.Node]] = {}
        for used, node in last.items():
            if used not in kept:
                forgotten.setdefault(node, []).append(used)
        inputs = tuple(block.inputs)
        return Plan(
            inputs,
            tuple(bool(node.users) for node in inputs),
            tuple(map(self._is_written, inputs)),
            tuple(self._step(node, tuple(forgotten.get(node, ()))) for node in nodes),
            block.outputs,
            self._all_written,
        )

    def _step(self, node: fx.Node, forgotten: tuple[fx.Node, ...]) -> Step:
        target: Any = node.target
        is_operator = isinstance(target, torch._ops.OpOverload) and target not in scalars.NAMES
        blocks = tuple(map(self.plan, node_blocks(node))) if _has_parts(target) else ()
        reads, build = _arguments(node)
        tags = target.tags if is_operator else ()
        draws = torch.Tag.nondeterministic_seeded in tags or (is_operator and target.namespace == "dy2st_random")
        makes_list = is_operator and _makes_list(node)
        return Step(
            node,
            _PARTS.get(target, Part.OPERATION),
            target,
            _unbound if is_operator and target is torch.ops.aten.unbind.int and self._is_written(node) else _function(node),
            reads,
            build,
            blocks,
            forgotten,
            is_operator,
            is_operator and not draws and not makes_list and target not in _SPECIAL,
            torch.Tag.pointwise in tags and not _is_in_place(target),
            isinstance(target, control.Control),
            makes_list,
            draws,
            is_operator and (bool(writes(node)) or is_view(node)),
            self._written_parts(node),
            node.meta.get("location"),
        )

    def _is_written(self, node: fx.Node) -> bool:
        if not self._aliasing.is_written(node):
            return False
        self._all_written.add(node)
        return True

    def _written_parts(self, node: fx.Node) -> tuple[bool, ...]:
        target = node.target
        if target not in (control.if_, control.while_):
            return (self._is_written(node),)
        skip = int(target is control.while_)
        columns = list(zip(*(block.outputs[skip:] for block in node_blocks(node))))
        flags = tuple(any(isinstance(value, fx.Node) and self._is_written(value) for value in column) for column in columns)
        if any(flags):
            self._all_written.add(node)
        return flags


def _has_parts(target: Any) -> bool:
    return target in (control.if_, control.while_)


_PARTS: dict[Any, Part] = {operator.getitem: Part.ITEM, control.if_: Part.BRANCH, control.while_: Part.LOOP}
_SPECIAL = frozenset((torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default, torch.ops.aten.detach_.default))
"""Operators with a rule of their own for stacked tensors."""


def _makes_list(node: fx.Node) -> bool:
    """Tell whether the program takes what an operator gives as a list, and not its items one by one."""
    returns = node.target._schema.returns  # type: ignore[union-attr]  # an operator
    is_list = len(returns) == 1 and isinstance(returns[0].type, torch.ListType)
    return is_list and not all(user.target is operator.getitem and type(user.args[1]) is int for user in node.users)


def _is_in_place(target: torch._ops.OpOverload[Any, Any]) -> bool:
    return target._schema.is_mutable


def _function(node: fx.Node) -> Callable[..., Any]:
    """Return what is called for one example."""
    target: Any = node.target
    if target is control.transform_:
        return _whole(node)
    if isinstance(target, torch._ops.OpOverload) and hasattr(target, "_op"):
        function = OF_ANY_SIZE.get(target, target._op)
        return below_autograd(function) if is_factory(target) else function
    return OPERATIONS[target] if isinstance(target, control.Control) and target in OPERATIONS else target


def _unbound(tensor: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, ...]:
    """Return views that autograd lets be written one by one, as it does not those of ``unbind``."""
    return tuple(tensor.select(dim, position) for position in range(tensor.shape[dim]))


def _whole(node: fx.Node) -> Callable[..., Any]:
    """Return a function that runs one node, with its blocks, in the reference executor."""
    graph, table = fx.Graph(), dict[fx.Node, fx.Node]()
    for used in node.all_input_nodes:
        table[used] = graph.placeholder(used.name)
    copied = graph.node_copy(node, lambda used: table[used])
    graph.output((copied,))
    run = python.runner(Program("part", Block(graph), (), TupleOf(()), (), TupleOf(())))
    return lambda *values: run(values)[0]


def _arguments(node: fx.Node) -> tuple[tuple[fx.Node, ...], Build]:
    """Return the nodes that an operation reads, and what makes its arguments of their values."""
    if node.target is control.transform_:
        return tuple(node.all_input_nodes), lambda values: (tuple(values), {})
    reads: list[fx.Node] = []
    constants: list[Any] = []

    def text(value: Any) -> str:
        if isinstance(value, fx.Node):
            reads.append(value)
            return f"v[{len(reads) - 1}]"
        if isinstance(value, Block):
            return "None"
        if type(value) is tuple:
            return f"({''.join(f'{text(item)}, ' for item in value)})"
        if isinstance(value, list):
            return f"[{', '.join(map(text, value))}]"
        if isinstance(value, slice):
            return f"slice({text(value.start)}, {text(value.stop)}, {text(value.step)})"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {text(item)}' for key, item in value.items())}}}"
        constants.append(value)
        return f"c[{len(constants) - 1}]"

    args, kwargs = text(tuple(node.args)), text(dict(node.kwargs))
    build: Build = eval(f"lambda v: ({args}, {kwargs})", {"c": constants})
    return tuple(reads), build
