"""Programs as Python source."""

from __future__ import annotations

import dataclasses
import functools
import keyword
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.errors import ProgramError
from dy2st_runtime.executors.loops import Loop, MakeRunner
from dy2st_runtime.executors.python.factories import below_autograd, is_factory
from dy2st_runtime.executors.python.later import tell_later
from dy2st_runtime.executors.python.operations import OPERATIONS
from dy2st_runtime.executors.python.wide_numbers import OF_ANY_SIZE
from dy2st_runtime.ir.program import Block, Location, Program
from dy2st_runtime.primitives import control, scalars
from dy2st_runtime.primitives.transforms import transformed

_MAX_DEPTH = 12
"""Python nests no more than 20 loops; deeper blocks become functions."""
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Code:
    """The source of a function ``run(autocasts, *inputs)``.

    Attributes:
        text: the source.
        names: what its global names stand for.
        lines: the user's line for each line of the text.
    """

    text: str
    names: dict[str, Any]
    lines: dict[int, Location]


def generate(program: Program, make_runner: MakeRunner) -> Code:
    """Write a program as a Python function.

    Args:
        program: any program.
        make_runner: makes what runs a program that is part of this one.
    """
    writer = Writer(make_runner)
    inputs = [writer.register(node) for node in program.block.inputs]
    writer.line(f"def run(autocasts, {', '.join(inputs)}):" if inputs else "def run(autocasts):")
    writer.depth = 1
    outputs = writer.block(program.block)
    writer.line(f"return {tuple_text(outputs)}")
    return Code("\n".join(writer.text) + "\n", writer.names, writer.lines)


