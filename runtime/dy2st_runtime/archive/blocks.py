"""Blocks of operations as plain data and back: the tables ``blocks`` and ``sources`` of a program."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, cast

from torch import fx

from dy2st_runtime.archive import collectives
from dy2st_runtime.archive.effects import read_effects, read_existing, written_to_json
from dy2st_runtime.archive.reports import DATA_TARGET, TARGET, frames_to_json, read_frames
from dy2st_runtime.call.on_raise import Leave
from dy2st_runtime.errors import SaveError
from dy2st_runtime.ir import constants
from dy2st_runtime.ir.document import Json
from dy2st_runtime.ir.operators import resolve
from dy2st_runtime.ir.printing import target_name
from dy2st_runtime.ir.program import Block, Location
from dy2st_runtime.ir.structure import Leaf, walk
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.gradients import backward, gradient_of, gradients, set_gradient
from dy2st_runtime.primitives.raising import Recipe, has_own_text
from dy2st_runtime.primitives.tensor_data import set_data

_MOST_LINKS = 16
"""How many exceptions stand behind one another."""

_LEAVE = "leave_"
"""The target of an operation of a recording that keeps what has been written until then."""


@dataclasses.dataclass(frozen=True)
class _Call:
    """A function of Python that a program may call, and that is there wherever it is loaded.

    Attributes:
        function: itself.
        count: how many arguments it takes at least; exactly, if it takes no more.
        options: the names of those that have one.
        takes_more: whether it takes more.
        wanted: what the arguments should be, for the error.
    """

    function: Any
    count: int
    wanted: str
    options: frozenset[str] = frozenset()
    takes_more: bool = False

    def fits(self, args: Sequence[Any], kwargs: Collection[str]) -> bool:
        """Tell whether it takes such arguments."""
        is_enough = len(args) >= self.count if self.takes_more else len(args) == self.count
        return is_enough and set(kwargs) <= self.options


_OPTIONS_OF_GRADIENTS = frozenset(
    ("grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused", "is_grads_batched", "materialize_grads")
)
_CALLS: dict[str, _Call] = {
    DATA_TARGET: _Call(set_data, 2, "two tensors"),
    "gradients": _Call(gradients, 3, "what torch.autograd.grad takes", _OPTIONS_OF_GRADIENTS, takes_more=True),
    "backward": _Call(backward, 6, "what torch.autograd.backward takes", frozenset(("retain_graph", "create_graph", "inputs"))),
    "gradient_of": _Call(gradient_of, 1, "a tensor"),
    "set_gradient": _Call(set_gradient, 2, "a tensor and its gradient"),
}
_TARGETS: dict[Any, str] = {call.function: name for name, call in _CALLS.items()}


class BlockWriter:
    """Collects the tables of one program: its blocks and the files they come from."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []
        self.sources: dict[tuple[str, str], int] = {}

    def place(self, location: Location) -> list[int]:
        """Return a place in the user's source."""
        source = self.sources.setdefault((location.file, location.function), len(self.sources))
        return [source, location.line]

    def add_block(self, block: Block) -> int:
        """Write a block, then those inside it; its number in the table."""
        results: dict[str, Any] = {"inputs": [], "nodes": [], "outputs": []}
        self.blocks.append(results)
        index = len(self.blocks) - 1
        for node in block.graph.nodes:
            if node.op == "placeholder":
                results["inputs"].append({"name": node.name, **self._meta(node)})
            elif node.op == "output":
                results["outputs"] = [self._argument(value, node) for value in block.outputs]
            else:
                results["nodes"].append(self._node(node))
        return index

    def _node(self, node: fx.Node) -> dict[str, Any]:
        if isinstance(node.args[0] if node.args else None, Leave):
            return self._leave(node)
        if node.target is control.call_ and node.args[0] in _TARGETS:
            _, values, named = cast(Any, node.args)
            args = [self._argument(value, node) for value in values]
            kwargs = {"kwargs": {key: self._argument(value, node) for key, value in named.items()}} if named else {}
            return {"name": node.name, "target": _TARGETS[node.args[0]], "args": args, **kwargs, **self._meta(node)}
        told = frames_to_json(node) or collectives.to_json(node)
        if told is not None:
            return self._told(node, told)
        if node.target is control.call_:
            name = getattr(node.args[0], "__qualname__", repr(node.args[0]))
            raise SaveError(f"{_line(node)}the program calls the Python function {name}, which exists only in this process")
        results: dict[str, Any] = {"name": node.name, "target": target_name(node.target)}
        values, recipe, more = _taken_apart(_with_text(node), node.target)
        results["args"] = [self._argument(value, node) for value in values]
        if recipe is not None:
            results["made"], left = self._recipe(recipe, more, node)
            results |= {"values": left} if left else {}
        if (text := _text_of(node)) is not None:
            results.setdefault("made", {})["text"] = text
        if node.kwargs:
            results["kwargs"] = {key: self._argument(value, node) for key, value in node.kwargs.items()}
        return results | collectives.ranks_to_json(node) | self._meta(node)

    def _told(self, node: fx.Node, told: dict[str, Any]) -> dict[str, Any]:
        """Return a call of a function that is told by plain data."""
        _, args, kwargs = node.args
        results = {"name": node.name, **told, "args": [self._argument(value, node) for value in cast(Any, args)]}
        results["kwargs"] = {key: self._argument(value, node) for key, value in cast(Any, kwargs).items()}
        return results | self._meta(node)

    def _recipe(self, recipe: Recipe, values: Sequence[Any], node: fx.Node) -> tuple[dict[str, Any], list[Any]]:
        """Return what an exception has besides its class and ``args``, and the values that it takes for that."""
        left = [self._argument(value, node) for value in values[: len(recipe.names)]]
        taken = iter(values[len(left) :])
        results: dict[str, Any] = {"names": list(recipe.names)} if recipe.names else {}
        if recipe.fixed:
            results["fixed"] = {name: self._argument(value, node) for name, value in recipe.fixed.items()}
        results |= {"suppress": True} if recipe.suppress else {}
        for name, link in recipe.links:
            part = [next(taken) for _ in range(link.takes)]
            with contextlib.suppress(SaveError):  # one that cannot be written is left out
                described, inner = self._recipe(link, part[link.count :], node)
                described |= {"kind": self._argument(link.kind, node), "args": [self._argument(value, node) for value in link.args]}
                text = _own_text(link, part[: link.count])
                described |= {} if text is None else {"text": text}
                left += [*(self._argument(value, node) for value in part[: link.count]), *inner]
                results.setdefault("links", {})[name] = described | {"count": link.count}
                if recipe.shares:  # a file has the same exception twice
                    results["links"]["__context__"] = results["links"][name]
                    left += left[-len(part) :] if part else []
        return results, left

    def _leave(self, node: fx.Node) -> dict[str, Any]:
        leave: Any = node.args[0]
        results: dict[str, Any] = {"name": node.name, "target": _LEAVE, **written_to_json(leave)}
        return results | {"args": [self._argument(value, node) for value in node.args[1]]} | self._meta(node)  # type: ignore[union-attr]

    def _argument(self, value: Any, node: fx.Node) -> Any:
        if isinstance(value, Block):
            return {"block": self.add_block(value)}
        try:
            return constants.encode(value, _name_of)
        except SaveError as error:
            raise SaveError(f"{_line(node)}{error}") from None

    def _meta(self, node: fx.Node) -> dict[str, Any]:
        results: dict[str, Any] = {"type": node.meta["type"]} if node.meta.get("type") else {}
        if isinstance(node.meta.get("location"), Location):
            results["at"] = self.place(node.meta["location"])
            if node.meta["location"].subscript is not None:
                results["subscript"] = node.meta["location"].subscript
        return results


