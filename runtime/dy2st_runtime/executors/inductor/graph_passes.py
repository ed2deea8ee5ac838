"""Passes of ours over the graphs that Inductor compiles, after passes of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass


class ChainedPass(CustomGraphPass):
    """A pass that runs after another one; Inductor calls it for each branch and body, too.

    Args:
        change: changes a graph in place.
        key: names the pass and its version in the key under which Inductor keeps what it compiled.
        before: the other pass, if there is one.
    """

    def __init__(self, change: Callable[[fx.Graph], None], key: str, before: Callable[[fx.Graph], None] | None) -> None:
        self._change, self._key, self._before = change, key, before

    def __call__(self, graph: fx.Graph) -> None:
        if self._before is not None:
            self._before(graph)
        self._change(graph)

    def uuid(self) -> Any:
        """Return the key of both; ``None``, which keeps nothing, where the other pass has none."""
        before = getattr(self._before, "uuid", None)
        return None if self._before is not None and before is None else (self._key, before and before())
