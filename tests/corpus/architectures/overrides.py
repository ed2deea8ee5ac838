"""What single architectures need to be built small, and to be called."""

from __future__ import annotations

import functools
from typing import Any

import torch


def _residual(*stages: str) -> Any:
    from transformers import ResNetConfig

    return ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], layer_type="basic", out_features=list(stages)
    )


_RESIDUAL = functools.partial(_residual, "stage1", "stage2", "stage3", "stage4")
_LAST_THREE = functools.partial(_residual, "stage2", "stage3", "stage4")


def _plain_vision() -> Any:
    from transformers import Dinov2Config

    return Dinov2Config(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, image_size=56, patch_size=14,
        out_features=["stage1", "stage2", "stage3", "stage4"], reshape_hidden_states=False,
    )  # fmt: skip


def _plain_map() -> Any:
    from transformers import VitDetConfig

    return VitDetConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=64, pretrain_image_size=64, patch_size=16,
        out_features=["stage2"], window_size=0, residual_block_indices=[], num_channels=4,
    )  # fmt: skip


def _plain_beit() -> Any:
    from transformers import BeitConfig

    return BeitConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=64, image_size=64, patch_size=16,
        out_features=["stage1", "stage2", "stage3", "stage4"], reshape_hidden_states=False,
    )  # fmt: skip


def _windows() -> Any:
    from transformers import SwinConfig

    return SwinConfig(
        embed_dim=24, depths=[1, 1, 1, 1], num_heads=[3, 3, 3, 3], image_size=64, patch_size=4, window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )  # fmt: skip


def _hgnet() -> Any:
    from transformers import HGNetV2Config

    return HGNetV2Config(out_features=["stage2", "stage3", "stage4"])


