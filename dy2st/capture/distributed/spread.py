"""Modules whose parameters are a ``DTensor``, as ``parallelize_module`` leaves them: the program calls them as Python.

Their hooks make tensors that are spread over processes of what they get, and plain ones of what they give. What is between is done
by PyTorch's propagation of placements, forward and backward; the program goes on with the plain results, whose kinds are learned.
"""

from __future__ import annotations

from typing import Any

import torch

from dy2st.capture.distributed.boundaries import check_place, name_of
from dy2st.capture.distributed.wrappers import state_of
from dy2st.capture.environment.plain_values import SHARDED
from dy2st.capture.session.session import Session
from dy2st.capture.unconverted import learned
from dy2st.capture.unconverted.island_calls import Recording
from dy2st.capture.values.kinds import is_spread
from dy2st_runtime.distributed.boundaries import parameters_of
from dy2st_runtime.distributed.collectives import Group

_PLANS = "torch.distributed.tensor"
_CALL: Any = torch.nn.Module._wrapped_call_impl


def runs_as_python(module: torch.nn.Module) -> bool:
    """Tell whether a module works with tensors that are spread over processes, in itself or in a group that it gathers."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    if any((getattr(hook, "__module__", None) or "").startswith(_PLANS) for hook in hooks):
        return True
    states = [state for state in map(state_of, hooks) if state is not None]
    if any(parameter._unsharded_dtensor_spec is not None for state in states for parameter in parameters_of(state)):
        return True
    return SHARDED not in module.__dict__ and any(is_spread(p) for p in module._parameters.values() if p is not None)


class _Call(Recording):
    """A call that is recorded; whether an argument has a gradient tells nothing of the result, since the parameters have one."""

    def _shown(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return (*learned.signature_of(value)[:-1], learned.ANY)
        return super()._shown(value)


def call(session: Session, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a call of such a module."""
    check_place(session, module)
    recording = _Call(session, _CALL, "its parameters are spread over processes", name_of(session, module))
    spread: list[Any] = [parameter for parameter in module.parameters() if is_spread(parameter)]
    recording.group = Group.of_mesh(next((p.device_mesh for p in spread), None))
    return recording.record(None, (module, *args), kwargs)
