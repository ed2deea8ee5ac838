"""The run of a program's blocks while ``torch.export`` traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from dy2st.errors import ExportError
from dy2st.lowering import arithmetic, lists, operators
from dy2st.lowering.context import Context, brief, location, refuse
from dy2st.lowering.control_flow.branch import branch, described
from dy2st.lowering.control_flow.loop import loop
from dy2st.lowering.values import Number
from dy2st_runtime.ir.operators import present
from dy2st_runtime.ir.program import Block
from dy2st_runtime.primitives import control, modes, scalars
from dy2st_runtime.primitives.transforms import transformed

aten = torch.ops.aten
_ITEMS = present("item.default", "_local_scalar_dense.default")
_DIVISIONS = ("operator.truediv", "operator.floordiv", "operator.mod", "divmod")
_UNBOUNDED = ("math.copysign", "math.atan", "math.atan2", "math.tanh", "math.erf", "math.erfc", "math.degrees", "math.radians")
"""Functions that are defined everywhere, infinities included."""

_TEXT = (control.print_, control.format_)


class Interpreter(Context):
    """Runs blocks."""

    def run_block(self, block: Block, inputs: Sequence[Any]) -> list[Any]:
        values: dict[fx.Node, Any] = dict(zip(block.inputs, inputs, strict=True))

        def resolve(value: Any) -> Any:
            return _resolved(value, values)

        for node in block.graph.nodes:
            if node.op == "call_function":
                values[node] = self.operation(node, resolve)
        return [resolve(value) for value in block.outputs]

    def operation(self, node: fx.Node, resolve: Callable[[Any], Any]) -> Any:
        """Return the value of one node; errors say which line of the user's it comes from.

        Raises:
            ExportError: it cannot be exported.
        """
        try:
            return self._operation(node, resolve)
        except ExportError:
            raise
        except (arithmetic.NoTranslationError, lists.NoListError) as error:
            raise refuse(node, f"{_name(node)} cannot be exported: {error}") from None
        except Exception as error:
            raise ExportError(
                f"{_name(node)}: torch.export gives {type(error).__name__}: {brief(error)}", location(node)
            ) from error

    def _operation(self, node: fx.Node, resolve: Callable[[Any], Any]) -> Any:
        target: Any = node.target
        if target is control.if_:
            pred, then, orelse, operands = node.args
            return branch(self, node, resolve(pred), _blocks(then, orelse), resolve(operands))
        if target is control.while_:
            pred, body, carried, operands = node.args
            return loop(self, node, resolve(pred), _blocks(body)[0], resolve(carried), resolve(operands))
        if target is control.transform_:
            return self.transform(node, resolve)
        args, kwargs = resolve(node.args), {key: resolve(value) for key, value in node.kwargs.items()}
        if isinstance(target, control.Control):
            return self.control(node, target, args)
        if target in modes.TARGETS:
            return self.mode(node, target)
        if target in _ITEMS:
            return None if args[0] is None else arithmetic.item(args[0])
        if target in scalars.NAMES:
            result = _scalar(target, args)
            self.defined(node, args, result)
            return result
        if target is aten.select.int and isinstance(args[2], Number) and args[0] is not None and not self.in_place:
            tensor, dim, index = args
            return lists.at(tensor, dim, index, tensor.shape[dim])
        return operators.call(target, args, kwargs)

    def defined(self, node: fx.Node, args: tuple[Any, ...], obj: Any) -> None:
        """Assert that a function on numbers does not raise, where Python's would."""
        name = scalars.NAMES[node.target]  # type: ignore[index]  # a function of scalars, as the caller knows
        if name in _DIVISIONS and isinstance(args[1], Number):
            self.assert_true(node, args[1].tensor != 0, "ZeroDivisionError: division by zero")
        elif name.startswith("math.") and isinstance(obj, Number) and obj.kind == "float":
            odd = [
                torch.logical_not(torch.isfinite(value.tensor))
                for value in args
                if isinstance(value, Number) and value.kind == "float"
            ]
            fine = torch.isfinite(obj.tensor)
            for each in odd:
                fine = torch.logical_or(fine, each)
            if name not in _UNBOUNDED:
                self.assert_true(node, fine, "ValueError: math domain error")

    def transform(self, node: fx.Node, resolve: Callable[[Any], Any]) -> Any:
        """Return a transform of ``torch.func``, which ``torch.export`` follows into what it computes."""
        name, block, inputs, operands = node.args
        if name == "backward":
            return (_BACKWARD,)
        if name == "loop":
            given = (*resolve(inputs), *resolve(operands))
            left = loop(self, node, resolve(node.kwargs["pred"]), _blocks(block)[0], resolve(inputs), resolve(operands))
            threaded: Any = node.kwargs.get("threaded", ())
            return (*left, *(given[place] for place in threaded))
        if name == "checkpoint":
            return tuple(self.run_block(_blocks(block)[0], [*resolve(inputs), *resolve(operands)]))
        if name != "vmap":
            raise refuse(node, f"{_name(node)} cannot be exported", "compute it outside of the exported function")
        held = resolve(operands)

        def function(*values: Any) -> tuple[Any, ...]:
            return tuple(self.run_block(_blocks(block)[0], [*values, *held]))

        options = {key: resolve(value) for key, value in node.kwargs.items()}
        return transformed(str(name), function, resolve(inputs), **options)

    def control(self, node: fx.Node, target: control.Control, args: tuple[Any, ...]) -> Any:
        """Return a control target without blocks."""
        if target is control.assert_:
            self.assertion(node, args[0])
        elif target is control.raise_:
            self.assert_true(node, torch.zeros((), dtype=torch.bool), described(node))
        elif target in _TEXT:
            if target is control.print_:
                self.note(node, "what is printed here is not printed")
        elif target.name.startswith("list_"):
            return lists.run(target, args)
        elif target is control.apply_ and args[0] is _BACKWARD:
            return tuple(args[1])
        else:
            raise refuse(node, f"{_name(node)} cannot be exported", "compute it outside of the exported function")
        return None

    def assertion(self, node: fx.Node, condition: Any) -> None:
        """Assert a condition; about sizes, ``torch.export`` is told."""
        known = arithmetic.truth(condition) if condition is not None else True
        if known is True:
            return
        if isinstance(known, Number) and known.checks:
            for check in known.checks:
                torch._check(check)
            return
        tensor = torch.zeros((), dtype=torch.bool) if known is False else known.tensor
        self.assert_true(node, tensor, described(node))

    def mode(self, node: fx.Node, target: Any) -> None:
        """Skip a change of a mode: gradients are none of an exported program's business."""
        if modes.TARGETS[target] != "set_grad_enabled":
            if target is modes.set_:
                raise refuse(node, "a change of a setting of torch cannot be exported", "change it before the model is called")
            raise refuse(node, "torch.autocast inside of the exported function cannot be exported", "convert the dtypes with .to()")


