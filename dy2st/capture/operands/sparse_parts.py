"""What is in a sparse tensor: how many items it has only the program knows, and the abstract one of torch has none."""

from __future__ import annotations

from typing import Any

import torch

from dy2st_runtime.ir.operators import present

_VALUES = frozenset(present("values.default", "_values.default"))
_OF_ITEMS = frozenset(present("indices.default", "_indices.default", "col_indices.default", "row_indices.default"))
_BY_COLUMN = (torch.sparse_csc, torch.sparse_bsc)


_UNCHECKED = dict(zip(present("values.default", "indices.default"), present("_values.default", "_indices.default")))


def unchecked(func: Any, args: Any) -> Any:
    """Return an operator that gives a part of a sparse tensor also where the abstract one is not known to be coalesced."""
    is_coo = bool(args) and isinstance(args[0], torch.Tensor) and args[0].layout == torch.sparse_coo
    return _UNCHECKED.get(func, func) if is_coo else func


def open_dimension(func: Any, tensor: Any) -> int | None:
    """Return the dimension of a part of a sparse tensor that has as many items as there are; ``None`` where none is open.

    Args:
        func: an operator.
        tensor: its first operand.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout == torch.strided or func not in _VALUES | _OF_ITEMS:
        return None
    if func in _OF_ITEMS:
        return -1
    return 0 if tensor.layout == torch.sparse_coo else batch_dimensions(tensor)


def batch_dimensions(tensor: torch.Tensor) -> int:
    """Return how many dimensions of a compressed sparse tensor come before its rows and columns."""
    pointers = tensor.ccol_indices() if tensor.layout in _BY_COLUMN else tensor.crow_indices()
    return pointers.dim() - 1
