"""Adds up matrix products inside of one product, before Inductor sees them: it leaves each as a call of its own.

    a1 @ b1 + a2 @ b2      →   [a1 a2] @ [b1; b2]

Such is the gradient of a weight that several iterations of a loop use. Products with a short inner dimension take the time of
writing their result, so one takes the time of each of them. The sum is rounded otherwise, as all that is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten


def join_sums(graph: fx.Graph) -> None:
    """Rewrite a graph of ATen operators that AOTAutograd made; it stays as it is where nothing is gained.

    Args:
        graph: one in which nothing is changed in place; its nodes have abstract values for their values, ``meta["val"]``.
    """
    results: dict[Any, fx.Node] = {}
    sums = [node for node in graph.find_nodes(op="call_function", target=aten.add.Tensor) if _is_sum(node)]
    for node in [node for node in sums if len(node.users) != 1 or not _is_sum(next(iter(node.users)))]:
        terms = list(_terms(node))
        products = [term for term in terms if term.target is aten.mm.default and len(term.users) == 1]
        if len(products) < 2 or not _pays(products):
            continue
        with graph.inserting_before(node):
            left = _side_by_side(graph, [term.args[0] for term in products], 1, results)
            right = _side_by_side(graph, [term.args[1] for term in products], 0, results)
            total = _call(graph, aten.mm.default, left, right)
            for term in terms:
                if term not in products:
                    total = _call(graph, aten.add.Tensor, term, total)
        node.replace_all_uses_with(total)
    if results:
        graph.eliminate_dead_code()
        graph.lint()


def _is_sum(node: fx.Node) -> bool:
    """Tell whether a node adds two matrices of its own shape and dtype."""
    if node.target is not aten.add.Tensor or node.kwargs:
        return False
    return all(isinstance(term, fx.Node) and _kind(term) is not None and _kind(term) == _kind(node) for term in node.args)


def _terms(node: fx.Node) -> Iterator[fx.Node]:
    """Yield what a sum adds up, from left to right."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current is node or (len(current.users) == 1 and _is_sum(current)):
            waiting += reversed([term for term in current.args if isinstance(term, fx.Node)])
        else:
            yield current


def _pays(products: Sequence[fx.Node]) -> bool:
    """Tell whether laying operands side by side moves less memory than adding up results does."""
    operands = [tuple(map(_kind, term.args)) for term in products]
    if any(kind is None for pair in operands for kind in pair):
        return False
    rows, columns = products[0].meta["val"].shape
    length = sum(left[0][1] for left, _ in operands)  # type: ignore[index,misc]  # see above
    return bool(length * (rows + columns) <= len(products) * rows * columns)


def _kind(node: Any) -> tuple[tuple[int, ...], torch.dtype] | None:
    """Return the shape and dtype of a matrix whose sizes are known; ``None`` for any other value."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.dim() != 2 or not all(isinstance(size, int) for size in value.shape):
        return None
    return tuple(value.shape), value.dtype


def _side_by_side(graph: fx.Graph, parts: Sequence[Any], dim: int, results: dict[Any, fx.Node]) -> fx.Node:
    """Matrices one after the other; transposed ones are put together as they lie in memory.

    Args:
        graph: where they are.
        parts: the matrices.
        dim: along which dimension.
        results: what was put together already.
    """
    if all(part.target is aten.permute.default and list(part.args[1]) == [1, 0] for part in parts):
        inside = _side_by_side(graph, [part.args[0] for part in parts], 1 - dim, results)
        return _call(graph, aten.permute.default, inside, [1, 0])
    key = (tuple(parts), dim)
    if key not in results:
        results[key] = _call(graph, aten.cat.default, list(parts), dim)
    return results[key]


def _call(graph: fx.Graph, target: Any, *args: Any) -> fx.Node:
    """Return an operation with an abstract value for its value."""
    node = graph.call_function(target, args)
    values: Any = fx.node.map_arg(args, lambda used: used.meta["val"])
    first = next(value for value in torch.utils._pytree.tree_leaves(values) if isinstance(value, torch.Tensor))
    with first.fake_mode, torch.no_grad():  # type: ignore[attr-defined]  # abstract values
        node.meta["val"] = target(*values)
    return node
