"""From a function and the arguments of one call to a program and what it takes to run it again."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from dy2st import errors
from dy2st.capture import arguments, on_raise
from dy2st.capture.arrays import outside
from dy2st.capture.branching import elements, optional
from dy2st.capture.calls import cached_functions, call, modules
from dy2st.capture.calls.older_iterators import OlderIterators
from dy2st.capture.collections import deques, made_tables, sets
from dy2st.capture.containers import lists, outside_inputs, outside_lists, outside_objects, outside_tables
from dy2st.capture.diagnostics.translation import translated, user_line
from dy2st.capture.environment.request import OBJECT, Request
from dy2st.capture.environment.sizes import SizeConditions
from dy2st.capture.environment.sources import Source
from dy2st.capture.iterables import generators
from dy2st.capture.library.foreseen import Foreseen
from dy2st.capture.operators import operator_methods
from dy2st.capture.outputs import regions, results, snapshots
from dy2st.capture.outputs.captured import Captured
from dy2st.capture.raising.exceptions import handled, records
from dy2st.capture.recording.block import BlockBuilder
from dy2st.capture.session.outside import State
from dy2st.capture.session.session import Operators, Session
from dy2st.capture.torch_functions import replacements
from dy2st.capture.torch_functions.mode import TorchFunctions
from dy2st.capture.types import lattice, tensor_traits
from dy2st.capture.values.abstract_objects import AbstractTable, Represents
from dy2st.capture.values.signals import (
    Needs,
    NeedsAbstract,
    NeedsApart,
    NeedsGiving,
    NeedsMade,
    NeedsObject,
    NeedsPositions,
    NeedsRanks,
    NeedsRecords,
    NeedsRuntimeList,
    NeedsSteps,
    NeedsTable,
    Unreachable,
)
from dy2st.collecting import COLLECTING
from dy2st.training import no_snapshots
from dy2st_runtime.call.binding import parameters_of
from dy2st_runtime.ir.program import InputSlot, Location, Program, verify
from dy2st_runtime.ir.unflattening import unflatten
from dy2st_runtime.passes.dead_code import remove_dead_code

ACTS_FOR_USER = False

_MAKERS: Mapping[type, Callable[[Any], Represents]] = {
    set: sets.of_outside, collections.deque: deques.of_outside, np.ndarray: outside.of_outside,
    AbstractTable: made_tables.of_outside,
}  # fmt: skip


def capture(request: Request, convert: Callable[[FunctionType], Any], namespace: Any) -> Captured:
    """Run converted code once and keep what it did.

    Raises:
        CaptureError: the function cannot become one program.
        Exception: what the user's own code raises.
    """
    while True:
        try:
            captured = _capture(request, convert, namespace)
            once = not request.leaves_early or request.leaves_always or captured.guards.read_once is not None
            if once or not on_raise.is_needed(captured.program, captured.changes_objects):
                return captured
            request = dataclasses.replace(request, leaves_always=True)
        except Needs as needed:
            request = _again(request, needed)


def _again(request: Request, needed: Needs) -> Request:
    """Return the request of a capture that starts again, for what it needs."""
    match needed:
        case NeedsRecords():
            return dataclasses.replace(request, leaves_always=True)
        case NeedsAbstract():
            return dataclasses.replace(request, changed=request.changed | {needed.name})
        case NeedsTable():
            return dataclasses.replace(request, tables={**request.tables, needed.name: (needed.kinds, needed.error)})
        case NeedsApart():
            return dataclasses.replace(request, apart=request.apart | {needed.trait})
        case NeedsObject():
            return dataclasses.replace(request, dynamic_state={**request.dynamic_state, needed.name: OBJECT})
        case NeedsSteps():
            return dataclasses.replace(request, in_steps=request.in_steps | {needed.steps})
        case NeedsGiving():
            return dataclasses.replace(request, giving=request.giving | {needed.generator})
        case NeedsPositions():
            return dataclasses.replace(request, by_position=request.by_position | needed.lines)
        case NeedsRanks():
            return dataclasses.replace(request, ranked=True)
    raise needed


def _capture(request: Request, convert: Callable[[FunctionType], Any], namespace: Any) -> Captured:
    converted, training = convert(request.function), _training(request)
    operators = Operators(
        convert,
        call.call,
        optional.over,
        lists.create,
        outside_lists.create,
        outside_lists.create_deque,
        outside_objects.create,
        elements.make_early,
        namespace,
        _MAKERS,
    )
    session = Session(request, operators)
    session.position.entry_code = _capture.__code__
    session.in_flight.foreseen = Foreseen(session)
    session.iterators.older = OlderIterators(session)
    session.position.handled = functools.partial(handled, session)
    session.tracker.guards.before_once = functools.partial(_before_once, session, request)
    if request.leaves_early:
        session.in_flight.before_raise = on_raise.Recorder(session)
        is_told = request.leaves_always
        session.in_flight.before_failing = session.in_flight.before_raise if is_told else on_raise.NeedFinder(session)
        session.in_flight.has_written = lambda: bool(results.outside(session, session.blocks.undo_log_until_now()))
    with (
        _letting_go(session), COLLECTING.rarely(), _repeatable_or_marked(session, request), translated(session),
        temporarily_clear_interpreter_stack(),
        _plain_grad_mode(), call.torch_patched(), _modules_kept(session), operator_methods.followed(session),
        lattice.of_capture(request.apart, session.outside.of_open_sizes), session.settings.kept(), no_snapshots(),
        session.active(TorchFunctions(session)) as root,
    ):  # fmt: skip
        replacements.guard_replaced(session)
        with torch._C.DisableTorchFunctionSubclass():
            inputs, given = arguments.bound(session, root, request)
        args, kwargs = unflatten(request.structure, given)
        args, kwargs = arguments.known(session, request, (args, kwargs))
        session.blocks.key_orders.are_ranked = request.ranked
        try:
            result = _result(session, request, converted, args, kwargs)
        except NeedsMade as needed:
            raise needed.error from None
        except NeedsRuntimeList as need_list:
            raise errors.CaptureError(
                "a list that was made outside changes its length where a tensor decides",
                user_line(session, need_list),
                seen=f"a list of {len(need_list.lists[0])}",
                fix="grow a copy that is made in the function, before the branch or loop: items = list(items)",
            ) from None
        generators.check_ended(session)
        session.checks.emit()
        if session.traits.asks_strides:
            _guard_layouts(session, request)
        for trait in session.traits.asked:
            _guard_trait(session, request, trait)
        session.tracker.guards.before_once = None  # the guards live on, and must not keep the session
        return _finish(session, root, request, inputs, result, training)


@contextlib.contextmanager
def _letting_go(session: Session) -> Iterator[None]:
    """Have the user's objects live as long as without the capture, which is garbage in cycles when it has ended."""
    try:
        yield
    finally:
        session.let_go()


