"""When containers count as the same: constants in tuples, the keys of dicts."""

from __future__ import annotations

import types
from typing import Any

import torch

from dy2st.capture.types.value_types import same_constant
from dy2st.capture.values import storage
from dy2st_runtime.ir.structure import exact

ACTS_FOR_USER = False

_FROZEN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
MAPPINGS = (dict, types.MappingProxyType)


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
