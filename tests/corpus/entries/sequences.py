"""Sequence models: state spaces, buckets, routing, memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.corpus.registry import Subject, named, published


def _rows(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)) * scale


def _tokens(seed: int) -> torch.Tensor:
    return torch.randint(0, 20, (1, 16), generator=torch.Generator().manual_seed(seed))


def _mamba(parallel: bool) -> Callable[[], Subject]:
    def make() -> Subject:
        from mambapy.mamba import Mamba, MambaConfig

        model = Mamba(MambaConfig(d_model=8, n_layers=1, pscan=parallel))
        return Subject(model, [(_rows(1, 8, 8),), (_rows(1, 8, 8, scale=2.0),)])

    return make


named("mamba_by_parallel_scan", "mambapy", _mamba(True))
named("mamba_step_by_step", "mambapy", _mamba(False))


@published("xlstm")
def xlstm_stack() -> Subject:
    from xlstm import mLSTMBlockConfig, mLSTMLayerConfig, xLSTMBlockStack, xLSTMBlockStackConfig

    layer = mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=2)
    config = xLSTMBlockStackConfig(
        mlstm_block=mLSTMBlockConfig(mlstm=layer), context_length=8, num_blocks=1, embedding_dim=16, slstm_at=[]
    )
    return Subject(xLSTMBlockStack(config), [(_rows(1, 8, 16),), (_rows(1, 8, 16, scale=3.0),)])


def _language_model(module: str, kind: str, **options: Any) -> Callable[[], Subject]:
    def make() -> Subject:
        import importlib

        model = getattr(importlib.import_module(module), kind)
        made = model(num_tokens=20, dim=16, depth=1, max_seq_len=16, heads=2, causal=True, **options)
        return Subject(made, [(_tokens(1),), (_tokens(2),)])

    return make


named("reformer", "reformer_pytorch", _language_model("reformer_pytorch", "ReformerLM", bucket_size=4, n_hashes=2))
named(
    "sinkhorn_transformer", "sinkhorn_transformer", _language_model("sinkhorn_transformer", "SinkhornTransformerLM", bucket_size=4)
)
named(
    "routing_transformer", "routing_transformer",
    _language_model("routing_transformer", "RoutingTransformerLM", window_size=4, n_local_attn_heads=1),
)  # fmt: skip


@published("reformer_pytorch")
def attention_in_buckets() -> Subject:
    from reformer_pytorch import LSHSelfAttention

    attention = LSHSelfAttention(dim=16, heads=2, bucket_size=4, n_hashes=2, causal=True)
    return Subject(attention, [(_rows(1, 16, 16),), (_rows(1, 16, 16, scale=3.0),)])


@published("titans_pytorch")
def neural_memory() -> Subject:
    from titans_pytorch import NeuralMemory

    return Subject(NeuralMemory(dim=8, chunk_size=4), [(_rows(1, 8, 8),), (_rows(1, 8, 8, scale=3.0),)])


@published("native_sparse_attention_pytorch")
def sparse_attention_in_blocks() -> Subject:
    from native_sparse_attention_pytorch import SparseAttention

    blocks = {"compress_block_size": 4, "compress_block_sliding_stride": 2, "selection_block_size": 4, "num_selected_blocks": 2}
    attention = SparseAttention(dim=16, dim_head=8, heads=2, sliding_window_size=2, **blocks)
    return Subject(attention, [(_rows(1, 15, 16),), (_rows(1, 15, 16, scale=3.0),)])


@published("ema_pytorch")
def moving_average_of_a_model() -> Subject:
    from ema_pytorch import EMA

    class Averaged(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.average = EMA(torch.nn.Linear(3, 2), beta=0.9, update_after_step=1, update_every=1)

        def forward(self, x):
            self.average.update()
            return self.average(x)

    return Subject(Averaged(), [(_rows(2, 3),)] * 3)
