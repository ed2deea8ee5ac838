"""Makes blocks of the operations that ``torch.utils.checkpoint`` is to do again in the backward pass.

y = checkpoint(f, x)    →    y = checkpoint with (x): yield x.sin().cos()
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence

from torch import fx

from dy2st.capture.writes.checkpointed import GIVEN, INSIDE, RESULTS, Region
from dy2st_runtime.ir.program import Block, Program, copy_block, nested_blocks, node_blocks
from dy2st_runtime.primitives import control, modes

_CHANGE_LISTS = frozenset((*control.LIST_CHANGES, control.item_open))
_SWITCHES = frozenset(target for target, name in modes.TARGETS.items() if name in ("enter_autocast", "exit_autocast"))


def outlined(program: Program) -> Program:
    """Return a program in which each region is a block.

    Of what cannot be done twice (a list from outside grows, a mode is left that was entered outside), nothing is done again:
    all that it saves for the backward pass is kept.
    """
    if not any(INSIDE in node.meta for node in program.nodes()):
        return program
    block = copy_block(program.block)
    _outline(block, 0)
    return dataclasses.replace(program, block=block)


def _outline(block: Block, depth: int) -> None:
    groups: dict[Region, list[fx.Node]] = {}
    for node in block.graph.nodes:
        regions = node.meta.get(INSIDE, ()) if node.op == "call_function" else ()
        if len(regions) > depth:
            groups.setdefault(regions[depth], []).append(node)
        else:
            for inner in node_blocks(node):
                _outline(inner, 0)
    for region, run in groups.items():
        _take_out(block, region, run, depth)


def _take_out(block: Block, region: Region, run: Sequence[fx.Node], depth: int) -> None:
    """Put a call of a block in the place of some operations, where they can be done twice."""
    members = set(run)
    used = list(dict.fromkeys(used for node in run for used in node.all_input_nodes if used not in members))
    outputs = [node for node in run if any(user not in members for user in node.users)]
    inner = _extracted(run, used, outputs)
    if outputs and _is_repeatable(inner, used) and _are_known(region, outputs):
        _outline(inner, depth + 1)
        _replace(block, region, run, inner, used, outputs)
    else:
        for node in run:
            for nested in node_blocks(node):
                _outline(nested, 0)


def _extracted(run: Sequence[fx.Node], used: Sequence[fx.Node], outputs: Sequence[fx.Node]) -> Block:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in used:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta.update(node.meta)
    for node in run:
        copies[node] = graph.node_copy(node, lambda one: copies[one])
    graph.output(tuple(copies[node] for node in outputs))
    return Block(graph)


def _replace(
    block: Block, region: Region, run: Sequence[fx.Node], inner: Block, used: Sequence[fx.Node], outputs: Sequence[fx.Node]
) -> None:
    members, graph, options = set(run), block.graph, dict(region.options)
    if not region.is_reentrant and any(node.target in modes.TARGETS for one in nested_blocks(inner) for node in one.graph.nodes):
        options["early_stop"] = False  # it leaves the function half-way, with the modes that it has switched
    inputs = tuple(node for node in used if region.has(node, GIVEN))
    operands = tuple(node for node in used if not region.has(node, GIVEN))
    placeholders = dict(zip(used, inner.inputs, strict=True))
    for node in reversed((*inputs, *operands)):
        next(iter(inner.graph.nodes)).prepend(placeholders[node])
    with graph.inserting_before(run[0]):
        call = graph.call_function(control.transform_, ("checkpoint", inner, inputs, operands), options)  # type: ignore[arg-type]
        parts = [graph.call_function(operator.getitem, (call, index)) for index in range(len(outputs))]
    for item in (call, *parts):
        item.meta.update({key: value for key, value in run[0].meta.items() if key == "location"})
    for node, part in zip(outputs, parts):
        part.meta.update({key: value for key, value in node.meta.items() if key != INSIDE})
        node.replace_all_uses_with(part, delete_user_cb=lambda user: user not in members)
    for node in reversed(run):
        graph.erase_node(node)


def _is_repeatable(block: Block, used: Sequence[fx.Node]) -> bool:
    nodes = [node for one in nested_blocks(block) for node in one.graph.nodes]
    grows = any(node.target in _CHANGE_LISTS for node in nodes) and any("list" in str(node.meta.get("type")) for node in used)
    leaves = any(node.target in _SWITCHES and any(one.op == "placeholder" for one in node.all_input_nodes) for node in nodes)
    return not grows and not leaves


def _are_known(region: Region, outputs: Sequence[fx.Node]) -> bool:
    """Tell whether all that a region gives is a result of the function, where only these belong to the graph of autograd."""
    return not region.is_reentrant or all(
        region.has(node, RESULTS) or not str(node.meta.get("type")).startswith(_FLOATS) for node in outputs
    )


_FLOATS = ("f", "bf", "c")
