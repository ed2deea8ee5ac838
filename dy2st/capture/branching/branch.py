"""Two ways through the code, one value: capture both branches as blocks and join what they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from dy2st import errors
from dy2st.capture.branching import new_functions
from dy2st.capture.branching.joiner import ZEROS, Joiner
from dy2st.capture.raising import rests
from dy2st.capture.raising.exceptions import records
from dy2st.capture.recording.block import align_operands
from dy2st.capture.session.regions import Outcome
from dy2st.capture.session.session import Session, need
from dy2st.capture.types.abstract_values import ABSENT
from dy2st.capture.values import storage
from dy2st.capture.values.kinds import number_kind
from dy2st.capture.values.signals import Needed, NeedsMade, NeedsRuntimeList, Unreachable
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st.capture.writes.places import AttributePlace, Place
from dy2st.capture.writes.undo_log import Write
from dy2st_runtime.primitives import control

ACTS_FOR_USER = False

_ATTEMPTS = 64


def capture_if(test: Any, then: Any, orelse: Any, live: Sequence[str]) -> None:
    """Capture an ``if`` statement whose test is known only at run time.

    Args:
        test: a tensor with one element or a symbolic number.
        then, orelse: functions without arguments, the branches.
        live: the names that are read afterwards.
    """
    _capture(test, then, orelse, live)


def capture_if_exp(test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """Return an expression of which one of two operands is evaluated; gives the joined value."""
    return _capture(test, then, orelse, None)


def _capture(test: Any, then: Any, orelse: Any, live: Sequence[str] | None) -> Any:
    session = need()
    session.site("if" if live is not None else "expression", "captured", "the test depends on a tensor")
    cells = session.frames.cells_of(*(f for f in (then, orelse) if hasattr(f, "__code__")))
    for _ in range(_ATTEMPTS):
        try:
            fact = test.node.expr if isinstance(test, torch.SymBool) else None
            facts = [fact, None if fact is None else sympy.Not(fact)]
            outcomes = [run_branch(session, branch, cells, holds, live) for branch, holds in zip((then, orelse), facts)]
            result = join(session, test, outcomes, live)
        except NeedsMade as needed:
            session.operators.make_early(session, needed)
            continue
        except NeedsRuntimeList as needed:
            lists = session.lists.to_make(needed, anywhere=live is None)  # what follows in the block may need more lists
            session.lists.raise_others(needed, lists)
        else:
            for holds, outcome in zip(facts, outcomes):  # not before: a branch that is looked at again checks again
                if holds is not None:
                    session.shapes.imply(holds, outcome.checked)
            rests.go_on(session, cells)
            return result
        session.lists.make_all(lists)
    raise errors.CaptureError("too many lists change length in one branch", session.here())


def run_branch(
    session: Session, branch: Callable[[], Any], cells: Sequence[Place], fact: sympy.Basic | None = None,
    live: Sequence[str] | None = None,
) -> Outcome:  # fmt: skip
    """Capture one branch, in which ``fact`` holds; what it wrote is undone when this returns."""
    with session.blocks.nested(cells) as region:
        depth = session.blocks.nesting
        if fact is not None:
            session.shapes.learn(fact)
        try:
            result, dead = branch(), False
            session.blocks.begin_again_if_needed()
        except Unreachable:
            result, dead = None, True
        except BaseException as error:
            if not records(session, error):
                raise
            dead = session.in_flight.left.read() is None
            result = None if dead else ABSENT
        result, dead = rests.joined(session, depth, result, dead, live, join)
        checked = session.shapes.checked_since(region.facts)
        session.checks.emit()
        region.is_dead = dead
        outcome = Outcome(region.start, region.builder, session.places.of(region), result, dead, checked=checked)
    return outcome


def join(session: Session, test: Any, outcomes: Sequence[Outcome], live: Sequence[str] | None) -> Any:
    """Record which of two ways is taken, and leave in each place what stands for both; gives what stands for their results."""
    then, orelse = outcomes
    joiner = Joiner(session, (then.builder, orelse.builder), then.start)
    writes = {**then.writes, **orelse.writes}
    left = {key: write for key, write in writes.items() if live is None or not session.frames.is_dead(write.place, live)}
    for outcome in outcomes:
        joiner.keep([*(outcome.final(key, None) for key in left), outcome.value])
    pairs: dict[Any, tuple[Any, Any, Place | None]] = {
        key: (then.final(key, write.old), orelse.final(key, write.old), write.place) for key, write in left.items()
    }
    for place, value, is_first in new_functions.variables(session, outcomes, left, joiner.keep_itself):
        pairs[place.key] = (value, ABSENT, place) if is_first else (ABSENT, value, place)
    pairs[None] = then.value, orelse.value, None
    joiner.tell_apart(pairs.values())
    results, needed = dict[Any, Any](), Needed()
    for key, pair in sorted(pairs.items(), key=lambda item: joiner.turn(*item[1])):
        with needed.lists():
            results[key] = joiner.join(*pair)
    needed.check()
    places = {key: place for key, (_, _, place) in pairs.items() if place is not None}
    places |= {key: _one_place(session, write, outcomes) for key, write in left.items()}
    blocks = [outcome.builder.finish(tuple(_any_numbers(leaves, joiner.fresh))) for outcome, leaves in zip(outcomes, joiner.leaves)]
    operands = align_operands(then.builder, orelse.builder)
    node = session.builder.call_raw(control.if_, (session.builder.argument(test), *blocks, operands))
    session.builder.bind(tuple(joiner.fresh), node)
    for value, *ways in zip(joiner.fresh, *joiner.leaves):
        session.shapes.chosen(value, test, *ways)
        session.gradients.link(value, map(session.outside.adopted, ways))
        if isinstance(value, torch.Tensor) and all(isinstance(way, torch.Tensor) and way.dim() == value.dim() for way in ways):
            for size, *sizes in zip(value.shape, *(way.shape for way in ways)):
                session.shapes.either(size, *sizes)
    session.blocks.may_alias.replace(joiner.replaced)
    if then.dead and orelse.dead:
        raise Unreachable
    for key, place in places.items():
        session.places.put(place, results[key])
    return results[None]


def _one_place(session: Session, write: Write, outcomes: Sequence[Outcome]) -> Place:
    """Return the place that two branches leave a value in.

    Raises:
        CaptureError: each keeps it in another table of a module.
    """
    place = write.place
    if not isinstance(place, AttributePlace) or not isinstance(place.owner, torch.nn.Module):
        return place
    otherwise = Write(place.now, write.old, write.old)
    left = [outcome.writes.get(place.key, otherwise) for outcome in outcomes if not outcome.dead]
    told = [(getattr(way.place, "table", ""), way.new) for way in left if way.new is not MISSING]
    tables = sorted({table for table, _ in told})
    if write.old is not MISSING or not _tells_nothing(place, told):
        if len(tables) < 2:
            return AttributePlace(place.owner, place.name, *tables)
        for one in filter(None, tables):
            if all(
                table == one or (not table and storage.is_kept_there(place.owner, place.name, value, one)) for table, value in told
            ):
                return AttributePlace(place.owner, place.name, one)
    raise errors.CaptureError(
        f"a tensor decides where a module keeps its attribute '{place.name}': among its parameters, buffers, modules, or others",
        session.here(),
        fix="register it in the same way in both branches, or under two names",
    )


def _tells_nothing(place: AttributePlace, told: Sequence[tuple[str, Any]]) -> bool:
    """Tell whether ``None`` is an attribute like any other on one way, where a module registers what it gets on another."""
    plain = any(
        value is None and not table and storage.is_kept_there(place.owner, place.name, None, "__dict__") for table, value in told
    )
    return plain and any(storage.may_register(value) for _, value in told)


def _any_numbers(leaves: Sequence[Any], fresh: Sequence[Any]) -> list[Any]:
    """Return numbers for those that nobody looks at: what is computed of them, wherever that is used, must not fail."""
    return [
        ZEROS[number_kind(result)] if leaf is None and isinstance(result, SYMBOLIC_NUMBERS) else leaf
        for leaf, result in zip(leaves, fresh)
    ]
