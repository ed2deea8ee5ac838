"""What the leaves of a call's arguments are: tensors and opaque objects."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.modules import module as _module
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.values import storage
from dy2st.capture.values.number_arguments import NumberArgument
from dy2st_runtime.ir.flattening import HoldsItselfError, children, repeated_containers


def is_leaf_by_itself(value: Any) -> bool:
    """Return tensors, and objects that are neither constants nor containers (of nothing but their parts)."""
    if isinstance(value, (torch.Tensor, torch.nn.Module, NumberArgument)):
        return True
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, dict)):
        fields = {field.name for field in dataclasses.fields(value)}
        return not (storage.table_of(value) or {}).keys() <= fields
    return not isinstance(value, CONSTANTS) and children(value) is None


def leaves_and_repeated(given: Any, is_leaf: Callable[[Any], bool]) -> tuple[Callable[[Any], bool], dict[int, int]]:
    """Return what a leaf of the arguments is, and the containers that stand in several places.

    Containers that hold themselves are leaves, and so is what they hold: the code under capture works with these very objects.
    """
    try:
        return is_leaf, repeated_containers(given, is_leaf)
    except HoldsItselfError as error:
        held = error.parts

    def is_own_leaf(value: Any) -> bool:
        return id(value) in held or is_leaf(value)

    while True:
        _add_parts(held)
        try:
            return is_own_leaf, repeated_containers(given, is_own_leaf)
        except HoldsItselfError as error:
            held |= error.parts


def _add_parts(held: dict[int, Any]) -> None:
    """Add the containers in some containers."""
    waiting, seen = list(held.values()), dict(held)
    while waiting:
        for part in (children(waiting.pop()) or ((),))[0]:
            if children(part) is not None and id(part) not in seen:
                seen[id(part)] = part
                waiting.append(part)
    held.update({key: part for key, part in seen.items() if not isinstance(part, tuple)})


def leaf_names(bound: inspect.BoundArguments, is_leaf: Callable[[Any], bool]) -> list[str]:
    """Return a name for each leaf of the arguments, in order: the parameter's, with the path inside it."""
    results: list[str] = []
    seen: set[int] = set()

    def visit(value: Any, name: str) -> None:
        if is_leaf(value):
            results.append(name)
            return
        parts = children(value)
        if parts is None or id(value) in seen:
            return
        if not isinstance(value, tuple):
            seen.add(id(value))
        keys = list(value) if isinstance(value, dict) else range(len(parts[0]))
        for key, part in zip(keys, parts[0]):
            visit(part, f"{name}.{key}")

    parameters = bound.signature.parameters
    for name, value in bound.arguments.items():
        if parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            for key, item in value.items():
                visit(item, key)
        else:
            visit(value, name)
    return results


SIZES = 3
"""Where in the key of a tensor its sizes are."""

_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
"""Classes that tensors change between calls without another program: who asks for them is guarded."""


def leaf_keys(leaves: Sequence[Any], dims: Sequence[frozenset[int]]) -> tuple[Any, ...]:
    """Return what decides, of each leaf, which programs serve a call."""
    first: dict[int, int] = {}
    keys: list[Any] = []
    for position, (leaf, dynamic) in enumerate(zip(leaves, dims)):
        if not isinstance(leaf, torch.Tensor):
            keys.append(leaf if isinstance(leaf, NumberArgument) else type(leaf))
            continue
        same_as = first.setdefault(id(leaf), position)
        if type(leaf) in _PLAIN:
            keys.append((*_tensor_key(leaf, dynamic), same_as))
            continue
        with torch._C.DisableTorchFunctionSubclass():  # what its class says of functions is for the user's code
            keys.append((*_tensor_key(leaf, dynamic), same_as, type(leaf)))
    return tuple(keys)


def _tensor_key(leaf: torch.Tensor, dynamic: frozenset[int]) -> tuple[Any, ...]:
    shape = () if leaf.is_nested else leaf.shape  # a nested one cannot be captured, and may have no shape
    sizes = tuple(shape) if not dynamic else tuple(None if d in dynamic else s for d, s in enumerate(shape))
    return leaf.dtype, leaf.device, leaf.requires_grad, sizes, leaf.layout


def modes() -> tuple[Any, ...]:
    """Return the modes of the running thread that change what torch does."""
    autocast = tuple((kind, torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind))
    hooks = (*_module._global_forward_pre_hooks.values(), *_module._global_forward_hooks.values())
    functions = tuple(map(_meaning, _get_current_function_mode_stack())) if torch._C._len_torch_function_stack() else ()
    return (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast, torch.get_default_dtype(), functions, hooks)


def _meaning(mode: Any) -> Any:
    """Return what tells a mode of torch's functions from others: of a default device the device."""
    return mode.device if type(mode) is DeviceContext else mode
