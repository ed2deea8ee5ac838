"""What the modes that record need of the session."""

from __future__ import annotations

import contextlib
from typing import Protocol

import torch

from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.recording.fake_values import FakeValues
from dy2st.capture.recording.in_flight import InFlight
from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.types import tensor_traits
from dy2st.capture.writes.gradient_slots import Gradients


class _Outside(tensor_traits.Outside, Protocol):
    def adopt(self, real: torch.Tensor) -> torch.Tensor: ...

    def check_kind(self, real: torch.Tensor) -> None: ...

    def is_in_memory(self, tensor: torch.Tensor) -> bool: ...


class _Checks(Protocol):
    def emit(self) -> None: ...

    def forget(self) -> None: ...

    def may_fail(self) -> bool: ...


class Capturing(tensor_traits.Capturing, Protocol):
    """What the recorder needs of the session, besides what the traits of tensors need."""

    shapes: CaptureShapes
    fakes: FakeValues
    in_flight: InFlight
    gradients: Gradients

    def recording(self) -> contextlib.AbstractContextManager[None]: ...

    @property
    def builder(self) -> BlockBuilder: ...

    @property
    def outside(self) -> _Outside: ...

    @property
    def checks(self) -> _Checks: ...
