"""What a loop carries from iteration to iteration: what is in each place before, within and after it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from dy2st import errors, names
from dy2st.capture.branching.joiner import container_at
from dy2st.capture.containers import grown_lists, tuples
from dy2st.capture.diagnostics.access_path import access_path
from dy2st.capture.objects import table_sites
from dy2st.capture.session.chosen_tuples import Path
from dy2st.capture.session.session import Session
from dy2st.capture.types import abstract_values, lattice, mismatches, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractObject
from dy2st.capture.values.kinds import is_mutable
from dy2st.capture.values.signals import NeedsRuntimeList
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import RuntimeList, TaggedUnion, options_of
from dy2st.capture.writes.places import CellPlace, ContentsPlace, Place
from dy2st_runtime.ir.flattening import children
from dy2st_runtime.primitives import scalars

ACTS_FOR_USER = False

LONGEST = 120
DEEP = 4
ATTEMPTS = 64
ATTEMPTS_WITH_OLDER = 16
"""Where older objects are kept: then a value may have one more kind inside in each attempt, without end."""


@dataclasses.dataclass
class Carry:
    """A place that the loop changes.

    Attributes:
        initial: what it holds before the loop.
        kind: the type that fits it at the start of every iteration.
        by_identity: whether all containers that it may hold are older than the loop: it holds one of these objects then, and else
            a container with what is in them.
        from_outside: what it holds before the loop, if that is, or may be, a container from outside which an iteration may replace.
        final: what the iteration that was captured last leaves in it.
        start, tag: what it held when that iteration began, and the number that is carried along with what may be from outside: 0
            as long as that has not been replaced.
        tuples, which: the tuples from before the loop that it, or what is at a place in it, may be; and the numbers carried along
            that say which one that is.
    """

    place: Place
    initial: Any
    kind: value_types.Type
    by_identity: bool
    from_outside: Any = None
    final: Any = None
    start: Any = None
    tag: Any = None
    tuples: dict[Path, list[Any]] = dataclasses.field(default_factory=dict)
    which: list[Any] = dataclasses.field(default_factory=list)
    keeps_parts: bool = True
    """Whether a container from outside that is in another one stays the object that it is: there is one, on all iterations."""
    deepened: int = 0
    """How often an iteration has left there what is of a greater depth."""
    keeps_older: bool = False
    """Whether containers that are older than the loop stay the objects that they are, beside those that iterations make."""
    is_recalled: bool = False
    """Whether an earlier look at the code around the loop has shown that it is carried, not yet one at this loop."""

    def stays(self, session: Session) -> Callable[[Any], bool]:
        """Tell whether a container stays the object that it is."""
        is_older = functools.partial(session.ownership.is_older, time=session.blocks.region.start)
        return is_older if self.by_identity or self.keeps_older else lambda container: False

    def new_options(self, session: Session, value: Any, start: int) -> list[Any]:
        """Return what a value may be but an object that stays what it is."""
        return [option for option in options_of(value) if not (self.keeps_older and session.ownership.is_older(option, start))]


class Carries(dict[tuple[Any, ...], Carry]):
    """The places that a loop changes, by their keys.

    Attributes:
        keep_older: whether the objects that are older than the loop have to be known where they are held: others than the places
            that held them get them, or a place gets dicts of other keys.
        attempts: how often the body may be captured from now on.
        grown: where lists have to be lists of the program: in which place, and the way in it.
    """

    keep_older = False
    attempts = ATTEMPTS

    def __init__(self) -> None:
        super().__init__()
        self.grown: list[tuple[tuple[Any, ...], grown_lists.Path]] = []

    def begin_with_objects(self) -> None:
        """Have the places that hold objects come first."""
        ordered = sorted(self.items(), key=lambda item: not _holds_object(item[1].initial))
        self.clear()
        self.update(ordered)

    def put_in_order(self, left: Iterable[tuple[Any, ...]]) -> None:
        """Have the places come in the order in which an iteration leaves them, as if it were the first that is looked at."""
        ordered = {key: self[key] for key in left if key in self} | self
        self.clear()
        self.update(ordered)

    def begin_again(self) -> None:
        """Capture the loop anew, with older objects kept."""
        self.keep_older, self.attempts = True, ATTEMPTS_WITH_OLDER
        self.clear()

    def grow(self, session: Session, items: list[Any], has_grown: bool = False) -> bool:
        """Have a list that an iteration begins with be one of the program from now on; whether it is one of those.

        Args:
            has_grown: whether it has become one in the iteration, where it was one of several.
        """
        if (session.lists.of(items) is not None) is not has_grown:
            return False
        for key, carry in self.items():
            path = None if carry.by_identity else grown_lists.path_to(carry.start, items)
            if path is not None and (key, path) not in self.grown:
                self.grown.append((key, path))
                grown_lists.make(session, carry.initial, path)
                self.clear()
                return True
        return False

    def have_lists(self, session: Session, left: Mapping[Any, Any]) -> None:
        """Have the lists in what an iteration leaves be lists of the program where they have to be."""
        for key, path in self.grown:
            grown_lists.make(session, left.get(key), path)


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def _holds_object(value: Any) -> bool:
    """Tell whether a place held something before the loop that has an identity.

    Such come first, the others may become what they are.
    """
    return any(isinstance(option, RuntimeList) or children(option) is not None for option in options_of(value))


class _NeedsOlder(Exception):
    """Which of the older objects a place holds has to be known."""


def update(session: Session, carries: Carries, key: Any, place: Place, old: Any, new: Any) -> bool:
    """Widen the type of a carried place so that it fits what an iteration leaves; whether it fitted already."""
    carry = carries.get(key)
    _check_not_anew(session, place, old, new)
    try:
        if carry is None or (carry.by_identity and not _is_all_older(session, place, new)):
            carries[key] = _begun(session, place, old if carry is None else carry.initial, new, carries.keep_older)
            return False
        kind = _joined(session, carry, new)
    except _NeedsOlder:
        carries.begin_again()
        return False
    except mismatches.Mismatch as error:
        if not (carries.keep_older or isinstance(place, ContentsPlace)) and any(isinstance(o, dict) for o in options_of(new)):
            carries.begin_again()
            return False
        if carry is not None and any(carries.grow(session, items, True) for items in _lists_in(carry.start)):
            return False
        initial = old if carry is None else carry.initial
        if _need_list(session, place, (initial, old, new), error):
            if carry is None:
                return update(session, carries, key, place, old, new)
            before, carry.kind = carry.kind, _type(session, carry, initial)
            update(session, carries, key, place, old, new)
            return carry.kind == before
        raise _loop_error(session, place, error, old if carry is None else carry.initial, new) from None
    if kind == carry.kind:
        return True
    carry.deepened += _depth(kind) > _depth(carry.kind)
    if carry.deepened > DEEP:
        raise errors.LoopVariableError(
            f"'{access_path(session, place, carry.initial, new)}' holds the one of the iteration before, so that it is of another "
            "depth after each iteration of this loop",
            session.here(),
            fix="keep all in a list, nodes.append(node), and in each the position of the next one in place of the object",
        )
    carry.kind = kind
    return False


def _depth(kind: value_types.Type, around: tuple[Any, ...] = ()) -> int:
    """Return how many objects of one class, or tuples, are in each other."""
    if isinstance(kind, value_types.TaggedUnionType):
        return max(_depth(option, around) for option in kind.options)
    if not isinstance(kind, value_types.ContainerType):
        return 0
    own = (type(kind.structure), getattr(kind.structure, "factory", None))
    return max([around.count(own) + 1, *(_depth(item, (*around, own)) for item in kind.items)])


def _begun(session: Session, place: Place, old: Any, new: Any, keep_older: bool) -> Carry:
    """Return a place that turns out to be carried."""
    by_identity = all(_is_all_older(session, place, value) for value in (old, new))
    if isinstance(place, ContentsPlace) and not (by_identity or keep_older) and _holds_older(session, old):
        raise _NeedsOlder
    keep_older = keep_older and not by_identity
    outside = None
    if not (by_identity or keep_older) and not isinstance(place, ContentsPlace):
        outside = old if any(map(session.carried.may_be_outside, options_of(old))) else None
    carry = Carry(place, old, value_types.SameType(None), by_identity, outside, keeps_older=keep_older)
    carry.initial = seen_in(session, carry, old)
    carry.kind = _type(session, carry, old)
    carry.kind = _joined(session, carry, new)
    return carry


def _holds_older(session: Session, contents: Any) -> bool:
    """Tell whether there is a container in another one, which an iteration may take out or leave where it is."""
    parts = (children(contents) or ((),))[0]
    start = session.blocks.region.start
    return any(session.ownership.is_older(option, start) for part in parts for option in options_of(part))


def _joined(session: Session, carry: Carry, new: Any) -> value_types.Type:
    """Return the type of what a place holds at the start of an iteration and of what the iteration leaves.

    Raises:
        _NeedsOlder: a container in it is one from outside or another one, and what is in it would not tell which.
        Mismatch: there is none.
    """
    kept = carry.by_identity or carry.keeps_older or not carry.keeps_parts
    try:
        kind = join_kinds(carry, carry.kind, _type(session, carry, new))
        if kept or not any(map(_chooses_kept, lattice.options_of_type(kind))):
            return kind
    except mismatches.Mismatch:
        if kept:
            raise
        carry.keeps_parts = False
        join_kinds(carry, _type(session, carry, carry.initial), _type(session, carry, new))
    raise _NeedsOlder


def _chooses_kept(kind: value_types.Type) -> bool:
    """Tell whether a type is, or has in it, a tagged union of a container that is kept and of one that is passed on by what is
    in it.
    """
    if isinstance(kind, value_types.TaggedUnionType):
        kept = any(isinstance(option, value_types.SameType) and children(option.value) is not None for option in kind.options)
        return kept and any(isinstance(option, (value_types.ContainerType, value_types.ListType)) for option in kind.options)
    return isinstance(kind, value_types.ContainerType) and any(map(_chooses_kept, kind.items))


def tag_after(session: Session, carry: Carry) -> Any:
    """Return the tag of a carried value after an iteration."""

    def number(option: Any) -> Any:
        if option is carry.start or (is_mutable(option) and any(option is known for known in options_of(carry.start))):
            return carry.tag
        if option is not carry.from_outside and is_mutable(option) and session.tracker.source_of(option) is not None:
            raise errors.LoopVariableError(
                f"'{access_path(session, carry.place, carry.initial, option)}' is one of several objects from outside, or a "
                "new one, after an iteration of this loop",
                session.here(),
                fix="give the new one another name",
            )
        return int(option is not carry.from_outside)

    if carry.final is carry.from_outside or not isinstance(carry.final, TaggedUnion):
        return number(carry.final)
    (_, last), *others = reversed(carry.final.options.items())
    result = number(last)
    for tag, option in others:
        result = session.number(scalars.where, (carry.final.tag == tag, number(option), result), "int")
    return result


def _type(session: Session, carry: Carry, value: Any) -> value_types.Type:
    seen = seen_in(session, carry, value)
    if carry.by_identity or carry.keeps_older:
        return lattice.type_of(seen, functools.partial(session.ownership.is_older, time=session.blocks.region.start))
    return lattice.type_of(seen, functools.partial(_is_kept_part, session, carry, options_of(seen)))


def _is_kept_part(session: Session, carry: Carry, whole: Iterable[Any], part: Any) -> bool:
    if not carry.keeps_parts or isinstance(carry.place, ContentsPlace) or children(part) is None:
        return False
    if any(part is option for option in whole):
        return carry.from_outside is None and is_mutable(part) and session.tracker.source_of(part) is not None
    return session.ownership.is_older(part, session.blocks.region.start)


def _is_all_older(session: Session, place: Place, value: Any) -> bool:
    """Tell whether all containers that a place may hold were there before the loop."""
    todo = [value]
    if isinstance(place, ContentsPlace):
        todo = [*(dict.values(value) if isinstance(value, dict) else storage.plain(value))]
    while todo:
        part = todo.pop()
        if isinstance(part, (TaggedUnion, tuple)):
            todo += part.options.values() if isinstance(part, TaggedUnion) else part
        elif children(part) is not None and not session.ownership.is_older(part, session.blocks.region.start):
            return False
    return True


def _check_not_anew(session: Session, place: Place, old: Any, new: Any) -> None:
    """Check that an object that each iteration makes is another one each time, and of another one the program knows nothing."""
    allocated = session.allocations.allocated_at(new)
    if (
        allocated is None
        or allocated <= session.blocks.region.start
        or isinstance(new, (AbstractObject, BaseException, torch.Size))
    ):
        return
    if not isinstance(lattice.type_of(new), value_types.SameType):
        return
    kind, name = type(new).__qualname__, access_path(session, place, old, new)
    raise errors.LoopVariableError(
        f"'{name}' is another {kind} after each iteration of this loop",
        session.here(),
        fix=f"change the {kind} that is there, or make the class a dataclass: what is in one is carried from iteration "
        "to iteration",
    )


def join_kinds(carry: Carry, before: value_types.Type, after: value_types.Type) -> value_types.Type:
    """Return what a variable may be at the start of an iteration. A container that changes its structure has no end of kinds.

    The variable that early returns go through has no more kinds than there are returns.
    """
    place = carry.place
    if isinstance(place, CellPlace) and place.name.rstrip("0123456789_") in (names.RESULT, names.LEFT):
        return lattice.join(before, after, ())
    try:
        return lattice.join(before, after, value_types.VALUES if isinstance(place, ContentsPlace) else value_types.CONTAINERS)
    except mismatches.Mismatch:
        if isinstance(place, ContentsPlace):
            raise
        grown = lattice.tuple_of_any_length(before, after)
        if grown is None and carry.keeps_older:
            grown = lattice.union_of_dicts(before, after)
        if grown is None:
            raise
        return grown


def _need_list(session: Session, place: Place, values: Iterable[Any], error: mismatches.Mismatch) -> bool:
    """Have a Python list among what a place holds become a list of the program, if that is what is missing; whether one has."""
    table_sites.unite(session, values)
    lists = [place.owner] if isinstance(place, ContentsPlace) else [items for value in values for items in _lists_in(value)]
    known = [session.lists.of(items) for items in lists]
    if isinstance(error, mismatches.LengthMismatch) or any(known):
        for items, runtime in zip(lists, known):
            if isinstance(items, list) and runtime is None:
                if not session.lists.owner_is_here(items):
                    raise NeedsRuntimeList(items) from None
                session.lists.make(items)  # made by this iteration
                return True
    return False


def _lists_in(value: Any) -> list[list[Any]]:
    """Return the lists that a value is or may be, or that are in it."""
    if isinstance(value, list):
        return [value]
    parts = value.options.values() if isinstance(value, TaggedUnion) else (children(value) or ((),))[0]
    return [items for part in parts for items in _lists_in(part)]


def leaves(session: Session, carry: Carry, value: Any, out: list[Any]) -> None:
    if isinstance(carry.kind, value_types.ListType) and isinstance(value, tuple):
        value = tuples.create(session, value)
    try:
        abstract_values.leaves(carry.kind, value, out)
    except mismatches.Mismatch as error:  # a part is one of several values here, and a value of its own elsewhere
        raise _loop_error(session, carry.place, error, carry.initial, value) from None


def seen_in(session: Session, carry: Carry, value: Any) -> Any:
    if value is MISSING:
        return abstract_values.absent(carry.place)
    if not isinstance(carry.place, ContentsPlace):
        session.blocks.key_orders.check_parts(value, carry.stays(session), session.here())
    is_kept = carry.by_identity or (carry.keeps_older and session.ownership.is_older(value, session.blocks.region.start))
    return value if is_kept else session.lists.of(value) or value


def _loop_error(session: Session, place: Place, error: mismatches.Mismatch, old: Any, new: Any) -> errors.LoopVariableError:
    name = access_path(session, place, old, new)
    if isinstance(new, AbstractObject):
        kind = new.__class__.__name__
        return errors.LoopVariableError(
            f"'{name}' is another {kind} after each iteration of this loop",
            session.here(),
            fix=f"change the {kind} that is there: {name}.clear(), then add to it",
        )
    return errors.LoopVariableError(
        f"'{name}' is not the same kind of value before and after an iteration of this loop",
        session.here(),
        seen=cut(error.told("before", "after", container_at(place)), 4 * LONGEST),
        fix=f"give '{name}' its final dtype, number of dimensions and structure before the loop",
    )
