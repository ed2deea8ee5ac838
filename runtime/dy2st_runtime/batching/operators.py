"""One operation for several examples: all at once where they agree, in groups where shapes or numbers differ, or one by one."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch._C import _functorch

from dy2st_runtime.batching import numbers, per_example, streams
from dy2st_runtime.batching.plans import Step
from dy2st_runtime.batching.report import BatchReport
from dy2st_runtime.batching.values import (
    Each,
    Numbers,
    Positions,
    Ragged,
    Stacked,
    differs,
    is_plain,
    items_of,
    join,
    of_items,
    ranks_in,
    take,
    truth,
    views,
)
from dy2st_runtime.errors import BatchError
from dy2st_runtime.primitives import control

_aten = torch.ops.aten
_MOST_GROUPS = 0.75
"""Groups for each example from which on they are done one by one."""


class Failed(Exception):
    """Some examples raise.

    Args:
        errors: by position.
        value: of the others, in order; nothing if there is none.
    """

    def __init__(self, errors: dict[int, Exception], value: Any) -> None:
        super().__init__()
        self.errors, self.value = errors, value


@dataclasses.dataclass(frozen=True, slots=True)
class Examples:
    """Those that are in a block at a time.

    Attributes:
        ids: their numbers in the call.
        streams: of random numbers, of all examples of the call.
        report: takes note of what they do one by one.
    """

    ids: Positions
    streams: streams.Streams
    report: BatchReport

    def __len__(self) -> int:
        return len(self.ids)

    def some(self, positions: Positions) -> Examples:
        """Return some of them."""
        return Examples(self.ids[positions], self.streams, self.report)


_KINDS: dict[type, int] = {Stacked: 1, Numbers: 2, Ragged: 4, Each: 8}
"""Bits for the kinds of values that differ between the examples."""


def run(step: Step, values: Sequence[Any], examples: Examples) -> Any:
    """Do an operation that is neither a branch nor a loop.

    Args:
        step: the operation.
        values: what it reads.
        examples: those that do it.

    Raises:
        Failed: some of them raise.
    """
    kinds = 0
    for value in values:
        kinds |= _KINDS.get(type(value), 0)
    if step.is_quick:
        if kinds == 1:
            return _together(step, values, examples)
        if kinds == 0:
            return _of_all(step, values, examples)
    if step.one_by_one or (step.makes_list and kinds):
        if step.target is control.assert_ and truth(values[0], len(examples)) is True:
            return None
        return one_by_one(step, values, examples)
    if step.draws:
        return _drawn(step, values, examples, not kinds)
    if not kinds:
        return _of_all(step, values, examples)
    if step.is_operator:
        return _operator(step, values, examples)
    return _scalar(step, values, examples)


def _of_all(step: Step, values: Sequence[Any], examples: Examples) -> Any:
    """Do once what is the same for all examples; a tensor that may be written becomes one for each."""
    args, kwargs = step.build(values)
    try:
        result = step.function(*args, **kwargs)
    except Exception as error:
        raise Failed(dict.fromkeys(range(len(examples)), error), None) from None
    if step.makes_list:
        return Each([list(result) for _ in range(len(examples))])
    if step.written[0] and not step.keeps_views:
        return for_each(result, len(examples))
    return result


def for_each(value: Any, count: int) -> Any:
    """Return a tensor, or tensors, of which each example has its own."""
    if isinstance(value, tuple):
        return tuple(for_each(part, count) for part in value)
    if isinstance(value, list):
        return Each([list(value) for _ in range(count)])
    if is_plain(value):
        return Stacked(value.unsqueeze(0).repeat(count, *[1] * value.dim()))
    return Each([value.clone() for _ in range(count)]) if isinstance(value, torch.Tensor) else value


def _scalar(step: Step, values: Sequence[Any], examples: Examples) -> Any:
    """Do a function on Python's values."""
    if step.target is operator.is_ and any(map(_holds_tensors, values)):
        return _is_same_tensor(step, values)
    args, kwargs = step.build(values)
    if step.target is _aten.sym_size.int and type(args[1]) is int:
        if type(args[0]) is Stacked:
            return args[0].tensor.shape[1:][args[1]]
        if type(args[0]) is Ragged:
            sizes = [part.shape[1:] for part in args[0].parts]
            if all(-len(shape) <= args[1] < len(shape) for shape in sizes):
                return Numbers(np.array([shape[args[1]] for shape in sizes], np.int64)[args[0].labels])
    if not kwargs:
        args = tuple(map(per_example.as_numbers, args))
        result = numbers.calculated(step.target, args)
        if result is not None:
            return result
    return one_by_one(step, values, examples)


def _holds_tensors(value: Any) -> bool:
    return type(value) in (Stacked, Ragged) or (type(value) is Each and any(isinstance(item, torch.Tensor) for item in value.items))


