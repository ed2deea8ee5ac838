"""A program for inference: what some of its results need and nothing else, with what is known before it runs computed."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.analyses.aliasing import Aliasing, writes
from dy2st_runtime.analyses.purity import is_pure, replace_all
from dy2st_runtime.errors import SaveError
from dy2st_runtime.executors import python
from dy2st_runtime.ir.program import Block, Program, StateSlot, copy_block, node_blocks
from dy2st_runtime.ir.structure import DictOf, Leaf, ListOf, ObjectOf, SameAs, Shared, Structure, TaggedUnionOf, TupleOf, walk
from dy2st_runtime.passes.constant_folding import fold_constants, inlined, take_results
from dy2st_runtime.passes.dead_code import remove_dead_code, remove_unused_states
from dy2st_runtime.primitives import control, modes, scalars

Fetch = int | str

_SMALL = 4096
"""Bytes of a tensor that is kept in the place of what computes it from nothing."""


def fetched(program: Program, fetch: Sequence[Fetch]) -> Program:
    """Return a program that gives some of its results only.

    Operations that only other results need go, also those that draw random numbers, might have raised or might never have come to
    an end; what has an effect stays. Arguments of which nothing is needed any more go as well.

    Args:
        program: any program.
        fetch: which results: the position in a tuple or list, the key of a dict, the field of a named tuple or dataclass, or a
            path of these as ``"heads.0.boxes"``.

    Returns:
        A program whose result is the tuple of these.

    Raises:
        SaveError: there is no such result.
    """
    items = tuple(_part(program.out_structure, item, program.name) for item in fetch)
    result = remove_dead_code(_with_results(program, TupleOf(items)), _has_no_effect)
    return without_unused_arguments(result)


def without_backward(program: Program) -> Program:
    """Return a program without what it does for autograd: checkpoints, and backward passes, of which outputs stay what they were.

    An output that is an input becomes another tensor, as ``autograd.Function.apply`` gives it.
    """
    program = without_checkpoints(program)
    if not any(node.target is control.transform_ and node.args[0] == "backward" for node in program.nodes()):
        return program
    program = dataclasses.replace(program, block=copy_block(program.block))
    for block in program.blocks():
        for node in list(block.graph.nodes):
            if node.op == "call_function" and node.target is control.apply_ and _is_backward(node.args[0]):
                _put_outputs(node)
        for node in reversed(list(block.graph.nodes)):
            is_pass = node.target is control.transform_ and node.args[0] == "backward"
            if not node.users and (is_pass or _is_backward(node)):
                block.graph.erase_node(node)
    return program


def without_checkpoints(program: Program) -> Program:
    """Return a program that keeps in memory what it would compute again for gradients."""
    if not any(_is_transform(node, "checkpoint", "loop") for node in program.nodes()):
        return program
    program = dataclasses.replace(program, block=copy_block(program.block))
    for node in list(program.nodes()):
        if _is_transform(node, "loop"):
            _keep_everything(node)
    for block in program.blocks():
        while checkpoints := [node for node in block.graph.nodes if _is_transform(node, "checkpoint")]:
            node = checkpoints[0]
            _, inner, inputs, operands = node.args
            assert isinstance(inner, Block) and isinstance(inputs, tuple) and isinstance(operands, tuple)
            take_results(node, inlined(node, inner, (*inputs, *operands)))
    return program


def _keep_everything(node: fx.Node) -> None:
    """Make a loop with snapshots one like any other."""
    _, body, carried, operands = node.args
    assert isinstance(carried, tuple) and isinstance(operands, tuple)
    threaded: Any = node.kwargs.get("threaded", ())
    for part in list(node.users):
        place: Any = part.args[1]
        if place >= len(carried):
            replace_all(part, (*carried, *operands)[threaded[place - len(carried)]])
    node.target, node.args, node.kwargs = control.while_, (node.kwargs["pred"], body, carried, operands), {}


def _is_transform(node: fx.Node, *names: str) -> bool:
    return node.op == "call_function" and node.target is control.transform_ and node.args[0] in names


def _is_backward(value: Any) -> bool:
    source = value.args[0] if isinstance(value, fx.Node) and value.target is operator.getitem else None
    return isinstance(source, fx.Node) and source.target is control.transform_ and source.args[0] == "backward"


def _put_outputs(node: fx.Node) -> None:
    _, outputs, inputs, _ = node.args
    assert isinstance(outputs, tuple) and isinstance(inputs, tuple)
    for user in list(node.users):
        output: Any = outputs[user.args[1]]  # type: ignore[index]  # each user takes one of them
        if output in inputs:
            with node.graph.inserting_before(node):
                view = node.graph.call_function(torch.ops.aten.alias.default, (output,))
            view.meta.update(user.meta)
            output = view
        user.replace_all_uses_with(output)
        node.graph.erase_node(user)
    node.graph.erase_node(node)


def _part(structure: Structure, item: Fetch, name: str) -> Structure:
    for step in str(item).split("."):
        while isinstance(structure, (Shared, SameAs)):
            structure = structure.items[0]
        keys: Sequence[Any] = ()
        match structure:
            case TupleOf(items, factory):
                keys = [*getattr(factory, "_fields", ()), *map(str, range(len(items)))]
            case ListOf(items):
                keys = [str(index) for index in range(len(items))]
            case DictOf(keys, _) | ObjectOf(_, keys, _):
                keys = [str(key) for key in keys]
            case TaggedUnionOf():
                raise SaveError(f"{name} decides the structure of its result when it runs: {item!r} cannot be fetched")
        if step not in keys:
            there = ", ".join(dict.fromkeys(keys)) or "nothing inside"
            raise SaveError(f"{name} has no result {item!r}: there is no {step!r} where it has {there}")
        structure = structure.items[keys.index(step) % len(structure.items)]  # type: ignore[union-attr]  # it has items
    return structure


def _with_results(program: Program, result: Structure) -> Program:
    """Return only the outputs that a result and the effects use."""
    structures = (result, *(effect.value for effect in program.effects))
    used = sorted({part.index for structure in structures for part in walk(structure) if isinstance(part, Leaf)})
    moved = {old: new for new, old in enumerate(used)}
    block = copy_block(program.block)
    output = block.graph.output_node()
    outputs = block.outputs
    output.args = (tuple(outputs[index] for index in used),)
    effects = tuple(dataclasses.replace(effect, value=_renumbered(effect.value, moved)) for effect in program.effects)
    return dataclasses.replace(program, block=block, out_structure=_renumbered(result, moved), effects=effects)


def _renumbered(structure: Structure, moved: dict[int, int]) -> Structure:
    if isinstance(structure, Leaf):
        return Leaf(moved[structure.index])
    changes: dict[str, Any] = {}
    if isinstance(structure, TaggedUnionOf):
        changes["tag"] = _renumbered(structure.tag, moved)
    if hasattr(structure, "items"):
        changes["items"] = tuple(_renumbered(item, moved) for item in structure.items)
    return dataclasses.replace(structure, **changes) if changes else structure


def without_unused_arguments(program: Program) -> Program:
    """Return a program without the arguments of which nothing is used; what is a constant of the program stays."""
    block = copy_block(program.block)
    inputs = block.inputs[: len(program.inputs)]
    used = {index for index, node in enumerate(inputs) if node.users}
    match program.in_structure:
        case TupleOf((TupleOf(args), DictOf(keys, items))):
            pass
        case _:
            return program
    plain = [p.name for p in program.parameters if p.kind in ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")]
    names = [*plain[: len(args)], *([""] * (len(args) - len(plain)))]  # what *args takes has no name of its own, and stays
    left = [(name, item) for name, item in zip(names, args, strict=True) if not name or _is_needed(item, used)]
    named = [(key, item) for key, item in zip(keys, items, strict=True) if _is_needed(item, used)]
    gone = {*names, *keys} - {name for name, _ in (*left, *named)}
    kept = [index for item in (*left, *named) for index in _leaves(item[1])]
    moved = {old: new for new, old in enumerate(sorted(kept))}
    for index, node in enumerate(inputs):
        if index not in moved:
            block.graph.erase_node(node)
    return dataclasses.replace(
        program,
        block=block,
        inputs=tuple(slot for index, slot in enumerate(program.inputs) if index in moved),
        in_structure=TupleOf(
            (
                TupleOf(tuple(_renumbered(item, moved) for _, item in left)),
                DictOf(tuple(key for key, _ in named), tuple(_renumbered(item, moved) for _, item in named)),
            )
        ),
        parameters=tuple(parameter for parameter in program.parameters if parameter.name not in gone),
    )


def _leaves(structure: Structure) -> list[int]:
    return [part.index for part in walk(structure) if isinstance(part, Leaf)]


def _is_needed(structure: Structure, used: Collection[int]) -> bool:
    leaves = _leaves(structure)
    return not leaves or any(index in used for index in leaves)


def _has_no_effect(node: fx.Node) -> bool:
    target = node.target
    if node.op != "call_function" or target in (control.if_, control.while_):
        return True  # an effect inside is one by itself
    if isinstance(target, control.Control):
        return not target.effect
    if isinstance(target, torch._ops.OpOverload):
        own = target.name().startswith(("aten::", "prims::")) and bool(target._schema.returns)
        return own and not target._schema.is_mutable and not writes(node)
    return target in scalars.NAMES or target is operator.getitem


def folded(program: Program, values: Sequence[Any]) -> tuple[Program, list[Any]]:
    """Return a program in which what depends on parameters, buffers and constants alone is computed.

    Args:
        program: any program; its state is final but for what it changes itself.
        values: of its state slots.

    Returns:
        The program, with a constant for each result that is kept, and the values of its state slots.
    """
    program = remove_dead_code(fold_constants(program))
    known = _known(program, values)
    aliases = Aliasing(program.block)
    kept = [node for node in known if _is_kept(node, known) and not aliases.memory_escapes(node)]
    if kept:
        program, values = _replaced(program, values, kept, known)
    program, left = remove_unused_states(remove_dead_code(program))
    return program, [values[index] for index in left]


def _known(program: Program, values: Sequence[Any]) -> dict[fx.Node, None]:
    """Return the nodes of the root block that are the same at each call, the state slots that never change first."""
    aliases = Aliasing(program.block)
    changed = {effect.target for effect in program.effects} | {effect.target.removeprefix("self.") for effect in program.effects}
    slots = zip(program.block.inputs[len(program.inputs) :], program.states, values, strict=True)
    known: dict[fx.Node, None] = {
        node: None
        for node, slot, value in slots
        if isinstance(value, torch.Tensor)
        and slot.kind in ("parameter", "buffer", "constant")
        and slot.name not in changed
        and not aliases.is_written(node)
    }
    for node in program.block.graph.nodes:
        if node.op == "call_function" and node.target in modes.TARGETS:
            break  # what follows may be computed in another mode
        if _is_computable(node) and not aliases.is_written(node) and all(used in known for used in node.all_input_nodes):
            known[node] = None
    return known


def _is_computable(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and not node_blocks(node) and is_pure(node)


def _is_kept(node: fx.Node, known: Collection[fx.Node]) -> bool:
    """Tell whether the result of a node is to be stored: something that is not known before uses it."""
    return node.op == "call_function" and any(user not in known for user in node.users)


def _replaced(
    program: Program, values: Sequence[Any], kept: Sequence[fx.Node], known: Collection[fx.Node]
) -> tuple[Program, list[Any]]:
    """Return the program with constants in the place of some nodes, and without what only these needed."""
    results = _computed(program, values, kept)
    result, states = list(values), list(program.states)
    names = {slot.name for slot in states}
    block = copy_block(program.block)
    table = dict(zip(program.block.graph.nodes, block.graph.nodes, strict=True))
    first = next(node for node in block.graph.nodes if node.op != "placeholder")
    stored = {value.untyped_storage().data_ptr() for value in values if isinstance(value, torch.Tensor)}
    for node, value in zip(kept, results, strict=True):
        if not isinstance(value, torch.Tensor) or value.untyped_storage().data_ptr() in stored:
            continue  # a view of what is stored anyway
        if value.nbytes > max(_SMALL, sum(_sizes(node, program, values))):
            continue
        name = next(name for name in _names(node.name) if name not in names)
        names.add(name)
        with block.graph.inserting_before(first):
            placeholder = block.graph.placeholder(f"{node.name}_folded")
        placeholder.meta.update(node.meta)
        table[node].replace_all_uses_with(placeholder)
        states.append(StateSlot(name, "constant", value.dtype, tuple(value.shape)))
        result.append(value.detach())
    for node in reversed([node for node in known if node.op == "call_function"]):
        if not table[node].users:
            block.graph.erase_node(table[node])
    return dataclasses.replace(program, block=block, states=tuple(states)), result


def _names(base: str) -> Iterator[str]:
    yield f"folded.{base}"
    number = 1
    while True:
        number += 1
        yield f"folded.{base}_{number}"


def _sizes(node: fx.Node, program: Program, values: Sequence[Any]) -> Iterator[int]:
    """Yield the bytes of the state that a node is computed from."""
    slots = dict(zip(program.block.inputs[len(program.inputs) :], values, strict=True))
    seen, rest = set(), [node]
    while rest:
        current = rest.pop()
        if current not in seen:
            seen.add(current)
            rest += current.all_input_nodes
            if current in slots:
                yield slots[current].nbytes


def _computed(program: Program, values: Sequence[Any], nodes: Sequence[fx.Node]) -> tuple[Any, ...]:
    """Return the values of nodes that depend on the state alone."""
    graph = fx.Graph()
    table: dict[fx.Node, fx.Node] = {}
    needed, rest = set(), list(nodes)
    while rest:
        current = rest.pop()
        if current not in needed:
            needed.add(current)
            rest += current.all_input_nodes
    for node in program.block.graph.nodes:
        if node.op == "placeholder":
            table[node] = graph.placeholder(node.name)
        elif node in needed:
            table[node] = graph.node_copy(node, lambda used: table[used])
    graph.output(tuple(table[node] for node in nodes))
    small = dataclasses.replace(program, block=Block(graph), effects=(), out_structure=TupleOf(()))
    with torch.no_grad():
        return python.run(small, [*(None for _ in program.inputs), *values])
