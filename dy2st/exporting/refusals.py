"""What some formats cannot hold at all, seen from the program."""

from __future__ import annotations

from typing import Any

import torch

from dy2st.errors import ExportError
from dy2st.lowering.aliasing import facts
from dy2st.lowering.context import location
from dy2st_runtime.arrays import calls
from dy2st_runtime.ir.program import Program


def refuse_state(program: Program, format: str) -> None:
    """Refuse a program that keeps something from call to call, or changes its arguments.

    Args:
        program: the program.
        format: of the file, in words.

    Raises:
        ExportError: it does.
    """
    names = [slot.name for slot in program.inputs] + [slot.name for slot in program.states]
    changed = [effect.target for effect in program.effects]
    changed += [names[position] for position in sorted(facts(program.block).tensors)]
    if changed:
        raise ExportError(
            f"{program.name} changes {', '.join(changed)}, and {format} keeps nothing from call to call; "
            "take it as an argument and return its new value",
            program.origin,
        )


def refuse_random_numbers(program: Program, format: str) -> None:
    """Refuse a program that makes random numbers.

    Args:
        program: the program.
        format: of the file, in words.

    Raises:
        ExportError: it does, with the operator and the user's line.
    """
    for node in program.nodes():
        target = node.target
        if isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags and _is_random(node):
            raise ExportError(
                f"{target} makes random numbers, which {format} makes otherwise; pass them as an argument", location(node)
            )


def refuse_calls_of_numpy(program: Program) -> None:
    """Refuse a program that calls NumPy when it runs.

    Args:
        program: the program.

    Raises:
        ExportError: it does, with the function and the user's line.
    """
    nodes = [node for node in program.nodes() if node.target in (calls.call, calls.draw, calls.write, calls.memory)]
    if nodes:
        node = next((node for node in nodes if node.target is not calls.memory), nodes[0])
        name = "numpy()" if node.target is calls.memory else calls.name_of(str(node.args[0]))
        raise ExportError(
            f"numpy's {name} is called when the program runs, which no exported model can do; "
            "use the function of torch, or save the model with dy2st.save",
            location(node),
        )


def _is_random(node: Any) -> bool:
    """Tell whether a node is random; dropout is not in evaluation mode."""
    names = [argument.name for argument in node.target._schema.arguments]
    for name, idle in (("train", False), ("training", False), ("dropout_p", 0.0), ("p", 0.0)):
        if name in names:
            position = names.index(name)
            default = node.target._schema.arguments[position].default_value
            value = node.args[position] if position < len(node.args) else node.kwargs.get(name, default)
            if value == idle:
                return False
    return True