def _is_same_tensor(step: Step, values: Sequence[Any]) -> bool:
    if values[0] is values[1]:
        return True
    raise BatchError(
        f"{step.location}: whether two tensors are one object is not known for examples that run together; compare what is in them"
    )


# -- operators ---------------------------------------------------------------------------------------------------------------


def _operator(step: Step, values: Sequence[Any], examples: Examples) -> Any:
    if step.target is _aten.detach_.default and not any(_needs_gradient(value) for value in values):
        return values[0]
    if any(type(value) is Each for value in values):
        if step.keeps_views or step.written[0]:
            return one_by_one(step, values, examples)
        values = [_read(value) for value in values]
        if any(type(value) is Each for value in values):
            return one_by_one(step, values, examples)
    special = None if step.written[0] else _RULES.get(id(step.target))
    if special is not None:
        result = special(step, values, len(examples))
        if result is not None:
            return result
    if any(type(value) in (Numbers, Ragged) for value in values):
        step, values = per_example.replaced(step, values)
    if any(type(value) in (Numbers, Ragged) for value in values):
        return _in_groups(step, values, examples)
    return _together(step, values, examples)


_RULES = {id(target): rule for target, rule in per_example.RULES.items()}
"""By identity: operators take a while to be hashed."""


def _needs_gradient(value: Any) -> bool:
    if type(value) is Each:
        return any(isinstance(item, torch.Tensor) and item.requires_grad for item in value.items)
    return type(value) is not Stacked or value.tensor.requires_grad


def _read(value: Any) -> Any:
    """Return tensors that are views as such to read from."""
    return of_items(value.items) if type(value) is Each and all(map(is_plain, value.items)) else value


def _together(step: Step, values: Sequence[Any], examples: Examples) -> Any:
    """Do an operator on tensors of one shape, and what is the same for all."""
    count = len(examples)
    try:
        if count == 1:
            return _alone(step, values)
        if step.is_pointwise:
            result = _pointwise(step, values)
            if result is not None:
                return result
        if torch._C._is_any_autocast_enabled():  # which does not reach into vmap
            return one_by_one(step, values, examples)
        return _vmapped(step, values, count)
    except Exception:  # of some examples, or of vmap itself: they are done one by one, and those that fail are told
        return one_by_one(step, values, examples)


def _alone(step: Step, values: Sequence[Any]) -> Any:
    mode = torch.enable_grad if step.keeps_views or step.written[0] else contextlib.nullcontext  # see values.views
    with mode():
        own = [value.tensor[0] if type(value) is Stacked else value for value in values]
    args, kwargs = step.build(own)
    result = step.function(*args, **kwargs)
    with mode():
        return _with_examples(result)


def _with_examples(result: Any) -> Any:
    if is_plain(result):
        return Stacked(result.unsqueeze(0))
    if isinstance(result, (tuple, list)):
        return tuple(map(_with_examples, result))
    return result if result is None else Each([result]) if isinstance(result, torch.Tensor) else of_items([result])


def _pointwise(step: Step, values: Sequence[Any]) -> Stacked | None:
    """Do an operator that broadcasts, with the examples as one more dimension; ``None`` where types would be promoted."""
    dtype, rank, least, tensors = None, -1, -1, []
    for value in values:
        if type(value) is Stacked:
            tensor = value.tensor
            own = tensor.dim() - 1
            least = own if least < 0 else min(least, own)
        elif isinstance(value, torch.Tensor):
            tensor, own = value, value.dim()
        else:
            tensors.append(value)
            continue
        if dtype is None:
            dtype = tensor.dtype
        elif tensor.dtype is not dtype:
            return None
        rank = max(rank, own)
        tensors.append(tensor)
    if least < rank:
        tensors = [_aligned(value.tensor, rank) if type(value) is Stacked else value for value in values]
    args, kwargs = step.build(tensors)
    result = step.function(*args, **kwargs)
    return Stacked(result) if type(result) is torch.Tensor else None


def _aligned(tensor: torch.Tensor, rank: int) -> torch.Tensor:
    """Return stacked tensors with as many dimensions each as asked for."""
    missing = rank + 1 - tensor.dim()
    return tensor.reshape(tensor.shape[0], *[1] * missing, *tensor.shape[1:]) if missing else tensor


def _vmapped(step: Step, values: Sequence[Any], count: int) -> Any:
    level = _functorch._vmap_increment_nesting(count, "error")
    try:
        wrapped = [_functorch._add_batch_dim(value.tensor, 0, level) if type(value) is Stacked else value for value in values]
        args, kwargs = step.build(wrapped)
        return _unwrapped(step.function(*args, **kwargs), level, count)
    finally:
        _functorch._vmap_decrement_nesting()


def _unwrapped(result: Any, level: int, count: int) -> Any:
    if isinstance(result, torch.Tensor):
        if _functorch.is_batchedtensor(result) and _functorch.maybe_get_level(result) == level:
            return Stacked(_functorch._remove_batch_dim(result, level, count, 0))
        return result
    return tuple(_unwrapped(part, level, count) for part in result) if isinstance(result, (tuple, list)) else result


