"""Puts calls in the place of the operations of a region: compilers call that outlining.

A long region that does the same again and again, such as the iterations of a loop that was written out, or the layers of a model,
becomes several calls of one callable (:mod:`dy2st_runtime.analyses.repetition`): it is compiled once.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import fx
from torch.utils import _pytree as pytree

from dy2st_runtime.analyses.fusable import Kind, kind_of
from dy2st_runtime.analyses.repetition import pieces_of
from dy2st_runtime.ir.program import Block, Location
from dy2st_runtime.primitives import control


@dataclasses.dataclass(frozen=True)
class Part:
    """What a region computes.

    Attributes:
        graph: its operations, with an output node that holds a tuple.
        places: for each place where it runs, the nodes of the block that its placeholders stand for, or integers.
        location: the user's line of its first operation.
        writes: the positions of inputs that it changes in place.
    """

    graph: fx.Graph
    places: tuple[tuple[Any, ...], ...]
    location: Location | None
    writes: tuple[int, ...]

    @property
    def text(self) -> str:
        """What it does, in the same words for parts that do the same."""
        numbers = {node: f"%{index}" for index, node in enumerate(self.graph.nodes)}
        lines = []
        for node in self.graph.nodes:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda used: numbers[used])
            lines.append(f"{node.op} {node.target if node.op == 'call_function' else node.meta.get('type')} {args} {kwargs}")
        return "\n".join([*lines, str(self.writes)])


Make = Callable[[Part], Callable[..., Any]]
"""Gives what is called in the place of a region: it takes the values of its inputs and gives those of its outputs."""


@dataclasses.dataclass
class Region:
    """Operations that become calls.

    Attributes:
        nodes: the operations, in order.
        after: those in between that come behind.
        roots: for a view or what was changed in place, the tensor whose memory it has.
        changed: the tensors from outside that it changes in place.
    """

    nodes: list[fx.Node]
    after: list[fx.Node]
    roots: Mapping[fx.Node, fx.Node]
    changed: set[fx.Node]


def outline(block: Block, region: Region, make: Make, is_worth: Callable[[Sequence[fx.Node]], bool]) -> None:
    """Rewrite a block.

    Args:
        block: where the region is; it is changed.
        region: its operations.
        make: makes what is called.
        is_worth: whether a list of operations should be a call at all.
    """
    stretches = [stretch for stretch in _stretches(region) if is_worth(stretch.nodes)]
    groups: dict[str, list[tuple[_Stretch, Part]]] = {}
    for stretch in stretches:
        part = stretch.prepare()
        if part is not None:
            groups.setdefault(part.text, []).append((stretch, part))
    for same in groups.values():
        result = make(dataclasses.replace(same[0][1], places=tuple(place for _, part in same for place in part.places)))
        for stretch, _ in same:
            stretch.callable = result
    position = {node: index for index, node in enumerate(block.graph.nodes)}
    anchor = last = region.nodes[-1]
    behind = [node for node in region.after if position[node] < position[anchor]]
    replaced: dict[fx.Node, fx.Node] = {}
    for stretch in stretches:
        if stretch.callable is not None:
            end = stretch.put(block.graph, replaced)
            last = end if stretch.nodes[-1] is anchor else last
    for node in behind:
        last.append(node)
        last = node


def _stretches(region: Region) -> list[_Stretch]:
    """Return a region in pieces that do the same, where it has such."""
    nodes = region.nodes
    pure = not region.changed and all(kind_of(node) in (Kind.COMPUTE, Kind.FACTORY, Kind.ALIAS, Kind.SIZE) for node in nodes)
    pieces = pieces_of(nodes) if pure else None
    if pieces is None:
        return [_Stretch(region, nodes)]
    ends = [pieces.head + index * pieces.length for index in range(pieces.count + 1)]
    same = [_Stretch(region, nodes[start:end], pieces.slopes, index) for index, (start, end) in enumerate(itertools.pairwise(ends))]
    leaving = sorted({place for stretch in same for place in stretch.leaving})
    for stretch in same:
        stretch.leaving = leaving
    return [
        stretch for stretch in (_Stretch(region, nodes[: ends[0]]), *same, _Stretch(region, nodes[ends[-1] :])) if stretch.nodes
    ]


class _Stretch:
    """Consecutive operations of a region that become one call.

    Attributes:
        leaving: the places of the operations whose results are given back.
        callable: what is called, where there is anything to call.
    """

    def __init__(
        self, region: Region, nodes: Sequence[fx.Node], slopes: Mapping[tuple[int, int], int] | None = None, number: int = 0
    ) -> None:
        self._roots, self._changed = region.roots, region.changed
        self.nodes, self._inside = nodes, set(nodes)
        self._slopes, self._number = slopes or {}, number
        self.leaving = [place for place, node in enumerate(nodes) if self._leaves(node)]
        self.callable: Callable[..., Any] | None = None
        self._outputs: list[fx.Node] = []
        self._again: list[fx.Node] = []

    def prepare(self) -> Part | None:
        """Find out what is computed; ``None`` where there is nothing to call."""
        self._outputs, self._again = self._results([self.nodes[place] for place in self.leaving])
        part = self._part()
        return part if part.places[0] and (self._outputs or part.writes) else None

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the placeholders stand for."""
        used = dict.fromkeys(used for node in self.nodes for used in node.all_input_nodes if used not in self._inside)
        return (*([self._number] if self._slopes else []), *used)

    def put(self, graph: fx.Graph, results: dict[fx.Node, fx.Node]) -> fx.Node:
        """Put the call in the place of the operations.

        Args:
            graph: theirs.
            results: takes what stands for each operation from now on.

        Returns:
            The last node that was made.
        """
        location = self._location
        with graph.inserting_after(self.nodes[-1]):
            arguments: Any = (self.callable, self.inputs, {})  # a callable is not what fx calls an argument
            last = call = graph.call_function(control.call_, arguments)
            call.meta["location"] = location
        for index, node in enumerate(self._outputs):
            with graph.inserting_after(last):
                last = results[node] = graph.call_function(operator.getitem, (call, index))
                last.meta = {**node.meta, "location": location}
        for node in self._again:
            with graph.inserting_after(last):
                last = results[node] = graph.node_copy(node, lambda used: self._outside(used, results))
        for node in self.nodes:
            if self._leaves(node):
                node.replace_all_uses_with(self._outside(node, results), delete_user_cb=lambda user: user not in self._inside)
        for node in reversed(self.nodes):
            graph.erase_node(node)
        return last

    @property
    def _location(self) -> Location | None:
        return next((node.meta["location"] for node in self.nodes if "location" in node.meta), None)

    def _leaves(self, node: fx.Node) -> bool:
        return any(user not in self._inside for user in node.users)

    def _results(self, leaving: Sequence[fx.Node]) -> tuple[list[fx.Node], list[fx.Node]]:
        """Return what the call gives back, and which views and sizes are made again behind it, in order."""
        order = {node: index for index, node in enumerate(self.nodes)}
        needed = set(leaving)
        while True:
            outputs, again = self._union(needed)
            more = {used for node in again for used in node.all_input_nodes} & self._inside - outputs - again
            more = {used for used in more if kind_of(used) is not Kind.IN_PLACE or used not in self._roots}
            if not more - needed:
                return sorted(outputs, key=order.__getitem__), sorted(again, key=order.__getitem__)
            needed |= more

    def _union(self, needed: set[fx.Node]) -> tuple[set[fx.Node], set[fx.Node]]:
        """For each tensor that leaves: give it back itself, or its root, of which the others are made again."""
        again = {node for node in needed if kind_of(node) is Kind.SIZE}
        groups: dict[fx.Node, list[fx.Node]] = {}
        for node in needed - again:
            groups.setdefault(self._root(node), []).append(node)
        outputs: set[fx.Node] = set()
        for root, members in groups.items():
            if root in self._inside and len(members) == 1 and (members[0] is root or self._is_plain_view(members[0])):
                outputs.add(members[0])
                continue
            if root in self._inside:
                outputs.add(root)
            for node in members:
                again.update(self._chain(node))
        return outputs, again

    def _root(self, node: fx.Node) -> fx.Node:
        return self._roots.get(node, node)

    def _is_plain_view(self, node: fx.Node) -> bool:
        """Tell whether nothing on the way from its root to a view is in place, and the root has one tensor."""
        while node in self._roots:
            if kind_of(node) is Kind.IN_PLACE:
                return False
            node = node.args[0]  # type: ignore[assignment]  # a node, as regions take them
        return True

    def _chain(self, node: fx.Node) -> Iterator[fx.Node]:
        """Yield the operations that lead from a root to a view."""
        while node in self._roots and node in self._inside:
            if kind_of(node) is not Kind.IN_PLACE:
                yield node
            node = node.args[0]  # type: ignore[assignment]  # a node, as regions take them

    def _outside(self, node: Any, results: dict[fx.Node, fx.Node]) -> Any:
        """Return what stands for a node of the region behind it."""
        while node in self._inside and node not in results:
            node = node.args[0]  # an operation in place gives its operand
        return results.get(node, node)

    def _part(self) -> Part:
        graph = fx.Graph()
        table: dict[fx.Node, fx.Node] = {}
        inputs = self.inputs
        for value in inputs:
            if isinstance(value, fx.Node):
                table[value] = graph.placeholder(value.name)
                table[value].meta = dict(value.meta)
            else:
                number = graph.placeholder("number")
                number.meta["type"] = "int"
        for place, node in enumerate(self.nodes):
            copied = graph.node_copy(node, table.__getitem__)
            table[node] = copied
            if self._slopes:
                _grow(copied, {index: slope for (at, index), slope in self._slopes.items() if at == place}, self._number, number)
        graph.output(tuple(table[node] for node in self._outputs))
        return Part(graph, (inputs,), self._location, tuple(i for i, value in enumerate(inputs) if value in self._changed))


def _grow(node: fx.Node, slopes: Mapping[int, int], number: int, by: fx.Node) -> None:
    """Let integers of an operation depend on which piece of a region it is in; see :class:`.repetition.Pieces`."""
    if not slopes:
        return
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    places = [index for index, leaf in enumerate(leaves) if not isinstance(leaf, fx.Node)]
    for index, slope in slopes.items():
        value = leaves[places[index]]
        with node.graph.inserting_before(node):
            grown = node.graph.call_function(operator.mul, (by, slope))
            leaves[places[index]] = node.graph.call_function(operator.add, (grown, value - slope * number))
        for item in (grown, leaves[places[index]]):
            item.meta["type"] = "int"
    node.args, node.kwargs = pytree.tree_unflatten(leaves, spec)
