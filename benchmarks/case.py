"""What is measured: a workload is a name and a way to make its case."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


@dataclasses.dataclass(frozen=True)
class Case:
    """One piece of natural code with its inputs.

    Attributes:
        function: a function or an ``nn.Module``, as a user writes it.
        calls: the arguments of each call; one measured step makes all of them.
        train: whether a step also goes backward, from the mean of what the function returns.
        hop: the same by hand, with ``torch.cond`` and ``torch.while_loop``, to be compiled.
        tolerance: how far an answer may be from eager's: the norm of the difference of each tensor over the tensor's own.
        overhead: whether the time above eager's is what matters.
        optimizer: makes the optimizer of what gets gradients; a measured step is a whole training step then.
    """

    function: Callable[..., Any]
    calls: Sequence[tuple[Any, ...]]
    train: bool = False
    hop: Callable[..., Any] | None = None
    tolerance: float = 1e-3
    overhead: bool = False
    optimizer: Callable[[list[Tensor]], torch.optim.Optimizer] | None = None


WORKLOADS: dict[str, Callable[[], Case]] = {}
"""Every workload by its name, in the order of the table."""


def workload(name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Register what makes a case; a name is registered once."""

    def register(make: Callable[[], Case]) -> Callable[[], Case]:
        assert name not in WORKLOADS, f"{name} is registered twice"
        WORKLOADS[name] = make
        return make

    return register


def training_step(model: Callable[..., Tensor], optimizer: torch.optim.Optimizer, *args: Any) -> Tensor:
    """Do a whole step of training, as a user writes it."""
    optimizer.zero_grad()
    loss = model(*args).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def step_of(case: Case, function: Callable[..., Any], step: Callable[..., Any] = training_step) -> Callable[[], Any]:
    """Return what is timed: all calls of a case, and for training a backward pass after each, or a whole step instead.

    Args:
        case: the case.
        function: what a peer has made of its function.
        step: what a peer has made of :func:`training_step`, for a case with an optimizer.
    """
    if case.optimizer is not None:
        optimizer = case.optimizer(leaves_of(case, function))
        return lambda: [step(function, optimizer, *args) for args in case.calls]
    if not case.train:
        if len(case.calls) == 1:
            (only,) = case.calls
            return lambda: function(*only)
        return lambda: [function(*args) for args in case.calls]
    leaves = leaves_of(case, function)

    def train() -> None:
        for leaf in leaves:
            leaf.grad = None
        for args in case.calls:
            function(*args).mean().backward()

    return train


def answer_of(case: Case, function: Callable[..., Any], result: Any) -> list[Any]:
    """Return what a step gave: the results, the gradients that it left, or the weights."""
    if case.optimizer is not None:
        return [*result, *(leaf.detach().clone() for leaf in leaves_of(case, function))]
    if case.train:
        return [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves_of(case, function)]
    return [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in tree_leaves(result)]


def leaves_of(case: Case, function: Callable[..., Any]) -> list[Tensor]:
    """Return the tensors that get gradients: parameters, then arguments."""
    parameters = list(function.parameters()) if isinstance(function, nn.Module) else []
    given = [leaf for leaf in tree_leaves(list(case.calls)) if isinstance(leaf, Tensor) and leaf.requires_grad]
    return [parameter for parameter in parameters if parameter.requires_grad] + list({id(leaf): leaf for leaf in given}.values())


def check(case: Case, expected: Sequence[Any], results: Sequence[Any]) -> str | None:
    """Return what is wrong with an answer; ``None`` when it is eager's within rounding.

    Norms are compared, not elements: rounding takes a single ReLU or maximum to its other side, and some elements of a gradient
    with it. What is small beside the largest tensor may be rounding alone, such as the gradient of a bias before a normalisation.
    """
    if len(results) != len(expected):
        return f"{len(results)} results instead of {len(expected)}"
    largest = max((_norm(tensor) for tensor in expected if _is_float(tensor)), default=0.0)
    for position, (ours, theirs) in enumerate(zip(results, expected, strict=True)):
        if not _is_float(theirs):
            same = (
                torch.equal(ours, theirs)
                if isinstance(ours, Tensor) and isinstance(theirs, Tensor)
                else ours is theirs or ours == theirs
            )
            if not same:
                return f"result {position} is {ours} instead of {theirs}"
            continue
        if not _is_float(ours) or ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"result {position} is of another kind"
        away, size = _norm(ours - theirs), _norm(theirs)
        if not away <= case.tolerance * (size + 1e-3 * largest):
            return f"result {position} is {away / max(size, 1e-30):.2g} of its size away"
    return None


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _norm(tensor: Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor.detach().double()))
