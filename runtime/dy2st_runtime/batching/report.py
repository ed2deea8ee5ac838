"""How full the branches and loops of a batch were."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import fx

from dy2st_runtime.ir.printing import short_place
from dy2st_runtime.primitives import control


@dataclasses.dataclass(slots=True)
class Occupancy:
    """How many examples were in a block.

    Attributes:
        line: the user's line, as text.
        what: ``"while"``, ``"if"`` or ``"else"``; for an operation that examples do one by one, its name.
        runs: how often it was run.
        examples: the sum over the runs.
        most: the largest number at once.
    """

    line: str
    what: str
    runs: int = 0
    examples: int = 0
    most: int = 0

    def count(self, number: int) -> None:
        """Note one run."""
        self.runs, self.examples, self.most = self.runs + 1, self.examples + number, max(self.most, number)


class BatchReport:
    """What the calls of a batched function did so far.

    Attributes:
        blocks: of branches and loops.
        one_by_one: operations that were done for one example at a time.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.blocks: dict[tuple[fx.Node, int], Occupancy] = {}
        self.one_by_one: dict[fx.Node, Occupancy] = {}

    def count(self, node: fx.Node, number: int, examples: int) -> None:
        """Note that a block of a branch or loop was run."""
        found = self.blocks.get((node, number))
        if found is None:
            what = "while" if node.target is control.while_ else ("if", "else")[number]
            found = self.blocks[node, number] = Occupancy(_line(node), what)
        found.count(examples)

    def count_alone(self, node: fx.Node, examples: int) -> None:
        """Note that examples did an operation one by one."""
        found = self.one_by_one.get(node)
        if found is None:
            found = self.one_by_one[node] = Occupancy(_line(node), str(getattr(node.target, "__name__", node.target)))
        found.count(examples)

    def __str__(self) -> str:
        rows = [f"{self.name}: examples in each branch and iteration"]
        for row in self.blocks.values():
            average = row.examples / row.runs
            rows.append(f"  {row.line:24} {row.what:8} {row.runs:8} runs, {average:8.1f} examples on average, {row.most} at most")
        if self.one_by_one:
            rows.append("done one by one:")
            rows += [f"  {row.line:24} {row.what} ({row.examples} times)" for row in self.one_by_one.values()]
        return "\n".join(rows)


def _line(node: fx.Node) -> str:
    location: Any = node.meta.get("location")
    return "" if location is None else short_place(location)
