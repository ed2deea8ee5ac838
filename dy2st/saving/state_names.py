"""What the state of a captured program is called in a saved model, and where its effects go.

self.conv.weight             "conv.weight", a parameter: the names of the module's own ``state_dict``
self.h, self.rnn.calls       "h", "rnn.calls": attributes
self.state[0]                "state[0]", an item of an attribute
a tensor of a closure        a constant
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from dy2st.capture import on_raise
from dy2st.capture.environment.sources import Source
from dy2st.capture.outputs.effects import Writer
from dy2st.capture.outputs.results import Written
from dy2st.capture.writes.places import AttributePlace, CellPlace, ContentsPlace, ItemPlace, Place, RankedOrder
from dy2st.errors import SaveError
from dy2st.saving.carried_state import Taken, line_of, with_recordings
from dy2st_runtime.archive.state import StateValue
from dy2st_runtime.call.on_raise import Leave
from dy2st_runtime.ir import paths, structure_json
from dy2st_runtime.ir.flattening import HoldsItselfError, children, repeated_containers
from dy2st_runtime.ir.program import Effect, ObjectPlace, Program, StateSlot, copy_block
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, Shared, Structure, TupleOf, ordered, walk


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A parameter or buffer of the module that is saved."""

    name: str
    kind: str
    persistent: bool


