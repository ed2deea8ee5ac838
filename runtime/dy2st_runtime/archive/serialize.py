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

import contextlib
import inspect
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.call import on_raise
from dy2st_runtime.call.effects import place_of
from dy2st_runtime.call.on_raise import Leave
from dy2st_runtime.errors import LoadError, ProgramError, SaveError
from dy2st_runtime.ir import constants, signatures, structure
from dy2st_runtime.ir.document import Json
from dy2st_runtime.ir.operators import resolve
from dy2st_runtime.ir.printing import target_name
from dy2st_runtime.ir.program import Block, Effect, InputSlot, Location, ObjectPlace, Parameter, Program, StateSlot, verify
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.raising import Recipe, has_own_text

FORMAT = "dy2st"
VERSION = (1, 3)
"""A minor version adds what older readers may leave out; a major version is another format."""

STATE_KINDS = ("parameter", "buffer", "attribute", "constant", "number")
EFFECT_KINDS = ("set", "delete", "extend")
OBJECT_PLACES = ("argument", "state", "kept")
DEFAULT_DTYPES = ("float32", "float64", "float16", "bfloat16")
NUMBERS = ("int", "float", "bool")
_MOST_LINKS = 16
"""How many exceptions stand behind one another."""
_LEAVE = "leave_"
"""The target of an operation of a recording that keeps what has been written until then."""
PARAMETER_KINDS = {str(kind.name): kind for kind in inspect._ParameterKind}


def stamp() -> dict[str, Any]:
    """What every document of the format starts with."""
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
    """A program as plain data.

    Raises:
        SaveError: it holds a live Python object; names the user's line.
    """
    writer = _Writer()
    writer.add_block(program.block)
    try:
        signature = {
            "name": program.name,
            "training": program.training,
            "any_mode": program.any_mode,
            "default_dtype": constants.dtype_name(program.default_dtype),
            "parameters": [_parameter_to_json(parameter) for parameter in program.parameters],
            "inputs": [_slot_to_json(slot) for slot in program.inputs],
            "in_structure": structure.to_json(program.in_structure),
            "states": [_slot_to_json(slot) for slot in program.states],
            "out_structure": structure.to_json(program.out_structure),
            **_written_to_json(program),
        } | _distinct_to_json(program)
    except SaveError as error:
        raise SaveError(f"{program.name} ({program.origin}): {error}") from None
    if program.recording is not None:
        signature["recording"] = to_json(program.recording)
    origin = writer.place(program.origin)
    sources = [list(source) for source in writer.sources]
    return {**signature, "origin": origin, "sources": sources, "blocks": writer.blocks}


def _effect_to_json(effect: Effect) -> dict[str, Any]:
    made = {"target": effect.target, "kind": effect.kind, "value": structure.to_json(effect.value)}
    return made | ({"in_place": True} if effect.in_place else {})


def _written_to_json(program: Program | Leave) -> dict[str, Any]:
    made: dict[str, Any] = {"effects": [_effect_to_json(effect) for effect in program.effects]}
    if program.existing:
        made["existing"] = [[number, _place_to_json(place)] for number, place in program.existing]
    return made


def _distinct_to_json(program: Program) -> dict[str, Any]:
    return {"distinct": [list(map(_place_to_json, pair)) for pair in program.distinct]} if program.distinct else {}


def _place_to_json(place: ObjectPlace) -> dict[str, Any]:
    return {place.kind: [constants.encode(step) for step in place.path]}


def _parameter_to_json(parameter: Parameter) -> dict[str, Any]:
    made: dict[str, Any] = {"name": parameter.name, "kind": parameter.kind}
    if parameter.default is not None:
        made["default"] = structure.to_json(parameter.default)
    return made


