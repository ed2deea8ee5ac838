"""Calls that change a mode of the running thread: grad mode and autocast."""

from __future__ import annotations

from typing import Any

import torch

TARGETS: dict[Any, str] = {
    torch._C._set_grad_enabled: "set_grad_enabled",
    torch.amp.autocast_mode._enter_autocast: "enter_autocast",
    torch.amp.autocast_mode._exit_autocast: "exit_autocast",
}
"""The calls and their names in an archive."""