class Names:
    """The names in one saved model.

    Args:
        module: the module that is saved, if it is one.
        programs: all programs that are saved.
    """

    def __init__(self, module: torch.nn.Module | None, programs: Sequence[Taken]) -> None:
        self.tensors = dict(_tensors(module)) if module is not None else {}
        self._gradients = dict(_gradients(module)) if module is not None else {}
        self.programs = with_recordings(programs)
        self.holders = self._written_containers()
        """The attributes whose items are state of their own, with what they hold."""
        self._held = {
            id(part): path for name, (value, _) in self.holders.items() for path, part in _containers_in(value, name, set())
        }
        """The paths of the containers in them, by identity."""
        self._kept: dict[int, tuple[str, Any]] = {}
        """The names of containers that a loaded model makes in the first call that leaves them."""

    def program(self, taken: Taken) -> Program:
        """Return a program with its state and effects named."""
        captured = taken.captured
        states = zip(captured.program.states, captured.state_sources, (get(taken.values) for get in captured.states), strict=True)
        slots = tuple(self._slot(slot, source, value, taken) for slot, source, value in states)
        names = {slot.name for slot in slots}
        effects = self._effects(captured.outside, taken, names)
        arguments = _ordered(captured.program.in_structure, captured.asked_orders)
        result = dataclasses.replace(captured.program, states=slots, effects=effects, in_structure=arguments)
        existing = self._existing(captured.existing, (result.out_structure, *(effect.value for effect in effects)), taken)
        result = self._with_leaves(result, taken, names) if on_raise.may_leave(result) else result
        recording = None if taken.recording is None else self.program(taken.recording)
        return dataclasses.replace(result, existing=existing, distinct=tuple(self._distinct(taken)), recording=recording)

    def _with_leaves(self, program: Program, taken: Taken, slots: Collection[str]) -> Program:
        result = dataclasses.replace(program, block=copy_block(program.block))
        for node in on_raise.nodes(result):
            kept: Any = node.args[0]
            leave: Any = self._leave(kept.written, taken, slots)
            node.args = (leave, *node.args[1:])
        return result

    def _effects(self, written: Written, taken: Taken, slots: Collection[str]) -> tuple[Effect, ...]:
        result = (self._effect(effect, writer, place, taken, slots) for writer, place, effect in taken.effects(written))
        return tuple(sorted(result, key=lambda effect: -_depth(effect)))  # by path, so before the container is replaced

    def _existing(
        self, numbers: Mapping[int, int], values: Sequence[Structure], taken: Taken
    ) -> tuple[tuple[int, ObjectPlace], ...]:
        """Return where the containers are that stand in some values and were there before the call, by their numbers."""
        used = {part.number for value in values for part in _shared(value)}
        places = ((number, self._place(index, taken)) for number, index in numbers.items() if number in used)
        return tuple((number, place) for number, place in places if place is not None)

    def _leave(self, written: Written, taken: Taken, slots: Collection[str]) -> Leave:
        """Return what a recording leaves early, with its places named."""
        effects = self._effects(written, taken, slots)
        return Leave(effects, self._existing(written.existing, [effect.value for effect in effects], taken))

    def _place(self, index: int, taken: Taken) -> ObjectPlace | None:
        """Return where a container is that was there before the call; ``None`` for what Python makes of the arguments at each."""
        source, value = taken.captured.sources[index], taken.values[index]
        steps = _steps(source)
        if steps is not None:
            return ObjectPlace("argument", _without_self(steps, taken)) if len(steps) > 1 else None
        path = _path(source, taken)
        if path is None or path.split("[")[0] not in self.holders:
            path = self._held.get(id(value))  # it may be reached by another name first
        if path is not None:
            return ObjectPlace("state", (path,))
        self._check_kept(source, value, taken)
        names = {name for name, _ in self._kept.values()}
        free = next(name for name in itertools.chain([source.name], _numbered(source.name)) if name not in names)
        return ObjectPlace("kept", (self._kept.setdefault(id(value), (free, value))[0],))

    def _check_kept(self, source: Source, value: Any, taken: Taken) -> None:
        """Refuse an object that is left as a whole, and is changed part by part."""
        for program in self.programs:
            for writer, place in program.writes():
                if not isinstance(place, CellPlace) and place.owner is value:
                    raise SaveError(
                        f"{line_of(writer, program.captured)}{taken.captured.program.name} leaves {source.name}, which is changed "
                        "here; a loaded model has no such object, only what is in it: return what is in it instead"
                    )

    def _distinct(self, taken: Taken) -> Iterator[tuple[ObjectPlace, ObjectPlace]]:
        """Yield the containers among the arguments that the program has told from others."""
        for guard in taken.captured.guards:
            for other in guard.others:
                if isinstance(taken.values[guard.source.index], _CONTAINERS) and (_steps(guard.source) or _steps(other)):
                    one, two = (self._place(source.index, taken) for source in (guard.source, other))
                    if one is not None and two is not None:
                        yield one, two

    def attributes(self) -> list[StateValue]:
        """Return the containers, and the tensors in them."""
        self._check_apart()
        numbers = {path for taken in self.programs for path in _number_paths(taken)}
        results: list[StateValue] = []
        for name, (value, line) in self.holders.items():
            items: list[StateValue] = []
            try:
                described = _describe(value, name, numbers, items)
                structure_json.to_json(described)
            except SaveError as error:
                raise SaveError(f"{line}self.{name}: {error}") from None
            results += [*items, StateValue(name, "container", described)]
        return results

    def _check_apart(self) -> None:
        """Refuse a list or dict that stands in two places of the state: a loaded model would have two."""
        places: dict[int, tuple[str, Any]] = {}
        for name, (value, line) in self.holders.items():
            try:
                repeated_containers(value, lambda part: False)
            except HoldsItselfError as error:
                raise SaveError(f"{line}self.{name}: {error}") from None
            for path, part in _containers_in(value, name, set()):
                known, _ = places.setdefault(id(part), (path, part))
                if known != path:
                    raise SaveError(
                        f"{line}self.{known} and self.{path} are one {type(part).__name__}, and a loaded model would have two; "
                        "keep it in one place"
                    )

    def _written_containers(self) -> dict[str, tuple[Any, str]]:
        held: dict[str, tuple[Any, str]] = {}
        read = {path.split("[")[0] for taken in self.programs for path in _state_paths(taken) if "[" in path}
        for taken in self.programs:
            for writer, place in taken.writes():
                path = _path(writer.source, taken)
                if path is None or isinstance(place, CellPlace):
                    continue
                if isinstance(place, AttributePlace):
                    path = f"{path}.{place.name}".removeprefix(".")
                path = path.split("[")[0]
                if path in read or not isinstance(place, AttributePlace):
                    held[path] = (_value_at(path, taken), line_of(writer, taken.captured))
        return held

    def _slot(self, slot: StateSlot, source: Source | None, value: Any, taken: Taken) -> StateSlot:
        if isinstance(value, torch.Tensor) and id(value) in self.tensors:
            known = self.tensors[id(value)]
            return dataclasses.replace(slot, name=known.name, kind=known.kind, persistent=known.persistent)
        if id(value) in self._gradients:
            return dataclasses.replace(slot, name=self._gradients[id(value)], kind="attribute")
        path = _path(source, taken)
        if path is not None and ("[" not in path or path.split("[")[0] in self.holders):
            return dataclasses.replace(slot, name=path, kind="number" if slot.kind == "number" else "attribute")
        if slot.kind == "number":
            raise SaveError(f"{taken.captured.program.origin}: {slot.name} is no attribute of the module; return the value instead")
        name = slot.name if source is None else self._name_of_constant(source)
        return dataclasses.replace(slot, name="".join(c if c.isalnum() else "_" for c in name), kind="constant")

    def _name_of_constant(self, source: Source) -> str:
        """Return the name of a source: what is kept by tensor, as the state of an optimizer is, has the tensor's name in it."""
        if source.parent is None:
            return source.name
        key = source.key[-1] if source.key[0] == "item" else None
        known = self.tensors.get(id(key)) if isinstance(key, torch.Tensor) else None
        step = source.name.removeprefix(source.parent.name) if known is None else f".{known.name}"
        return f"{self._name_of_constant(source.parent)}{step}"

    def _effect(self, effect: Effect, writer: Writer, place: Place, taken: Taken, slots: Collection[str]) -> Effect:
        if isinstance(place, RankedOrder):
            raise SaveError(
                f"{line_of(writer, taken.captured)}{taken.captured.program.name} puts keys into a dict in an order that is known "
                "only when it runs, which a loaded model cannot keep; put them in before you save it"
            )
        target = self._target(writer, place, taken, slots)
        if target is None or effect.kind != "set":
            what = "deletes" if effect.kind == "delete" else "changes"
            holder = None if writer.source is None else writer.source.parent
            start = None if holder is None else taken.values[holder.index]
            if isinstance(start, torch.optim.Optimizer):
                raise SaveError(
                    f"{line_of(writer, taken.captured)}{taken.captured.program.name} makes the state of {type(start).__name__}, "
                    "which is not the same for the first step and for the next ones; step once before you save it"
                )
            raise SaveError(
                f"{line_of(writer, taken.captured)}{taken.captured.program.name} {what} {_what(effect, place)}, "
                "which a loaded model cannot do: it keeps attributes of the saved module, "
                "and lists and dicts of unchanging length in them; return the value instead"
            )
        try:
            structure_json.to_json(effect.value)
        except SaveError as error:
            raise SaveError(f"{line_of(writer, taken.captured)}{effect.target}: {error}") from None
        return dataclasses.replace(effect, target=target, in_place=isinstance(place, ContentsPlace))

    def _target(self, writer: Writer, place: Place, taken: Taken, slots: Collection[str]) -> str | None:
        path = None if isinstance(place, CellPlace) else _path(writer.source, taken)
        if path is None:
            return None
        if isinstance(place, AttributePlace):
            known = self.tensors.get(id(place.read()))
            own = f"{path}.{place.name}".strip(".")
            if known is not None and known.name in slots:
                if known.name.removeprefix("self.") != own:
                    raise SaveError(
                        f"{line_of(writer, taken.captured)}self.{own} is the same object as {known.name} before the call, and "
                        "another after it, so no saved program is right for the call and for the next one; give it one of its own"
                    )
                return known.name
            target = f"self.{path}.{place.name}".replace("..", ".")
        elif isinstance(place, ItemPlace):
            target = f"self.{path}{paths.step(place.item)}"
        else:
            target = f"self.{path}"
        return target if paths.written(target) is not None else None


