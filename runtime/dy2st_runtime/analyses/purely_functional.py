"""Which programs are nothing but a computation of tensors, branches and loops included, and what their results are made of.

Such a program may be written with ``torch.cond`` and ``while_loop`` and be compiled whole: nothing in it looks at the world
outside, changes it, or raises, except for assertions at the end, which are told from their conditions afterwards.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.fusable import Kind, dims_of, dtype_of, kind_of
from dy2st_runtime.analyses.provenance import NEW, NOTHING, NUMBERS, Origins, UntoldError, with_provenance
from dy2st_runtime.ir.input_types import typed
from dy2st_runtime.ir.operators import present
from dy2st_runtime.ir.program import Block, Program, copy_block, nested_blocks, node_blocks
from dy2st_runtime.primitives import control, scalars

MOST_NODES = 3000
"""How many operations a program may have, in all blocks together; more take minutes to compile."""

MOST_DEPTH = 16
"""How deep branches and loops may be in each other."""

STRAIGHT = "it has no branches or loops"
"""The reason for a program that is one region anyway."""

_COMPARISONS = tuple(getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge"))
_SCALAR_COMPARISONS = present("eq.Scalar", "ne.Scalar", "lt.Scalar", "le.Scalar", "gt.Scalar", "ge.Scalar")
_LOGICAL = (scalars.logical_not, scalars.logical_and, scalars.logical_or, operator.not_)
_LARGEST = 2**31
"""A loop counter with steps below this does not leave 64 bits in any time that there is."""

_ITEMS = present("item.default", "_local_scalar_dense.default")


class NotFunctionalError(Exception):
    """A program does something else; the message says where and what."""


@dataclasses.dataclass(frozen=True)
class FunctionalProgram:
    """A program for a compiler that copies.

    Attributes:
        program: a copy of it whose results are tensors and numbers that were made, each of them once, and what else is asked about.
        sources: for each output of the original, its position among the results, or the constant in a tuple.
        origins: for each output, see :mod:`dy2st_runtime.analyses.provenance`; the position of the result that holds it in a tuple.
        numbers: whether an output is a Python number.
        checks: the positions of results that must be true.
    """

    program: Program
    sources: tuple[int | tuple[Any], ...]
    origins: tuple[int | tuple[int], ...]
    numbers: tuple[bool, ...]
    checks: tuple[int, ...]

    def results(self, values: Sequence[Any], collected: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return what the original gives.

        Args:
            values: of the inputs.
            collected: the results of the copy, all of them tensors.

        Returns:
            The values of the outputs; ``None`` if an assertion fails.
        """
        for position in self.checks:
            if not collected[position]:
                return None
        given = []
        for source, origin, is_number in zip(self.sources, self.origins, self.numbers):
            number = collected[origin[0]].item() if isinstance(origin, tuple) else origin
            if number >= 0:
                given.append(values[number])
            elif number == NOTHING:
                given.append(None)
            elif isinstance(source, tuple):
                given.append(source[0])
            else:
                given.append(collected[source].item() if is_number else collected[source])
        return tuple(given)


def to_functional(program: Program) -> FunctionalProgram:
    """Prepare a program to be compiled whole.

    Args:
        program: any program; it stays as it is.

    Raises:
        NotFunctionalError: it has no control flow, or does more than to compute.
    """
    program = typed(program)
    blocks = list(nested_blocks(program.block))
    if len(blocks) == 1:
        raise NotFunctionalError(STRAIGHT)
    if sum(len(block.graph.nodes) for block in blocks) > MOST_NODES or _depth(program.block) > MOST_DEPTH:
        raise NotFunctionalError("it is too large, or its branches and loops are too deep")
    slots: list[Any] = [*program.inputs, *program.states]
    for slot in slots:
        if slot.dtype is None:
            raise NotFunctionalError(f"{slot.name} is a Python number or no tensor")
    checks = _without_checks(program.block)
    checker = _Checker(program.block)
    for block in blocks:
        for node in block.graph.nodes:
            if node.op == "call_function":
                checker.check(node)
    for value in checks:
        _check_condition(program.block.graph.output_node(), value)
    try:
        told = with_provenance(_with_outputs(program, checks))
    except UntoldError as error:
        raise NotFunctionalError(str(error)) from None
    return _flat(program, told.program, told.origins, len(checks))


