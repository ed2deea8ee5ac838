"""A function of the user's as a block that a transform of ``torch.func`` is applied to.

It sees abstract values of what it will get, and may read what is around it, but write nothing there: what it computes exists only
inside of the transform.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from dy2st import errors
from dy2st.capture.branching.branch import run_branch
from dy2st.capture.recording.block import align_operands
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.regions import Outcome
from dy2st.capture.session.session import Session
from dy2st.capture.types import lattice, value_types
from dy2st.capture.values.signals import NeedsRuntimeList, Unreachable
from dy2st.capture.values.symbolic import CAPTURE_VALUES
from dy2st.capture.writes.places import CellPlace
from dy2st.capture.writes.undo_log import Write
from dy2st_runtime.ir.program import Block
from dy2st_runtime.primitives import control

Kinds = Sequence[value_types.TensorType]


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a transformed function.

    Attributes:
        name: of the transform.
        leaves: of the positional and keyword arguments.
        spec: how these are made from the leaves.
        kinds: what the function sees, by the position of the leaf; the others it gets as they are.
        differentiable: whether all that it computes has a gradient.
        options: of the transform.
    """

    name: str
    leaves: Sequence[Any]
    spec: TreeSpec
    kinds: dict[int, value_types.TensorType]
    differentiable: bool
    options: dict[str, Any]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The leaves that are inputs of the transformed function."""
        return tuple(self.leaves[position] for position in self.kinds)


@dataclasses.dataclass(frozen=True)
class Captured:
    """A function that has become a block.

    Attributes:
        outputs: the types of what it gives, then of what it gives besides (``has_aux``).
        spec, aux_spec: how its results are made of these.
        has_gradient: whether gradients of the program's own inputs flow through it.
    """

    block: Block
    operands: tuple[Any, ...]
    outputs: Kinds
    aux: Kinds
    spec: TreeSpec
    aux_spec: TreeSpec
    has_gradient: bool


def kind_of(tensor: torch.Tensor) -> value_types.TensorType:
    """Return the type of a tensor."""
    kind = lattice.type_of(tensor)
    assert isinstance(kind, value_types.TensorType)
    return kind


def with_gradient(kind: value_types.TensorType, there: bool = True) -> value_types.TensorType:
    """Return the type of a tensor that has a gradient, if tensors like it may have one."""
    return dataclasses.replace(kind, requires_grad=there and (kind.dtype.is_floating_point or kind.dtype.is_complex))


def capture(session: Session, function: Any, call: Call, has_aux: bool = False) -> Captured:
    """Capture a function on abstract values of its arguments."""
    mode, in_flight = torch.is_grad_enabled(), session.in_flight
    was_in_batch, in_flight.in_batch = in_flight.in_batch, in_flight.in_batch or call.name == "vmap"

    def body() -> tuple[Any, Any]:
        leaves = list(call.leaves)
        for position, kind in call.kinds.items():
            leaves[position] = value = session.new_value(kind)
            session.builder.bind(value, session.builder.placeholder("given", value))
        args, kwargs = tree_unflatten(leaves, call.spec)
        session.transforms.append(call.name)
        try:
            result = session.call(function, *args, **kwargs)
        finally:
            session.transforms.pop()
        return _parted(call.name, result) if has_aux else (result, ())

    try:
        set_grad_mode(mode or call.differentiable)
        outcome = run_branch(session, body, ())
    except NeedsRuntimeList:
        raise _writes(session, call.name, "a list that is older") from None
    finally:
        in_flight.in_batch = was_in_batch
        set_grad_mode(mode)
    return _finished(session, call, outcome, mode)


def set_grad_mode(on: bool) -> None:
    """Set the grad mode of the capture; nothing is recorded."""
    with quiet():
        torch._C._set_grad_enabled(on)


def _finished(session: Session, call: Call, outcome: Outcome, mode: bool) -> Captured:
    written = next((write for write in outcome.writes.values() if is_outside(session, write, outcome.start)), None)
    if written is not None:
        raise _writes(session, call.name, str(written.place))
    builder = outcome.builder
    if outcome.dead:
        nothing = Captured(builder.finish(()), align_operands(builder), (), (), call.spec, call.spec, False)
        record(session, call, nothing, ())
        raise Unreachable
    (result, spec), (aux, aux_spec) = map(tree_flatten, outcome.result)
    for leaf in (*result, *aux):
        _check_tensor(session, call.name, leaf)
    around = [*call.inputs, *builder.lifted()]
    has_gradient = mode and any(tensor.requires_grad for tensor in around)
    given = [[session.outside.adopted(leaf) for leaf in part] for part in (result, aux)]
    outputs, besides = (
        [outside(session, kind_of(leaf), has_gradient if call.differentiable else leaf.requires_grad) for leaf in part]
        for part in given
    )
    block = builder.finish((*result, *aux))
    return Captured(block, align_operands(builder), outputs, besides, spec, aux_spec, has_gradient)


def is_outside(session: Session, write: Write, start: int) -> bool:
    """Tell whether a block that began at ``start`` writes something that is older."""
    place = write.place
    allocated = session.allocations.allocated_at(place.cell if isinstance(place, CellPlace) else place.owner)
    return allocated is None or allocated < start


def outside(session: Session, kind: value_types.TensorType, has_gradient: bool) -> value_types.TensorType:
    """Return the type of a tensor of the block for the code around it: a size that only the block knows may be any."""
    sizes = tuple(
        size if isinstance(size, int) or session.builder.can_express(size) else value_types.DYNAMIC for size in kind.sizes
    )
    return with_gradient(dataclasses.replace(kind, sizes=sizes, strides=None), has_gradient)


def _parted(name: str, result: Any) -> tuple[Any, Any]:
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def _check_tensor(session: Session, name: str, leaf: Any) -> None:
    if isinstance(leaf, CAPTURE_VALUES):
        raise errors.CaptureError(
            f"the function given to torch.func.{name} gives something other than tensors", session.here(),
            seen=repr(leaf), fix="make it return tensors, in tuples, lists and dicts",
        )  # fmt: skip
    if isinstance(leaf, torch.Tensor):
        return
    kind = type(leaf)
    if name == "vmap":
        raise ValueError(
            f"vmap: the function must only return Tensors, got type {kind}. Did you mean to set out_dims= to None for output?"
        )
    if name == "grad":
        raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {kind}")
    raise RuntimeError(f"{name}: expected f(*primals) to return only tensors, got unsupported type {kind}")


def _writes(session: Session, name: str, what: str) -> errors.CaptureError:
    return errors.CaptureError(
        f"the function given to torch.func.{name} writes {what}, which is outside of it",
        session.here(),
        fix="return the value from the function (with has_aux=True where the transform has it)",
    )


def record(
    session: Session, call: Call, captured: Captured, kinds: Kinds, others: tuple[Any, ...] = (), **options: Any
) -> list[Any]:
    """Record the operation; gives its results, of these types. There may be others after them."""
    results = [session.new_value(dataclasses.replace(kind, kind=torch.Tensor)) for kind in kinds]
    builder = session.builder
    arguments = (call.name, captured.block, builder.argument(call.inputs), captured.operands)
    node = builder.call_raw(control.transform_, arguments, builder.argument({**call.options, **options}))
    builder.bind((*results, *others), node)
    return results
