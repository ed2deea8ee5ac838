"""Attention, normalisation and codebooks."""

from __future__ import annotations

from typing import Any

import torch

from tests.corpus.registry import Subject, named, published


def _scores() -> list[tuple[Any, ...]]:
    x = torch.tensor([[0.1, 2.0, -1.0, 0.5], [3.0, 3.1, 2.9, -8.0]])
    return [(x.clone().requires_grad_(),), ((x * 10).requires_grad_(),), ((x * 0).requires_grad_(),)]


def _entmax(name: str, **options: Any) -> Any:
    def make() -> Subject:
        import entmax

        function = getattr(entmax, name)
        return Subject(lambda x: function(x, dim=-1, **options), _scores())

    return make


for _name, _options in (
    ("sparsemax", {}),
    ("sparsemax", {"k": 2}),
    ("entmax15", {}),
    ("entmax15", {"k": 2}),
    ("entmax_bisect", {"alpha": 1.3}),
    ("budget_bisect", {"budget": 2}),
):
    named(f"{_name}{'_top_2' if 'k' in _options else ''}", "entmax", _entmax(_name, **_options))


@published("entmax")
def entmax_with_an_alpha_per_row() -> Subject:
    from entmax import entmax_bisect

    alpha = torch.tensor([[1.2], [1.9]], requires_grad=True)
    return Subject(lambda x, alpha: entmax_bisect(x, alpha), [(x, alpha) for (x,) in _scores()])


@published("entmax")
def sparsemax_loss() -> Subject:
    from entmax import SparsemaxLoss

    return Subject(SparsemaxLoss(), [(x, torch.tensor([1, 0])) for (x,) in _scores()])


def _codebook(**options: Any) -> Any:
    def make() -> Subject:
        from vector_quantize_pytorch import VectorQuantize

        torch.manual_seed(3)
        model = VectorQuantize(dim=8, codebook_size=16, **options)
        x = torch.randn(2, 10, 8)
        return Subject(model, [(x,), (x * 3 + 1,)])

    return make


named("vector_quantize", "vector_quantize_pytorch", _codebook())
named("vector_quantize_kmeans", "vector_quantize_pytorch", _codebook(kmeans_init=True, kmeans_iters=3))
named("vector_quantize_dead_codes", "vector_quantize_pytorch", _codebook(threshold_ema_dead_code=2))
named("vector_quantize_cosine", "vector_quantize_pytorch", _codebook(use_cosine_sim=True))


@published("vector_quantize_pytorch")
def residual_vq() -> Subject:
    from vector_quantize_pytorch import ResidualVQ

    torch.manual_seed(3)
    x = torch.randn(2, 10, 8)
    return Subject(ResidualVQ(dim=8, codebook_size=8, num_quantizers=3, quantize_dropout=False), [(x,), (x * 2,)])


@published("vector_quantize_pytorch")
def finite_scalar_quantization() -> Subject:
    from vector_quantize_pytorch import FSQ

    torch.manual_seed(3)
    x = torch.randn(2, 10, 4)
    return Subject(FSQ([8, 5, 5, 5]), [(x,), (x * 4,)])


@published("vector_quantize_pytorch")
def lookup_free_quantization() -> Subject:
    from vector_quantize_pytorch import LFQ

    torch.manual_seed(3)
    x = torch.randn(2, 10, 4)
    return Subject(LFQ(codebook_size=16, dim=4), [(x,), (x * 4,)])


@published("x_transformers")
def x_transformers_decoder() -> Subject:
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(
        num_tokens=20, max_seq_len=16, attn_layers=Decoder(dim=16, depth=2, heads=2, rotary_pos_emb=True)
    ).eval()
    return Subject(model, [(torch.randint(0, 20, (2, 8)),), (torch.randint(0, 20, (2, 8)),)])


@published("x_transformers")
def x_transformers_generation() -> Subject:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    inner = TransformerWrapper(num_tokens=10, max_seq_len=16, attn_layers=Decoder(dim=16, depth=1, heads=2))
    model = AutoregressiveWrapper(inner).eval()
    return Subject(
        lambda prompts: model.generate(prompts, 6, eos_token=3, temperature=1.0),
        [(torch.tensor([[1, 2]]),), (torch.tensor([[7, 5]]),)],
    )


