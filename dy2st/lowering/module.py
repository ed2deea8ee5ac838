"""A program as a module that ``torch.export`` can follow, and what ``torch.export`` makes of it."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental import _config as shape_settings

from dy2st.errors import ExportError
from dy2st.lowering import arguments
from dy2st.lowering.context import brief, check_hazards
from dy2st.lowering.interpreter import Interpreter
from dy2st.lowering.lists import prefix
from dy2st.lowering.values import DTYPES, ListValue, Number, as_tensor, is_number, known_later, new_form
from dy2st_runtime.call import effects
from dy2st_runtime.ir.paths import parse
from dy2st_runtime.ir.program import InputSlot, Program
from dy2st_runtime.ir.structure import (
    ClassOf,
    CollectionOf,
    Const,
    DictOf,
    FunctionOf,
    HolderOf,
    InstanceOf,
    Leaf,
    ListOf,
    ObjectOf,
    SameAs,
    Shared,
    Structure,
    TaggedUnionOf,
    TupleOf,
)
from dy2st_runtime.module import LoadedModule

_KEPT = "state_{}"


def kept_name(program: Program, number: int) -> str:
    """Under which name an exported model has a state slot: that of the model, but for what is no parameter or buffer there."""
    slot = program.states[number]
    return slot.name if slot.kind in ("parameter", "buffer") else _KEPT.format(number)


class LoweredModule(nn.Module):
    """A module whose ``forward`` runs a program in terms of what ``torch.export`` knows.

    Parameters and buffers keep their names. Attributes that the program reads and writes are buffers here, numbers among them
    tensors of no dimension.

    Args:
        loaded: where the state is.
        program: one of its programs.
        checks: whether assertions become part of the result.
        max_growth: see :func:`dy2st.export`.
    """

    def __init__(self, loaded: LoadedModule, program: Program, checks: bool = True, max_growth: int | None = None) -> None:
        super().__init__()
        self.program = program
        self.opaque = False
        """Whether nothing at all is taken to be known of dynamic sizes, as in the program itself."""
        self.context = Interpreter(checks, max_growth, any(_changes(node) for node in program.nodes()))
        self._parameters.update(loaded._parameters)
        self._buffers.update(loaded._buffers)
        self._modules.update(loaded._modules)
        self._non_persistent_buffers_set.update(loaded._non_persistent_buffers_set)
        self._kept: dict[str, str] = {}
        for number, slot in enumerate(program.states):
            if slot.kind in ("parameter", "buffer"):
                continue
            value = loaded.state_value(slot)
            name = self._kept[slot.name] = kept_name(program, number)
            tensor = value.detach().clone() if isinstance(value, torch.Tensor) else as_tensor(value)
            self.register_buffer(name, tensor, persistent=slot.kind != "constant")
        self.training = program.training
        self.forward = self._with_names(arguments.signature(program))

    def _with_names(self, signature: inspect.Signature) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs)
            return self._run(given.args, given.kwargs)

        forward.__signature__ = signature  # type: ignore[attr-defined]  # what inspect looks for
        return forward

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The program's result, with numbers as tensors."""
        check_hazards(self.program.block)
        leaves = input_leaves(self.program, args, kwargs)
        leaves = _with_opaque_sizes(self.program, leaves) if self.opaque else leaves
        state = [self._state(number) for number in range(len(self.program.states))]
        outputs = self.context.run_block(self.program.block, [*leaves, *state])
        for effect in self.program.effects:
            self._write(effect, outputs)
        return result(self.program, self.program.out_structure, outputs)

    def _state(self, number: int) -> Any:
        slot = self.program.states[number]
        tensor = self._tensor(slot.name)
        if slot.kind != "number":
            return tensor
        kind = next(kind for kind, dtype in DTYPES.items() if dtype == tensor.dtype)
        return Number(kind, tensor.clone())

    def _tensor(self, name: str) -> torch.Tensor:
        if name in self._kept:
            return self._buffers[self._kept[name]]  # type: ignore[return-value]  # registered above
        path = parse(name)
        owner: nn.Module = self
        for part in path.owner:
            owner = owner._modules[part]  # type: ignore[assignment]  # as in the loaded module
        found: torch.Tensor = getattr(owner, path.name)
        return found

    def _write(self, effect: Any, outputs: Sequence[Any]) -> None:
        """Give a buffer its new contents."""
        slots = {slot.name: slot for slot in self.program.states}
        place = effects.place_of(effect.target, slots)
        name = str(place)
        known = name in self._kept or (name in slots and slots[name].kind in ("parameter", "buffer"))
        if effect.kind != "set" or not isinstance(effect.value, Leaf) or not known:
            raise ExportError(
                f"{self.program.origin}: {self.program.name} changes {effect.target}; an exported model keeps tensors and numbers "
                "that it also reads from call to call, and nothing else; return the value instead"
            )
        value, target = outputs[effect.value.index], self._tensor(name)
        value = as_tensor(value) if is_number(value) else value
        if not isinstance(value, torch.Tensor) or value.dtype != target.dtype or value.shape != target.shape:
            raise ExportError(
                f"{self.program.origin}: {self.program.name} changes the dtype or size of {effect.target}, which an exported model "
                "cannot; give it its final size from the beginning"
            )
        target.copy_(value)


