"""Calls of modules that wrappers of ``torch.distributed`` run: what these do around the module are operations of the program.

    with DistributedDataParallel:         a group of fully_shard:
      begin_replica(net)(x)                 x_1, weight = gather(net.first)(x)
      …                                     y = aten.linear(x_1, weight)
      y_1 = end_replica(net)(y)             release(net.first)(y)

Between the two operations of a group its modules have whole parameters: what stands for them is in the modules, for the capture.
Outside they have the parts of this process, which no program takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from dy2st.capture.distributed.wrappers import is_flat, is_grouped, state_of
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.session import Session
from dy2st.capture.types import tensor_traits
from dy2st.capture.types.value_types import TensorType
from dy2st.capture.values.abstract_objects import Represents
from dy2st.capture.values.symbolic import CAPTURE_VALUES, SYMBOLIC_NUMBERS
from dy2st.errors import CaptureError
from dy2st_runtime.distributed.boundaries import BeginReplica, EndReplica, Gather, Release, parameters_of
from dy2st_runtime.primitives import control


class Gathered:
    """The parameters of the groups of one module's call, which are whole until it is left."""

    def __init__(self, session: Session, module: torch.nn.Module) -> None:
        self._session, self._module = session, module
        self._replaced: list[tuple[torch.nn.Module, str, Any]] = []

    def check(self) -> None:
        """Refuse a module whose parameters cannot be gathered by the program.

        Raises:
            CaptureError: they cannot.
        """
        session, module = self._session, self._module
        if is_flat(module):
            raise CaptureError(
                f"{name_of(session, module)} is wrapped in FullyShardedDataParallel, which makes one flat tensor of its parameters",
                session.here(),
                fix="use torch.distributed.fsdp.fully_shard(module) there, or wrap the outermost module only",
            )
        if any(map(is_grouped, (*module._forward_pre_hooks.values(), *module._forward_hooks.values()))):
            raise CaptureError(
                f"{name_of(session, module)} is sharded together with other modules, as one group of fully_shard",
                session.here(),
                fix="shard each module by itself, or all of them with the module around them",
            )

    def enter(self, hook: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Gather the parameters of the group whose hook this is; gives the arguments of the module."""
        session, state = self._session, state_of(hook)
        check_place(session, self._module)
        policy = state._mp_policy
        cast = policy.param_dtype if policy.cast_forward_inputs else None
        args, kwargs, given, results = _through(session, (args, kwargs), cast, self._module)
        parameters = parameters_of(state)
        whole = [_whole(session, parameter, policy) for parameter in parameters]
        operation = Gather(self._module, name_of(session, self._module), state)
        session.builder.call(control.call_, (operation, tuple(given), {}), {}, (*results, *whole))
        CAPTURE_LOCK.go_alone()
        for parameter, abstract in zip(parameters, whole):
            self._put(parameter._module_info, abstract)
        return args, kwargs

    def leave(self, hook: Any, result: Any) -> Any:
        """Let go of them; gives the result of the module."""
        session, state = self._session, state_of(hook)
        (result,), _, given, results = _through(session, ((result,), {}), state._mp_policy.output_dtype, self._module, hooks=True)
        operation = Release(self._module, name_of(session, self._module), state)
        session.builder.call(control.call_, (operation, tuple(given), {}), {}, tuple(results))
        self.give_back()
        return result

    def _put(self, info: Any, abstract: Any) -> None:
        places = [(info.module, info.param_name), *zip(info.shared_modules, info.shared_param_names)]
        self._session.tracker.lent.add(id(abstract))
        for module, name in places:
            self._replaced.append((module, name, module._parameters[name]))
            module._parameters[name] = abstract

    def give_back(self) -> None:
        """Put the parts of this process into the modules again."""
        for module, name, before in self._replaced:
            module._parameters[name] = before
        self._replaced = []


def call_replica(session: Session, module: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do what ``DistributedDataParallel.forward`` does."""
    check_place(session, module)
    if module.mixed_precision is not None or module._use_python_reducer:
        raise CaptureError(
            "DistributedDataParallel with mixed_precision, or compiled by torch, is called in a static function",
            session.here(),
            fix="make its module static: DistributedDataParallel(dy2st.to_static(module), mixed_precision=...)",
        )
    given = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
    if module.device_ids and any(leaf.device != module.device for leaf in given):
        raise CaptureError(
            f"DistributedDataParallel moves its arguments to {module.device}", session.here(), fix="move them there before the call"
        )
    name = name_of(session, module)
    session.builder.call(control.call_, (BeginReplica(module, name), tuple(given), {}), {}, None)
    result = call(module.module.forward if module._delay_all_reduce_all_params else module.module, *args, **kwargs)
    (result,), _, given, results = _through(session, ((result,), {}), None, module)
    session.builder.call(control.call_, (EndReplica(module, name), tuple(given), {}), {}, tuple(results))
    return result


def name_of(session: Session, module: torch.nn.Module) -> str:
    """Return the name of a module for messages and the program's text."""
    source = session.tracker.source_of(module)
    return type(module).__name__ if source is None else source.name


def check_place(session: Session, module: torch.nn.Module) -> None:
    """Refuse what a wrapper cannot be in.

    Raises:
        CaptureError: it is.
    """
    name = name_of(session, module)
    if session.request.for_any_call:
        raise CaptureError(
            f"{name} works together with other processes, which a saved or exported program does not have",
            session.here(),
            fix="save the module itself, with whole parameters: load what torch.distributed.checkpoint.state_dict gives into it",
        )
    if session.transforms:
        raise CaptureError(
            f"{name} is called inside torch.func.{session.transforms[-1]}, which its hooks do not know",
            session.here(),
            fix="call it outside of the transformed function",
        )

    def check() -> NoReturn:
        raise CaptureError(
            f"a backward pass of the program does not run the hooks by which processes share the gradients of {name}",
            session.here(),
            fix="call backward() outside of the static function",
        )

    session.gradients.hook_checks.append(check)


# -- what goes through a wrapper ---------------------------------------------------------------------------------------------


def _through(session: Session, values: Any, dtype: torch.dtype | None, module: torch.nn.Module, hooks: bool = False) -> Any:
    """Take apart what a wrapper gets.

    Args:
        session: the capture.
        values: the arguments of a module, or its result in their place.
        dtype: what floating-point tensors become.
        module: that is called.
        hooks: whether the wrapper puts hooks on tensors only, and gives them back as they are.

    Returns:
        The values as they go on, the tensors that go in, and those that come out.
    """
    leaves, spec = tree_flatten(values)
    given: list[torch.Tensor] = []
    results: list[torch.Tensor] = []
    changed = False
    for position, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            _check_leaf(session, leaf, module)
            continue
        given.append(leaf)
        result = _result(session, leaf, dtype, hooks)
        results.append(result)
        if result is not leaf and not (hooks and dtype is None):
            leaves[position], changed = result, True
    args, kwargs = tree_unflatten(leaves, spec) if changed else values
    return args, kwargs, given, results


def _result(session: Session, tensor: torch.Tensor, dtype: torch.dtype | None, hooks: bool) -> torch.Tensor:
    """Return what stands for a tensor that has gone through a wrapper."""
    with quiet():
        shown = session.outside.adopted(tensor)
        if dtype is not None and shown.is_floating_point() and shown.dtype != dtype:
            return shown.to(dtype)  # type: ignore[no-any-return]
        return shown.view_as(shown)  # type: ignore[no-any-return]


def _check_leaf(session: Session, leaf: Any, module: torch.nn.Module) -> None:
    """Refuse what may hold tensors, and is not taken apart."""
    held = isinstance(leaf, (Represents, *CAPTURE_VALUES)) and not isinstance(leaf, SYMBOLIC_NUMBERS)
    if held or (dataclasses.is_dataclass(leaf) and not isinstance(leaf, (type, *CONSTANTS))):
        raise CaptureError(
            f"{name_of(session, module)} gets or gives a {type(leaf).__name__}, in which its hooks would have to look for tensors",
            session.here(),
            fix="give it tensors, in tuples, lists and dicts",
        )


def _whole(session: Session, parameter: Any, policy: Any) -> torch.Tensor:
    """Return what stands for a parameter that is gathered."""
    dtype = policy.param_dtype or parameter.sharded_param.dtype
    sizes, strides = tuple(parameter._orig_size), tuple(parameter._contiguous_orig_stride)
    before = session.traits.graph_is_partial
    kind = TensorType(dtype, parameter.device, sizes, strides, parameter.sharded_param.requires_grad, True, torch.nn.Parameter)
    result = session.fakes.tensor(kind)
    session.traits.graph_is_partial = before  # it is a leaf
    tensor_traits.give_class(result, torch.nn.Parameter)
    return result
