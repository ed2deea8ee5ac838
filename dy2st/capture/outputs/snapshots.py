"""Turns loops for which snapshots are asked into loops that keep them, where their iterations can be done twice."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from dy2st import errors
from dy2st.capture.writes.checkpointed import SNAPSHOTS
from dy2st_runtime.analyses.aliasing import Aliasing, keeps
from dy2st_runtime.ir.program import Block, Program, nested_blocks, node_blocks
from dy2st_runtime.primitives import control, modes

_ONCE: dict[Any, str] = {
    control.print_: "prints", control.call_: "calls Python", control.apply_: "calls a function with a gradient of its own",
    modes.set_: "changes a setting of torch", torch.ops.aten.requires_grad_.default: "calls requires_grad_()",
}  # fmt: skip
_TRANSFORMS = ("loop", "checkpoint", "attempt")


def with_snapshots(program: Program) -> Program:
    """Change the loops of a program that has just been captured.

    Raises:
        CaptureError: one does something that cannot be done twice, and stands under ``dy2st.checkpointed``.
    """
    changed = []
    for block in list(program.blocks())[::-1]:
        for node in block.graph.nodes:
            if node.target is control.while_ and SNAPSHOTS in node.meta and _change(node, *node.meta[SNAPSHOTS]):
                changed.append(node)
    if changed and not any(node.target is torch.amp.autocast_mode._enter_autocast for node in program.nodes()):
        aliases = Aliasing(program.block)
        for node in changed:
            _thread(node, aliases)
    return program


def _change(node: fx.Node, snapshots: int, is_asked: bool, location: errors.Location | None, autocast: bool) -> bool:
    pred, body, carried, operands = node.args
    assert isinstance(body, Block)
    reason = "runs under autocast, which keeps what it has cast," if autocast else _why_not(body)
    if reason is None:
        node.target, node.args = control.transform_, ("loop", body, carried, operands)
        node.kwargs = {"pred": pred, "snapshots": snapshots}
        return True
    if is_asked:
        raise errors.CaptureError(
            f"a loop under dy2st.checkpointed {reason}, and its iterations are to be done again in the backward pass",
            location,
            fix="make new values in the loop, and do that before or after it",
        )
    return False


def _thread(node: fx.Node, aliases: Aliasing) -> None:
    """Have what follows a loop take the tensors that it reads from the loop: their gradients are summed in one order then."""
    _, _, carried, operands = node.args
    given = (*carried, *operands)  # type: ignore[misc]
    later = set[fx.Node]()
    follower = node.next
    while follower.op != "root":
        later.add(follower)
        follower = follower.next
    threaded: dict[fx.Node, int] = {}
    for place, value in enumerate(given):
        if isinstance(value, fx.Node) and value not in threaded and str(value.meta.get("type")).startswith(("f", "bf", "c")):
            users = [user for user in value.users if user in later and _only_reads(user, value)]
            if users and not aliases.is_written(value):
                with node.graph.inserting_after(node):
                    part = node.graph.call_function(operator.getitem, (node, len(carried) + len(threaded)))  # type: ignore[arg-type]
                part.meta.update({key: kept for key, kept in value.meta.items() if key in ("type", "location")})
                threaded[value] = place
                for user in users:
                    user.replace_input_with(value, part)
    if threaded:
        node.kwargs = {**node.kwargs, "threaded": tuple(threaded.values())}


def _only_reads(user: fx.Node, value: fx.Node) -> bool:
    """Tell whether nobody sees which tensor of two with one memory an operation takes."""
    if node_blocks(user):
        return not any(_gives_back(block, inner) for block in node_blocks(user) for inner in _inside(user, block, value))
    return isinstance(user.target, torch._ops.OpOverload)


def _inside(user: fx.Node, block: Block, value: fx.Node) -> list[fx.Node]:
    """Return the inputs of a block that stand for a value."""
    given = [*(user.args[2] if user.target is not control.if_ else ()), *user.args[3]]  # type: ignore[misc]
    return [inner for inner, outer in zip(block.inputs, given, strict=True) if outer is value]


def _gives_back(block: Block, value: fx.Node) -> bool:
    if value in block.outputs:
        return True
    return any(not _only_reads(user, value) for user in value.users if user.op == "call_function")


def _why_not(body: Block) -> str | None:
    """Return what in an iteration cannot be done twice."""
    if any(_is_list(body, node) for node in body.inputs):
        return "reads or changes a list whose length a tensor decides"
    nodes = [node for block in nested_blocks(body) for node in block.graph.nodes]
    for node in nodes:
        if node.target in _ONCE and not keeps(node):
            return _ONCE[node.target]
        if node.target is control.transform_ and node.args[0] not in _TRANSFORMS:
            return f"calls torch.func.{node.args[0]}"
        if node.op == "call_function" and isinstance(node.kwargs.get("generator"), fx.Node):
            return "draws random numbers from a generator"
    aliases = Aliasing(body)
    if any(aliases.is_written(node) for node in body.inputs):
        return "changes a tensor in place"
    if any(keeps(node) for node in nodes):
        return "records what it writes, as an operation in it may fail,"
    return None


def _is_list(block: Block, value: fx.Node) -> bool:
    """Tell whether a value is used as a list of the program."""
    for user in value.users:
        if any(_is_list(inner, one) for inner in node_blocks(user) for one in _inside(user, inner, value)):
            return True
        if (
            isinstance(user.target, control.Control)
            and user.target.name.startswith(("list_", "item_"))
            and user.args[:1] == (value,)
        ):
            return True
    return False
