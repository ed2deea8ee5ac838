"""Context managers: methods that the user wrote are converted, and inference mode is recorded as the grad mode that it implies."""

from __future__ import annotations

import contextlib
import inspect
import threading
import types
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.environment.users_code import is_converted_module
from dy2st.capture.iterables.generators import UserGenerator
from dy2st.capture.library.settings import set_in_program
from dy2st.capture.library.surroundings import check_manager
from dy2st.capture.raising.unwinding import SendsOn, refused
from dy2st.capture.recording.patches import Patch
from dy2st.capture.session.session import Session, current
from dy2st.capture.values.signals import Signal, Unreachable
from dy2st.capture.values.symbolic import CAPTURE_VALUES, TaggedUnion, options_of
from dy2st.capture.writes.places import CellPlace, Place

_GENERATOR_MANAGER: Any = contextlib._GeneratorContextManager
_KEPT = "__dy2st_grad_mode__"
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_enter_inference, _exit_inference = torch.inference_mode.__enter__, torch.inference_mode.__exit__


def managed(manager: Any) -> Any:
    """Return a context manager as converted code uses it."""
    session = current()
    if session is not None and isinstance(manager, TaggedUnion):
        return _one_of(session, manager)
    kind = type(manager)
    if session is not None and kind is torch.autograd.profiler.record_function:
        return contextlib.nullcontext(manager)  # a label of the code of the capture, which does not run with the program
    if session is not None and kind in _LOCKS and id(manager) not in session.allocations.created:
        return Held(session, manager)
    if session is not None:
        check_manager(session, manager)
        _check_stack(session, manager)
    if session is not None and kind is _GENERATOR_MANAGER and session.tracker.source_of(manager) is None:
        return _of_generator(session, manager)
    if session is not None and _is_users(kind):
        return Managed(session, manager)
    return OfLibrary(session, manager) if session is not None and kind.__module__.startswith("torch.") else manager


class Held:
    """A lock around code that leaves nothing to the program to do: it is held at the capture, and what is read is guarded.

    Args:
        session: the capture.
        lock: it.
    """

    def __init__(self, session: Session, lock: Any) -> None:
        self._session, self._lock = session, lock

    def _done(self) -> tuple[Any, int]:
        """Return what tells whether the program has got something to do since."""
        return next(iter(reversed(self._session.builder.graph.nodes)), None), self._session.places.changes

    def __enter__(self) -> Any:
        self._before = self._done()
        return self._lock.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._lock.__exit__(kind, error, trace)
        if not isinstance(error, Signal) and self._before != self._done():
            check_manager(self._session, self._lock)


def _is_users(kind: type) -> bool:
    """Tell whether the methods of a class of context managers can be converted."""
    by_user = any(isinstance(getattr(kind, name, None), FunctionType) for name in ("__enter__", "__exit__"))
    is_library = kind.__module__.partition(".")[0] in ("torch", "contextlib", "dy2st")
    return by_user and (not is_library or is_converted_module(kind.__module__))


def _one_of(session: Session, union: TaggedUnion) -> Any:
    """Return a manager that is one of several: each method is called in the branch of each."""
    if not all(_is_users(type(option)) for option in union.options.values()):
        raise errors.CaptureError(
            "which context manager this is is known only when the program runs",
            session.here(),
            seen=repr(union),
            fix="write the with statement in each of the branches",
        )
    return Managed(session, union)


def enter_context(session: Session, stack: contextlib.ExitStack, manager: Any) -> Any:
    """Return ``stack.enter_context(manager)``."""
    return stack.enter_context(managed(manager))


