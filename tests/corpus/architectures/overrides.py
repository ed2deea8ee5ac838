"""What single architectures need to be built small, and to be called."""

from __future__ import annotations

from typing import Any

CONFIGURATIONS: dict[str, dict[str, Any]] = {}
"""By the type of the model: fields of its configuration; ``part.field`` is one of a configuration inside."""

INPUTS: dict[str, dict[str, Any]] = {}
"""By the name of the architecture: arguments by name, or functions of the configuration and the number of the call."""
