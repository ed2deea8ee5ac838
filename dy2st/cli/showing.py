"""``dy2st show``."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from rich.markup import escape

from dy2st.cli.output import clean, console, size, table
from dy2st_runtime.archive import archive
from dy2st_runtime.archive.container import Container
from dy2st_runtime.archive.state import StateValue
from dy2st_runtime.ir.printing import format_structure, short_dtype
from dy2st_runtime.ir.program import Program, slot_type
from dy2st_runtime.primitives import scalars


def show(path: Path, with_program: bool, as_json: bool, namespaces: Collection[str]) -> None:
    """Print what is in an archive."""
    model = archive.read_model(path, namespaces)
    if as_json:
        print(json.dumps(_described(path, model), indent=2))
        return
    out = console()
    out.print(f"[bold]{escape(clean(path.name))}[/]  {size(path.stat().st_size)}")
    for key, text in model.about.items():
        out.print(f"  {escape(clean(key))}: {escape(clean(text))}", style="dim")
    for name, programs in model.methods.items():
        for program in programs:
            out.print(f"\n[bold]{escape(name)}[/]({escape(_inputs(program))})  [dim]{' and '.join(program.modes)}[/]")
            out.print(f"  -> {escape(clean(_result(program)))}", soft_wrap=True)
            out.print(f"  [dim]{_counts(program)}, from {escape(clean(str(program.origin)))}[/]")
            if with_program:
                out.print(clean(str(program)), markup=False, soft_wrap=True)
    if model.examples:
        out.print(f"\nexample arguments for {', '.join(map(clean, model.examples))}")
    if model.state:
        out.print()
        result = table("state", "name", "kind", "type", ">size")
        for entry in model.state:
            result.add_row(escape(clean(entry.name)), entry.kind, escape(clean(_type(entry))), _bytes(entry))
        out.print(result)
        parameters = [e.value for e in model.state if e.kind == "parameter"]
        out.print(f"{sum(p.numel() for p in parameters):,} parameters in {len(parameters)} tensors", style="dim")
    out.print()
    out.print(_members(path))


def _members(path: Path) -> Any:
    result = table("members", "name", ">size")
    with open(path, "rb") as file:
        for member in Container(file).members.values():
            result.add_row(escape(clean(member.name)), size(member.size))
    return result


def _inputs(program: Program) -> str:
    return clean(", ".join(f"{slot.name}: {slot_type(slot)}" for slot in program.inputs))


def _result(program: Program) -> str:
    types = tuple(_Named(_output_type(value)) for value in program.block.outputs)
    return format_structure(program.out_structure, types)


class _Named:
    """Something that prints as a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _output_type(value: Any) -> str:
    if isinstance(value, torch.fx.Node):
        return str(value.meta.get("type") or ("number" if value.target in scalars.NAMES else "?"))
    return repr(value)


def _counts(program: Program) -> str:
    nodes, blocks = sum(1 for _ in program.nodes()), sum(1 for _ in program.blocks())
    return f"{nodes} operations in {blocks} blocks, {len(program.states)} state inputs, {len(program.effects)} effects"


def _type(entry: StateValue) -> str:
    if isinstance(entry.value, torch.Tensor):
        text = f"{short_dtype(entry.value.dtype)}[{', '.join(map(str, entry.value.shape))}]"
        return text + ("" if entry.persistent else " (not in the state_dict)")
    if entry.kind == "module":
        return f"the same as {entry.value}"
    return "" if entry.kind == "container" else repr(entry.value)


def _bytes(entry: StateValue) -> str:
    return size(entry.value.nbytes) if isinstance(entry.value, torch.Tensor) else ""


def _described(path: Path, model: archive.Model) -> dict[str, Any]:
    return {
        "bytes": path.stat().st_size,
        "about": dict(model.about),
        "methods": {
            name: [
                {
                    "modes": list(program.modes),
                    "inputs": {slot.name: slot_type(slot) for slot in program.inputs},
                    "result": _result(program),
                    "operations": sum(1 for _ in program.nodes()),
                    "program": str(program),
                }
                for program in programs
            ]
            for name, programs in model.methods.items()
        },
        "state": {entry.name: {"kind": entry.kind, "type": _type(entry)} for entry in model.state},
    }