_BACKWARD: Any = type("Backward", (), {"__repr__": lambda self: "a backward pass"})()
"""Stands for a backward pass: gradients are none of an exported program's business."""


def _scalar(target: Any, args: tuple[Any, ...]) -> Any:
    if any(value is None for value in args) and target not in (scalars.TARGETS["slice"], scalars.TARGETS["operator.is_"]):
        return None
    if scalars.NAMES[target] == "operator.getitem" and isinstance(args[0], (tuple, list)) and isinstance(args[1], int):
        return args[0][args[1]]
    return arithmetic.calculate(target, args)


def _resolved(value: Any, values: dict[fx.Node, Any]) -> Any:
    if isinstance(value, fx.Node):
        return values[value]
    if isinstance(value, (tuple, list)):
        return type(value)(_resolved(item, values) for item in value)
    if isinstance(value, dict):
        return {key: _resolved(item, values) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_resolved(bound, values) for bound in (value.start, value.stop, value.step)))
    return value


def _blocks(*values: Any) -> list[Block]:
    assert all(isinstance(value, Block) for value in values)
    return list(values)


def _name(node: fx.Node) -> str:
    target = node.target
    if target is control.call_:
        function = node.args[0]
        return f"the call of {getattr(function, '__qualname__', function)}, which stays Python,"
    if target is control.transform_:
        return "an except clause for what an operation raises" if node.args[0] == "attempt" else f"torch.func.{node.args[0]}"
    return str(getattr(target, "name", target)) if isinstance(target, control.Control) else str(target)
