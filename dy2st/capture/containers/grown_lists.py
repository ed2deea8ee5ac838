"""Lists in what a loop carries that change their length inside of a block of its body.

while n > 0:                each iteration begins with an object that stands for what the one before has left, with a list in
    if x.sum() > 0:         it that was made for this iteration: what stands for it before the loop, and what the iteration
        node.items.append(x)    leaves there, have to be lists of the program
    node = Node([*node.items])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dy2st.capture.session.session import Session
from dy2st.capture.values.signals import NeedsRuntimeList
from dy2st.capture.values.symbolic import options_of
from dy2st_runtime.ir.flattening import children, shallow
from dy2st_runtime.ir.structure import DictOf, ObjectOf

Path = tuple[Any, ...]


def path_to(value: Any, items: list[Any]) -> Path | None:
    """Return the names, keys and positions that lead to a list in a value, whichever option that is."""
    if any(option is items for option in options_of(value)):
        return ()
    for option in options_of(value):
        for step, part in _parts(option):
            rest = path_to(part, items)
            if rest is not None:
                return (step, *rest)
    return None


def make(session: Session, value: Any, path: Path) -> None:
    """Have the lists that are at a place in a value become lists of the program.

    Raises:
        NeedsRuntimeList: one was made in a block around this one.
    """
    for items in _lists_at(value, path):
        if session.lists.of(items) is None:
            if not session.lists.owner_is_here(items):
                raise NeedsRuntimeList(items)
            session.lists.make(items)


def _lists_at(value: Any, path: Path) -> Iterator[list[Any]]:
    for option in options_of(value):
        if path:
            for step, part in _parts(option):
                if step == path[0]:
                    yield from _lists_at(part, path[1:])
        elif isinstance(option, list):
            yield option


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    parts, structure = shallow(value) if children(value) is not None else ((), None)
    steps: Sequence[Any] = range(len(parts))
    if isinstance(structure, (DictOf, ObjectOf)):
        steps = structure.keys if isinstance(structure, DictOf) else structure.fields
    yield from zip(steps, parts)
