"""Optimizers of torch that have not stepped yet, with the state that their first step would make.

A saved program has no guards, so that one program is for the first step and for those that follow. For most optimizers the
first step makes a state that does not depend on anything but the parameters, then does what all do: a saved model begins
with that state.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import torch

_KINDS = [
    getattr(torch.optim, name)
    for name in ("Adadelta", "Adafactor", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "RAdam", "RMSprop", "SGD")
    if hasattr(torch.optim, name)
]
"""Those whose first step makes a state that is the same whatever the learning rate is by then."""
_OWN = ("step", "_init_group")


def fresh(values: Iterable[Any]) -> list[torch.optim.Optimizer]:
    """Return the optimizers among some values for which :func:`begun` makes a state."""
    return [value for value in values if isinstance(value, torch.optim.Optimizer) and _is_known(value) and _without(value)]


@contextlib.contextmanager
def begun(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[None]:
    """Give optimizers the state that their first step makes, and take it away at the end."""
    with contextlib.ExitStack() as stack:
        for optimizer in optimizers:
            _begin(optimizer, stack)
        yield


def _is_known(optimizer: torch.optim.Optimizer) -> bool:
    own = type(optimizer)
    kind = next((kind for kind in _KINDS if issubclass(own, kind)), None)
    return kind is not None and all(inspect.unwrap(getattr(own, name)) is inspect.unwrap(getattr(kind, name)) for name in _OWN)


def _without(optimizer: torch.optim.Optimizer) -> list[tuple[dict[str, Any], torch.Tensor]]:
    """Return the parameters without a state, each with its group."""
    return [
        (group, parameter)
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.requires_grad and not optimizer.state.get(parameter) and _has_state(optimizer, group)
    ]


def _has_state(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> bool:
    return not isinstance(optimizer, torch.optim.SGD) or bool(group["momentum"] != 0 and group["dampening"] == 0)


@torch.no_grad()
def _begin(optimizer: torch.optim.Optimizer, stack: contextlib.ExitStack) -> None:
    for group, parameter in _without(optimizer):
        before = optimizer.state.get(parameter)
        if before is None:
            stack.callback(optimizer.state.pop, parameter, None)
        else:
            stack.callback(before.clear)
        if isinstance(optimizer, torch.optim.SGD):  # the first step copies the gradient; -0.0 is what adds nothing to any number
            optimizer.state[parameter]["momentum_buffer"] = torch.full_like(parameter, -0.0)
        else:
            _make(optimizer, group, parameter)


def _make(optimizer: Any, group: dict[str, Any], parameter: torch.Tensor) -> None:
    """Make the state of one parameter as its optimizer does."""
    lists: list[list[Any]] = [[] for _ in list(inspect.signature(optimizer._init_group).parameters)[1:]]
    gradient = parameter.grad
    try:
        if gradient is None:
            parameter.grad = torch.zeros_like(parameter)
        optimizer._init_group({**group, "params": [parameter]}, *lists)
    finally:
        parameter.grad = gradient
