"""Calls of PyTorch's operators with numbers that are known when the program runs among the arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from dy2st.lowering.lists import as_sequence, joined
from dy2st.lowering.values import ListValue, Number, Unbound, as_tensor, known_later

aten = torch.ops.aten
_EXAMPLES = {"bool": True, "int": 1, "float": 1.0}


def call(target: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operator.

    A number goes in as a tensor where the operator has a form that takes one, with the dtype that a Python number would lead to,
    and as a size otherwise. Where a tensor belongs and there is none, as on ways that are never taken, there is no result.
    """
    given = dict(_by_name(target, args, kwargs))
    if any(value is None and str(argument.type) == "Tensor" for argument, value in _paired(target, given)):
        return None
    if target in (aten.stack.default, aten.cat.default) and (result := _joined(target, given)) is not None:
        return result
    if target is aten.unbind.int and isinstance(given["self"].shape[given.get("dim", 0)], torch.SymInt):
        return Unbound(given["self"], given.get("dim", 0))
    if target is aten.scaled_dot_product_attention.default and given["query"].dim() != 4:
        return _attention(given)
    if _has_numbers(given):
        target, given = _taking_tensors(target, given)
        given = _with_tensors(target, given)
    positional = [argument.name for argument in target._schema.arguments if not argument.kwarg_only]
    filled = list(_leading(positional, given))
    return target(*filled, **{name: value for name, value in given.items() if name not in positional[: len(filled)]})


def _attention(given: dict[str, Any]) -> torch.Tensor:
    """Attention that is not over batches and heads by the operator that eager takes then, which exporters can take apart."""
    result: tuple[torch.Tensor, ...] = aten._scaled_dot_product_attention_math.default(**given)
    return result[0]


def size(value: Any) -> Any:
    """Return a number as a size."""
    return known_later(value.tensor) if isinstance(value, Number) else value


def _by_name(target: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for argument, value in zip(target._schema.arguments, args):
        yield argument.name, value
    yield from kwargs.items()


def _paired(target: torch._ops.OpOverload, given: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    return ((argument, given[argument.name]) for argument in target._schema.arguments if argument.name in given)


def _leading(names: list[str], given: dict[str, Any]) -> Iterator[Any]:
    for name in names:
        if name not in given:
            return
        yield given[name]


def _joined(target: torch._ops.OpOverload, given: dict[str, Any]) -> torch.Tensor | None:
    """Return ``stack`` or ``cat`` of a list whose length is not known."""
    values = given["tensors"]
    if not isinstance(values, (ListValue, Unbound)):
        return None
    if isinstance(values, ListValue) and values.sequence is not None:
        return joined(values, given.get("dim", 0), target is aten.stack.default)
    items = as_sequence(values)
    if isinstance(items, list):
        given["tensors"] = items
        return None
    dim = given.get("dim", 0)
    if target is aten.stack.default:
        return torch.movedim(items, 0, dim) if dim else items
    dim = dim % (items.dim() - 1)
    return torch.flatten(torch.movedim(items, 0, dim), dim, dim + 1)


def _has_numbers(given: dict[str, Any]) -> bool:
    return any(
        isinstance(value, (Number, ListValue)) or (isinstance(value, (list, tuple)) and any(isinstance(v, Number) for v in value))
        for value in given.values()
    )


def _taking_tensors(target: torch._ops.OpOverload, given: dict[str, Any]) -> tuple[torch._ops.OpOverload, dict[str, Any]]:
    """Return the form of an operator that takes tensors where this one takes the numbers that are not known."""
    wanted = [
        argument for argument, value in _paired(target, given) if isinstance(value, Number) and "number" in str(argument.type)
    ]
    wanted = [argument for argument in wanted if argument.name != "alpha"]
    if not wanted:
        return target, given
    packet, name = target.overloadpacket, target._overloadname
    for candidate in (name.replace("Scalar", "Tensor"), "Tensor", name.replace("Scalar_mode", "Tensor_mode")):
        if candidate != name and candidate in packet.overloads():
            result = getattr(packet, candidate)
            names = {argument.name for argument in result._schema.arguments}
            if set(given) <= names:
                return result, given
    return target, given


def _with_tensors(target: torch._ops.OpOverload, given: dict[str, Any]) -> dict[str, Any]:
    like = next((v for v in given.values() if isinstance(v, torch.Tensor)), None)
    return {argument.name: _argument(str(argument.type), value, like) for argument, value in _paired(target, given)}


def _argument(kind: str, value: Any, like: torch.Tensor | None) -> Any:
    if isinstance(value, ListValue):
        value = as_sequence(value)
    if isinstance(value, (list, tuple)):
        inner = "Tensor" if "Tensor" in kind else "int"
        return [_argument(inner, item, like) for item in value]
    if isinstance(value, (bool, int, float)) and kind in ("Tensor", "Optional[Tensor]") and like is not None:
        return torch.full((), value, dtype=torch.result_type(like, value), device=like.device)
    if not isinstance(value, Number):
        return value
    if "Tensor" not in kind:
        return size(value)
    if like is None:
        return as_tensor(value)
    return value.tensor.to(device=like.device, dtype=torch.result_type(like, _EXAMPLES[value.kind]))