def _slot_to_json(slot: InputSlot | StateSlot) -> dict[str, Any]:
    made: dict[str, Any] = {"name": slot.name}
    if isinstance(slot, StateSlot):
        made["kind"] = slot.kind
    if slot.dtype is not None:
        made |= {"dtype": constants.dtype_name(slot.dtype), "shape": list(slot.shape)}
        made["requires_grad"] = slot.requires_grad
    if isinstance(slot, StateSlot):
        made["persistent"] = slot.persistent
    elif slot.number is not None:
        made["number"] = slot.number
    else:
        made["device"] = slot.device
    return made


class _Writer:
    """Collects the tables of one program: its blocks and the files they come from."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []
        self.sources: dict[tuple[str, str], int] = {}

    def place(self, location: Location) -> list[int]:
        source = self.sources.setdefault((location.file, location.function), len(self.sources))
        return [source, location.line]

    def add_block(self, block: Block) -> int:
        """Write a block, then those inside it; its number in the table."""
        made: dict[str, Any] = {"inputs": [], "nodes": [], "outputs": []}
        self.blocks.append(made)
        index = len(self.blocks) - 1
        for node in block.graph.nodes:
            if node.op == "placeholder":
                made["inputs"].append({"name": node.name, **self._meta(node)})
            elif node.op == "output":
                made["outputs"] = [self._argument(value, node) for value in block.outputs]
            else:
                made["nodes"].append(self._node(node))
        return index

    def _node(self, node: fx.Node) -> dict[str, Any]:
        if isinstance(node.args[0] if node.args else None, Leave):
            return self._leave(node)
        if node.target is control.call_:
            name = getattr(node.args[0], "__qualname__", repr(node.args[0]))
            raise SaveError(f"{_line(node)}the program calls the Python function {name}, which exists only in this process")
        made: dict[str, Any] = {"name": node.name, "target": target_name(node.target)}
        values, recipe, more = _taken_apart(_with_text(node), node.target)
        made["args"] = [self._argument(value, node) for value in values]
        if recipe is not None:
            made["made"], left = self._recipe(recipe, more, node)
            made |= {"values": left} if left else {}
        if (text := _text_of(node)) is not None:
            made.setdefault("made", {})["text"] = text
        if node.kwargs:
            made["kwargs"] = {key: self._argument(value, node) for key, value in node.kwargs.items()}
        return made | self._meta(node)

    def _recipe(self, recipe: Recipe, values: Sequence[Any], node: fx.Node) -> tuple[dict[str, Any], list[Any]]:
        """What an exception has besides its class and ``args``, and the values that it takes for that."""
        left = [self._argument(value, node) for value in values[: len(recipe.names)]]
        taken = iter(values[len(left) :])
        made: dict[str, Any] = {"names": list(recipe.names)} if recipe.names else {}
        if recipe.fixed:
            made["fixed"] = {name: self._argument(value, node) for name, value in recipe.fixed.items()}
        made |= {"suppress": True} if recipe.suppress else {}
        for name, link in recipe.links:
            part = [next(taken) for _ in range(link.takes)]
            with contextlib.suppress(SaveError):  # one that cannot be written is left out
                described, inner = self._recipe(link, part[link.count :], node)
                described |= {"kind": self._argument(link.kind, node), "args": [self._argument(value, node) for value in link.args]}
                text = _own_text(link, part[: link.count])
                described |= {} if text is None else {"text": text}
                left += [*(self._argument(value, node) for value in part[: link.count]), *inner]
                made.setdefault("links", {})[name] = described | {"count": link.count}
                if recipe.shares:  # a file has the same exception twice
                    made["links"]["__context__"] = made["links"][name]
                    left += left[-len(part) :] if part else []
        return made, left

    def _leave(self, node: fx.Node) -> dict[str, Any]:
        leave: Any = node.args[0]
        made: dict[str, Any] = {"name": node.name, "target": _LEAVE, **_written_to_json(leave)}
        return made | {"args": [self._argument(value, node) for value in node.args[1]]} | self._meta(node)  # type: ignore[union-attr]

    def _argument(self, value: Any, node: fx.Node) -> Any:
        if isinstance(value, Block):
            return {"block": self.add_block(value)}
        try:
            return constants.encode(value, _name_of)
        except SaveError as error:
            raise SaveError(f"{_line(node)}{error}") from None

    def _meta(self, node: fx.Node) -> dict[str, Any]:
        made: dict[str, Any] = {"type": node.meta["type"]} if node.meta.get("type") else {}
        if isinstance(node.meta.get("location"), Location):
            made["at"] = self.place(node.meta["location"])
            if node.meta["location"].subscript is not None:
                made["subscript"] = node.meta["location"].subscript
        return made


def _name_of(value: Any) -> str | None:
    return value.name if isinstance(value, fx.Node) else None


def _with_text(node: fx.Node) -> Sequence[Any]:
    """The arguments of a node; where an exception's only argument exists in this process alone, it is its text that is told."""
    first = {control.raise_: 1, control.assert_: 2}.get(node.target)  # type: ignore[call-overload]
    if first is None or len(node.args) != first + 1:
        return node.args
    try:
        constants.encode(node.args[first], _name_of)
    except SaveError:
        return [*node.args[:first], str(node.args[first])]
    return node.args


