"""Random numbers of each example: from a stream of its own, so that they do not depend on the examples beside it.

A stream is the generator SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014), which begins
with the seed of the example: its k-th number is a hash of the seed and k, so those of many examples are made at once. Operators for
which there is no rule here draw from one of PyTorch's generators, for each example one whose seed is the next number of its stream.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from dy2st_runtime.batching.values import Positions
from dy2st_runtime.primitives import random_state

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_Bits = np.ndarray[Any, np.dtype[np.uint64]]


class Streams:
    """The streams of all examples of a call.

    Args:
        seeds: of each example, 64 bits.

    Example:
        >>> streams = Streams(torch.tensor([3, 4]))
        >>> together = streams.bits(np.array([0, 1]), 2)
        >>> bool((Streams(torch.tensor([4])).bits(np.array([0]), 2) == together[1]).all())
        True
    """

    def __init__(self, seeds: torch.Tensor) -> None:
        self._seeds = _mixed(seeds.numpy().astype(np.uint64))
        self._drawn = np.zeros(len(seeds), np.uint64)
        self._unused: list[int] = []

    def add(self, seeds: torch.Tensor) -> Positions:
        """Begin the streams of more examples; gives their numbers."""
        count, missing = len(seeds), len(seeds) - len(self._unused)
        if missing > 0:
            first = len(self._seeds)
            self._seeds = np.concatenate([self._seeds, np.zeros(missing + first, np.uint64)])
            self._drawn = np.concatenate([self._drawn, np.zeros(missing + first, np.uint64)])
            self._unused += range(first, len(self._seeds))
        numbers = np.array([self._unused.pop() for _ in range(count)], np.int64)
        self._seeds[numbers], self._drawn[numbers] = _mixed(seeds.numpy().astype(np.uint64)), 0
        return numbers

    def forget(self, examples: Sequence[int]) -> None:
        """Give the numbers of examples that are gone to others."""
        self._unused += examples

    def bits(self, examples: Positions, count: int) -> _Bits:
        """Return the next numbers of some streams.

        Args:
            examples: their numbers.
            count: how many of each.

        Returns:
            64 bits each, one row for each example.
        """
        first = self._drawn[examples]
        self._drawn[examples] = first + np.uint64(count)
        steps = first[:, None] + np.arange(1, count + 1, dtype=np.uint64)
        with np.errstate(over="ignore"):
            mixed: _Bits = _mixed(self._seeds[examples][:, None] + steps * _GOLDEN)
        return mixed

    @contextlib.contextmanager
    def seeded(self, example: int) -> Iterator[None]:
        """Let PyTorch's generators draw what belongs to one example."""
        seed = int(self.bits(np.array([example]), 1)[0, 0] >> np.uint64(1))
        with random_state.kept():
            torch.manual_seed(seed)
            yield


def _mixed(bits: _Bits) -> _Bits:
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
        bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
        bits = bits ^ (bits >> np.uint64(31))
    return bits


def uniform(bits: _Bits, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers from 0 to 1 (excluded) with as many bits as the dtype has."""
    digits = {torch.float64: 53, torch.float32: 24, torch.bfloat16: 8, torch.float16: 11}[dtype]
    values = (bits >> np.uint64(64 - digits)).astype(np.float64) * 2.0**-digits
    return torch.from_numpy(values).to(dtype)


def _normal(streams: Streams, examples: Positions, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers of the normal distribution, by the transform of Box and Muller."""
    pairs = (count + 1) // 2
    bits = streams.bits(examples, 2 * pairs)
    radius = np.sqrt(-2 * np.log1p(-((bits[:, :pairs] >> np.uint64(11)).astype(np.float64) * 2.0**-53)))
    angle = (bits[:, pairs:] >> np.uint64(11)).astype(np.float64) * (2 * np.pi * 2.0**-53)
    values = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], 1)[:, :count]
    return torch.from_numpy(np.ascontiguousarray(values)).to(dtype)


Draw = Callable[[Streams, Positions, tuple[Any, ...], dict[str, Any]], "torch.Tensor | None"]
_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def drawn(target: Any, streams: Streams, examples: Positions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """Return what an operator draws for each example, if it is one of those that are known here and all examples call it alike.

    Args:
        target: the operator.
        streams: of all examples.
        examples: the numbers of those that draw.
        args, kwargs: the same for all.

    Returns:
        The tensors, stacked; ``None`` where the examples have to draw one by one.
    """
    rule = _RULES.get(target)
    if rule is None or kwargs.get("generator") is not None or kwargs.get("layout") not in (None, torch.strided):
        return None
    device = kwargs.get("device")
    if device is not None and torch.device(device).type != "cpu":
        return None
    result = rule(streams, examples, args, kwargs)
    return result.requires_grad_(bool(kwargs.get("requires_grad"))) if result is not None else None


def _made(distribution: Callable[..., torch.Tensor]) -> Draw:
    def draw(streams: Streams, examples: Positions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        return _shaped(distribution, streams, examples, tuple(args[0]), dtype) if dtype in _FLOATS else None

    return draw


def _made_like(distribution: Callable[..., torch.Tensor]) -> Draw:
    def draw(streams: Streams, examples: Positions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
        like, dtype = args[0], kwargs.get("dtype") or args[0].dtype
        if dtype not in _FLOATS or like.device.type != "cpu" or not like.is_contiguous():
            return None
        return _shaped(distribution, streams, examples, tuple(like.shape), dtype)

    return draw


def _shaped(
    distribution: Callable[..., torch.Tensor], streams: Streams, examples: Positions, shape: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    count = int(np.prod(shape))
    return distribution(streams, examples, count, dtype).reshape(len(examples), *shape)


def _uniform_numbers(streams: Streams, examples: Positions, count: int, dtype: torch.dtype) -> torch.Tensor:
    return uniform(streams.bits(examples, count), dtype)


def _whole_numbers(
    low: int, high: int, shape: tuple[int, ...], streams: Streams, examples: Positions, dtype: Any
) -> torch.Tensor | None:
    if high <= low or (dtype is not None and dtype not in (torch.int64, torch.int32)):
        return None
    bits = streams.bits(examples, int(np.prod(shape))) >> np.uint64(1)
    values = (bits % np.uint64(high - low)).astype(np.int64) + low
    return torch.from_numpy(values).to(dtype or torch.int64).reshape(len(examples), *shape)


def _randint(streams: Streams, examples: Positions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    return _whole_numbers(0, args[0], tuple(args[1]), streams, examples, kwargs.get("dtype"))


def _randint_from(streams: Streams, examples: Positions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    return _whole_numbers(args[0], args[1], tuple(args[2]), streams, examples, kwargs.get("dtype"))


_aten = torch.ops.aten
_RULES: dict[Any, Draw] = {
    _aten.rand.default: _made(_uniform_numbers),
    _aten.randn.default: _made(_normal),
    _aten.rand_like.default: _made_like(_uniform_numbers),
    _aten.randn_like.default: _made_like(_normal),
    _aten.randint.default: _randint,
    _aten.randint.low: _randint_from,
}
