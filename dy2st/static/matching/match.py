"""One straight Python function that tells whether a call is one that a captured program serves.

Taking a call apart, looking up its key and checking guards one by one costs tens of microseconds. For a call that has the
shape of an earlier one (as many positional arguments, the same keywords) all of that is known but for the values, and becomes
code without loops:

    def match(args, kwargs, instance):
        try:
            g0, = args
            if not (type(g0) is k0 and (s0 := g0.shape) == k1 and g0.dtype is k2 and ...): return None
            v3 = instance.scale
            if not (type(v3) is float and v3 == 0.5): return None
            return [g0, v5], None
        except known_errors:
            return None

What it accepts, the way over keys and guards accepts; what it does not accept goes that way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.nn.modules import module as _module

from dy2st.capture import on_raise
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.environment.sizes import SizeConditions
from dy2st.capture.outputs.captured import Captured
from dy2st.capture.values import expressions
from dy2st.input_spec import InputSpec
from dy2st.static.calls.call import Call
from dy2st.static.calls.leaves import modes
from dy2st.static.calls.signature import CallSignature
from dy2st.static.matching.arguments import ArgumentCode, CallShape
from dy2st.static.matching.code import NotInline, Writer
from dy2st.static.matching.sources import SourceCode
from dy2st_runtime.ir.flattening import children
from dy2st_runtime.primitives.scalars import NAMES

Match = Callable[[tuple[Any, ...], dict[str, Any], Any], tuple[list[Any], list[Any] | None] | None]
"""Takes arguments and the object the function is bound to; gives the program's inputs and the values of its sources."""


def match_function(signature: CallSignature, call: Call, captured: Captured, call_shape: CallShape, bound: bool) -> Match:
    """Return the function that recognises calls like one that a program served.

    Args:
        signature: of the user's function.
        call: that call.
        captured: the program, and what it relies on.
        call_shape: how many positional arguments it had, and the names of its keyword arguments.
        bound: whether the function is bound to an object, which comes first.

    Raises:
        NotInline: there is no straight code for it.
    """
    if not all(_is_checked_by_key(spec) for spec in signature.specs or ()):
        raise NotInline("an object is specified that must be given itself")
    out = Writer("def match(args, kwargs, instance):")
    out.line("try:", 1)
    _check_modes(out, call)
    arguments = ArgumentCode(out, signature, call, call_shape, bound)
    given = arguments.written()
    wants_values = _wants_values(captured)
    sources = SourceCode(out, captured, call, arguments.leaves, given, wants_values)
    sources.write()
    _check_sizes(out, captured.sizes, arguments.leaves)
    registers = sources.registers
    states = [
        _LISTS.get(slot.kind, "{}").format(registers[source.index]) if source is not None else out.constant(get(()))
        for get, slot, source in zip(captured.states, captured.program.states, captured.state_sources, strict=True)
    ]
    inputs = [name for index, name in sorted(arguments.leaves.items()) if _is_input(call.leaves[index])]
    values = f"[{', '.join(registers[source.index] for source in captured.sources)}]" if wants_values else None
    out.line(f"return [{', '.join([*inputs, *states])}], {values}")
    out.line("except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError, ReferenceError):", 1)
    out.line("return None")
    return out.compiled("match", f"<match of {captured.program.name} {id(out):x}>")


_LISTS = {"list": "[*{}]", "new list": "[]", "object": "[{}]"}
"""What is passed for a list or object from outside, by the kind of the slot: the program changes the list."""


def _is_checked_by_key(spec: Any) -> bool:
    """Tell whether a call that has the key of one that fits a specification fits it too."""
    parts = children(spec)
    return isinstance(spec, (InputSpec, *CONSTANTS)) if parts is None else all(map(_is_checked_by_key, parts[0]))


def _is_input(leaf: Any) -> bool:
    """Tell whether a leaf of a call is an input of the program, and no object that the program is made for."""
    return isinstance(leaf, (torch.Tensor, int, float))


def _wants_values(captured: Captured) -> bool:
    """Tell whether something is written, or a result found, at a source after the run or where it raises."""
    return bool(captured.program.effects) or bool(captured.existing) or on_raise.may_leave(captured.program)


def _check_modes(out: Writer, call: Call) -> None:
    now = modes()
    grad, inference, autocast, dtype, functions, hooks = now
    if now != call.key[-1] or hooks:
        raise NotInline("modes have changed, or there are hooks on all modules")
    constant = out.constant
    out.need(
        f"{constant(torch.is_grad_enabled)}() is {grad}",
        f"{constant(torch.is_inference_mode_enabled)}() is {inference}",
        f"{constant(modes)}() == {constant(now)}" if autocast else f"not {constant(torch._C._is_any_autocast_enabled)}()",
        f"{constant(torch._C._get_tracing_state)}() is None",
        f"{constant(torch.get_default_dtype)}() is {constant(dtype)}",
        f"not {constant(torch._C._len_torch_function_stack)}()" if not functions else f"{constant(modes)}() == {constant(now)}",
        f"not {constant(_module._global_forward_pre_hooks)}",
        f"not {constant(_module._global_forward_hooks)}",
    )


def _check_sizes(out: Writer, sizes: SizeConditions, leaves: Mapping[int, str]) -> None:
    out.need(*(f"{leaves[leaf]}.shape[{dim}] == {size}" for (leaf, dim), size in sizes.fixed.items()))
    symbols = {symbol: f"{leaves[leaf]}.shape[{dim}]" for symbol, (leaf, dim) in sizes.symbols.items()}
    out.need(*(_condition(out, condition, symbols) for condition in sizes.conditions))


def _condition(out: Writer, expr: sympy.Basic, symbols: Mapping[sympy.Basic, str]) -> str:
    if expr in symbols:
        return symbols[expr]
    if not expr.free_symbols:
        return out.constant(expressions.constant(expr))
    return str(
        expressions.build(expr, lambda part: _condition(out, part, symbols), lambda target, args: _computed(out, target, args))
    )


def _computed(out: Writer, target: Callable[..., Any], args: Sequence[str]) -> str:
    sign = _SIGNS.get(target)
    if sign is not None and len(args) == 2 and target in NAMES:
        return f"({args[0]} {sign} {args[1]})"
    return f"{out.constant(target)}({', '.join(args)})"


_SIGNS: dict[Callable[..., Any], str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.mod: "%", operator.floordiv: "//", operator.eq: "==",
    operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
