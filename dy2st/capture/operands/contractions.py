"""Sizes of products whose operands have sizes that only the program knows, and that may be 1 where another operand is larger.

Torch's code for abstract values asks whether they are 1 to choose how to compute. The result has the same shape in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st_runtime.ir.operators import present

Sizes = list[Any]
Together = Callable[[Any, Any], Any]
"""Gives the size that two have together, of which one may be 1."""

_EINSUM = present("einsum.default")
_INNER = present("inner.default")
_TENSORDOT = present("tensordot.default")
_MATMUL = present("matmul.default")
OF_BATCHES = frozenset(_MATMUL)
CONTRACTIONS = frozenset((*_EINSUM, *_INNER, *_TENSORDOT, *_MATMUL))


def operands(func: Any, args: Sequence[Any]) -> Sequence[torch.Tensor]:
    """Return the tensors that a product is computed of."""
    return args[1] if func in _EINSUM else args[:2]


def sizes(func: Any, args: Sequence[Any], together: Together) -> Sizes | None:
    """Return the sizes of a product; ``None`` where they are not told here.

    Args:
        func: one of :data:`CONTRACTIONS`.
        args: its operands.
        together: gives the size of a dimension that two operands have.
    """
    if func in _EINSUM:
        return _of_einsum(args[0], [tensor.shape for tensor in args[1]], together)
    first, second = args[0].shape, args[1].shape
    if func in _MATMUL:
        return _of_matmul(first, second, together)
    if not first or not second:
        return None
    if func in _INNER:
        return [*first[:-1], *second[:-1]]
    gone = [{dim % len(shape) for dim in dims} for shape, dims in zip((first, second), args[2:4])]
    return [size for shape, dims in zip((first, second), gone) for dim, size in enumerate(shape) if dim not in dims]


def _of_einsum(equation: str, shapes: Sequence[Sequence[Any]], together: Together) -> Sizes | None:
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    if "." in equation or len(terms) != len(shapes) or any(len(term) != len(shape) for term, shape in zip(terms, shapes)):
        return None
    if not arrow:
        result = "".join(sorted(label for label in set(given) - {","} if given.count(label) == 1))
    known: dict[str, Any] = {}
    for term, shape in zip(terms, shapes):
        for label, size in zip(term, shape):
            known[label] = together(known[label], size) if label in known else size
    return [known[label] for label in result] if set(result) <= set(known) else None


def _of_matmul(first: Sequence[Any], second: Sequence[Any], together: Together) -> Sizes | None:
    """Return the sizes of a product of batches of matrices."""
    if len(first) < 2 or len(second) < 2 or len(first) + len(second) < 6:
        return None  # of one that has no batch the other's is the result's
    batches = first[:-2], second[:-2]
    count = max(map(len, batches))
    padded = [[1] * (count - len(batch)) + list(batch) for batch in batches]
    return [*(two if type(one) is int and one == 1 else together(one, two) for one, two in zip(*padded)), first[-2], second[-1]]
