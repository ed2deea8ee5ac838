"""What a capture relied on, checked at each call before its program is used again.

The Python values that the captured code read (attributes, globals, closure cells, defaults) are compared with what they were.
When one has changed, the program does not fit and another is captured.
"""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from dy2st.capture.lattice import same_constant
from dy2st.capture.sources import GONE, Source, fetch

_Check = Callable[[Any], bool]


@dataclasses.dataclass(frozen=True)
class Guard:
    """One condition on the value of a source.

    Attributes:
        source: where the value comes from.
        check: whether the program is right for a value.
        expected: the condition in words.
        value: the number, or the shape of the tensor, that was met.
    """

    source: Source
    check: _Check
    expected: str
    value: Any = None

    def changed_dims(self, arguments: Sequence[Any], sources: Sequence[Source]) -> frozenset[int] | None:
        """Which sizes of a tensor differ now; empty for a number that differs; ``None`` if it is something else that changed."""
        now = fetch(sources, arguments)[self.source.index]
        if type(now) in (int, float) and type(self.value) is type(now):
            return frozenset()
        if not isinstance(now, torch.Tensor) or not isinstance(self.value, torch.Size) or now.dim() != len(self.value):
            return None
        return frozenset(dim for dim, (a, b) in enumerate(zip(now.shape, self.value)) if a != b)


class GuardTable:
    """The conditions of one program."""

    def __init__(self) -> None:
        self._guards: dict[tuple[int, str], Guard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def add(self, source: Source, kind: str, check: _Check, expected: str, value: Any = None) -> None:
        """Add a condition; the first of a kind for a source counts."""
        self._guards.setdefault((source.index, kind), Guard(source, check, expected, value))

    def equal(self, source: Source, value: Any) -> None:
        """The value must stay equal, and of the same type."""
        self.add(source, "equal", lambda now: same_constant(now, value), f"== {value!r}", value)

    def same(self, source: Source, value: Any) -> None:
        """The value must stay the same object."""
        try:
            reference: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            reference = lambda: value  # noqa: E731
        self.add(source, "same", lambda now: now is reference(), f"is {getattr(value, '__qualname__', type(value).__name__)}")

    def same_function(self, source: Source, method: types.MethodType) -> None:
        """A bound method must stay bound to the same function."""
        function = method.__func__
        self.add(source, "function", lambda now: getattr(now, "__func__", None) is function, f"is {method.__qualname__}")

    def same_type(self, source: Source, value: Any) -> None:
        """The value must keep its class."""
        kind = type(value)
        self.add(source, "type", lambda now: type(now) is kind, f"is a {kind.__qualname__}")

    def same_keys(self, source: Source, container: Any) -> None:
        """A container must keep its class, length and keys."""
        kind, keys = type(container), _keys(container)
        self.add(source, "keys", lambda now: type(now) is kind and _keys(now) == keys, f"is a {kind.__name__} with {keys}")

    def same_module(self, source: Source, module: torch.nn.Module) -> None:
        """A module must keep its class, its children's names, which tensors it has, and its hooks."""
        kind, shape, hooks = type(module), _module_shape(module), module_hooks(module)

        def check(now: Any) -> bool:
            return type(now) is kind and _module_shape(now) == shape and module_hooks(now) == hooks

        self.add(source, "module", check, f"is a {kind.__name__} with the same children and hooks")

    def tensor(self, source: Source, tensor: torch.Tensor, dynamic: Collection[int] = ()) -> None:
        """A tensor must keep dtype, device, layout, whether it requires a gradient, and its sizes except the dynamic ones."""
        expected = tensor_shape(tensor, dynamic)
        self.add(source, "tensor", lambda now: tensor_shape(now, dynamic) == expected, f"is a tensor {expected}", tensor.shape)

    def same_tensor(self, source: Source, other: Source) -> None:
        """Two sources must keep giving one tensor; checked by :meth:`failure`."""
        self._guards.setdefault((source.index, f"alias {other.index}"), Guard(source, _Alias(other), f"is {other.name}"))

    def failure(self, values: Sequence[Any]) -> Guard | None:
        """The first condition that does not hold; ``None`` when the program fits.

        Args:
            values: the value of each source, from :func:`~dy2st.capture.sources.fetch`.
        """
        for guard in self._guards.values():
            value = values[guard.source.index]
            check = guard.check
            if isinstance(check, _Alias):
                holds = value is values[check.other.index]
            else:
                holds = value is not GONE and check(value)
            if not holds:
                return guard
        return None


class _Alias:
    def __init__(self, other: Source) -> None:
        self.other = other

    def __call__(self, value: Any) -> bool:
        raise AssertionError("checked with both values at hand")


def tensor_shape(value: Any, dynamic: Collection[int] = ()) -> Any:
    """What a program relies on in a tensor; the class of anything else."""
    if not isinstance(value, torch.Tensor):
        return type(value)
    sizes = tuple(None if dim in dynamic else size for dim, size in enumerate(value.shape))
    return (value.dtype, sizes, value.device, value.requires_grad, value.layout)


def module_hooks(module: torch.nn.Module) -> tuple[Any, ...]:
    """The hooks that run when a module is called."""
    return (
        *module._forward_pre_hooks.values(),
        *module._forward_hooks.values(),
        *module._backward_hooks.values(),
        *module._backward_pre_hooks.values(),
    )


def _module_shape(module: torch.nn.Module) -> tuple[Any, ...]:
    return (
        tuple(module._modules),
        tuple((name, tensor is None) for name, tensor in module._parameters.items()),
        tuple((name, tensor is None) for name, tensor in module._buffers.items()),
    )


def _keys(container: Any) -> Any:
    return list(container) if isinstance(container, dict) else len(container)
