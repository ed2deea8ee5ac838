"""Tensors of numbers of the program that their classes make, ``torch.Tensor([n])``, ``torch.LongTensor``, and ``x.new([n])``."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.utils._pytree import tree_any

from dy2st.capture.library.registry import Handler, handles
from dy2st.capture.objects.construction import construct
from dy2st.capture.session.session import Session
from dy2st.capture.unconverted.plain import call_plain
from dy2st.capture.values.abstract_objects import contents
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS

_KINDS = ("", "Float", "Double", "Half", "BFloat16", "Bool", "Byte", "Char", "Short", "Int", "Long")


def _of_dtype(kind: type[torch.Tensor]) -> Handler:
    """Make the handler of ``torch.Tensor``, ``torch.LongTensor`` …, which take numbers in lists as ``torch.tensor`` does."""

    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        if len(args) != 1 or not _holds_values(session, args[0]):
            return construct(session, kind, args, kwargs, call_plain)
        dtype = torch.get_default_dtype() if kind is torch.Tensor else cast(Any, kind).dtype
        return session.call(torch.tensor, args[0], dtype=dtype, **kwargs)

    return handle


def _new(session: Session, like: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if len(args) != 1 or not _holds_values(session, args[0]):
        return call_plain(session, like.new, args, kwargs)
    return session.call(torch.tensor, args[0], **{"dtype": like.dtype, "device": like.device, **kwargs})


def _holds_values(session: Session, data: Any) -> bool:
    """Tell whether numbers or tensors of the program are in a list or tuple that is no size."""
    if session.lists.of(contents(data)) is not None:
        return True
    if not isinstance(data, (list, tuple)) or isinstance(data, torch.Size):
        return False
    return tree_any(lambda leaf: isinstance(leaf, (torch.Tensor, *SYMBOLIC_NUMBERS)), data)


def register() -> None:
    """Register the handlers."""
    for name in _KINDS:
        kind = getattr(torch, f"{name}Tensor")
        handles(kind)(_of_dtype(kind))
    handles(torch.Tensor.new)(_new)