class Writer:
    """Collects lines; knows which register holds which value.

    Args:
        make_runner: makes what runs a program that is part of this one.
    """

    def __init__(self, make_runner: MakeRunner) -> None:
        self._make_runner = make_runner
        self.text: list[str] = []
        self.lines: dict[int, Location] = {}
        self.names: dict[str, Any] = {}
        self.depth = 0
        self.location: Location | None = None
        self._registers: dict[fx.Node, str] = {}
        self._taken: set[str] = {"run", "autocasts", "slice"}
        self._constants: dict[int, str] = {}

    # -- names -----------------------------------------------------------------------------------------------------------

    def fresh(self, base: str) -> str:
        """Return an identifier that is not in use."""
        base = base if base.isidentifier() and not keyword.iskeyword(base) else "value"
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    def register(self, node: fx.Node) -> str:
        """Return a new register for the value of a node."""
        self._registers[node] = name = self.fresh(node.name)
        return name

    def constant(self, value: Any, base: str) -> str:
        """Return the global name of an object."""
        if id(value) not in self._constants:
            self._constants[id(value)] = name = self.fresh(base)
            self.names[name] = value
        return self._constants[id(value)]

    def argument(self, value: Any) -> str:
        """Return a value as an expression."""
        if isinstance(value, fx.Node):
            return self._registers[value]
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return repr(value)
        if type(value) is float and math.isfinite(value):
            return repr(value)
        if isinstance(value, tuple):
            return tuple_text([self.argument(item) for item in value])
        if isinstance(value, list):
            return f"[{', '.join(self.argument(item) for item in value)}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self.argument(item)}" for key, item in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({', '.join(self.argument(bound) for bound in (value.start, value.stop, value.step))})"
        self.names.setdefault("_kept", []).append(value)  # so that its identity stays its own
        return self.constant(value, _short(value))

    # -- lines -------------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Add one more line, from the user's line that is current."""
        self.text.append(" " * self.depth + text)
        if self.location is not None:
            self.lines[len(self.text)] = self.location

    def block(self, block: Block) -> list[str]:
        """Return the operations of a block; gives the expressions of its outputs."""
        last_uses = _last_uses(block)
        for node in block.graph.nodes:
            if node.op == "call_function":
                self.location = node.meta.get("location")
                self.operation(node)
                self.forget(last_uses.get(node, ()))
        return [self.argument(value) for value in block.outputs]

    def forget(self, nodes: Sequence[fx.Node]) -> None:
        """Delete registers that nobody reads any more."""
        self.forget_names([self._registers[node] for node in nodes], ())

    def forget_names(self, names: Sequence[str], but: Sequence[str]) -> None:
        """Delete registers by name."""
        dead = [name for name in dict.fromkeys(names) if name not in but]
        if dead:
            self.line(f"del {', '.join(dead)}")

    def operation(self, node: fx.Node) -> None:
        """Write one operation."""
        if node.target is control.if_:
            self.branch(node)
        elif node.target is control.while_:
            self.loop(node)
        elif node.target is control.transform_:
            self.transform(node)
        elif is_part(node):
            source, index = node.args
            assert isinstance(source, fx.Node) and isinstance(index, int)
            self._registers[node] = f"{self._registers[source]}_{index}"
        else:
            call = self.call(node)
            self.line(f"{self.register(node)} = {call}" if node.users else call)
            self.autocast(node)

    def autocast(self, node: fx.Node) -> None:
        """Keep account of the autocast modes that are open."""
        if node.target is torch.amp.autocast_mode._enter_autocast:
            self.line(f"autocasts.append({self._registers[node]})")
        elif node.target is torch.amp.autocast_mode._exit_autocast:
            self.line(f"autocasts.remove({self.argument(node.args[0])})")

    def call(self, node: fx.Node) -> str:
        """Return the expression that computes a node."""
        target, args = node.target, [self.argument(value) for value in node.args]
        if not all(key.isidentifier() for key in node.kwargs):
            raise ProgramError(f"node {node.name} has a keyword that is no identifier")  # it would become code
        named = [f"{key}={self.argument(value)}" for key, value in node.kwargs.items()]
        name = scalars.NAMES.get(target, "") if not isinstance(target, torch._ops.OpOverload) else ""  # type: ignore[arg-type]
        infix = _INFIX.get(name.removeprefix("operator."))
        if infix is not None and name.startswith("operator.") and len(args) == 2:
            left = f"({args[0]})" if args[0].startswith("-") else args[0]  # `**` binds more tightly than a sign
            return f"{left} {infix} {args[1]}"
        if name == "operator.getitem":
            return f"{args[0]}[{args[1]}]"
        function: Any = OPERATIONS[target] if isinstance(target, control.Control) else target
        if isinstance(target, torch._ops.OpOverload) and hasattr(target, "_op"):
            base, function = target.overloadpacket.__name__, OF_ANY_SIZE.get(target, target._op)
            if is_factory(target):
                function = below_autograd(function)
            self.names.setdefault("_kept", []).append(target)
            return f"{self.constant(function, base)}({', '.join([*args, *named])})"
        return f"{self.constant(function, _short(target))}({', '.join([*args, *named])})"

    # -- blocks ------------------------------------------------------------------------------------------------------------

    def branch(self, node: fx.Node) -> None:
        """Do ``if``: both branches leave their outputs in the same registers."""
        pred, then, orelse, operands = node.args
        results = self.results(node, len(_block(then).outputs))
        self.line(f"if {self.argument(pred)}:")
        for position, block in enumerate((then, orelse)):
            if position:
                self.location = node.meta.get("location")
                self.line("else:")
            self.alias(_block(block).inputs, operands)
            with_depth = self.depth
            self.depth += 1
            self.assign(results, self.nested(_block(block)))
            self.forget_names(self.own_outputs(_block(block)), results)
            self.depth = with_depth
        self.whole(node, results)

    def loop(self, node: fx.Node) -> None:
        """Do ``while``: carried values live in registers of their own."""
        pred, body, carried, operands = node.args
        block = _block(body)
        assert isinstance(carried, tuple)
        inputs = block.inputs
        results = self.results(node, len(carried))
        self.assign(results, [self.argument(value) for value in carried])
        going = self.fresh("going")
        self.line(f"{going} = {self.argument(pred)}")
        for inner, name in zip(inputs, results):
            self._registers[inner] = name
        self.alias(inputs[len(carried) :], operands)
        self.line(f"while {going}:")
        with_depth = self.depth
        self.depth += 1
        self.assign([going, *results], self.nested(block))
        self.forget_names(self.own_outputs(block), results)
        self.depth = with_depth
        self.whole(node, results)

    def transform(self, node: fx.Node) -> None:
        """Write a transform of a function: the block becomes one of Python."""
        name, block, inputs, operands = node.args
        assert isinstance(inputs, tuple)
        if name == "loop":
            function = self.constant(Loop(_block(block), self._make_runner), "loop")
            options = [f"{key}={self.argument(value)}" for key, value in node.kwargs.items()]
            self.line(
                f"{self.register(node)} = {function}({self.argument(inputs)}, {self.argument(operands)}, {', '.join(options)})"
            )
            return
        own, function = _block(block).inputs, self.fresh("block")
        is_later = name in ("backward", "checkpoint")  # when the registers of what is around it are gone
        parameters = [self.register(inner) for inner in (own if is_later else own[: len(inputs)])]
        if not is_later:
            self.alias(own[len(inputs) :], operands)
        self.line(f"def {function}({', '.join(['autocasts'] * is_later + parameters)}):")
        self.depth += 1
        self.line(f"return {tuple_text(self.block(_block(block)))}")
        self.depth -= 1
        self.location = node.meta.get("location")
        options = [f", {key}={self.argument(value)}" for key, value in node.kwargs.items()]
        if is_later:
            options.append(f", operands={self.argument(operands)}")
        if name == "backward":
            options.append(f", tell={self.constant(functools.partial(tell_later, self.lines), 'tell')}")
        apply = self.constant(transformed, "transformed")
        self.line(f"{self.register(node)} = {apply}({name!r}, {function}, {self.argument(inputs)}{''.join(options)})")

    def nested(self, block: Block) -> list[str]:
        """Return the operations of a nested block, in a function of their own when they are nested too deep."""
        if self.depth % _MAX_DEPTH:
            return self.block(block)
        name = self.fresh("block")
        self.line(f"def {name}():")
        self.depth += 1
        outputs = self.block(block)
        self.line(f"return {tuple_text(outputs)}")
        self.depth -= 1
        results = [self.fresh("part") for _ in outputs]
        self.assign(results, [f"{name}()"], whole=True)
        return results

    def results(self, node: fx.Node, count: int) -> list[str]:
        """Return registers for the results of a control node: the node's own name with the position."""
        base = self.register(node)
        while any(f"{base}_{index}" in self._taken for index in range(count)):
            base = self.register(node)
        names = [f"{base}_{index}" for index in range(count)]
        self._taken.update(names)
        return names

    def own_outputs(self, block: Block) -> list[str]:
        """Return the registers of a block's outputs that the block itself computes."""
        if not self.depth % _MAX_DEPTH:
            return []
        nodes = (value for value in block.outputs if isinstance(value, fx.Node) and value.op == "call_function")
        return [self._registers[node] for node in nodes]

    def whole(self, node: fx.Node, results: Sequence[str]) -> None:
        """Leave the results as a tuple, for a user that takes all of them."""
        if not all(is_part(user) for user in node.users):
            self.line(f"{self._registers[node]} = {tuple_text(results)}")

    def alias(self, inputs: Sequence[fx.Node], operands: Any) -> None:
        """Note that the inputs of a block are the registers (or constants) of the values around it."""
        for inner, outer in zip(inputs, operands, strict=True):
            self._registers[inner] = self.argument(outer)

    def assign(self, names: Sequence[str], values: Sequence[str], whole: bool = False) -> None:
        """Assign all at once, so that a swap is a swap."""
        pairs = [(name, value) for name, value in zip(names, values) if name != value]
        if whole:  # also for no names: what is called may write in place, print or raise
            self.line(f"{tuple_text(names)} = {values[0]}" if names else values[0])
        elif pairs:
            self.line(f"{', '.join(name for name, _ in pairs)} = {', '.join(value for _, value in pairs)}")
        else:
            self.line("pass")


