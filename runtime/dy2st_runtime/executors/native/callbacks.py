"""Single operations of a program as Python functions, for what the native executor leaves to Python."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

from torch import fx

from dy2st_runtime.executors.loops import MakeRunner
from dy2st_runtime.executors.python.code import Writer
from dy2st_runtime.ir.program import Location
from dy2st_runtime.primitives import control

_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Callback:
    """What makes the function of one operation.

    Attributes:
        node: the operation. The function takes the values of its ``all_input_nodes``.
    """

    node: fx.Node

    def make(self, lines: dict[str, dict[int, Location]], make_runner: MakeRunner) -> Callable[..., Any]:
        """Return the function, the same as in the Python executor.

        Args:
            lines: takes the user's line of each line of the function, by the name of its file.
            make_runner: makes what runs a program that is part of this one.
        """
        writer, node = Writer(make_runner), self.node
        parameters = [writer.register(value) for value in node.all_input_nodes]
        writer.line(f"def run({', '.join(parameters)}):")
        writer.depth, writer.location = 1, node.meta.get("location")
        if node.target is control.transform_:
            writer.transform(node)
            writer.line(f"return {writer.argument(node)}")
        else:
            writer.line(f"return {writer.call(node)}")
        file = f"<operation {next(_numbers)}: {node.name}>"
        space = dict(writer.names)
        exec(compile("\n".join(writer.text) + "\n", file, "exec"), space)
        lines[file] = writer.lines
        function: Callable[..., Any] = space["run"]
        return function