_EXCEPTIONS: dict[Any, int] = {control.raise_: 0, control.assert_: 1}
"""Which argument of an operation makes an exception, from those that follow."""


def _taken_apart(args: Sequence[Any], target: Any) -> tuple[Sequence[Any], Recipe | None, Sequence[Any]]:
    """The arguments of an operation; of one that raises what tells its exception, and what that takes besides, apart."""
    at: int = _EXCEPTIONS.get(target, len(args))
    recipe = args[at] if at < len(args) else None
    if not isinstance(recipe, Recipe) or not (recipe.names or recipe.fixed or recipe.links or recipe.suppress):
        return args, None, ()
    if recipe.names and has_own_text(recipe.kind):
        return args, None, ()  # what it says is code
    end = at + 1 + recipe.count
    return (*args[:at], recipe.kind, *args[at + 1 : end]), recipe, args[end:]


def _text_of(node: fx.Node) -> str | None:
    """What the exception of an operation says, where its class has its own way to tell that."""
    at = _EXCEPTIONS.get(node.target, len(node.args))
    kind, *args = node.args[at:] or (None,)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        kind = Recipe(kind, len(args))
    try:
        return _own_text(kind, args[: kind.count]) if isinstance(kind, Recipe) else None
    except SaveError as error:
        raise SaveError(f"{_line(node)}{error}") from None


def _own_text(recipe: Recipe, values: Sequence[Any]) -> str | None:
    """The same of what makes an exception, given its ``args``."""
    if recipe.text is not None or not has_own_text(recipe.kind):
        return recipe.text
    unknown: list[fx.Node] = []
    fx.map_arg(tuple(values), unknown.append)
    if unknown or recipe.names:
        raise SaveError(
            f"what a {recipe.kind.__qualname__} says is told by code, from what is known only when the program runs, and code "
            "cannot be written to an archive; pass what it says to Exception.__init__"
        )
    return str(Recipe(recipe.kind, recipe.count, recipe.args, fixed=recipe.fixed)(*values))


def _line(node: fx.Node) -> str:
    """The user's line, to open a message with."""
    location = node.meta.get("location")
    return f"{location}: " if location else ""


