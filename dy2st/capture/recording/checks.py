"""What a program relies on in sizes: assumptions of the capture become checks of the program, or conditions of the call."""

from __future__ import annotations

import sympy

from dy2st.capture.recording import failing
from dy2st.capture.recording.capturing import Capturing
from dy2st_runtime.primitives import control

ACTS_FOR_USER = False


class Checks:
    """The assumptions of one capture.

    Args:
        session: what records them; its shapes make the assumptions.

    Attributes:
        input_sizes: for the symbols of dynamic sizes of the arguments, the leaf and the dimension.
        size_conditions: what the program relies on in these alone.
    """

    def __init__(self, session: Capturing) -> None:
        self._session = session
        self.input_sizes: dict[sympy.Basic, tuple[int, int]] = {}
        self.size_conditions: list[sympy.Basic] = []
        self._assumed: list[tuple[sympy.Basic, str]] = []
        session.shapes.on_assumption = self._assume

    def _assume(self, expr: sympy.Basic, message: str) -> None:
        self._assumed.append((expr, message))

    def forget(self) -> None:
        """Do what has been assumed in a block that is undone holds no more."""
        self._assumed.clear()

    def emit(self) -> None:
        """Record the checks of what has been assumed since the last call."""
        builder = self._session.builder
        while self._assumed:
            expr, message = self._assumed.pop(0)
            certain = builder.parent is None or isinstance(expr, sympy.Eq)  # a branch or loop that is not entered relies on nothing
            if certain and expr.free_symbols <= self.input_sizes.keys():
                self.size_conditions.append(expr)  # calls with other sizes have another program
            else:
                failing.check_assumption(self._session, str(expr))
            condition = builder.expression_node(expr)
            builder.call_raw(control.assert_, (condition, RuntimeError, f"the program relies on {expr}: {message}"))
