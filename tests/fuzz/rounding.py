"""How far from eager's numbers a backend may be that rounds otherwise, and whether it may take another way.

A function runs in eager several times more, with every result of an operation off by some units in its last place. What the numbers do
then is what rounding may do to them; where other lines run, nothing can be said of a call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import types
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.fuzz.oracle import tracing

_UNITS = 16
"""How many units in the last place each result is off."""

_SAFETY = 8
"""How much farther than the noise takes them numbers may be."""

_CLOSE = 1e-5
"""How far floats in texts may be apart, of what they are."""

_FLOAT = re.compile(r"-?\d+(?:\.\d*(?:e[-+]?\d+)?|e[-+]?\d+)|nan|inf")

_EXACT = {
    "abs", "alias", "any", "all", "cat", "clone", "copy", "copy_", "empty", "fill_", "flip", "full", "index", "lift_fresh", "max", "maximum",
    "min", "minimum", "neg", "new_zeros", "new_ones", "ones", "ones_like", "permute", "relu", "roll", "scalar_tensor", "stack", "where",
    "zero_", "zeros", "zeros_like", "constant_pad_nd", "_to_copy", "detach", "embedding", "gather", "sort", "topk", "select_backward",
    "slice_backward", "tril", "triu", "index_select", "masked_fill", "repeat", "sign", "floor", "round",
}  # fmt: skip
"""Operators that give what they are given, or no rounding at all."""


class Noise(TorchDispatchMode):
    """Puts results of operations off by a few units in the last place.

    Args:
        seed: decides how far.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func._schema.name.split("::")[1] in _EXACT or func.is_view or _aliases(func):
            return made
        for value in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                self._shake(value)
        return made

    def _shake(self, value: torch.Tensor) -> None:
        unit = torch.finfo(value.dtype).eps
        off = torch.randint(-_UNITS, _UNITS + 1, value.shape, generator=self._random).to(value)
        value.detach().mul_(1 + off * unit)


def _aliases(func: Any) -> bool:
    return any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns)


def way_of(file: str, lines: list[int]) -> contextlib.AbstractContextManager[None]:
    """Note the lines of a file that run, in order."""

    def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
        return trace

    return tracing(trace)


@dataclasses.dataclass(frozen=True)
class Difference(Exception):
    """Two values are not as close as they may be.

    Attributes:
        what: where they differ.
    """

    what: str


def spread(values: Any, noisy: Sequence[Any]) -> list[float]:
    """For each number or tensor of floats in a value, how far the noise takes it at most."""
    found = [_floats(each) for each in (values, *noisy)]
    if len({len(each) for each in found}) > 1:
        raise Difference("structure")
    return [max(_distance(first, other) for other in rest) for first, *rest in zip(*found)]


def _floats(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value.detach()] if value.is_floating_point() else []
    if isinstance(value, float):
        return [torch.tensor(value, dtype=torch.float64)]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [found for part in parts for found in _floats(part)]


def _distance(one: torch.Tensor, two: torch.Tensor) -> float:
    """How far two tensors are from each other; infinite where they are of another kind."""
    if one.shape != two.shape or not torch.equal(one.isnan(), two.isnan()):
        return float("inf")
    one, two = one.double().nan_to_num(0.0), two.double().nan_to_num(0.0)
    return float((one - two).abs().max()) if one.numel() else 0.0


def close(expected: Any, found: Any, allowed: Sequence[float], where: str = "") -> None:
    """Compare two values with everything in them: floats up to rounding, all else exactly.

    Args:
        expected: one value.
        found: the other one.
        allowed: see :func:`spread`.
        where: what they are.

    Raises:
        Difference: they differ.
    """
    rest = list(allowed)
    _close(expected, found, rest, where)


def _close(a: Any, b: Any, allowed: list[float], where: str) -> None:
    if type(a) is not type(b):
        raise Difference(f"{where}: {a!r} and {b!r}")
    if isinstance(a, torch.Tensor):
        if (a.dtype, a.shape, a.requires_grad) != (b.dtype, b.shape, b.requires_grad):
            raise Difference(f"{where}: {a!r} and {b!r}")
        if a.is_floating_point():
            return _close_numbers(a.detach(), b.detach(), allowed.pop(0), where)
        if not torch.equal(a, b):
            raise Difference(f"{where}: {a} and {b}")
    elif isinstance(a, float):
        _close_numbers(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64), allowed.pop(0), where)
    elif isinstance(a, dict):
        if list(a) != list(b):
            raise Difference(f"{where}: keys {list(a)} and {list(b)}")
        for key in a:
            _close(a[key], b[key], allowed, f"{where}[{key!r}]")
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            raise Difference(f"{where}: {len(a)} and {len(b)} items")
        for index, (one, two) in enumerate(zip(a, b)):
            _close(one, two, allowed, f"{where}[{index}]")
    elif isinstance(a, str):
        if words(a) != words(b):
            raise Difference(f"{where}: {a!r} and {b!r}")
    elif isinstance(a, (int, bool, type(None))) and a != b:
        raise Difference(f"{where}: {a!r} and {b!r}")


def _close_numbers(a: torch.Tensor, b: torch.Tensor, spread: float, where: str) -> None:
    unit = torch.finfo(a.dtype).eps if a.dtype is not torch.float64 else 2.0**-50
    finite = a.double().nan_to_num(0.0, 0.0, 0.0).abs()
    scale = float(finite.max()) if a.numel() else 0.0
    if not torch.equal(a.isinf(), b.isinf()) or not _distance(a, b) <= _SAFETY * spread + 8 * unit * scale:
        raise Difference(f"{where}: {a} and {b}, {_distance(a, b):.3g} apart where the noise makes {spread:.3g}")


def words(text: str) -> str:
    """A text without the digits of its numbers, which may be rounded otherwise."""
    return _FLOAT.sub("#", text)


def alike(one: str, two: str) -> bool:
    """Whether two texts differ in nothing but the last digits of floats in them."""
    if words(one) != words(two):
        return False
    pairs = zip(*([float(number) for number in _FLOAT.findall(text)] for text in (one, two)))
    return all(math.isclose(a, b, rel_tol=_CLOSE, abs_tol=_CLOSE) or a != a and b != b for a, b in pairs)
