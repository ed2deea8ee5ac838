"""Items of lists that are of several kinds: strings, ``None``, dicts and objects among tensors and numbers.

In a list of the program an item is the Python value that it is in eager. A program takes it apart with these operations, by kind:

| kind | values of it |
|---|---|
| ``("is", value)`` | that value |
| ``("is", Const(value))`` | that list or dict |
| ``("tensor", dtype, dimensions)`` | tensors |
| ``("bool",)``, ``("number",)`` | a bool; an int or a float |
| ``("str",)``, ``("list",)`` | strings, lists |
| ``("made", structure)`` | containers of that structure, whose leaves are its parts |
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Sequence
from typing import Any

import torch

from dy2st_runtime.errors import ProgramError
from dy2st_runtime.ir.flattening import attributes, children, shallow
from dy2st_runtime.ir.structure import Const, ObjectOf, Structure, exact
from dy2st_runtime.ir.unflattening import unflatten
from dy2st_runtime.primitives.cells import Cell, close

Kind = tuple[Any, ...]


def choose(tag: int | None, tags: Sequence[int], options: Sequence[Any]) -> Any:
    """Return the option at the position where ``tags`` has ``tag``; ``None`` on a way that returns before it has a value."""
    return None if tag is None else options[tags.index(tag)]


def make(structure: Structure, parts: Sequence[Any]) -> Any:
    """Return a new container."""
    return unflatten(structure, parts)


def kind_of(value: Any, kinds: Sequence[Kind]) -> int | None:
    """Return the position of the first kind that a value is of; ``None`` if there is none."""
    return next((position for position, kind in enumerate(kinds) if fits(value, kind)), None)


def of_kind(value: Any, kind: Kind) -> Any:
    """Return the value if it is of a kind, else ``None``."""
    return value if fits(value, kind) else None


def parts(value: Any, kind: int | ObjectOf, in_cells: bool = False) -> Sequence[Any]:
    """Return what is in a container; ``None`` in each place of one that is not there.

    Args:
        value: the container.
        kind: how many parts it has; of an object, its structure.
        in_cells: whether the program takes the parts in cells, see :mod:`~dy2st_runtime.primitives.cells`.
    """
    if type(value) is Cell:
        return [value.items]
    if value is None:
        return [None] * (kind if isinstance(kind, int) else len(kind.fields))
    if in_cells and not isinstance(value, (list, tuple)):
        close(value)
    if isinstance(kind, ObjectOf):
        held = attributes(value)
        return [held[name] for name in kind.fields] if held.keys() >= {*kind.fields} else [None] * len(kind.fields)
    results = shallow(value)[0]
    return results if len(results) == kind else [None] * kind  # of an object from outside, which holds something else


def fits(value: Any, kind: Kind) -> bool:
    """Tell whether a value is of a kind."""
    match kind:
        case ("is", Const(other)):
            return value is other
        case ("is", other):
            return value is other or (
                type(value) is type(other) and isinstance(other, _COMPARED) and bool(exact(value) == exact(other))
            )
        case ("tensor", dtype, dimensions):
            return isinstance(value, torch.Tensor) and value.dtype == dtype and value.dim() == dimensions
        case ("made", ObjectOf(factory, fields)) if not dataclasses.is_dataclass(factory):
            return type(value) is factory and sorted(attributes(value)) == sorted(fields)
        case ("made", structure):
            return children(value) is not None and shallow(value)[1] == structure
        case (name,):
            return isinstance(value, _CLASSES[name]) and not (name == "number" and isinstance(value, (bool, enum.Enum)))
    return False


_COMPARED = (str, bytes, complex, range, slice, torch.dtype, torch.device, types.MethodType)
_CLASSES: dict[str, tuple[type, ...]] = {"bool": (bool,), "number": (int, float), "str": (str,), "list": (list,)}


def tensor(values: Any, dtype: torch.dtype | None, device: torch.device | None, expected: torch.dtype) -> torch.Tensor:
    """Return ``torch.tensor`` of a list.

    Raises:
        ProgramError: the values have another dtype than the program was captured with.
    """
    result = torch.tensor(values, dtype=dtype, device=device)
    if result.dtype is not expected:
        raise ProgramError(f"torch.tensor() of this list gives {result.dtype}, and was captured as {expected}; pass dtype=")
    return result
