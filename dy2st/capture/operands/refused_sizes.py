"""Operators that refuse sizes which torch's code for abstract values lets pass: without a word, where only the program knows them.

    try:
        best = scores.max()                     of no scores: a RuntimeError
    except RuntimeError:
        best = default

In a ``try`` statement that is for such errors the program attempts them. Which these are is what ``python -m tests.fuzz.operators``
finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

OF_SIZES: tuple[type[Exception], ...] = (RuntimeError, IndexError, ValueError)
"""What operators raise for sizes."""

_WHOLE = frozenset(("max", "min", "argmax", "argmin"))
"""Reductions that give a number of all items, which are to be some; of one dimension they want some there."""
_ALONG = frozenset(("amax", "amin", "aminmax", "mode", "kthvalue", "median", "nanmedian", "cummax", "cummin"))
"""Reductions that want some items along their dimensions, if they name any."""
_OF_SIZES = frozenset((
    "narrow", "diagonal_scatter", "select_scatter", "slice_scatter", "as_strided", "as_strided_scatter",
    "masked_select", "index_put", "put", "take", "index_reduce", "scatter_reduce", "segment_reduce", "_unique2",
    "unique_dim", "unique_consecutive", "unique_dim_consecutive", "embedding", "embedding_bag", "_embedding_bag",
    "cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "ctc_loss", "multi_margin_loss",
    "multilabel_margin_loss", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "batch_norm",
    "instance_norm", "group_norm", "cosine_similarity", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
    "scaled_dot_product_attention", "stft", "istft", "stack", "cat", "chunk", "split", "unsafe_chunk", "tensor_split",
    "bernoulli", "unfold", "glu", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "logcumsumexp", "histc",
    "dist", "renorm", "einsum", "inner", "tensordot", "matmul", "block_diag",
))  # fmt: skip
_OF_NUMBERS = frozenset((
    "full", "new_full", "full_like", "fill", "scalar_tensor", "masked_fill", "index_fill", "scatter", "div", "floor_divide",
    "remainder", "fmod",
))  # fmt: skip
"""What a tensor of integers takes few numbers of."""
_BEGINNINGS = ("conv", "adaptive_", "avg_pool", "max_pool", "fractional_", "_upsample_", "upsample_", "fft_", "linalg_", "_linalg_")


Known = Callable[[Any], bool | None]
"""Tells what a symbolic bool is, if that is known."""


def may_refuse(known: Known, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Tell whether an operator of torch may refuse its operands for sizes that only the program knows.

    Args:
        known: tells what is known of these.
        func: the operator.
        args, kwargs: its operands, abstract values among them.
    """
    name = func._schema.name.partition("::")[2].rstrip("_")
    if name in _WHOLE or name in _ALONG:
        return any(known(size > 0) is not True for size in _reduced(name, func, args, kwargs))
    leaves = tree_leaves((args, kwargs))
    if name in _OF_NUMBERS:
        return any(isinstance(leaf, (torch.SymInt, torch.SymFloat)) for leaf in leaves)
    return (name in _OF_SIZES or name.startswith(_BEGINNINGS)) and any(map(_is_open, leaves))


def _is_open(leaf: Any) -> bool:
    """Tell whether an operand has a size, or is a number, that only the program knows."""
    return leaf._has_symbolic_sizes_strides if isinstance(leaf, torch.Tensor) else isinstance(leaf, torch.SymInt)


def _reduced(name: str, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Return the sizes of the dimensions along which a reduction goes, which must not be 0."""
    given = {one.name: one.default_value for one in func._schema.arguments}
    given |= dict(zip(given, args)) | kwargs
    tensor, dims = given["self"], given.get("dim")
    if not isinstance(tensor, torch.Tensor):
        return []
    if dims in (None, []):
        return [] if name in ("median", "nanmedian") else list(tensor.shape)  # those of nothing are NaN
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    return [tensor.shape[dim] for dim in dims if -tensor.dim() <= dim < tensor.dim()]
