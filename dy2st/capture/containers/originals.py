"""Lists from outside that are items of a list of the program: each comes back as the object that it is.

first = rows[0]
step(rows, x)           rows.append([x]) where a tensor decides: the program has made a list of each row
rows[0] is first        as in Python
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from dy2st.capture.branching.elements import CONSTANTS
from dy2st_runtime.ir.flattening import attributes, shallow
from dy2st_runtime.ir.unflattening import unflatten

_WITHOUT_PARTS = (torch.Tensor, int, float, FunctionType, *CONSTANTS)
"""What is an item of a list of the program, or a result, and holds no other."""


def restored(outputs: Sequence[Any], originals: Mapping[int, list[Any]]) -> list[Any]:
    """Give the lists from outside their items, and put them where the program's own lists stand for them.

    Args:
        outputs: of the program.
        originals: the lists from outside, by the position of the output that stands for each.

    Returns:
        The outputs with those lists in them.

    Example:
        >>> row, own = [1], [1, 2]
        >>> _, rows = restored([own, [own, [3]]], {0: row})
        >>> rows[0] is row, rows
        (True, [[1, 2], [3]])
    """
    results = {id(outputs[position]): original for position, original in originals.items()}
    seen = set[int]()
    collected = [_restored(value, results, seen) for value in outputs]
    for position, original in originals.items():
        original[:] = outputs[position]
    return collected


def _restored(value: Any, originals: Mapping[int, list[Any]], seen: set[int]) -> Any:
    if isinstance(value, tuple):
        results = [_restored(part, originals, seen) for part in tuple.__iter__(value)]
        return (
            value if all(new is old for new, old in zip(results, tuple.__iter__(value))) else unflatten(shallow(value)[1], results)
        )
    if id(value) not in seen and not isinstance(value, _WITHOUT_PARTS):
        seen.add(id(value))
        if type(value) is list:
            value[:] = [_restored(part, originals, seen) for part in value]
        for name, part in attributes(value).items():
            object.__setattr__(value, name, _restored(part, originals, seen))
        for key, part in [*dict.items(value)] if isinstance(value, dict) else ():
            dict.__setitem__(value, key, _restored(part, originals, seen))
    return originals.get(id(value), value)
