"""What of the user's code an exception passes on its way out: handlers, ``finally`` clauses, context managers.

Inside of a block of the program Python itself sends an exception through them. Those around the block are behind it when the
program raises, so the block does what they would do before it raises: the ``finally`` clauses and context managers are captured
once more, at its end. A handler that would catch the exception cannot be: where it goes on is outside of the block.
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from dy2st import errors
from dy2st.capture.diagnostics.attribution import is_users
from dy2st.capture.diagnostics.translation import in_users_words, user_line
from dy2st.capture.session.session import Session, current, need
from dy2st.capture.values.signals import Refused, Signal
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st.capture.writes.places import CellPlace, cells_of

ACTS_FOR_USER = False


def unwound(session: Session, error: BaseException) -> tuple[BaseException, Any]:
    """Do in the block that an exception leaves what happens on its way out.

    Returns:
        The exception that comes out; and what it ends in (see departures.py), or ``None``.

    Raises:
        Refused: something would catch it that is no function.
    """
    pending = session.in_flight.pending
    try:
        for position in reversed(range(len(pending))):
            session.in_flight.pending = pending[:position]
            error, taken = passed(session, pending[position], error)
            if taken is not None:
                return error, taken
    finally:
        session.in_flight.pending = pending
    return error, None


def passed(session: Session, step: Any, error: BaseException) -> tuple[BaseException, Any]:
    """Return what comes out of one handler, ``finally`` clause or context manager that an exception passes.

    And whether it ends in it.
    """
    try:
        taken = _while_handled(error, lambda: step.unwind(session, error))
    except Exception as other:
        if not is_users(session, other):
            raise
        other.__context__ = error
        return other, None
    return error, taken


CHAIN = ("__cause__", "__context__", "__suppress_context__")
"""What an exception has of those that it was raised from, or while they were handled."""


def _while_handled(error: BaseException, act: Callable[[], Any]) -> Any:
    """Do something while an exception is handled: it is the context of those that are raised there, in blocks too."""
    before = {name: getattr(error, name) for name in CHAIN}
    traceback = error.__traceback__
    try:
        raise error
    except BaseException:
        error.__traceback__ = traceback
        for name in CHAIN:  # the last one, since a cause sets it
            setattr(error, name, before[name])
        return act()


def refused(session: Session, error: BaseException, what: str) -> Refused:
    """Return the refusal of a program in which something outside of a block would catch what the block raises."""
    kind = type(error).__name__
    return Refused(
        errors.CaptureError(
            f"a {kind} that is raised where a tensor decides would have to be caught by {what} outside",
            user_line(session, error) or session.here(),
            seen=f"{kind}: {error}" if error.args else kind,
            fix="put the try statement into the branch, or test the condition instead of raising",
        )
    )


class Handlers:
    """The handlers of one ``try`` statement that the captured code is in.

    Args:
        kinds: gives what each of them catches; ``None`` for everything.
        in_groups: whether they take exceptions out of groups.
    """

    def __init__(self, kinds: Callable[[], tuple[Any, ...]], in_groups: bool = False) -> None:
        self._kinds, self._in_groups = kinds, in_groups

    def catches(self, error: BaseException) -> bool:
        """Tell whether one of them is for an exception."""
        if self._in_groups:
            group = vars(builtins)["BaseExceptionGroup"]("", [error])
            return any(group.subgroup(kind) is not None for kind in self._kinds())
        return any(kind is None or matches(error, kind) for kind in self._kinds())

    def sees(self, error: BaseException) -> bool:
        """Tell whether an exception on its way does something here."""
        return self.catches(error)

    def keeps(self, place: CellPlace) -> bool:
        """Return that nothing goes on behind it where an exception has passed."""
        return False

    def unwind(self, session: Session, error: BaseException) -> None:
        """Let an exception pass that none of them is for."""
        if self.catches(error):
            raise refused(session, error, "an except clause") from error


class SendsOn:
    """What does something for each exception that passes, and sends it on."""

    def catches(self, error: BaseException) -> bool:
        """Send every exception on."""
        return False

    def sees(self, error: BaseException) -> bool:
        """Run for any."""
        return True

    def keeps(self, place: CellPlace) -> bool:
        """Return that nothing goes on behind it where an exception has passed."""
        return False


class Final(SendsOn):
    """The ``finally`` clause of one ``try`` statement that the captured code is in.

    Args:
        function: runs it.
        session: the capture.
    """

    def __init__(self, function: FunctionType, session: Session) -> None:
        self._function, self._frame = function, session.frames.open[-1]

    def unwind(self, session: Session, error: BaseException) -> None:
        """Run it in the block that is recorded now."""
        for place in cells_of(self._function):
            session.blocks.region.undo_log.note(place)
        session.frames.open.append(self._frame)
        try:
            self._function()
        finally:
            session.frames.open.pop()


@contextlib.contextmanager
def handled(kinds: Callable[[], tuple[Any, ...]], in_groups: bool = False) -> Iterator[None]:
    """Open a scope in which the user's code catches exceptions of some kinds."""
    session = current()
    if session is None:
        yield
        return
    with session.in_flight.around(Handlers(kinds, in_groups)):
        try:
            yield
        except Exception as error:
            check_handled(session, error)
            raise


def check_handled(session: Session, error: BaseException) -> None:
    """Let what the user's handlers are not meant for go past them.

    Raises:
        Signal: it is on its way out.
    """
    before = outstanding(error) or error
    if isinstance(before, Signal):
        raise before from None
    if isinstance(before, Exception) and not is_users(session, before):
        raise Refused(before) from before.__cause__
    error.args = tuple(map(in_users_words, error.args))  # a handler may read them


def matches(error: BaseException, kind: Any) -> bool:
    """Tell whether an ``except`` clause for a kind, or a tuple of kinds, takes an exception."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if any(isinstance(one, TaggedUnion) for one in kinds):
        raise errors.CaptureError(
            "a tensor decides which exceptions an except clause is for",
            need().here(),
            fix="name them all, and test which it is in the clause: if isinstance(error, kind): …; raise",
        )
    if not all(isinstance(one, type) and issubclass(one, BaseException) for one in kinds):
        raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    return issubclass(type(error), kinds)


def outstanding(error: BaseException) -> Signal | errors.Dy2stError | None:
    """Return the error or signal of the capture that was on its way out when a ``finally`` clause raised a user's exception
    instead.

    What such a clause does then is nothing that the program does: the names that it reads may not be bound yet.
    """
    before = error.__context__
    while before is not None and not isinstance(before, (Signal, errors.Dy2stError)):
        before = before.__context__
    return before


def finalized(function: FunctionType) -> contextlib.AbstractContextManager[Any]:
    """Return a scope with a ``finally`` clause, which ``function`` runs where an exception leaves a block of the program inside."""
    session = current()
    return contextlib.nullcontext() if session is None else session.in_flight.around(Final(function, session))


class Suppress(contextlib.suppress):
    """``contextlib.suppress`` of converted code."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        super().__init__(*kinds)
        self.kinds = kinds

    def __enter__(self) -> None:
        self._scope = handled(lambda: self.kinds)
        self._scope.__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        self._scope.__exit__(kind, error, traceback)
        return super().__exit__(kind, error, traceback)
