"""``module.to(device)`` and its like where the module is already what it is to become; anything else is done outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st.capture.attributes.attributes import attr
from dy2st.capture.library.registry import handles
from dy2st.capture.session.session import Session

_DTYPES: dict[Callable[..., Any], torch.dtype] = {
    torch.nn.Module.float: torch.float32,
    torch.nn.Module.double: torch.float64,
    torch.nn.Module.half: torch.float16,
    torch.nn.Module.bfloat16: torch.bfloat16,
}


@handles(torch.nn.Module.to)
def _to(session: Session, module: Any, *args: Any, **kwargs: Any) -> Any:
    device, dtype, _, memory_format = torch._C._nn._parse_to(*args, **kwargs)
    is_kept = memory_format is None and _is_already(session, module, device, dtype)
    return module if is_kept else torch.nn.Module.to(module, *args, **kwargs)


@handles(torch.nn.Module.cpu)
def _cpu(session: Session, module: Any) -> Any:
    return module if _is_already(session, module, torch.device("cpu"), None) else torch.nn.Module.cpu(module)


def _of_dtype(function: Any, dtype: torch.dtype) -> Callable[[Session, Any], Any]:
    return lambda session, module: module if _is_already(session, module, None, dtype) else function(module)


for _function, _dtype in _DTYPES.items():
    handles(_function)(_of_dtype(_function, _dtype))


def _is_already(session: Session, module: Any, device: torch.device | None, dtype: torch.dtype | None) -> bool:
    """Tell whether all tensors of a module are on a device and of a dtype; later calls are asked again."""
    tensors = list(_tensors(module))
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        return False
    asked = [session.outside.asked(tensor) for tensor in tensors]
    on_device = device is None or all(tensor.device == device for tensor in asked)
    return on_device and all(dtype in (None, tensor.dtype) for tensor in asked if tensor.is_floating_point() or tensor.is_complex())


def _tensors(module: Any) -> Iterator[Any]:
    for part in [module, *(attr(module, name) for name in module._modules)]:
        if part is module:
            held = (attr(module, name) for name in [*module._parameters, *module._buffers])
            yield from (value for value in held if value is not None)
        elif isinstance(part, torch.nn.Module):
            yield from _tensors(part)