@published("rotary_embedding_torch")
def rotary_embedding() -> Subject:
    from rotary_embedding_torch import RotaryEmbedding

    model = RotaryEmbedding(dim=8)
    return Subject(model.rotate_queries_or_keys, [(torch.randn(1, 2, 5, 8),), (torch.randn(1, 2, 9, 8),)], [model])


@published("local_attention")
def local_attention() -> Subject:
    from local_attention import LocalAttention

    model = LocalAttention(dim=8, window_size=4, causal=True, look_backward=1, autopad=True)
    return Subject(model, [tuple(torch.randn(1, 10, 8, requires_grad=True) for _ in range(3)) for _ in range(2)])


@published("performer_pytorch")
def performer_attention() -> Subject:
    from performer_pytorch import SelfAttention

    model = SelfAttention(dim=16, heads=2, causal=False, dim_head=8).eval()
    return Subject(model, [(torch.randn(1, 6, 16),), (torch.randn(1, 6, 16) * 3,)])


@published("nystrom_attention")
def nystrom_attention() -> Subject:
    from nystrom_attention import NystromAttention

    model = NystromAttention(dim=16, dim_head=8, heads=2, num_landmarks=4, pinv_iterations=6, residual=True)
    mask = torch.ones(1, 12, dtype=torch.bool)
    return Subject(model, [(torch.randn(1, 12, 16), mask), (torch.randn(1, 12, 16), mask.tril(-1).bool() | (torch.arange(12) < 9))])


@published("mixture_of_experts")
def mixture_of_experts() -> Subject:
    from mixture_of_experts import MoE

    torch.manual_seed(2)
    model = MoE(dim=8, num_experts=4, hidden_dim=16)
    return Subject(model, [(torch.randn(2, 8, 8),), (torch.randn(2, 8, 8) * 5,)])


@published("st_moe_pytorch")
def soft_top_moe() -> Subject:
    from st_moe_pytorch import MoE

    torch.manual_seed(2)
    model = MoE(dim=8, num_experts=4, gating_top_n=2, threshold_train=0.2, threshold_eval=0.2).eval()
    return Subject(model, [(torch.randn(2, 8, 8),), (torch.randn(2, 8, 8) * 5,)])


@published("colt5_attention")
def colt5_router() -> Subject:
    from colt5_attention import ConditionalRoutedFeedForward

    torch.manual_seed(2)
    model = ConditionalRoutedFeedForward(8, num_heavy_tokens=3, light_ff_mult=0.5, heavy_ff_mult=4)
    return Subject(model, [(torch.randn(2, 8, 8),), (torch.randn(2, 8, 8) * 5,)])


@published("ponder_transformer")
def ponder_transformer() -> Subject:
    from ponder_transformer import PonderTransformer

    model = PonderTransformer(num_tokens=11, dim=8, max_seq_len=8, causal=True, dim_head=4, heads=2, ponder_lambda_p=0.2)
    tokens = [tuple(torch.randint(0, 11, (1, 8)) for _ in range(2)) for _ in range(2)]
    return Subject(lambda x, labels: model(x, labels=labels), tokens, [model])


@published("ponder_transformer")
def ponder_transformer_halts() -> Subject:
    from ponder_transformer import PonderTransformer

    model = PonderTransformer(num_tokens=11, dim=8, max_seq_len=8, causal=True, dim_head=4, heads=2, ponder_lambda_p=0.2).eval()
    return Subject(model, [(torch.randint(0, 11, (2, 8)),) for _ in range(3)])


@published("vit_pytorch")
def adaptive_tokens() -> Subject:
    from vit_pytorch.ats_vit import ViT

    sizes = {"dim": 8, "depth": 2, "heads": 2, "mlp_dim": 8, "dim_head": 4}
    model = ViT(image_size=16, patch_size=4, num_classes=3, max_tokens_per_depth=(8, 4), **sizes).eval()
    return Subject(model, [(torch.randn(2, 3, 16, 16),), (torch.randn(2, 3, 16, 16),), (torch.zeros(2, 3, 16, 16),)])


@published("vit_pytorch")
def images_of_any_size() -> Subject:
    from vit_pytorch.na_vit import NaViT

    sizes = {"dim": 8, "depth": 1, "heads": 2, "mlp_dim": 8, "dim_head": 4}
    model = NaViT(image_size=16, patch_size=4, num_classes=3, token_dropout_prob=None, **sizes).eval()
    images = [(torch.randn(3, 16, 8), torch.randn(3, 8, 8)) for _ in range(2)]
    return Subject(lambda one, other: model([[one, other], [other]]), images)
