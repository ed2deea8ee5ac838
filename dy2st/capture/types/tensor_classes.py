"""Classes of tensors that the user writes: what stands for such a tensor is an object of the class, and an abstract tensor."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor

_NONE = torch._C._disabled_torch_function_impl
_DEFAULT = cast(Any, torch.Tensor.__torch_function__).__func__


def is_users(kind: type) -> bool:
    """Tell whether a class of tensors is one that the user, or a package, has written."""
    return kind is not torch.Tensor and not issubclass(kind, (torch.nn.Parameter, torch.nn.Buffer, FakeTensor))


def meaning(kind: type) -> Any:
    """Return what a class says functions of torch do with its tensors; ``None`` for a class that says nothing."""
    function = cast(Any, kind).__torch_function__
    return None if function is _NONE else function


def says_default(kind: type) -> bool:
    """Tell whether it says that results are of the class too, and no more."""
    function = cast(Any, kind).__torch_function__
    return getattr(function, "__func__", function) is _DEFAULT


@functools.cache
def stand_in(kind: type) -> type:
    """Return the class of what stands for a tensor of a class."""
    metaclass: Any = type(kind)
    names = {"__torch_function__": _NONE, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return metaclass(kind.__name__, (kind, FakeTensor), names)  # type: ignore[no-any-return]


def in_order(kinds: Iterable[type]) -> list[type]:
    """Return classes in the order in which torch asks them: one before those that it derives from."""
    results: list[type] = []
    for kind in kinds:
        if kind not in results:
            at = next((at for at, other in enumerate(results) if issubclass(kind, other)), len(results))
            results.insert(at, kind)
    return results
