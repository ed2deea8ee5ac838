"""Loops whose test is known only at run time: the body becomes a block, what it changes becomes a carried value.

The body is captured again and again until the types of the carried values no longer change: a size that the body changes becomes
unknown, a number that it changes becomes symbolic. The test is evaluated once before the loop and again at the end of the body, so
one block runs per iteration, and names that the test itself binds are carried like any other.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st import errors, training
from dy2st.capture.branching.branch import join
from dy2st.capture.diagnostics.access_path import access_path
from dy2st.capture.diagnostics.attribution import TRACING_ERRORS, is_about_abstracts
from dy2st.capture.looping import recalled
from dy2st.capture.looping.carries import LONGEST, Carries, Carry, cut, leaves, seen_in, tag_after, update
from dy2st.capture.looping.older import holds_out_of_date, leaves_unclear, moves_older, moves_outside
from dy2st.capture.looping.truth import both, condition
from dy2st.capture.objects.narrowing import narrow
from dy2st.capture.objects.uniting import Uniting
from dy2st.capture.raising import rests
from dy2st.capture.raising.exceptions import records
from dy2st.capture.recording.block import align_operands
from dy2st.capture.session.session import Session, need
from dy2st.capture.types import abstract_values, lattice, mismatches, tensor_traits, value_types
from dy2st.capture.types.loop_histories import LoopHistory
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.signals import Needed, NeedsMade, NeedsRanks, NeedsRuntimeList, Unreachable
from dy2st.capture.values.symbolic import options_of, unpack_list
from dy2st.capture.writes.checkpointed import SNAPSHOTS
from dy2st.capture.writes.places import ContentsPlace, Place
from dy2st.capture.writes.undo_log import Write
from dy2st_runtime.ir.flattening import shallow
from dy2st_runtime.primitives import control

ACTS_FOR_USER = False


def capture_while(value: Any, body: Any, live: Sequence[str]) -> None:
    """Capture a ``while`` statement; it is captured from the first iteration whose test is known only at run time.

    Args:
        value: a function without arguments that gives the test's value.
        body: a function without arguments.
        live: the names that are read after an iteration or after the loop.
    """
    session = need()
    session.checks.emit()
    cells = session.frames.cells_of(value, body)

    def test() -> Any:
        return condition(value())

    def loop(pred: Any) -> None:
        capture_loop(session, pred, test, body, cells, live, first)
        session.site("while", "captured", "the test depends on a tensor")

    def iteration() -> Any:
        with session.histories.look(first, session.allocations.now()):
            body()
            return test()

    place = (body.__code__, "one iteration")
    _, first = session.histories.enter(place)
    pred = test()
    iterations = 0
    while not is_symbolic(pred):
        if not pred:
            session.site(
                "while", "plain Python" if iterations == 0 else "unrolled", f"the test is a Python value; {iterations} iterations"
            )
            rests.go_on(session, cells)
            return
        attempt = session.blocks.begin_attempt(cells)
        pred = rests.flat(session, iteration, live, join)
        iterations += 1
        if is_symbolic(pred):
            session.blocks.roll_back(attempt)
            if try_loop(session, cells, lambda: loop(True)):
                return
            pred = rests.flat(session, iteration, live, join)  # the first iteration is different: unroll it and capture the rest
            continue
        session.blocks.commit(attempt)
        _, first = session.histories.enter(place)
    loop(pred)


def try_loop(session: Session, cells: Sequence[Place], loop: Callable[[], None]) -> bool:
    """Record what may be no loop of the program, because its first iteration differs from the others; whether it was."""
    attempt = session.blocks.begin_attempt(cells)
    try:
        loop()
    except Exception as error:
        if not isinstance(error, (errors.CaptureError, TypeError, *TRACING_ERRORS)) and not is_about_abstracts(session, error):
            raise
        session.blocks.roll_back(attempt)
        return False
    session.blocks.commit(attempt)
    return True


def capture_loop(
    session: Session, pred: Any, test: Callable[[], Any], body: Callable[[], Any], cells: Sequence[Place], live: Sequence[str],
    first: LoopHistory | None = None,
) -> None:  # fmt: skip
    """Record one loop.

    Args:
        pred: whether the first iteration happens.
        test: whether another iteration happens, evaluated at the end of each.
        body: one iteration.
        cells: the variables that test and body share with the code around them.
        live: the names of those that are read after an iteration or after the loop.
        first: what a look at the first iteration alone has shown of the loops inside.

    Raises:
        LoopVariableError: a variable changes its kind from iteration to iteration.
    """
    earlier, history = session.histories.enter((*map(str, cells), *live))
    if first is not None and not history.inner:
        history.inner = first.inner
    carries = Carries()
    if tensor_traits.IDENTITY in session.traits.apart:
        carries.begin_again()
    recalled.begin(session, carries, cells, earlier)
    try:
        _converge(session, pred, test, body, cells, live, carries, history)
    finally:
        recalled.note(session, history, cells, carries)


def _converge(
    session: Session, pred: Any, test: Callable[[], Any], body: Callable[[], Any], cells: Sequence[Place], live: Sequence[str],
    carries: Carries, history: LoopHistory,
) -> None:  # fmt: skip
    """Look at the body until the carried values need no change."""
    kinds: dict[tuple[Any, ...], value_types.Type] = {}
    while carries.attempts:
        carries.attempts -= 1
        carries.begin_with_objects()
        kinds = {key: carry.kind for key, carry in carries.items()}
        try:
            with session.histories.look(history, session.allocations.now()), session.lists.look() as recorded:
                is_recorded = recorded(_attempt(session, pred, test, body, cells, live, carries))
            if is_recorded:
                rests.go_on(session, cells)
                return
        except NeedsMade as needed:
            session.operators.make_early(session, needed)
            _clear(carries, history)
            continue
        except NeedsRuntimeList as needed:
            if any(carries.grow(session, items) for items in needed.lists):
                continue
            lists = _lists_to_make(session, needed, cells, history)
        except errors.CaptureError:
            if not any(carry.is_recalled for carry in carries.values()):
                raise
            _clear(carries, history)
            continue
        else:
            _check_keys(session, carries)
            continue
        session.lists.make_all(lists)
        _clear(carries, history)
    raise _diverging(session, next((carry for key, carry in carries.items() if kinds.get(key) != carry.kind), None))


def _lists_to_make(
    session: Session, needed: NeedsRuntimeList, cells: Sequence[Place], history: LoopHistory
) -> Sequence[list[Any]]:  # fmt: skip
    """Return the lists that have to become lists of the program before the loop; note them for its other looks.

    Raises:
        NeedsRuntimeList: some were made in blocks around this one.
    """
    lists = session.lists.to_make(needed)
    for items in lists:
        recalled.note_list(history, cells, items)
    session.lists.raise_others(needed, lists)
    return lists


def _clear(carries: Carries, history: LoopHistory) -> None:
    """Begin with what is there before the loop again: the loops inside may come to less then."""
    if carries:
        history.inner = history.without_types().inner
    carries.clear()


def _diverging(session: Session, carry: Carry | None) -> errors.LoopVariableError:
    """Return the error for a variable that is of another kind after each iteration, however often it is looked at."""
    name = "a variable" if carry is None else f"'{access_path(session, carry.place, carry.initial, carry.final)}'"
    if carry is not None and carry.place.key[0] == "order" and not session.blocks.key_orders.are_ranked:
        raise NeedsRanks
    return errors.LoopVariableError(
        f"{name} is another kind of value after each iteration of this loop",
        session.here(),
        seen=None if carry is None else f"{mismatches.text(lattice.type_of(carry.initial))} before, then {_shortened(carry.kind)}",
        fix=f"give {name} its final dtype, number of dimensions and structure before the loop",
    )


def _check_keys(session: Session, carries: Carries) -> None:
    """Refuse a loop that puts a tensor of each iteration into a set or dict."""
    keys = {id(item): item for carry in carries.values() if isinstance(item := getattr(carry.place, "item", None), torch.Tensor)}
    if sum(map(session.fakes.is_abstract, keys.values())) > _MOST_TENSORS:
        raise errors.LoopVariableError(
            "tensors that are known only at run time are put into a set or dict, which finds them by their identity",
            session.here(),
            seen="another one in each iteration of a loop",
            fix="keep them in a list; torch.unique gives the distinct values in a tensor",
        )


_MOST_TENSORS = 2
"""So many keys that are tensors of the program come up where a loop is looked at as often as it takes; more have no end."""


def _shortened(kind: value_types.Type) -> str:
    return cut(mismatches.text(kind), LONGEST)


def _attempt(
    session: Session, pred: Any, test: Callable[[], Any], body: Callable[[], Any], cells: Sequence[Place], live: Sequence[str],
    carries: Carries,
) -> bool:  # fmt: skip
    """Capture the body with the carried values as they are typed now; record the loop if they need no change."""
    known, is_first_look = len(session.lists.widened), not carries
    with session.blocks.nested(cells, repeats=True) as region, session.carried.iteration():
        depth = session.blocks.nesting
        inputs, united = _start_iteration(session, carries)
        dead = False
        try:
            body()
            again = test()
            session.blocks.begin_again_if_needed()
        except Unreachable:
            dead, again = True, False
        except BaseException as error:
            if not records(session, error):
                raise
            dead, again = session.in_flight.left.read() is None, False
        again, dead = rests.joined(session, depth, again, dead, live, join, False)
        region.is_dead = dead
        again = both(session, again, rests.going(session))
        session.checks.emit()
        writes = session.places.of(region)
        is_kept = functools.partial(session.ownership.is_older, time=region.start)
        held = [write.new for key, write in writes.items() if key in carries or not session.frames.is_dead(write.place, live)]
        narrow(session, held, is_kept)
        writes = _told(session, writes)
        left = {} if dead else {key: write for key, write in writes.items() if not session.frames.is_dead(write.place, live)}
        left = {key: dataclasses.replace(write, new=_as_objects(session, carries.get(key), write)) for key, write in left.items()}
        if _leaves_out_of_date(carries, left) and not is_first_look:
            return False
        carries.have_lists(session, {key: write.new for key, write in left.items()})
        converged = _widened(session, carries, left, is_first_look)
        for key, carry in carries.items():
            carry.final = (left.get(key) or writes[key]).new if key in writes else carry.place.read()
        if not (carries.keep_older or dead) and (moves_outside(carries) or moves_older(session, carries)):
            carries.begin_again()
            return False
        after = functools.cache(lambda: _united(session, carries))
        if not (carries.keep_older or dead) and leaves_unclear(carries, after().unclear):
            carries.begin_again()
            return False
        if not converged or session.lists.has_widened(known, region) or not (dead or united <= after().positions):
            return False
        session.places.put(session.in_flight.left, None)  # what is recorded from here on runs on all ways
        outputs = [again, *_outputs(session, carries, dead)]
        builder = region.builder
        block = builder.finish(tuple(outputs))
        operands = align_operands(builder)
        assert len(inputs) == len(outputs) - 1
    for carry in carries.values():
        session.blocks.may_alias.forget(carry.start)
    started, results = _record(session, pred, block, operands, carries, region.start)
    _link_gradients(session, started, inputs, outputs[1:], results)
    return True


def _link_gradients(session: Session, *rows: Sequence[Any]) -> None:
    """Note where what a loop carries comes from; rows are what is there before it, in and after an iteration, after it."""
    for before, begun, after, result in zip(*rows):
        for value in (begun, result):
            session.gradients.link(value, map(session.outside.adopted, (before, after)))


def _leaves_out_of_date(carries: Carries, left: dict[tuple[Any, ...], Write]) -> bool:
    """Have older objects kept where an iteration leaves one that it has changed; whether they have not been kept until now."""
    if carries.keep_older or not any(holds_out_of_date(write.new) for write in left.values()):
        return False
    carries.begin_again()
    return True


def _widened(session: Session, carries: Carries, left: dict[tuple[Any, ...], Write], is_first_look: bool) -> bool:
    """Widen the types of the carried places so that they fit what an iteration leaves; whether they did already.

    Args:
        is_first_look: whether the iteration began with nothing carried: with older objects kept it is the same.
    """
    kept_older = carries.keep_older
    if any(carry.is_recalled and key not in left for key, carry in carries.items()):
        carries.clear()  # it is not carried here: what an earlier look has shown is too much
        return False
    is_recalled = any(carry.is_recalled for carry in carries.values())
    fit, needed = True, Needed()
    for key, write in left.items():
        with needed.lists():
            fit &= update(session, carries, key, write.place, write.old, write.new)
        fit &= key in carries and not session.tuples.add_older(
            carries[key].tuples, (carries[key].initial, write.new), session.blocks.region.start
        )
    needed.check()
    if is_first_look and carries.keep_older and not kept_older:  # contents may be those of objects that are carried from now on
        for key, write in left.items():
            if key not in carries and not isinstance(write.place, ContentsPlace):
                update(session, carries, key, write.place, write.old, write.new)
        carries.put_in_order(left)
    if is_recalled and not fit:
        carries.put_in_order(left)
    return fit


def _told(session: Session, writes: dict[tuple[Any, ...], Write]) -> dict[tuple[Any, ...], Write]:
    """Return what an iteration leaves, with what tells the order of the keys of the dicts that it has made."""
    known: dict[int, tuple[Any, Any]] = {}
    is_kept = functools.partial(session.ownership.is_older, time=session.blocks.region.start)
    return {
        key: write
        if isinstance(write.place, ContentsPlace)
        else dataclasses.replace(write, new=session.blocks.key_orders.told(session, write.new, is_kept, known))
        for key, write in writes.items()
    }


def _as_objects(session: Session, carry: Carry | None, write: Write) -> Any:
    """Return what an iteration leaves in a place, as a tagged union of objects where it is in another place what it carries."""
    if isinstance(write.place, ContentsPlace):
        return write.new
    own = () if carry is None else (*options_of(carry.start), *options_of(carry.from_outside))
    return session.carried.told(write.new, own)


def _outputs(session: Session, carries: Carries, dead: bool) -> list[Any]:
    """Return what an iteration passes on to the next one; nothing where it ends with an exception."""
    results: list[Any] = []
    for carry in carries.values():
        leaves(session, carry, abstract_values.ABSENT if dead else seen_in(session, carry, carry.final), results)
        if carry.from_outside is not None:
            results.append(None if dead else tag_after(session, carry))
        if carry.which:
            results += [None] * len(carry.which) if dead else session.tuples.numbers(carry.final, carry.tuples)
    return results


def _start_iteration(session: Session, carries: Carries) -> tuple[list[Any], set[Any]]:
    """Give each carried place a fresh value that an input of the body stands for; which of them are one object, too."""
    inputs: list[Any] = []
    unite = _uniting(session, carries, session.blocks.region.start)
    same: dict[int, Any] = {}
    for number, carry in enumerate(carries.values()):
        results: list[Any] = []
        value = abstract_values.fresh(carry.kind, session, results)
        for index, leaf in enumerate(results):
            name = str(carry.place).partition(" ")[0]
            name = name if len(results) == 1 else f"{name}_{index}"
            node = session.builder.placeholder("".join(c if c.isalnum() else "_" for c in name).strip("_") or "item", leaf)
            session.builder.bind(leaf, node)
        inputs += results
        if carry.from_outside is not None:
            carry.tag = session.new_value(value_types.NumberType("int"))
            session.builder.bind(carry.tag, session.builder.placeholder("replaced", carry.tag))
            inputs.append(carry.tag)
        carry.start = value = _unite(unite, number, carry, unpack_list(value))
        if carry.from_outside is not None:
            session.carried.add(value, carry.from_outside, carry.tag)
        carry.which = _begin_tuples(session, carry, value, inputs)
        session.tuples.carry(value)
        session.places.put(carry.place, value)
        session.blocks.key_orders.begin_iteration(carry.place, value, carry.final, inputs)
    for carry in carries.values():  # not before, as the contents that an iteration starts with are no change
        _link(session, carry, carry.start, same, session.blocks.region.start)
    if session.in_flight.left.read() is not None:
        session.places.put(session.in_flight.left, None)  # there is no iteration after one that leaves for a handler
    return inputs, unite.positions


def _begin_tuples(session: Session, carry: Carry, value: Any, inputs: list[Any]) -> list[Any]:
    """Return the numbers that tell which tuples from before the loop are in a value at the start of an iteration.

    None if nobody asks.
    """
    which = [session.new_value(value_types.NumberType("int")) for _ in carry.tuples] if session.tuples.are_told else []
    for number in which:
        session.builder.bind(number, session.builder.placeholder("which", number))
    inputs += which
    session.tuples.link_parts(value, carry.tuples, which)
    return which


def _unite(unite: Uniting, number: int, carry: Carry, value: Any) -> Any:
    if carry.by_identity:
        return value
    return unite(value, carry.initial, carry.final, (number,), is_object=not isinstance(carry.place, ContentsPlace))


def _united(session: Session, carries: Carries) -> Uniting:
    """Make the carried values one object that are one after the iteration, and tells which."""
    unite = _uniting(session, carries, session.blocks.region.start)
    for number, carry in enumerate(carries.values()):
        _unite(unite, number, carry, carry.final)
    return unite


def _uniting(session: Session, carries: Carries, start: int) -> Uniting:
    return Uniting(session, start if carries.keep_older else None)


def _link(session: Session, carry: Carry, value: Any, same: dict[int, Any], start: int, *, is_new: bool = False) -> None:
    """Link what a loop carries: it may be what was there before it; the contents of a list are a copy in any case.

    Args:
        start: when the loop began.
        is_new: whether the value is known to have been made in the loop; what is in it may have been there.
    """
    session.ownership.own_all(value)
    session.places.copies.follow(value, carry.initial, carry.final)
    session.allocations.stands_for(value, carry.initial, carry.final)
    if carry.keeps_older:
        for part in carry.new_options(session, value, start):
            for left in carry.new_options(session, carry.final, start):
                session.blocks.may_alias.link_parts(part, left, same)
    elif not isinstance(carry.place, ContentsPlace) and not carry.by_identity:
        pairs = [(value, carry.initial)]
        if is_new:
            rows = [shallow(option)[0] for option in options_of(carry.initial)]
            pairs = [pair for row in rows for pair in zip(shallow(value)[0], row)]
        for one, other in pairs:
            session.blocks.may_alias.link(one, other)
        session.blocks.may_alias.link_parts(value, carry.final, same)


def _record(
    session: Session, pred: Any, block: Any, operands: Any, carries: Carries, start: int
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Record a loop; gives the values that it starts with, and those that it leaves."""
    started: list[Any] = []
    results: list[Any] = []
    values = []
    same: dict[int, Any] = {}
    unite = _uniting(session, carries, start)
    for number, carry in enumerate(carries.values()):
        leaves(session, carry, carry.initial, started)
        value = _unite(unite, number, carry, unpack_list(abstract_values.fresh(carry.kind, session, results)))
        tag = None if carry.from_outside is None else session.new_value(value_types.NumberType("int"))
        if tag is not None:
            started.append(0)
            results.append(tag)
        which = [session.new_value(value_types.NumberType("int")) for _ in carry.which]
        if which:
            started += session.tuples.numbers(carry.initial, carry.tuples)
            results += which
        session.tuples.link_parts(value, carry.tuples, which)
        session.tuples.carry(value)
        values.append((carry, value, tag))
    builder = session.builder
    node = builder.call_raw(control.while_, (builder.argument(pred), block, builder.argument(tuple(started)), operands))
    asked = training.snapshots_asked()
    if (asked or session.request.options.loop_checkpoints) and torch.is_grad_enabled():
        caches = torch.is_autocast_cache_enabled() and any(
            map(torch.is_autocast_enabled, ("cpu", str(torch._C._get_accelerator())))
        )
        node.meta[SNAPSHOTS] = (asked or session.request.options.loop_checkpoints, bool(asked), session.here(), caches)
    builder.bind(tuple(results), node)
    for carry, value, tag in values:
        session.places.put(carry.place, value if tag is None else session.carried.replaced(carry.from_outside, value, tag))
    for carry, value, _ in values:
        _link(session, carry, value, same, start, is_new=carry.from_outside is not None)
    return started, results