def _flat(program: Program, copied: Program, origins: Sequence[Any], checks: int) -> FunctionalProgram:
    """Leave out of the results what is known without running."""
    outputs = list(copied.block.outputs)
    count = len(program.block.outputs)
    positions: dict[Any, int] = {}

    def position(value: fx.Node) -> int:
        return positions.setdefault(value, len(positions))

    sources: list[Any] = []
    for value, origin in zip(outputs[:count], origins):
        needed = isinstance(value, fx.Node) and (isinstance(origin, tuple) or origin == NEW)
        sources.append(position(value) if needed else (value,))
    numbers = tuple(isinstance(value, fx.Node) and _number_kind(value) is not None for value in outputs[:count])
    wanted = tuple(position(value) for value in outputs[count : count + checks] if isinstance(value, fx.Node))
    if len(wanted) < checks:
        raise NotFunctionalError("an assertion is known to fail")
    told = tuple((position(outputs[origin[0]]),) if isinstance(origin, tuple) else origin for origin in origins[:count])
    copied.block.graph.output_node().args = (tuple(positions),)
    if not positions:
        raise NotFunctionalError("it gives back nothing that it computes")
    return FunctionalProgram(copied, tuple(sources), told, numbers, wanted)


def _with_outputs(program: Program, checks: Sequence[Any]) -> Program:
    output = program.block.graph.output_node()
    kept = output.args
    output.args = ((*program.block.outputs, *checks),)
    copied = dataclasses.replace(program, block=copy_block(program.block))
    output.args = kept
    return copied


def _without_checks(block: Block) -> list[Any]:
    """Take the assertions out of the root block; gives their conditions."""
    conditions = []
    for node in list(block.graph.nodes):
        if node.target is control.assert_:
            conditions.append(node.args[0])
            block.graph.erase_node(node)
        elif conditions and node.target is control.while_:
            raise _refuse(node, "a loop comes after an assertion, and may not end where it would have raised")
    return conditions


def _depth(block: Block) -> int:
    inner = [_depth(inner) for node in block.graph.nodes for inner in node_blocks(node)]
    return 1 + max(inner, default=0)


# -- one operation -------------------------------------------------------------------------------------------------------------


class _Checker:
    """Looks at every operation of a program.

    Args:
        root: its root block.
    """

    def __init__(self, root: Block) -> None:
        self._provenance = Origins(root)
        self._sources = dict(_sources(root))

    def check(self, node: fx.Node) -> None:
        """Refuse an operation that does more than to compute.

        Raises:
            NotFunctionalError: it does.
        """
        if node.target in (control.if_, control.while_):
            _check_condition(node, node.args[0])
            if node.target is control.while_:
                _check_condition(node, node_blocks(node)[0].outputs[0])
            return
        if node.target is not operator.getitem and any(NOTHING in self._provenance.of(value) for value in node.all_input_nodes):
            raise _refuse(node, "it may take nothing (None)")
        if _is_number_operation(node):
            self._check_number(node)
        elif _compares_counter(node):
            return
        elif kind_of(node) not in (Kind.COMPUTE, Kind.FACTORY, Kind.ALIAS, Kind.SIZE):
            raise _refuse(node, f"{_name(node)} is left out of what is compiled")
        elif node.target is not operator.getitem and any(map(_is_late, node.all_input_nodes)):
            raise _refuse(node, f"{_name(node)} takes a number that is known only when the program runs")

    def _check_number(self, node: fx.Node) -> None:
        """Do what Python and a compiled function do alike: comparisons of one kind of numbers, counting, truth values."""
        target: Any = node.target
        values = list(node.args)
        if target in (scalars.to_bool, *_LOGICAL):
            for value in values:
                _check_condition(node, value)
            return
        kinds = {_kind_of_value(value) for value in values}
        fine = (
            ((target in _ITEMS or target is scalars.to_int) and _is_exact(node, values[0]))
            or (target in _COMPARISONS and None not in kinds and (len(kinds) == 1 or kinds == {"int", "bool"}))
            or (target in (operator.add, operator.sub) and kinds == {"int"} and self._counts(values, set()))
            or _is_size(node)
        )
        if not fine:
            raise _refuse(node, f"{_name(node)} of Python numbers is left out of what is compiled")

    def _counts(self, values: Sequence[Any], seen: set[fx.Node]) -> bool:
        """Tell whether one of two integers is a small constant and the other one starts from such and changes by such."""
        constants = [value for value in values if isinstance(value, int)]
        others = [value for value in values if isinstance(value, fx.Node)]
        return all(abs(value) < _LARGEST for value in constants) and len(others) == 1 and self._is_counter(others[0], seen)

    def _is_counter(self, value: Any, seen: set[fx.Node]) -> bool:
        if value in seen or _is_size(value):
            return True
        if not isinstance(value, fx.Node):
            return False
        seen.add(value)
        if value in self._sources:
            return all(self._is_counter(source, seen) for source in self._sources[value])
        return value.target in (operator.add, operator.sub) and self._counts(value.args, seen)


