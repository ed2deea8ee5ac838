"""Backward hooks of modules in a program: set up at each call, as ``nn.Module.__call__`` does."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils.hooks import BackwardHook


def hook_inputs(module: weakref.ref[torch.nn.Module], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the hooks of a module set up for one call, then its arguments as the hooks see them."""
    owner = module()
    assert owner is not None, "the program belongs to the module"
    full, _ = owner._get_backward_hooks()
    hook = BackwardHook(owner, full, owner._get_backward_pre_hooks())
    return (hook, *hook.setup_input_hook(args))


def hook_outputs(hook: BackwardHook, *results: Any) -> tuple[Any, ...]:
    """Return the results of the call as the hooks see them."""
    hooked: tuple[Any, ...] = hook.setup_output_hook(results)
    return hooked
