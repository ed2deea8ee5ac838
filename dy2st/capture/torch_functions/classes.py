"""Functions of torch on tensors of classes that the user writes: what ``__torch_function__`` of the class says is done."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import get_default_nowrap_functions

from dy2st.capture.session.session import Session
from dy2st.capture.types import tensor_classes, tensor_traits
from dy2st.capture.values.kinds import is_followed
from dy2st.capture.values.roles import Role, has
from dy2st.capture.values.symbolic import TaggedUnion

ACTS_FOR_USER = False

_AS_THEY_ARE = frozenset((torch.Tensor.as_subclass, torch.Tensor._make_subclass))
"""What no class is asked about."""


def asked(session: Session, func: Any, args: Any, kwargs: Any, types: Sequence[type] = ()) -> list[type]:
    """Return the classes of the user's among those of the operands, which say what a function of torch does.

    Args:
        func, args, kwargs: the function and what it gets.
        types: the classes of tensors that nothing stands for yet.
    """
    if not (session.traits.has_classes or types) or func in _AS_THEY_ARE or not torch._C._is_torch_function_enabled():
        return []
    if _is_our_own():
        return []
    kinds = [tensor_traits.users_class(value) for value in _operands((*args, *kwargs.values()))]
    return tensor_classes.in_order(
        kind for kind in kinds if kind is not None and is_followed(kind) and tensor_classes.meaning(kind) is not None
    )


def _is_our_own() -> bool:
    """Tell whether what keeps the books of the capture calls torch, and not what does what the user's code says."""
    frame: Any = sys._getframe(1)
    while frame.f_code.co_name != "__torch_function__" and frame.f_back is not None:
        frame = frame.f_back
    name = (frame.f_back or frame).f_globals.get("__name__", "")
    return name.startswith("dy2st") and not has(name, Role.ACTS)


def _operands(values: Sequence[Any]) -> list[Any]:
    return [part for value in values for part in (value if type(value) in (list, tuple) else (value,))]


def call(session: Session, kinds: Sequence[type], func: Any, args: Any, kwargs: Any, plainly: Callable[[], Any]) -> Any:
    """Return what the classes of the operands say that a function of torch gives.

    Args:
        kinds: these classes, the one that is asked first at the beginning.
        func, args, kwargs: the function and what it gets.
        plainly: what it gives for tensors of no class.

    Raises:
        TypeError: none of them says what it gives.
    """
    for kind in kinds:
        if tensor_classes.says_default(kind):
            result = default(session, kind, func, kinds, plainly)
        else:
            with session.recording():
                result = session.call(tensor_classes.meaning(kind), func, tuple(kinds), args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{getattr(func, '__module__', '')}.{getattr(func, '__name__', func)}"
    raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: {[*kinds]}")


@contextlib.contextmanager
def hidden(args: Any, kwargs: Any) -> Iterator[None]:
    """Open a scope in which operands have no methods of their own: what torch does calls those of tensors."""
    given = [(value, type(value)) for value in _operands((*args, *kwargs.values())) if tensor_traits.users_class(value) is not None]
    given = [(value, kind) for value, kind in given if issubclass(kind, FakeTensor)]
    for value, _ in given:
        value.__class__ = FakeTensor
    try:
        yield
    finally:
        for value, kind in given:
            value.__class__ = kind


def default(session: Session, kind: type, func: Any, kinds: Sequence[type], plainly: Callable[[], Any]) -> Any:
    """Return what ``torch.Tensor.__torch_function__`` gives for a class."""
    if not all(issubclass(kind, other) for other in kinds):
        return NotImplemented
    with torch._C.DisableTorchFunctionSubclass():
        result = plainly()
    return result if func in get_default_nowrap_functions() else _converted(session, result, kind)


def _converted(session: Session, result: Any, kind: type) -> Any:
    if kind is torch.Tensor:
        return result
    if isinstance(result, TaggedUnion):
        return session.over(result, lambda option: _converted(session, option, kind))
    if isinstance(result, torch.Tensor):
        return result if issubclass(tensor_traits.class_of(result), kind) else as_class(session, result, kind)
    if isinstance(result, (tuple, list)) and not isinstance(result, torch.Size):
        return type(result)(_converted(session, part, kind) for part in result)
    return result


def as_class(session: Session, tensor: torch.Tensor, kind: type) -> torch.Tensor:
    """Return ``tensor.as_subclass(kind)``."""
    with session.recording(), torch._C.DisableTorchFunctionSubclass():
        result: torch.Tensor = torch.ops.aten.alias.default(session.outside.adopted(tensor))
    session.traits.has_classes = True
    session.tracker.met(kind)
    tensor_traits.give_class(result, kind)
    return result