def _sources(root: Block) -> Iterator[tuple[fx.Node, list[Any]]]:
    """Yield what the inputs of blocks and the results of control operations may be."""
    for block in nested_blocks(root):
        for node in block.graph.nodes:
            if node.target not in (control.if_, control.while_):
                continue
            carried: Any = node.args[2] if node.target is control.while_ else ()
            inner = node_blocks(node)
            results = [each.outputs[1:] if carried or node.target is control.while_ else each.outputs for each in inner]
            for each in inner:
                for position, (placeholder, value) in enumerate(zip(each.inputs, (*carried, *node.args[3]))):
                    yield placeholder, [value, *(results[0][position : position + 1] if carried else ())]
            for user in node.users:
                if user.target is operator.getitem:
                    position = user.args[1]
                    yield user, [*(outputs[position] for outputs in results), *carried[position : position + 1]]


def _compares_counter(node: fx.Node) -> bool:
    """Tell whether an operation compares a tensor of integers with an integer."""
    if node.target not in _SCALAR_COMPARISONS or not isinstance(node.args[0], fx.Node):
        return False
    return dtype_of(node.args[0]) == "i64" and _kind_of_value(node.args[1]) == "int"


def _is_number_operation(node: fx.Node) -> bool:
    return node.target in _ITEMS or (
        node.target in scalars.NAMES and node.target not in (torch.ops.aten.sym_size.int, operator.getitem)
    )


def _is_exact(node: fx.Node, value: Any) -> bool:
    """Tell whether the number of a tensor, or the integer of a number, is what Python gives."""
    if not isinstance(value, fx.Node):
        return False
    kind = _number_kind(value)
    if kind is not None:
        return kind in ("int", "bool")
    dtype = dtype_of(value) or ""
    exact = dtype.startswith(("i", "u8", "bool")) or (node.target in _ITEMS and dtype in ("f32", "f64"))
    return exact and _has_one_element(value)


def _is_late(value: fx.Node) -> bool:
    """Tell whether a value is a number that is no size."""
    return _number_kind(value) is not None and not _is_size(value)


def _is_size(value: Any) -> bool:
    """Tell whether an integer is small: a constant, a size of a tensor, or made of such by operations that are written out."""
    if isinstance(value, int):
        return abs(value) < _LARGEST
    if not isinstance(value, fx.Node):
        return False
    if value.target is torch.ops.aten.sym_size.int:
        return True
    return value.target in (operator.add, operator.sub, operator.mul) and all(_is_size(used) for used in value.args)


def _check_condition(node: fx.Node, value: Any) -> None:
    if not isinstance(value, fx.Node) or _number_kind(value) is not None:
        return
    if not _has_one_element(value):
        raise _refuse(node, "a condition is a tensor that may have several elements")


def _has_one_element(value: fx.Node) -> bool:
    dims = dims_of(value)
    return dims is not None and all(size == "1" for size in dims)


def _kind_of_value(value: Any) -> str | None:
    if isinstance(value, fx.Node):
        return _number_kind(value)
    return type(value).__name__ if type(value) in (int, float, bool) else None


def _number_kind(node: fx.Node) -> str | None:
    """Return which Python number a value is; ``None`` for anything else."""
    kind = node.meta.get("type")
    if kind is not None:
        return kind if kind in NUMBERS else None
    if node.target in (*_COMPARISONS, *_LOGICAL, scalars.to_bool):
        return "bool"
    if node.target in (scalars.to_int, torch.ops.aten.sym_size.int):
        return "int"
    if node.target in (operator.add, operator.sub, operator.mul):
        kinds = {_kind_of_value(value) for value in node.args}
        return "int" if kinds == {"int"} else None
    if node.target in _ITEMS and isinstance(node.args[0], fx.Node):
        dtype = dtype_of(node.args[0]) or ""
        return "bool" if dtype.startswith("bool") else "int" if dtype.startswith(("i", "u")) else "float"
    return None


def _name(node: fx.Node) -> str:
    target: Any = node.target
    return scalars.NAMES.get(target) or (target.name if isinstance(target, control.Control) else str(target))


def _refuse(node: fx.Node, what: str) -> NotFunctionalError:
    location = node.meta.get("location")
    return NotFunctionalError(f"{location}: {what}" if location is not None else what)
