"""One block while it is being captured: the graph, and which node stands for which value.

A value of an outer block that is used inside becomes an operand: the inner block gets a placeholder for it at first use.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

import sympy
import torch
from torch import fx

from dy2st.capture.values import expressions
from dy2st.capture.values.provenance import Provenance
from dy2st.capture.values.symbolic import MAY_BE_ABSENT, SYMBOLIC_NUMBERS, RuntimeFunction, RuntimeList, Stale
from dy2st.capture.values.texts import RuntimeString
from dy2st.errors import CaptureError
from dy2st_runtime.ir.printing import describe
from dy2st_runtime.ir.program import Block, Location, node_blocks
from dy2st_runtime.primitives import scalars

ACTS_FOR_USER = False

_VALUES = (torch.Tensor, *SYMBOLIC_NUMBERS, RuntimeList, RuntimeString, RuntimeFunction)
"""What nodes stand for."""


class OutOfScopeError(CaptureError):
    """A value has no node in a block, nor in those around it."""


class BlockBuilder:
    """A block under construction.

    Args:
        parent: the block around it; ``None`` for the root.
        locate: gives the user's line that runs now.
        adopt: turns a real tensor met during capture into the abstract value that the root block has for it.
        recorded: called with each operation, once its result is known.
    """

    def __init__(
        self,
        parent: BlockBuilder | None,
        locate: Callable[[], Location | None],
        adopt: Callable[[torch.Tensor], torch.Tensor],
        recorded: Callable[[BlockBuilder, fx.Node], None],
    ) -> None:
        self.parent, self.locate, self.adopt, self.recorded = parent, locate, adopt, recorded
        self.graph = fx.Graph()
        self.provenance: Provenance = parent.provenance if parent is not None else Provenance()
        self.generators: dict[int, torch.Generator] = parent.generators if parent is not None else {}
        """What stands for generators that the program makes, by what torch calls them: it makes another object at each call."""
        self.operands: dict[fx.Node, fx.Node] = {}
        """Outer node → the placeholder that stands for it here, in order of first use."""
        self._objects: dict[int, tuple[Callable[[], Any], fx.Node]] = {}
        """Tensors and lists by identity, held weakly: torch's factory functions copy a result that anyone else holds."""
        self._expressions: dict[sympy.Basic, fx.Node] = {}
        self._lazy: dict[sympy.Basic, tuple[Any, tuple[Any, ...]]] = {}
        """Expressions that one operation gives, made when first asked for: the sizes of tensors mostly."""
        self._first: set[fx.Node] = set()
        """What has been recorded in front of all other operations."""
        self._sometimes: dict[sympy.Basic, tuple[Any, tuple[Any, ...]]] = {}
        """The same of tensors and bools that are not there on some ways: each block that asks makes them."""

    # -- values to nodes -------------------------------------------------------------------------------------------------

    def argument(self, value: Any) -> Any:
        """Return what stands for a value, or for each value in nested tuples, lists, dicts and slices, in the arguments of a
        node.
        """
        if isinstance(value, _VALUES):
            if isinstance(value, RuntimeList) and value.is_appended:
                self._refuse_reading()
            return self.node_of(value)
        if isinstance(value, (tuple, list)):
            kind = list if isinstance(value, list) else tuple
            return kind(self.argument(item) for item in value)
        if isinstance(value, dict):
            return {key: self.argument(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(self.argument(value.start), self.argument(value.stop), self.argument(value.step))
        if isinstance(value, Stale):
            value.fail()
        if isinstance(value, torch.Generator) and _address(value) in self.generators:
            return self.object_node(self.generators[_address(value)])
        return value

    def left(self, outputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments for what the program leaves outside, of a list also what is to be appended to it."""
        return tuple(self.node_of(value) if isinstance(value, RuntimeList) else self.argument(value) for value in outputs)

    def _refuse_reading(self) -> NoReturn:
        raise CaptureError(
            "a list from outside that is longer at each call is read, or changed otherwise than by appending to it",
            fix="keep what is read in a list of its own",
        )

    def node_of(self, value: Any) -> Any:
        """Return the node of a symbolic value; a plain number where the value turned out to be known."""
        if isinstance(value, SYMBOLIC_NUMBERS):
            return self._number_node(value)
        node = self._find_object(value)
        if node is None and isinstance(value, torch.Tensor):
            node = self._find_object(self.adopt(value))
        if node is None:
            raise OutOfScopeError(
                f"{describe(value) or 'a value'} is used outside of the branch or loop that made it",
                fix="make it before the branch or loop, or give it back from there",
            )
        return node

    def is_inside(self, other: BlockBuilder) -> bool:
        """Tell whether this is the other block or one inside of it."""
        return self is other or (self.parent is not None and self.parent.is_inside(other))

    def has_block(self, other: BlockBuilder) -> bool:
        """Tell whether a node of this block runs another one."""
        return any(block.graph is other.graph for node in self.graph.nodes for block in node_blocks(node))

    def is_operand(self, value: Any) -> bool:
        """Tell whether a tensor or list is one of an outer block."""
        node = self._own(value)
        if node is not None:
            return node in self.operands.values()
        return self.parent is not None and self.parent.knows(value)

    def knows(self, value: Any) -> bool:
        """Tell whether a tensor or list has a node in this block or an outer one."""
        return self._own(value) is not None or (self.parent is not None and self.parent.knows(value))

    def lifted(self) -> list[torch.Tensor]:
        """Return the tensors of outer blocks that are used here."""
        taken = set(self.operands.values())
        values = (get() for get, node in self._objects.values() if node in taken)
        return [value for value in values if isinstance(value, torch.Tensor)]

    def can_express(self, expr: sympy.Basic) -> bool:
        """Tell whether the block can compute an expression of sizes and numbers."""
        own = (self._expressions, self._lazy, self._sometimes)
        if any(expr in table for table in own) or (self.parent is not None and self.parent.can_express(expr)):
            return True
        return not expr.is_Symbol and all(self.can_express(part) for part in expr.args)

    def _own(self, value: Any) -> fx.Node | None:
        result = self._objects.get(id(value))
        return result[1] if result is not None and result[0]() is value else None

    def _remember(self, value: Any, node: fx.Node) -> None:
        try:
            self._objects[id(value)] = (weakref.ref(value), node)
        except TypeError:  # a dict, or an object without a place for that
            self.stands_for(value, node)

    def _find_object(self, value: Any) -> fx.Node | None:
        result = self._own(value)
        if result is not None:
            return result
        outer = self.parent._find_object(value) if self.parent is not None else None
        if outer is None:
            return None
        node = self._lift(outer)
        self._remember(value, node)
        return node

    def _number_node(self, value: Any) -> Any:
        if value.node.constant is not None:
            return value.node.constant
        return self.expression_node(value.node.expr)

    def expression_node(self, expr: sympy.Basic) -> Any:
        """Return the node that computes an expression of sizes and numbers, made of operations where there is none yet."""
        expression = self._find_expression(expr)
        if expression is not None:
            return expression
        if not expr.free_symbols:
            return expressions.constant(expr)
        node = expressions.build(expr, self.expression_node, self.call_raw)
        if isinstance(node, fx.Node):
            self._expressions[expr] = node
        return node

    def node_of_number(self, symbol: sympy.Basic) -> fx.Node | None:
        """Return the node of this block or an outer one that gives a number, where it has been made."""
        return self._expressions.get(symbol) or (None if self.parent is None else self.parent.node_of_number(symbol))

    def _find_expression(self, expr: sympy.Basic) -> fx.Node | None:
        if expr in self._expressions:
            return self._expressions[expr]
        if expr in self._lazy:
            self._expressions[expr] = node = self.call_raw(*self._lazy[expr])
            return node
        operation = self._made_here(expr)
        if operation is not None:
            self._expressions[expr] = node = self.call_raw(*operation)
            return node
        outer = self.parent._find_expression(expr) if self.parent is not None else None
        if outer is None:
            return None
        self._expressions[expr] = node = self._lift(outer)
        return node

    def _made_here(self, expr: sympy.Basic) -> tuple[Any, tuple[Any, ...]] | None:
        """Return the operation on what is not there on some ways that gives an expression, for the block that asks."""
        if expr in self._sometimes or self.parent is None:
            return self._sometimes.get(expr)
        if expr in self.parent._expressions:
            return None  # the block around has asked before: it is there
        outer = self.parent._made_here(expr)
        return None if outer is None else (outer[0], (self._lift(outer[1][0]), *outer[1][1:]))

    def _lift(self, outer: fx.Node) -> fx.Node:
        if outer not in self.operands:
            self.operands[outer] = self.placeholder(outer.name, outer.meta.get("type", ""))
        return self.operands[outer]

    # -- nodes -----------------------------------------------------------------------------------------------------------

    def placeholder(self, name: str, value: Any) -> fx.Node:
        """Return a new input after the existing ones."""
        first = next((node for node in self.graph.nodes if node.op != "placeholder"), self.graph._root)
        with self.graph.inserting_before(first):
            node = self.graph.placeholder(name)
        _describe(node, value)
        return node

    def call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, value: Any = None) -> fx.Node:
        """Record an operation whose result is ``value``; its arguments are values, not nodes."""
        node = self._node(target, tuple(self.argument(a) for a in args), self.argument(kwargs or {}))
        self.bind(value, node)
        self.recorded(self, node)
        return node

    def call_first(self, target: Any, args: tuple[Any, ...], value: Any) -> None:
        """Record an operation that cannot fail in front of all others, whatever is taken back of these."""
        arguments = tuple(self.argument(a) for a in args)
        first = next((node for node in self.graph.nodes if node.op != "placeholder"), self.graph._root)
        last_before = first.prev
        with self.graph.inserting_before(first):
            self.bind(value, self._node(target, arguments, {}))
        while (made := first.prev) is not last_before:
            self._first.add(made)
            first = made

    def call_raw(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> fx.Node:
        """Record an operation whose arguments are nodes already."""
        node = self._node(target, args, kwargs)
        self.recorded(self, node)
        return node

    def _node(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> fx.Node:
        node = self.graph.create_node("call_function", target, args, kwargs or {}, name=_short_name(target))
        location = self.locate()
        if location is not None:
            node.meta["location"] = location
        return node

    def bind(self, value: Any, node: fx.Node) -> None:
        """From now on ``node`` stands for ``value``; the parts of a tuple or list get ``getitem`` nodes."""
        _describe(node, value)
        if "location" in node.meta:
            self.provenance.note(value, node.meta["location"])
        if isinstance(value, (tuple, list)):
            for index, item in enumerate(value):
                if isinstance(item, (*_VALUES, tuple, list)) and not self._bound(item):
                    self.bind(item, self.call_raw(operator.getitem, (node, index)))
        elif isinstance(value, SYMBOLIC_NUMBERS):
            self._bind_number(value, node)
        elif isinstance(value, torch.Tensor) and not self._bound(value):
            self._remember(value, node)
            self._bind_sizes(value, node)
        elif isinstance(value, (RuntimeList, RuntimeString, RuntimeFunction)):
            self._remember(value, node)

    def stands_for(self, value: Any, node: fx.Node) -> None:
        """From now on ``node`` gives an object; it is kept alive, since a dict cannot be referred to weakly."""
        self._objects[id(value)] = (lambda: value), node

    def bind_generator(self, value: torch.Generator, node: fx.Node) -> None:
        """From now on ``node`` stands for a generator of random numbers."""
        self.generators[_address(value)] = value
        self.stands_for(value, node)

    def object_node(self, value: Any) -> fx.Node | None:
        """Return the node that gives an object, if there is one."""
        return self._find_object(value) if self.knows(value) else None

    def bind_without_sizes(self, value: torch.Tensor, node: fx.Node) -> None:
        """From now on ``node`` stands for ``value``, but what it gives has other sizes."""
        _describe(node, value)
        self._remember(value, node)

    def _bound(self, value: Any) -> bool:
        """In-place operators return their own argument, which keeps the node it has."""
        return isinstance(value, torch.Tensor) and self.knows(value)

    def _bind_sizes(self, value: torch.Tensor, node: fx.Node) -> None:
        may_be_absent = hasattr(value, MAY_BE_ABSENT)
        for dim, size in enumerate(value.shape):
            if not isinstance(size, torch.SymInt) or size.node.constant is not None:
                continue
            if not may_be_absent:
                self._lazy.setdefault(size.node.expr, (torch.ops.aten.sym_size.int, (node, dim)))
            elif not self.can_express(size.node.expr):
                self._sometimes[size.node.expr] = (torch.ops.aten.sym_size.int, (node, dim))

    def _bind_number(self, value: Any, node: fx.Node) -> None:
        expr = value.node.expr
        self._expressions[expr] = node
        if isinstance(expr, sympy.Eq) and isinstance(expr.lhs, sympy.Symbol):  # a symbolic bool is "this 0-or-1 integer is 1"
            self._sometimes.setdefault(expr.lhs, (scalars.to_int, (node,)))

    def mark(self) -> fx.Node:
        """Return a point to come back to with :meth:`rollback`."""
        return self.graph._root.prev

    def rollback(self, mark: fx.Node) -> None:
        """Forget every operation recorded since a mark; inputs stay, and what has been recorded in front."""
        gone: set[fx.Node] = set()
        last = self.graph._root.prev
        while last is not mark and last.op != "placeholder":
            before = last.prev
            if last not in self._first:
                self.graph.erase_node(last)
                gone.add(last)
            last = before
        if gone:
            self._forget(gone)

    def _forget(self, nodes: set[fx.Node]) -> None:
        self._objects = {key: entry for key, entry in self._objects.items() if entry[1] not in nodes}
        self._expressions = {key: entry for key, entry in self._expressions.items() if entry not in nodes}
        self._lazy = {key: entry for key, entry in self._lazy.items() if entry[1][0] not in nodes}
        self._sometimes = {key: entry for key, entry in self._sometimes.items() if entry[1][0] not in nodes}

    def finish(self, outputs: tuple[Any, ...]) -> Block:
        """Close the block; ``outputs`` are values."""
        self.graph.output(self.left(outputs) if self.parent is None else tuple(map(self.argument, outputs)))
        return Block(self.graph)


def align_operands(*builders: BlockBuilder) -> tuple[fx.Node, ...]:
    """Give sibling blocks the same operands in the same order.

    Returns:
        The outer nodes that the control node passes.
    """
    outer = list(dict.fromkeys(node for builder in builders for node in builder.operands))
    for builder in builders:
        for node in outer:
            builder._lift(node)
        first = next((n for n in builder.graph.nodes if n.op != "placeholder"), builder.graph._root)
        for node in outer:
            first.prepend(builder.operands[node])
    return tuple(outer)


def _short_name(target: Any) -> str | None:
    """Return ``add`` for ``aten.add.Tensor``; torch.fx makes it unique."""
    return target.overloadpacket.__name__ if isinstance(target, torch._ops.OpOverload) else None


def _address(generator: torch.Generator) -> int:
    return cast(Any, generator)._cdata  # type: ignore[no-any-return]


def _describe(node: fx.Node, value: Any) -> None:
    node.meta["type"] = value if isinstance(value, str) else describe(value)
