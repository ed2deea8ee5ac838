"""The device that the program tests and the fuzzer run on: ``DY2ST_DEVICE=cuda`` in the environment moves arguments and modules there."""

import os
from typing import Any

import torch
from torch.utils._pytree import tree_map

DEVICE = torch.device(os.environ.get("DY2ST_DEVICE", "cpu"))


def moved(value: Any) -> Any:
    """Return a module, a tensor, or a structure of tensors on the device; anything else as it is."""
    if isinstance(value, torch.nn.Module):
        return value.to(DEVICE)
    return tree_map(lambda leaf: leaf.to(DEVICE) if isinstance(leaf, torch.Tensor) else leaf, value)


def random_state() -> torch.Tensor:
    """Return the states of the random generators of the CPU and of the device."""
    state = torch.get_rng_state()
    return torch.cat([state, torch.cuda.get_rng_state(DEVICE)]) if DEVICE.type == "cuda" else state


def is_about_devices(error: BaseException | None) -> bool:
    """Tell whether eager refuses a program because it makes tensors on the CPU itself."""
    return DEVICE.type != "cpu" and error is not None and "device" in str(error)
