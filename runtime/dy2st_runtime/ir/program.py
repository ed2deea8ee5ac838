"""The program: nested ``torch.fx`` graphs, a signature and a table of state.

A program is a tree of blocks. A block's placeholders are its inputs, its output node holds a tuple. The root block's inputs
are the leaves of the call's arguments, in order, then the state slots. Every other value is a node whose target is an operator
of torch, a function of :mod:`dy2st_runtime.primitives.scalars`, or one of :mod:`dy2st_runtime.primitives.control`; the blocks
of a control node are arguments of it. :func:`verify` checks these rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.errors import ProgramError
from dy2st_runtime.ir.printing import format_graph, format_structure, short_dtype, short_place
from dy2st_runtime.ir.structure import Leaf, Structure, walk
from dy2st_runtime.primitives import control, modes, scalars
from dy2st_runtime.primitives.transforms import TRANSFORMS


@dataclasses.dataclass(frozen=True)
class Location:
    """A place in the user's source.

    Attributes:
        file, line, function: where it is.
        subscript: for an item of a tensor that the user reads by its number, the part of the subscript that it is.
        behind: makes the exception that is being handled there, if there is one; it is not part of the place.
    """

    file: str
    line: int
    function: str = ""
    subscript: int | None = None
    behind: Callable[[], BaseException] | None = dataclasses.field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Block:
    """A straight list of operations: one ``torch.fx.Graph``.

    Attributes:
        graph: placeholders first, one output node last.
        runners: of a root block, what runs it, by the name of the executor; see :mod:`dy2st_runtime.executors`.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        self.runners: dict[str, Callable[[Sequence[Any]], tuple[Any, ...]]] = {}

    @property
    def inputs(self) -> list[fx.Node]:
        """The placeholders in order."""
        return list(self.graph.find_nodes(op="placeholder"))

    @property
    def outputs(self) -> tuple[Any, ...]:
        """What the block gives back: nodes and constants."""
        return tuple(self.graph.output_node().args[0])  # type: ignore[arg-type]

    def __deepcopy__(self, memo: dict[int, Any]) -> Block:
        return copy_block(self)

    def __repr__(self) -> str:
        return f"Block({len(self.graph.nodes)} nodes)"


