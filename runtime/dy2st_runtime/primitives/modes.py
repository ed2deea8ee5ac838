"""Calls that change a mode that operations run in: grad mode, autocast, settings of torch."""

from __future__ import annotations

from typing import Any

import torch

from dy2st_runtime.primitives import settings

TARGETS: dict[Any, str] = {
    torch._C._set_grad_enabled: "set_grad_enabled",
    torch.amp.autocast_mode._enter_autocast: "enter_autocast",
    torch.amp.autocast_mode._exit_autocast: "exit_autocast",
    settings.set_: "dy2st_settings.set.default",
}
"""The calls and their names in an archive."""