def _changes(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def input_leaves(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The tensors among the arguments of a call, in the order of the program's inputs."""
    leaves: list[Any] = [None] * len(program.inputs)

    def visit(structure: Structure, value: Any) -> None:
        match structure:
            case Leaf(index):
                leaves[index] = value
            case TupleOf(items) | ListOf(items):
                for item, part in zip(items, value, strict=True):
                    visit(item, part)
            case DictOf(keys, items):
                for key, item in zip(keys, items):
                    visit(item, value[key])
            case ObjectOf(_, fields, items):
                for field, item in zip(fields, items):
                    visit(item, getattr(value, field))
            case _:
                pass

    match program.in_structure:
        case TupleOf((given, named)):
            visit(given, tuple(args))
            visit(named, dict(kwargs))
    return [
        Number(slot.number, leaf, new_form() if slot.number == "int" else None) if slot.number is not None else leaf
        for slot, leaf in zip(program.inputs, leaves, strict=True)
    ]


def result(program: Program, structure: Structure, leaves: Sequence[Any]) -> Any:
    """A program's result in containers that ``torch.export`` knows, with numbers as tensors.

    Raises:
        ExportError: its structure is decided when the program runs.
    """
    match structure:
        case Leaf(index):
            return _output(program, leaves[index])
        case Const(value) | FunctionOf(value) | ClassOf(value):
            return _output(program, value)
        case TupleOf(items, factory):
            values = tuple(result(program, item, leaves) for item in items)
            return factory(*values) if factory is not None and hasattr(factory, "_fields") and _is_registered(factory) else values
        case ListOf(items):
            return [result(program, item, leaves) for item in items]
        case DictOf(keys, items):
            return {key: result(program, item, leaves) for key, item in zip(keys, items)}
        case ObjectOf(_, fields, items):
            return {field: result(program, item, leaves) for field, item in zip(fields, items)}
        case Shared(_, items) | HolderOf(_, _, items) | SameAs(_, _, items):
            return result(program, items[0], leaves)
        case InstanceOf((_, item)):
            return result(program, item, leaves)
        case TaggedUnionOf() | CollectionOf():
            return _chosen(program, structure, leaves)


def _is_registered(factory: type) -> bool:
    return factory.__module__.startswith(("torch.", "collections"))


def _chosen(program: Program, structure: TaggedUnionOf | CollectionOf, leaves: Sequence[Any]) -> Any:
    if isinstance(structure, TaggedUnionOf):
        tag = result(program, structure.tag, leaves)
        options = [result(program, item, leaves) for item in structure.items]
        first = options[0]
        alike = all(isinstance(o, torch.Tensor) and o.shape == first.shape and o.dtype == first.dtype for o in options)
        if alike and isinstance(first, torch.Tensor):
            for number, option in zip(structure.tags[1:], options[1:]):
                first = torch.where(tag == number, option, first)
            return first
    raise ExportError(
        f"{program.origin}: what {program.name} returns is of one kind for some inputs and of another for others (None or a "
        "tensor, a number or a tensor, another structure), which the result of an exported model cannot be; "
        "return the same kind always"
    )


def _output(program: Program, value: Any) -> Any:
    if is_number(value):
        return as_tensor(value).clone()
    if isinstance(value, ListValue) and value.items is not None:
        return [_output(program, item) for item in value.items]
    if isinstance(value, ListValue) and value.sequence is not None:
        return value.sequence
    if isinstance(value, ListValue):
        raise ExportError(
            f"{program.origin}: {program.name} returns a list whose length is known only when it runs, which the result of an "
            "exported model cannot be; return torch.stack of it"
        )
    if isinstance(value, tuple):
        return tuple(_output(program, item) for item in value)
    if value is None or isinstance(value, (torch.Tensor, str)):
        return value
    raise ExportError(f"{program.origin}: {program.name} returns a {type(value).__name__}, which no exported model can")


@dataclasses.dataclass(frozen=True)
class Lowered:
    """What ``torch.export`` made of a program.

    Attributes:
        exported: the exported program.
        notes: what it does otherwise than the program.
    """

    exported: torch.export.ExportedProgram
    notes: tuple[str, ...]


def lower(module: LoweredModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
    """Export a lowered module.

    Args:
        module: of the program.
        args, kwargs: an example of its arguments, with sizes of two or more where they are dynamic.

    Raises:
        ExportError: ``torch.export`` cannot follow it.
    """
    shapes = _dynamic_shapes(module.program)
    try:
        try:
            exported = _export(module, args, kwargs, shapes)
        except Exception as error:
            if not _asks_for_sizes(module.program, error):
                raise
            module.opaque = True
            exported = _export(module, args, kwargs, shapes)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(f"{module.program.origin}: torch.export cannot follow {module.program.name}: {_named(error)}") from error
    return Lowered(exported, tuple(module.context.notes))


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {brief(error)}"


def _asks_for_sizes(program: Program, error: Exception) -> bool:
    """Whether an error may be gone when torch knows nothing of dynamic sizes.

    Some operators ask whether a size is 1, or is another one; what follows would be right for sizes like the example's alone. What
    was refused for what it is, is refused again.
    """
    dynamic = any(isinstance(size, str) for slot in program.inputs for size in slot.shape)
    return dynamic and not (isinstance(error, ExportError) and error.__cause__ is None)


def _export(module: LoweredModule, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> torch.export.ExportedProgram:
    # Sizes of 0 and 1 are like all others: without the setting, a size that is 2 in the example is taken to be 2 or more for ever.
    settings: Any = shape_settings  # its own type does not know of patch
    with _quietly(), torch.no_grad(), settings.patch(backed_size_oblivious=True), _overlap_left_to_the_run():
        exported = torch.export.export(
            module,
            args,
            kwargs,
            dynamic_shapes=shapes,
            strict=False,
            prefer_deferred_runtime_asserts_over_guards=module.opaque,
        )
    for part in exported.graph_module.modules():
        if isinstance(part, fx.GraphModule):
            _write_sums_out(part.graph)
    return exported


@contextlib.contextmanager
def _overlap_left_to_the_run() -> Iterator[None]:
    """Whether a written tensor overlaps itself is asked by the kernel too; asked now, it would make a size of 1 unlike others."""
    plain = torch._debug_has_internal_overlap
    torch._debug_has_internal_overlap = lambda input: 0
    try:
        yield
    finally:
        torch._debug_has_internal_overlap = plain


def _write_sums_out(graph: fx.Graph) -> None:
    """Sums of several sizes one by one: torch has an operator for all at once, and cannot write it to a file."""
    for node in list(graph.nodes):
        if node.target is not torch.sym_sum:
            continue
        first, *rest = node.args[0]
        total = first
        with graph.inserting_before(node):
            for size in rest:
                made = graph.call_function(operator.add, (total, size))
                made.meta["val"] = sum(part.meta["val"] if isinstance(part, fx.Node) else part for part in (total, size))
                total = made
        node.replace_all_uses_with(total)
        graph.erase_node(node)


def _with_opaque_sizes(program: Program, leaves: Sequence[Any]) -> list[Any]:
    """The arguments cut to their own sizes, which come out of tensors: all that is known of them is that they are sizes."""
    known: dict[str, Any] = {}
    made = []
    for slot, value in zip(program.inputs, leaves, strict=True):
        for dim, size in enumerate(slot.shape):
            if isinstance(size, str):
                if size not in known:
                    known[size] = known_later(as_tensor(value.shape[dim]))
                value = prefix(value, dim, known[size])
        made.append(value)
    return made


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _dynamic_shapes(program: Program) -> Any:
    """Which sizes are dynamic, by the names of the arguments."""
    dims: dict[str, Any] = {}

    def of_slot(slot: InputSlot) -> dict[int, Any]:
        found = {}
        for dim, size in enumerate(slot.shape):
            if isinstance(size, str):
                found[dim] = dims.setdefault(size, torch.export.Dim(_dim_name(size), min=0))
        return found

    by_leaf = [of_slot(slot) for slot in program.inputs]

    def visit(structure: Structure) -> Any:
        match structure:
            case Leaf(index):
                return by_leaf[index]
            case TupleOf(items):
                return tuple(visit(item) for item in items)
            case ListOf(items):
                return [visit(item) for item in items]
            case DictOf(keys, items):
                return {key: visit(item) for key, item in zip(keys, items)}
            case _:
                return None

    match program.in_structure:
        case TupleOf((given, named)):
            found = arguments.signature(program).bind(*visit(given), **visit(named)).arguments
            return dict(found)
    raise ExportError(f"{program.origin}: the arguments of {program.name} have an unknown structure")


def _dim_name(size: str) -> str:
    return f"size_{size}" if size.startswith(("s", "u")) and size[1:].isdigit() else size