_DEPTH = {
    "backbone_config": _plain_vision, "reassemble_hidden_size": 32, "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 8,
}  # fmt: skip
_EFFICIENT = {"width_coefficient": 0.2, "depth_coefficient": 0.2, "hidden_dim": 256}
_SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "alpha": 1.0}

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "detr": {"backbone_config": _RESIDUAL},
    "conditional_detr": {"backbone_config": _RESIDUAL},
    "dab_detr": {"backbone_config": _RESIDUAL},
    "dab-detr": {"backbone_config": _RESIDUAL},
    "deformable_detr": {"backbone_config": _LAST_THREE},
    "table_transformer": {"backbone_config": _RESIDUAL},
    "omdet_turbo": {"backbone_config": _LAST_THREE},
    "ministral": {"rope_parameters": _ROPE, "head_dim": 16},
    "hunyuan_v1_dense": {"rope_parameters": _ROPE, "head_dim": 16},
    "hunyuan_v1_moe": {"rope_parameters": _ROPE, "head_dim": 16},
    "hunyuan_vl_text": {"rope_parameters": {**_ROPE, "xdrope_section": [2, 2, 2, 2]}, "head_dim": 16},
    "nemotron": {"num_key_value_heads": 2},
    "nemotron_h": {"n_groups": 2},
    "glm4v_text": {"rope_parameters": _SECTIONS},
    "glm_image_text": {"rope_parameters": _SECTIONS},
    "glm_ocr_text": {"rope_parameters": _SECTIONS, "head_dim": 16},
    "glm4v_moe_text": {"rope_parameters": {**_SECTIONS, "mrope_section": [1, 1, 2]}},
    "qwen2_vl_text": {"rope_parameters": _SECTIONS},
    "qwen2_5_vl_text": {"rope_parameters": _SECTIONS},
    "paddleocr_vl_text": {"rope_parameters": _SECTIONS},
    "kosmos2": {"latent_query_num": 4},
    "kosmos-2": {"latent_query_num": 4},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "llama4_vision_model": {
        "projector_input_dim": 64,
        "projector_output_dim": 64,
        "vision_output_dim": 64,
        "intermediate_size": 256,
    },
    "lw_detr": {"projector_scale_factors": [1.0]},
    "molmo2": {"adapter_config.vision_feature_layer": [1, 0]},
    "perceiver": {
        "d_latents": 64,
        "d_model": 64,
        "num_latents": 16,
        "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4,
        "num_cross_attention_heads": 4,
    },
    "dots1": {"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "diffusion_gemma_text": {"num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 32},
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}},
    "deepseek_ocr2_text": {"num_experts_per_tok": 2, "mlp_layer_types": ["dense", "sparse"], "num_hidden_layers": 2},
    "d_fine": {"backbone_config": _hgnet},
    "deimv2": {"backbone_config": _hgnet},
    "pp_doclayout_v2": {"backbone_config": _hgnet},
    "pp_doclayout_v3": {"backbone_config": _hgnet},
    "pp_doclayout_v4": {"backbone_config": _hgnet},
    "rt_detr": {"backbone_config": _LAST_THREE, "encoder_in_channels": [16, 24, 32]},
    "rt_detr_v2": {"backbone_config": _LAST_THREE, "encoder_in_channels": [16, 24, 32]},
    "efficientnet": _EFFICIENT,
    "align_vision_model": _EFFICIENT,
    "xmod": {"default_language": "en_XX"},
    "zoedepth": {
        "backbone_config": _plain_beit,
        "neck_hidden_sizes": [8, 8, 16, 16],
        "fusion_hidden_size": 8,
        "bottleneck_features": 8,
    },
    "vibevoice_acoustic_tokenizer": {"num_filters": 4, "depths": [1] * 7},
    "vibevoice_acoustic_tokenizer_encoder": {"num_filters": 4, "depths": [1] * 7},
    "vibevoice_semantic_tokenizer": {"num_filters": 4, "depths": [1] * 7},
    "tvp": {"max_img_size": 64, "visual_prompt_size": 8},
    "step3p7": {"text_config.sliding_window": 8},
    "seggpt": {"image_size": [128, 64]},
    "sam2_vision_model": {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
    "sam3_vision_model": {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]},
    "reformer": {"axial_pos_embds_dim": [16, 48], "axial_pos_shape": [4, 8], "attn_layers": ["local", "lsh"]},
    "rag": {"n_docs": 1},
    "mask2former": {"backbone_config": _windows},
    "upernet": {"backbone_config": _RESIDUAL},
    "vitmatte": {"backbone_config": _plain_map, "fusion_hidden_sizes": [8, 8, 8, 8], "convstream_hidden_sizes": [8, 8, 8]},
    "blip_2": {"image_token_index": 199},
    "instructblip": {"image_token_index": 199},
    "instructblipvideo": {"video_token_index": 199},
    "blt": {"encoder_hash_byte_group_vocab": 500},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "chameleon": {"vocabulary_map": {"<image>": 199, "IMGIMGAZ": 198, "IMGIMGBZ": 197}},
    "emu3": {
        "vocabulary_map": {"<image>": 199, "<|extra_200|>": 198, "<|visual token 000000|>": 197, "<|visual token 000001|>": 196}
    },
    "fun_asr_nano": {"adaptor_config.intermediate_size": 16},
    "gemma3n_text": {
        "num_hidden_layers": 5,
        "intermediate_size": [128] * 5,
        "activation_sparsity_pattern": [0.5, 0.5, 0.0, 0.0, 0.0],
    },
    "hiera": {"image_size": [224, 224]},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8}, "d_model": 64, "n_heads": 4},
    "depth_anything": _DEPTH,
    "prompt_depth_anything": _DEPTH,
    "audio_spectrogram_transformer": {"max_length": 64},
    "audio-spectrogram-transformer": {"max_length": 64},
    "mamba2": {"num_heads": 8, "head_dim": 16, "hidden_size": 64, "n_groups": 2},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "bamba": {"attn_layer_indices": [1]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"], "num_hidden_layers": 2},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "codegen": {"rotary_dim": 8},
    "gptj": {"rotary_dim": 8},
    "autoformer": {"prediction_length": 6, "context_length": 12},
    "informer": {"prediction_length": 6, "context_length": 12},
    "time_series_transformer": {"prediction_length": 6, "context_length": 12},
}
"""By the name or type of the model: fields of its configuration; ``part.field`` is one of a configuration inside."""

_SERIES = {
    "past_values": lambda a: a.floats(a.batch, 19), "past_time_features": lambda a: a.floats(a.batch, 19, 0),
    "past_observed_mask": lambda a: torch.ones(a.batch, 19), "future_values": lambda a: a.floats(a.batch, 6),
    "future_time_features": lambda a: a.floats(a.batch, 6, 0),
}  # fmt: skip

