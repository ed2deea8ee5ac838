"""Loops that keep snapshots of what they carry, and do the iterations between two of them again for gradients.

The number of iterations is known when the loop ends. Snapshots are taken at a distance that doubles, and every other one is
dropped, whenever there are too many: there are never more than asked for, and they stay evenly spread. The backward pass goes from
the last snapshot to the first; it runs the iterations after one again with a graph, goes back through that, and forgets it. Many
iterations are run again with snapshots of their own.

Sums of gradients are made of the same terms in the same order as in the backward pass of the loop as a whole: what later
iterations gave to a tensor from outside is the first term of its sum in an earlier part, and a tensor that is met in several
places is one there.

Source of the idea: Stumm and Walther, New algorithms for optimal online checkpointing, 2010.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.checkpoint import get_device_states, set_device_states

from dy2st_runtime.analyses.with_gradient import outputs_with_gradient
from dy2st_runtime.executors.parts_of_loops import part_of
from dy2st_runtime.ir.program import Block, Program, nested_blocks

MakeRunner = Callable[[Program], Callable[[Sequence[Any]], tuple[Any, ...]]]
_NO_LIMIT = 2**62


class Loop:
    """A loop of a program.

    Args:
        body: as that of ``while_``.
        make_runner: of the executor.
    """

    def __init__(self, body: Block, make_runner: MakeRunner) -> None:
        self._body, self._run = body, make_runner(part_of(body))
        self.draws = any(
            isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
            for block in nested_blocks(body)
            for node in block.graph.nodes
        )
        self._flows: dict[tuple[bool, ...], tuple[bool, ...]] = {}

    def __call__(
        self, carried: Sequence[Any], operands: Sequence[Any], pred: Any, snapshots: int, threaded: Sequence[int] = ()
    ) -> tuple[Any, ...]:
        """Return what the loop leaves.

        Args:
            carried: what it begins with.
            operands: what it reads.
            pred: whether there is a first iteration.
            snapshots: how many to keep at most.
            threaded: positions among both of tensors that are given back for what follows, so that the gradients from there are
                the first terms of their sums.
        """
        given = (*carried, *operands)
        if not bool(pred):
            return (*carried, *(given[place] for place in threaded))
        if not torch.is_grad_enabled() or not any(map(_needs_gradient, given)):
            return (*self.run(_NO_LIMIT, carried, operands)[2], *(given[place] for place in threaded))
        return _recorded(self, list(carried), list(operands), snapshots, threaded)

    def run(self, most: int, carried: Sequence[Any], operands: Sequence[Any]) -> tuple[bool, int, tuple[Any, ...]]:
        """Run at least one iteration, and so many at most; gives whether there are more, how many it were, what they leave."""
        going, count, *results = self._run((most, *carried, *operands))
        return going, count, tuple(results)

    def flows(self, carried: Sequence[Any], operands: Sequence[Any]) -> tuple[bool, ...]:
        """Tell which of the carried values may have a gradient."""
        given = tuple(map(_needs_gradient, (*carried, *operands)))
        if given not in self._flows:
            flags, rest = given[: len(carried)], given[len(carried) :]
            while True:
                after = outputs_with_gradient(self._body, (*flags, *rest))[1:]
                joined = tuple(map(operator.or_, flags, after))
                if joined == flags:
                    break
                flags = joined
            self._flows[given] = flags
        return self._flows[given]


def _needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


# -- snapshots ---------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Snapshot:
    """What the loop carries before an iteration.

    Attributes:
        at: the number of the iteration.
        values: what it carries.
        random: the states of random numbers, if it draws some.
    """

    at: int
    values: tuple[Any, ...]
    random: Any


def _forward(loop: Loop, start: Sequence[Any], operands: Sequence[Any], most: int, end: int) -> tuple[list[_Snapshot], int, Any]:
    """Run the loop up to an iteration; gives snapshots, the number of iterations and what they leave."""
    kept: list[_Snapshot] = []
    values, done, distance, going = tuple(start), 0, 1, True
    while going and done < end:
        if len(kept) == most:
            kept, distance = kept[::2], distance * 2
        kept.append(_Snapshot(done, values, _random_state((*values, *operands)) if loop.draws else None))
        going, count, values = loop.run(min(distance, end - done), values, operands)
        done += count
    return kept, done, values


def _random_state(values: Sequence[Any]) -> Any:
    kinds = {value.device.type for value in values if isinstance(value, torch.Tensor)} - {"cpu"}
    kind = min(kinds, default="cuda")
    devices, states = get_device_states(*values) if kinds else ([], [])
    return kind, devices, states, torch.get_rng_state()


@contextlib.contextmanager
def _random_numbers_of(snapshot: _Snapshot) -> Iterator[None]:
    """Draw inside the numbers that were drawn after a snapshot."""
    if snapshot.random is None:
        yield
        return
    kind, devices, states, state = snapshot.random
    with torch.random.fork_rng(devices=devices, device_type=kind):
        torch.set_rng_state(state)
        set_device_states(devices, states, device_type=kind)
        yield


class _Modes:
    """The autocast modes of the forward pass, for when iterations are run again."""

    def __init__(self, values: Sequence[Any]) -> None:
        kinds = {"cpu"} | {value.device.type for value in values if isinstance(value, torch.Tensor)}
        self._modes = [
            (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind), torch.is_autocast_cache_enabled())
            for kind in sorted(kinds)
            if torch.amp.is_autocast_available(kind)
        ]

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for kind, dtype, enabled, cache in self._modes:
                if enabled or torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, dtype, enabled, cache))
            yield


# -- gradients ---------------------------------------------------------------------------------------------------------------


def _recorded(loop: Loop, carried: list[Any], operands: list[Any], most: int, threaded: Sequence[int]) -> tuple[Any, ...]:
    """Run the loop; autograd knows of its results."""
    modes = _Modes((*carried, *operands))
    with torch.no_grad():
        kept, count, results = _forward(loop, carried, operands, most, _NO_LIMIT)
    flows = loop.flows(carried, operands)
    outputs: dict[int, torch.Tensor] = {}
    for value, flag in zip(results, flows):
        if flag and isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            outputs[id(value)] = value
    given = [(*carried, *operands)[place] for place in threaded]
    if not outputs:
        return (*results, *given)
    inputs = {id(value): value for value in (*carried, *operands) if _needs_gradient(value)}
    places = [next(place for place, value in enumerate(results) if value is one) for one in outputs.values()]
    passing = {id(value): value for value in given if id(value) in inputs}
    passed = _Pass(loop, modes, flows, most, count, places, _Inputs(carried, operands, list(inputs), list(passing)))
    wanted = (*outputs.values(), *passing.values())
    after = _Checkpointed.apply(passed, kept, operands, wanted, *inputs.values())  # type: ignore[no-untyped-call]
    left, later = dict(zip(outputs, after)), dict(zip(passing, after[len(outputs) :]))
    return (*(left.get(id(value), value) for value in results), *(later.get(id(value), value) for value in given))


class _Inputs:
    """Where the inputs of a loop that have gradients are.

    Attributes:
        needed: for each operand whether it has a gradient.
        places: for each input the position among the operands, or that among what is carried.
        threaded: the same for those that are given back.
    """

    def __init__(self, carried: list[Any], operands: list[Any], inputs: list[int], threaded: list[int]) -> None:
        self.needed = [_needs_gradient(value) for value in operands]
        by_operand = {id(value): place for place, value in reversed(list(enumerate(operands))) if _needs_gradient(value)}
        by_carry = {id(value): place for place, value in reversed(list(enumerate(carried)))}
        self.places = [(by_operand.get(key), by_carry.get(key)) for key in inputs]
        self.threaded = [(by_operand.get(key), by_carry.get(key)) for key in threaded]


@dataclasses.dataclass
class _Pass:
    """The backward pass of one run of a loop.

    Attributes:
        flows: for each carried value whether it may have a gradient.
        most: how many snapshots there are at most.
        count: the number of iterations.
        places: of the results that are outputs.
        inputs: of the loop.
    """

    loop: Loop
    modes: _Modes
    flows: tuple[bool, ...]
    most: int
    count: int
    places: list[int]
    inputs: _Inputs

    def __call__(
        self, kept: Sequence[_Snapshot], operands: Sequence[Any], gradients: Sequence[torch.Tensor | None]
    ) -> list[torch.Tensor | None]:
        """Return the gradients of the inputs."""
        given = {place: gradient for place, gradient in zip(self.places, gradients) if gradient is not None}
        sums: dict[int, Any] = {}
        begun: dict[int, Any] = {}
        for (operand, carry), gradient in zip(self.inputs.threaded, gradients[len(self.places) :]):
            if gradient is not None:
                (begun if operand is None else sums)[carry if operand is None else operand] = gradient  # type: ignore[index]
        with self.modes.again():
            given = self._back(kept, operands, self.count, given, sums, begun)
        results = [sums.get(operand, given.get(carry)) for operand, carry in self.inputs.places]  # type: ignore[arg-type]
        return results

    def _back(
        self, kept: Sequence[_Snapshot], operands: Sequence[Any], end: int, given: dict[int, Any], sums: dict[int, Any],
        begun: dict[int, Any],
    ) -> dict[int, Any]:  # fmt: skip
        """Return the gradients before the first of some snapshots; sums of operands' gradients are added to.

        What is carried before it may have gradients already.
        """
        for snapshot in reversed(kept):
            count, end = end - snapshot.at, snapshot.at
            first = begun if snapshot is kept[0] else {}
            with _random_numbers_of(snapshot):
                if count > 2 * self.most:
                    inner, _, _ = _forward(self.loop, snapshot.values, operands, max(self.most, 2), count)
                    given = self._back(inner, operands, count, given, sums, first)
                else:
                    given = self._through(snapshot.values, operands, count, given, sums, first)
        return given

    def _through(
        self, values: Sequence[Any], operands: Sequence[Any], count: int, given: dict[int, Any], sums: dict[int, Any],
        first: dict[int, Any],
    ) -> dict[int, Any]:  # fmt: skip
        """Run some iterations again, and go back through them."""
        leaves: dict[int, torch.Tensor] = {}
        flows = [*self.flows, *self.inputs.needed]
        with torch.enable_grad():
            begun = [_leaf(value, leaves) if flag else value for value, flag in zip((*values, *operands), flows)]
            own = begun[len(values) :]
            _, _, left = self.loop.run(count, begun[: len(values)], own)
            roots = {id(left[place]): (left[place], gradient) for place, gradient in given.items()}
            pairs = [pair for pair in roots.values() if pair[0].requires_grad]
            # The last to be made is the first that the engine visits, so that the sum until now is the first term.
            pairs += [(own[place].view_as(own[place]), total) for place, total in sums.items()]
            pairs += [(begun[place].view_as(begun[place]), total) for place, total in first.items()]
        if not pairs:
            return {}
        results = torch.autograd.grad(
            [root for root, _ in pairs], list(leaves.values()), [one for _, one in pairs], allow_unused=True
        )
        gradients = {id(leaf): gradient for leaf, gradient in zip(leaves.values(), results) if gradient is not None}
        taken: set[int] = set()
        for place, leaf in enumerate(own):
            if id(leaf) in gradients and id(leaf) not in taken:
                sums[place] = gradients[id(leaf)]
                taken.add(id(leaf))
        before: dict[int, Any] = {}
        for place, leaf in enumerate(begun[: len(values)]):
            if id(leaf) in gradients and id(leaf) not in taken:
                before[place] = gradients[id(leaf)]
                taken.add(id(leaf))
        return before


def _leaf(value: Any, leaves: dict[int, torch.Tensor]) -> Any:
    """Return what stands for a tensor where iterations are run again; the same for the same one."""
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    if id(value) not in leaves:
        leaves[id(value)] = value.detach().requires_grad_()
    return leaves[id(value)]


class _Checkpointed(torch.autograd.Function):
    """Puts the results of a loop into the graph; each tensor of the snapshots is saved once."""

    @staticmethod
    def forward(ctx: Any, passed: _Pass, kept: Sequence[_Snapshot], operands: Sequence[Any], outputs: Any, *_: torch.Tensor) -> Any:
        tensors = {id(value): value for value in _values(kept, operands) if isinstance(value, torch.Tensor)}
        places = {key: _Place(place) for place, key in enumerate(tensors)}
        ctx.passed, ctx.operands = passed, [places.get(id(value), value) for value in operands]
        ctx.kept = [
            dataclasses.replace(snapshot, values=tuple(places.get(id(value), value) for value in snapshot.values))
            for snapshot in kept
        ]
        ctx.save_for_backward(*tensors.values())
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "gradients of a loop with snapshots cannot be differentiated: do without create_graph=True, or without snapshots"
            )
        tensors = ctx.saved_tensors

        def back(value: Any) -> Any:
            return tensors[value.index] if isinstance(value, _Place) else value

        kept = [dataclasses.replace(snapshot, values=tuple(map(back, snapshot.values))) for snapshot in ctx.kept]
        return (None, None, None, None, *ctx.passed(kept, list(map(back, ctx.operands)), gradients))


@dataclasses.dataclass(frozen=True)
class _Place:
    """Stands for a tensor that autograd keeps."""

    index: int


def _values(kept: Sequence[_Snapshot], operands: Sequence[Any]) -> Iterator[Any]:
    for snapshot in kept:
        yield from snapshot.values
    yield from operands