def from_json(json: Json, namespaces: Collection[str] = ()) -> Program:
    """The inverse of :func:`to_json`, with every field checked and the program verified.

    Args:
        json: what was read.
        namespaces: namespaces of operators that are allowed besides PyTorch's own.

    Raises:
        LoadError: the first thing that is wrong, with its place.
    """
    reader = _Reader(json, namespaces)
    program = Program(
        name=json.field("name").text(),
        block=reader.read_blocks(json.field("blocks")),
        inputs=tuple(_read_input(slot) for slot in json.field("inputs").array()),
        in_structure=structure.from_json(json.field("in_structure")),
        states=tuple(_read_state(slot) for slot in json.field("states").array()),
        out_structure=structure.from_json(json.field("out_structure")),
        effects=_read_effects(json),
        origin=reader.place(json.field("origin")),
        training=json.field("training").boolean(),
        any_mode=json.field("any_mode").boolean(),
        default_dtype=constants.DTYPES[json.field("default_dtype").text(DEFAULT_DTYPES)],
        parameters=tuple(_read_parameter(parameter) for parameter in json.field("parameters").array()),
        existing=_read_existing(json),
        distinct=tuple((_read_place(pair.array(2)[0]), _read_place(pair.array(2)[1])) for pair in _some(json, "distinct")),
        recording=_read_recording(json, namespaces),
    )
    leaves = [part.index for part in structure.walk(program.in_structure) if isinstance(part, structure.Leaf)]
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
    found = json.optional("recording")
    if found is None:
        return None
    if found.optional("recording") is not None:
        found.fail("a program without a recording of its own")
    return from_json(found, namespaces)


def _read_parameter(json: Json) -> Parameter:
    default = json.optional("default")
    value = None if default is None else structure.from_json(default)
    if default is not None and value is not None and any(isinstance(part, structure.Leaf) for part in structure.walk(value)):
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


def _read_effects(json: Json) -> tuple[Effect, ...]:
    return tuple(_read_effect(effect) for effect in json.field("effects").array())


def _read_existing(json: Json) -> tuple[tuple[int, ObjectPlace], ...]:
    return tuple((pair.array(2)[0].integer(0), _read_place(pair.array(2)[1])) for pair in _some(json, "existing"))


def _read_effect(json: Json) -> Effect:
    value = structure.from_json(json.field("value"))
    in_place = json.optional("in_place")
    kind = json.field("kind").text(EFFECT_KINDS)
    return Effect(json.field("target").text(), kind, value, in_place is not None and in_place.boolean())


def _read_leave(json: Json, leaves: int) -> Leave:
    made = Leave(_read_effects(json), _read_existing(json))
    for effect in made.effects:
        if any(isinstance(part, structure.Leaf) and part.index >= leaves for part in structure.walk(effect.value)):
            json.fail("as many arguments as its effects name")
    return made


def _read_recipe(json: Json, kind: type[BaseException], count: int, args: tuple[Any, ...], depth: int = 0) -> Recipe:
    if depth > _MOST_LINKS:
        json.fail("fewer exceptions behind one another")
    fixed, links, suppress = json.optional("fixed"), json.optional("links"), json.optional("suppress")
    attributes = {} if fixed is None else {name: constants.decode(value) for name, value in fixed.fields().items()}
    return Recipe(
        kind,
        count,
        args,
        tuple(name.text() for name in _some(json, "names")),
        attributes,
        () if links is None else tuple((name, _read_link(link, name, depth)) for name, link in links.fields().items()),
        suppress is not None and suppress.boolean(),
        frozenset(attributes),
        None if (text := json.optional("text")) is None else text.text(),
    )


def _read_link(json: Json, name: str, depth: int) -> Recipe:
    kind = constants.decode(json.field("kind"))
    if name not in ("__cause__", "__context__") or not (isinstance(kind, type) and issubclass(kind, Exception)):
        json.fail("an exception that another was raised from")
    args = tuple(constants.decode(value) for value in json.field("args").array())
    return _read_recipe(json, kind, json.field("count").integer(0), args, depth + 1)


def _some(json: Json, name: str) -> Sequence[Json]:
    found = json.optional(name)
    return () if found is None else found.array()


def _read_place(json: Json) -> ObjectPlace:
    for kind in OBJECT_PLACES:
        if (path := json.optional(kind)) is not None:
            return ObjectPlace(kind, tuple(constants.decode(step) for step in path.array()))
    json.fail("a place")


