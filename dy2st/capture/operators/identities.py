"""``id(value)`` and ``hash(tensor)`` of what each call makes: one number during a capture, and another at each call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import torch
from torch.utils._pytree import tree_leaves

from dy2st import errors
from dy2st.capture.branching import tensor_keys
from dy2st.capture.looping.truth import logical_not
from dy2st.capture.operators.comparisons import is_
from dy2st.capture.session.session import Session, current
from dy2st.capture.values.symbolic import OfEachCall, TaggedUnion


class Identity(OfEachCall):
    """The id of an abstract value, or of what the function makes: for comparisons and keys, and nothing that the call leaves."""

    value: Any

    def __eq__(self, other: object) -> Any:
        session = current()
        if isinstance(other, Identity) and session is not None and not int.__eq__(self, other):
            return is_(self.value, other.value)
        if type(other) is int and session is not None:
            known = session.outside.ids.get(other)
            if known is not None:
                return is_(self.value, known)
            if _may_be_any(session, self.value):
                self.fail()
        return int.__eq__(self, other)

    def __ne__(self, other: object) -> Any:
        return logical_not(self == other)

    def fail(self, *args: Any) -> NoReturn:
        """Refuse to compute with it, or to tell it."""
        session = current()
        raise errors.CaptureError(
            "this computes with the id or hash of a tensor or object, which is another one at each call, or writes it out",
            None if session is None else session.here(),
            fix="compare it with == or use it as a key, or give the objects names or numbers",
        )

    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __invert__ = __int__ = __float__ = __str__ = __format__ = fail
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __divmod__ = __pow__ = fail
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rdivmod__ = __rpow__ = fail
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = fail
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = fail

    def __hash__(self) -> int:
        session = current()
        if session is not None:
            check_hashed(session, (self.value,))
        return int.__hash__(self)


def check_hashed(session: Session, values: Iterable[Any]) -> None:
    """Check what is a key by its id, or by a hash that is made of it.

    Raises:
        CaptureError: only the program knows which object it is.
    """
    if any(_may_be_any(session, value) for value in values):
        raise errors.CaptureError(
            "the id of one of several objects is used as a key",
            session.here(),
            fix="compare with is, or give the objects names or numbers and use these as keys",
        )


def _may_be_any(session: Session, value: Any) -> bool:
    """Tell whether only the program knows which object it is."""
    if isinstance(value, torch.Tensor):
        return tensor_keys.may_be_any(session, value)
    return isinstance(value, TaggedUnion) or value in session.places.copies


def of(session: Session, value: Any) -> Any:
    """Return the id of a value."""
    if isinstance(value, TaggedUnion):
        return _of_union(session, value)
    known = session.outside.real(value) if isinstance(value, torch.Tensor) else value
    source = session.tracker.source_of(known)
    is_of_call = (
        session.fakes.is_abstract(known)
        if isinstance(known, torch.Tensor)
        else source is None and (id(known) in session.allocations.created or known in session.places.copies)
    )
    if not is_of_call:
        if source is not None:
            session.tracker.guards.same(source, known)
        session.outside.ids[id(known)] = known
        return id(known)
    return _identity(value)


def _of_union(session: Session, value: TaggedUnion) -> Any:
    """Return the id of one of several: a number that the program knows, if all of them are from outside."""
    if not any(isinstance(of(session, option), Identity) for option in value.options.values()):
        return session.over(value, lambda option: of(session, option))
    return _identity(value)


def _identity(value: Any) -> Identity:
    identity = Identity(id(value))
    identity.value = value
    return identity


def check_left(session: Session, values: Iterable[Any]) -> None:
    """Refuse to leave ids that each call has others of.

    Raises:
        CaptureError: they are among some values, or in tuples there.
    """
    if any(isinstance(value, Identity) for value in tree_leaves(list(values))):
        raise errors.CaptureError(
            f"{session.name} leaves the id or hash of a tensor or object, which is another one at each call",
            session.here(),
            fix="keep the tensor or object itself, or a name or number for it",
        )
