"""What NumPy gives for operands that are known only when the program runs: it is called for some that are made up.

Five calls show it: three with other sizes and numbers, two with other contents. A size of the result that is a size of an operand,
or a number that was given, in all of them is that one; one that is always the same is a constant; any other is a new symbol. The
program checks what was learned.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from dy2st import errors
from dy2st.capture.arrays.encoding import Encoder
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.recording.shapes_of_results import size_shown
from dy2st.capture.session.session import Session, need
from dy2st.capture.types import value_types
from dy2st.capture.values import made_up
from dy2st_runtime.arrays import calls
from dy2st_runtime.primitives import random_state

_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
_SIZES: tuple[Callable[[int, int], int], ...] = (
    lambda position, run: _PRIMES[(position + 4 * run) % len(_PRIMES)],
    lambda position, run: 4 + 3 * run,
    lambda position, run: 1,
)
"""What a symbol of sizes is taken to be, from its position, in three runs."""
_INTS: tuple[Callable[[int, int], int], ...] = (
    lambda position, run: 3 + 5 * position + 4 * run,
    lambda position, run: 1 + run,
    lambda position, run: run,
    lambda position, run: 0,
    lambda position, run: 1,
)
"""The same of ints."""
_Choice = tuple[made_up.Values, Callable[[int, int], int], int]
"""What sizes are taken to be, and numbers, and in which run."""
_RUNS = 3
_MOST_BYTES = 1 << 28
_Contents = Callable[[torch.Tensor], Any]


def _varied(tensor: torch.Tensor) -> None:
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.uniform_(0.5, 1.5) if tensor.dtype.is_floating_point else tensor.fill_(0.5 + 0.25j)
    else:
        tensor.random_(0, 2)


def _positive_definite(tensor: torch.Tensor) -> None:
    _varied(tensor)
    if tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2]:
        tensor.zero_().diagonal(dim1=-2, dim2=-1).fill_(2)


def _ascending(tensor: torch.Tensor) -> None:
    flat = torch.arange(tensor.numel())
    tensor.copy_((flat / max(tensor.numel(), 1) if tensor.is_floating_point() else flat).view_as(tensor))


def _shares(tensor: torch.Tensor) -> None:
    tensor.fill_(1 / max(tensor.numel(), 1)) if tensor.is_floating_point() else _varied(tensor)


def _zeros(tensor: torch.Tensor) -> None:
    tensor.zero_()


def _ones(tensor: torch.Tensor) -> None:
    tensor.fill_(1)


_FILLS: tuple[_Contents, ...] = (_varied, _positive_definite, _ascending, _shares, _zeros)
"""Contents that functions take: any, what can be factorized, bins and edges, probabilities, positions in what is short."""


class _ByContentsError(Exception):
    """NumPy refuses other contents for other reasons."""


@dataclasses.dataclass(frozen=True)
class Shown:
    """What calls with made-up operands have shown.

    Attributes:
        result: of the first.
        sizes: of each array in it, in order: a number, a symbolic number, or ``None`` for a new symbol.
    """

    result: Any
    sizes: list[list[Any]]


def shown(session: Session, function: Callable[..., Any], text: str, encoder: Encoder, name: str) -> Shown:
    """Return what calls with made-up operands show.

    Args:
        function: of the text and the operands.
        encoder: has the operands.
        name: of what is called, for a message.

    Raises:
        CaptureError: NumPy refuses all that are made up.
        Exception: what NumPy says of the kinds of operands.
    """
    symbols = made_up.symbols_of(encoder.operands)
    refusal: Exception | None = None
    for sizes in _SIZES if symbols else _SIZES[:1]:
        for ints in _INTS if any(map(_is_int, encoder.numbers)) else _INTS[:1]:
            known = [({s: sizes(at, run) for at, s in enumerate(symbols)}, ints, run) for run in range(_RUNS)]
            try:
                runs, results = _first(known, function, text, encoder)
            except errors.Dy2stError:
                raise
            except Exception as error:  # whatever NumPy raises: it refuses
                refusal = refusal or error
                continue
            for run in [_Run(*known[0], fill) for fill in (_zeros, _ones) if name not in _OF_SIZES]:
                try:
                    results.append(run.call(function, text, encoder))
                except Exception:  # a matrix of zeros cannot be inverted
                    results.append(results[0])
            return _compared(encoder, results, runs, sizes is _SIZES[-1] or ints in _INTS[-2:])
    assert refusal is not None
    is_fixed = not symbols and not any(number is not None for number in encoder.numbers)
    of_kinds = isinstance(refusal, (TypeError, AttributeError)) or "requires grad" in str(refusal)
    if of_kinds or (is_fixed and isinstance(refusal, (ValueError, IndexError)) and not isinstance(refusal, np.linalg.LinAlgError)):
        raise raised(refusal)
    raise errors.CaptureError(
        f"numpy.{name}() raises an exception for all operands that were tried to see what it gives",
        session.here(),
        seen=f"{type(refusal).__name__}: {refusal}",
        fix="use the function of torch, or mark the function around it with @dy2st.not_to_static",
    )


def _is_int(value: Any) -> bool:
    return isinstance(value, torch.SymInt)


_OF_SIZES = frozenset({"polyfit"})
"""Functions whose results have the same sizes for all contents, and that complain of zeros on the standard output."""


def _first(known: Sequence[_Choice], function: Callable[..., Any], text: str, encoder: Encoder) -> tuple[list[_Run], list[Any]]:
    """Return runs with other sizes, and what they give."""
    refusals: list[Exception] = []
    for fill in _FILLS:
        runs = [_Run(*each, fill) for each in known]
        try:
            return runs, [run.call(function, text, encoder) for run in runs]
        except (TypeError, AttributeError, errors.Dy2stError):
            raise
        except Exception as error:  # whatever NumPy raises: it refuses
            refusals.append(error)
    first = refusals[0]
    if any((type(error), str(error)) != (type(first), str(first)) for error in refusals):
        raise _ByContentsError(f"{type(first).__name__}: {first}") from first
    raise first


@dataclasses.dataclass(frozen=True)
class _Run:
    """One call.

    Attributes:
        sizes: what symbols of sizes are.
        ints: what numbers are, from their position and the run.
        run: 0, 1 or 2.
        fill: gives operands their contents.
    """

    sizes: made_up.Values
    ints: Callable[[int, int], int]
    run: int
    fill: _Contents

    def numbers(self, encoder: Encoder) -> Iterator[Any]:
        """Yield what the numbers of Python are; ``None`` for the other operands."""
        for position, number in enumerate(encoder.numbers):
            match number:
                case torch.SymInt():
                    yield self.ints(position, self.run)
                case torch.SymFloat():
                    yield 0.75 + self.run
                case torch.SymBool():
                    yield self.run != 1
                case _:
                    yield None

    def call(self, function: Callable[..., Any], text: str, encoder: Encoder) -> Any:
        """Return what NumPy gives."""
        modes = (quiet(), _disable_current_modes(), random_state.kept(), warnings.catch_warnings())
        with modes[0], modes[1], modes[2], modes[3], np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            operands = []
            for tensor, number in zip(encoder.operands, self.numbers(encoder), strict=True):
                if number is not None:
                    operands.append(torch.tensor(number, dtype=tensor.dtype))
                    continue
                operands.append(made_up.like(tensor, self.sizes, self.fill, _MOST_BYTES))
            memory = [calls.as_array(tensor) for tensor in operands]
            result = function(text, operands)
            if any(isinstance(leaf, np.ndarray) and np.shares_memory(leaf, one) for leaf in calls.leaves(result) for one in memory):
                raise errors.CaptureError(
                    "NumPy gives a view of its argument here, which is not followed",
                    need().here(),
                    fix="index or reshape the array, or give NumPy a copy of it: array.copy()",
                )
            return result


def _described(result: Any) -> Any:
    try:
        return calls.described(result)
    except TypeError as error:
        raise errors.CaptureError(
            str(error), need().here(), seen=repr(result), fix="use numbers, or the function of torch"
        ) from None


def _compared(encoder: Encoder, results: list[Any], runs: list[_Run], knows_nothing: bool) -> Shown:
    kinds = [_described(result) for result in results]
    other = next((kind for kind in kinds if kind != kinds[0]), None)
    if other is not None:
        raise errors.CaptureError(
            "NumPy gives another kind of value for other numbers of the program",
            seen=f"{kinds[0]} or {other}",
            fix="use the function of torch",
        )
    known = [size for tensor in encoder.operands for size in tensor.shape if isinstance(size, torch.SymInt)]
    values = [[made_up.taken(size, run.sizes) for size in known] for run in runs]
    ints = [(position, number) for position, number in enumerate(encoder.numbers) if _is_int(number)]
    known += [number for _, number in ints]
    for run, one in zip(runs, values, strict=True):
        one += [run.ints(position, run.run) for position, _ in ints]
    sizes = []
    for leaves in zip(*map(calls.leaves, results), strict=True):
        shapes = [tuple(getattr(leaf, "shape", ())) for leaf in leaves]
        sizes.append([_size(sizes, known, values, knows_nothing) for sizes in zip(*shapes, strict=True)])
    return Shown(results[0], sizes)


def _size(sizes: Sequence[int], known: Sequence[Any], values: Sequence[Sequence[int]], knows_nothing: bool) -> Any:
    if any(other != sizes[0] for other in sizes[_RUNS:]) or (knows_nothing and known):
        return None
    size, again = size_shown((sizes[0], sizes[1]), known, values), size_shown((sizes[0], sizes[2]), known, values[::2])
    is_same = size is not None and again is not None and value_types.size_of(size) == value_types.size_of(again)
    return size if is_same else None