def _name_of(value: Any) -> str | None:
    return value.name if isinstance(value, fx.Node) else None


def _with_text(node: fx.Node) -> Sequence[Any]:
    """Return the arguments of a node.

    Where an exception's only argument exists in this process alone, it is its text that is told.
    """
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
    """Return the arguments of an operation; of one that raises what tells its exception, and what that takes besides, apart."""
    at: int = _EXCEPTIONS.get(target, len(args))
    recipe = args[at] if at < len(args) else None
    if not isinstance(recipe, Recipe) or not (recipe.names or recipe.fixed or recipe.links or recipe.suppress):
        return args, None, ()
    if recipe.names and has_own_text(recipe.kind):
        return args, None, ()  # what it says is code
    end = at + 1 + recipe.count
    return (*args[:at], recipe.kind, *args[at + 1 : end]), recipe, args[end:]


def _text_of(node: fx.Node) -> str | None:
    """Return what the exception of an operation says, where its class has its own way to tell that."""
    at = _EXCEPTIONS.get(node.target, len(node.args))
    kind, *args = node.args[at:] or (None,)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        kind = Recipe(kind, len(args))
    try:
        return _own_text(kind, args[: kind.count]) if isinstance(kind, Recipe) else None
    except SaveError as error:
        raise SaveError(f"{_line(node)}{error}") from None


