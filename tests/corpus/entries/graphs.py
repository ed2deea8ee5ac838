"""Graph networks."""

from __future__ import annotations

from typing import Any

import torch

from tests.corpus.registry import Subject, named, published

_edges = (torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 0, 3]]), torch.tensor([[0, 0, 0, 0, 1], [1, 2, 3, 4, 4]]))


def _graphs(seed: int = 1) -> list[tuple[Any, ...]]:
    torch.manual_seed(seed)
    return [(torch.randn(5, 4, requires_grad=True), edges) for edges in _edges]


def _layer(name: str, **options: Any) -> Any:
    def make() -> Subject:
        import torch_geometric.nn as gnn

        return Subject(getattr(gnn, name)(4, 4, **options), _graphs())

    return make


for _name, _options in (
    ("GCNConv", {}),
    ("GATv2Conv", {"heads": 2}),
    ("SAGEConv", {}),
    ("TransformerConv", {}),
    ("ChebConv", {"K": 2}),
):
    named(f"graph_{_name}", "torch_geometric", _layer(_name, **_options))


@published("torch_geometric")
def graph_top_k_pooling() -> Subject:
    from torch_geometric.nn import TopKPooling

    return Subject(TopKPooling(4, ratio=0.5), _graphs())


@published("torch_geometric")
def graph_to_dense() -> Subject:
    from torch_geometric.utils import to_dense_adj, to_dense_batch

    def run(x, edges, batch):
        return to_dense_batch(x, batch), to_dense_adj(edges, batch)

    batches = (torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 1, 1, 1]))
    return Subject(run, [(x, e % 1, b) for (x, e), b in zip(_graphs(), batches)])


@published("torch_geometric")
def graph_coalesce_and_loops() -> Subject:
    from torch_geometric.utils import add_remaining_self_loops, coalesce, remove_self_loops, to_undirected

    def run(edges):
        edges, _ = remove_self_loops(edges)
        edges = to_undirected(coalesce(edges))
        return add_remaining_self_loops(edges)[0]

    return Subject(run, [(e,) for e in _edges])