@dataclasses.dataclass(frozen=True)
class InputSlot:
    """One tensor or number among the leaves of a call's arguments.

    Attributes:
        name: the parameter's name, with the path inside it (``batch.0``).
        dtype: of a tensor; ``None`` for a Python number.
        shape: of a tensor; a name stands for a size that may differ from call to call.
        device: of a tensor, as text.
        requires_grad: of a tensor.
        number: ``"int"``, ``"float"`` or ``"bool"`` for a Python number that may differ from call to call.
    """

    name: str
    dtype: torch.dtype | None = None
    shape: tuple[int | str, ...] = ()
    device: str = "cpu"
    requires_grad: bool = False
    number: str | None = None


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of the captured function, without the bound ``self``.

    Attributes:
        name: as the user wrote it.
        kind: the name of a kind of :class:`inspect.Parameter` (``"POSITIONAL_OR_KEYWORD"``).
        default: a structure of constants, or ``None`` where the caller must give a value.
    """

    name: str
    kind: str = "POSITIONAL_OR_KEYWORD"
    default: Structure | None = None


@dataclasses.dataclass(frozen=True)
class StateSlot:
    """A value that the program takes from its surroundings at each call.

    Attributes:
        name: dotted, as in ``state_dict`` for parameters and buffers.
        kind: ``"parameter"``, ``"buffer"``, ``"attribute"`` (of a module), ``"constant"``, ``"number"``, ``"list"`` for a copy of a
            list, ``"new list"`` for one that gets what is appended to a list, or ``"object"`` for one that holds an object.
        dtype, shape, requires_grad: of a tensor.
        persistent: whether a buffer is part of the ``state_dict``.
    """

    name: str
    kind: str
    dtype: torch.dtype | None = None
    shape: tuple[int | str, ...] = ()
    requires_grad: bool = False
    persistent: bool = True


@dataclasses.dataclass(frozen=True)
class Effect:
    """Something outside of the program that a call changes once the last operation has run.

    Attributes:
        target: what is written, as the user wrote it (``self.h``).
        kind: ``"set"``, ``"delete"``, or ``"extend"`` for items appended to a list.
        value: what is written, in terms of the root block's outputs.
        in_place: whether the container that is there gets other contents.
    """

    target: str
    kind: str
    value: Structure
    in_place: bool = False


@dataclasses.dataclass(frozen=True)
class ObjectPlace:
    """Where a container is that was there before the call.

    Attributes:
        kind: ``"argument"``; ``"state"`` for an attribute of the module, or what is in one; ``"kept"`` for one that the first
            call makes and later ones find again.
        path: of an argument the steps to it in ``(args, kwargs)``; else its name.
    """

    kind: str
    path: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """One captured function for one signature.

    Attributes:
        name: qualified name of the captured function.
        block: the root block.
        inputs: one slot for each leaf of the arguments.
        in_structure: how ``(args, kwargs)`` are made from the leaves.
        states: one slot for each state input, after the inputs.
        out_structure: how the result is made from the root block's outputs.
        effects: what a call writes outside.
        origin: where the function is defined.
        training: the ``training`` flag of the module it was captured from.
        any_mode: whether it is the same program with the other value of that flag.
        default_dtype: PyTorch's default dtype when it was captured, which decides the dtype of some results.
        parameters: the parameters of the function; without them, arguments are taken as ``in_structure`` spells them.
        existing: of a saved program, where the containers are that were there before the call, by the number of the
            :class:`~dy2st_runtime.ir.structure.Shared` that stands for each in its result and effects.
        distinct: of a saved program, places of containers that must be two.
        recording: of a saved program, one that does the same, and keeps what it leaves when it raises; see
            :mod:`dy2st_runtime.call.on_raise`.
    """

    name: str
    block: Block
    inputs: tuple[InputSlot, ...]
    in_structure: Structure
    states: tuple[StateSlot, ...]
    out_structure: Structure
    effects: tuple[Effect, ...] = ()
    origin: Location = Location("<unknown>", 0)
    training: bool = False
    any_mode: bool = False
    default_dtype: torch.dtype = torch.float32
    parameters: tuple[Parameter, ...] = ()
    existing: tuple[tuple[int, ObjectPlace], ...] = ()
    distinct: tuple[tuple[ObjectPlace, ObjectPlace], ...] = ()
    recording: Program | None = None

    @property
    def object_places(self) -> tuple[ObjectPlace, ...]:
        """All places of containers that it looks at."""
        return (*(place for _, place in self.existing), *(place for pair in self.distinct for place in pair))

    def __str__(self) -> str:
        return _text(self)

    @property
    def modes(self) -> tuple[str, ...]:
        """``"train"``, ``"eval"``, or both: the modes of the module that it is right for."""
        if self.any_mode:
            return ("train", "eval")
        return ("train",) if self.training else ("eval",)

    def blocks(self) -> Iterator[Block]:
        """Return the root block and all nested ones, outside first."""
        return nested_blocks(self.block)

    def nodes(self) -> Iterator[fx.Node]:
        """Yield every operation of every block (placeholders and outputs left out)."""
        for block in self.blocks():
            yield from (node for node in block.graph.nodes if node.op == "call_function")


def node_blocks(node: fx.Node) -> list[Block]:
    """Return the blocks of a control node, in order; empty for any other node."""
    return [argument for argument in node.args if isinstance(argument, Block)]  # type: ignore[misc]  # fx does not know it


def nested_blocks(block: Block) -> Iterator[Block]:
    """Yield a block and all blocks inside it, outside first."""
    yield block
    for node in block.graph.nodes:
        for inner in node_blocks(node):
            yield from nested_blocks(inner)


def operations(block: Block) -> Iterator[fx.Node]:
    """Yield the operations of a block, each with those in its own blocks behind it."""
    for node in block.graph.nodes:
        if node.op == "call_function":
            yield node
            for inner in node_blocks(node):
                yield from operations(inner)


def copy_block(block: Block) -> Block:
    """Return a copy that shares no node with the original."""
    graph = fx.Graph()
    table: dict[fx.Node, fx.Node] = {}
    for node in block.graph.nodes:
        copied = graph.node_copy(node, lambda n: table[n])
        copied.args = tuple(copy_block(a) if isinstance(a, Block) else a for a in copied.args)
        table[node] = copied
    return Block(graph)


def slot_type(slot: InputSlot | StateSlot) -> str:
    """Return ``f32[n, 4]``, or the kind of a number."""
    if slot.dtype is None:
        if isinstance(slot, InputSlot):
            return slot.number or "number"
        return {"list": "list", "new list": "list", "object": "object"}.get(slot.kind, "number")
    return f"{short_dtype(slot.dtype)}[{', '.join(map(str, slot.shape))}]"


def _text(program: Program) -> str:
    """Return the whole program, one line an operation."""
    inputs = ", ".join(f"{slot.name}: {slot_type(slot)}" for slot in program.inputs)
    lines = [f"program {program.name}({inputs}):  # {short_place(program.origin)}"]
    lines += [f"  state {slot.name}: {slot_type(slot)}  # {slot.kind}" for slot in program.states]
    lines += format_graph(program.block.graph, "  ", last=False)
    outputs = program.block.outputs
    lines += [f"  {effect.target} <- {format_structure(effect.value, outputs)}" for effect in program.effects]
    lines.append(f"  return {format_structure(program.out_structure, outputs)}")
    return "\n".join(lines)


def verify(program: Program) -> None:
    """Check the rules of the representation.

    Args:
        program: any program.

    Raises:
        ProgramError: the first rule that is broken, with the node and the user's line.

    Example:
        >>> verify(dy2st.to_static(lambda x: x * 2).program(torch.ones(1)))
    """
    expected = len(program.inputs) + len(program.states)
    if len(program.block.inputs) != expected:
        raise ProgramError(f"{program.name}: {len(program.block.inputs)} root inputs, but {expected} slots")
    for block in program.blocks():
        _verify_block(block)
    leaves = len(program.block.outputs)
    for structure in (program.out_structure, *(effect.value for effect in program.effects)):
        for part in walk(structure):
            if isinstance(part, Leaf) and not 0 <= part.index < leaves:
                raise ProgramError(f"{program.name}: result leaf {part.index}, but the root block has {leaves} outputs")


def _verify_block(block: Block) -> None:
    seen: set[fx.Node] = set()
    done = False
    placeholders_over = False
    for node in block.graph.nodes:
        if done:
            raise _broken(node, "comes after the output")
        _verify_uses(node, seen)
        if node.op == "placeholder":
            if placeholders_over:
                raise _broken(node, "is an input after the first operation")
        else:
            placeholders_over = True
            done = node.op == "output"
            if node.op == "call_function":
                _verify_call(node)
            elif not done:
                raise _broken(node, f"has kind {node.op}")
        seen.add(node)
    if not done:
        raise ProgramError("a block has no output")
    if not isinstance(block.graph.output_node().args[0], tuple):
        raise ProgramError("the output of a block must be a tuple")


def _verify_uses(node: fx.Node, defined: set[fx.Node]) -> None:
    for used in node.all_input_nodes:
        if used not in defined:
            raise _broken(node, f"uses {used.name}, which is not defined before it in the same block")


def _verify_call(node: fx.Node) -> None:
    target = node.target
    if target is control.if_:
        _, then, orelse, operands = _control_args(node)
        _verify_arity(node, (then, orelse), len(operands))
        if len(_block(node, then).outputs) != len(_block(node, orelse).outputs):
            raise _broken(node, "has branches with different numbers of outputs")
    elif target is control.while_:
        _, body, carried, operands = _control_args(node)
        if not isinstance(carried, tuple):
            raise _broken(node, "has carried values that are no tuple")
        _verify_arity(node, (body,), len(carried) + len(operands))
        if len(_block(node, body).outputs) != 1 + len(carried):
            raise _broken(node, "has a body whose outputs do not fit its carried values")
    elif target is control.transform_:
        _verify_transform(node)
    elif isinstance(target, control.Control):
        _verify_plain(node, target)
    elif not (isinstance(target, torch._ops.OpOverload) or target in scalars.NAMES or target in modes.TARGETS):
        raise _broken(node, f"calls {target}, which is not an operator of programs")


def _verify_plain(node: fx.Node, target: control.Control) -> None:
    if target.name not in control.TARGETS:
        raise _broken(node, "has a control target that does not exist")
    if target is control.apply_ and not (node.args and isinstance(node.args[0], fx.Node)):
        raise _broken(node, "applies something that no node gave")


def _verify_transform(node: fx.Node) -> None:
    if len(node.args) != 4 or not all(isinstance(node.args[position], tuple) for position in (2, 3)):
        raise _broken(node, "must have four arguments, the last two tuples")
    name, block, inputs, operands = node.args
    if name not in TRANSFORMS:
        raise _broken(node, "has a transform that does not exist")
    _verify_arity(node, (block,), len(inputs) + len(operands))  # type: ignore[arg-type]  # tuples, checked above


def _control_args(node: fx.Node) -> tuple[Any, Any, Any, tuple[Any, ...]]:
    if len(node.args) != 4 or node.kwargs or not isinstance(node.args[3], tuple):
        raise _broken(node, "must have four arguments, the last one a tuple")
    return node.args  # type: ignore[return-value]  # checked above


def _verify_arity(node: fx.Node, blocks: Sequence[Any], arity: int) -> None:
    for block in blocks:
        if len(_block(node, block).inputs) != arity:
            raise _broken(node, f"has a block with {len(block.inputs)} inputs for {arity} values")


def _block(node: fx.Node, value: Any) -> Block:
    if not isinstance(value, Block):
        raise _broken(node, "has something else where a block belongs")
    return value


def _broken(node: fx.Node, what: str) -> ProgramError:
    where = node.meta.get("location")
    return ProgramError(f"node {node.name} {what}" + (f" ({where})" if where else ""))
