"""Arguments for a model, from the signature of its ``forward`` and its configuration."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.corpus.architectures.overrides import INPUTS

SIZES = ((2, 12), (3, 17))
"""Batch size and length of each call."""


class Arguments:
    """Makes the arguments of the calls of one model.

    Args:
        name: of the architecture.
        model: the model.
        number: of the call.
        images: whether models that find positions of words around images are given some, and not text alone.
    """

    def __init__(self, name: str, model: Any, number: int, images: bool = False) -> None:
        self.images = images
        self.name, self.model, self.config = name, model, model.config
        self.batch, self.length = SIZES[number]
        self.number = number
        self.features_asked = 0
        self.random = torch.Generator().manual_seed(number)
        self.parameters = {
            key: parameter
            for key, parameter in inspect.signature(type(model).forward).parameters.items()
            if key != "self" and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        }

    def candidates(self) -> Iterator[tuple[list[str], int]]:
        """Give names of arguments, the fullest set first, with the variant of the arguments."""
        fixed = INPUTS.get(self.name, {})
        needed = [key for key, p in self.parameters.items() if p.default is p.empty]
        main = [self.model.main_input_name] if self.model.main_input_name in self.parameters else []
        texts = [key for key in ("input_ids", "decoder_input_ids") if key in self.parameters]
        needs_grid = "mm_token_type_ids" in self.parameters and not self.images
        pixels = (
            []
            if needs_grid
            else [key for key in ("pixel_values", "image_grid_thw", "mm_token_type_ids", "image_sizes") if key in self.parameters]
        )
        sounds = [key for key in ("input_features", "input_values") if key in self.parameters]
        masks = ["attention_mask"] if "attention_mask" in self.parameters and "input_ids" in self.parameters else []
        sets = [
            [*needed, *main, *texts, *pixels, *masks], [*needed, *main, *texts, *pixels[:1], *masks], [*needed, *main, *texts, *sounds, *masks],
            [*needed, *main, *texts, *masks], [*needed, *main, *texts], [*needed, *main], [*needed, *pixels], [*needed, *sounds],
            [*needed], [*needed, *texts[:1]],
        ]  # fmt: skip
        seen: list[list[str]] = []
        for keys in sets:
            keys = list(dict.fromkeys([key for key in [*keys, *fixed] if fixed.get(key, 0) is not None]))
            if keys in seen or not keys:
                continue
            seen.append(keys)
            for variant in range(3 if {"pixel_values", "input_values", "input_features"} & set(keys) else 1):
                yield keys, variant

    def arguments(self, keys: list[str], variant: int) -> dict[str, Any]:
        """Return the arguments of a call."""
        self.random.manual_seed(self.number)
        return {key: self._argument(key, INPUTS.get(self.name, {}), variant) for key in keys}

    def learns(self, message: str) -> bool:
        """Tell whether another try with as many special words as an error asks for makes sense."""
        asked = re.search(r"tokens: \D*(\d+),? .*features:? \D*(\d+)", message)
        if asked is None or self.features_asked or "image" not in message.lower():
            return False
        self.features_asked = int(asked[2]) // SIZES[0][0]
        return True

    def _argument(self, key: str, fixed: dict[str, Any], variant: int) -> Any:
        if key in fixed:
            return fixed[key](self) if callable(fixed[key]) else fixed[key]
        if key not in MAKERS:
            raise LookupError(key)
        return MAKERS[key](self, variant)

    def get(self, *names: str, default: Any = None, part: tuple[str, ...] = ()) -> Any:
        """Return the first of some fields of the configuration, or of the configurations in it."""
        parts = [getattr(self.config, key, None) for key in part]
        for config, name in itertools.product([*filter(None, parts), self.config], names):
            value = getattr(config, name, None)
            if value is not None:
                return value
        return default

    def floats(self, *sizes: int) -> torch.Tensor:
        """Return random numbers."""
        return torch.randn(*sizes, generator=self.random)

    def ints(self, high: int, *sizes: int, low: int = 0) -> torch.Tensor:
        """Return random whole numbers."""
        return torch.randint(low, high, sizes, generator=self.random)

    def ids(self, length: int | None = None) -> torch.Tensor:
        """Return numbers of words that have no special meaning."""
        size = self.get("vocab_size", part=("text_config", "llm_config", "encoder", "text_encoder"), default=100)
        words = self.ints(min(size if isinstance(size, int) else 100, 190), self.batch, length or self.length, low=5)
        if not self.features_asked or length is not None:
            return words
        token = self.get("image_token_id", "image_token_index", part=("text_config",))
        return torch.cat([words[:, :2], torch.full((self.batch, self.features_asked), token), words[:, 2:]], 1)

    def kinds(self) -> torch.Tensor:
        """Return which words stand for images."""
        kinds = torch.zeros(self.batch, self.length + self.features_asked, dtype=torch.long)
        kinds[:, 2 : 2 + self.features_asked] = 1
        return kinds

    def image(self, variant: int) -> torch.Tensor:
        """Return images; the second variant has pairs of them, or videos, the third is larger."""
        where = ("vision_config", "backbone_config", "encoder", "image_config")
        size = self.get("image_size", "img_size", "pretrain_image_size", part=where, default=64)
        size = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
        channels = self.get("num_channels", "in_channels", "in_chans", part=where, default=3)
        channels = channels if isinstance(channels, int) else 3
        if "image_grid_thw" in self.parameters and variant == 0:
            return self.patches(channels)
        many = (self.get("num_frames", part=where, default=2),) if variant == 1 else ()
        return self.floats(self.batch, *many, channels, *(s * (2 if variant == 2 else 1) for s in size))

    def patches(self, channels: int) -> torch.Tensor:
        """Return an image of 4 x 4 patches for each text, each patch a row."""
        where = ("vision_config",)
        patch, frames = self.get("patch_size", part=where), self.get("temporal_patch_size", part=where, default=1)
        return self.floats(self.batch * 16, channels * frames * patch * patch)

    def padding(self) -> torch.Tensor:
        """Return a mask whose last row ends early."""
        mask = torch.ones(self.batch, self.length + self.features_asked, dtype=torch.long)
        mask[-1, -3:] = 0
        return mask

    def features(self, variant: int) -> torch.Tensor:
        """Return a spectrogram; the variants have the time first."""
        where = ("audio_config", "encoder_config", "encoder", "audio_encoder_config")
        bins = self.get("num_mel_bins", "input_feat_per_channel", "feature_size", "n_mels", part=where, default=80)
        frames = self.get("max_source_positions", part=where, default=None)
        if variant == 2:
            return self.floats(self.batch, 8 * self.length, self.get("hidden_size", "input_dim", part=where, default=80))
        return (
            self.floats(self.batch, bins, 2 * frames) if frames and not variant else self.floats(self.batch, 8 * self.length, bins)
        )

    def wave(self, variant: int) -> torch.Tensor:
        """Return sound; the second variant has a dimension for the channels."""
        channels = self.get("audio_channels", "num_channels", default=1)
        size = (self.batch, channels if isinstance(channels, int) else 1) if variant else (self.batch,)
        return self.floats(*size, 320 * self.length)


MAKERS: dict[str, Callable[[Arguments, int], Any]] = {
    "input_ids": lambda a, _: a.ids(),
    "input": lambda a, _: a.ids(),
    "decoder_input_ids": lambda a, _: a.ids(a.length // 2),
    "qformer_input_ids": lambda a, _: a.ids(),
    "attention_mask": lambda a, _: a.padding(),
    "pixel_values": lambda a, v: a.image(v),
    "pixel_values_videos": lambda a, v: a.image(v).unsqueeze(1).repeat(1, a.get("num_frames", part=("vision_config", "video_config"), default=4), 1, 1, 1),
    "image_grid_thw": lambda a, _: torch.tensor([[1, 4, 4]] * a.batch),
    "mm_token_type_ids": lambda a, _: a.kinds(),
    "image_sizes": lambda a, _: torch.tensor([[64, 64]] * a.batch),
    "input_values": lambda a, v: a.wave(v),
    "input_features": lambda a, v: a.features(v),
    "bbox": lambda a, _: a.ints(400, a.batch, a.length, 2).repeat(1, 1, 2).sort(-1).values,
    "past_values": lambda a, _: a.floats(a.batch, a.get("context_length", default=a.length) + max(a.get("lags_sequence", default=[0])),
                                         *([a.get("num_input_channels", default=1)] if hasattr(a.config, "num_input_channels") else [])),
}  # fmt: skip
"""How arguments are made, by name."""
