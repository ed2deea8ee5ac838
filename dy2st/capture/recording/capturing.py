"""What the modes that record need of the session."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch._subclasses import FakeTensorMode

from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.errors import Location


class _Outside(Protocol):
    def adopt(self, real: torch.Tensor) -> torch.Tensor: ...

    def adopted(self, value: Any) -> Any: ...

    def is_state(self, value: Any) -> bool: ...

    def check_kind(self, real: torch.Tensor) -> None: ...


class Capturing(Protocol):
    """What the recorder needs of the session."""

    shapes: CaptureShapes
    fake: FakeTensorMode

    @property
    def builder(self) -> BlockBuilder: ...

    @property
    def outside(self) -> _Outside: ...

    def here(self) -> Location | None: ...

    failed: Any
    asks_strides: bool
    apart: frozenset[str]
    asked_traits: set[str]
    has_mixed: bool
    tracker: Any
    graph_is_partial: bool
    pending: Any
    before_raise: Any

    def emit_checks(self) -> None: ...
