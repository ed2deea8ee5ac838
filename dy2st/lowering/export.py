"""What ``torch.export`` makes of a lowered module."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.fx.experimental import _config as shape_settings

from dy2st.errors import ExportError
from dy2st.lowering import arguments
from dy2st.lowering.context import brief
from dy2st.lowering.module import LoweredModule
from dy2st_runtime.ir.program import InputSlot, Program
from dy2st_runtime.ir.structure import DictOf, Leaf, ListOf, Structure, TupleOf


@dataclasses.dataclass(frozen=True)
class Lowered:
    """What ``torch.export`` made of a program.

    Attributes:
        exported: the exported program.
        notes: what it does otherwise than the program.
    """

    exported: torch.export.ExportedProgram
    notes: tuple[str, ...]


def lower(module: LoweredModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
    """Export a lowered module.

    Args:
        module: of the program.
        args, kwargs: an example of its arguments, with sizes of two or more where they are dynamic.

    Raises:
        ExportError: ``torch.export`` cannot follow it.
    """
    shapes = _dynamic_shapes(module.program)
    try:
        try:
            exported = _export(module, args, kwargs, shapes)
        except Exception as error:
            if not _asks_for_sizes(module.program, error):
                raise
            module.opaque = True
            exported = _export(module, args, kwargs, shapes)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(f"torch.export cannot follow {module.program.name}: {_named(error)}", module.program.origin) from error
    return Lowered(exported, tuple(module.context.notes))


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {brief(error)}"


def _asks_for_sizes(program: Program, error: Exception) -> bool:
    """Tell whether an error may be gone when torch knows nothing of dynamic sizes.

    Some operators ask whether a size is 1, or is another one; what follows would be right for sizes like the example's alone. What
    was refused for what it is, is refused again.
    """
    dynamic = any(isinstance(size, str) for slot in program.inputs for size in slot.shape)
    return dynamic and not (isinstance(error, ExportError) and error.__cause__ is None)


def _export(module: LoweredModule, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> torch.export.ExportedProgram:
    # Sizes of 0 and 1 are like all others: without the setting, a size that is 2 in the example is taken to be 2 or more for ever.
    settings: Any = shape_settings  # its own type does not know of patch
    with _quietly(), torch.no_grad(), settings.patch(backed_size_oblivious=True), _overlap_left_to_the_run():
        exported = torch.export.export(
            module,
            args,
            kwargs,
            dynamic_shapes=shapes,
            strict=False,
            prefer_deferred_runtime_asserts_over_guards=module.opaque,
        )
    for part in exported.graph_module.modules():
        if isinstance(part, fx.GraphModule):
            _write_sums_out(part.graph)
    return exported


@contextlib.contextmanager
def _overlap_left_to_the_run() -> Iterator[None]:
    """Leave to the kernel whether a written tensor overlaps itself.

    It is asked by the kernel too; asked now, it would make a size of 1 unlike others.
    """
    plain = torch._debug_has_internal_overlap
    torch._debug_has_internal_overlap = lambda input: 0
    try:
        yield
    finally:
        torch._debug_has_internal_overlap = plain


def _write_sums_out(graph: fx.Graph) -> None:
    """Write sums of several sizes one by one: torch has an operator for all at once, and cannot write it to a file."""
    for node in list(graph.nodes):
        if node.target is not torch.sym_sum:
            continue
        first, *rest = node.args[0]
        total = first
        with graph.inserting_before(node):
            for size in rest:
                result = graph.call_function(operator.add, (total, size))
                result.meta["val"] = sum(part.meta["val"] if isinstance(part, fx.Node) else part for part in (total, size))
                total = result
        node.replace_all_uses_with(total)
        graph.erase_node(node)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _dynamic_shapes(program: Program) -> Any:
    """Return which sizes are dynamic, by the names of the arguments."""
    dims: dict[str, Any] = {}

    def of_slot(slot: InputSlot) -> dict[int, Any]:
        results = {}
        for dim, size in enumerate(slot.shape):
            if isinstance(size, str):
                results[dim] = dims.setdefault(size, torch.export.Dim(_dim_name(size), min=0))
        return results

    by_leaf = [of_slot(slot) for slot in program.inputs]

    def visit(structure: Structure) -> Any:
        match structure:
            case Leaf(index):
                return by_leaf[index]
            case TupleOf(items):
                return tuple(visit(item) for item in items)
            case ListOf(items):
                return [visit(item) for item in items]
            case DictOf(keys, items):
                return {key: visit(item) for key, item in zip(keys, items)}
            case _:
                return None

    match program.in_structure:
        case TupleOf((given, named)):
            results = arguments.signature(program).bind(*visit(given), **visit(named)).arguments
            return dict(results)
    raise ExportError(f"the arguments of {program.name} have an unknown structure", program.origin)


def _dim_name(size: str) -> str:
    return f"size_{size}" if size.startswith(("s", "u")) and size[1:].isdigit() else size
