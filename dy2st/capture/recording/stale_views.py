"""What autograd says of a view whose base was modified in place, where only some way through the program modifies it.

    y, z = v.unbind()
    if c:
        v.mul_(2)           from here on torch refuses to use z
    return z + 1            … but only if the branch was taken

An abstract value keeps what any branch does to it: torch has no way to take back that a tensor was modified. So an operation that
it refuses for that is recorded as one that works, without asking autograd, if what was modified may be so for another branch only,
or for another iteration. When the program runs, torch knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils._pytree import tree_leaves, tree_map_only

from dy2st.capture.recording.block import BlockBuilder

_MODIFIED = ("has been modified inplace", "is being modified inplace", "that requires grad is being used in an in-place operation")


class StaleViews:
    """The memory that blocks inside of others write."""

    def __init__(self) -> None:
        self._written: dict[int, list[BlockBuilder]] = {}

    def note(self, func: Any, args: Any, builder: BlockBuilder) -> None:
        """Note that an operation is recorded into a block."""
        if builder.parent is None or not func._schema.is_mutable:
            return
        for argument, value in zip(func._schema.arguments, args):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in _tensors(value):
                    known = self._written.setdefault(_memory(tensor), [])
                    if builder not in known:
                        known.append(builder)

    def may_pass(self, error: Exception, args: Any, builder: BlockBuilder) -> bool:
        """Tell whether what failed on abstract values may work on tensors, because another way through the program is to blame."""
        if not is_stale(error):
            return False
        written = [block for tensor in _tensors(args) for block in self._written.get(_memory(tensor), ())]
        return any(not builder.is_inside(block) for block in written)


def is_stale(error: Exception) -> bool:
    """Tell whether an operation failed since an operand is a view of a tensor that has been modified."""
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _MODIFIED)


def without_autograd(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run an operation on abstract values; the results require gradients where eager's do."""
    with torch._C._AutoDispatchBelowAutograd():
        result = func(*args, **kwargs)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in _tensors((args, kwargs))):
        tree_map_only(torch.Tensor, _connected, result)
    return result


def _connected(tensor: torch.Tensor) -> torch.Tensor:
    """Have a tensor require gradients without being a leaf."""
    if not tensor.requires_grad and (tensor.is_floating_point() or tensor.is_complex()):
        with disable_proxy_modes_tracing(), torch._C.DisableTorchFunction():
            anchor = torch.ones((), requires_grad=True)
            super(torch.autograd.Function, _Connect).apply(anchor, tensor)  # type: ignore[no-untyped-call]  # not the user's
    return tensor


class _Connect(torch.autograd.Function):
    """Makes its second argument depend on the first."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, None


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