def _last_uses(block: Block) -> dict[fx.Node, list[fx.Node]]:
    """For each operation, the values computed in the block that it is the last to use."""
    results: dict[fx.Node, list[fx.Node]] = {}
    seen: set[fx.Node] = set(block.inputs)  # registers of the block around it
    for node in reversed(block.graph.nodes):
        used = node.all_input_nodes
        if node.op == "output":
            seen.update(used)
            continue
        fresh = [value for value in used if value not in seen]
        seen.update(fresh)
        if fresh:
            results[node] = [value for value in fresh if not is_spread(value) and not is_part(value)]
    return results


def is_spread(node: fx.Node) -> bool:
    """Tell whether each result of a node has a register of its own."""
    return node.target in (control.if_, control.while_)


def is_part(node: fx.Node) -> bool:
    """Tell whether a node takes one of those results."""
    source = node.args[0] if node.args else None
    return scalars.NAMES.get(node.target) == "operator.getitem" and isinstance(source, fx.Node) and is_spread(source)  # type: ignore[arg-type]


def _block(value: Any) -> Block:
    assert isinstance(value, Block)
    return value


def tuple_text(items: Sequence[str]) -> str:
    """Return the expression for a tuple of expressions."""
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _short(value: Any) -> str:
    name = getattr(value, "__name__", type(value).__name__)
    return name if isinstance(name, str) else type(value).__name__
