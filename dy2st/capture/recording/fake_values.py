"""Abstract values of one capture: fake tensors and symbolic numbers that nothing has computed yet."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.types import tensor_classes, tensor_traits, value_types
from dy2st.capture.types.traits import Traits
from dy2st.capture.writes.gradient_slots import note_history

ACTS_FOR_USER = False


def quiet() -> contextlib.AbstractContextManager[Any]:
    """Torch calls inside are not recorded."""
    stack = contextlib.ExitStack()
    stack.enter_context(disable_proxy_modes_tracing())
    stack.enter_context(torch._C.DisableTorchFunction())
    return stack


_AUTOGRAD = ("AutogradFunctionality", "AutogradOther", "AutogradNestedTensor")


def under_autograd() -> contextlib.AbstractContextManager[Any]:
    """Give views that are made inside a gradient where their base has one, also in an operation that is below autograd."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for name in _AUTOGRAD:
        excluded = excluded.remove(getattr(torch._C.DispatchKey, name))
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)


class FakeValues:
    """Makes the fake tensors and symbolic ints of one capture.

    Args:
        shapes: its symbols.
        traits: what it knows about traits of tensors.

    Attributes:
        mode: the mode of torch that its fake tensors belong to.
    """

    def __init__(self, shapes: CaptureShapes, traits: Traits) -> None:
        self.shapes, self._traits = shapes, traits
        self.mode = FakeTensorMode(shape_env=shapes, allow_non_fake_inputs=True)
        shapes.on_new_number = self._keep_no_results

    def _keep_no_results(self) -> None:
        """Have torch compute the results of operations inside of the one that runs: its kept ones would not do for a new number."""
        self.mode.cache_enabled = False

    def is_abstract(self, tensor: torch.Tensor) -> bool:
        """Tell whether a tensor is a fake one of this capture."""
        return getattr(tensor, "fake_mode", None) is self.mode

    def of_real(self, real: torch.Tensor) -> torch.Tensor:
        """Return what stands for a real tensor of known sizes."""
        with quiet(), under_autograd():
            return self.mode.from_tensor(real, static_shapes=True)

    def tensor(self, kind: value_types.TensorType) -> torch.Tensor:
        """Return a tensor of the capture that nothing has computed yet.

        What a block input or the result of a control node stands for.
        """
        sizes = [self._new_size(size) for size in kind.sizes]
        with quiet(), torch.enable_grad():
            if kind.strides is None or not all(type(s) is int for s in sizes):
                result = torch.empty(sizes, dtype=kind.dtype, device=kind.device)
            else:
                strides = [self.symbolic_int(stride) for stride in kind.strides]
                result = torch.empty_strided(sizes, strides, dtype=kind.dtype, device=kind.device)
            self._traits.graph_is_partial = self._traits.graph_is_partial or kind.requires_grad
            if kind.requires_grad:
                result.requires_grad_()
                leaf = result
                result = result if kind.is_leaf and tensor_traits.AUTOGRAD not in kind.mixed else result.clone()
                note_history(result, leaf)
        tensor_traits.give_class(result, kind.kind)
        self._traits.has_classes = self._traits.has_classes or tensor_classes.is_users(kind.kind)
        tensor_traits.mark(result, kind.mixed)
        self._traits.has_mixed = self._traits.has_mixed or bool(kind.mixed)
        tensor_traits.note_no_operation(result)
        return result

    def _new_size(self, size: Any) -> Any:
        return self.shapes.fresh_int(size=True) if size is value_types.DYNAMIC else self.symbolic_int(size)

    def symbolic_int(self, expr: Any) -> Any:
        """Return the symbolic int of an expression."""
        if isinstance(expr, int):
            return expr
        return int(expr) if expr.is_number else self.shapes.create_symintnode(expr, hint=None)
