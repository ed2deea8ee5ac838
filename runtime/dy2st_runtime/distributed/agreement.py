"""What processes tell each other about the ways that they take: whether these are the same, and which of them any process takes."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from dy2st_runtime.distributed.collectives import Group
from dy2st_runtime.errors import DivergenceError


class Told:
    """A question that all processes of a group answer together.

    Args:
        group: of processes.
        place: the user's line.
        what: what the condition decides, ``"branch"`` or ``"loop"``.
    """

    name = ""
    tells_same = True
    """Whether the answer is the same in all processes; false where there is none."""

    def __init__(self, group: Group, place: str, what: str) -> None:
        self.group, self.place, self.what = group, place, what
        told = f" {group}" if group.name is not None else ""
        self.__name__ = self.__qualname__ = f"{self.name}[{what}{told}]"

    def __deepcopy__(self, memo: dict[int, Any]) -> Told:
        return self

    def __repr__(self) -> str:
        return self.__qualname__

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody to tell."""
        return not distributed.is_initialized() or distributed.get_world_size(self.group.handle) <= 1

    @functools.cached_property
    def number(self) -> int:
        """What tells this question from others: processes that ask different ones have different programs."""
        return int.from_bytes(hashlib.sha256(f"{self.name} {self.what} {self.place}".encode()).digest()[:7], "big")

    def elsewhere(self) -> DivergenceError:
        """Return what all processes raise that meet here, and ask different questions."""
        places: list[Any] = [None] * distributed.get_world_size(self.group.handle)
        distributed.all_gather_object(places, f"a {self.what} at {self.place}", group=self.group.handle)
        ranks = self.group.ranks or tuple(range(len(places)))
        told = "; ".join(f"rank {rank} decides {place}" for rank, place in zip(ranks, places, strict=True))
        return DivergenceError(f"processes that have to work together run different programs: {told}")

    def device(self) -> torch.device:
        """Return where tensors have to be that the group moves."""
        return distributed.distributed_c10d._get_object_coll_device(self.group.handle)  # type: ignore[return-value]


class Agree(Told):
    """Whether a condition is the same in all processes, which all of them find out."""

    name = "agree"
    tells_same = False

    def __call__(self, condition: Any) -> None:
        """Compare it.

        Raises:
            DivergenceError: it is not the same; raised in all processes.
        """
        if self.is_alone:
            return
        own = torch.tensor([bool(condition), self.number], dtype=torch.int64, device=self.device())
        answers = [torch.empty_like(own) for _ in range(distributed.get_world_size(self.group.handle))]
        distributed.all_gather(answers, own, group=self.group.handle)
        told = [answer.tolist() for answer in answers]
        if any(number != self.number for _, number in told):
            raise self.elsewhere()
        flags = [bool(flag) for flag, _ in told]
        if all(flags) or not any(flags):
            return
        ranks = self.group.ranks or tuple(range(len(flags)))
        yes, no = ([rank for rank, flag in zip(ranks, flags, strict=True) if flag is wanted] for wanted in (True, False))
        raise DivergenceError(
            f"processes part ways in a {self.what} at {self.place}, before they have to work together: its condition is true in "
            f"ranks {yes}, and false in ranks {no}; make it the same in all of them (an all_reduce of what it looks at), or use "
            'to_static(..., uniform="auto")'
        )


class Either(Told):
    """Whether any process has a condition that is true, and whether any has one that is false; some have no say."""

    name = "either"

    def __call__(self, condition: Any, active: Any = True) -> tuple[bool, bool, bool, bool, bool]:
        """Return whether the two ways are entered, whether this process has a say in each, and which is its own.

        Args:
            condition: of this process.
            active: whether it has a say: it does not where it is on a way for others only.
        """
        yes, no = bool(active) and bool(condition), bool(active) and not condition
        some, others = yes, no
        if not self.is_alone:
            told = torch.tensor([yes, no, self.number, -self.number], dtype=torch.int64, device=self.device())
            distributed.all_reduce(told, op=distributed.ReduceOp.MAX, group=self.group.handle)
            first, second, greatest, least = told.tolist()
            if greatest != -least:
                raise self.elsewhere()
            some, others = bool(first), bool(second)
        others = others or not some  # nobody has a say: all go where there is the least to do
        own = bool(condition) if some and others else some
        return some, others, yes, no, own


class _Masked(torch.autograd.Function):
    """Values as they are, whose gradients are zero where a process takes a way for others only."""

    @staticmethod
    def forward(ctx: Any, active: bool, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.active = active
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        if ctx.active:
            return (None, *gradients)
        return (None, *(None if gradient is None else torch.zeros_like(gradient) for gradient in gradients))


def mask(active: Any, *values: Any) -> tuple[Any, ...]:
    """Return values that a way takes which is taken for others only, unless ``active``: they get gradients of zero."""
    at = [position for position, value in enumerate(values) if _is_differentiable(value)]
    results = [*values]
    if at:
        for position, masked in zip(at, _Masked.apply(bool(active), *(values[position] for position in at))):  # type: ignore[no-untyped-call]
            results[position] = masked
    return tuple(results)


class _Tied(torch.autograd.Function):
    """Values, and others that the result does not depend on and whose gradients are zero: the backward pass goes through both."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.count, ctx.others = count, [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors[count:]]
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        zeros = (torch.zeros(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.others)
        return (None, *gradients, *zeros)


def tie(count: int, *values: Any) -> tuple[Any, ...]:
    """Return the first values, with the others behind them: a backward pass through one of these goes through all others."""
    own, others = values[:count], values[count:]
    ends = [value for value in others if _is_differentiable(value) and not value.is_leaf]
    at = [position for position, value in enumerate(own) if isinstance(value, torch.Tensor) and _has_gradients(value)]
    at = [position for position in at if _is_differentiable(own[position])] or at
    results = [*own]
    if ends and at:
        tied = _Tied.apply(len(at), *(own[position] for position in at), *ends)  # type: ignore[no-untyped-call]
        for position, value in zip(at, tied):
            results[position] = value
    return tuple(results)


def _has_gradients(value: torch.Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled()


def keep(*tensors: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """Return copies of tensors that a way writes; ``None`` for one that is not there on this way.

    Raises:
        DivergenceError: one of them has a gradient, which is not undone by putting it back.
    """
    if any(tensor is not None and tensor.requires_grad for tensor in tensors):
        raise DivergenceError(
            "a tensor with a gradient is changed in place in a branch or loop that processes enter for others only; "
            "give a new one back"
        )
    return tuple(None if tensor is None else tensor.detach().clone() for tensor in tensors)


def put_back(active: Any, tensors: Sequence[torch.Tensor | None], kept: Sequence[torch.Tensor | None]) -> None:
    """Undo what a way has written that was taken for others only."""
    pairs = [(tensor, before) for tensor, before in zip(tensors, kept, strict=True) if tensor is not None and before is not None]
    if active or not pairs:
        return
    # what an operation on the way has saved for its backward pass has gradients of zero: it does not matter what is in it then
    with torch.no_grad(), _unsafe_preserve_version_counter(tuple(tensor for tensor, _ in pairs)):
        for tensor, before in pairs:
            tensor.copy_(before)


def all_hold(*conditions: Any) -> bool:
    """Tell whether all of some conditions are true."""
    return all(map(bool, conditions))


def holds_or_idle(condition: Any, active: Any) -> bool:
    """Tell whether a condition is true, or is that of a process on a way for others only."""
    return bool(condition) or not active
