"""Operations that write a tensor: what is refused of them.

Some change in place how it lies in memory: ``unsqueeze_``, ``t_``, ``resize_``, ``set_``.

Where a tensor decides whether one is done, the tensor has two shapes after it; a tensor from outside is asked for its shape itself,
and has not changed yet while the code is captured. Both are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from dy2st.errors import CaptureError

if TYPE_CHECKING:
    from dy2st.capture.types.tensor_traits import Capturing

Seen = Sequence[tuple[torch.Tensor, Any]]


def before(func: Any, args: Sequence[Any]) -> Seen:
    """Return how the tensors lie that an operation is about to write."""
    if not func._schema.is_mutable:
        return ()
    return [
        (value, _geometry(value))
        for value, place in zip(args, func._schema.arguments)
        if isinstance(value, torch.Tensor) and place.is_write
    ]


def check(session: Capturing, func: Any, seen: Seen) -> None:
    """Refuse a change that code outside of the block, or of the capture, would see.

    Raises:
        CaptureError: the operation has changed how such a tensor lies in memory, or the contents of an array that is known.
    """
    for tensor, known in seen:
        if session.tracker.arrays.is_shared(tensor):
            raise CaptureError(
                f"{func.overloadpacket.__name__} writes to the memory of an array that is known",
                session.here(),
                fix="write to a copy: torch.tensor(array), or torch.from_numpy(array).clone()",
            )
        if _geometry(tensor) == known:
            continue
        in_block = session.builder.is_operand(tensor)
        if in_block or session.outside.is_state(tensor):
            where = "where a tensor decides" if in_block else "of a tensor from outside"
            raise CaptureError(
                f"{func.overloadpacket.__name__} changes a shape in place, {where}",
                session.here(),
                fix="use the operation that gives a new tensor, and assign that: x = x.unsqueeze(0)",
            )


def _geometry(tensor: torch.Tensor) -> Any:
    return tensor.shape, tensor.stride(), tensor.storage_offset()
