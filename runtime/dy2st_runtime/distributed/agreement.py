"""What processes tell each other about the ways that they take: whether these are the same, and which of them any process takes."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import torch
from torch import distributed

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
    """Values as they are, whose gradients are zero."""

    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        return tuple(None if gradient is None else torch.zeros_like(gradient) for gradient in gradients)


def mask(active: Any, written: int, *values: Any) -> tuple[Any, ...]:
    """Return values for a way that all processes take: themselves where a process takes it for itself.

    Args:
        active: whether it does.
        written: how many of the values, the first ones, the way writes: for others only, it writes copies.
        *values: what the way takes; for others only, they get gradients of zero.
    """
    if active:
        return values
    results = [*values]
    at = [position for position, value in enumerate(values) if _is_differentiable(value)]
    if at:
        for position, masked in zip(at, _Masked.apply(*(values[position] for position in at))):  # type: ignore[no-untyped-call]
            results[position] = masked
    for position in range(written):
        results[position] = results[position].clone() if isinstance(results[position], torch.Tensor) else results[position]
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


class _Nothing(torch.autograd.Function):
    """Zero, with a value behind it whose gradient is zero."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        ctx.like = value.shape, value.dtype, value.device
        return value.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> torch.Tensor:
        shape, dtype, device = ctx.like
        return torch.zeros(shape, dtype=dtype, device=device)


def link(active: Any, *pairs: Any) -> None:
    """Have a backward pass through tensors that a way writes go through what it has written for others only.

    Args:
        active: whether a process takes the way for itself.
        *pairs: each tensor, and the copy that was written in its place.
    """
    if active:
        return
    for tensor, copy in zip(pairs[::2], pairs[1::2], strict=True):
        if _is_differentiable(copy) and not copy.is_leaf:
            tensor.sub_(_Nothing.apply(copy))  # type: ignore[no-untyped-call]  # zero: nothing else leaves a negative zero as it is


def _has_gradients(value: torch.Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled()


def all_hold(*conditions: Any) -> bool:
    """Tell whether all of some conditions are true."""
    return all(map(bool, conditions))


def holds_or_idle(condition: Any, active: Any) -> bool:
    """Tell whether a condition is true, or is that of a process on a way for others only."""
    return bool(condition) or not active
