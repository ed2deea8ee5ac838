"""``torch.utils.checkpoint``: the function is captured in place, and what it has recorded is marked as one region.

When the capture is over, a region becomes a block that the program has torch's own function call
(:mod:`dy2st.capture.outputs.regions`).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import checkpoint

from dy2st import errors
from dy2st.capture.environment import written_out
from dy2st.capture.library.registry import handles
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions import differentiation
from dy2st.capture.values.abstract_objects import contents
from dy2st.capture.values.symbolic import CAPTURE_VALUES
from dy2st.capture.writes.checkpointed import GIVEN, INSIDE, RESULTS, Region

_SEEN_THROUGH = frozenset(("attempt", "backward"))
"""Blocks in which autograd works as it does outside of them."""


@handles(checkpoint.checkpoint)
def _checkpoint(
    session: Session, function: Any, *args: Any, use_reentrant: Any = None, context_fn: Any = None,
    determinism_check: str = "default", debug: bool = False, early_stop: bool = True, preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Capture the function as a region of its own."""
    if context_fn is checkpoint.noop_context_fn:
        context_fn = None
    is_reentrant = use_reentrant is None or bool(use_reentrant)
    if is_reentrant and kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if is_reentrant and (context_fn is not None or debug):
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if not torch.is_grad_enabled() or not _SEEN_THROUGH.issuperset(session.transforms):
        return session.call(function, *args, **kwargs)
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    asked = [differentiation.needs_gradient(session, tensor) for tensor in tensors] if is_reentrant else []  # each is asked
    if is_reentrant and not any(asked):
        return session.call(written_out.checkpointed_in_vain, function, args)
    given = {
        "use_reentrant": use_reentrant, "context_fn": context_fn, "determinism_check": determinism_check, "debug": debug,
        "early_stop": early_stop, "preserve_rng_state": preserve_rng_state,
    }  # fmt: skip
    _check_known(session, given)
    options = {name: value for name, value in given.items() if value != _DEFAULTS.get(name, _DEFAULTS)}
    return _captured(session, Region(options, is_reentrant), tensors, functools.partial(session.call, function, *args, **kwargs))


def _captured(session: Session, region: Region, tensors: Sequence[torch.Tensor], call: Callable[[], Any]) -> Any:
    builder = session.builder
    region.mark(map(builder.node_of, tensors), GIVEN)
    mark = builder.mark()
    result = call()
    if session.builder is not builder:
        return result
    parts = contents(result) if isinstance(result, tuple) else (result,)
    region.mark([builder.node_of(part) for part in parts if isinstance(part, torch.Tensor)], RESULTS)
    node = builder.mark()
    while node is not mark and node.op == "call_function":
        region.mark((node,), INSIDE)
        node = node.prev
    return result


_DEFAULTS: dict[str, Any] = {
    "context_fn": None, "determinism_check": "default", "debug": False, "early_stop": True, "preserve_rng_state": True,
}  # fmt: skip


def _check_known(session: Session, options: dict[str, Any]) -> None:
    """Refuse options that the program decides, and a policy that holds what only the program knows."""
    for name, value in options.items():
        held = [value]
        if isinstance(value, functools.partial):
            held = [value.func, *value.args, *value.keywords.values()]
        held += [cell.cell_contents for one in held if isinstance(one, types.FunctionType) for cell in one.__closure__ or ()]
        if any(
            isinstance(one, CAPTURE_VALUES) or (isinstance(one, torch.Tensor) and session.fakes.is_abstract(one)) for one in held
        ):
            raise errors.CaptureError(
                f"torch.utils.checkpoint gets a {name} that is known only when the program runs",
                session.here(),
                fix="decide it by values that are known, or outside of the static function",
            )


@handles(checkpoint.checkpoint_sequential)
def _sequential(session: Session, *args: Any, **kwargs: Any) -> Any:
    return session.call(written_out.checkpoint_sequential, *args, **kwargs)