def callback(session: Session, stack: contextlib.ExitStack, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Return ``stack.callback(function, *args, **kwargs)``."""
    stack.enter_context(Managed(session, _Callback(lambda: session.call(function, *args, **kwargs))))
    return function


class _Callback:
    """Calls a function at its end."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self._function()


def check_stack(session: Session, method: types.MethodType) -> None:
    """Check that a method of a stack of context managers is called in the block that has made the stack.

    Raises:
        CaptureError: a tensor decides what is on the stack.
    """
    stack = method.__self__
    if method.__name__ not in _CHANGING:
        return
    _check_stack(session, stack)
    allocated = session.allocations.allocated_at(stack)
    if not session.blocks.at_root and (allocated is None or allocated < session.blocks.region.start):
        raise errors.CaptureError(
            f"a tensor decides whether {method.__name__}() of an ExitStack is called",
            session.here(),
            fix="write a with statement in the branch or loop, or test the condition in what the stack calls",
        )


def _check_stack(session: Session, manager: Any) -> None:
    """Refuse a stack of context managers that was there before: what it calls is no part of the program."""
    if isinstance(manager, contextlib.ExitStack) and session.tracker.source_of(manager) is not None:
        raise errors.CaptureError(
            "an ExitStack that was made outside is used in a static function",
            session.here(),
            fix="make the stack inside, or keep what it has to call in a list",
        )


_CHANGING = frozenset(("enter_context", "callback", "push", "pop_all", "close"))
STACK_METHODS: dict[str, Callable[..., Any]] = {"enter_context": enter_context, "callback": callback}
"""What a stack of context managers does with code of the user's."""


def _of_generator(session: Session, manager: Any) -> Any:
    """Return what ``@contextlib.contextmanager`` has made: its generator runs converted, if it can be."""
    if not inspect.isgenerator(manager.gen) or inspect.getgeneratorstate(manager.gen) != inspect.GEN_CREATED:
        return manager
    result = session.call(manager.func, *manager.args, **manager.kwds)
    if not isinstance(result, UserGenerator):
        return OfLibrary(session, manager)
    manager.gen = result
    return Managed(session, manager)


class Managed:
    """Calls the methods of a manager as converted code calls any other."""

    def __init__(self, session: Session, manager: Any) -> None:
        self.session, self.manager, self.kind = session, manager, type(manager)
        self.attempt: Any = None
        """What an exception that it ends goes to (see departures.py)."""

    @property
    def cells(self) -> Sequence[Place]:
        """The variables that the body may write."""
        return () if self.attempt is None else self.attempt.cells

    def __enter__(self) -> Any:
        entered = self._call("__enter__")
        self.session.in_flight.pending.append(self)
        return entered

    def exit(self, *error: Any) -> Any:
        """Leave the manager."""
        return self._call("__exit__", *error)

    def _call(self, name: str, *args: Any) -> Any:
        def once(manager: Any) -> Any:
            return self.session.call(types.MethodType(getattr(type(manager), name), manager), *args)

        return self.session.over(self.manager, once) if isinstance(self.manager, TaggedUnion) else once(self.manager)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        self.session.in_flight.pending.remove(self)
        if isinstance(error, Unreachable):
            return False  # the blocks that raise have called it
        if isinstance(error, (Signal, errors.Dy2stError)):
            with contextlib.suppress(Signal, Exception):  # what it writes is noted, and undone with the block that is left
                self.exit(kind, error, traceback)
            return False
        return self.exit(kind, error, traceback)

    def catches(self, error: BaseException) -> bool:
        """Return the undecided answer: nobody knows before it is asked."""
        return False

    def sees(self, error: BaseException) -> bool:
        """Be asked about any."""
        return True

    def keeps(self, place: CellPlace) -> bool:
        """Tell whether what goes on behind it, where it ends an exception, may see a variable as it was."""
        return self.attempt is not None and self.attempt.keeps(place)

    def unwind(self, session: Session, error: BaseException) -> Any:
        """Leave the manager in the block that an exception leaves."""
        if self.kind is _GENERATOR_MANAGER:
            self.manager.gen.unwind(error)  # it has not ended where the program does not raise
            return None
        ends = self.exit(type(error), error, error.__traceback__)
        if all(option is None or option is False for option in options_of(ends)):
            return None
        if isinstance(ends, CAPTURE_VALUES) or (self.attempt is None and ends):
            raise refused(session, error, f"the context manager {_in_words(self.manager)}") from error
        return self.attempt if ends else None


class OfLibrary(SendsOn):
    """A manager of a library, whose methods run as they are; an exception that leaves it puts back the settings that it changes."""

    def __init__(self, session: Session, manager: Any) -> None:
        self.session, self.manager = session, manager
        self._before: dict[str, tuple[Any, ...]] = {}

    def __enter__(self) -> Any:
        changed = self.session.settings
        known = changed.values()
        entered = type(self.manager).__enter__(self.manager)
        self._before = {
            name: before for name, values in changed.values().items() if (before := known.get(name, changed.before[name])) != values
        }
        if self._before:
            self.session.in_flight.pending.append(self)
        return entered

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        if self._before:
            self.session.in_flight.pending.remove(self)
        return type(self.manager).__exit__(self.manager, kind, error, traceback)

    def unwind(self, session: Session, error: BaseException) -> None:
        """Put the settings back in the block that an exception leaves."""
        for name, values in self._before.items():
            set_in_program(session, name, values)


def _in_words(manager: Any) -> str:
    return " or ".join(type(option).__name__ for option in options_of(manager))


def _enter(mode: torch.inference_mode) -> None:
    if current() is None:
        return _enter_inference(mode)
    setattr(mode, _KEPT, torch.is_grad_enabled())
    torch._C._set_grad_enabled(not mode.mode)
    return None


def _exit(mode: torch.inference_mode, *error: Any) -> None:
    if not hasattr(mode, _KEPT):
        return _exit_inference(mode, *error)
    torch._C._set_grad_enabled(mode.__dict__.pop(_KEPT))
    return None


def _record() -> None:
    torch.inference_mode.__enter__, torch.inference_mode.__exit__ = _enter, _exit  # type: ignore[method-assign]


def _record_no_more() -> None:
    torch.inference_mode.__enter__ = _enter_inference  # type: ignore[method-assign]
    torch.inference_mode.__exit__ = _exit_inference  # type: ignore[method-assign]


INFERENCE_MODE = Patch(_record, _record_no_more)
"""``torch.inference_mode`` in a capture switches the grad mode: tensors of the program are ordinary ones."""