def _in_groups(step: Step, values: Sequence[Any], examples: Examples) -> Any:
    """Do an operator for examples of one shape, with one set of numbers, at a time."""
    count = len(examples)
    columns = []
    for value in values:
        if type(value) is Ragged:
            columns.append(value.labels)
        elif type(value) is Numbers:
            columns.append(np.unique(value.array, return_inverse=True, equal_nan=False)[1])
    labels = columns[0]
    for column in columns[1:]:
        labels = labels * (int(column.max()) + 1) + column
    names = np.unique(labels)
    if step.keeps_views or step.written[0] or len(names) > _MOST_GROUPS * count:
        return one_by_one(step, values, examples)
    ranks = [ranks_in(value.labels) if type(value) is Ragged else None for value in values]
    pieces, errors = [], dict[int, Exception]()
    for name in names:
        positions = np.flatnonzero(labels == name)
        chosen = [_of_group(value, rank, positions) for value, rank in zip(values, ranks)]
        try:
            pieces.append((positions, _group(step, chosen, examples.some(positions))))
        except Failed as failed:
            errors |= {int(positions[at]): error for at, error in failed.errors.items()}
            rest = np.delete(positions, list(failed.errors))
            if len(rest):
                pieces.append((rest, failed.value))
    if not errors:
        return join(pieces, count)
    keep = np.delete(np.arange(count), list(errors))
    raise Failed(errors, join([(np.searchsorted(keep, at), value) for at, value in pieces], len(keep)) if pieces else None)


def _of_group(value: Any, ranks: Any, positions: Positions) -> Any:
    if type(value) is Numbers:
        return value.array[positions[0]].item()
    if type(value) is Ragged:
        part = value.parts[int(value.labels[positions[0]])]
        return Stacked(part if len(part) == len(positions) else part[torch.from_numpy(ranks[positions])])
    return take(value, positions)


def _group(step: Step, values: Sequence[Any], examples: Examples) -> Any:
    return _together(step, values, examples) if any(map(differs, values)) else _of_all(step, values, examples)


def _drawn(step: Step, values: Sequence[Any], examples: Examples, is_same: bool) -> Any:
    """Do an operator that draws random numbers, or would if an argument said so."""
    if is_same:
        args, kwargs = step.build(values)
        result = streams.drawn(step.target, examples.streams, examples.ids, args, kwargs)
        if result is not None:
            return Stacked(result)
    special = per_example.DRAWN.get(step.target)
    if special is not None:
        values = [_of_each(_read(value), len(examples)) for value in values]
        if not any(type(value) in (Each, Ragged, Numbers) for value in values):
            result = special(step, values, examples)
            if result is not None:
                return result
    return one_by_one(step, values, examples)


def _of_each(value: Any, count: int) -> Any:
    """Return a tensor that all examples have, or the only one has, as that of each: what they draw does not depend on that."""
    return Stacked(value.expand(count, *value.shape).contiguous()) if isinstance(value, torch.Tensor) else value


# -- one by one --------------------------------------------------------------------------------------------------------------


def one_by_one(step: Step, values: Sequence[Any], examples: Examples) -> Any:
    """Do an operation for each example alone.

    Raises:
        Failed: some of them raise.
    """
    count = len(examples)
    if step.is_operator and count > 1:
        examples.report.count_alone(step.node, count)
    if step.keeps_views or step.written[0]:
        values = [views(value, count) for value in values]
    columns = [items_of(value, count) for value in values]
    results, errors = [], dict[int, Exception]()
    for position in range(count):
        row = [column[position] for column in columns]
        if step.keeps_views:
            _bring_up_to_date(row)
        args, kwargs = step.build(row)
        try:
            if step.draws:
                with examples.streams.seeded(int(examples.ids[position])):
                    results.append(step.function(*args, **kwargs))
            else:
                results.append(step.function(*args, **kwargs))
        except Exception as error:
            errors[position] = error
    value = None
    if results:
        value = Each(list(map(list, results))) if step.makes_list else _collected(step, results)
    if errors:
        raise Failed(errors, value)
    return value


def _bring_up_to_date(values: Sequence[Any]) -> None:
    """Have autograd notice what was written to other views of what tensors are views of: it does when it is asked."""
    for value in values:
        if isinstance(value, torch.Tensor):
            with contextlib.suppress(RuntimeError):  # of one that must not be used any more
                value.grad_fn  # noqa: B018


def _collected(step: Step, results: list[Any]) -> Any:
    """Return a register for what the examples have computed one by one."""
    if step.is_operator and isinstance(results[0], (tuple, list)):
        columns = zip(*results)
        return tuple(Each(list(column)) if step.written[0] else of_items(column) for column in columns)
    if any(isinstance(result, list) for result in results):
        return Each(results)
    if step.written[0] and any(isinstance(result, torch.Tensor) for result in results):
        return Each(results)
    return of_items(results)
