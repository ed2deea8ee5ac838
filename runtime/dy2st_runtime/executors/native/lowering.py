"""Programs as flat lists of instructions over numbered registers, for the native executor.

``if_`` and ``while_`` become jumps, the inputs of a block are the registers of the values around it, constants are the first
registers, and each instruction says which registers nobody reads after it. What an instruction does is looked up once, by name,
when the machine is made (see ``csrc/assemble.cpp``). For each instruction there is a Python function that does the same, made when
it is needed: for what has no native form, and for what goes wrong, so that Python itself raises it.

``csrc/standalone/lowering`` does the same for programs of archives in processes without Python, instruction for instruction
(``tests/runtime/test_lowerings.py``); what is left to Python here, it refuses or does itself.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.executors.native import object_operations
from dy2st_runtime.executors.native.callbacks import Callback
from dy2st_runtime.executors.native.instructions import Instruction, Lowered
from dy2st_runtime.executors.native.parts import count_of_parts, takes_part
from dy2st_runtime.executors.python.code import is_part
from dy2st_runtime.ir import value_types
from dy2st_runtime.ir.program import Block, Location, Program
from dy2st_runtime.primitives import control, modes, scalars
from dy2st_runtime.primitives.gradients import backward, gradient_of, gradients, set_gradient

_ENTER, _EXIT = torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast

_TRACKING = frozenset(
    {"aten::requires_grad_", "aten::_make_dual", "aten::set_data", "aten::retain_grad", "aten::_backward", "aten::detach_"}
)
"""Operators that change by themselves whether gradients are recorded."""

_SPARSE = "sparse"
"""In the names of what makes sparse tensors, whose kernels lose what is in them where they run below autograd."""

_SAFE_CALLS = (control.print_, control.format_, control.raise_, control.assert_)
"""Functions of Python that record no gradients."""

_SEQUENCES = (list, tuple, fx.immutable_collections.immutable_list)
"""What is made of registers, unlike constants that are tuples of a class of their own."""


def lower(program: Program) -> Lowered:
    """Take a program apart.

    Args:
        program: any program. Change its blocks before, not after.
    """
    lowering = _Lowering()
    inputs = [lowering.fresh(node) for node in program.block.inputs]
    outputs = lowering.block(program.block)
    lowering.emit(Instruction("return", inputs=outputs))
    return Lowered(
        lowering.instructions,
        lowering.constants,
        inputs,
        outputs,
        lowering.count,
        lowering.may_skip_autograd,
        lowering.switches_grad,
    )


class _Lowering:
    """Collects instructions; knows which register holds which value. Constants have the registers -2, -3, ..."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.constants: list[Any] = []
        self.count = 0
        self.may_skip_autograd = True
        self.switches_grad = False
        self._registers: dict[fx.Node, int] = {}
        self._parts: dict[fx.Node, Sequence[int]] = {}
        self._known: dict[Any, int] = {}
        self._own: list[int] = []
        self._left: set[int] = set()
        self._location: Location | None = None

    # -- registers -----------------------------------------------------------------------------------------------------------

    def fresh(self, node: fx.Node | None = None) -> int:
        """Return a new register, of the block that is lowered now."""
        register, self.count = self.count, self.count + 1
        self._own.append(register)
        if node is not None:
            self._registers[node] = register
        return register

    def constant(self, value: Any) -> int:
        """Return the register of a constant."""
        plain = value is None or type(value) in (bool, int, float, str)
        key = (type(value), repr(value)) if plain else id(value)
        if key not in self._known:
            self.constants.append(value)
            self._known[key] = -1 - len(self.constants)
        return self._known[key]

    def register(self, value: Any) -> int:
        """Return the register of an argument; a list or tuple of values is made first."""
        if isinstance(value, fx.Node):
            return self._registers[value]
        if type(value) in _SEQUENCES:
            kind = "tuple" if isinstance(value, tuple) else "list"
            inputs = [self.register(item) for item in value]
            result = self.fresh()
            self.emit(Instruction("list", kind, [result], inputs))
            return result
        return self.constant(value)

    def emit(self, instruction: Instruction) -> Instruction:
        """Return one more step, from the user's line that is current."""
        instruction.location = self._location
        self.instructions.append(instruction)
        return instruction

    # -- blocks --------------------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> list[int]:
        """Return the operations of a block; gives the registers of its outputs."""
        outside, self._own = self._own, []
        steps: list[tuple[int, int]] = []
        for node in block.graph.nodes:
            if node.op == "call_function":
                start = len(self.instructions)
                self._location = node.meta.get("location")
                self.operation(node)
                steps.append((start, len(self.instructions)))
        start = len(self.instructions)
        outputs = [self.register(value) for value in block.outputs]
        steps.append((start, len(self.instructions)))
        self.release(steps, {*outputs})
        self._left = {*self._own} & {*outputs}
        self._own = outside
        return outputs

    def release(self, steps: Sequence[tuple[int, int]], kept: set[int]) -> None:
        """Mark where nobody reads a register of this block any more: at the end of the operation that is the last to use it.

        Inside of a control operation no instruction is the last, since it may run again, or not at all; only those before its
        first jump, which take what it carries, are outside of its blocks.
        """
        waiting = {*self._own} - kept
        for start, end in reversed(steps):
            straight = self._first_jump(start, end)
            for index in range(end - 1, start - 1, -1):
                instruction = self.instructions[index]
                result = waiting & {*instruction.read(), *instruction.outputs}
                waiting -= result
                self.instructions[index if index < straight else end - 1].dead.extend(sorted(result))

    def _first_jump(self, start: int, end: int) -> int:
        return next((index for index in range(start, end) if self.instructions[index].kind in ("jump", "unless")), end)

    def operation(self, node: fx.Node) -> None:
        """Write one operation."""
        if node.target is control.if_:
            self.branch(node)
        elif node.target is control.while_:
            self.loop(node)
        elif is_part(node) or self._is_spread_part(node):
            source, index = node.args
            assert isinstance(source, fx.Node) and isinstance(index, int)
            self._registers[node] = self._parts[source][index]
        else:
            self.call(node)

    def _is_spread_part(self, node: fx.Node) -> bool:
        return node.target is operator.getitem and node.args[0] in self._parts

    def branch(self, node: fx.Node) -> None:
        """Do ``if_``: both branches leave their outputs in the same registers."""
        pred, then, orelse, operands = node.args
        assert isinstance(then, Block) and isinstance(orelse, Block)
        results = self.results(node, len(then.outputs))
        location = self._location
        given = [self.register(value) for value in operands]  # a tuple, see verify
        skip = self.emit(Instruction("unless", "branch", inputs=[self.register(pred)]))
        self.alias(then.inputs, given)
        self.leave(self.block(then), results, self._left)
        done = self.emit(Instruction("jump"))
        skip.target = len(self.instructions)
        self.alias(orelse.inputs, given)
        self.leave(self.block(orelse), results, self._left)
        done.target = len(self.instructions)
        self._location = location
        self.whole(node, results)

    def loop(self, node: fx.Node) -> None:
        """Do ``while_``: carried values live in registers of their own."""
        pred, body, carried, operands = node.args
        assert isinstance(body, Block) and isinstance(carried, tuple) and isinstance(operands, tuple)
        first = [self.register(value) for value in (pred, *carried)]
        given = [self.register(value) for value in operands]
        results = self.results(node, len(carried))
        going = self.fresh()
        self.leave(first, [going, *results])
        again = len(self.instructions)
        test = self.emit(Instruction("unless", "loop", inputs=[going]))
        self.alias(body.inputs, [*results, *given])
        location = self._location
        self.leave(self.block(body), [going, *results], self._left)
        self._location = location
        self.emit(Instruction("jump", target=again))
        test.target = len(self.instructions)
        self.whole(node, results)

    def leave(self, sources: Sequence[int], targets: Sequence[int], dying: Collection[int] = ()) -> None:
        """Move all values at once into other registers, so that a swap is a swap."""
        pairs = [(source, target) for source, target in zip(sources, targets, strict=True) if source != target]
        if pairs:
            inputs = [source for source, _ in pairs]
            self.emit(Instruction("move", "", [target for _, target in pairs], inputs, dead=sorted(dying)))

    def results(self, node: fx.Node, count: int) -> list[int]:
        """Return registers for the results of a control operation."""
        collected = [self.fresh() for _ in range(count)]
        self._parts[node] = collected
        return collected

    def whole(self, node: fx.Node, results: Sequence[int]) -> None:
        """End a control operation: leave the results as a tuple, for a user that takes all of them."""
        if all(is_part(user) for user in node.users):
            self.emit(Instruction("move"))
        else:
            self.emit(Instruction("list", "tuple", [self.fresh(node)], results))

    def alias(self, inputs: Sequence[fx.Node], registers: Sequence[int]) -> None:
        """Note that the inputs of a block are the registers of the values around it."""
        self._registers.update(zip(inputs, registers, strict=True))

    # -- operations ----------------------------------------------------------------------------------------------------------

    def call(self, node: fx.Node) -> None:
        """Call an operation without blocks, or one whose blocks Python runs."""
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            result = self.operator(node, target)
        elif isinstance(target, control.Control):
            result = self.control(node, target)
        elif target in modes.TARGETS:
            result = self.mode(node)
        else:
            result = self.number(node)
        result.reads = [self._registers[value] for value in node.all_input_nodes]
        result.callback = Callback(node)
        if not self.spread(node, result):
            result.outputs = [self.fresh(node)]  # also for what nobody uses: it is dead at once
        self.emit(result)

    def spread(self, node: fx.Node, instruction: Instruction) -> bool:
        """Give each part of a result a register, if its users take parts of it."""
        count = count_of_parts(node)
        if not count or not all(takes_part(user, node, count) for user in node.users):
            return False
        taken = {user.args[1] for user in node.users}
        instruction.spread = True
        instruction.outputs = self._parts[node] = [self.fresh() if index in taken else -1 for index in range(count)]
        return True

    def operator(self, node: fx.Node, target: torch._ops.OpOverload) -> Instruction:
        """Return an operator of torch, or of a library."""
        schema = target._schema
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        if schema.name in _TRACKING or _SPARSE in schema.name or target.namespace not in ("aten", "prims"):
            self.may_skip_autograd = False
        given = dict(zip([argument.name for argument in schema.arguments if not argument.kwarg_only], node.args))
        values = {**given, **node.kwargs}
        bound = [self.argument(values[argument.name]) if argument.name in values else () for argument in schema.arguments]
        if len(values) != len(node.args) + len(node.kwargs) or not values.keys() <= {
            argument.name for argument in schema.arguments
        }:
            return Instruction("python", name)  # which says what is wrong with it
        return Instruction("operator", name, arguments=tuple(bound)) if None not in bound else Instruction("python", name)

    def argument(self, value: Any) -> Any:
        """Return an argument of an operator, as :class:`Instruction` has it; ``None`` if only Python can pass it."""
        if isinstance(value, fx.Node):
            return self._registers[value]
        if type(value) in (bool, int, float):
            return self.constant(value)
        if isinstance(value, (list, tuple)):
            if all(item is None or isinstance(item, fx.Node) or type(item) in (bool, int, float) for item in value):
                return [self.register(item) for item in value]
            return None
        return None if isinstance(value, (dict, slice)) else (value,)

    def control(self, node: fx.Node, target: control.Control) -> Instruction:
        """Return a control operation without blocks, or a transform."""
        args: tuple[Any, ...] = node.args
        shown = node.all_input_nodes[1:] if target is control.assert_ else node.all_input_nodes
        is_safe = target in _SAFE_CALLS or (target is control.call_ and _makes_no_gradients(*args))
        if target in _SAFE_CALLS and any(map(value_types.may_have_gradient, shown)):
            self.may_skip_autograd = False  # the text of a tensor names its node of autograd, which then has to be eager's
        if target is control.assert_ and args:
            return Instruction("assert", inputs=[self.register(args[0])])
        if not target.name.startswith("list_") or node.kwargs or not args:
            if not is_safe and not target.name.startswith("list_"):
                self.may_skip_autograd = False
            arguments = _without_python(node.all_input_nodes, *args) if target is control.call_ else ()
            on_object = object_operations.instruction(target, args, self.register, self.constant)
            return on_object or Instruction("python", target.name, arguments=arguments)
        if target is control.list_ and isinstance(args[0], list) and _nests_only_lists(args[0]):
            return Instruction("list", "list", inputs=[self.register(item) for item in args[0]])
        return self.on_list(target.name, args)

    def number(self, node: fx.Node) -> Instruction:
        """Return a function on numbers, or an item of a list."""
        name = scalars.NAMES[node.target]  # type: ignore[index]  # see verify
        if node.kwargs:
            return Instruction("python", name)
        if name == "operator.getitem":
            return self.on_list(name, node.args)
        return (
            Instruction("number", name, inputs=[self.register(value) for value in node.args])
            if _is_flat(node.args)
            else Instruction("python", name)
        )

    def on_list(self, name: str, args: tuple[Any, ...]) -> Instruction:
        """Return what is done with a list."""
        if name in ("operator.getitem", "list_slice") and len(args) == 2 and isinstance(args[1], slice):
            bounds = (args[1].start, args[1].stop, args[1].step)
            if _is_flat(bounds):
                return Instruction("list", "slice", inputs=[self.register(value) for value in (args[0], *bounds)])
        if not _nests_only_lists(args):
            return Instruction("python", name)
        return Instruction("list", name, inputs=[self.register(value) for value in args])

    def mode(self, node: fx.Node) -> Instruction:
        """Return a change of the grad mode or of autocast."""
        if node.target is _ENTER:
            return Instruction("enter")
        if node.target is _EXIT:
            return Instruction("exit")
        self.switches_grad = True
        return Instruction("grad", inputs=[self.register(node.args[0])])


