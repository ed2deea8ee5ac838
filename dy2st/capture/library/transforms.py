"""The transforms of ``torch.func``, which wrap tensors in a way that a capture cannot see through."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch._functorch import eager_transforms, vmap

from dy2st import errors
from dy2st.capture.library.registry import handles
from dy2st.capture.session import Session

_TRANSFORMS: dict[str, Any] = {
    "grad": eager_transforms.grad_impl, "grad_and_value": eager_transforms.grad_and_value_impl, "vmap": vmap.vmap_impl,
    "vjp": torch.func.vjp, "jvp": torch.func.jvp, "jacrev": torch.func.jacrev, "jacfwd": torch.func.jacfwd,
    "hessian": torch.func.hessian, "linearize": torch.func.linearize,
}  # fmt: skip
"""The functions that a transform ends in, by its name; the first ones when what it gave is called."""


def _refusal(name: str) -> Any:
    def handle(session: Session, *args: Any, **kwargs: Any) -> NoReturn:
        raise errors.CaptureError(
            f"torch.func.{name} cannot be used inside a captured function",
            session.here(),
            fix="use torch.autograd.grad or torch.autograd.functional, operations on the whole batch in the place of vmap, "
            "or call the transform outside of the static function",
        )

    return handle


for _name, _function in _TRANSFORMS.items():
    handles(_function)(_refusal(_name))