def _own_text(recipe: Recipe, values: Sequence[Any]) -> str | None:
    """Return the same of what makes an exception, given its ``args``."""
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
    """Return the user's line, to open a message with."""
    location = node.meta.get("location")
    return f"{location}: " if location else ""


def _read_leave(json: Json, leaves: int) -> Leave:
    result = Leave(read_effects(json), read_existing(json))
    for effect in result.effects:
        if any(isinstance(part, Leaf) and part.index >= leaves for part in walk(effect.value)):
            json.fail("as many arguments as its effects name")
    return result


def _read_recipe(json: Json, kind: type[BaseException], count: int, args: tuple[Any, ...], depth: int = 0) -> Recipe:
    if depth > _MOST_LINKS:
        json.fail("fewer exceptions behind one another")
    fixed, links, suppress = json.optional("fixed"), json.optional("links"), json.optional("suppress")
    attributes = {} if fixed is None else {name: constants.decode(value) for name, value in fixed.fields().items()}
    return Recipe(
        kind,
        count,
        args,
        tuple(name.text() for name in json.some("names")),
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


class BlockReader:
    """Rebuilds the blocks of one program, the innermost ones first."""

    def __init__(self, json: Json, namespaces: Collection[str]) -> None:
        self.sources = [tuple(part.text() for part in source.array(2)) for source in json.field("sources").array()]
        self.namespaces = namespaces
        self.unused: dict[int, Block] = {}

    def place(self, json: Json, subscript: Json | None = None) -> Location:
        """Return the inverse of :meth:`BlockWriter.place`."""
        source, line = (part.integer(0) for part in json.array(2))
        if source >= len(self.sources):
            json.fail("a place in one of the sources")
        file, function = self.sources[source]
        return Location(file, line, function, None if subscript is None else subscript.integer(0))

    def read_blocks(self, json: Json) -> Block:
        """Return all blocks of the table; the root."""
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
            known = _CALLS.get(item.field("target").text())
            if known is not None:
                if not known.fits(args, kwargs):
                    item.field("args").fail(known.wanted)
                call: Any = (known.function, args, kwargs)
                self._define(item, graph.create_node("call_function", control.call_, call, {}, name), nodes)
                continue
            if item.field("target").value == TARGET:
                reported: Any = (read_frames(item, kwargs), args, kwargs)
                self._define(item, graph.create_node("call_function", control.call_, reported, {}, name), nodes)
                continue
            if item.field("target").value == collectives.TARGET:
                together: Any = (collectives.read(item), args, kwargs)
                self._define(item, graph.create_node("call_function", control.call_, together, {}, name), nodes)
                continue
            target = resolve(item.field("target"), self.namespaces)
            collectives.check_ranks(item, target, args, kwargs)
            if (result := item.optional("made")) is not None:
                args = self._with_recipe(item, result, args, _EXCEPTIONS.get(target, -1), nodes)
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

    def _with_recipe(self, json: Json, obj: Json, args: tuple[Any, ...], at: int, nodes: dict[str, fx.Node]) -> tuple[Any, ...]:
        kind = args[at] if 0 <= at < len(args) else None
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            obj.fail("what an exception has, where one is raised")
        values = tuple(self._argument(value, nodes) for value in json.some("values"))
        recipe = _read_recipe(obj, kind, len(args) - at - 1, ())
        if recipe.takes - recipe.count != len(values):
            obj.fail("as many values as it takes")
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
