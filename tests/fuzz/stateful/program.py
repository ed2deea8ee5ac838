"""What a stateful program is: the text of a module, and calls with what happens to its objects between them."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Call:
    """One call.

    Attributes:
        before: statements that change the world first, run among its global variables.
        arguments: as they are written in the call.
        mode: what the call runs under, an expression of a context manager; empty for nothing.
    """

    before: tuple[str, ...]
    arguments: str
    mode: str = ""


@dataclasses.dataclass(frozen=True)
class Program:
    """A random program with state.

    Attributes:
        source: the text of a module whose ``program`` is called: a function, a bound method or an ``nn.Module``.
        calls: the calls, in order.
    """

    source: str
    calls: tuple[Call, ...]

    def text(self) -> str:
        """The program as a script."""
        lines = [self.source]
        for call in self.calls:
            lines += [*call.before, f"program({call.arguments})" + (f"  # {call.mode}" if call.mode else "")]
        return "\n".join(lines) + "\n"
