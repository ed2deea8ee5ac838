"""Which kind of value something is: symbolic, a number, an object that can be changed, a tensor that cannot be captured."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st_runtime.ir.flattening import children

_QUANTIZED = frozenset((torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4))


def is_followed(kind: type) -> bool:
    """Tell whether tensors of a class are tensors with methods: the dispatcher does with them what it does with any."""
    if kind is torch.Tensor:
        return True
    own: Any = inspect.getattr_static(kind, "__torch_dispatch__", None)
    return own is _DISPATCH or issubclass(kind, _WITHOUT_SHAPE)


_DISPATCH = inspect.getattr_static(torch.Tensor, "__torch_dispatch__", None)
_WITHOUT_SHAPE = (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer, FakeTensor)


def is_spread(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is a DTensor, which is there only where its module has been imported."""
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return kind is not None and isinstance(tensor, kind)


def refused_kind(tensor: torch.Tensor) -> tuple[str, str] | None:
    """For a tensor of a kind that programs do not have: what it is, and what to use."""
    with torch._C.DisableTorchFunction():
        if tensor.is_nested:
            return "a nested tensor", "pad to one length: to_padded_tensor()"
        if is_spread(tensor):
            return (
                "a DTensor, which is spread over processes,",
                "use its full_tensor() or to_local() outside of the static function",
            )
        if not is_followed(type(tensor)):
            return f"a {type(tensor).__qualname__}, which has a __torch_dispatch__ of its own,", "use a plain tensor inside"
        if tensor.layout != torch.strided:
            return f"a tensor of layout {tensor.layout}", "use to_dense()"
        if tensor.dtype in _QUANTIZED:
            return "a quantized tensor", "use dequantize() outside of the static function, or torch.fake_quantize_per_tensor_affine"
    return None


def is_mutable(value: Any) -> bool:
    """Tell whether a value is a list, dict or dataclass, which others may hold and change."""
    return children(value) is not None and not isinstance(value, tuple)


def is_symbolic(value: Any) -> bool:
    """Tell whether a value is known only when the program runs."""
    return isinstance(value, (torch.Tensor, *SYMBOLIC_NUMBERS))


def is_number(value: Any) -> bool:
    """Tell whether a value is a Python number or a symbolic one."""
    return isinstance(value, (bool, int, float, *SYMBOLIC_NUMBERS))


EXAMPLES_OF_NUMBERS: dict[type, Any] = {torch.SymInt: 1, torch.SymBool: True, torch.SymFloat: 1.0}
"""Some number of each symbolic kind, for what depends on the kind alone."""


def number_kind(value: Any) -> str:
    """Return ``"bool"``, ``"int"`` or ``"float"`` for a number, symbolic or not."""
    if isinstance(value, (bool, torch.SymBool)):
        return "bool"
    return "int" if isinstance(value, (int, torch.SymInt)) else "float"
