"""Rewrite rules: one piece of straight code in the place of another, in all blocks of a program.

A rule is two blocks over the same inputs. In their arguments, :class:`Size` stands for a size that both were captured with and
:class:`Scalar` for a number: a match finds out what they are. The pattern is looked for from its result backwards; operands of a
sum or product may stand in either order.

A match is replaced only where that cannot be seen but in the values: nothing outside of it uses what is computed on the way, no
memory involved is written anywhere in the program, no mode changes in between, and dtypes and numbers of dimensions are those of
the examples that the rule was made with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing, is_quiet
from dy2st_runtime.analyses.purity import replace_all
from dy2st_runtime.ir.operators import present
from dy2st_runtime.ir.program import Block, Program, copy_block, nested_blocks
from dy2st_runtime.ir.value_types import is_number, tensor_type

aten = torch.ops.aten
_COMMUTATIVE = frozenset(present(
    "add.Tensor", "mul.Tensor", "maximum.default", "minimum.default", "eq.Tensor", "ne.Tensor", "logical_and.default",
    "logical_or.default", "bitwise_and.Tensor", "bitwise_or.Tensor",
))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Size:
    """A size of the inputs, by number: wherever it stands it is the same."""

    number: int


@dataclasses.dataclass(frozen=True)
class Scalar:
    """A float among the arguments, by number."""

    number: int


@dataclasses.dataclass(frozen=True)
class TensorLike:
    """The dtype and the sizes of a tensor, as :func:`~dy2st_runtime.ir.printing.describe` writes them."""

    dtype: str
    sizes: tuple[str | Size, ...]


@dataclasses.dataclass(frozen=True)
class Side:
    """The pattern or the replacement of a rule.

    Attributes:
        block: a block with one output; the placeholders are the tensors among the arguments.
        types: of the values of the block, where they are known.
    """

    block: Block
    types: Mapping[fx.Node, TensorLike]

    @property
    def result(self) -> fx.Node:
        """What it gives."""
        (node,) = self.block.outputs
        assert isinstance(node, fx.Node)
        return node

    @property
    def calls(self) -> list[fx.Node]:
        """Its operations, in order."""
        return [node for node in self.block.graph.nodes if node.op == "call_function"]

    def shares_memory(self) -> bool:
        """Tell whether the result may have the memory of an input."""
        aliasing = Aliasing(self.block)
        return any(aliasing.share(self.result, node) for node in self.block.inputs)


@dataclasses.dataclass(frozen=True)
class _Match:
    """What the parts of a pattern stand for."""

    nodes: Mapping[fx.Node, fx.Node] = dataclasses.field(default_factory=dict)
    sizes: Mapping[int, str] = dataclasses.field(default_factory=dict)
    scalars: Mapping[int, Any] = dataclasses.field(default_factory=dict)

    def with_node(self, part: fx.Node, node: fx.Node) -> _Match:
        return dataclasses.replace(self, nodes={**self.nodes, part: node})

    def with_size(self, number: int, size: str) -> _Match | None:
        if number in self.sizes:
            return self if self.sizes[number] == size else None
        return dataclasses.replace(self, sizes={**self.sizes, number: size})

    def with_scalar(self, number: int, value: Any) -> _Match | None:
        if number in self.scalars:
            return self if _same_constant(self.scalars[number], value) else None
        return dataclasses.replace(self, scalars={**self.scalars, number: value})


class Rule:
    """A pass that puts one piece of code in the place of another.

    Args:
        name: for people.
        pattern: what is looked for.
        replacement: what stands there afterwards; its inputs are those of the pattern, in order.
    """

    def __init__(self, name: str, pattern: Side, replacement: Side) -> None:
        self.name = self.__name__ = self.__qualname__ = name
        self._pattern, self._replacement = pattern, replacement
        self._views = pattern.shares_memory() or replacement.shares_memory()

    def __repr__(self) -> str:
        return f"Rule({self.name}: {len(self._pattern.calls)} operations become {len(self._replacement.calls)})"

    def __call__(self, program: Program) -> Program:
        """Apply the rule wherever it matches.

        Args:
            program: any program.

        Returns:
            The program with the replacements.
        """
        return self._applied(program)[0]

    def count(self, program: Program) -> int:
        """Return how many times the rule matches."""
        return self._applied(program)[1]

    def _applied(self, program: Program) -> tuple[Program, int]:
        root = copy_block(program.block)
        aliasing, count = Aliasing(root), 0
        for block in nested_blocks(root):
            for node in list(block.graph.nodes):
                if node.target is self._pattern.result.target and not node._erased:
                    result = self._match(node)
                    if result is not None and self._may_replace(result, aliasing):
                        aliasing.unite(self._replace(result), node)
                        count += 1
        return dataclasses.replace(program, block=root), count

    # -- finding -------------------------------------------------------------------------------------------------------------

    def _match(self, root: fx.Node) -> _Match | None:
        return self._solve(((self._pattern.result, root),), _Match())

    def _solve(self, goals: tuple[tuple[Any, Any], ...], match: _Match) -> _Match | None:
        """Make all pairs of pattern and program fit, going back where a choice did not."""
        if not goals:
            return match
        (part, value), *rest = goals
        for more, extended in self._ways(part, value, match):
            result = self._solve((*more, *rest), extended)
            if result is not None:
                return result
        return None

    def _ways(self, part: Any, value: Any, match: _Match) -> Iterator[tuple[tuple[tuple[Any, Any], ...], _Match]]:
        """Yield the ways in which a part may stand for a value: what has to fit then, and what is known then."""
        if isinstance(part, fx.Node):
            yield from self._node_ways(part, value, match)
        elif isinstance(part, Size):
            size = _size_text(value)
            result = None if size is None else match.with_size(part.number, size)
            if result is not None:
                yield (), result
        elif isinstance(part, Scalar):
            result = match.with_scalar(part.number, value) if is_number(value, frozenset({"float"})) else None
            if result is not None:
                yield (), result
        elif isinstance(part, (list, tuple)):
            if isinstance(value, (list, tuple)) and len(part) == len(value):
                yield tuple(zip(part, value)), match
        elif _same_constant(part, value):
            yield (), match

    def _node_ways(self, part: fx.Node, value: Any, match: _Match) -> Iterator[tuple[tuple[tuple[Any, Any], ...], _Match]]:
        if not isinstance(value, fx.Node) or match.nodes.get(part, value) is not value:
            return
        if part in match.nodes:
            yield (), match
            return
        fits = self._fits(part, value, match.with_node(part, value))
        if fits is None:
            return
        if part.op == "placeholder":
            yield (), fits
        elif value.target is part.target and len(value.args) == len(part.args) and set(value.kwargs) == set(part.kwargs):
            named = tuple((item, value.kwargs[key]) for key, item in part.kwargs.items())
            yield (*zip(part.args, value.args), *named), fits
            if part.target in _COMMUTATIVE and len(part.args) == 2 and not part.kwargs:
                left, right = part.args
                yield ((right, value.args[0]), (left, value.args[1]), *named), fits

    def _fits(self, part: fx.Node, value: fx.Node, match: _Match) -> _Match | None:
        """Tell whether a value has the dtype and sizes of a part of the pattern."""
        expected, result = self._pattern.types.get(part), tensor_type(value)
        if expected is None or result is None:
            return match if part.op == "call_function" else None
        dtype, sizes = result
        if dtype != expected.dtype or len(sizes) != len(expected.sizes):
            return None
        known: _Match | None = match
        for want, size in zip(expected.sizes, sizes):
            if known is not None and isinstance(want, Size):
                known = known.with_size(want.number, size)
            elif want != size:
                return None
        return known

    # -- replacing -----------------------------------------------------------------------------------------------------------

    def _may_replace(self, match: _Match, aliasing: Aliasing) -> bool:
        matched = {match.nodes[part] for part in self._pattern.calls}
        root = match.nodes[self._pattern.result]
        if any(user not in matched for node in matched if node is not root for user in node.users):
            return False
        if any(aliasing.is_written(node) for node in match.nodes.values()):
            return False
        if self._views and aliasing.memory_escapes(root):
            return False
        return all(node in matched or is_quiet(node) for node in _span(matched, root))

    def _replace(self, match: _Match) -> fx.Node:
        """Put the replacement before the last operation of a match, and take the match away."""
        root = match.nodes[self._pattern.result]
        table: dict[fx.Node, fx.Node] = {
            inner: match.nodes[part]
            for inner, part in zip(self._replacement.block.inputs, self._pattern.block.inputs)
            if part in match.nodes
        }
        with root.graph.inserting_before(root):
            for part in self._replacement.calls:
                args, kwargs = (self._filled(values, table, match) for values in (part.args, part.kwargs))
                table[part] = node = root.graph.call_function(part.target, args, kwargs)  # type: ignore[arg-type]
                self._describe(part, node, root, match)
        result = table[self._replacement.result]
        replace_all(root, result)
        for part in reversed(self._pattern.calls[:-1]):
            match.nodes[part].graph.erase_node(match.nodes[part])
        return result

    def _filled(self, values: Any, table: Mapping[fx.Node, fx.Node], match: _Match) -> Any:
        def fill(leaf: Any) -> Any:
            if isinstance(leaf, fx.Node):
                return table[leaf]
            if isinstance(leaf, Scalar):
                return match.scalars[leaf.number]
            return self._size(leaf.number, match) if isinstance(leaf, Size) else leaf

        return fx.node.map_aggregate(values, fill)

    def _size(self, number: int, match: _Match) -> Any:
        text = match.sizes[number]
        if text.isdecimal():
            return int(text)
        for part in self._pattern.block.inputs:
            like = self._pattern.types[part]
            if part in match.nodes and Size(number) in like.sizes:
                graph = match.nodes[self._pattern.result].graph
                node = graph.call_function(aten.sym_size.int, (match.nodes[part], like.sizes.index(Size(number))))
                node.meta.update(match.nodes[self._pattern.result].meta, type="int")
                return node
        raise AssertionError("a size of no input")

    def _describe(self, part: fx.Node, node: fx.Node, root: fx.Node, match: _Match) -> None:
        node.meta.update(root.meta)
        like = self._replacement.types.get(part)
        if part is not self._replacement.result:
            sizes = [match.sizes[size.number] if isinstance(size, Size) else size for size in (like.sizes if like else ())]
            node.meta["type"] = f"{like.dtype}[{', '.join(sizes)}]" if like else ""


def _span(matched: set[fx.Node], root: fx.Node) -> Iterator[fx.Node]:
    """Yield what runs from the first operation of a match to the last."""
    left = len(matched)
    node = root
    while left:
        left -= node in matched
        yield node
        node = node.prev


def _size_text(value: Any) -> str | None:
    """Return a size as types write it: a number, or the name of a symbol that was read from a tensor."""
    if type(value) is int:
        return str(value)
    if isinstance(value, fx.Node) and value.target is aten.sym_size.int and type(value.args[1]) is int:
        result = tensor_type(value.args[0])
        return result[1][value.args[1]] if result is not None and -len(result[1]) <= value.args[1] < len(result[1]) else None
    return None


def _same_constant(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a is b or repr(a) == repr(b)) and not isinstance(a, fx.Node)


def used_inputs(side: Side) -> Sequence[int]:
    """Return the positions of the inputs that the result of a side depends on."""
    return [position for position, node in enumerate(side.block.inputs) if node.users]
