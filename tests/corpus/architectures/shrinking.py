"""Small configurations: the numbers of a default configuration made small by what they are called."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

from tests.corpus.architectures.overrides import CONFIGURATIONS

VOCABULARY = 320
_FIRST_SPECIAL = 200
_WIDTH, _HEADS = 64, 4

_Rule = Callable[[int], int]
_FEW = 2
_LAYERS = r"(.*_)?(num_hidden_layers|n_layers?|num_layers|(en|de)coder_layers|num_(en|de)coder_layers|depth|num_(\w+_)?blocks)"
_COUNTS: list[tuple[str, _Rule]] = [
    (r"(.*_)?vocab_size(_per_layer_input)?", lambda n: min(n, VOCABULARY)),
    (r"num_mtp_layers|num_nextn_predict_layers", lambda n: min(n, 1)),
    (r"(.*_)?(num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts)", lambda n: min(n, 8)),
    (r"n_group|num_expert_groups?", lambda n: min(n, 2)),
    (r"topk_group", lambda n: min(n, 1)),
    (r"num_experts_per_(tok|token)|moe_topk|moe_k|top_k_experts|num_selected_experts|moe_num_experts_per_tok", lambda n: min(n, 2)),
    (r"max_(source|target)_positions|max_position_embeddings|n_positions", lambda n: min(n, 128)),
    (r"(.*_)?(codebook_size|num_codevectors_per_group)", lambda n: min(n, 64)),
    (r"(.*_)?num_queries|num_query_tokens|num_latents|resampler_n_latents", lambda n: min(n, 16)),
    (r"window_size|sliding_window", lambda n: min(n, 4 if n < 64 else 8)),
]  # fmt: skip
_WIDTHS: list[tuple[str, _Rule]] = [
    (r"(.*_)?(hidden_size|d_model|n_embd|hidden_dim|embed_dim|embedding_size|embedding_dim|emb_dim|query_dim|context_dim|projection_dim)",
     lambda n: min(n, _WIDTH)),
    (r"(.*_)?(out_hidden_size|output_dim|projection_size|projector_hidden_size|pooler_output_size|word_embed_dim)",
     lambda n: min(n, _WIDTH)),
    (r"(.*_)?(intermediate_size|ffn_dim|d_ff|n_inner|mlp_dim|dim_feedforward|ffn_hidden_size|inner_dim)(_mlp|_per_layer)?",
     lambda n: min(n, 2 * _WIDTH)),
    (r"(.*_)?(num_attention_heads|n_heads?|num_heads|attention_heads)", lambda n: min(n, _HEADS)),
    (r"(.*_)?(num_key_value_heads|num_kv_heads|n_kv_heads)", lambda n: min(n, 2)),
    (r"head_dim|d_kv|attention_head_size|global_head_dim|\w+_attn_head_dim", lambda n: min(n, 16)),
    (r"(.*_)?lora_rank", lambda n: min(n, 32)),
    (r"num_conv_pos_embeddings", lambda n: min(n, 16)),
    (r"num_conv_pos_embedding_groups", lambda n: min(n, 4)),
    (r"(.*_)?(conv_hidden_size|classifier_proj_size|codevector_dim|proj_codevector_dim|tdnn_dim|xvector_output_dim)",
     lambda n: min(n, 32)),
]  # fmt: skip
_WIDE: list[tuple[str, _Rule]] = [
    (_WIDTHS[0][0], lambda n: min(n, 512)), (_WIDTHS[1][0], lambda n: min(n, 512)), (_WIDTHS[2][0], lambda n: min(n, 512)),
    *_WIDTHS[3:5],
]  # fmt: skip
_LISTS = r"(.*_)?(hidden_sizes|embed_dims|dims|conv_dim|tdnn_dim|dim|encoder_hidden_size|channels|num_channels)"


class Shrinking:
    """How small a configuration is made.

    Args:
        layers: how many at most, where it says how many.
        rules: for what else has a number.
        lists: whether numbers in lists are made small.
    """

    def __init__(self, layers: int, rules: list[tuple[str, _Rule]], *, lists: bool) -> None:
        self.layers, self.lists = layers, lists
        self.rules = [(_LAYERS, lambda n: min(n, layers)), *_COUNTS, *rules]


LEVELS = (
    Shrinking(_FEW, _WIDTHS, lists=True), Shrinking(_FEW, _WIDTHS, lists=False), Shrinking(12, _WIDTHS, lists=False),
    Shrinking(_FEW, _WIDE, lists=False), Shrinking(_FEW, [], lists=False),
)  # fmt: skip
"""Ways to make a configuration small, the smallest first."""


def shrunk(cls: Any, how: Shrinking, name: str = "", **given: Any) -> Any:
    """Make a small configuration.

    Args:
        cls: its class.
        how: how small.
        name: of the architecture, for what it needs besides.
        given: what is not to be made small.

    Returns:
        The configuration.
    """
    extra = CONFIGURATIONS.get(name, {})
    given = {**given, **{key: value() if callable(value) else value for key, value in extra.items() if "." not in key}}
    default = vars(cls(**given))
    small: dict[str, Any] = {}
    numbers = iter(range(_FIRST_SPECIAL, VOCABULARY))
    for field in dataclasses.fields(cls):
        value = default.get(field.name)
        if field.name in given:
            continue
        if hasattr(value, "to_dict") and dataclasses.is_dataclass(value):
            small[field.name] = _part(value, field.name, how, extra)
        elif re.fullmatch(r".*_token_(id|index)|.*_id", field.name) and type(value) is int and value >= _FIRST_SPECIAL:
            small[field.name] = next(numbers)
        elif _was_given(field, value) or field.name == "vocab_size":
            small[field.name] = _smaller(field.name, value, how, default)
    for key, heads in (("num_key_value_heads", "num_attention_heads"), ("num_kv_heads", "num_attention_heads")):
        if key in small and heads in small and default[key] == default[heads]:
            small[key] = small[heads]
    layers = default.get("layer_types")
    if isinstance(layers, list) and how.layers == _FEW and "num_hidden_layers" in small:
        small["num_hidden_layers"] = _with_all_kinds(layers)
        if small.get("layer_types"):
            small["layer_types"] = layers[: small["num_hidden_layers"]]
    for key, value in small.items():  # what says something of each layer
        if isinstance(value, list) and len(value) == default.get("num_hidden_layers") and isinstance(value[0], str):
            small[key] = value[: small.get("num_hidden_layers", len(value))]
    return cls(**small, **given)


def _part(value: Any, name: str, how: Shrinking, extra: dict[str, Any]) -> Any:
    inner = {key.split(".", 1)[1]: item for key, item in extra.items() if key.startswith(f"{name}.")}
    return shrunk(type(value), how, value.model_type, **inner)


def _was_given(field: Any, value: Any) -> bool:
    """Whether a value is the field's own default: what is computed from others is computed again."""
    if field.default is not dataclasses.MISSING:
        return field.default is not None and (field.default == value or isinstance(value, (list, tuple, dict)))
    return field.default_factory is not dataclasses.MISSING


