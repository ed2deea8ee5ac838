"""``Tensor.backward`` and ``Tensor.grad`` inside a captured function.

The program calls PyTorch's own backward pass when it runs, which writes the gradients of the tensors themselves. What the code
finds in ``tensor.grad`` afterwards is a value of the program: of a leaf that the pass reaches on every way the tensor that it
gives, of one that it may reach ``None`` or that tensor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from dy2st.capture.environment.request import GRADIENT
from dy2st.capture.environment.sources import Source
from dy2st.capture.recording import failing
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.recording.recorder import fresh_number
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions.differentiation import as_tuple, check_dense
from dy2st.capture.types import tensor_traits
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st.capture.writes.gradient_slots import Start, start_of
from dy2st.capture.writes.places import AttributePlace
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.gradients import backward, gradient_of, set_gradient

checks_of_leaves: list[Callable[[Session, Sequence[torch.Tensor]], None]] = []
"""What looks at the tensors that a pass reaches before it is recorded."""


def method(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Do ``tensor.backward(…)``."""
    given = inspect.signature(torch.Tensor.backward).bind(*args, **kwargs)
    given.apply_defaults()
    values = given.arguments
    _run(session, (values["self"],), (values["gradient"],), values["retain_graph"], values["create_graph"], values["inputs"])