def _result(session: Session, request: Request, converted: Any, args: Any, kwargs: Any) -> Any:
    """Return what the function returns; ``None`` where the program raises on all ways.

    Raises:
        Signal: also one that has passed the user's ``except`` and ``finally`` clauses as an exception.
    """
    try:
        return _called(session, request, converted, args, kwargs)
    except Unreachable:
        return None
    except Exception as error:
        if not records(session, error):
            raise
        return None


def _called(session: Session, request: Request, converted: Any, args: Any, kwargs: Any) -> Any:
    if request.with_hooks:
        return modules.call_module(session, args[0], call.call, args[1:], kwargs)
    if converted is None:  # it has no source
        return call.call(request.function, *args, **kwargs)
    return call.enter(session, request.function, converted, args, kwargs)


def _before_once(session: Session, request: Request, source: Source) -> None:
    """Note that what cannot be put back where it was is about to be used.

    Raises:
        CaptureError: the program is to serve other calls too, or the function has to find it as it was, to run as it is written.
    """
    if request.for_any_call:
        raise errors.CaptureError(
            f"'{source.name}' is read or changed in a way that only this call can: a saved or exported program would do the same "
            "with what this call has found, each time",
            session.here(),
            fix="take what it gives outside of the function, and pass it in as an argument",
        )
    if request.options.full_graph:
        return
    raise errors.CaptureError(
        f"'{source.name}' is read or changed in a way that cannot be undone, and the function is to run as it is written where it "
        "cannot be captured",
        session.here(),
        fix="take what it gives outside of the static function, or leave out full_graph=False",
    )


READ_ONCE = "__dy2st_read_once__"
"""Marks an exception of a capture that has taken items from an iterator: the next capture would take others."""
LISTS = "__dy2st_lists__"
"""What an exception of a capture has of the names of lists from outside that another capture can take as inputs."""


@contextlib.contextmanager
def _repeatable_or_marked(session: Session, request: Request) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if session.tracker.guards.once:
            setattr(error, READ_ONCE, True)
        setattr(error, LISTS, outside_lists.of_objects(session))
        raise
    except (NeedsAbstract, NeedsApart, NeedsTable, NeedsObject) as needed:
        _check_repeatable(session, request, needed)
        raise


def _check_repeatable(session: Session, request: Request, needed: BaseException) -> None:
    """Refuse to capture again what has taken items from an iterator that was there before: it would take others.

    Raises:
        CaptureError: it has.
    """
    name = session.tracker.guards.read_once
    if name is not None:
        code = request.function.__code__
        raise errors.CaptureError(
            f"'{name}' was there before and has been used in a way that cannot be undone, and this capture has to begin again",
            user_line(session, needed) or errors.Location(code.co_filename, code.co_firstlineno, code.co_name),
            fix="take the items outside of the static function, and pass them in as arguments",
        )


