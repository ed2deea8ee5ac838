"""Lets what follows a branch know which way was taken, where a flag tells.

    done, y = if c:                 y = if c:
      yield True, a                   yield a
    else:                       →   else:
      yield False, b                  y = if d:
    y = if not done:                    …
      if d: …                         yield y
    else:
      yield y
    return y

A loop that is written out and left early asks at each of its iterations whether it was left already. When a branch gives a constant
that a later condition depends on, all that follows moves into both sides of the branch, where the condition is known. The same
operations run in the same order on each way; only their conditions are gone.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

from torch import fx

from dy2st_runtime.ir.program import Block, Program, copy_block, node_blocks
from dy2st_runtime.primitives import control, scalars

_GROWTH = 2
"""How many times larger than the program the result may be."""

_FOLDED = (
    scalars.to_int, scalars.to_bool, scalars.logical_not, scalars.logical_and, scalars.logical_or, operator.not_,
    *(getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
)  # fmt: skip


class _TooLarge(Exception):
    """What moves does not get smaller."""


def thread_jumps(program: Program, *, deepest: int | None = None) -> Program:
    """Move what follows branches into them, where flags tell the way.

    Args:
        program: any program; it stays as it is.
        deepest: in how many branches at most an operation may end up by that; what comes later asks as before.

    Returns:
        A program that does the same; the program itself where there is nothing to gain.
    """
    count = sum(len(block.graph.nodes) for block in program.blocks())
    writer = _Writer(_GROWTH * count + 100, deepest)
    scope = _Scope(None)
    env = {node: scope.input(node) for node in program.block.inputs}
    try:
        outputs = writer.run(((list(program.block.graph.nodes), 0, None),), env, scope)
    except _TooLarge:
        return program
    if not writer.moved:
        return program
    scope.graph.output(tuple(outputs))
    return dataclasses.replace(program, block=Block(scope.graph))


class _Scope:
    """A block that is being written.

    Attributes:
        graph: its operations.
        lifted: its inputs, by the value outside.
        depth: in how many branches it is.
    """

    def __init__(self, outside: _Scope | None) -> None:
        self.graph, self.outside = fx.Graph(), outside
        self.depth: int = 0 if outside is None else outside.depth + 1
        self.lifted: dict[fx.Node, fx.Node] = {}
        self._last: fx.Node | None = None

    def input(self, like: fx.Node) -> fx.Node:
        """Return one more input."""
        with self.graph.inserting_before(self._first()):
            result = self.graph.placeholder(like.name)
        result.meta = dict(like.meta)
        self._last = result
        return result

    def _first(self) -> fx.Node | None:
        return self._last.next if self._last is not None else next(iter(self.graph.nodes), None)

    def here(self, value: Any) -> Any:
        """Return a value of this block or of one around it, in this block."""
        return fx.node.map_aggregate(value, lambda each: self._lift(each) if isinstance(each, fx.Node) else each)

    def _lift(self, node: fx.Node) -> fx.Node:
        if node.graph is self.graph:
            return node
        if node not in self.lifted:
            self.lifted[node] = self.input(node)
        return self.lifted[node]


_Frames = tuple[tuple[Sequence[fx.Node], int, fx.Node | None], ...]
"""Blocks in the middle of being written, outside first: their nodes, the next one, and the operation they are a part of."""


class _Writer:
    """Writes operations once more.

    Args:
        limit: how many there may be.
        deepest: in how many branches they may be.

    Attributes:
        moved: whether anything was moved.
    """

    def __init__(self, limit: int, deepest: int | None) -> None:
        self._left, self._deepest = limit, deepest
        self.moved = False

    def run(self, frames: _Frames, env: dict[fx.Node, Any], scope: _Scope) -> list[Any]:
        """Write everything up to the end of the program; gives its outputs."""
        while True:
            nodes, index, owner = frames[-1]
            node = nodes[index]
            frames = (*frames[:-1], (nodes, index + 1, owner))
            if node.op == "output":
                outputs = [self._value(value, env) for value in node.args[0]]  # type: ignore[union-attr]  # a tuple, see verify
                if owner is None:
                    return [scope.here(value) for value in outputs]
                env[owner] = tuple(outputs)
                frames = frames[:-1]
            elif node.op == "call_function":
                if node.target is control.if_:
                    pred = self._value(node.args[0], env)
                    if not isinstance(pred, fx.Node):
                        frames = (*frames, self._enter(node, 0 if pred else 1, env))
                        continue
                    if self._tells(node, frames) and (self._deepest is None or scope.depth < self._deepest):
                        return self._move(node, frames, env, scope)
                self._write(node, env, scope)

    def _value(self, value: Any, env: dict[fx.Node, Any]) -> Any:
        return fx.node.map_aggregate(value, lambda each: env[each] if isinstance(each, fx.Node) else each)

    def _enter(self, node: fx.Node, number: int, env: dict[fx.Node, Any]) -> Any:
        block = node_blocks(node)[number]
        operands: Any = node.args[3]
        for inner, outer in zip(block.inputs, operands):
            env[inner] = self._value(outer, env)
        return ([each for each in block.graph.nodes if each.op != "placeholder"], 0, node)

    def _tells(self, node: fx.Node, frames: _Frames) -> bool:
        """Tell whether a branch gives a constant, and conditions follow."""
        constants = any(isinstance(value, (bool, int)) for block in node_blocks(node) for value in block.outputs)
        follows = any(later.target is control.if_ for nodes, index, _ in frames for later in nodes[index:])
        return constants and follows

    def _move(self, node: fx.Node, frames: _Frames, env: dict[fx.Node, Any], scope: _Scope) -> list[Any]:
        """Write what follows inside of both branches."""
        self.moved = True
        scopes, results = [], []
        for number in (0, 1):
            inner, own = _Scope(scope), dict(env)
            results.append(self.run((*frames, self._enter(node, number, own)), own, inner))
            scopes.append(inner)
        operands = list(dict.fromkeys(value for inner in scopes for value in inner.lifted))
        for inner, outputs in zip(scopes, results):
            _order(inner, operands)
            inner.graph.output(tuple(outputs))
        blocks = [Block(inner.graph) for inner in scopes]
        pred = scope.here(self._value(node.args[0], env))
        result = scope.graph.call_function(control.if_, (pred, *blocks, tuple(scope.here(value) for value in operands)))  # type: ignore[arg-type]
        result.meta = {key: value for key, value in node.meta.items() if key != "type"}
        return [_result(scope, result, position, pair) for position, pair in enumerate(zip(*results))]

    def _write(self, node: fx.Node, env: dict[fx.Node, Any], scope: _Scope) -> None:
        args, kwargs = self._value(node.args, env), self._value(node.kwargs, env)
        known = not any(isinstance(value, fx.Node) for value in args)
        if node.target is operator.getitem and isinstance(args[0], tuple) and isinstance(args[1], int):
            env[node] = args[0][args[1]]
        elif node.target in _FOLDED and known and all(isinstance(value, (bool, int)) for value in args):
            env[node] = node.target(*args)  # type: ignore[operator]  # one of the functions above
        elif node.target is control.assert_ and args[0] is True:
            env[node] = None
        else:
            self._left -= 1 + sum(len(block.graph.nodes) for block in node_blocks(node))
            if self._left < 0:
                raise _TooLarge
            copied = [copy_block(value) if isinstance(value, Block) else scope.here(value) for value in args]
            env[node] = result = scope.graph.call_function(node.target, tuple(copied), scope.here(dict(kwargs)))  # type: ignore[arg-type]
            result.meta = dict(node.meta)


def _order(scope: _Scope, operands: Sequence[fx.Node]) -> None:
    """Give a block an input for each operand, in their order."""
    last = None
    for value in operands:
        inner = scope._lift(value)
        if last is not None and inner is not last.next:
            last.append(inner)
        elif last is None and inner is not next(iter(scope.graph.nodes)):
            next(iter(scope.graph.nodes)).prepend(inner)
        last = inner


def _result(scope: _Scope, obj: fx.Node, position: int, pair: tuple[Any, Any]) -> Any:
    """Return a result of both branches; a constant where they give the same."""
    left, right = pair
    if not isinstance(left, fx.Node) and type(left) is type(right) and left == right:
        return left
    result = scope.graph.call_function(operator.getitem, (obj, position))
    like = next((value for value in pair if isinstance(value, fx.Node)), None)
    result.meta = {key: value for key, value in (like.meta if like is not None else {}).items() if key in ("type", "location")}
    return result
