"""What the modes that record need of the session."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch._subclasses import FakeTensorMode

from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.types import tensor_traits


class _Outside(tensor_traits.Outside, Protocol):
    def adopt(self, real: torch.Tensor) -> torch.Tensor: ...

    def check_kind(self, real: torch.Tensor) -> None: ...


class Capturing(tensor_traits.Capturing, Protocol):
    """What the recorder needs of the session, besides what the traits of tensors need."""

    shapes: CaptureShapes
    fake: FakeTensorMode

    @property
    def builder(self) -> BlockBuilder: ...

    @property
    def outside(self) -> _Outside: ...

    failed: Any
    asks_strides: bool
    graph_is_partial: bool
    pending: Any
    before_raise: Any

    def emit_checks(self) -> None: ...
