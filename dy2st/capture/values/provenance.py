"""Which line of the user's computed a value first.

Values are held weakly, as in a block: an identity alone would be that of another value once the first is gone.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st_runtime.ir.program import Location

ACTS_FOR_USER = False


class Provenance:
    """The lines of the tensors and symbolic numbers of one capture."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Location]] = {}

    def note(self, value: Any, location: Location) -> None:
        """Note that a value is computed; what is known of it already stays."""
        if isinstance(value, (torch.Tensor, *SYMBOLIC_NUMBERS)) and self.of(value) is None:
            self._known[id(value)] = weakref.ref(value), location

    def of(self, value: Any) -> Location | None:
        """Return the line that computed a value."""
        result = self._known.get(id(value))
        return result[1] if result is not None and result[0]() is value else None
