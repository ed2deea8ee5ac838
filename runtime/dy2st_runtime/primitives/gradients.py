"""Gradients in a program: ``torch.autograd.grad`` where it runs, and backward passes of its own that autograd calls later."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from dy2st_runtime.errors import Dy2stError


def gradients(unsure: Sequence[int], inputs: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return the gradients of the inputs, then for each unsure one whether it has any.

    Args:
        unsure: positions of inputs that may have none; zeros stand in the place of a gradient that does not exist.
        inputs: what to differentiate with respect to.
        *args, **kwargs: the other arguments of :func:`torch.autograd.grad`, outputs first.
    """
    outputs, *rest = args
    results: list[Any] = list(torch.autograd.grad(outputs, inputs, *rest, **kwargs))
    used = [int(results[position] is not None) for position in unsure]
    for position in unsure:
        if results[position] is None:
            results[position] = torch.zeros_like(inputs[position])
    return (*results, *used)


def backward(
    unsure: Sequence[int],
    leaves: Sequence[torch.Tensor],
    others: Sequence[torch.Tensor],
    held: Sequence[torch.Tensor],
    tensors: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor | None],
    **kwargs: Any,
) -> tuple[Any, ...]:
    """Run :func:`torch.autograd.backward`; return the gradients of the leaves, and for each unsure one whether it has any.

    Args:
        unsure: positions of leaves that may have none; the leaf stands in the place of a gradient that does not exist.
        leaves: the tensors whose gradients the program may look at.
        others: tensors that get none.
        held: what is their gradient before, which the pass may change.
        tensors: what to differentiate.
        gradients: of these; ``None`` for ones.
        **kwargs: the other arguments of :func:`torch.autograd.backward`.
    """
    without = [tensor for tensor in others if tensor.grad is None]
    torch.autograd.backward(tensors, gradients, **kwargs)
    if any(tensor.grad is not None for tensor in without):
        raise Dy2stError("a backward pass of a program reaches a tensor that it did not reach when the program was captured")
    results = [leaf.grad for leaf in leaves]
    if any(result is None and position not in unsure for position, result in enumerate(results)):
        raise Dy2stError(
            "a hook of a tensor has taken a gradient away in the backward pass of a program that goes on with it; "
            "take it away after backward()"
        )
    there = [int(results[position] is not None) for position in unsure]
    return (*(leaf.detach() if grad is None else grad for leaf, grad in zip(leaves, results)), *there)


