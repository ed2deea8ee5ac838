"""Operations in place that may read, at an index of the data, a part of what they write: torch refuses them.

    v -= v[n]                                   v[n] would change on the way

Where both lie is known only when the program runs, so the capture has not refused them; and ONNX, which has values and no memory,
computes them.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.ir.program import Block, node_blocks
from dy2st_runtime.primitives import control


@dataclasses.dataclass(frozen=True)
class _Memory:
    """Where the elements of a value lie.

    Attributes:
        roots: what may have made the memory: the inputs of the program, and operations.
        moving: whether the place in it depends on the data.
        place: equal for values that lie in the same place, which torch accepts; ``None`` where it is one of several.
    """

    roots: frozenset[Any] = frozenset()
    moving: bool = False
    place: Any = None

    def __or__(self, other: _Memory) -> _Memory:
        return _Memory(self.roots | other.roots, self.moving or other.moving)

    def meets(self, other: _Memory) -> bool:
        """Tell whether another value may lie in a part of this one's place."""
        if self.place is not None and self.place == other.place:
            return False
        return bool(self.roots & other.roots) and (self.moving or other.moving)


def _own_memory(by: fx.Node) -> _Memory:
    return _Memory(frozenset([by]), place=by)


def overlapping(block: Block) -> fx.Node | None:
    """Return the first operation that may read a part of what it writes, at an index that only the run knows.

    Args:
        block: the root block of a program, in which inputs share no memory.
    """
    return next(_Walk([]).through(block, list(map(_own_memory, block.inputs))), None)


class _Walk:
    """A walk through one block.

    Args:
        writes: the roots of what was written so far.

    Attributes:
        parts: the results of branches and loops.
        outputs: what the outputs of the block are, after the walk.
    """

    def __init__(self, writes: list[frozenset[Any]]) -> None:
        self.writes = writes
        self.known: dict[fx.Node, _Memory] = {}
        self.parts: dict[fx.Node, list[_Memory]] = {}
        self.outputs: list[_Memory] = []

    def through(self, block: Block, given: Sequence[_Memory]) -> Iterator[fx.Node]:
        """Yield the operations that may read a part of what they write."""
        self.known.update(zip(block.inputs, given))
        for node in block.graph.nodes:
            if node.op != "call_function":
                continue
            if node_blocks(node):
                yield from self.nested(node)
            elif isinstance(node.target, torch._ops.OpOverload):
                if self.reads_what_it_writes(node):
                    yield node
                self.known[node] = self.result(node)
            elif node.target is operator.getitem and node.args[0] in self.parts:
                self.known[node] = self.parts[node.args[0]][node.args[1]]
            else:
                self.known[node] = self.of(node.args) | _own_memory(node)
        self.outputs = list(map(self.of, block.outputs))

    def of(self, value: Any) -> _Memory:
        """Return where an argument lies."""
        if isinstance(value, fx.Node):
            return self.known.get(value, _Memory())
        return _union(map(self.of, value)) if isinstance(value, (tuple, list)) else _Memory()

    def nested(self, node: fx.Node) -> Iterator[fx.Node]:
        """Yield a branch or loop: what an iteration leaves is what the next one takes."""
        is_branch = node.target is control.if_
        outer = [self.of(value) for value in (node.args[3] if is_branch else (*node.args[2], *node.args[3]))]  # type: ignore[misc,union-attr]
        carried = [] if is_branch else [_own_memory(node) | memory for memory in outer[: len(node.args[2])]]  # type: ignore[arg-type]
        results = carried or [_own_memory(node)] * len(node_blocks(node)[0].outputs)
        before = None
        while before != results:
            before = results
            for inner in node_blocks(node):
                walk = _Walk(self.writes)
                yield from walk.through(inner, outer if is_branch else [*results, *outer[len(results) :]])
                results = [one | other for one, other in zip(results, walk.outputs[len(walk.outputs) - len(results) :])]
        if node.target in (control.if_, control.while_):
            self.parts[node] = results
        self.known[node] = _union(results)

    def reads_what_it_writes(self, node: fx.Node) -> bool:
        """Tell whether an operation in place may read a part of what it writes; notes what it writes."""
        written = [value for value, argument in _paired(node) if _is_written(argument)]
        others = [value for value, argument in _paired(node) if not _is_written(argument)]
        self.writes += [self.of(value).roots for value in written]
        return any(one is not other and self.of(one).meets(self.of(other)) for one in written for other in others)

    def result(self, node: fx.Node) -> _Memory:
        """Return what an operation gives: a number, new memory, or that of the arguments whose memory it may share."""
        place = node.target, *(self.key(value, is_read=argument.alias_info is None) for value, argument in _paired(node))
        shared = [(self.of(value), argument) for value, argument in _paired(node) if argument.alias_info is not None]
        if not shared:
            is_tensor = any("Tensor" in str(result.type) for result in node.target._schema.returns)  # type: ignore[union-attr]
            return _own_memory(node) if is_tensor else _Memory(place=place)
        if any(_is_written(argument) for _, argument in shared):
            return shared[0][0] if len(shared) == 1 else _union(memory for memory, _ in shared)
        memory = _union(memory for memory, _ in shared)
        moving = any(_is_moving(value) for value, argument in _paired(node) if argument.alias_info is None)
        return _Memory(memory.roots, memory.moving or moving, place)

    def key(self, value: Any, is_read: bool) -> Any:
        """Equal for arguments that lie in the same place, and hold the same now if they are read."""
        if isinstance(value, (tuple, list)):
            return tuple(self.key(part, is_read) for part in value)
        if not isinstance(value, fx.Node):
            return value
        memory = self.of(value)
        changes = sum(bool(memory.roots & roots) for roots in self.writes) if is_read else 0
        return (value if memory.place is None else memory.place), changes


def _union(parts: Iterable[_Memory]) -> _Memory:
    result = _Memory()
    for part in parts:
        result |= part
    return result


def _paired(node: fx.Node) -> Iterator[tuple[Any, Any]]:
    """Yield the arguments of an operation, each with what its schema says of it."""
    for number, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if number < len(node.args):
            yield node.args[number], argument
        elif argument.name in node.kwargs:
            yield node.kwargs[argument.name], argument


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def _is_moving(value: Any) -> bool:
    return isinstance(value, fx.Node) or (isinstance(value, (tuple, list)) and any(map(_is_moving, value)))
