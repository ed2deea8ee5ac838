"""``tensor.data``, read and assigned: the program does it to the tensor itself."""

from __future__ import annotations

from typing import Any, cast

import torch

from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.session import Session
from dy2st.capture.types import value_types
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.tensor_data import set_data

_DATA = cast(Any, torch.Tensor.data)


def get(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return ``tensor.data``, which counts the changes made through it by itself."""
    if session.transforms:
        return args[0].detach()
    tensor = session.outside.adopted(args[0])
    with quiet():
        result = _DATA.__get__(tensor)
    session.builder.call(torch.ops.aten.data.default, (tensor,), {}, result)
    return result


def put(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Have the program do it to the tensor; what stands for it has the same sizes and strides before and after."""
    tensor, value = args
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    tensor, value = session.outside.adopted(tensor), session.outside.adopted(value)
    with quiet():
        differs = next((name for name, what in _LAYOUT.items() if what(tensor) != what(value)), None)
    if differs is not None or session.transforms:
        what = "in a transformed function" if differs is None else f"that has another {differs}"
        raise CaptureError(
            f"Tensor.data gets a tensor {what}",
            session.here(),
            fix="assign it outside of the static function, or copy it: x.data.copy_(y)",
        )
    session.builder.call(control.call_, (set_data, (tensor, value), {}))


_LAYOUT: dict[str, Any] = {
    "dtype": lambda tensor: tensor.dtype,
    "device": lambda tensor: tensor.device,
    "layout": lambda tensor: tensor.layout,
    "shape": lambda tensor: _sizes(tensor.shape),
    "stride": lambda tensor: _sizes(tensor.stride()),
}


def _sizes(sizes: Any) -> list[Any]:
    return [value_types.size_of(size) for size in sizes]
