"""From tensors to arrays and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from dy2st import errors
from dy2st.capture.attributes import attributes
from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.containers import list_tensors, lists
from dy2st.capture.looping.truth import logical_not
from dy2st.capture.operators.plain_identity import tell_items_apart
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.session import Session, need
from dy2st.capture.types import tensor_traits, value_types
from dy2st.capture.values.abstract_arrays import AbstractArray, numpy_dtype
from dy2st.capture.values.symbolic import RuntimeList
from dy2st_runtime.arrays import calls


def of_tensor(session: Session, tensor: torch.Tensor, force: bool = False) -> AbstractArray:
    """Return the array in the memory of a tensor.

    Args:
        force: whether to detach, move and resolve it before, as ``tensor.numpy(force=True)`` does.
    """
    tensor = session.outside.adopted(tensor)
    if force:
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.device.type != "cpu":
        words = f"can't convert {tensor.device} device type tensor to numpy. "
        raise raised(TypeError(f"{words}Use Tensor.cpu() to copy the tensor to host memory first."))
    if tensor_traits.AUTOGRAD in tensor_traits.mixed(tensor):
        needs_detach = attributes.attr(tensor, "requires_grad")
        check(session, logical_not(needs_detach), RuntimeError, calls.NEEDS_DETACH)
    elif tensor.requires_grad:
        raise raised(RuntimeError(calls.NEEDS_DETACH))
    try:
        numpy_dtype(tensor.dtype)
    except TypeError as error:
        raise raised(error) from None
    for is_set, bit, way in ((tensor.is_conj(), "conjugate", "conj"), (tensor.is_neg(), "negative", "neg")):
        if is_set:
            words = f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{way}().numpy() instead."
            raise raised(RuntimeError(words))
    return AbstractArray.captured(_memory(session, tensor), ())


def _memory(session: Session, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in the same memory; a loaded program checks, too, that none requires a gradient."""
    with quiet():
        result = tensor.detach()
    session.builder.call(calls.memory, (tensor,), {}, result)
    return result


def owner_of_numpy(function: Any, args: tuple[Any, ...]) -> torch.Tensor | None:
    """Return the tensor whose method ``numpy`` a call is of; ``None`` for any other call."""
    if function is torch.Tensor.numpy and args and isinstance(args[0], torch.Tensor):
        return args[0]
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, torch.Tensor) and function.__name__ == "numpy" else None


def from_numpy(array: AbstractArray) -> torch.Tensor:
    """Return ``torch.from_numpy(array)``: a tensor in the same memory."""
    if array.is_scalar or array.flips:
        with _disable_current_modes():
            torch.from_numpy(array.example if array.is_scalar else np.zeros(2)[::-1])  # raises what eager raises
    return array.items.detach()


def as_tensors(data: Any) -> Any:
    """Return nested lists with tensors in the place of arrays and numbers of NumPy."""
    if isinstance(data, AbstractArray):
        if data.flips:
            from_numpy(data)
        return data.items.detach()
    if isinstance(data, (list, tuple)) and need().lists.of(data) is None:
        return type(data)(map(as_tensors, data)) if type(data) in (list, tuple) else data
    return data


def to_tensor(session: Session, function: Callable[..., Any], data: Any, args: Any, kwargs: Any) -> Any:
    """Return ``torch.tensor`` and its like of arrays."""
    given = as_tensors(data)
    if function in _LEGACY:
        return given.to(_LEGACY[function] or torch.get_default_dtype(), copy=True)
    copies = function is torch.tensor or kwargs.get("copy") is True or (isinstance(data, AbstractArray) and data.is_scalar)
    if isinstance(data, AbstractArray):
        dtype, device = kwargs.get("dtype"), kwargs.get("device")
        result = given if dtype is None and device is None else given.to(device=device, dtype=dtype)
        result = result.clone() if copies and result is given else result
        return result.requires_grad_() if kwargs.get("requires_grad") else result
    return session.call(function, given, *args, **kwargs)


_LEGACY: dict[Any, torch.dtype | None] = {
    torch.Tensor: None, torch.FloatTensor: torch.float32, torch.DoubleTensor: torch.float64, torch.LongTensor: torch.int64,
    torch.IntTensor: torch.int32, torch.BoolTensor: torch.bool,
}  # fmt: skip
"""Classes of tensors that make one of an array, and its dtype."""
MAKERS = (torch.tensor, torch.as_tensor, torch.asarray, *_LEGACY)
"""What makes a tensor of an array, or of a list of NumPy's numbers."""


def is_of_numbers(items: RuntimeList) -> bool:
    """Tell whether NumPy makes an array of numbers of a list of the program."""
    kind, dims = _numbers_in(items)
    return kind is None or isinstance(kind, value_types.NumberType) or (dims == 1 and _is_scalar(kind))


def _numbers_in(items: RuntimeList) -> tuple[Any, int]:
    kind, dims = items.element, 1
    while isinstance(kind, value_types.ListType):
        kind, dims = kind.element, dims + 1
    return kind, dims


def _is_scalar(kind: Any) -> bool:
    return isinstance(kind, value_types.TensorType) and not kind.sizes


def of_list(session: Session, items: RuntimeList, dtype: Any = None) -> Any:
    """Return the array that NumPy makes of a list of the program.

    Args:
        dtype: the one that the array is to get; without items it is float64, unless one is given.
    """
    kind = _numbers_in(items)[0]

    def listed() -> Any:
        if _is_scalar(kind):
            return of_tensor(session, list_tensors.stack(session, items))
        made = torch.float64 if kind is None else _DTYPES[kind.kind]
        if dtype is not None and np.issubdtype(np.dtype(dtype), np.floating):
            made = torch.float64  # as Python's own numbers go through a double
        elif made is torch.float64:
            tell_items_apart(session)
        result: Any = list_tensors.tensor(session, items, made)  # one of two where no rows have no columns
        return session.over(result, lambda tensor: of_tensor(session, tensor))

    if kind is None or (not _is_scalar(kind) and (dtype is not None or kind.kind == "float")):
        return listed()
    empty = lambda: of_tensor(session, torch.zeros(0, dtype=torch.float64))  # noqa: E731
    return capture_if_exp(lists.length(session, items) > 0, listed, empty)


_DTYPES = {"bool": torch.bool, "int": torch.int64, "float": torch.float64}


def as_number(session: Session, kind: type, value: AbstractArray) -> Any:
    """Return ``int(value)`` and its like."""
    if not value.is_scalar and not all(isinstance(size, int) and size == 1 for size in value.items.shape):
        if not all(isinstance(size, int) for size in value.items.shape):
            raise errors.CaptureError(
                f"{kind.__name__}() of an array whose size is known only at run time",
                session.here(),
                fix="take an item of it",
            )
        kind(np.zeros(tuple(value.items.shape)))  # raises what eager raises
    return session.call(kind, value.items.reshape(()).item())


def with_numbers(value: Any) -> Any:
    """Return an argument of a function that knows nothing of NumPy, with numbers of Python in the place of NumPy's."""
    if isinstance(value, AbstractArray) and value.is_scalar:
        return value.number()
    if type(value) in (list, tuple) and need().lists.of(value) is None and any(isinstance(item, AbstractArray) for item in value):
        return type(value)(map(with_numbers, value))
    return value