def _with_all_kinds(layers: list[str]) -> int:
    return next((n for n in range(2, 7) if set(layers[:n]) == set(layers)), 2)


def _smaller(name: str, value: Any, how: Shrinking, config: dict[str, Any]) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, list, tuple, dict)):
        return value
    if isinstance(value, (list, tuple)):
        return _smaller_list(name, value, how, config)
    if isinstance(value, dict):
        small = how.rules[-1][0] == _WIDTHS[-1][0]
        return {key: [2, 3, 3] if key == "mrope_section" and small else item for key, item in value.items()}
    if name in ("image_size", "img_size", "crop_size"):
        return _image_size(value, config)
    heads = config.get("num_heads") or config.get("num_attention_heads")
    if how.lists and name in ("embed_dim", "hidden_size") and isinstance(heads, (list, tuple)) and value >= 32:
        return 8 * heads[0]
    return next((rule(value) for pattern, rule in how.rules if re.fullmatch(pattern, name)), value)


def _smaller_list(name: str, value: Any, how: Shrinking, config: dict[str, Any]) -> Any:
    if not value or not all(type(item) is int for item in value):
        return value
    if name in ("image_size", "img_size"):
        return type(value)(_image_size(item, config) for item in value)
    if re.fullmatch(r"(.*_)?depths", name):
        return type(value)(min(item, 2) for item in value)
    if how.lists and re.fullmatch(_LISTS, name):
        common = math.gcd(*value)
        return type(value)(item * 8 // common for item in value) if common > 8 and common % 8 == 0 else value
    return value


def _image_size(size: int, config: dict[str, Any]) -> int:
    patch = config.get("patch_size")
    patch = patch[-1] if isinstance(patch, (list, tuple)) else patch
    patch = patch if isinstance(patch, int) and patch > 0 else 4
    return min(size, max(64 // patch, 2) * patch)
