"""The device that the program tests and the fuzzer run on: ``DY2ST_DEVICE=cuda`` in the environment moves arguments and modules there."""

import os
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

DEVICE = torch.device(os.environ.get("DY2ST_DEVICE", "cpu"))

ends_the_process = pytest.mark.skipif(
    DEVICE.type == "cuda", reason="an index out of range there leaves a GPU that fails ever after"
)
"""For tests of what a kernel of the CPU raises by what its arguments hold, and one of CUDA asserts on the device."""

sums_in_any_order = pytest.mark.skipif(DEVICE.type == "cuda", reason="eager's own gradients differ from call to call there")
"""For tests of operations whose backward pass adds with atomic instructions on CUDA."""


def moved(value: Any) -> Any:
    """Return a module, a tensor, or a structure of tensors on the device; anything else as it is."""
    if isinstance(value, torch.nn.Module):
        return value.to(DEVICE)
    return tree_map(lambda leaf: leaf.to(DEVICE) if isinstance(leaf, torch.Tensor) else leaf, value)


def seed(number: int) -> None:
    """Seed the random generators of the CPU and of the device: ``torch.manual_seed`` keeps a stack for each device that is absent."""
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)


def random_state() -> torch.Tensor:
    """Return the states of the random generators of the CPU and of the device."""
    state = torch.get_rng_state()
    return torch.cat([state, torch.cuda.get_rng_state(DEVICE)]) if DEVICE.type == "cuda" else state


def is_about_devices(error: BaseException | None) -> bool:
    """Tell whether eager refuses a program because it makes tensors on the CPU itself."""
    return DEVICE.type != "cpu" and error is not None and "device" in str(error)
