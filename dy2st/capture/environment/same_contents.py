"""When values count as the same: constants in tuples, the keys of dicts, what a program relies on in tensors, modules, classes."""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import torch

from dy2st.capture.types import tensor_classes
from dy2st.capture.types.value_types import same_constant
from dy2st.capture.values import storage
from dy2st_runtime.ir.structure import exact

ACTS_FOR_USER = False

_FROZEN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
MAPPINGS = (dict, types.MappingProxyType)
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
"""The tables of a module that hold the hooks that run when it is called."""


def is_frozen(value: Any) -> bool:
    """Tell whether a value is a tuple of constants, or of such tuples."""
    return type(value) is tuple and all(is_frozen(item) or type(item) in _FROZEN for item in value)


def same_frozen(now: Any, value: Any) -> bool:
    """Tell whether a value can stand for a tuple of constants everywhere."""
    if type(value) is not tuple:
        return same_constant(now, value)
    return type(now) is tuple and len(now) == len(value) and all(map(same_frozen, now, value))


def keys_in(container: Any) -> Any:
    """Return the keys of a dict, or the number of items of another container."""
    return list(storage.keys_of(container)) if isinstance(container, MAPPINGS) else storage.base_of(container).__len__(container)


def same_keys(now: Any, keys: Any) -> bool:
    """Tell whether a container has as many items, or the same keys in the same order.

    True is not 1, and a tensor is itself only.
    """
    if not isinstance(now, MAPPINGS):
        return bool(storage.base_of(now).__len__(now) == keys)
    held = storage.keys_of(now)
    return len(held) == len(keys) and all(a is b or _same_key(a, b) for a, b in zip(held, keys))


def _same_key(key: Any, other: Any) -> bool:
    return not isinstance(key, torch.Tensor) and not isinstance(other, torch.Tensor) and bool(exact(key) == exact(other))


class TensorShape(NamedTuple):
    """What a program relies on in a tensor; ``None`` stands for a size that may differ."""

    dtype: torch.dtype
    sizes: tuple[int | None, ...]
    device: torch.device
    requires_grad: bool
    layout: torch.layout
    own: type | None
    """Its class, where that is one which the user has written."""

    @classmethod
    def of(cls, tensor: torch.Tensor, dynamic: Collection[int] = ()) -> TensorShape:
        """Return what is guarded of a tensor whose sizes at ``dynamic`` may differ."""
        own = type(tensor) if tensor_classes.is_users(type(tensor)) else None
        with torch._C.DisableTorchFunctionSubclass():
            sizes = tuple(None if dim in dynamic else size for dim, size in enumerate(tensor.shape))
            return cls(tensor.dtype, sizes, tensor.device, tensor.requires_grad, tensor.layout, own)


class ModuleShape(NamedTuple):
    """What a program relies on in a module; of its parameters and buffers, by name, whether they are ``None``.

    Functions of the module itself are held weakly: their closures often lead back to it.
    """

    kind: type[torch.nn.Module]
    children: tuple[str, ...]
    parameters: tuple[tuple[str, bool], ...]
    buffers: tuple[tuple[str, bool], ...]
    hooks: tuple[Any, ...]
    own_forward: Any
    forward: Any

    @classmethod
    def of(cls, module: torch.nn.Module) -> ModuleShape:
        """Return what is guarded of a module; of methods that stand for ``forward``, their functions."""
        parameters = tuple((name, tensor is None) for name, tensor in module._parameters.items())
        buffers = tuple((name, tensor is None) for name, tensor in module._buffers.items())
        own, kind = vars(module).get("forward"), type(module)
        own = None if own is None else weakly(getattr(own, "__func__", own))
        hooks = tuple(map(weakly, module_hooks(module)))
        return cls(kind, tuple(module._modules), parameters, buffers, hooks, own, kind.forward)


PATCH_MARK = "__dy2st_patch__"
"""Marks what stands in for a function while a capture runs; the mark is the function when the user has written that."""

_BOOKS = frozenset(
    f"__{name}__"
    for name in (
        "abstractmethods", "annotate_cache", "annotate_func", "annotations", "annotations_cache", "dict", "doc", "firstlineno",
        "module", "orig_bases", "parameters", "qualname", "slotnames", "static_attributes", "type_params", "weakref",
    )
)  # fmt: skip
"""What stands in classes under such names and is no method: libraries put some of it there when they first meet a class."""


class ClassShape:
    """What Python itself looks up in a class, unseen by the code that is captured: special methods, and the classes that have them.

    Args:
        kind: the class.
        bases: those of the classes that it is made of, itself too, that may change.
    """

    def __init__(self, kind: type, bases: Collection[type]) -> None:
        self.kind, self.mro, self.bases = kind, kind.__mro__, bases
        self.tables = [vars(base) for base in bases]
        self.sizes = [(len(table), next(reversed(table), None)) for table in self.tables]
        """Of each table the number of names and the last one: where these are as they were, no name has come or gone."""
        self.methods = [_special(table) for table in self.tables]
        self._descriptors = [_data_descriptors(table) for table in self.tables]

    def holds(self, *_: Any) -> bool:
        """Tell whether the class is as it was; the methods that a capture has replaced count as what they stand for."""
        if self.kind.__mro__ != self.mro or [_data_descriptors(table) for table in self.tables] != self._descriptors:
            return False
        return all(map(_has_special, self.tables, self.methods))


def _special(table: Any) -> dict[str, Any]:
    """Return the special methods that stand in a class."""
    names = [name for name in table if name[:2] == name[-2:] == "__" and name not in _BOOKS]
    return {name: _unpatched(table[name]) for name in names}


def _data_descriptors(table: Any) -> set[str]:
    """Return the names that a class answers for its objects, whatever these hold."""
    return {name for name, value in table.items() if hasattr(type(value), "__set__")}


def _has_special(table: Any, methods: dict[str, Any]) -> bool:
    now = _special(table)
    return now.keys() == methods.keys() and all(now[name] is method for name, method in methods.items())


def _unpatched(method: Any) -> Any:
    written = getattr(method, PATCH_MARK, None) if isinstance(method, types.FunctionType) else None
    return written if isinstance(written, types.FunctionType) else method


def weakly(value: Any) -> Callable[[], Any]:
    """Return a weak reference to a value, or what stands for one if its class has none; those of one object are equal."""
    try:
        return weakref.ref(value)
    except TypeError:
        return _Held(value)


@dataclasses.dataclass(frozen=True)
class _Held:
    """A reference to an object that cannot be held weakly."""

    value: Any

    def __call__(self) -> Any:
        return self.value


def module_hooks(module: torch.nn.Module) -> tuple[Any, ...]:
    """Return the hooks that run when a module is called."""
    return tuple(hook for name in HOOKS for hook in getattr(module, name).values())
