"""The program that runs some iterations of a loop."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx

from dy2st_runtime.ir.program import Block, Program, copy_block
from dy2st_runtime.ir.structure import TupleOf
from dy2st_runtime.primitives import control, scalars


def part_of(body: Block) -> Program:
    """Return the program that runs some iterations: takes their number, what is carried and what is read."""
    outer, inner = fx.Graph(), fx.Graph()
    carries = len(body.outputs) - 1
    names = [node.name for node in body.inputs]
    limit, *given = (_input(outer, name) for name in ("limit", *names))
    _, count, *held = (_input(inner, name) for name in ("going", "count", *names[:carries], "limit", *names[carries:]))
    table = dict(zip(body.inputs, (*held[:carries], *held[carries + 1 :]), strict=True))
    for old, new in table.items():
        new.meta.update(old.meta)
    for node in body.graph.nodes:
        if node.op == "call_function":
            copied = table[node] = inner.node_copy(node, lambda used: table[used])
            copied.args = tuple(copy_block(value) if isinstance(value, Block) else value for value in copied.args)
    again, *results = (table[value] if isinstance(value, fx.Node) else value for value in body.outputs)
    going = _call(inner, scalars.to_bool, (again,), "bool")
    more = _call(inner, operator.add, (count, 1), "int")
    is_less = _call(inner, operator.lt, (more, held[carries]), "bool")
    inner.output((_call(inner, scalars.logical_and, (going, is_less), "bool"), going, more, *results))
    loop = outer.call_function(
        control.while_,
        (True, Block(inner), (True, 0, *given[:carries]), (limit, *given[carries:])),  # type: ignore[arg-type]
    )
    outer.output(tuple(outer.call_function(operator.getitem, (loop, index)) for index in range(carries + 2)))
    return Program("loop", Block(outer), (), TupleOf(()), (), TupleOf(()))


def _input(graph: fx.Graph, name: str) -> fx.Node:
    node = graph.placeholder(name)
    node.meta["type"] = {"going": "bool", "count": "int", "limit": "int"}.get(name, "")
    return node


def _call(graph: fx.Graph, target: Any, args: tuple[Any, ...], kind: str) -> fx.Node:
    node = graph.call_function(target, args)
    node.meta["type"] = kind
    return node
