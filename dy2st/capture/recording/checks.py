"""What a program relies on in sizes: assumptions of the capture become checks of the program, or conditions of the call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

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
        self._held: list[tuple[sympy.Basic, str]] | None = None
        session.shapes.on_assumption = self._assume

    def _assume(self, expr: sympy.Basic, message: str) -> None:
        self._assumed.append((expr, message))

    def forget(self) -> None:
        """Do what has been assumed in a block that is undone holds no more."""
        self._assumed.clear()

    @contextlib.contextmanager
    def unless_raised(self) -> Iterator[None]:
        """Open a scope whose assumptions are none of the program's where code in it raises: it has recorded nothing."""
        before = len(self._assumed)
        try:
            yield
        except Exception:
            del self._assumed[before:]
            raise

    @contextlib.contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        """Open a scope in which no checks are recorded: their place is where what it yields is called."""
        held: list[tuple[sympy.Basic, str]] = []
        before, self._held = self._held, held

        def emit() -> None:
            self._assumed += held
            self.emit()

        try:
            yield emit
        finally:
            self._held = before

    def may_fail(self) -> bool:
        """Tell whether something has been assumed since the last call that the program has to check."""
        return any(not self._is_of_call(expr) for expr, _ in self._assumed)

    def _is_of_call(self, expr: sympy.Basic) -> bool:
        """Tell whether an assumption is a condition of the call: calls with other sizes have another program."""
        certain = self._session.builder.parent is None or isinstance(expr, sympy.Eq)  # a block not entered relies on nothing
        return certain and expr.free_symbols <= self.input_sizes.keys()

    def emit(self) -> None:
        """Record the checks of what has been assumed since the last call."""
        builder = self._session.builder
        if self._held is not None:
            self._held += self._assumed
            self._assumed.clear()
        while self._assumed:
            expr, message = self._assumed.pop(0)
            if self._is_of_call(expr):
                self.size_conditions.append(expr)
            else:
                failing.check_assumption(self._session, str(expr))
            condition = builder.expression_node(expr)
            builder.call_raw(control.assert_, (condition, RuntimeError, f"the program relies on {expr}: {message}"))
