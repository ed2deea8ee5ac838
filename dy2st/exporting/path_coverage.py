"""Which way each branch of a program goes, and how many iterations its loops make, over several calls."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import fx

from dy2st.lowering.context import place
from dy2st_runtime.ir.program import Block, Program, copy_block, node_blocks
from dy2st_runtime.primitives import control


@dataclasses.dataclass
class Site:
    """A branch or loop of a program.

    Attributes:
        line: the user's line.
        kind: ``"if"`` or ``"loop"``.
        seen: for a branch the positions of those taken, for a loop its numbers of iterations.
    """

    line: str
    kind: str
    seen: set[int] = dataclasses.field(default_factory=set)

    @property
    def classes(self) -> frozenset[int]:
        """What was seen, with all numbers of iterations above one as one."""
        return frozenset(min(number, 2) for number in self.seen)

    def __str__(self) -> str:
        if self.kind == "if":
            ways = {(0,): "true only", (1,): "false only", (0, 1): "both ways", (): "never reached"}
            return f"{self.line} if: {ways[tuple(sorted(self.seen))]}"
        iterations = ", ".join(map(str, sorted(self.seen)[:8])) if self.seen else "never reached"
        return f"{self.line} loop: {iterations} iterations" if self.seen else f"{self.line} loop: {iterations}"


class PathRecorder:
    """A program that notes where it goes.

    Args:
        program: any program; it is left alone.
    """

    def __init__(self, program: Program) -> None:
        self.sites: list[Site] = []
        self._iterations: dict[int, int] = {}
        self.program = dataclasses.replace(program, block=self._instrument(copy_block(program.block)))

    def covered(self) -> frozenset[tuple[int, int]]:
        """Return every way that was gone so far."""
        return frozenset((number, way) for number, site in enumerate(self.sites) for way in site.classes)

    def _instrument(self, block: Block) -> Block:
        for node in list(block.graph.nodes):
            inner = node_blocks(node)
            if node.target not in (control.if_, control.while_):
                continue
            number = len(self.sites)
            kind = "if" if node.target is control.if_ else "loop"
            self.sites.append(Site(place(node).removesuffix(": "), kind))
            for way, each in enumerate(inner):
                _insert(self._instrument(each), self._arrive, number, way)
            if kind == "loop":
                with block.graph.inserting_before(node):
                    _call(block.graph, self._begin, number)
                with block.graph.inserting_after(node):
                    _call(block.graph, self._end, number)
        return block

    def _arrive(self, number: int, way: int) -> None:
        if self.sites[number].kind == "if":
            self.sites[number].seen.add(way)
        else:
            self._iterations[number] = self._iterations.get(number, 0) + 1

    def _begin(self, number: int) -> None:
        self._iterations[number] = 0

    def _end(self, number: int) -> None:
        self.sites[number].seen.add(self._iterations.get(number, 0))


def _insert(block: Block, function: Any, *args: int) -> None:
    first = next(node for node in block.graph.nodes if node.op != "placeholder")
    with block.graph.inserting_before(first):
        _call(block.graph, function, *args)


def _call(graph: fx.Graph, function: Any, *args: int) -> None:
    graph.call_function(control.call_, (function, args, {}))