def _without_python(
    reads: Sequence[fx.Node], function: Any, values: Sequence[Any] = (), named: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """Return the name of a function that the machine can do itself, given what it reads, and numbers; ``()`` for another one."""
    if function is backward and _is_plain_pass(values, named or {}):
        unsure, leaves, others, _, tensors, gradients = values
        given = [*leaves, *others, *tensors, *(gradient for gradient in gradients if gradient is not None)]
        keeps_graph = bool((named or {}).get("retain_graph"))
        return "backward", (len(leaves), len(others), len(given), int(keeps_graph), *map([*reads].index, given), *unsure)
    if getattr(function, "only_keeps", False):
        return "keep", ()
    is_known = function is gradient_of or function is set_gradient
    are_read = all(isinstance(value, fx.Node) for value in values[:1]) and len({*values}) == len(values)
    return (function.__name__, ()) if is_known and are_read and not named else ()


def _is_plain_pass(values: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Tell whether a backward pass is one of a single tensor, to leaves, that nobody differentiates."""
    _, leaves, others, _, tensors, gradients = values
    if len(tensors) != 1 or len(gradients) != 1 or named.get("create_graph") or named.get("inputs") is not None:
        return False
    given = [*leaves, *others, *tensors, *(gradient for gradient in gradients if gradient is not None)]
    return named.get("retain_graph") in (None, False, True) and all(isinstance(value, fx.Node) for value in given)


def _makes_no_gradients(function: Any, values: Sequence[Any] = (), named: Mapping[str, Any] | None = None) -> bool:
    """Tell whether what a function of Python gives requires gradients only where what it takes does."""
    if function is backward or function is gradients:
        return not (named or {}).get("create_graph")
    return function is gradient_of or function is set_gradient or getattr(function, "only_keeps", False)


def _is_flat(values: Sequence[Any]) -> bool:
    return not any(isinstance(value, (list, tuple, dict, slice)) for value in values)


def _nests_only_lists(values: Sequence[Any]) -> bool:
    """Tell whether lists and tuples are the only arguments that are made of others."""
    for value in values:
        if isinstance(value, (list, tuple)):
            if type(value) not in _SEQUENCES or not _nests_only_lists(value):
                return False
        elif isinstance(value, (dict, slice)):
            return False
    return True