INPUTS: dict[str, dict[str, Any]] = {
    "align": {"attention_mask": lambda a: a.padding()},
    "layoutlmv3": {"pixel_values": None},
    "autoformer": _SERIES,
    "informer": _SERIES,
    "time_series_transformer": _SERIES,
    "audio_spectrogram_transformer": {"input_values": lambda a: a.floats(a.batch, 64, 128)},
    "granite_speech5": {"input_features": lambda a: a.floats(a.batch, 8 * a.length, 320)},
    "neucodec": {"input_values": lambda a: a.wave(1), "input_features": lambda a: a.floats(a.batch, 8 * a.length, 160)},
    "wav2vec2_bert": {"input_features": lambda a: a.floats(a.batch, 8 * a.length, 160)},
    "kyutai_speech_to_text": {"input_ids": lambda a: a.ints(60, a.batch, a.length, 33, low=5)},
    "kosmos2": {"image_embeds_position_mask": lambda a: (torch.arange(a.length) < 4).long().repeat(a.batch, 1)},
"lightglue": {"pixel_values": lambda a: a.floats(a.batch, 2, 3, 32, 32)},
    "bros": {"bbox": lambda a: torch.rand(a.batch, a.length, 8, generator=a.random)},
    "clap": {"input_features": lambda a: a.floats(a.batch, 1, 1001, 64)},
    "xcodec2": {"input_values": lambda a: a.wave(1), "input_features": lambda a: a.floats(a.batch, 8 * a.length, 160)},
    "vitmatte": {"pixel_values": lambda a: a.floats(a.batch, 4, 64, 64)},
    "timesfm": {"past_values": lambda a: a.floats(a.batch, 64), "past_values_padding": lambda a: torch.zeros(a.batch, 64),
                "freq": lambda a: torch.zeros(a.batch, 1, dtype=torch.long)},
    "siglip2": {"pixel_values": lambda a: a.floats(a.batch, 16, 768), "spatial_shapes": lambda a: torch.tensor([[4, 4]] * a.batch),
                "pixel_attention_mask": lambda a: torch.ones(a.batch, 16, dtype=torch.long)},
    "clvp": {"input_features": lambda a: a.floats(a.batch, 80, 40)},
    "udop": {"bbox": lambda a: torch.rand(a.batch, a.length, 4, generator=a.random).sort(-1).values},
    "rag": {"context_input_ids": lambda a: a.ids(), "context_attention_mask": lambda a: a.padding(),
            "doc_scores": lambda a: a.floats(a.batch, 1)},
    "lxmert": {"visual_feats": lambda a: a.floats(a.batch, 5, a.config.visual_feat_dim),
               "visual_pos": lambda a: a.floats(a.batch, 5, a.config.visual_pos_dim)},
    "speech_to_text": {"input_features": lambda a: a.floats(a.batch, 8 * a.length, 80), "decoder_input_ids": lambda a: a.ids(6)},
    "speecht5": {"input_values": lambda a: a.floats(a.batch, a.length, 64), "decoder_input_values": lambda a: a.floats(a.batch, 8, 64)},
    "decision_transformer": {
        "states": lambda a: a.floats(a.batch, a.length, a.config.state_dim), "actions": lambda a: a.floats(a.batch, a.length, a.config.act_dim),
        "rewards": lambda a: a.floats(a.batch, a.length, 1), "returns_to_go": lambda a: a.floats(a.batch, a.length, 1),
        "timesteps": lambda a: a.ints(50, a.batch, a.length), "attention_mask": lambda a: a.padding(),
    },
    "pix2struct": {"flattened_patches": lambda a: a.floats(a.batch, a.length, 770).abs(), "decoder_input_ids": lambda a: a.ids(6)},
    "speech_encoder_decoder": {"input_values": lambda a: a.wave(0), "decoder_input_ids": lambda a: a.ids(6)},
    "seggpt": {
        "pixel_values": lambda a: a.floats(a.batch, 3, 64, 64), "prompt_pixel_values": lambda a: a.floats(a.batch, 3, 64, 64),
        "prompt_masks": lambda a: a.floats(a.batch, 3, 64, 64),
    },
    "perceiver": {"inputs": lambda a: a.floats(a.batch, a.length, a.config.d_model)},
    "idefics": {"pixel_values": lambda a: a.image(0).unsqueeze(1), "image_attention_mask": lambda a: torch.ones(a.batch, a.length, 1)},
}  # fmt: skip
"""By the name of the architecture: arguments by name, or functions that make them; ``None`` for one that is not given."""
