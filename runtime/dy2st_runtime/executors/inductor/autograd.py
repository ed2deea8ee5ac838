"""One compiled region as one step of autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch.autograd.function import _SingleLevelFunction  # Function.apply looks for transforms, which never meet a region

from dy2st_runtime.executors.inductor.compile import Boxed, Compiled

Replay = Callable[..., Sequence[Any]]


def step_of(compiled: Compiled, replay: Replay, unstable: bool, read: Sequence[int]) -> Callable[..., tuple[Any, ...]]:
    """Return the function that runs a region so that gradients flow through it.

    Args:
        compiled: the region, compiled with gradients.
        replay: runs it uncompiled, for gradients of gradients.
        unstable: whether the program changes tensors in place, so that what is saved must be a copy where it is visible.
        read: the positions of tensors among the arguments that it does not change itself.

    Returns:
        Takes the arguments of the region, gives its outputs.
    """
    forward_of, backward_of = compiled.forward, cast(Boxed, compiled.backward)
    count, saved, sizes, full = compiled.outputs, compiled.saved, compiled.sizes, compiled.requires_grad
    constant = _without_gradient(compiled, full)
    coerce = _coercing(compiled)
    position = compiled.tangents
    shapes = None if any(shape is None for shape in compiled.shapes) else [compiled.shapes[index] for index in position]

    class Step(_SingleLevelFunction):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> tuple[Any, ...]:
            value = forward_of(list(args))
            outputs = tuple(value[:count])
            kept = value[saved]
            ctx.save_for_backward(*(_stable(kept, (*args, *outputs)) if unstable else kept))
            ctx.sizes, ctx.inputs, ctx.versions = value[sizes], args, [args[index]._version for index in read]
            ctx.shapes = shapes or [outputs[index].shape for index in position]
            ctx.set_materialize_grads(False)
            wanted = ctx.needs_input_grad
            without = constant if wanted == full else _without_gradient(compiled, wanted)
            if without:
                ctx.mark_non_differentiable(*[outputs[index] for index in without])
            return outputs

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            if torch.is_grad_enabled():
                return _again(replay, ctx, grads, read)
            given = [grads[index] for index in position]
            missing = any(grad is None for grad in given)
            if missing:
                given = _filled(compiled, ctx.shapes, given)
            result = backward_of([*ctx.sizes, *ctx.saved_tensors, *coerce(given)])
            return _only_reached(compiled, grads, result) if missing else tuple(result)

    value: Any = Step
    return value.apply  # type: ignore[no-any-return]  # of a base class in C++


def _without_gradient(compiled: Compiled, wanted: Sequence[bool]) -> tuple[int, ...]:
    """Return the outputs that no gradient flows through, when only some inputs want one."""
    return tuple(i for i, reached in enumerate(compiled.reaches) if not any(wanted[position] for position in reached))


def _coercing(compiled: Compiled) -> Callable[[list[Any]], list[Any]]:
    """Give gradients the layout that the generated function takes them in."""
    from torch._functorch._aot_autograd.runtime_wrappers import coerce_to_expected_memory_format

    wanted = [(layout, getattr(layout, "stride", None)) for layout in compiled.layouts]

    def coerce(grads: list[Any]) -> list[Any]:
        return [
            grad if grad.stride() == stride else coerce_to_expected_memory_format(grad, layout)
            for grad, (layout, stride) in zip(grads, wanted)
        ]

    return coerce


def _stable(kept: Sequence[Any], visible: Sequence[Any]) -> list[Any]:
    """Copy what the program may still change."""
    seen = {value.untyped_storage().data_ptr() for value in visible if isinstance(value, torch.Tensor)}
    return [value.clone() if value.untyped_storage().data_ptr() in seen else value for value in kept]


def _filled(compiled: Compiled, shapes: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Zeros in the place of gradients that do not exist."""
    kinds = [compiled.kinds[index] for index in compiled.tangents]
    return [
        torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad
        for grad, shape, (dtype, device) in zip(given, shapes, kinds)
    ]


def _only_reached(compiled: Compiled, grads: Sequence[Any], result: Sequence[Any]) -> tuple[Any, ...]:
    """Return an input that no gradient flows to has none, as in eager; not zero."""
    reached = frozenset[int]().union(*(compiled.reaches[i] for i in compiled.tangents if grads[i] is not None))
    return tuple(grad if position in reached else None for position, grad in enumerate(result))


def _again(replay: Replay, ctx: Any, grads: Sequence[Any], read: Sequence[int]) -> tuple[Any, ...]:
    """Gradients that have gradients: run the region uncompiled and differentiate that."""
    wanted = [i for i, needed in enumerate(ctx.needs_input_grad) if needed]
    inputs = list(ctx.inputs)
    if [inputs[index]._version for index in read] != ctx.versions:
        raise RuntimeError("a tensor that is needed to differentiate a gradient was changed in place after it was used")
    with torch.enable_grad():
        for position in wanted:
            inputs[position] = inputs[position].view_as(inputs[position])
        outputs = replay(*inputs)
        pairs = [(out, grad) for out, grad in zip(outputs, grads) if grad is not None and out.requires_grad]
        value = torch.autograd.grad(
            [out for out, _ in pairs],
            [inputs[position] for position in wanted],
            [grad for _, grad in pairs],
            create_graph=True,
            allow_unused=True,
        )
    result: list[Any] = [None] * len(inputs)
    for position, grad in zip(wanted, value):
        result[position] = grad
    return tuple(result)
