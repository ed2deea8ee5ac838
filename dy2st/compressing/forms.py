"""How a weight may be stored, and what a program does to use it then.

A form has the tensors that are stored in the place of the weight, and writes the operations that make it of them. What a branch
uses is made inside of it; what a loop uses is made once, before the loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from dy2st.compressing.weights import carried_and_operands, operator_name, slots
from dy2st_runtime.archive.archive import Model
from dy2st_runtime.archive.state import StateValue
from dy2st_runtime.ir.printing import describe
from dy2st_runtime.ir.program import Program, StateSlot, copy_block, node_blocks
from dy2st_runtime.primitives import control, modes

aten = torch.ops.aten


class Form:
    """One weight as it is stored.

    Args:
        like: the weight.
        tensors: what is stored, by what is added to its name.
    """

    def __init__(self, like: torch.Tensor, tensors: Mapping[str, torch.Tensor]) -> None:
        self.dtype, self.shape, self.tensors = like.dtype, tuple(like.shape), dict(tensors)

    def whole(self, writer: Writer, parts: Sequence[fx.Node]) -> fx.Node:
        """Write the operations that make the weight."""
        raise NotImplementedError

    def rows(self, writer: Writer, parts: Sequence[fx.Node], index: Any, type_: str) -> fx.Node | None:
        """Write the operations that make some rows of it; ``None`` if they need all of it."""
        return None

    def linear(self, writer: Writer, parts: Sequence[fx.Node], args: Sequence[Any], type_: str) -> fx.Node | None:
        """Write the operations for ``linear`` without making the weight; ``None`` if there are none."""
        return None


class Writer:
    """Writes operations before a node."""

    def __init__(self, before: fx.Node) -> None:
        self._before = before
        self._examples: dict[fx.Node, torch.Tensor] = {}

    def shaped(self, parts: Sequence[fx.Node], tensors: Sequence[torch.Tensor]) -> None:
        """Note what values look like, so that the types of what is computed of them are known."""
        for node, tensor in zip(parts, tensors, strict=True):
            self._examples[node] = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")

    def __call__(self, target: Any, *args: Any, type_: str | None = None, **kwargs: Any) -> fx.Node:
        """Write a call, of a known type or of values that have been noted."""
        with self._before.graph.inserting_before(self._before):
            node = self._before.graph.call_function(target, args, kwargs)
        if type_ is None:
            given = fx.node.map_arg(args, lambda used: self._examples[used])
            self._examples[node] = target(*given, **kwargs)
            type_ = describe(self._examples[node])
        node.meta["type"] = type_
        if "location" in self._before.meta:
            node.meta["location"] = self._before.meta["location"]
        return node


def stored(model: Model, forms: Mapping[str, Form], about: Mapping[str, str]) -> Model:
    """Return a model with some weights stored otherwise.

    Args:
        model: what an archive holds.
        forms: by the names of their entries.
        about: more texts for people.
    """
    names = _names(model, forms)
    methods = {name: [_rewritten(model, program, forms, names) for program in some] for name, some in model.methods.items()}
    state: list[StateValue] = []
    for entry in model.state:
        if entry.name in forms:
            kind = "buffer" if entry.kind == "parameter" else entry.kind
            for key, tensor in forms[entry.name].tensors.items():
                state.append(StateValue(names[entry.name, key], kind, tensor, entry.persistent))
        else:
            state.append(entry)
    return dataclasses.replace(model, methods=methods, state=tuple(state), about={**model.about, **about})


def _names(model: Model, forms: Mapping[str, Form]) -> dict[tuple[str, str], str]:
    taken, results = {entry.name for entry in model.state} | set(model.methods), {}
    for name, form in forms.items():
        for key in form.tensors:
            result = f"{name}_{key}"
            while result in taken:
                result += "_"
            taken.add(result)
            results[name, key] = result
    return results


def _rewritten(model: Model, program: Program, forms: Mapping[str, Form], names: Mapping[tuple[str, str], str]) -> Program:
    recording = program.recording
    if recording is not None:
        program = dataclasses.replace(program, recording=_rewritten(model, recording, forms, names))
    block, states = copy_block(program.block), []
    exact = not any(modes.TARGETS.get(node.target) == "enter_autocast" for node in program.nodes())
    inputs = block.inputs
    for (position, name), slot in zip(slots(model, program), program.states, strict=True):
        form = forms.get(name)
        if form is None:
            states.append(slot)
            continue
        node = inputs[position]
        parts = _placeholders(node, form)
        for key, tensor in form.tensors.items():
            kind = "buffer" if slot.kind == "parameter" else slot.kind
            states.append(StateSlot(names[name, key], kind, tensor.dtype, tuple(tensor.shape), persistent=slot.persistent))
        _replace(node, parts, form, exact)
    return dataclasses.replace(program, block=block, states=tuple(states))


def _placeholders(node: fx.Node, form: Form) -> list[fx.Node]:
    """Return inputs for the parts of a weight, where its own is."""
    results = []
    for key, tensor in form.tensors.items():
        with node.graph.inserting_before(node):
            part = node.graph.placeholder(f"{node.name}_{key}")
        part.meta.update(node.meta, type=describe(tensor))
        results.append(part)
    return results


def _replace(node: fx.Node, parts: Sequence[fx.Node], form: Form, exact: bool) -> None:
    """Put the parts of a weight in its place, in all blocks that get it."""
    for user in list(node.users):
        if user.target is control.if_ or (user.target is control.while_ and _only_rows(user, node, form)):
            _hand_on(user, node, parts, form, exact)
        else:
            _use(user, node, parts, form, exact)
    node.graph.erase_node(node)


def _only_rows(loop: fx.Node, node: fx.Node, form: Form) -> bool:
    """Tell whether a loop only looks rows up."""
    carried, operands = carried_and_operands(loop)
    (body,) = node_blocks(loop)
    inside = [body.inputs[len(carried) + place] for place, operand in enumerate(operands) if operand is node]
    return type(form).rows is not Form.rows and all(operator_name(user) == "embedding" for value in inside for user in value.users)


def _hand_on(owner: fx.Node, node: fx.Node, parts: Sequence[fx.Node], form: Form, exact: bool) -> None:
    carried, operands = carried_and_operands(owner)
    places = [place for place, operand in enumerate(operands) if operand is node]
    for block in node_blocks(owner):
        inputs = block.inputs
        for place in places:
            inner = inputs[len(carried) + place]
            _replace(inner, _placeholders(inner, form), form, exact)
    handed = tuple(part for operand in operands for part in (parts if operand is node else [operand]))
    owner.args = (*owner.args[:3], handed)  # type: ignore[arg-type]  # see verify


def _use(user: fx.Node, node: fx.Node, parts: Sequence[fx.Node], form: Form, exact: bool) -> None:
    writer, name, type_ = Writer(user), operator_name(user), str(user.meta.get("type", ""))
    writer.shaped(parts, list(form.tensors.values()))
    result = None
    if name == "embedding":
        result = form.rows(writer, parts, user.args[1], type_)
    elif name == "linear" and exact:
        result = form.linear(writer, parts, user.args, type_)
    if result is None:
        user.replace_input_with(node, form.whole(writer, parts))
    else:
        user.replace_all_uses_with(result)
        user.graph.erase_node(user)
