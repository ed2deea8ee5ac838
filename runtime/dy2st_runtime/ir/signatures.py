"""Whether the nodes of a program call their operators with arguments that these can take.

PyTorch's operators say what they take in their schemas. A value that is computed is known only when the program runs, and
then PyTorch checks it; what an archive spells out as a constant is checked here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dy2st_runtime.errors import ProgramError
from dy2st_runtime.ir.program import Block, Program
from dy2st_runtime.primitives import control, modes
from dy2st_runtime.primitives.raising import Recipe

_ENUMERATIONS = (torch.dtype, torch.layout, torch.memory_format)
_NUMBERS = (bool, int, float, complex)
_MOST = 1 << 63

_ARITIES = {
    control.apply_: (1, None), control.assert_: (2, None), control.raise_: (1, None), control.print_: (2, 2),
    control.format_: (1, 1), control.list_: (0, 1), control.list_append: (2, 2), control.list_extend: (2, 2),
    control.list_insert: (3, 3), control.list_set: (3, 3), control.list_pop: (1, 2), control.list_clear: (1, 1),
    control.list_reverse: (1, 1), control.list_get: (2, 2), control.list_slice: (2, 2), control.list_len: (1, 1),
    control.list_copy: (1, 1), control.list_concat: (2, 2), control.list_order: (2, 2), control.list_find: (2, 2),
    control.list_take: (2, 2), control.list_delete: (2, 2), control.list_assign: (3, 3), control.list_repeat: (2, 2),
}  # fmt: skip
"""The least and the greatest number of arguments of control targets without blocks."""


def check(program: Program) -> None:
    """Check the arguments of every node.

    Args:
        program: one that :func:`~dy2st_runtime.ir.program.verify` accepts.

    Raises:
        ProgramError: an argument is missing, unknown, or of a type that the operator cannot take.
    """
    for node in program.nodes():
        target: Any = node.target
        if isinstance(target, torch._ops.OpOverload):
            _check_call(node, target._schema)
        elif isinstance(target, control.Control):
            _check_control(node, target)
        elif target in modes.TARGETS:
            _check_constants(node)


def _check_call(node: fx.Node, schema: torch._C.FunctionSchema) -> None:
    wanted = {argument.name: argument for argument in schema.arguments}
    positional = [argument for argument in schema.arguments if not argument.kwarg_only]
    if len(node.args) > len(positional):
        raise _broken(node, f"passes {len(node.args)} arguments, it takes {len(positional)}")
    given = {argument.name: value for argument, value in zip(positional, node.args, strict=False)}
    for name, value in node.kwargs.items():
        if name not in wanted or name in given:
            raise _broken(node, f"passes {name!r}, which it does not take" + (" twice" if name in given else ""))
        given[name] = value
    for name, argument in wanted.items():
        if name in given:
            size = argument.N  # type: ignore[attr-defined]  # the stubs leave it out
            if not _fits(given[name], argument.type, size):
                raise _broken(node, f"passes {_text(given[name])} as {name}, it takes {argument.type}")
        elif not argument.has_default_value():
            raise _broken(node, f"does not pass {name}")


def _fits(value: Any, kind: Any, size: int | None = None) -> bool:
    """Tell whether a value may be passed where a schema says a type; a computed one always may."""
    if isinstance(value, fx.Node):
        return True
    if isinstance(kind, torch._C.OptionalType):
        return value is None or _fits(value, kind.getElementType(), size)
    if isinstance(kind, torch._C.ListType):
        element = kind.getElementType()
        if isinstance(value, (list, tuple)):
            return all(_fits(item, element) for item in value)
        return size is not None and _fits(value, element)
    accept = _ACCEPTED.get(kind.kind())
    return accept is not None and accept(value)


def _is_number(value: Any) -> bool:
    return type(value) in _NUMBERS and not (type(value) is int and not -_MOST <= value < 2 * _MOST)


def _is_int(value: Any) -> bool:
    return (type(value) in (bool, int) and -_MOST <= value < _MOST) or isinstance(value, _ENUMERATIONS)


_ACCEPTED: dict[str, Callable[[Any], bool]] = {
    "TensorType": _is_number,  # a number is made a tensor, as in eager
    "NumberType": _is_number,
    "IntType": _is_int,
    "SymIntType": _is_int,
    "ScalarTypeType": _is_int,
    "LayoutType": _is_int,
    "MemoryFormatType": _is_int,
    "FloatType": lambda value: type(value) in (bool, int, float) and _is_number(value),
    "ComplexType": _is_number,
    "BoolType": lambda value: type(value) in (bool, int) and _is_int(value),
    "SymBoolType": lambda value: type(value) in (bool, int) and _is_int(value),
    "StringType": lambda value: isinstance(value, str),
    "DeviceObjType": lambda value: isinstance(value, (str, torch.device)),
    "AnyType": lambda value: isinstance(value, str),  # the name of a group of processes, or that group
    "AnyEnumType": lambda value: isinstance(value, (int, *_ENUMERATIONS)),
}
"""What constants a type of a schema takes; of the types that are not here no value can be written to an archive."""


def _check_control(node: fx.Node, target: control.Control) -> None:
    least, most = _ARITIES.get(target, (0, None))
    if len(node.args) < least or (most is not None and len(node.args) > most):
        raise _broken(node, f"has {len(node.args)} arguments")
    if node.kwargs and target not in (control.apply_, control.transform_, control.call_):
        raise _broken(node, f"passes {next(iter(node.kwargs))!r}, which it does not take")
    if target in (control.assert_, control.raise_):
        result = node.args[0 if target is control.raise_ else 1]
        is_class = isinstance(result, type) and issubclass(result, BaseException)
        if not (is_class or isinstance(result, (Recipe, fx.Node))):
            raise _broken(node, f"raises {_text(result)}, which is no exception")
    if target is control.print_ and not isinstance(node.args[1], (str, fx.Node)):
        raise _broken(node, f"ends a line with {_text(node.args[1])}")


def _check_constants(node: fx.Node) -> None:
    """Check that a mode is switched by constants, or by what another node gave."""
    for value in (*node.args, *node.kwargs.values()):
        if isinstance(value, (Block, list, tuple, dict, slice, type)):
            raise _broken(node, f"passes {_text(value)}")


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _broken(node: fx.Node, what: str) -> ProgramError:
    where = node.meta.get("location")
    target: Any = node.target
    name = target.name() if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", target)
    return ProgramError(f"node {node.name} calls {name} and {what}" + (f" ({where})" if where else ""))
