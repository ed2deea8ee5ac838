"""Functions that make kinds of tensors which a program does not have: nested, packed and of another class."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils import rnn

from dy2st.capture.library.registry import refuses

_NESTED = "pad to one length: torch.nn.utils.rnn.pad_sequence, with a mask"
_FIXES: dict[Any, str] = {
    torch.nested.nested_tensor: _NESTED,
    torch.nested.as_nested_tensor: _NESTED,
    torch.nested.nested_tensor_from_jagged: _NESTED,
    torch.nested.narrow: _NESTED,
    rnn.pack_padded_sequence: "give the layer the padded tensor and mask what comes out, or loop over the steps with nn.LSTMCell",
    rnn.pack_sequence: "use pad_sequence, give the layer the padded tensor and mask what comes out",
    torch.Tensor.as_subclass: "use torch.Tensor inside, and make the other class of what the static function returns",
    torch.Tensor._make_subclass: "use torch.Tensor inside, and make the other class of what the static function returns",
}


for _function, _fix in _FIXES.items():
    refuses(_function, message=f"{_function.__name__}() cannot be used inside a captured function", fix=_fix)
