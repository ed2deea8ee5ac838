"""Programs as plain data and back.

A program is an object with a table of blocks, root first; a node's argument names a block by its number, so the depth
of the document does not grow with the depth of the program. In arguments a bare string is the name of a node of the
same block.

    {"name": "f", "inputs": [{"name": "x", "dtype": "float32", "shape": ["n"]}], ...
     "blocks": [{"inputs": [{"name": "x"}],
                 "nodes": [{"name": "add", "target": "aten.add.Tensor", "args": ["x", 1], "at": [0, 12]}],
                 "outputs": ["add"]}]}

``at`` is a place in the user's source: a number in the table ``sources`` and a line.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any

import torch

from dy2st_runtime.archive.blocks import BlockReader, BlockWriter
from dy2st_runtime.archive.effects import place_to_json, read_effects, read_existing, read_place, written_to_json
from dy2st_runtime.call import on_raise
from dy2st_runtime.call.effects import place_of
from dy2st_runtime.errors import LoadError, ProgramError, SaveError
from dy2st_runtime.ir import constants, signatures, structure_json
from dy2st_runtime.ir.document import Json
from dy2st_runtime.ir.program import InputSlot, Parameter, Program, StateSlot, verify
from dy2st_runtime.ir.structure import Leaf, walk

FORMAT = "dy2st"

VERSION = (1, 3)
"""A minor version adds what older readers may leave out; a major version is another format."""
STATE_KINDS = ("parameter", "buffer", "attribute", "constant", "number")
DEFAULT_DTYPES = ("float32", "float64", "float16", "bfloat16")
NUMBERS = ("int", "float", "bool")
PARAMETER_KINDS = {str(kind.name): kind for kind in inspect._ParameterKind}


def stamp() -> dict[str, Any]:
    """Return what every document of the format starts with."""
    return {"format": FORMAT, "version": list(VERSION)}


def check_stamp(json: Json) -> None:
    """Refuse a document of another format or of a newer major version.

    Raises:
        LoadError: with the versions.
    """
    json.field("format").text((FORMAT,))
    major, minor = (part.integer(0) for part in json.field("version").array(2))
    if major != VERSION[0]:
        raise LoadError(
            f"the file has format version {major}.{minor}, this version of dy2st_runtime reads {VERSION[0]}.x; "
            + ("upgrade dy2st_runtime" if major > VERSION[0] else "save it again")
        )


def to_json(program: Program) -> dict[str, Any]:
    """Return a program as plain data.

    Raises:
        SaveError: it holds a live Python object; names the user's line.
    """
    writer = BlockWriter()
    writer.add_block(program.block)
    try:
        signature = {
            "name": program.name,
            "training": program.training,
            "any_mode": program.any_mode,
            "default_dtype": constants.dtype_name(program.default_dtype),
            "parameters": [_parameter_to_json(parameter) for parameter in program.parameters],
            "inputs": [_slot_to_json(slot) for slot in program.inputs],
            "in_structure": structure_json.to_json(program.in_structure),
            "states": [_slot_to_json(slot) for slot in program.states],
            "out_structure": structure_json.to_json(program.out_structure),
            **written_to_json(program),
        } | _distinct_to_json(program)
    except SaveError as error:
        raise SaveError(f"{program.name} ({program.origin}): {error}") from None
    if program.recording is not None:
        signature["recording"] = to_json(program.recording)
    origin = writer.place(program.origin)
    sources = [list(source) for source in writer.sources]
    return {**signature, "origin": origin, "sources": sources, "blocks": writer.blocks}


def _distinct_to_json(program: Program) -> dict[str, Any]:
    return {"distinct": [list(map(place_to_json, pair)) for pair in program.distinct]} if program.distinct else {}


def _parameter_to_json(parameter: Parameter) -> dict[str, Any]:
    results: dict[str, Any] = {"name": parameter.name, "kind": parameter.kind}
    if parameter.default is not None:
        results["default"] = structure_json.to_json(parameter.default)
    return results


def _slot_to_json(slot: InputSlot | StateSlot) -> dict[str, Any]:
    results: dict[str, Any] = {"name": slot.name}
    if isinstance(slot, StateSlot):
        results["kind"] = slot.kind
    if slot.dtype is not None:
        results |= {"dtype": constants.dtype_name(slot.dtype), "shape": list(slot.shape)}
        results["requires_grad"] = slot.requires_grad
    if isinstance(slot, StateSlot):
        results["persistent"] = slot.persistent
    elif slot.number is not None:
        results["number"] = slot.number
    else:
        results["device"] = slot.device
    return results


def from_json(json: Json, namespaces: Collection[str] = ()) -> Program:
    """Return the inverse of :func:`to_json`, with every field checked and the program verified.

    Args:
        json: what was read.
        namespaces: namespaces of operators that are allowed besides PyTorch's own.

    Raises:
        LoadError: the first thing that is wrong, with its place.
    """
    reader = BlockReader(json, namespaces)
    program = Program(
        name=json.field("name").text(),
        block=reader.read_blocks(json.field("blocks")),
        inputs=tuple(_read_input(slot) for slot in json.field("inputs").array()),
        in_structure=structure_json.from_json(json.field("in_structure")),
        states=tuple(_read_state(slot) for slot in json.field("states").array()),
        out_structure=structure_json.from_json(json.field("out_structure")),
        effects=read_effects(json),
        origin=reader.place(json.field("origin")),
        training=json.field("training").boolean(),
        any_mode=json.field("any_mode").boolean(),
        default_dtype=constants.DTYPES[json.field("default_dtype").text(DEFAULT_DTYPES)],
        parameters=tuple(_read_parameter(parameter) for parameter in json.field("parameters").array()),
        existing=read_existing(json),
        distinct=tuple((read_place(pair.array(2)[0]), read_place(pair.array(2)[1])) for pair in json.some("distinct")),
        recording=_read_recording(json, namespaces),
    )
    leaves = [part.index for part in walk(program.in_structure) if isinstance(part, Leaf)]
    if sorted(leaves) != list(range(len(program.inputs))):
        json.field("in_structure").fail("each input once")
    slots = {slot.name: slot for slot in program.states}
    for node in on_raise.nodes(program):
        if any(place_of(effect.target, slots) is None for effect in node.args[0].effects):  # type: ignore[union-attr]  # a Leave
            json.field("blocks").fail("attributes of the module where something is left")
    try:
        verify(program)
        signatures.check(program)
    except ProgramError as error:
        raise LoadError(f"{json.path} breaks a rule: {error}") from None
    return program


def _read_recording(json: Json, namespaces: Collection[str]) -> Program | None:
    result = json.optional("recording")
    if result is None:
        return None
    if result.optional("recording") is not None:
        result.fail("a program without a recording of its own")
    return from_json(result, namespaces)


def _read_parameter(json: Json) -> Parameter:
    default = json.optional("default")
    value = None if default is None else structure_json.from_json(default)
    if default is not None and value is not None and any(isinstance(part, Leaf) for part in walk(value)):
        default.fail("a structure of constants")
    return Parameter(json.field("name").identifier(), json.field("kind").text(PARAMETER_KINDS), value)


def _read_tensor_type(json: Json) -> tuple[torch.dtype | None, tuple[int | str, ...], bool]:
    dtype = json.optional("dtype")
    if dtype is None:
        return None, (), False
    shape = tuple(size.text() if isinstance(size.value, str) else size.integer(0) for size in json.field("shape").array())
    return constants.DTYPES[dtype.text(constants.DTYPES)], shape, json.field("requires_grad").boolean()


def _read_input(json: Json) -> InputSlot:
    dtype, shape, requires_grad = _read_tensor_type(json)
    number, device = json.optional("number"), json.optional("device")
    if (dtype is None) == (number is None):
        json.fail("either a dtype or a number")
    return InputSlot(
        json.field("name").text(),
        dtype,
        shape,
        device=str(constants.device(device)) if device else "cpu",
        requires_grad=requires_grad,
        number=number.text(NUMBERS) if number else None,
    )


def _read_state(json: Json) -> StateSlot:
    dtype, shape, requires_grad = _read_tensor_type(json)
    kind = json.field("kind").text(STATE_KINDS)
    if (dtype is None) != (kind == "number"):
        json.fail("a dtype unless it is a number")
    return StateSlot(json.field("name").text(), kind, dtype, shape, requires_grad, json.field("persistent").boolean())
