"""The modes of modules and threads while something is saved."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


class OneModeWarning(UserWarning):
    """A module cannot be captured in the mode that it is not in."""


@contextlib.contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode; at the end every submodule has its flag back."""
    flags = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        yield
    finally:
        for part, flag in flags:
            part.training = flag


@contextlib.contextmanager
def in_mode(module: torch.nn.Module, mode: bool) -> Iterator[None]:
    """Put a module into one mode, by its own ``train()``; at the end every submodule has its flag back."""
    flags = [(part, part.training) for part in module.modules()]
    before = module.training
    try:
        module.train(mode)
        try:
            yield
        finally:
            module.train(before)
    finally:
        for part, flag in flags:
            part.training = flag


@contextlib.contextmanager
def plain_modes() -> Iterator[None]:
    """Make what is saved independent of the modes of the thread that saves."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield
