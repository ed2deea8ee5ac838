"""Conditions on one value, as expressions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from dy2st.capture.environment.same_contents import MAPPINGS, TensorShape, same_keys
from dy2st.capture.types.tensor_classes import is_users
from dy2st.capture.types.value_types import same_constant
from dy2st.static.matching.code import Writer

PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
FEW = 4
"""So many tensors are compared two by two to see that none is given twice, and checked one by one."""


def is_plain(value: Any) -> bool:
    """Tell whether a value is a tensor of no special kind."""
    return type(value) in PLAIN_TENSORS and not value.is_nested and value.layout is torch.strided


def check_distinct(out: Writer, names: Sequence[str]) -> None:
    """Check that each is another object."""
    out.need(*are_distinct(names))


def are_distinct(names: Sequence[str]) -> list[str]:
    """Return the conditions that each is another object."""
    if len(names) <= FEW:
        return [f"{a} is not {b}" for position, a in enumerate(names) for b in names[:position]]
    return [f"len({{{', '.join(f'id({name})' for name in names)}}}) == {len(names)}"]


def is_none_of(value: str, others: Sequence[str]) -> str:
    """Return the condition that a value is another object than some others."""
    if len(others) <= FEW:
        return " and ".join(f"{value} is not {other}" for other in others)
    return f"id({value}) not in {{{', '.join(f'id({other})' for other in others)}}}"


def are_none_of(values: Sequence[str], others: Sequence[str]) -> str:
    """Return the condition that some values are other objects than some others."""
    one, other = ("".join(f"id({name}), " for name in names) for names in (values, others))
    return f"{{{one}}}.isdisjoint(({other}))"


def is_pythons(kind: type) -> bool:
    """Tell whether the methods of a container are Python's own: with those of the user's, it is asked past them."""
    return kind.__module__ in ("builtins", "collections")


def keys_are(out: Writer, text: str, keys: Any, kind: type) -> str:
    """Return the keys of a dict, or how many items another container has.

    Equal strings are the same, equal numbers may be of another type.
    """
    if is_pythons(kind) and not issubclass(kind, MAPPINGS):
        return f"len({text}) == {keys}"
    kept = out.constant(keys)
    if not is_pythons(kind):
        return f"{out.constant(same_keys)}({text}, {kept})"
    if all(type(key) is str for key in keys):
        return f"[*{text}] == {kept}"
    same = f"len({text}) == {len(keys)} and {out.held(all)}({out.held(map)}({out.held(operator.is_)}, {text}, {kept}))"
    return f"({same} or {out.constant(same_keys)}({text}, {kept}))"


def equal(out: Writer, text: str, value: Any) -> str:
    if value is None or value is True or value is False or value is ...:
        return f"{text} is {out.constant(value)}"
    if isinstance(value, (torch.dtype, type)):
        return f"{text} is {out.constant(value)}"
    name, kept = out.fresh(), out.held(value)  # most often it is the very same object
    if type(value) in (int, str):
        return f"(({name} := {text}) is {kept} or type({name}) is {out.constant(type(value))} and {name} == {kept})"
    return f"(({name} := {text}) is {kept} or {out.constant(same_constant)}({name}, {kept}))"


def _is_nobodys(value: Any) -> bool:
    """Tell whether a value is a real tensor of a class that the user has not written."""
    return isinstance(value, torch.Tensor) and type(value) is not FakeTensor and not is_users(type(value))


def tensor(out: Writer, name: str, shape: TensorShape, *kinds: type) -> list[str]:
    """Return what a tensor must be; of one of some classes, if they are given."""
    constant = out.constant
    if kinds:
        results = [f"type({name}) is {constant(kinds[0])}" if len(kinds) == 1 else f"type({name}) in {constant(frozenset(kinds))}"]
    else:
        results = [f"(type({name}) in {constant(PLAIN_TENSORS)} or {constant(_is_nobodys)}({name}))"]
    sizes = out.fresh()
    if None not in shape.sizes:
        results.append(f"{name}.shape == {constant(shape.sizes)}")
    else:
        results.append(f"len({sizes} := {name}.shape) == {len(shape.sizes)}")
        results += [f"{sizes}[{dim}] == {size}" for dim, size in enumerate(shape.sizes) if size is not None]
    results.append(f"{name}.dtype is {constant(shape.dtype)}")
    results.append(f"{name}.is_cpu" if shape.device.type == "cpu" else f"{name}.device == {constant(shape.device)}")
    results.append(f"{name}.requires_grad is {shape.requires_grad}")
    results.append(f"{name}.layout is {constant(shape.layout)}")
    return results
