"""Dicts and objects of which a list of the program has a copy.

    outs.append(d)          the program's list holds a dict of its own, and `outs[0]` is a third one during the capture
    d["h"] = x              in Python all three are one: nobody may change any of them

Reading them makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from dy2st import errors
from dy2st.capture.values.signals import NeedsApart
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import options_of, runtime_list, unpack_list
from dy2st.capture.writes.places import Place
from dy2st_runtime.ir.flattening import children


def _name(kind: type) -> str:
    return f"the attributes of {kind.__module__}.{kind.__qualname__}"


class Copies:
    """Which objects have a copy in a list of the program, or are one.

    Args:
        block: gives the block that is recorded now.
    """

    def __init__(self, block: Callable[[], Any]) -> None:
        self._block = block
        self._objects: dict[int, tuple[Any, Any]] = {}
        """With the blocks in which they became ones."""
        self._sites: dict[str, None] = {}
        """Where dicts have been made that were put in: one that is taken out again does not know."""
        self._followed: set[int] = set()
        """Those that came to stand for others."""
        self.hold_lists = False
        """Whether a list of the program is an item of another one, too."""

    def add(self, item: Any, sites: Iterable[str] = ()) -> None:
        """Forbid changes of an object from now on.

        Args:
            item: the object.
            sites: where it has been made, if it is a dict (see :mod:`~dy2st.capture.objects.table_sites`).
        """
        self._objects[id(item)] = item, self._block()
        self._sites.update(dict.fromkeys(sites))

    def block_of(self, item: Any) -> Any:
        """Return the block in which an object has become one of these; ``None`` if it is none."""
        return self._objects.get(id(item), (None, None))[1]

    def has_followed(self, item: Any) -> bool:
        """Tell whether an object has become one of these since it stands for one."""
        return id(item) in self._followed

    def __contains__(self, value: Any) -> bool:
        return id(value) in self._objects

    def is_wanted(self, kind: type, apart: frozenset[str]) -> bool:
        """Tell whether objects of a class, or dicts, have cells (see cells.py): ``apart`` names them."""
        return bool(apart) and _name(kind) in apart

    def check(
        self, place: Place, owner: Any, here: errors.Location | None, apart: frozenset[str], sites: Iterable[str] = ()
    ) -> None:
        """Check a place that is about to be written.

        Args:
            place: in an object.
            owner: the object.
            here: the line of the user's code.
            apart: what this capture tells apart.
            sites: where the object may have been made, as far as it is a dict that knows.

        Raises:
            NeedsApart: it is in one of these, and its class has no cells yet, or it is a dict that gets or loses keys.
            CaptureError: it is in one of these.
        """
        if owner not in self:
            return
        if not isinstance(owner, (list, tuple)) and not self.is_wanted(type(owner), apart):
            raise NeedsApart(_name(type(owner)))
        if isinstance(owner, dict):
            self.require_table(apart, sites)
        kind, name = type(owner).__name__, getattr(place, "name", getattr(place, "item", None))
        if name is None or place.read() is not MISSING:
            make = "{**item, key: value}" if isinstance(owner, dict) else "dataclasses.replace(item, field=value)"
            raise errors.CaptureError(
                f"a {kind} is changed that is an item of a list that changes length inside a captured block",
                here,
                fix=f"put a new one in its place: items[k] = {make}",
            )
        raise errors.CaptureError(
            f"a {kind} in a list that changes length in a block gets {name!r}, which it did not have when it was put in",
            here,
            fix=f"give it {name!r} where it is made, None for example, and set its value here",
        )

    def require_table(self, apart: frozenset[str], sites: Iterable[str] = ()) -> None:
        """Have a dict be one of the program, where it gets or loses keys.

        Args:
            apart: what this capture tells apart.
            sites: where it may have been made, as far as it knows.

        Raises:
            NeedsApart: the capture has to begin again.
        """
        for site in (*sites, *self._sites):
            if site not in apart:
                raise NeedsApart(site)

    def refuse_identity(self, value: Any, here: errors.Location | None, apart: frozenset[str]) -> NoReturn:
        """Refuse to tell whether two objects are one, of which one has a copy.

        Raises:
            NeedsApart: another capture can, where the class has cells.
            CaptureError: nobody knows.
        """
        self.require_cells(value, apart)
        raise errors.CaptureError(
            f"whether two names hold the same {type(value).__name__} out of a list that changes length is not known",
            here,
            fix="compare what is in them, or their positions in the list",
        )

    def require_cells(self, value: Any, apart: frozenset[str]) -> None:
        """Have the objects of a class have cells.

        Raises:
            NeedsApart: they have none yet.
        """
        if not isinstance(value, (list, tuple)) and not self.is_wanted(type(value), apart):
            raise NeedsApart(_name(type(value)))

    def follow(self, value: Any, *others: Any) -> None:
        """Note that a value stands for one of some others from now on."""
        if not (self._objects or self.hold_lists):
            return
        options, held = ({id(option): option for one in ones for option in options_of(one)} for ones in ((value,), others))
        given = [one for key, one in held.items() if key not in options]  # what is in both stands for itself
        for part in (option for key, option in options.items() if key not in held):
            parts = children(part)
            if parts is not None and any(other in self for other in given):
                self.add(part)
                self._followed.add(id(part))
            list_ = runtime_list(part)
            for other in given:
                another = runtime_list(unpack_list(other))
                if list_ is not None and another is not None and list_ is not another:
                    known = {(id(outer), id(item)) for outer, item in list_.places}
                    list_.places += [place for place in another.places if (id(place[0]), id(place[1])) not in known]
                result = children(other)
                if parts is not None and result is not None and len(parts[0]) == len(result[0]):
                    for one, two in zip(parts[0], result[0]):
                        self.follow(one, two)