_CONTAINERS = (list, dict)


def _shared(value: Structure) -> Iterator[Shared]:
    return (part for part in walk(value) if isinstance(part, Shared))


def _numbered(name: str) -> Iterator[str]:
    return (f"{name}_{number}" for number in itertools.count(2))


def _containers_in(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield the containers that stand in a value, itself included, with their paths; one that stands in two places twice."""
    parts = children(value)
    if parts is None:
        return
    if not isinstance(value, tuple):
        yield path, value
        if id(value) in seen:
            return
        seen.add(id(value))
    for key, part in zip(value if isinstance(value, dict) else range(len(parts[0])), parts[0]):
        yield from _containers_in(part, path + paths.step(key), seen)


def _steps(source: Source) -> tuple[Any, ...] | None:
    """Return the way to a part of the arguments; ``None`` for what is none."""
    results: list[Any] = []
    while source.parent is not None:
        results.append(source.key[-1])
        source = source.parent
    return tuple(reversed(results)) if source.key == ("argument", -1) else None


def _without_self(steps: tuple[Any, ...], taken: Taken) -> tuple[Any, ...]:
    return (0, steps[1] - 1, *steps[2:]) if taken.root is not None and steps[0] == 0 and len(steps) > 1 else steps


def _ordered(arguments: Structure, orders: Collection[tuple[Any, ...]]) -> Structure:
    """Return the structure of the arguments, where the order of what was asked for it counts.

    Those of ``**kwargs`` come last by name.
    """
    match ordered(arguments, orders):
        case TupleOf((args, DictOf(keys, items))) if any(keys[-len(order) :] == order for order in orders):
            return TupleOf((args, DictOf(keys, items, collections.OrderedDict)))
        case other:
            return other


def _depth(effect: Effect) -> int:
    """Return how many steps lead from an attribute to what an effect writes."""
    place = paths.written(effect.target)
    return 0 if place is None else len(place.items)


def _what(effect: Effect, place: Place) -> str:
    if isinstance(place, CellPlace):
        return f"the variable {place.name} of an enclosing function"
    if isinstance(place, ItemPlace) and "__builtins__" in place.owner:
        return f"the global variable {place.item}"
    return f"a {type(place.owner).__name__}" if isinstance(place, (ContentsPlace, ItemPlace)) else effect.target


def _gradients(module: torch.nn.Module) -> Iterator[tuple[int, str]]:
    """Yield the gradients that parameters have now, by identity, with their names in a file."""
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            yield id(parameter.grad), f"{name}.grad"


def _tensors(module: torch.nn.Module) -> Iterator[tuple[int, Tensor]]:
    """Yield the parameters and buffers of a module by identity; of several names the first."""
    seen: set[int] = set()
    for prefix, owner in module.named_modules():
        for kind, table in (("parameter", owner._parameters), ("buffer", owner._buffers)):
            for name, tensor in table.items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    dotted = f"{prefix}.{name}" if prefix else name
                    yield id(tensor), Tensor(dotted, kind, name not in owner._non_persistent_buffers_set)


def _path(source: Source | None, taken: Taken) -> str | None:
    """Return where a source is, from the object that the function is bound to; ``None`` for what is not in that object."""
    root = source
    while root is not None and root.parent is not None:
        root = root.parent
    if source is None or root is not taken.root:
        return None
    path = source.name.removeprefix(root.name).removeprefix(".")  # type: ignore[union-attr]  # taken.root is a source
    return path if not path or paths.written(f"self.{path}") is not None else None


def _state_paths(taken: Taken) -> Iterator[str]:
    return (path for source in taken.captured.state_sources if (path := _path(source, taken)))


def _number_paths(taken: Taken) -> Iterator[str]:
    for slot, source in zip(taken.captured.program.states, taken.captured.state_sources, strict=True):
        if slot.kind == "number" and (path := _path(source, taken)):
            yield path


def _value_at(path: str, taken: Taken) -> Any:
    for source in taken.captured.sources:
        if _path(source, taken) == path:
            return taken.values[source.index]
    raise SaveError(f"{taken.captured.program.origin}: self.{path} is written, but not found")


def _describe(value: Any, name: str, numbers: Collection[str], items: list[StateValue]) -> Structure:
    """Return the structure of a container; its tensors and changing numbers become entries of their own."""
    if isinstance(value, torch.Tensor):
        items.append(StateValue(name, "attribute", value))
        return Leaf(0)
    if name in numbers:
        items.append(StateValue(name, "number", value))
        return Leaf(0)
    parts = children(value)
    if parts is None:
        return Const(value)
    result = parts[1](tuple(Leaf(index) for index in range(len(parts[0]))))
    if not isinstance(result, (TupleOf, ListOf, DictOf)):
        raise SaveError(f"a {type(value).__qualname__} that changes from call to call cannot be written to an archive")
    keys: Sequence[Any] = result.keys if isinstance(result, DictOf) else range(len(parts[0]))
    for key in keys:
        if not paths.is_key(key):
            raise SaveError(f"the key {key!r} cannot be written to an archive; use numbers and names")
    inner = (_describe(part, name + paths.step(key), numbers, items) for key, part in zip(keys, parts[0], strict=True))
    return dataclasses.replace(result, items=tuple(inner))
