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
        tolerance: relative and absolute, of answers that are compared with eager's.
        overhead: whether the time above eager's is what matters.
    """

    function: Callable[..., Any]
    calls: Sequence[tuple[Any, ...]]
    train: bool = False
    hop: Callable[..., Any] | None = None
    tolerance: tuple[float, float] = (1e-3, 1e-4)
    overhead: bool = False


WORKLOADS: dict[str, Callable[[], Case]] = {}
"""Every workload by its name, in the order of the table."""


def workload(name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Register what makes a case; a name is registered once."""

    def register(make: Callable[[], Case]) -> Callable[[], Case]:
        assert name not in WORKLOADS, f"{name} is registered twice"
        WORKLOADS[name] = make
        return make

    return register


def step_of(case: Case, function: Callable[..., Any]) -> Callable[[], Any]:
    """What is timed: all calls of a case, and for training a backward pass after each."""
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
    """What a step gave: the results, or the gradients that it left."""
    if case.train:
        return [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves_of(case, function)]
    return [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in tree_leaves(result)]


def leaves_of(case: Case, function: Callable[..., Any]) -> list[Tensor]:
    """The tensors that get gradients: parameters, then arguments."""
    parameters = list(function.parameters()) if isinstance(function, nn.Module) else []
    given = [leaf for leaf in tree_leaves(list(case.calls)) if isinstance(leaf, Tensor) and leaf.requires_grad]
    return [parameter for parameter in parameters if parameter.requires_grad] + list({id(leaf): leaf for leaf in given}.values())


def check(case: Case, expected: Sequence[Any], found: Sequence[Any]) -> str | None:
    """What is wrong with an answer; ``None`` when it is eager's."""
    relative, absolute = case.tolerance
    try:
        torch.testing.assert_close(list(found), list(expected), rtol=relative, atol=absolute)
    except (AssertionError, TypeError, ValueError) as error:
        return " ".join(line for line in str(error).splitlines() if "difference" in line) or str(error).strip().splitlines()[0]
    return None
