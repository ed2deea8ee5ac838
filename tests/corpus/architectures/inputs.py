"""Arguments for a model, from the signature of its ``forward`` and its configuration."""

from __future__ import annotations

import inspect
import itertools
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
    """

    def __init__(self, name: str, model: Any, number: int) -> None:
        self.name, self.model, self.config = name, model, model.config
        self.batch, self.length = SIZES[number]
        self.number = number
        self.random = torch.Generator().manual_seed(number)
        self.parameters = {
            key: parameter
            for key, parameter in inspect.signature(type(model).forward).parameters.items()
            if key != "self" and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        }

    def candidates(self) -> Iterator[dict[str, Any]]:
        """Give sets of arguments, the fullest first."""
        fixed = INPUTS.get(self.name, {})
        needed = [key for key, p in self.parameters.items() if p.default is p.empty]
        main = [self.model.main_input_name] if self.model.main_input_name in self.parameters else []
        texts = [key for key in ("input_ids", "decoder_input_ids") if key in self.parameters]
        pixels = [key for key in ("pixel_values",) if key in self.parameters]
        masks = ["attention_mask"] if "attention_mask" in self.parameters and "input_ids" in self.parameters else []
        sets = [
            [*needed, *main, *texts, *pixels, *masks], [*needed, *main, *texts, *masks], [*needed, *main, *texts], [*needed, *main],
            [*needed, *pixels], [*needed], [*needed, *texts[:1]],
        ]  # fmt: skip
        seen: list[list[str]] = []
        for keys in sets:
            keys = list(dict.fromkeys([*keys, *fixed]))
            if keys in seen or not keys:
                continue
            seen.append(keys)
            for variant in range(2 if "pixel_values" in keys or "input_values" in keys else 1):
                self.random.manual_seed(self.number)
                try:
                    yield {key: self._argument(key, fixed, variant) for key in keys if fixed.get(key, 0) is not None}
                except LookupError:
                    continue

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
        return self.ints(min(size if isinstance(size, int) else 100, 190), self.batch, length or self.length, low=5)

    def image(self, variant: int) -> torch.Tensor:
        """Return images; the second variant is larger."""
        where = ("vision_config", "backbone_config", "encoder", "image_config")
        size = self.get("image_size", "img_size", "pretrain_image_size", part=where, default=64)
        size = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
        channels = self.get("num_channels", "in_channels", "in_chans", part=where, default=3)
        channels = channels if isinstance(channels, int) else 3
        return self.floats(self.batch, channels, *(s * (2 if variant else 1) for s in size))

    def padding(self) -> torch.Tensor:
        """Return a mask whose last row ends early."""
        mask = torch.ones(self.batch, self.length, dtype=torch.long)
        mask[-1, -3:] = 0
        return mask

    def features(self, variant: int) -> torch.Tensor:
        """Return a spectrogram."""
        where = ("audio_config", "encoder_config", "encoder", "audio_encoder_config")
        bins = self.get("num_mel_bins", "input_feat_per_channel", "feature_size", "n_mels", part=where, default=80)
        frames = self.get("max_source_positions", part=where, default=None)
        return self.floats(self.batch, bins, 2 * frames) if frames else self.floats(self.batch, 8 * self.length, bins)

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
    "pixel_values_videos": lambda a, v: a.image(v).unsqueeze(1).repeat(1, a.get("num_frames", default=4), 1, 1, 1),
    "input_values": lambda a, v: a.wave(v),
    "input_features": lambda a, v: a.features(v),
    "bbox": lambda a, _: a.ints(400, a.batch, a.length, 2).repeat(1, 1, 2).sort(-1).values,
    "past_values": lambda a, _: a.floats(a.batch, a.get("context_length", default=a.length) + max(a.get("lags_sequence", default=[0])),
                                         *([a.get("num_input_channels", default=1)] if hasattr(a.config, "num_input_channels") else [])),
}  # fmt: skip
"""How arguments are made, by name."""
