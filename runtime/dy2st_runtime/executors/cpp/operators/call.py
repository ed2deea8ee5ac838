"""One call of an operator, and the table of what follows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dy2st_runtime.executors.cpp.builder import Builder
from dy2st_runtime.executors.cpp.values import Number, Opaque, Tensor, Unsupported, Value

_DUMMIES = {bool: True, int: 1, float: 1.0}
"""What stands for a run-time number of each type when PyTorch is asked for a result's dtype."""


@dataclasses.dataclass
class Call:
    """One call of an operator.

    Attributes:
        builder: what follows it.
        node: where it is.
        target: the operator.
        name: without namespace, overload, and the ``_`` of an in-place one.
        arguments: by name, defaults filled in.
        in_place: whether it writes to its first argument.
    """

    builder: Builder
    node: fx.Node
    target: Any
    name: str
    arguments: dict[str, Any]
    in_place: bool

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str) -> Any:
        """Return an argument, or ``None`` where the overload has none of the name."""
        return self.arguments.get(name)

    def constant(self, name: str) -> Any:
        """Return an argument that must be known now."""
        return self.builder.constant(self.arguments.get(name))

    def meta(self, **other: Any) -> Any:
        """Return the result for meta tensors."""
        table = {**self.arguments, **other}
        schema = self.target._schema.arguments
        args = [as_meta(table[argument.name]) for argument in schema if not argument.kwarg_only]
        kwargs = {argument.name: as_meta(table[argument.name]) for argument in schema if argument.kwarg_only}
        kwargs = {name: torch.device("meta") if name == "device" and value is not None else value for name, value in kwargs.items()}
        kwargs.pop("pin_memory", None)
        try:
            return self.target(*args, **kwargs)
        except Exception as error:
            raise Unsupported(f"{self.name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from error

    def out(self, meta: torch.Tensor, item: Any, index: int | None = None) -> Tensor:
        """Return the tensor of a new result."""
        return self.builder.tensor(meta, item, self.node if index is None else (self.node, index))


def as_meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.meta
    if isinstance(value, Number):
        return _DUMMIES[value.kind]
    if isinstance(value, Opaque):
        raise Unsupported("a value that has no C++")
    if isinstance(value, (list, tuple)):
        return type(value)(as_meta(item) for item in value)
    return value


Rule = Callable[[Call], Value]

RULES: dict[str, Rule] = {}
"""What follows an operator, by its name without overload."""


def register(*names: str) -> Callable[[Rule], Rule]:
    """Say what follows some operators."""

    def note(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return note
