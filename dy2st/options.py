"""The options of one static function: checked once, and passed on whole."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from dy2st import config, training
from dy2st.errors import SignatureError
from dy2st.input_spec import Specs, checked_specs
from dy2st_runtime import executors
from dy2st_runtime.passes.application import Pass

UNIFORM = ("error", "check", "auto")
"""What may be asked for where processes may part ways."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What :func:`dy2st.to_static` takes besides the function, with the same meaning.

    Raises:
        SignatureError: one of them makes no sense.
        BackendError: there is no such executor.
    """

    input_spec: Specs | None = None
    full_graph: bool = True
    backend: str | None = None
    passes: Sequence[Pass] = ()
    unroll: bool | int | None = None
    loop_checkpoints: int | None = None
    uniform: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.full_graph, bool):
            raise SignatureError(f"full_graph is True or False, not {self.full_graph!r}")
        if self.backend is not None:
            executors.choose(self.backend)
        object.__setattr__(self, "input_spec", checked_specs(self.input_spec))
        if not isinstance(self.passes, (list, tuple)) or not all(map(callable, self.passes)):
            raise SignatureError(f"passes is a list of functions from a program to a program, not {self.passes!r}")
        object.__setattr__(self, "passes", tuple(self.passes))
        if self.unroll is not None and (not isinstance(self.unroll, int) or self.unroll < 0):
            raise SignatureError(f"unroll is True, False or a number of iterations, not {self.unroll!r}")
        if self.loop_checkpoints is not None:
            training.check_snapshots(self.loop_checkpoints, "loop_checkpoints")

        if self.uniform not in (None, *UNIFORM):
            raise SignatureError(f"uniform is one of {', '.join(map(repr, UNIFORM))} or None, not {self.uniform!r}")

    @property
    def written_out(self) -> int:
        """How many iterations of a loop over a ``range`` or the rows of a tensor are written out at most."""
        if self.unroll is None:
            return config.UNROLL
        return (sys.maxsize if self.unroll else 1) if isinstance(self.unroll, bool) else self.unroll
