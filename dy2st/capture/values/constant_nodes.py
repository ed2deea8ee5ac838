"""Numbers of the program whose value can be shown: what computes them reads constants alone, and nothing writes to it.

``torch.arange(1, x.dim()).tolist()`` gives numbers that the program computes; where an operation has to know one, it is computed
here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from dy2st_runtime.primitives import scalars

ACTS_FOR_USER = False

_MOST = 64
"""Of how many operations a number is computed."""
_ONLY_TELLING = frozenset((torch.ops.aten.detach_.default,))
"""What the schema says to write, and leaves the data as they are."""


class NotShown(Exception):
    """The value of a node cannot be shown."""


def value(node: fx.Node, read: Callable[[fx.Node], Any]) -> Any:
    """Return what a node gives at each run.

    Args:
        node: an operation, or an input.
        read: gives the node of an outer block, or the tensor, that an input stands for.

    Raises:
        NotShown: it cannot be told.
    """
    met: dict[fx.Node, Any] = {}

    def compute(one: Any) -> Any:
        if not isinstance(one, fx.Node):
            return one
        if one not in met:
            if len(met) >= _MOST:
                raise NotShown
            met[one] = None
            met[one] = _computed(one, read, compute)
        return met[one]

    with _disable_current_modes():
        return compute(node)


def _computed(node: fx.Node, read: Callable[[fx.Node], Any], compute: Callable[[Any], Any]) -> Any:
    if node.op == "placeholder":
        outer = read(node)
        _check_only_read(node)
        return compute(outer)
    if not (_computes(node.target) or getattr(node.target, "__name__", "") in scalars.TARGETS):
        raise NotShown
    _check_only_read(node)
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), compute)
    try:
        return node.target(*args, **kwargs)  # type: ignore[operator]
    except Exception:  # whatever a kernel of anybody's raises: the program raises it
        raise NotShown from None


def _computes(target: Any) -> bool:
    """Tell whether an operation gives the same for the same operands, and writes to none."""
    if target is operator.getitem:
        return True
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or "empty" in target.name():
        return False
    return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _check_only_read(node: fx.Node) -> None:
    """Check that nothing writes to what a node gives, or to what shares its memory.

    Raises:
        NotShown: something may.
    """
    waiting, met = [node], set[fx.Node]()
    while waiting:
        one = waiting.pop()
        if one in met or _is_number(one):
            continue
        met.add(one)
        if not all(user.target in _ONLY_TELLING or _computes(user.target) for user in one.users):
            raise NotShown
        waiting += one.users


def _is_number(node: fx.Node) -> bool:
    return node.op == "call_function" and node.meta.get("type") in ("int", "float", "bool")
