"""Lists, dicts and objects that a loop carries and that may be what was there before it.

    while n > 0:            in the first iteration `self.h` is the list from outside, later one that an iteration has made;
        log = self.h        the capture holds one list that stands for both
        self.h = self.h[1:]

That makes no difference to what is in it. Where it is asked which object it is, or it is left in another place, the number that the
loop carries along tells: nothing has replaced it as long as that is 0.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dy2st.capture.environment.tracking import Tracker
from dy2st.capture.values.kinds import is_mutable
from dy2st.capture.values.symbolic import Choosing, TaggedUnion, options_of
from dy2st_runtime.ir.flattening import children
from dy2st_runtime.primitives import scalars


@dataclasses.dataclass(frozen=True)
class _Carried:
    value: Any
    before: Any
    tag: Any


class Carried:
    """What the loops carry whose iterations are recorded now.

    Args:
        session: what makes tagged unions.
        tracker: where objects from outside come from.
    """

    def __init__(self, session: Choosing, tracker: Tracker) -> None:
        self._session, self._tracker = session, tracker
        self._known: dict[int, _Carried] = {}

    def add(self, value: Any, before: Any, tag: Any) -> None:
        """Note that an iteration starts with a value that stands for what was there before the loop while the tag is 0."""
        for option in options_of(value):
            if children(option) is not None:
                self._known[id(option)] = _Carried(option, before, tag)

    @contextlib.contextmanager
    def iteration(self) -> Iterator[None]:
        """Record an iteration: what is added meanwhile is forgotten at its end."""
        before = dict(self._known)
        try:
            yield
        finally:
            self._known = before

    def may_be_outside(self, value: Any) -> bool:
        """Tell whether a value is a list, dict or object from outside, or may be one."""
        return id(value) in self._known or (is_mutable(value) and self._tracker.source_of(value) is not None)

    def told(self, value: Any, but: Iterable[Any] = ()) -> Any:
        """Return a value, as a tagged union of objects where it is not known which it is.

        ``but`` some that are left as they are.
        """
        if not self._known:
            return value
        if isinstance(value, TaggedUnion):
            return flat(self._session, value, [self.told(option, but) for option in value.options.values()])
        known = None if any(value is one for one in but) else self._known.get(id(value))
        return value if known is None else self.replaced(known.before, value, known.tag)

    def replaced(self, before: Any, value: Any, tag: Any) -> Any:
        """Return what a place holds: ``value``, or where no iteration has replaced it what it held before."""
        before = self.told(before)
        return flat(self._session, self._session.new_union(tag, {0: before, 1: value}), [before, value])


def flat(session: Choosing, union: TaggedUnion, parts: Sequence[Any]) -> TaggedUnion:
    """Return a tagged union, with parts in the places of its options that may be tagged unions themselves."""
    if not any(isinstance(part, TaggedUnion) for part in parts):
        return union
    options: list[Any] = []
    result: Any = None
    for tag, part in zip(union.options, parts):
        first = len(options)
        options += options_of(part)
        at = part.retagged({old: first + new for new, old in enumerate(part.options)}) if isinstance(part, TaggedUnion) else first
        result = at if result is None else session.number(scalars.where, (union.tag == tag, at, result), "int")
    return session.new_union(result, dict(enumerate(options)))
