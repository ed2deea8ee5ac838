"""The reference executor: walks the nodes in order and calls each target. Slow and obvious; every other executor must agree.

Because it calls the operators that eager calls, in the order eager calls them, autograd, autocast, hooks, random numbers and
dispatch modes behave as in eager.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime import control
from dy2st_runtime.program import Block, Program
from dy2st_runtime.text import join_parts


def run(program: Program, values: Sequence[Any]) -> tuple[Any, ...]:
    """Run a program.

    Args:
        program: any program.
        values: the leaves of the arguments, then the state, in the order of the root block's inputs.

    Returns:
        The outputs of the root block.

    Raises:
        Exception: what the failing operator raises, with a note that names the user's line.

    The grad mode and autocast that the program may switch inside are put back when it fails half-way.
    """
    grad_enabled = torch.is_grad_enabled()
    open_autocasts: list[Any] = []
    try:
        return _run_block(program.block, values, open_autocasts)
    except BaseException:
        torch._C._set_grad_enabled(grad_enabled)
        for mode in reversed(open_autocasts):
            torch.amp.autocast_mode._exit_autocast(mode)
        raise


def _run_block(block: Block, values: Sequence[Any], open_autocasts: list[Any]) -> tuple[Any, ...]:
    registers: dict[fx.Node, Any] = {}
    given = iter(values)

    def load(node: fx.Node) -> Any:
        return registers[node]

    for node in block.graph.nodes:
        if node.op == "placeholder":
            registers[node] = next(given)
        elif node.op == "output":
            return tuple(fx.node.map_arg(node.args[0], load))
        else:
            args, kwargs = fx.node.map_arg(node.args, load), fx.node.map_arg(node.kwargs, load)
            try:
                registers[node] = _call(node.target, args, kwargs, open_autocasts)
            except Exception as error:
                _note(error, node)
                raise
    raise AssertionError("a block has no output")


def _call(target: Any, args: Any, kwargs: Any, open_autocasts: list[Any]) -> Any:
    if target is control.if_:
        pred, then, orelse, operands = args
        return _run_block(then if pred else orelse, operands, open_autocasts)
    if target is control.while_:
        pred, body, carried, operands = args
        while pred:
            pred, *carried = _run_block(body, (*carried, *operands), open_autocasts)
        return carried
    if isinstance(target, control.Control):
        return OPERATIONS[target](*args, **kwargs)
    result = target(*args, **kwargs)
    if target is torch.amp.autocast_mode._enter_autocast:
        open_autocasts.append(result)
    elif target is torch.amp.autocast_mode._exit_autocast:
        open_autocasts.remove(args[0])
    return result


def _note(error: BaseException, node: fx.Node) -> None:
    """Tell once, at the innermost operation, which line of the user's code failed."""
    location = node.meta.get("location")
    if location is None or getattr(error, "_dy2st_located", False):
        return
    try:
        error._dy2st_located = True  # type: ignore[attr-defined]
    except AttributeError:
        return
    text = f'raised by the program at File "{location.file}", line {location.line}, in {location.function}'
    if sys.version_info >= (3, 11):
        error.add_note(text)
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), text]  # type: ignore[attr-defined]


def _assert(condition: Any, exception: Callable[..., BaseException], *arguments: Any) -> None:
    if not condition:
        raise exception(*arguments)


def _raise(exception: Callable[..., BaseException], *arguments: Any) -> None:
    raise exception(*arguments)


def _print(parts: Sequence[Any], end: str) -> None:
    print(join_parts(parts), end=end)


def _set(items: list[Any], index: Any, value: Any) -> None:
    items[index] = value


def _call_python(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


OPERATIONS: dict[control.Control, Callable[..., Any]] = {
    control.assert_: _assert,
    control.raise_: _raise,
    control.print_: _print,
    control.format_: join_parts,
    control.call_: _call_python,
    control.list_: list,
    control.list_append: list.append,
    control.list_extend: list.extend,
    control.list_insert: list.insert,
    control.list_set: _set,
    control.list_pop: list.pop,
    control.list_clear: list.clear,
    control.list_reverse: list.reverse,
    control.list_get: list.__getitem__,
    control.list_slice: list.__getitem__,
    control.list_len: len,
    control.list_copy: list,
    control.list_concat: list.__add__,
}
"""What each control target without blocks does."""
