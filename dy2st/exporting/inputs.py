"""Made-up arguments for a program: of many sizes, scales and signs, so that branches go both ways and loops end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dy2st.lowering.values import as_tensor
from dy2st_runtime.ir.program import InputSlot, Program
from dy2st_runtime.ir.unflattening import unflatten

_SIZES = (3, 1, 2, 5, 4, 8, 13)
_SCALES = (1.0, 0.1, 5.0, 0.01, 30.0)
_HIGHEST = (10, 2, 5, 40)


def generated(program: Program, count: int, largest: int = 13) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield arguments of a program, the same at each time.

    Args:
        program: whose arguments to make.
        count: how many.
        largest: no dynamic size is larger.

    Example:
        >>> static = dy2st.to_static(lambda x: x * 2, input_spec=[dy2st.InputSpec([None, 2])])
        >>> [tuple(args[0].shape) for args, _ in generated(static.program(), 3)]
        [(4, 2), (8, 2), (2, 2)]
    """
    generator = torch.Generator().manual_seed(20)
    for number in range(count):
        yield arranged(program, [_leaf(slot, number, position, generator, largest) for position, slot in enumerate(program.inputs)])


def example(program: Program) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments to export with: every dynamic size has a value of its own that no other size has."""
    taken = {size for slot in program.inputs for size in slot.shape if isinstance(size, int)}
    free = (size for size in range(5, 1000, 2) if size not in taken)
    names = dict.fromkeys(size for slot in program.inputs for size in slot.shape if isinstance(size, str))
    sizes = {name: next(free) for name in names}
    leaves = [_tensor(slot, sizes, 0, torch.Generator().manual_seed(20), 0) for slot in program.inputs]
    return arranged(program, [leaf if isinstance(leaf, torch.Tensor) else as_tensor(leaf) for leaf in leaves])


def arranged(program: Program, leaves: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the leaves of a call as its arguments."""
    args, kwargs = unflatten(program.in_structure, leaves)
    return tuple(args), dict(kwargs)


def _leaf(slot: InputSlot, number: int, position: int, generator: torch.Generator, largest: int) -> Any:
    sizes = {}
    for other, size in enumerate(dict.fromkeys(size for size in slot.shape if isinstance(size, str))):
        own = 0 if number % 3 == 2 else _offset(size) + other  # every third call has one size everywhere
        sizes[size] = min(_SIZES[(number + own) % len(_SIZES)], largest)
    return _tensor(slot, sizes, number, generator, position)


def _offset(name: str) -> int:
    """Return the same for one name wherever it stands."""
    return sum(map(ord, name))


def _tensor(slot: InputSlot, sizes: dict[str, int], number: int, generator: torch.Generator, position: int) -> Any:
    shape = [sizes[size] if isinstance(size, str) else size for size in slot.shape]
    dtype = slot.dtype
    if dtype is None:
        return {"int": number % 7, "float": 0.5 * number, "bool": number % 2 == 0}[slot.number or "int"]
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) < (number % 5) / 4
    if not (dtype.is_floating_point or dtype.is_complex):
        high = _HIGHEST[(number // 2 + position) % len(_HIGHEST)]
        low = -high if number % 6 == 5 and dtype is not torch.uint8 else 0
        return torch.randint(low, high, shape, generator=generator).to(dtype)
    values = torch.randn(shape, generator=generator, dtype=torch.float64) * _SCALES[(number // 4 + position) % len(_SCALES)]
    sign = (number + position * (number // 3)) % 4
    values = values.abs() if sign == 1 else -values.abs() if sign == 2 else values
    return values.to(dtype)


def parameter_names(program: Program) -> list[str]:
    """Return the names of the tensors among the arguments, in order, fit for identifiers and different from each other."""
    results: list[str] = []
    for slot in program.inputs:
        results.append(distinct(slot.name or "input", results))
    return results


def distinct(text: str, taken: Sequence[str]) -> str:
    """Return an identifier that others do not have, like a text."""
    base = "".join(c if c.isalnum() else "_" for c in text)
    names = itertools.chain([base], (f"{base}_{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)