class _Reader:
    """Rebuilds the blocks of one program, the innermost ones first."""

    def __init__(self, json: Json, namespaces: Collection[str]) -> None:
        self.sources = [tuple(part.text() for part in source.array(2)) for source in json.field("sources").array()]
        self.namespaces = namespaces
        self.unused: dict[int, Block] = {}

    def place(self, json: Json, subscript: Json | None = None) -> Location:
        source, line = (part.integer(0) for part in json.array(2))
        if source >= len(self.sources):
            json.fail("a place in one of the sources")
        file, function = self.sources[source]
        return Location(file, line, function, None if subscript is None else subscript.integer(0))

    def read_blocks(self, json: Json) -> Block:
        """All blocks of the table; the root."""
        for index, block in reversed(list(enumerate(json.array()))):
            self.unused[index] = self._block(block)
        if list(self.unused) != [0]:
            json.fail("a root block, and every other block used once, by one before it")
        return self.unused[0]

    def _block(self, json: Json) -> Block:
        graph = fx.Graph()
        nodes: dict[str, fx.Node] = {}
        for item in json.field("inputs").array():
            self._define(item, graph.placeholder(item.field("name").identifier()), nodes)
        for item in json.field("nodes").array():
            args, kwargs = self._arguments(item, nodes)
            name = item.field("name").identifier()
            if item.field("target").value == _LEAVE:
                kept: Any = (_read_leave(item, len(args)), args, {})
                self._define(item, graph.create_node("call_function", control.call_, kept, {}, name), nodes)
                continue
            target = resolve(item.field("target"), self.namespaces)
            if (made := item.optional("made")) is not None:
                args = self._with_recipe(item, made, args, _EXCEPTIONS.get(target, -1), nodes)
            self._define(item, graph.create_node("call_function", target, args, kwargs, name), nodes)
        graph.output(tuple(self._argument(value, nodes) for value in json.field("outputs").array()))
        return Block(graph)

    def _define(self, json: Json, node: fx.Node, nodes: dict[str, fx.Node]) -> None:
        name = json.field("name").text()
        if name in nodes:
            json.field("name").fail("a name that is not used before in this block")
        node.name = name
        nodes[name] = node
        if (kind := json.optional("type")) is not None:
            node.meta["type"] = kind.text()
        if (place := json.optional("at")) is not None:
            node.meta["location"] = self.place(place, json.optional("subscript"))

    def _arguments(self, json: Json, nodes: dict[str, fx.Node]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        kwargs = json.optional("kwargs")
        return (
            tuple(self._argument(value, nodes) for value in json.field("args").array()),
            {} if kwargs is None else {key: self._argument(value, nodes) for key, value in kwargs.fields().items()},
        )

    def _with_recipe(self, json: Json, made: Json, args: tuple[Any, ...], at: int, nodes: dict[str, fx.Node]) -> tuple[Any, ...]:
        kind = args[at] if 0 <= at < len(args) else None
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            made.fail("what an exception has, where one is raised")
        values = tuple(self._argument(value, nodes) for value in _some(json, "values"))
        recipe = _read_recipe(made, kind, len(args) - at - 1, ())
        if recipe.takes - recipe.count != len(values):
            made.fail("as many values as it takes")
        return (*args[:at], recipe, *args[at + 1 :], *values)

    def _argument(self, json: Json, nodes: dict[str, fx.Node]) -> Any:
        if isinstance(json.value, dict) and (number := json.optional("block")) is not None:
            if number.integer(0) not in self.unused:
                number.fail("a block after this one that nothing else uses")
            return self.unused.pop(number.value)

        def reference(item: Json) -> fx.Node:
            if not isinstance(item.value, str) or item.value not in nodes:
                item.fail("a constant, or a value defined before it in the same block")
            return nodes[item.value]

        return constants.decode(json, reference)
