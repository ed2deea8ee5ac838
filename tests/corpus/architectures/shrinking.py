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
_LAYERS: list[tuple[str, _Rule]] = [
    (
        r"(.*_)?(num_hidden_layers|n_layers?|num_layers|(en|de)coder_layers|num_(en|de)coder_layers|depth|num_(\w+_)?blocks)",
        lambda n: min(n, 2),
    ),
    (r"(.*_)?vocab_size(_per_layer_input)?", lambda n: min(n, VOCABULARY)),
    (r"num_mtp_layers|num_nextn_predict_layers", lambda n: min(n, 1)),
]
_WIDTHS: list[tuple[str, _Rule]] = [
    (r"(.*_)?(hidden_size|d_model|n_embd|hidden_dim|embed_dim|embedding_size|embedding_dim|emb_dim|query_dim|context_dim|projection_dim)",
     lambda n: min(n, _WIDTH)),
    (r"(.*_)?(out_hidden_size|output_dim|projection_size|projector_hidden_size|pooler_output_size|word_embed_dim)", lambda n: min(n, _WIDTH)),
    (r"(.*_)?(intermediate_size|ffn_dim|d_ff|n_inner|mlp_dim|dim_feedforward|ffn_hidden_size|inner_dim)(_mlp|_per_layer)?", lambda n: min(n, 2 * _WIDTH)),
    (r"(.*_)?(num_attention_heads|n_heads?|num_heads|attention_heads)", lambda n: min(n, _HEADS)),
    (r"(.*_)?(num_key_value_heads|num_kv_heads|n_kv_heads)", lambda n: min(n, 2)),
    (r"(.*_)?head_dim|d_kv|attention_head_size", lambda n: min(n, 16)),
    (r"(.*_)?(num_experts|num_local_experts|n_routed_experts|moe_num_experts)", lambda n: min(n, 8)),
    (r"(.*_)?lora_rank", lambda n: min(n, 32)),
    (r"max_(source|target)_positions", lambda n: min(n, 64)),
    (r"(.*_)?(codebook_size|num_codevectors_per_group)", lambda n: min(n, 64)),
    (r"(.*_)?num_queries|num_query_tokens|num_latents|resampler_n_latents", lambda n: min(n, 16)),
    (r"num_conv_pos_embeddings", lambda n: min(n, 16)),
    (r"num_conv_pos_embedding_groups", lambda n: min(n, 4)),
    (r"(.*_)?(conv_hidden_size|classifier_proj_size|codevector_dim|proj_codevector_dim|tdnn_dim|xvector_output_dim)", lambda n: min(n, 32)),
]  # fmt: skip
_LISTS = r"(.*_)?(hidden_sizes|embed_dims|dims|conv_dim|tdnn_dim|dim|encoder_hidden_size|channels|num_channels)"


def shrunk(cls: type, level: int, name: str = "", **given: Any) -> Any:
    """Make a small configuration.

    Args:
        cls: its class.
        level: 0 makes all that is known small, 1 only the number of layers and words.
        name: of the architecture, for what it needs besides.
        given: what is not to be made small.

    Returns:
        The configuration.
    """
    extra = CONFIGURATIONS.get(name, {})
    given = {**given, **{key: value for key, value in extra.items() if "." not in key}}
    default = cls(**given)
    small: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        value = getattr(default, field.name, None)
        if field.name in given and not hasattr(value, "to_dict"):
            continue
        if hasattr(value, "to_dict") and dataclasses.is_dataclass(value):
            small[field.name] = _part(value, field.name, level, extra)
        elif _was_given(field, value) or field.name == "vocab_size":
            small[field.name] = _smaller(field.name, value, level, default)
    numbers = iter(range(_FIRST_SPECIAL, VOCABULARY))
    for field in dataclasses.fields(cls):
        value = getattr(default, field.name, None)
        if re.fullmatch(r".*_token_(id|index)|.*_id", field.name) and type(value) is int and value >= _FIRST_SPECIAL:
            small[field.name] = next(numbers)
    small = {key: value for key, value in small.items() if key not in given}
    layers = getattr(default, "layer_types", None)
    if isinstance(layers, list) and "num_hidden_layers" in small:
        small["num_hidden_layers"] = _with_all_kinds(layers)
        if small.get("layer_types"):
            small["layer_types"] = layers[: small["num_hidden_layers"]]
    return cls(**small, **{key: value for key, value in given.items() if value is not ...})


def _part(value: Any, name: str, level: int, extra: dict[str, Any]) -> Any:
    inner = {key.split(".", 1)[1]: item for key, item in extra.items() if key.startswith(f"{name}.")}
    return shrunk(type(value), level, value.model_type, **inner)


def _was_given(field: Any, value: Any) -> bool:
    """Whether a value is the field's own default: what is computed from others is computed again."""
    if field.default is not dataclasses.MISSING:
        return field.default is not None and (field.default == value or isinstance(value, (list, tuple, dict)))
    return field.default_factory is not dataclasses.MISSING


def _with_all_kinds(layers: list[str]) -> int:
    return next((n for n in range(2, 7) if set(layers[:n]) == set(layers)), 2)


def _smaller(name: str, value: Any, level: int, config: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, list, tuple, dict)):
        return value
    if isinstance(value, int):
        if name in ("image_size", "img_size", "crop_size"):
            return _image_size(value, config)
        rules = [*_LAYERS, *(_WIDTHS if level == 0 else [])]
        found = next((rule(value) for pattern, rule in rules if re.fullmatch(pattern, name)), value)
        heads = getattr(config, "num_heads", None) or getattr(config, "num_attention_heads", None)
        if level == 0 and name in ("embed_dim", "hidden_size") and isinstance(heads, (list, tuple)) and value >= 32:
            return 8 * heads[0]
        return found
    if isinstance(value, dict):
        return {key: [2, 3, 3] if key == "mrope_section" and level == 0 else item for key, item in value.items()}
    return _smaller_list(name, value, level, config)


def _smaller_list(name: str, value: Any, level: int, config: Any) -> Any:
    if not value or not all(type(item) is int for item in value):
        return value
    if name in ("image_size", "img_size"):
        return type(value)(_image_size(item, config) for item in value)
    if re.fullmatch(r"(.*_)?depths", name):
        return type(value)(min(item, 2) for item in value)
    if level == 0 and re.fullmatch(_LISTS, name):
        common = math.gcd(*value)
        return type(value)(item * 8 // common for item in value) if common > 8 and common % 8 == 0 else value
    return value


def _image_size(size: int, config: Any) -> int:
    patch = getattr(config, "patch_size", None)
    patch = patch[-1] if isinstance(patch, (list, tuple)) else patch
    patch = patch if isinstance(patch, int) and patch > 0 else 4
    return min(size, max(64 // patch, 2) * patch)