def function(session: Session, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Do ``torch.autograd.backward(…)``."""
    given = inspect.signature(torch.autograd.backward).bind(*args, **kwargs)
    given.apply_defaults()
    values = given.arguments
    tensors = as_tuple(values["tensors"])
    gradients = values["grad_tensors"] if values["grad_variables"] is None else values["grad_variables"]
    gradients = (None,) * len(tensors) if gradients is None else as_tuple(gradients)
    _run(session, tensors, gradients, values["retain_graph"], values["create_graph"], values["inputs"])


def _run(session: Session, tensors: Sequence[Any], gradients: Sequence[Any], retain: Any, create: Any, inputs: Any) -> None:
    if session.transforms:
        raise CaptureError(
            "a backward pass in a function that torch.func transforms",
            session.here(),
            fix="use torch.func.grad or torch.autograd.grad there",
        )
    if session.gradients.is_switched:
        raise CaptureError(
            "a backward pass in a program in which a branch or loop switches whether a tensor requires gradients",
            session.here(),
            fix="call requires_grad_() outside of the static function, or detach() what needs no gradients",
        )
    for check in session.gradients.hook_checks:
        check()
    failing.refuse_if_named(session, RuntimeError(), "backward()", "call it outside of the try statement")
    abstracts = [session.outside.adopted(tensor) for tensor in tensors]
    wanted = None if inputs is None else [_leaf(session, tensor) for tensor in as_tuple(inputs)]
    reached, others = _reached(session, abstracts, wanted)
    check_dense(session, [leaf.abstract for _, leaf in reached])
    leaves = [leaf.tensor for _, leaf in reached]
    shown = [leaf.abstract for _, leaf in reached]
    for check_leaves in checks_of_leaves:
        check_leaves(session, [leaf for leaf in leaves if not session.fakes.is_abstract(leaf)])
    before = [_held(session, leaf) for leaf in leaves]
    parts = [part for held in before for part in _tensors_of(held)]
    replaced = [bool(create) or not abstract.is_leaf for abstract in shown]
    results = [
        _new(session, abstract, bool(create)) if is_replaced or not isinstance(held, torch.Tensor) else None
        for abstract, held, is_replaced in zip(shown, before, replaced)
    ]
    unsure = [place for place, (is_sure, _) in enumerate(reached) if not is_sure]
    tags = [fresh_number(session.shapes, "int") for _ in unsure]
    options = {"retain_graph": retain, "create_graph": create, "inputs": None if inputs is None else as_tuple(inputs)}
    given = (unsure, shown, [leaf.abstract for leaf in others], parts, tensors, gradients)
    session.builder.call(control.call_, (backward, given, options), {}, (*results, *tags))
    tag_of = dict(zip(unsure, tags))
    for index, (leaf, held, result) in enumerate(zip(leaves, before, results)):
        if result is None:  # the pass has added to what was there in place
            continue
        new = session.new_union(tag_of[index], {0: None, 1: result}) if index in tag_of else result
        _write(session, leaf, _first_of(session, new, held) if replaced[index] else _first_of(session, held, new))


def _first_of(session: Session, value: Any, otherwise: Any) -> Any:
    """Return a gradient, and where there is none another one."""
    if not isinstance(value, TaggedUnion) or otherwise is None:
        return otherwise if value is None else value
    if isinstance(otherwise, TaggedUnion):
        return session.over(value, lambda option: otherwise if option is None else option)
    return session.new_union(value.tag, {tag: otherwise if option is None else option for tag, option in value.options.items()})


def _tensors_of(held: Any) -> list[torch.Tensor]:
    options = held.options.values() if isinstance(held, TaggedUnion) else (held,)
    return [option for option in options if isinstance(option, torch.Tensor)]


def _new(session: Session, abstract: torch.Tensor, has_graph: bool) -> torch.Tensor:
    """Return what stands for a gradient: it lies in memory as its tensor does."""
    with quiet(), torch.no_grad():
        result = torch.empty_like(abstract)
    if has_graph:
        session.traits.graph_is_partial = True
        with quiet(), torch.enable_grad():
            result = result.requires_grad_().clone()
        tensor_traits.note_no_operation(result)
    return result


# -- which tensors a backward pass reaches -------------------------------------------------------------------------------------


class _Leaf(NamedTuple):
    """A tensor that may have a gradient: its abstract value, and the tensor that this stands for, where it comes from outside."""

    abstract: torch.Tensor
    tensor: torch.Tensor


def _leaf(session: Session, tensor: torch.Tensor) -> _Leaf:
    return _Leaf(session.outside.adopted(tensor), session.outside.behind(tensor))


def _reached(
    session: Session, roots: Sequence[torch.Tensor], wanted: Sequence[_Leaf] | None
) -> tuple[list[tuple[bool, _Leaf]], list[_Leaf]]:  # fmt: skip
    """Return the tensors that may get a gradient, with whether they get one on every way, and those that get none."""
    walk = _Walk(session)
    sure, maybe = walk.of_all(map(start_of, roots))
    reached: list[tuple[bool, _Leaf]] = []
    others: list[_Leaf] = []
    for leaf in walk.known.values() if wanted is None else wanted:
        if id(leaf.tensor) in maybe or walk.is_partial:
            reached.append((id(leaf.tensor) in sure, leaf))
        else:
            others.append(leaf)
    return reached, others


class _Walk:
    """A walk through autograd's graph of the abstract values, on to the ways of what branches and loops give.

    Attributes:
        known: the tensors that may have a gradient, by the identity of the abstract leaf or of the node of autograd.
        is_partial: whether some part of the graph is known to the program only.
    """

    def __init__(self, session: Session) -> None:
        self._ways, self._changed = session.gradients.ways, session.gradients.changed
        self.known: dict[int, _Leaf] = {id(leaf.abstract): leaf for leaf in _leaves(session)}
        kept = [abstract for abstract in session.gradients.leaves.values() if not abstract.is_leaf]
        self._kept = [abstract.grad_fn for abstract in kept]
        self.known |= {id(node): _Leaf(abstract, abstract) for node, abstract in zip(self._kept, kept)}
        self.is_partial = session.traits.has_lost_graph
        self._open: set[int] = set()
        self._entered: set[int] = set()
        self._cycles: set[int] = set()
        self._done: dict[int, tuple[set[int], set[int]]] = {}

    def of_all(self, starts: Iterable[Start]) -> tuple[set[int], set[int]]:
        """Return the identities of the tensors that are reached from any: on every way, and on some way."""
        sure: set[int] = set()
        maybe: set[int] = set()
        for start in starts:
            for leaf in self._leaves_of(start, sure, maybe):
                inner = self._of_ways(leaf)
                if inner is not None:
                    sure |= inner[0]
                    maybe |= inner[1]
        return sure, maybe | sure

    def _leaves_of(self, start: Start, sure: set[int], maybe: set[int]) -> list[torch.Tensor]:
        """Return the leaves that stand for values of branches and loops; note the other ones, which are reached, or may be."""
        results, todo, seen = [], [start], dict[int, Any]()
        while todo:
            step = todo.pop()
            if step is None or id(step) in seen:
                continue
            seen[id(step)] = step  # Python makes an object for a node of autograd anew where nobody holds it
            if id(step) in self.known:
                sure.add(id(self.known[id(step)].tensor))
            if id(step) in self._changed and id(step) not in self._entered:
                in_both, in_one = self._of_changed(step)
                sure |= in_both
                maybe |= in_one
                continue
            if isinstance(step, torch.Tensor):
                results += [step] if id(step) not in self.known else []
            elif hasattr(step, "variable"):
                todo.append(step.variable)
            else:
                todo += [following for following, _ in step.next_functions]
        return results

    def _of_changed(self, step: Any) -> tuple[set[int], set[int]]:
        """Return what is reached from an operation that may not run: with it, and without it."""
        if id(step) not in self._done:
            self._entered.add(id(step))
            ways = [self.of_all([self._changed[id(step)][1]]), self.of_all([step])]
            self._entered.discard(id(step))
            self._done[id(step)] = set.intersection(*(way[0] for way in ways)), set.union(*(way[1] for way in ways))
        return self._done[id(step)]

    def _of_ways(self, leaf: torch.Tensor) -> tuple[set[int], set[int]] | None:
        """Return what is reached from a leaf that stands for one of several tensors; ``None`` in a cycle, which adds nothing."""
        if id(leaf) in self._open:
            self._cycles.add(id(leaf))
            return None
        if id(leaf) not in self._ways:
            self.is_partial = True
            return set(), set()
        if id(leaf) in self._done:
            return self._done[id(leaf)]
        self._open.add(id(leaf))
        ways = [self.of_all(starts) for starts in self._ways[id(leaf)][1]]
        self._open.discard(id(leaf))
        self._cycles.discard(id(leaf))
        result = set.intersection(*(way[0] for way in ways)), set.union(*(way[1] for way in ways))
        if not self._cycles:  # else it is what is reached besides the loops that are open
            self._done[id(leaf)] = result
        return result


def _leaves(session: Session) -> Iterator[_Leaf]:
    """Yield the leaves of autograd's graph that the program knows."""
    for abstract, *_ in session.outside.arguments.values():
        if abstract.requires_grad and abstract.is_leaf:
            yield _Leaf(abstract, session.outside.behind(abstract))
    for state in session.outside.states:
        if isinstance(state.abstract, torch.Tensor) and state.abstract.requires_grad and state.abstract.is_leaf:
            yield _Leaf(state.abstract, state.value)
    for abstract in session.gradients.leaves.values():
        if abstract.is_leaf:
            yield _Leaf(abstract, session.outside.behind(abstract))


# -- tensor.grad -------------------------------------------------------------------------------------------------------------------


def _held(session: Session, tensor: torch.Tensor) -> Any:
    """Return the gradient that a tensor has now; whether it had one when the program was called is checked at each call."""
    place = session.gradients.place(tensor)
    if not session.blocks.was_written(place.key):
        source = session.tracker.source_of(tensor)
        if source is not None:
            _read(session, tensor, place, session.tracker.table.attribute(source, "grad"))
    return place.read()


def _read(session: Session, tensor: torch.Tensor, place: AttributePlace, source: Source) -> None:
    """Note that a gradient from outside has been read, of which the program is to know only where it runs whether there is one."""
    if isinstance(place.read(), TaggedUnion):
        return
    is_open = session.outside.dynamic_state.get(source.name) == GRADIENT
    if not (is_open and session.tracker.guards.gradient(source, tensor)):
        session.tracker.read(place.read(), source)
    else:
        abstract = session.outside.adopted(tensor)
        tag, result = fresh_number(session.shapes, "int"), _new(session, abstract, False)
        session.blocks.root.builder.call_first(control.call_, (gradient_of, (abstract,), {}), (result, tag))
        session.blocks.stand_at(place, session.new_union(tag, {0: None, 1: result}))


def _write(session: Session, tensor: torch.Tensor, value: Any) -> None:
    place: AttributePlace = session.gradients.place(tensor)
    session.places.write(place)
    place.write(value)


def get(session: Session, tensor: torch.Tensor) -> Any:
    """Return ``tensor.grad``."""
    real = session.outside.behind(tensor)
    place = session.gradients.place(real)
    if not session.fakes.is_abstract(real) or session.blocks.was_written(place.key):
        return _held(session, real)
    if not real.requires_grad or not tensor_traits.has_no_operation(real) or id(real) in session.gradients.leaves:
        return None
    tag, result = fresh_number(session.shapes, "int"), _new(session, real, False)
    session.builder.call(control.call_, (gradient_of, (real,), {}), {}, (result, tag))
    return session.new_union(tag, {0: None, 1: result})


def put(session: Session, tensor: torch.Tensor, value: Any) -> None:
    """Do ``tensor.grad = value``."""
    if isinstance(value, TaggedUnion):
        session.over(value, lambda option: put(session, tensor, option))
        return
    real = session.outside.behind(tensor)
    if session.fakes.is_abstract(real) and tensor_traits.has_no_operation(real) and id(real) not in session.gradients.leaves:
        raise CaptureError(
            "the gradient of a tensor that is one of several is assigned",
            session.here(),
            fix="assign it in the branch that chooses the tensor",
        )
    if not session.blocks.at_root:  # what it was before is what it is on the other way
        _held(session, real)
    _check(session, tensor, value)
    session.builder.call(control.call_, (set_gradient, (session.outside.adopted(tensor), value), {}))
    _write(session, real, value)


def _check(session: Session, tensor: torch.Tensor, value: Any) -> None:
    """Raise what eager raises for a gradient that is none for the tensor."""
    if value is None:
        return
    adopted = [session.outside.adopted(part) if isinstance(part, torch.Tensor) else part for part in (tensor, value)]
    before = adopted[0].grad
    with quiet(), session.suspended():
        adopted[0].grad = adopted[1]
        adopted[0].grad = before


def keep(session: Session, tensor: torch.Tensor) -> None:
    """Note that a tensor keeps its gradient: ``tensor.retain_grad()``, or it has become a leaf."""
    session.gradients.note_leaf(session.outside.adopted(tensor))
