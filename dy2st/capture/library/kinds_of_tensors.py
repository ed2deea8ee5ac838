"""Kinds of tensors that a program does not have, or knows little of: nested, packed, of another class, sparse."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.nn.utils import rnn
from torch.utils._python_dispatch import _disable_current_modes

from dy2st import errors
from dy2st.capture.library.registry import handles, refuses
from dy2st.capture.operands import sparse_parts
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions import classes
from dy2st.capture.values.kinds import is_followed

_NESTED = "pad to one length: torch.nn.utils.rnn.pad_sequence, with a mask"
_FIXES: dict[Any, str] = {
    torch.nested.nested_tensor: _NESTED,
    torch.nested.as_nested_tensor: _NESTED,
    torch.nested.nested_tensor_from_jagged: _NESTED,
    torch.nested.narrow: _NESTED,
    rnn.pack_padded_sequence: "give the layer the padded tensor and mask what comes out, or loop over the steps with nn.LSTMCell",
    rnn.pack_sequence: "use pad_sequence, give the layer the padded tensor and mask what comes out",
    torch.Tensor._make_wrapper_subclass: "use a class that holds tensors, and is none itself",
}

_BY_ITEM = "use operations of torch, or call it outside of the static function"
_FIXES |= {torch.Tensor.apply_: _BY_ITEM, torch.Tensor.map_: _BY_ITEM, torch.Tensor.map2_: _BY_ITEM}  # a call of Python each
_FIXES |= {torch.Tensor.share_memory_: "share what the static function returns"}


@handles(torch.Tensor.as_subclass)
def _as_subclass(session: Session, tensor: torch.Tensor, cls: type[torch.Tensor]) -> torch.Tensor:
    _check(session, cls)
    return classes.as_class(session, tensor, cls)


@handles(torch.Tensor._nnz)
def _count_of_items(session: Session, tensor: torch.Tensor) -> Any:
    """Return how many items a sparse tensor has."""
    if tensor.layout == torch.sparse_coo:
        return tensor._values().shape[0]
    return tensor._nnz() if tensor.layout == torch.strided else tensor.values().shape[sparse_parts.batch_dimensions(tensor)]


@handles(torch.Tensor.is_coalesced)
def _is_coalesced(session: Session, tensor: torch.Tensor) -> Any:
    """Tell whether a sparse tensor has each place once: the abstract one, which has no items, always says so."""
    if tensor.layout != torch.sparse_coo:
        return tensor.is_coalesced()
    result = session.shapes.fresh_bool()
    session.builder.call(torch.ops.aten.is_coalesced.default, (session.outside.adopted(tensor),), {}, result)
    return result


@handles(torch.Tensor.coalesce)
def _coalesce(session: Session, tensor: torch.Tensor) -> torch.Tensor:
    """Have the program coalesce, whatever the abstract tensor says of itself."""
    if tensor.layout != torch.sparse_coo:
        return tensor.coalesce()
    tensor = session.outside.adopted(tensor)
    with _disable_current_modes():
        result: torch.Tensor = tensor.clone() if tensor.is_coalesced() else torch.ops.aten._coalesce.default(tensor)
    session.builder.call(torch.ops.aten.coalesce.default, (tensor,), {}, result)
    return result


@handles(torch.Tensor.__new__)
def _new(session: Session, cls: type[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
    _check(session, cls)
    with torch._C.DisableTorchFunctionSubclass():
        result: torch.Tensor = session.call(torch.Tensor, *args, **kwargs)
    return result if cls is torch.Tensor else classes.as_class(session, result, cls)


@handles(torch.Tensor._make_subclass)
def _make_subclass(session: Session, cls: type[torch.Tensor], data: torch.Tensor, require_grad: bool = False) -> Any:
    if issubclass(cls, torch.nn.Parameter):
        return session.call(cls, data, require_grad)
    _check(session, cls)
    with torch._C.DisableTorchFunctionSubclass():
        result = classes.as_class(session, data.detach(), cls)
        return result.requires_grad_() if require_grad else result


@handles(cast(Any, torch.Tensor.__torch_function__).__func__)
def _default(session: Session, cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Return what ``super().__torch_function__(…)`` gives."""
    return classes.default(session, cls, func, list(types), lambda: func(*args, **(kwargs or {})))


def _check(session: Session, kind: Any) -> None:
    if not isinstance(kind, type) or not issubclass(kind, torch.Tensor):
        raise raised(TypeError(f"as_subclass(): argument 'cls' must be a subclass of Tensor, not {kind!r}"))
    if not is_followed(kind) or issubclass(kind, (torch.nn.Parameter, torch.nn.Buffer)):
        raise errors.CaptureError(
            f"a tensor is made one of the class {kind.__qualname__}",
            session.here(),
            fix="use torch.Tensor inside, and make the other class of what the static function returns",
        )


for _function, _fix in _FIXES.items():
    refuses(_function, message=f"{_function.__name__}() cannot be used inside a captured function", fix=_fix)
