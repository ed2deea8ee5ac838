"""What stands for a dict or set of which only the program knows the keys: two lists of the program."""

from __future__ import annotations

from typing import Any

from dy2st.capture.values.abstract_objects import Represents

OWN = frozenset(("_dy2st_keys", "_dy2st_values"))
"""The attributes that such an object has; what it represents has none of that name."""


class AbstractTable(Represents):
    """What stands for a dict or set under whose keys are numbers or texts that may be any.

    Attributes:
        _dy2st_keys: the keys in their order.
        _dy2st_values: what there is under each; a set has none.
    """

    _dy2st_keys: list[Any]
    _dy2st_values: list[Any]


class AbstractKeys(AbstractTable):
    """What stands for such a set, whose order is one that only Python knows."""


def is_dict(value: Any) -> bool:
    """Tell whether a value stands for such a dict."""
    return isinstance(value, AbstractTable) and not isinstance(value, AbstractKeys)
