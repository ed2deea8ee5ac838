"""A backward of the user's own in a program: a block that the program keeps with the graph, and that autograd runs later.

    y = Cube.apply(x)    →    y = x ** 3, without a graph
                              back = backward with (x, g like y): yield g * 3 * x ** 2
                              y = back((y,), (x,), (x,))

The ``forward`` is captured like any other function before (:mod:`.autograd_functions`). There is one block for gradients, and one
for gradients that are to be differentiated, since code may ask in which mode it runs.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from dy2st import errors
from dy2st.capture.attributes.attributes import attr
from dy2st.capture.branching.branch import run_branch
from dy2st.capture.branching.transformed import is_outside, kind_of, set_grad_mode
from dy2st.capture.calls.grad_regions import in_other_mode
from dy2st.capture.recording.block import align_operands
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.session.regions import Outcome
from dy2st.capture.session.session import Session
from dy2st.capture.types import abstract_values, tensor_traits, value_types
from dy2st.capture.values.signals import NeedsRuntimeList
from dy2st.capture.values.symbolic import RuntimeFunction, TaggedUnion, options_of
from dy2st_runtime.ir.program import Block
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.gradients import Backward

_NONE = value_types.SameType(None)


@dataclasses.dataclass(frozen=True)
class Applied:
    """A function whose ``forward`` has been captured.

    Attributes:
        function: the class.
        context: its ``ctx``.
        args: what it was called with.
        parts: what it has given.
    """

    function: type[torch.autograd.Function]
    context: Any
    args: tuple[Any, ...]
    parts: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class _Pass:
    """A backward pass that is a value of the program.

    Attributes:
        value: stands for it.
        block, operands: what it is.
        like: values that are what its inputs will be.
        optional: the arguments that may have no gradient.
        there: for each argument whether it has a gradient, ``None`` where the program decides that.
        asks: whether its code has asked for the grad mode, or whether tensors require gradients.
    """

    value: RuntimeFunction
    block: Block
    operands: tuple[Any, ...]
    like: tuple[Any, ...]
    optional: tuple[int, ...]
    there: Sequence[bool | None]
    asks: bool


class Attaching:
    """What makes autograd know where the outputs of a function come from.

    Args:
        session: the capture.
        applied: the function.
    """

    def __init__(self, session: Session, applied: Applied) -> None:
        self._session, self._applied = session, applied
        adopted = session.outside.adopted
        self._inputs = [adopted(value) if isinstance(value, torch.Tensor) else None for value in applied.args]
        self._positions = [position for position, part in enumerate(applied.parts) if isinstance(part, torch.Tensor)]
        self._outputs = [adopted(applied.parts[position]) for position in self._positions]
        self._saved = [adopted(part) for value in applied.context.to_save for part in options_of(value) if part is not None]
        self._options = self._told()
        self._there: list[Sequence[bool | None]] = []
        self._results: Sequence[torch.Tensor] = ()

    def parts(self) -> tuple[Any, ...]:
        """Record it; gives what the function has given, with the graph."""
        self._attach()
        once = _of_once_differentiable(self._applied.function)
        first = self._backward(False)
        again = None if once else self._in_other_mode(first) or self._backward(True)
        self._there += [result.there for result in (first, again) if result is not None]
        if again is not None:
            self._options["again"] = again.value
        if once:
            self._options["once"] = True
        self._record(first.value)
        parts = list(self._applied.parts)
        for position, result in zip(self._positions, self._results):
            parts[position] = result
        return tuple(parts)

    def _told(self) -> dict[str, Any]:
        """Return what ``forward`` has told its context, as options of the program."""
        context = self._applied.context
        options: dict[str, Any] = {"name": self._applied.function.__name__}
        if not context.materialize_grads:
            options["materialize"] = False
        for name, marked, among in (
            ("dirty", context.dirty_tensors, self._inputs),
            ("apart", context.non_differentiable, self._outputs),
        ):
            tensors = [self._session.outside.adopted(value) for value in marked if isinstance(value, torch.Tensor)]
            positions = [position for position, value in enumerate(among) if any(value is tensor for tensor in tensors)]
            if name == "dirty" and len({id(tensor) for tensor in tensors}) != len({id(among[p]) for p in positions}):
                raise self._refused("marks a tensor as changed in place that it has not been given")
            if positions:
                options[name] = tuple(positions)
        return options

    def _refused(self, what: str, fix: str = "") -> errors.CaptureError:
        return errors.CaptureError(f"{self._applied.function.__qualname__} {what}", self._session.here(), fix=fix or None)

    # -- the graph of the abstract values ----------------------------------------------------------------------------------

    def _attach(self) -> None:
        """Do to the abstract values what the program does to the tensors."""
        session, inputs = self._session, self._inputs

        def zeros(autocasts: Any, *values: Any) -> tuple[Any, ...]:
            there = [all(told[position] is not False for told in self._there) for position in range(len(inputs))]
            return tuple(
                torch.zeros_like(value) if isinstance(value, torch.Tensor) and is_there else None
                for value, is_there in zip(inputs, there)
            )

        known = [tensor_traits.autograd_of(value) for value in inputs if value is not None]
        with quiet(), session.suspended():
            self._results = Backward(zeros, ())(self._outputs, inputs, self._saved, **self._options)
        changed = [value for value in inputs if value is not None]
        for value, before in zip(changed, known):
            if tensor_traits.autograd_of(value) != before:
                tensor_traits.changed_in_place(session, value)
        if any(tensor_traits.AUTOGRAD in tensor_traits.mixed(value) for value in changed):
            for result in self._results:
                tensor_traits.mark(result, (tensor_traits.AUTOGRAD,))

    # -- the backward pass -------------------------------------------------------------------------------------------------

    def _backward(self, again: bool) -> _Pass:
        """Record the backward pass as a block; ``again`` for where its gradients are to be differentiated."""
        session, mode = self._session, torch.is_grad_enabled()
        leaves: list[Any] = []

        def body() -> Any:
            for tensor in self._saved:
                session.builder.bind_without_sizes(tensor, session.builder.placeholder("saved", tensor))
            grads = [self._gradient(part, again, leaves) for part in self._applied.parts]
            for leaf in leaves:
                session.builder.bind(leaf, session.builder.placeholder("grad", leaf))
            return self._taken_apart(session.call(_method(self._applied.function), self._applied.context, *grads))

        asked, session.traits.asks_strides = session.traits.asks_strides, False
        before = session.traits.asked.copy(), session.asked
        session.traits.asked.clear()
        session.asked = {}
        session.transforms.append("backward")
        try:
            set_grad_mode(again)
            outcome = run_branch(session, body, ())
        except NeedsRuntimeList:
            raise self._refused("changes a list in its backward that is older") from None
        finally:
            session.transforms.pop()
            set_grad_mode(mode)
            asked, session.traits.asks_strides = session.traits.asks_strides, asked
            asks = bool(session.asked) or tensor_traits.AUTOGRAD in session.traits.asked
            session.traits.asked |= before[0]
            session.asked = {**session.asked, **before[1]}
        if asked:
            raise self._refused("asks in its backward how a gradient lies in memory")
        return self._finished(outcome, leaves, asks)

    def _in_other_mode(self, first: _Pass) -> _Pass | None:
        """Return the same backward pass for where its gradients are to be differentiated, if it is as good as the same."""
        block = None if first.asks else in_other_mode(first.block)
        return None if block is None else self._recorded(dataclasses.replace(first, block=block))

    def _gradient(self, part: Any, again: bool, leaves: list[Any]) -> Any:
        """Return what stands for the gradient of an output, made of some leaves."""
        if not isinstance(part, torch.Tensor):
            return None
        kind = kind_of(self._session.outside.adopted(part))
        differentiable = again and (kind.dtype.is_floating_point or kind.dtype.is_complex)
        mixed = frozenset({tensor_traits.AUTOGRAD}) if differentiable else frozenset[str]()
        kind = dataclasses.replace(
            kind, strides=None, requires_grad=differentiable, is_leaf=not differentiable, kind=torch.Tensor, mixed=mixed
        )
        options = value_types.TaggedUnionType((_NONE, kind))
        return abstract_values.fresh(kind if self._applied.context.materialize_grads else options, self._session, leaves)

    def _finished(self, outcome: Outcome, leaves: list[Any], asks: bool) -> _Pass:
        session, builder = self._session, outcome.builder
        written = next((write for write in outcome.writes.values() if is_outside(session, write, outcome.start)), None)
        if written is not None:
            raise self._refused(f"writes {written.place} in its backward, which is outside of it")
        grads, tags, optional = ((None,) * len(self._inputs), (), ()) if outcome.dead else outcome.result
        block = builder.finish((*grads, *tags))
        like = session.builder.argument((*self._saved, *self._like(leaves)))
        there = [None if position in optional else grad is not None for position, grad in enumerate(grads)]
        return self._recorded(_Pass(RuntimeFunction(), block, align_operands(builder), like, optional, there, asks or outcome.dead))

    def _recorded(self, given: _Pass) -> _Pass:
        """Record a backward pass, as another value."""
        builder, value = self._session.builder, RuntimeFunction()
        options = {"optional": given.optional} if given.optional else {}
        node = builder.call_raw(control.transform_, ("backward", given.block, given.like, given.operands), options)
        builder.bind((value,), node)
        return dataclasses.replace(given, value=value)

    def _taken_apart(self, result: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[int, ...]]:
        """Return the gradient of each argument, whether each of those that may be missing is there, and which these are."""
        grads = self._of_inputs(result)
        tags: dict[int, Any] = {}
        for position, grad in enumerate(grads):
            if isinstance(grad, TaggedUnion):
                tags[position], grads[position] = self._optional(grad)
        return tuple(grads), tuple(tags.values()), tuple(tags)

    def _of_inputs(self, result: Any) -> list[Any]:
        """Return the gradient of each argument.

        Raises:
            CaptureError: there are not as many, or one is something else.
        """
        if isinstance(result, TaggedUnion):
            kinds = [type(option) for option in result.options.values()]
            if any(kind is not torch.Tensor and not issubclass(kind, (torch.Tensor, type(None))) for kind in kinds):
                raise self._refused("gives in its backward a tuple on some ways only")
        grads = list(result) if isinstance(result, tuple) else [result]
        while len(grads) > len(self._inputs) and grads[-1] is None:
            grads.pop()
        if len(grads) != len(self._inputs):
            raise self._refused(f"gives {len(grads)} gradients for {len(self._inputs)} arguments")
        for grad, value in zip(grads, self._inputs):
            if grad is not None and (value is None or not isinstance(grad, (torch.Tensor, TaggedUnion))):
                raise self._refused("gives a gradient that is no tensor, or of what is no tensor")
        return grads

    def _optional(self, grad: TaggedUnion) -> tuple[Any, Any]:
        """Return whether a gradient is there, and a tensor in any case."""
        tensors = [option for option in grad.options.values() if option is not None]
        kinds = [kind_of(self._session.outside.adopted(tensor)) for tensor in tensors if isinstance(tensor, torch.Tensor)]
        if len(kinds) != 1 or len(tensors) != 1:
            raise self._refused("gives a gradient that may be one of several tensors")
        leaves: list[Any] = []
        abstract_values.leaves(value_types.TaggedUnionType((_NONE, kinds[0])), grad, leaves)
        return leaves[0], leaves[1]

    def _like(self, leaves: list[Any]) -> list[Any]:
        """Return values that are here what the gradients will be."""
        outputs = iter(self._outputs)
        return [next(outputs) if isinstance(leaf, torch.Tensor) else 1 for leaf in leaves]

    # -- the operation -----------------------------------------------------------------------------------------------------

    def _record(self, backward: RuntimeFunction) -> None:
        builder = self._session.builder
        given = builder.argument((backward, tuple(self._outputs), tuple(self._inputs), tuple(self._saved)))
        node = builder.call_raw(control.apply_, given, builder.argument(self._options))
        for position, result in enumerate(self._results):
            if any(result is value for value in self._inputs):
                continue  # changed in place
            part = builder.call_raw(operator.getitem, (node, position))
            if result is self._outputs[position]:
                builder.bind_without_sizes(result, part)
            else:
                builder.bind(result, part)


def _method(function: type[torch.autograd.Function]) -> Any:
    """Return the backward that the user has written."""
    of_torch = torch.autograd.Function
    name = "vjp" if function.backward is of_torch.backward and function.vjp is not of_torch.vjp else "backward"
    method = attr(function, name)
    return method.__wrapped__ if _is_once(method) else method


def _is_once(method: Any) -> bool:
    return getattr(method, "__code__", None) is once_differentiable(_is_once).__code__ and hasattr(method, "__wrapped__")


def _of_once_differentiable(function: type[torch.autograd.Function]) -> bool:
    """Tell whether a backward, or one that it wraps, cannot be differentiated."""
    method: Any = function.backward
    while method is not None:
        if _is_once(method):
            return True
        method = getattr(method, "__wrapped__", None)
    return False
