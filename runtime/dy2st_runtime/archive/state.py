"""The values a program takes from its surroundings, as an archive keeps them.

Tensors that are one object come back as one object (tied parameters); tensors that share memory come back sharing it. A
tensor's data is stored once, under the first name that uses it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from dy2st_runtime.archive.memory import pack, unpack
from dy2st_runtime.archive.serialize import STATE_KINDS
from dy2st_runtime.errors import LoadError, SaveError
from dy2st_runtime.ir import constants, structure_json
from dy2st_runtime.ir.document import Json
from dy2st_runtime.ir.paths import Path, parse, step, written
from dy2st_runtime.ir.program import Program, StateSlot
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, Structure, TupleOf
from dy2st_runtime.ir.unflattening import unflatten


@dataclasses.dataclass(frozen=True, eq=False)
class StateValue:
    """One entry of the state of a saved model.

    Attributes:
        name: dotted, as in ``state_dict``.
        kind: as in :class:`~dy2st_runtime.ir.program.StateSlot`; ``"module"`` for a submodule that is another one;
            ``"container"`` for an attribute whose items are entries of their own.
        value: a tensor, a number, the name of the other module, or the structure of the container, with a leaf for each item.
        persistent: whether a buffer is part of the ``state_dict``.
    """

    name: str
    kind: str
    value: Any
    persistent: bool = True


State = tuple[StateValue, ...]

_MODULE = nn.Module()


def module_state(module: nn.Module) -> Iterator[StateValue]:
    """Yield all parameters and buffers of a module, in the order of its ``state_dict``."""
    yield from _walk(module, "", {})


def _walk(module: nn.Module, prefix: str, seen: dict[int, str]) -> Iterator[StateValue]:
    if id(module) in seen:
        _check_holding(prefix[:-1], seen[id(module)])
        yield StateValue(prefix[:-1], "module", seen[id(module)])
        return
    seen[id(module)] = prefix[:-1]
    for name, parameter in module._parameters.items():
        if parameter is not None and not is_traceable_wrapper_subclass(parameter):  # else programs read what it is made of
            yield StateValue(prefix + name, "parameter", parameter)
    for name, buffer in module._buffers.items():
        if buffer is not None and not is_traceable_wrapper_subclass(buffer):
            yield StateValue(prefix + name, "buffer", buffer, name not in module._non_persistent_buffers_set)
    for name, child in module._modules.items():
        if child is not None and next(child.parameters(), next(child.buffers(), None)) is not None:
            yield from _walk(child, f"{prefix}{name}.", seen)


def _check_holding(name: str, first: str) -> None:
    """Refuse a module that holds itself: ``train()`` of such a one does not end."""
    if not first or name.startswith(f"{first}."):
        raise SaveError(
            f"the submodule {name} is {first or 'the module'} itself, and a module that holds itself cannot be loaded; keep what "
            "leads back to it in a tuple or a weak reference, so that it is no submodule"
        )


def collect(
    programs: Sequence[Program],
    values: Sequence[Sequence[Any]],
    module: nn.Module | None = None,
    attributes: Sequence[StateValue] = (),
) -> tuple[tuple[Program, ...], State]:
    """Gather the state of several programs of one module.

    Args:
        programs: the programs; they may share state by its name.
        values: for each program, the live values of its state slots, in order, then those of its recording's.
        module: where all parameters and buffers are taken from, those that no program uses as well.
        attributes: other state that no slot stands for: containers, and items of them that no program reads.

    Returns:
        The programs, with a constant renamed where two use one name for different tensors, and the state.

    Raises:
        SaveError: two programs mean different things by one name, or the values do not fit the slots.
    """
    results = {entry.name: entry for entry in (module_state(module) if module is not None else ())}
    renamed = []
    for program, own in zip(programs, values, strict=True):
        count, recording = len(program.states), program.recording
        if len(own) != count + (0 if recording is None else len(recording.states)):
            raise SaveError(f"{program.name}: {len(own)} values for {count} state slots")
        program = dataclasses.replace(program, states=_collected(program.states, own[:count], results))
        if recording is not None:
            recording = dataclasses.replace(recording, states=_collected(recording.states, own[count:], results))
        renamed.append(dataclasses.replace(program, recording=recording))
    for entry in attributes:
        _add(results, entry)
    return tuple(renamed), tuple(results.values())


def _collected(slots: Sequence[StateSlot], values: Sequence[Any], results: dict[str, StateValue]) -> tuple[StateSlot, ...]:
    """Return state slots with the names that their values have among those found."""
    collected = []
    for slot, value in zip(slots, values, strict=True):
        if slot.kind == "constant":
            slot = dataclasses.replace(slot, name=_free_name(slot.name, value, results))
        _add(results, StateValue(slot.name, slot.kind, value, slot.persistent))
        collected.append(slot)
    return tuple(collected)


def _free_name(name: str, value: Any, results: Mapping[str, StateValue]) -> str:
    candidate, number = name, 1
    while candidate in results and results[candidate].value is not value:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _add(results: dict[str, StateValue], entry: StateValue) -> None:
    if entry.kind != "container" and (entry.kind == "number") == isinstance(entry.value, torch.Tensor):
        raise SaveError(f"{entry.name} is a {entry.kind}, but its value is a {type(entry.value).__name__}")
    known = results.get(entry.name)
    if known is None:
        if not _below_alias(entry, results):
            results[entry.name] = entry
    elif known.value is not entry.value and not _same_plain(known, entry):
        raise SaveError(f"two different values are called {entry.name}")


def _below_alias(entry: StateValue, results: Mapping[str, StateValue]) -> bool:
    """Tell whether an entry is there already under the name of the module that is the same."""
    for alias in results.values():
        if alias.kind == "module" and entry.name.startswith(f"{alias.name}."):
            known = results.get(f"{alias.value}.{entry.name.removeprefix(f'{alias.name}.')}")
            if known is not None and known.value is entry.value:
                return True
    return False


def _same_plain(a: StateValue, b: StateValue) -> bool:
    """Tell whether two entries hold the same number or describe the same container."""
    if (a.kind, b.kind) == ("container", "container"):
        return bool(a.value == b.value)
    return a.kind == b.kind == "number" and type(a.value) is type(b.value) and repr(a.value) == repr(b.value)


def build(made_of: Structure, name: str, items: Mapping[str, Any]) -> Any:
    """Return the list, tuple or dict of a container entry, from the values of its items by name.

    Raises:
        KeyError: an item is missing.
        ValueError: it is made of something else.
    """
    match made_of:
        case Leaf():
            return items[name]
        case Const(value):
            return value
        case TupleOf(parts) | ListOf(parts):
            keys: Iterable[Any] = range(len(parts))
        case DictOf(keys, parts):
            pass
        case _:
            raise ValueError(f"{name} is no list, tuple or dict")
    values = [build(part, name + step(key), items) for key, part in zip(keys, parts, strict=True)]
    shallow = tuple(Leaf(index) for index in range(len(values)))
    return unflatten(dataclasses.replace(made_of, items=shallow), values)


def to_json(state: State) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """Return the state as plain data, and the tensors it refers to, each with memory of its own.

    Raises:
        SaveError: a tensor is of a kind that an archive cannot hold.
    """
    first: dict[int, str] = {}
    tensors: dict[str, torch.Tensor] = {}
    for entry in state:
        if entry.kind not in ("module", "number", "container") and not isinstance(entry.value, torch.Tensor):
            raise SaveError(f"{entry.name} was a tensor when it was captured and is a {type(entry.value).__name__} now")
        if isinstance(entry.value, torch.Tensor) and id(entry.value) not in first:
            first[id(entry.value)] = entry.name
            tensors[entry.name] = entry.value
    places, stored = pack(tensors)
    return [_entry_to_json(entry, first, places) for entry in state], stored


def _entry_to_json(entry: StateValue, first: Mapping[int, str], places: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    results: dict[str, Any] = {"name": entry.name, "kind": entry.kind}
    if entry.kind == "buffer":
        results["persistent"] = entry.persistent
    if entry.kind == "module":
        return results | {"same_as": entry.value}
    if entry.kind == "container":
        return results | {"structure": structure_json.to_json(entry.value)}
    if entry.kind == "number":
        return results | {"number": constants.encode(entry.value)}
    name = first[id(entry.value)]
    if name != entry.name:
        return results | {"same_as": name}
    return results | {"requires_grad": entry.value.requires_grad and entry.value.is_leaf, **places[name]}


def from_json(json: Json, stored: Mapping[str, torch.Tensor]) -> State:
    """Return the inverse of :func:`to_json`.

    Raises:
        LoadError: with the place of what is wrong.
    """
    results: dict[str, StateValue] = {}
    for item in json.array():
        entry = _read_entry(item, stored, results)
        if entry.name in results or not all(entry.name.split(".")):
            item.field("name").fail("a dotted name that is not used before")
        own = parse(entry.name).name
        if entry.kind in ("attribute", "number", "container") and (hasattr(_MODULE, own) or own.startswith("_dy2st")):
            item.field("name").fail("a name that every module does not already have")
        if entry.kind == "module":
            _check_alias(item, [other for other in results.values() if other.kind == "module"])
        results[entry.name] = entry
    _check_containers(json, results)
    return tuple(results.values())


def _check_containers(json: Json, results: Mapping[str, StateValue]) -> None:
    """Check that every item of an attribute is in a container, and every container has its items."""
    items = {name: entry.value for name, entry in results.items() if entry.kind in ("attribute", "number")}
    for entry in results.values():
        path = parse(entry.name)
        if entry.kind == "container":
            try:
                build(entry.value, entry.name, items)
            except (KeyError, ValueError, TypeError) as error:
                raise LoadError(f"{json.path}: {entry.name} cannot be put together: {error}") from None
        elif entry.name in items and path.items:
            holder = results.get(str(dataclasses.replace(path, items=())))
            if holder is None or holder.kind != "container":
                raise LoadError(f"{json.path}: {entry.name} is an item of nothing")


def _check_alias(json: Json, others: Sequence[StateValue]) -> None:
    """Check that no module contains itself: an alias is under no alias and under nothing that is aliased, itself included."""
    name, target = json.field("name").text(), json.field("same_as").text()
    taken = [target, *(other.name for other in others), *(other.value for other in others)]
    aliases = [name, *(other.name for other in others)]
    if any(f"{name}.".startswith(f"{prefix}.") for prefix in taken) or any(
        f"{target}.".startswith(f"{alias}.") for alias in aliases
    ):
        json.fail("a module outside of the one it is")


def _read_entry(json: Json, stored: Mapping[str, torch.Tensor], results: Mapping[str, StateValue]) -> StateValue:
    name, kind = json.field("name").text(), json.field("kind").text((*STATE_KINDS, "module", "container"))
    persistent = json.optional("persistent")
    same_as = json.optional("same_as")
    value: Any
    if kind == "module":
        value = json.field("same_as").text()
        if not all(value.split(".")):
            json.field("same_as").fail("a dotted name")
    elif kind == "container":
        value = structure_json.from_json(json.field("structure"))
    elif kind == "number":
        value = constants.decode(json.field("number"))
        if not isinstance(value, (bool, int, float)):
            json.field("number").fail("a number")
    elif same_as is not None:
        other = results.get(same_as.text())
        if other is None or not isinstance(other.value, torch.Tensor):
            same_as.fail("the name of a tensor before this one")
        value = other.value
    else:
        value = _read_tensor(json, stored, kind)
    return StateValue(name, kind, value, persistent.boolean() if persistent else True)


def _read_tensor(json: Json, stored: Mapping[str, torch.Tensor], kind: str) -> torch.Tensor:
    tensor = unpack(json, stored)
    requires_grad = json.field("requires_grad").boolean()
    if requires_grad and not (tensor.is_floating_point() or tensor.is_complex()):
        json.field("requires_grad").fail("false for this dtype")
    if kind == "parameter":
        return nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def check_slots(programs: Iterable[Program], state: State) -> None:
    """Check that every state slot of every program has its value.

    Raises:
        LoadError: one has none, or one of another dtype or size.
    """
    aliases = {entry.name: entry.value for entry in state if entry.kind == "module"}
    values = {entry.name: entry.value for entry in state}
    for program in programs:
        for slot in program.states:
            value = values.get(resolve_alias(slot.name, aliases))
            if value is None:
                raise LoadError(f"program.json: the state has no {slot.name}, which {program.name} needs")
            if isinstance(value, torch.Tensor) != (slot.dtype is not None):
                raise LoadError(f"program.json: {slot.name} is not what {program.name} needs")
            if isinstance(value, torch.Tensor) and not _fits(value, slot.dtype, slot.shape):
                raise LoadError(f"weights.safetensors: {slot.name} has not the dtype and size that {program.name} needs")


def check_places(programs: Iterable[Program], state: State) -> None:
    """Check that every container of the state that a program looks at, or fills, is there.

    Raises:
        LoadError: one is not.
    """
    items = {entry.name: entry.value for entry in state if entry.kind in ("attribute", "number")}
    containers = {entry.name: build(entry.value, entry.name, items) for entry in state if entry.kind == "container"}
    for program in programs:
        filled = [path for effect in program.effects if effect.in_place and (path := written(effect.target)) is not None]
        for place in program.object_places:
            if place.kind == "argument" and len(place.path) < 2:
                raise LoadError(f"program.json: {program.name} names all its arguments as a container")
            if place.kind != "argument" and not (len(place.path) == 1 and isinstance(place.path[0], str)):
                raise LoadError(f"program.json: {program.name} names a container by {place.path!r}")
        known = [parse(place.path[0]) for place in program.object_places if place.kind == "state"]
        for path in (*known, *filled):
            if not isinstance(_at(containers, path), (list, dict) if path in filled else (list, dict, tuple)):
                raise LoadError(f"program.json: the state has no container {path}, which {program.name} needs")


def _at(containers: Mapping[str, Any], path: Path) -> Any:
    """Return what is in a container; ``None`` for nothing."""
    result = containers.get(str(dataclasses.replace(path, items=())))
    for key in path.items:
        try:
            result = result[key]  # type: ignore[index]  # checked by trying
        except (TypeError, KeyError, IndexError):
            return None
    return result


def resolve_alias(name: str, aliases: Mapping[str, str]) -> str:
    """Return the name of an entry as it stands in the state, given the names of submodules that are others."""
    for alias, original in aliases.items():
        if name.startswith(f"{alias}."):
            return f"{original}.{name.removeprefix(f'{alias}.')}"
    return name


def _fits(value: torch.Tensor, dtype: torch.dtype | None, shape: Sequence[int | str]) -> bool:
    same_sizes = all(isinstance(want, str) or size == want for size, want in zip(value.shape, shape, strict=False))
    cast = dtype is not None and dtype.is_floating_point and value.is_floating_point()  # module.half() before saving
    return (value.dtype == dtype or cast) and value.dim() == len(shape) and same_sizes
