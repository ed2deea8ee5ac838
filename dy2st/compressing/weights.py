"""Which weights of an archive may be stored otherwise: those that products, convolutions and look-ups use, and nobody else.

linear(x, w, b)                 one scale for each row of w
matmul(x, w), matmul(x, w.t())  one for each column of w; for each row
if c: embedding(w, i)           what blocks do with w counts as well
w.add_(1), return w             left alone
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import fx

from dy2st_runtime.archive.archive import Model
from dy2st_runtime.archive.state import StateValue, resolve_alias
from dy2st_runtime.call.on_raise import writing
from dy2st_runtime.ir.program import Program, node_blocks
from dy2st_runtime.primitives import control

SMALLEST = 1024
"""Weights with fewer numbers stay as they are: what the program needs to read others would take more space."""

_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_KINDS = ("parameter", "buffer", "constant")
_PLACES = {
    "linear": 1, "embedding": 0, "conv1d": 1, "conv2d": 1, "conv3d": 1, "convolution": 1, "_convolution": 1, "matmul": 1, "mm": 1,
    "bmm": 1, "addmm": 2, "baddbmm": 2, "conv_transpose1d": 1, "conv_transpose2d": 1, "conv_transpose3d": 1,
}  # fmt: skip
"""Operators with a weight, and where it stands among the arguments."""
_PRODUCTS = frozenset(("matmul", "mm", "bmm", "addmm", "baddbmm"))
_WITH_LISTS = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))
_VIEWS = frozenset(("t", "transpose", "permute", "numpy_T", "mT"))

Kept = tuple[int, ...]
"""The dimensions of a weight along which scales differ."""


@dataclasses.dataclass(frozen=True)
class Weight:
    """A weight that may be stored otherwise.

    Attributes:
        entry: its place in the state.
        value: its tensor.
        kept: the dimensions along which scales should differ.
    """

    entry: StateValue
    value: torch.Tensor
    kept: Kept


def candidates(model: Model) -> tuple[list[Weight], dict[str, str]]:
    """Return the weights of a model that may be stored otherwise, and why other large tensors are left alone, by their names.

    Args:
        model: what an archive holds.
    """
    uses = _uses(model)
    written = {effect.target.removeprefix("self.") for program in writing(model.programs) for effect in program.effects}
    owners = collections.Counter(_memory(entry.value) for entry in model.state if isinstance(entry.value, torch.Tensor))
    results, left = [], {}
    for entry in model.state:
        value = entry.value
        if entry.kind not in _KINDS or not isinstance(value, torch.Tensor) or value.dtype not in _DTYPES:
            continue
        if value.dim() < 2 or value.numel() < SMALLEST:
            continue
        roles = uses.get(entry.name, [])
        reason = _reason(entry.name, value, roles, written, owners)
        if reason is None:
            same = set(roles)
            results.append(Weight(entry, value.detach(), same.pop() if len(same) == 1 else (0,)))  # type: ignore[arg-type]
        else:
            left[entry.name] = reason
    return results, left


def _reason(
    name: str, value: torch.Tensor, roles: list[Kept | None], written: Iterable[str], owners: Mapping[int, int]
) -> str | None:
    """Return why a tensor is left alone; ``None`` if it is not."""
    if owners[_memory(value)] > 1:
        return "its memory has another name as well"
    if name in written or not roles:
        return "the model writes it" if name in written else "no program uses it"
    if None in roles:
        return "it is used otherwise than as a weight, or written"
    return None if bool(value.isfinite().all()) else "it holds numbers that are not finite"


def _memory(value: torch.Tensor) -> int:
    return value.untyped_storage().data_ptr()


def slots(model: Model, program: Program) -> Iterator[tuple[int, str]]:
    """Yield the places of state slots among the inputs of a program's root block, and the names of their entries."""
    aliases = {entry.name: entry.value for entry in model.state if entry.kind == "module"}
    for position, slot in enumerate(program.states, len(program.inputs)):
        yield position, resolve_alias(slot.name, aliases)


def _uses(model: Model) -> dict[str, list[Kept | None]]:
    results: dict[str, list[Kept | None]] = {}
    for program in _all(model):
        inputs = program.block.inputs
        for position, name in slots(model, program):
            results.setdefault(name, []).extend(_roles(inputs[position]))
    return results


def _all(model: Model) -> Iterator[Program]:
    for program in model.programs:
        yield program
        if program.recording is not None:
            yield program.recording


def _roles(value: fx.Node) -> Iterator[Kept | None]:
    """Yield for each use of a value the dimensions along which scales should differ; ``None`` for one that is no weight's."""
    for user in value.users:
        if user.target not in (control.if_, control.while_):
            yield _role(user, value)
            continue
        carried, operands = carried_and_operands(user)
        if user.args[0] is value or value in carried:
            yield None
        for position, operand in enumerate(operands):
            for block in node_blocks(user) if operand is value else ():
                yield from _roles(block.inputs[len(carried) + position])


def carried_and_operands(node: fx.Node) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return what a branch or loop carries, and what it hands to its blocks besides."""
    carried = node.args[2] if node.target is control.while_ else ()
    return carried, node.args[3]  # type: ignore[return-value]  # see verify


def _role(user: fx.Node, value: fx.Node) -> Kept | None:
    name = operator_name(user)
    places = [place for place, argument in enumerate(user.args) if argument is value]
    if name in _WITH_LISTS:
        listed = [
            place for place, part in enumerate(user.args) if isinstance(part, (list, tuple)) for item in part if item is value
        ]
        return (0,) if listed in ([2], [3]) and not places and not user.kwargs else None
    if len(places) != 1 or any(argument is value for argument in user.kwargs.values()):
        return None
    if name in _VIEWS:
        return None if None in list(_roles(user)) or not user.users else (0,)
    if name == "matmul" and places == [0]:
        return (0,)
    if places != [_PLACES.get(name)]:
        return None
    if name.startswith("conv_transpose"):
        return (1,)
    return (0,) if name not in _PRODUCTS else (-1,) if name in ("mm", "addmm") else _columns(value)


def _columns(value: fx.Node) -> Kept:
    """Return the batch and the columns of a factor on the right."""
    sizes = str(value.meta.get("type", "")).count(",") + 1
    return (*range(sizes - 2), -1)


def operator_name(node: fx.Node) -> str:
    """Return the name of an operator of PyTorch without its namespace and overload; empty for anything else."""
    target = node.target
    is_own = isinstance(target, torch._ops.OpOverload) and target.name().startswith("aten::")
    return target.name().removeprefix("aten::").partition(".")[0] if is_own else ""  # type: ignore[union-attr]
