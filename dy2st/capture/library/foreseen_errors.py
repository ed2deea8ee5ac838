"""What operations that fail by what their arguments hold raise: in their own words, with the values of the program in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dy2st.capture.texts import text
from dy2st.capture.values.kinds import number_kind

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
SAMPLES: dict[Any, float] = {}
"""For functions of a number, one that they are not defined for."""
_POSITION, _ORDER = 1009, 7919


def of_info(name: str, info: torch.Tensor) -> Exception:
    """Return what an operation raises for the first matrix of a batch that it cannot do its work for."""
    with _disable_current_modes():
        given = torch.zeros(_POSITION + 1, dtype=torch.int32)
        given[-1] = _ORDER
        code = given if info.dim() else given[-1]
        sample = failure_of(lambda: torch.ops.aten._linalg_check_errors(code, name, is_matrix=not info.dim()))
    values = {}
    if info.dim():
        info = info.reshape(-1)
        position = (info != 0).int().argmax()
        values[str(_POSITION)] = position.item()
        info = info.gather(0, position[None])
    values[str(_ORDER)] = info.item()
    return _with_values(sample, values)


def failure_of(act: Callable[[], Any]) -> Exception:
    """Return what is raised."""
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("this was to fail")


def _with_values(sample: Exception, values: dict[str, Any]) -> Exception:
    """Return an exception that says the same as another with other values in it."""
    parts = re.split("|".join(map(re.escape, values)), str(sample)) if values else [str(sample)]
    found = re.findall("|".join(map(re.escape, values)), str(sample)) if values else []
    pieces: list[Any] = [parts[0]]
    for name, part in zip(found, parts[1:]):
        pieces += [(values[name], None, ""), part]
    return type(sample)(text.fstring(*pieces))


def of_number(target: Any, args: Sequence[Any]) -> Exception:
    """Return what a function raises for numbers of the same kinds that it is not defined for."""
    if target in SAMPLES:
        return _with_values(failure_of(lambda: target(SAMPLES[target], *args[1:])), {repr(SAMPLES[target]): args[0]})
    kinds = {"int": 1, "float": 1.0, "bool": True}
    samples = [kinds[number_kind(arg)] if isinstance(arg, _SYMBOLIC) else arg for arg in args]
    samples[-1] = type(samples[-1])(0)
    return failure_of(lambda: target(*samples))


def of_item(subscript: int | None, sizes: Sequence[Any], dim: int, index: Any) -> Exception:
    number = (index, None, "")
    if subscript is not None:
        where = f" is out of bounds for dimension {subscript} with size "
        return IndexError(text.fstring("index ", number, where, (sizes[dim], None, "")))
    shown = [part for size in sizes for part in (", ", (size, None, ""))][1:]
    where = f"] at dimension {dim}"
    return IndexError(text.fstring("select(): index ", number, " out of range for tensor of size [", *shown, where))
