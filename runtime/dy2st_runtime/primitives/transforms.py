"""The transforms of ``torch.func`` in a program, and attempts: applied, when it runs, to a Python function that runs a block.

Everything is flat here: the function takes and gives tensors, in a tuple. Of what it gives, the last ``aux`` are passed on as they
are, and the transform sees the others.

| name | options | value |
|---|---|---|
| ``grad`` | argnums, aux | the gradients, the value, then what is passed on |
| ``jacrev`` | argnums, aux, chunk_size | for each result the Jacobians, then what is passed on |
| ``jacfwd`` | argnums, aux, randomness | the same |
| ``jvp`` | tangents, aux, strict | the results, their tangents, then what is passed on |
| ``vjp`` | aux | the results, what is passed on, then a function from cotangents to gradients |
| ``vmap`` | in_dims, out_dims, randomness, chunk_size | the results |
| ``attempt`` | kinds, like | the number of the kind of exception, or 0; its text; the results |
| ``checkpoint`` | those of torch's function, and operands | the results |
| ``loop`` | pred, snapshots | what the loop leaves |
| ``backward`` | optional, and what the executor adds | the function's :class:`~dy2st_runtime.primitives.gradients.Backward` |

An attempt counts the kinds that it is for from 1; ``like`` has the dtypes and ranks of the results, which have no items where it
raises. The block of ``backward`` runs after the program, when autograd asks for gradients: it gets its operands as they are now,
and its inputs, which are here only like those that it will get, later. That of ``checkpoint`` saves nothing for gradients: it is
run again for them, with the same random numbers. The block of ``loop`` is that of ``while_``, which it does in parts for gradients
(:mod:`dy2st_runtime.executors.loops`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from dy2st_runtime.primitives.gradients import Backward, left_as_it_was

Function = Callable[..., tuple[Any, ...]]


def transformed(name: str, function: Function, inputs: Sequence[Any], **options: Any) -> tuple[Any, ...]:
    """Apply a transform.

    Args:
        name: one of :data:`TRANSFORMS`.
        function: takes as many tensors as there are inputs, gives a tuple of tensors.
        inputs: what the transformed function is called with.
        **options: see the table above.
    """
    return TRANSFORMS[name](function, inputs, **options)


def _grad(function: Function, inputs: Sequence[Any], argnums: tuple[int, ...], aux: int = 0) -> tuple[Any, ...]:
    def scalar(*values: Any) -> tuple[Any, tuple[Any, ...]]:
        (result, *_), passed_on = _split(function(*values), aux)
        return result, passed_on

    gradients, (value, passed_on) = torch.func.grad_and_value(scalar, argnums, has_aux=True)(*inputs)
    return (*gradients, value, *passed_on)


def _jacobian(transform: Any) -> Callable[..., tuple[Any, ...]]:
    def apply(function: Function, inputs: Sequence[Any], argnums: tuple[int, ...], aux: int = 0, **options: Any) -> tuple[Any, ...]:
        result, passed_on = transform(_splitting(function, aux), argnums, has_aux=True, **options)(*inputs)
        return (*(jacobian for row in result for jacobian in row), *passed_on)

    return apply


def _jvp(function: Function, inputs: Sequence[Any], tangents: Sequence[Any], strict: bool, aux: int = 0) -> tuple[Any, ...]:
    split = _splitting(function, aux)
    result: Any = torch.func.jvp(split, tuple(inputs), tuple(tangents), strict=strict, has_aux=True)
    results, value, passed_on = result
    return (*results, *value, *passed_on)


def _vjp(function: Function, inputs: Sequence[Any], aux: int = 0) -> tuple[Any, ...]:
    result: Any = torch.func.vjp(_splitting(function, aux), *inputs, has_aux=True)
    results, back, passed_on = result
    return (*results, *passed_on, back)


def _vmap(function: Function, inputs: Sequence[Any], out_dims: Sequence[Any] = (0,), **options: Any) -> tuple[Any, ...]:
    return tuple(torch.func.vmap(function, out_dims=tuple(out_dims), **options)(*inputs))


EXCEPTIONS: dict[str, type[Exception]] = {
    "IndexError": IndexError,
    "RuntimeError": RuntimeError,
    "ValueError": ValueError,
    "LinAlgError": torch.linalg.LinAlgError,  # type: ignore[attr-defined]  # an alias
}
"""The kinds of exceptions that an attempt takes by their names; archives rely on the names."""


def _attempt(
    function: Function, inputs: Sequence[Any], kinds: Sequence[str], like: Sequence[tuple[torch.dtype, int]]
) -> tuple[Any, ...]:
    try:
        return (0, "", *function(*inputs))
    except tuple(EXCEPTIONS[kind] for kind in kinds) as error:
        number = next((number for number, kind in enumerate(kinds, 1) if type(error) is EXCEPTIONS[kind]), None)
        if number is None:
            raise
        return (number, str(error), *(torch.empty((0,) * rank, dtype=dtype) for dtype, rank in like))


def _checkpoint(function: Function, inputs: Sequence[Any], operands: Sequence[Any], **options: Any) -> tuple[Any, ...]:
    """Apply ``torch.utils.checkpoint.checkpoint`` to a function whose first argument takes the autocast modes that it opens."""

    def run(*values: Any) -> tuple[Any, ...]:
        with left_as_it_was() as open_autocasts:
            return function(open_autocasts, *values, *operands)

    result: tuple[Any, ...] = checkpoint(run, *inputs, **options)
    return result


def _backward(function: Function, inputs: Sequence[Any], **options: Any) -> tuple[Any, ...]:
    return (Backward(function, **options),)


def _loop(function: Function, inputs: Sequence[Any], **options: Any) -> tuple[Any, ...]:
    return function(inputs, **options)


def _split(results: tuple[Any, ...], aux: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return results[: len(results) - aux], results[len(results) - aux :]


def _splitting(function: Function, aux: int) -> Callable[..., Any]:
    return lambda *values: _split(function(*values), aux)


TRANSFORMS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "grad": _grad,
    "jacrev": _jacobian(torch.func.jacrev),
    "jacfwd": _jacobian(torch.func.jacfwd),
    "jvp": _jvp,
    "vjp": _vjp,
    "vmap": _vmap,
    "attempt": _attempt,
    "checkpoint": _checkpoint,
    "loop": _loop,
    "backward": _backward,
}
"""Every transform by its name; archives rely on the names."""
