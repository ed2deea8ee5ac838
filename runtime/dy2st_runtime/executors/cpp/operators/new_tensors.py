"""New tensors with one value everywhere."""

from __future__ import annotations

from typing import Any

import torch

from dy2st_runtime.executors.cpp.operators.call import Call, register
from dy2st_runtime.executors.cpp.values import CTYPES, Number, Statement, Tensor, Unsupported, Value


@register("full", "zeros", "ones", "scalar_tensor", "full_like", "zeros_like", "ones_like", "new_zeros", "new_ones", "new_full",
          "empty", "empty_like", "new_empty")  # fmt: skip
def _filled(call: Call) -> Value:
    value = 1 if "ones" in call.name else 0
    if call.name == "scalar_tensor":
        value = call["s"]
    elif "full" in call.name:
        value = call["fill_value"]
    if call.get("size") is not None:
        call.arguments["size"] = call.constant("size")
    device = call.get("device")
    if device is not None and torch.device(device).type != "cpu":
        raise Unsupported(f"a tensor on {device}")
    return constant_elements(call, value)


def constant_elements(call: Call, value: Any) -> Tensor:
    """Return a new tensor with one value everywhere."""
    builder, meta = call.builder, call.meta()
    if meta.dtype not in CTYPES:
        raise Unsupported(f"{meta.dtype} has no C++ here")
    used = [value] if isinstance(value, (Tensor, Number)) else []
    group = builder.group(tuple(meta.shape), used)
    result = call.out(meta, group)
    result.variable = builder.fresh("v")
    text = "({}) != 0" if meta.dtype is torch.bool else "{}"
    group.statements.append(Statement(f"({result.ctype})({text})", (builder.code(value),), (result.ctype, result.variable), result))
    return result
