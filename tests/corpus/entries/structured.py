"""Structured prediction: conditional random fields, trees, alignments."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.corpus.registry import Subject, named, published


def _scores(*shape: int, seed: int = 1, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).requires_grad_()


_TAGS = torch.tensor([[0, 3, 1, 1, 2], [2, 2, 0, 1, 3]])
_ALL, _SOME = torch.ones(2, 5, dtype=torch.bool), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)


@published("torchcrf")
def crf_likelihood() -> Subject:
    from torchcrf import CRF

    return Subject(CRF(4, batch_first=True), [(_scores(2, 5, 4), _TAGS, mask) for mask in (_ALL, _SOME)])


@published("torchcrf")
def crf_decode() -> Subject:
    from torchcrf import CRF

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.crf = CRF(4, batch_first=True)

        def forward(self, emissions, mask):
            return self.crf.decode(emissions, mask)

    return Subject(Decoder(), [(_scores(2, 5, 4), _ALL), (_scores(2, 5, 4, seed=4), _SOME)])


@published("TorchCRF")
def crf_viterbi() -> Subject:
    from TorchCRF import CRF

    return Subject(CRF(4, use_gpu=False).viterbi_decode, [(_scores(2, 5, 4), _ALL), (_scores(2, 5, 4, seed=4), _SOME)])


def _partition(kind: str, shape: tuple[int, ...]) -> Callable[[], Subject]:
    def make() -> Subject:
        import torch_struct

        return Subject(lambda x: getattr(torch_struct, kind)(x).partition, [(_scores(*shape, scale=s),) for s in (1.0, 5.0)])

    return make


for _kind, _shape in (
    ("LinearChainCRF", (2, 4, 3, 3)),
    ("DependencyCRF", (2, 4, 4)),
    ("SemiMarkovCRF", (1, 4, 3, 2, 2)),
    ("TreeCRF", (1, 4, 4, 3)),
):
    named(f"partition_of_{_kind}", "torch_struct", _partition(_kind, _shape))


@published("torch_struct")
def marginals_of_chains() -> Subject:
    import torch_struct

    def run(x, lengths):
        chains = torch_struct.LinearChainCRF(x, lengths=lengths)
        return chains.marginals, chains.argmax

    return Subject(run, [(_scores(2, 4, 3, 3).detach(), torch.tensor(lengths)) for lengths in ([5, 5], [3, 5])])


@published("linear_crf", saves=True)
def crf_of_rows_likelihood() -> Subject:
    from linear_crf import LinearCRF

    return Subject(LinearCRF(4, batch_first=True), [(_scores(2, 5, 4), _TAGS, mask) for mask in (_ALL, _SOME)])


@published("linear_crf")
def crf_of_rows_decode() -> Subject:
    from linear_crf import LinearCRF

    crf = LinearCRF(4, batch_first=True)
    return Subject(lambda scores, mask: crf.decode(scores, mask), [(_scores(2, 5, 4), _ALL), (_scores(2, 5, 4, seed=4), _SOME)])


@published("pytorch_partial_crf", saves=True)
def crf_of_partial_tags() -> Subject:
    from pytorch_partial_crf import PartialCRF

    partial = torch.where(_ALL.cumsum(1) % 2 == 0, _TAGS, -1)
    return Subject(PartialCRF(4), [(_scores(2, 5, 4), partial), (_scores(2, 5, 4, seed=4), _TAGS)])


@published("torch_treecrf")
def orders_of_a_tree() -> Subject:
    import torch_treecrf

    def run(adjacency):
        parents, children = torch_treecrf._parent_indices(adjacency), torch_treecrf._child_indices(adjacency)
        walk = torch_treecrf._downward_walk(adjacency, parents, children)
        return walk, torch_treecrf._upward_walk(adjacency, parents, children)

    bush = torch.tensor([[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    chain = torch.tensor([[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    return Subject(run, [(bush,), (chain,)])
