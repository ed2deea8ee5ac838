"""The fused operators of torch's transformer layers, which inference takes, and the question that decides about nested tensors.

``nn.TransformerEncoder`` asks whether a padding mask has its padding at the end: then its layers work on nested tensors, and what
is padded becomes zero. That is a branch of the program. In the branch an abstract value of the padded shape is there for the nested
tensor: only the fused operator of a layer and the one that pads again ever see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.environment.same_contents import PATCH_MARK
from dy2st.capture.library.registry import handles
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.recording.patches import Patch
from dy2st.capture.session.session import Session, current
from dy2st.capture.torch_functions import classes
from dy2st.capture.torch_functions.registry import handles_torch
from dy2st.capture.values.signals import Signal

_MHA = torch.backends.mha
_plain_encoder: Callable[..., Any] = torch.nn.TransformerEncoder.forward
_NESTED = "_dy2st_nested"


class _AsksAlignment(Signal):
    """The encoder asks whether the padding is at the end."""

    def __init__(self, test: Any) -> None:
        super().__init__("whether the padding is at the end")
        self.test = test


@handles(torch.nn.TransformerEncoder.forward)
def _encoder(session: Session, *args: Any, **kwargs: Any) -> Any:
    try:
        return _plain_encoder(*args, **kwargs)
    except _AsksAlignment as asked:
        test = asked.test

    def answered(is_aligned: bool) -> Callable[[], Any]:
        def run() -> Any:
            session.traits.is_aligned.append(is_aligned)
            try:
                return _plain_encoder(*args, **kwargs)
            finally:
                session.traits.is_aligned.pop()

        return run

    return capture_if_exp(test, answered(True), answered(False))


@handles_torch(torch._nested_tensor_from_mask_left_aligned)
def _left_aligned(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if session.traits.is_aligned:
        return session.traits.is_aligned[-1]
    raise _AsksAlignment(session.number(torch.ops.aten._nested_tensor_from_mask_left_aligned.default, args, "bool"))


@handles_torch(torch._nested_tensor_from_mask)
def _nested(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _made_nested(session, torch.ops.aten._nested_tensor_from_mask.default, args, kwargs)


@handles_torch(torch._transformer_encoder_layer_fwd)
def _layer(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = tuple(map(session.outside.adopted, args))
    operator = torch.ops.aten._transformer_encoder_layer_fwd.default
    if getattr(given[0], _NESTED, False):
        return _made_nested(session, operator, given, kwargs)
    result = _like(session, given[0])
    session.builder.call(operator, given, kwargs, result)
    return result


def _made_nested(session: Session, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    result = _like(session, args[0])
    setattr(result, _NESTED, True)
    session.builder.bind_without_sizes(result, session.builder.call(operator, args, kwargs))
    return result


@handles_torch(torch.Tensor.to_padded_tensor)
def _padded(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not getattr(args[0], _NESTED, False):
        return func(*args, **kwargs)
    result = _like(session, args[0])
    session.builder.call(torch.ops.aten.to_padded_tensor.default, args, kwargs, result)
    return result


@handles_torch(torch._native_multi_head_attention)
def _attention(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = tuple(map(session.outside.adopted, args))
    query, heads, need_weights, average = given[0], given[4], given[10], given[11]
    result, weights = _like(session, query), None
    if need_weights:
        batch, length, _ = query.shape
        with quiet():
            weights = query.new_empty([batch, length, length] if average else [batch, heads, length, length])
    session.builder.call(torch.ops.aten._native_multi_head_attention.default, given, kwargs, (result, weights))
    return result, weights


def _like(session: Session, tensor: torch.Tensor) -> torch.Tensor:
    with quiet(), torch.no_grad():
        return torch.empty_like(session.outside.adopted(tensor), memory_format=torch.contiguous_format)


@handles(_MHA.get_fastpath_enabled)
def _fastpath_enabled(session: Session) -> bool:
    return _is_enabled(session)


def _is_enabled(session: Session) -> bool:
    table = session.tracker.table
    source = table.attribute(table.held(_MHA, "torch.backends.mha"), "_is_fastpath_enabled")
    session.tracker.read(_MHA._is_fastpath_enabled, source)
    return _MHA._is_fastpath_enabled


_original_enabled, _original_has = _MHA.get_fastpath_enabled, torch.overrides.has_torch_function


def _get_fastpath_enabled() -> bool:
    session = current()
    return _original_enabled() if session is None else _is_enabled(session)


def _has_torch_function(given: Any) -> bool:
    """Return the mode of a capture is none of the user's."""
    session = current()
    if session is None:
        return _original_has(given)
    return bool(classes.asked(session, None, given, {}))


def _put(enabled: Any, has_torch_function: Any) -> None:
    _MHA.get_fastpath_enabled, torch.overrides.has_torch_function = enabled, has_torch_function


def _install() -> None:
    _put(_get_fastpath_enabled, _has_torch_function)


def _remove() -> None:
    _put(_original_enabled, _original_has)


setattr(_get_fastpath_enabled, PATCH_MARK, True)
setattr(_has_torch_function, PATCH_MARK, True)
FAST_PATHS = Patch(_install, _remove)
"""What torch's layers ask before they take a fused operator: they hear what eager hears, and the program is guarded by it."""


@handles(torch.overrides.has_torch_function_unary, torch.overrides.has_torch_function_variadic)
def _has_torch_function_of(session: Session, *given: Any) -> bool:
    return _has_torch_function(given)
