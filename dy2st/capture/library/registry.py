"""Which builtins and library functions mean something for values known only at run time."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NoReturn

from dy2st import errors
from dy2st.capture.session.session import Session

Handler = Callable[..., Any]
_HANDLERS: dict[Any, Handler] = {}
_MADE: dict[CodeType, Handler] = {}
_TAKES_CHOICES: set[Handler] = set()


def handler_of(function: Any) -> Handler | None:
    """Return the handler of a builtin or library function; ``None`` for any other."""
    if isinstance(type(function).__hash__, FunctionType):
        return None  # an object of the user's, whose code is asked by nobody
    try:
        known = _HANDLERS.get(_original(function))
    except TypeError:
        return None
    if known is None and isinstance(function, FunctionType) and function.__code__ in _MADE:
        return _with_function(_MADE[function.__code__], function)
    return known


def _with_function(handler: Handler, function: Any) -> Handler:
    return lambda session, *args, **kwargs: handler(session, function, *args, **kwargs)


def handles_made_by(example: Any) -> Callable[[Handler], Handler]:
    """Register the handler of all functions that a library makes like this one; it gets the function before the arguments."""

    def register(handler: Handler) -> Handler:
        _MADE[example.__code__] = handler
        return handler

    return register


def takes_unions(handler: Handler) -> bool:
    """Tell whether a handler knows what to do with a value that is one of several."""
    return handler in _TAKES_CHOICES


def handles(*functions: Any, takes_unions: bool = False) -> Callable[[Handler], Handler]:
    """Register the handler of some functions.

    Args:
        functions: the functions it stands for.
        takes_unions: whether it knows what to do with a :class:`~dy2st.capture.values.symbolic.TaggedUnion`; others see
        each option.

    Returns:
        A decorator.
    """

    def register(handler: Handler) -> Handler:
        for function in functions:
            _HANDLERS[_original(function)] = handler
        if takes_unions:
            _TAKES_CHOICES.add(handler)
        return handler

    return register


def refuses(*functions: Any, message: str, fix: str) -> None:
    """Register functions that cannot be captured.

    Args:
        functions: each call of one is an error.
        message, fix: what the error says.
    """

    @handles(*functions)
    def refuse(session: Session, *args: Any, **kwargs: Any) -> NoReturn:
        raise errors.CaptureError(message, session.here(), fix=fix)


def _original(function: Any) -> Any:
    """Return a function as it was before torch wrapped it, which it does to some when its compiler is imported."""
    if not isinstance(function, FunctionType) or function.__module__ != "torch.random":
        return function
    return getattr(function, "__wrapped__", function)
