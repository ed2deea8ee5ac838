"""``tensor.data = other``: from then on the tensor lies in the memory of another one."""

from __future__ import annotations

import torch


def set_data(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Do ``tensor.data = value``; a program calls it as Python, of which passes take nothing for granted."""
    tensor.data = value
