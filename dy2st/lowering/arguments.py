"""The arguments of an exported model: those of the program by their names, without what the caller of the original may leave out.

    def forward(self, x, scale=1.0, *, flags=None)       forward(x)

``torch.export`` wants every argument at each call, constants included.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import torch

from dy2st.lowering.values import as_tensor
from dy2st_runtime.call.binding import Binder
from dy2st_runtime.ir.program import Program
from dy2st_runtime.ir.structure import DictOf, Structure, TupleOf
from dy2st_runtime.ir.unflattening import unflatten


def without_defaults(program: Program) -> Program:
    """Return a program whose structure of arguments lacks those at the end, and those given by name, that are the defaults."""
    args, names, kwargs = _parts(program)
    defaults = {parameter.name: parameter.default for parameter in program.parameters if parameter.default is not None}
    positional = _positional(program)
    while args and len(args) <= len(positional) and args[-1] == defaults.get(positional[len(args) - 1]):
        args = args[:-1]
    left = [(name, item) for name, item in zip(names, kwargs, strict=True) if item != defaults.get(name)]
    result = DictOf(tuple(name for name, _ in left), tuple(item for _, item in left))
    return dataclasses.replace(program, in_structure=TupleOf((TupleOf(args), result)))


def bound(program: Program, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call as the structure of a program has them: by position where they can be."""
    given, named = unflatten(program.in_structure, Binder(program).bind(args, kwargs, lambda: ()))
    return tuple(given), dict(named)


def as_tensors(program: Program, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the same with a tensor for each number that is an input."""
    leaves = Binder(program).bind(args, kwargs, lambda: ())
    results = [leaf if isinstance(leaf, torch.Tensor) else as_tensor(leaf) for leaf in leaves]
    given, named = unflatten(program.in_structure, results)
    return tuple(given), dict(named)


def signature(program: Program) -> inspect.Signature:
    """Return what a ``forward`` that takes these arguments looks like.

    Keywords have names: torch.export counts those of ``**kwargs`` twice.
    """
    args, names, _ = _parts(program)
    positional = _positional(program)
    if len(args) <= len(positional) and not set(positional) & set(names):
        results = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in positional[: len(args)]]
    else:
        free = next(name for name in ("args", "arguments", "positional_arguments") if name not in names)
        results = [inspect.Parameter(free, inspect.Parameter.VAR_POSITIONAL)]
    return inspect.Signature([*results, *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names)])


def _parts(program: Program) -> tuple[tuple[Structure, ...], tuple[str, ...], tuple[Structure, ...]]:
    match program.in_structure:
        case TupleOf((TupleOf(args), DictOf(names, kwargs))):
            return args, tuple(map(str, names)), kwargs
        case other:
            raise AssertionError(f"arguments of an unknown structure {other}")


def _positional(program: Program) -> list[str]:
    """Return the parameters that one argument each fills by position."""
    return [parameter.name for parameter in program.parameters if parameter.kind in ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")]