def gradient_of(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return ``tensor.grad`` and 1, or anything and 0 where there is none."""
    return (tensor.detach(), 0) if tensor.grad is None else (tensor.grad, 1)


def set_gradient(tensor: torch.Tensor, value: torch.Tensor | None) -> None:
    """Do ``tensor.grad = value``."""
    tensor.grad = value


def register_block(tensor: torch.Tensor, block: Backward) -> Any:
    """Register a hook of a tensor that is a block of the program; return the handle that removes it."""
    return tensor.register_hook(lambda gradient: block.run((gradient,))[0])


@contextlib.contextmanager
def left_as_it_was() -> Iterator[list[Any]]:
    """Put the grad mode back when what is inside fails half-way, and leave the autocast modes that are in the list."""
    grad_enabled = torch.is_grad_enabled()
    open_autocasts: list[Any] = []
    try:
        yield open_autocasts
    except BaseException:
        torch._C._set_grad_enabled(grad_enabled)
        for mode in reversed(open_autocasts):
            torch.amp.autocast_mode._exit_autocast(mode)
        raise


class Backward:
    """A backward pass: it computes the gradients of some inputs from those of outputs.

    Args:
        function: takes a list for the autocast modes that it opens, what has been saved for it, for each output its gradient (and
            before that, if there may be none, whether there is one), and the operands; gives a gradient or ``None`` for each input,
            then 0 for each of the optional ones that is not there.
        operands: values from around it.
        optional: the inputs that may have no gradient.
        tell: says in an exception of the function which line of the user's has raised it.
    """

    def __init__(
        self,
        function: Callable[..., tuple[Any, ...]],
        operands: Sequence[Any],
        optional: Sequence[int] = (),
        tell: Callable[[BaseException, Callable[..., Any]], None] | None = None,
    ) -> None:
        self._function, self._operands, self._optional, self._tell = function, operands, optional, tell

    def __call__(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[Any], saved: Sequence[torch.Tensor], **options: Any
    ) -> tuple[torch.Tensor, ...]:
        """Return the outputs, of which autograd knows from now on that they come from the inputs.

        Args:
            outputs: computed without a graph.
            inputs: tensors, and ``None`` for anything else.
            saved: what autograd keeps for the backward pass.
            **options: see :class:`Options`.
        """
        call = _Call(self, tuple(outputs), tuple(saved), Options(**options))
        results: tuple[torch.Tensor, ...] = _function(call.options.name, call.options.once).apply(*inputs, call)
        return results

    def run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the gradients of the inputs; the modes that it may switch inside are put back when it fails half-way."""
        try:
            with left_as_it_was() as open_autocasts:
                results = self._function(open_autocasts, *values, *self._operands)
        except BaseException as error:
            if self._tell is not None:
                self._tell(error, self._function)
            raise
        if not self._optional:
            return results
        count = len(results) - len(self._optional)
        missing = {position for position, there in zip(self._optional, results[count:]) if not there}
        return tuple(None if position in missing else value for position, value in enumerate(results[:count]))


@dataclasses.dataclass(frozen=True)
class Options:
    """How a backward pass belongs to the graph of autograd.

    Attributes:
        name: of the function, which its nodes in the graph have.
        again: the backward pass for where a graph of it is wanted; without one it is the same.
        once: whether its gradients cannot be differentiated.
        materialize: whether it gets zeros where an output has no gradient.
        dirty, apart: the positions of the inputs that have been changed in place, and of the outputs that have no gradient.
    """

    name: str
    again: Backward | None = None
    once: bool = False
    materialize: bool = True
    dirty: Sequence[int] = ()
    apart: Sequence[int] = ()


@dataclasses.dataclass
class _Call:
    """What a call of the function of autograd gets; it goes with the call."""

    backward: Backward
    outputs: tuple[torch.Tensor, ...]
    saved: tuple[torch.Tensor, ...]
    options: Options


class _Graph(torch.autograd.Function):
    """Puts outputs that have been computed already into the graph; its last argument is a :class:`_Call`."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        call: _Call = args[-1]
        options = call.options
        ctx.backward_pass, ctx.again, ctx.saves = call.backward, options.again or call.backward, bool(call.saved)
        ctx.materializes = options.materialize
        ctx.save_for_backward(*call.saved)
        ctx.set_materialize_grads(options.materialize)
        if options.dirty:
            ctx.mark_dirty(*(args[position] for position in options.dirty))
        if options.apart:
            ctx.mark_non_differentiable(*(call.outputs[position] for position in options.apart))
        return call.outputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        chosen: Backward = ctx.again if torch.is_grad_enabled() else ctx.backward_pass
        saved = ctx.saved_tensors if ctx.saves else ()
        given = grads if ctx.materializes else [part for grad in grads for part in _optional(grad)]
        return (*chosen.run((*saved, *given)), None)


class _OnceDifferentiable(_Graph):
    backward: Any = staticmethod(once_differentiable(_Graph.backward))


def _optional(grad: torch.Tensor | None) -> tuple[int, torch.Tensor]:
    return (0, torch.empty(0)) if grad is None else (1, grad)


@functools.lru_cache(maxsize=256)
def _function(name: str, once: bool) -> type[torch.autograd.Function]:
    return type(name, (_OnceDifferentiable if once else _Graph,), {})