@contextlib.contextmanager
def _modules_kept(session: Session) -> Iterator[None]:
    """Take back what code of torch itself writes to modules (old ``weight_norm``, ``register_buffer``)."""
    try:
        yield
    except BaseException:
        session.tracker.put_back(session.fakes.is_abstract)
        raise
    registered = session.tracker.put_back(session.fakes.is_abstract)
    if registered is not None:
        raise errors.CaptureError(
            f"{session.name} registers {registered!r} as a parameter or buffer of a module",
            fix="register it in __init__, and assign to it here",
        )


def _guard_layouts(session: Session, request: Request) -> None:
    fixed = {position for position, dims in enumerate(request.dynamic_dims) if not dims}
    for source, tensor in (*_given_tensors(session, request, fixed), *_tensors_met(session)):
        session.tracker.guards.same_layout(source, tensor)


def _guard_trait(session: Session, request: Request, trait: str) -> None:
    """Note that the code has asked for a trait of a tensor: what it was told depends on those of the inputs."""
    everywhere = range(len(request.leaves))
    for source, tensor in (*_given_tensors(session, request, everywhere), *_tensors_met(session)):
        if trait == tensor_traits.CLASS:
            session.tracker.guards.same_class(source, tensor)
        elif tensor.requires_grad:  # others are leaves anyway
            session.tracker.guards.same_leaf(source, tensor)


def _given_tensors(session: Session, request: Request, positions: Collection[int]) -> Iterator[tuple[Source, torch.Tensor]]:
    for position in positions:
        if isinstance(request.leaves[position], torch.Tensor):
            yield session.tracker.table.argument(position, request.names[position]), request.leaves[position]


def _tensors_met(session: Session) -> Iterator[tuple[Source, torch.Tensor]]:
    for state in session.outside.states:
        if state.source is not None and isinstance(state.value, torch.Tensor):
            yield state.source, state.value


@contextlib.contextmanager
def _plain_grad_mode() -> Iterator[None]:
    """Inference mode would make tensors of the capture that no other mode accepts; no_grad does the same for what is recorded."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


def _finish(
    session: Session, root: BlockBuilder, request: Request, inputs: list[InputSlot], result: Any, training: bool
) -> Captured:
    value = results.of(session, result)
    cached_functions.check_apart(session, value.written)
    outside_tables.check_kinds(session)
    outside_inputs.guard_apart(session)
    session.outside.guard_kinds()
    block = root.finish(value.outputs)
    code = request.function.__code__
    program = Program(
        name=request.function.__qualname__,
        block=block,
        inputs=tuple(inputs),
        in_structure=arguments.structure_of(request),
        states=tuple(state.slot for state in session.outside.states),
        out_structure=value.structure,
        effects=value.effects,
        origin=Location(code.co_filename, code.co_firstlineno, code.co_name),
        training=training,
        default_dtype=torch.get_default_dtype(),
        parameters=parameters_of(request.function, request.bound),
    )
    program = regions.outlined(snapshots.with_snapshots(remove_dead_code(program)))
    verify(program)
    return Captured(
        program=program,
        sources=session.tracker.table.sources,
        guards=session.tracker.guards,
        states=[_state_getter(state) for state in session.outside.states],
        state_sources=[state.source for state in session.outside.states],
        changes_objects=any(state.changes_objects for state in session.outside.states),
        takes_cells=any(state.changed for state in session.outside.states),
        writers=value.writers,
        sites=sorted(session.sites.values(), key=lambda site: (site.location.file, site.location.line)),
        written=value.written,
        existing=value.existing,
        dynamic_state=request.dynamic_state,
        asked=session.asked,
        asked_orders=frozenset(session.blocks.key_orders.asked),
        marks=value.marks,
        has_classes=session.traits.has_classes,
        outer_class=session.traits.outer_class,
        writes=bool(session.places.written_at),
        late=session.tracker.guards.of_values(session.tracker.table.is_late),
        sizes=SizeConditions(
            dict(session.checks.input_sizes),
            tuple(dict.fromkeys(session.checks.size_conditions)),
            {(leaf, dim): request.leaves[leaf].shape[dim] for leaf, dim in request.fixed},
        ),
    )


def _training(request: Request) -> bool:
    """Tell whether a module among the arguments is in training mode, before the code changes that."""
    return any(isinstance(leaf, torch.nn.Module) and leaf.training for leaf in request.leaves)


def _state_getter(state: State) -> Callable[[Sequence[Any]], Any]:
    if state.source is None:
        value = state.value
        return lambda values: value
    index = state.source.index
    match state.slot.kind:
        case "list":
            return lambda values: list(values[index])
        case "new list":
            return lambda values: []
        case "object":
            return lambda values: [values[index]]
    return lambda values: values[index]
