"""Splits the blocks of a program into regions that a compiler may take whole.

    a = aten.mul.Tensor(x, 2)                     call = call_(region, (x, c))
    b = aten.add.Tensor(a, c)                  →  b = call[0]
    list_append(xs, b)                            s = call[1]
    s = aten.sum.default(b)                       list_append(xs, b)
    if s > 0: …                                   if s > 0: …

A region is a run of fusable operations in the order of the block. Operations in between that stay outside go before it when
they need nothing of it, and after it otherwise; a fusable operation that needs one of the latter starts the next region.
What a region gives back never shares memory with what it takes, nor do two results with each other: where a view leaves a
region, it is made again outside, of its base. Operations in place belong to a region when the tensor was made in it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from dy2st_runtime.analyses.fusable import Kind, dtype_of, kind_of, names_of
from dy2st_runtime.ir.input_types import typed
from dy2st_runtime.ir.program import Block, Program, node_blocks
from dy2st_runtime.passes.regions.outlining import Make, Region, outline
from dy2st_runtime.primitives import control

LEAST = 2
"""How many operations of a region must have kernels that a compiler can fuse."""

SLOW_ON_CPU = names_of("max_pool1d max_pool2d max_pool1d_with_indices max_pool2d_with_indices") | {"batch_norm in training"}
"""Operators that PyTorch's own kernels compute faster than compiled code on the CPU: with gradients, that looks for each maximum
twice, and it adds up statistics over memory that lies far apart."""

_CONVOLUTIONS = names_of("conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d")
_HEAVY = _CONVOLUTIONS | names_of("matmul mm bmm addmm baddbmm linear mv dot outer clone scaled_dot_product_attention cat stack")
"""Operators whose time is in one kernel that a compiler calls as well."""

_FUSED = (Kind.COMPUTE, Kind.IN_PLACE, Kind.STATISTICS)
_TAKEN = (Kind.COMPUTE, Kind.FACTORY, Kind.ALIAS, Kind.IN_PLACE, Kind.STATISTICS)


def split_regions(program: Program, make: Make, least: int = LEAST, apart: frozenset[str] = frozenset()) -> Program:
    """Put regions in the place of operations, in all blocks that run as they are.

    Args:
        program: any program.
        make: makes what runs a region.
        least: how many fusable operations make a region.
        apart: the names of operators that stay outside, such as :data:`SLOW_ON_CPU`.

    Returns:
        The program with ``call_`` operations for its regions.
    """
    program = typed(program)
    called = any(node.target in (control.call_, control.apply_) for node in program.nodes())
    _split(program.block, functools.partial(_Splitter, make=make, least=least, apart=apart, called=called))
    return program


def _split(block: Block, splitter: Callable[[Block], _Splitter]) -> None:
    for node in list(block.graph.nodes):
        if node.target in (control.if_, control.while_):
            for inner in node_blocks(node):
                _split(inner, splitter)
    splitter(block).run()


class _Splitter:
    """Goes through one block and rewrites it.

    Where Python functions are called, they may hook or differentiate any tensor that they can get hold of; then what leaves a
    region ends it, so that gradients flow through that very tensor on their way to the rest.
    """

    def __init__(self, block: Block, make: Make, least: int, apart: frozenset[str], called: bool) -> None:
        self._block, self._make = block, make
        self._least, self._apart, self._called = least, apart, called
        self._region: list[fx.Node] = []
        self._inside: set[fx.Node] = set()
        self._after: list[fx.Node] = []
        self._later: set[fx.Node] = set()
        self._ordered_after = False
        self._roots: dict[fx.Node, fx.Node] = {}
        self._changed: set[fx.Node] = set()

    def run(self) -> None:
        for node in list(self._block.graph.nodes):
            if node.op == "call_function":
                self._visit(node)
        self._flush()

    def _visit(self, node: fx.Node) -> None:
        kind = self._kind(node)
        if kind in _TAKEN or (kind is Kind.SIZE and any(used in self._inside for used in node.all_input_nodes)):
            self._take(node, kind)
        elif kind is Kind.BARRIER:
            self._flush()
        elif self._must_wait(node, kind):
            self._after.append(node)
            self._later.add(node)
            self._ordered_after |= kind is Kind.ORDERED

    def _kind(self, node: fx.Node) -> Kind:
        kind = kind_of(node)
        if kind is Kind.COMPUTE and _name(node) in self._apart:
            return Kind.ORDERED
        if kind is Kind.STATISTICS and f"{_name(node)} in training" in self._apart:
            return Kind.BARRIER
        if kind is Kind.ALIAS and not isinstance(node.args[0] if node.args else None, fx.Node):
            return Kind.ORDERED
        if kind is Kind.ALIAS and node.target is operator.getitem and node.args[0] not in self._inside:
            return Kind.PURE
        if kind in (Kind.COMPUTE, Kind.ALIAS) and node.meta.get("type", "").startswith("(") and not _only_parts(node):
            return Kind.ORDERED
        if kind is Kind.STATISTICS and any(value.op != "placeholder" for value in _statistics(node)):
            return Kind.BARRIER
        if kind is Kind.IN_PLACE:
            return kind if self._is_fresh(node) or _is_counter(node) else Kind.BARRIER
        return kind

    def _is_fresh(self, node: fx.Node) -> bool:
        """Tell whether what an operation changes was made by this region and is not in use outside of it yet."""
        root = self._root(node.args[0])
        return root in self._inside and not any(self._root(used) is root for late in self._after for used in late.all_input_nodes)

    def _root(self, value: Any) -> Any:
        return self._roots.get(value, value)

    def _take(self, node: fx.Node, kind: Kind) -> None:
        if any(used in self._later for used in node.all_input_nodes):
            self._flush()
            self._visit(node)
            return
        changed = self._changed_by(node, kind)
        if any(self._root(used) in changed for late in self._after for used in late.all_input_nodes):
            self._flush()
        self._changed |= changed
        if kind in (Kind.ALIAS, Kind.IN_PLACE) and not _is_fresh_part(node):
            self._roots[node] = self._root(node.args[0])
        self._region.append(node)
        self._inside.add(node)
        if self._called and any(kind_of(user) not in _TAKEN for user in node.users):
            self._flush()

    def _changed_by(self, node: fx.Node, kind: Kind) -> set[fx.Node]:
        """Return the tensors from outside of the region that an operation changes."""
        if kind is Kind.IN_PLACE and self._root(node.args[0]) not in self._inside:
            return {self._root(node.args[0])}
        return set(_statistics(node)) if kind is Kind.STATISTICS else set()

    def _must_wait(self, node: fx.Node, kind: Kind) -> bool:
        used = node.all_input_nodes
        if kind is Kind.ORDERED and self._ordered_after:
            return True
        return any(value in self._inside or value in self._later or self._root(value) in self._changed for value in used)

    def _flush(self) -> None:
        """End the region; operations stay where they are when it is not worth compiling."""
        self._trim()
        self._take_numbers()
        if self._is_worth(self._region):
            changed = {value for node in self._region for value in self._changed_by(node, kind_of(node))}
            outline(self._block, Region(self._region, self._after, self._roots, changed), self._make, self._is_worth)
        self._region, self._after = [], []
        self._inside, self._later, self._changed = set(), set(), set()
        self._ordered_after = False

    def _trim(self) -> None:
        """Do what fuses with nothing stays outside where it comes first or last; a compiler would only lay out its memory anew."""
        for end in (-1, 0):
            while self._region and _is_alone(self._region[end]):
                self._inside.remove(self._region.pop(end))

    def _take_numbers(self) -> None:
        """Arithmetic with positions that only the region needs belongs to it: then it takes one number for all of them."""
        waiting = list(self._region)
        while waiting:
            for node in waiting.pop().all_input_nodes:
                if node not in self._inside and _is_arithmetic(node) and self._inside.issuperset(node.users):
                    self._region.insert(0, node)
                    self._inside.add(node)
                    waiting.append(node)

    def _is_worth(self, nodes: Sequence[fx.Node]) -> bool:
        """Tell whether there is something to fuse: operations one of which takes what another gives, or views of it."""
        fusing = {node for node in nodes if kind_of(node) in _FUSED and _name(node) not in _HEAVY}
        if len(fusing) < LEAST:
            return len(fusing) >= self._least
        fed = set(fusing)
        for node in nodes:
            if not fed.isdisjoint(node.all_input_nodes):
                if node in fusing:
                    return True
                if kind_of(node) in (Kind.ALIAS, Kind.FACTORY):
                    fed.add(node)
        return False


def _is_alone(node: fx.Node) -> bool:
    """Tell whether an operation is one kernel with nothing to fuse."""
    kind = kind_of(node)
    return (kind is Kind.COMPUTE and _name(node) in _CONVOLUTIONS) or (kind is Kind.IN_PLACE and _is_counter(node))


def _is_arithmetic(node: fx.Node) -> bool:
    return kind_of(node) is Kind.SIZE and node.target in (operator.add, operator.sub, operator.mul)


def _name(node: fx.Node) -> str:
    return node.target.overloadpacket.__name__  # type: ignore[union-attr,no-any-return]  # operators only


def _only_parts(node: fx.Node) -> bool:
    return all(user.target is operator.getitem and isinstance(user.args[1], int) for user in node.users)


def _is_fresh_part(node: fx.Node) -> bool:
    """Tell whether a node takes one of several new tensors."""
    return node.target is operator.getitem and kind_of(node.args[0]) in (Kind.COMPUTE, Kind.STATISTICS)  # type: ignore[arg-type]


def _statistics(node: fx.Node) -> tuple[fx.Node, ...]:
    return tuple(value for value in node.args[3:5] if isinstance(value, fx.Node))


def _is_counter(node: fx.Node) -> bool:
    """Tell whether an operation counts up an integer of the state, such as the batches that a normalisation has seen."""
    target = node.args[0]
    return isinstance(target, fx.Node) and target.op == "placeholder" and (dtype_of(target) or "").startswith("i")
