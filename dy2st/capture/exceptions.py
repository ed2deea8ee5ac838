"""Exceptions of the user's code inside captured blocks: raised when the program gets there.

Inside of its block an exception travels as Python sends it, through the user's handlers and ``finally`` clauses. Where it leaves
the block, an operation that raises it is recorded, and what would have followed in the block never runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st import errors
from dy2st.capture import text
from dy2st.capture.blame import is_users
from dy2st.capture.failures import in_users_words, user_line
from dy2st.capture.regions import Refused, Signal
from dy2st.capture.session import Session, current
from dy2st.capture.values import Choice
from dy2st_runtime import control
from dy2st_runtime.program import Location
from dy2st_runtime.raising import Recipe

_MAX_CHAIN = 8


def raised(error: Any) -> Any:
    """What a ``raise`` statement raises during capture: the exception itself, noted as the user's own."""
    session = current()
    if session is None:
        return error
    if isinstance(error, Choice):
        session.over(error, _raise)
    if isinstance(error, type) and issubclass(error, BaseException):
        error = session.call(error)
    if isinstance(error, BaseException):
        session.raised.append(error)
    return error


def _raise(error: Any) -> None:
    raise raised(error)


def records(session: Session, error: BaseException) -> bool:
    """Record that the block raises an exception which leaves it now.

    Returns:
        False if this is no exception of the user's program, but one of the capture.

    Raises:
        Refused: a handler of the user's outside of the block would catch it.
    """
    if isinstance(error, Signal) or not is_users(session, error):
        return False
    if session.at_root and not text.has_runtime_parts(session, error.args) and not _acts_before(session):
        return False
    _check_not_caught(session, error)
    session.emit_checks()
    location = user_line(session, error) or session.here()
    place = None if location is None else Location(location.file, location.line, location.function)
    with session.located(place):
        session.before_raise()
        if session.failed is not None and session.failed[0] is error:
            _record_failing(session, error, *session.failed[1:])
        else:
            values: list[Any] = []
            maker = _maker(session, error, values)
            session.builder.call(control.raise_, (maker, *(text.value(session, value) for value in values)))
    return True


def _acts_before(session: Session) -> bool:
    """Whether the program does something before it fails that a caller can see, or may fail earlier in another way."""
    targets = [node.target for node in session.builder.graph.nodes if node.op == "call_function"]
    controls = (target.effect for target in targets if isinstance(target, control.Control))
    operators = [target for target in targets if isinstance(target, torch._ops.OpOverload)]
    changes = any(target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags for target in operators)
    return changes or any(controls) or session.has_written()


def _record_failing(session: Session, error: BaseException, operation: Any, args: Any, kwargs: Any) -> None:
    """An operation fails on stand-ins: it is recorded, for its own words when it fails on tensors."""
    node = session.builder.call(operation, args, kwargs)
    message = f"{operation} failed when the program was captured: {error}"
    session.builder.call_raw(control.raise_, (RuntimeError, message, node))


def _maker(session: Session, error: BaseException, values: list[Any]) -> Callable[..., BaseException]:
    """What makes an exception like this one from the values that it adds to ``values``: the class, if that is all it takes."""
    recipe = _recipe(session, error, values, _MAX_CHAIN)
    own_init = hasattr(type(error).__init__, "__code__")
    special = own_init or recipe.names or recipe.fixed or recipe.links or recipe.suppress
    return recipe if special else recipe.kind


def _recipe(session: Session, error: BaseException, values: list[Any], depth: int) -> Recipe:
    args = error.__reduce__()[1] if isinstance(error, OSError) else error.args  # its args leave out the name of the file
    args = tuple(map(in_users_words, args))
    known = depth < _MAX_CHAIN and not text.has_runtime_parts(session, args)
    values += () if known else args
    attributes = vars(error)
    runtime = [name for name, value in attributes.items() if text.has_runtime_parts(session, value)]
    values += [attributes[name] for name in runtime]
    fixed = {name: value for name, value in attributes.items() if name not in runtime}
    names = ("__cause__", "__context__") if depth else ()
    linked = [(name, getattr(error, name)) for name in names if isinstance(getattr(error, name), Exception)]
    return Recipe(
        kind=type(error),
        count=0 if known else len(args),
        args=args if known else (),
        names=tuple(runtime),
        fixed=fixed,
        links=tuple((name, _recipe(session, link, values, depth - 1)) for name, link in linked),
        suppress=error.__suppress_context__,
    )


def _check_not_caught(session: Session, error: BaseException) -> None:
    """An error leaves a block that may not be entered at run time: no handler outside of it may take it for granted."""
    if not any(handler.catches(error) for handler in session.handlers):
        return
    kind = type(error).__name__
    refusal = errors.CaptureError(
        f"a {kind} that is raised where a tensor decides would have to be caught by an except clause outside",
        user_line(session, error) or session.here(),
        seen=f"{kind}: {error}" if error.args else kind,
        fix="put the try statement into the branch, or test the condition instead of raising",
    )
    raise Refused(refusal) from error


class Handler:
    """The handlers of one ``try`` statement that the captured code is in.

    Args:
        kinds: gives what each of them catches; ``None`` for everything.
    """

    def __init__(self, kinds: Callable[[], tuple[Any, ...]]) -> None:
        self._kinds = kinds

    def catches(self, error: BaseException) -> bool:
        """Whether one of them is for an exception."""
        return any(kind is None or isinstance(error, kind) for kind in self._kinds())


@contextlib.contextmanager
def handled(kinds: Callable[[], tuple[Any, ...]]) -> Iterator[None]:
    """A scope in which the user's code catches exceptions of some kinds."""
    session = current()
    if session is None:
        yield
        return
    session.handlers.append(Handler(kinds))
    try:
        yield
    except Exception as error:
        if not is_users(session, error):
            raise Refused(error) from error.__cause__
        raise
    finally:
        session.handlers.pop()


class Suppress(contextlib.suppress):
    """``contextlib.suppress`` of converted code."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        super().__init__(*kinds)
        self._kinds = kinds

    def __enter__(self) -> None:
        self._scope = handled(lambda: self._kinds)
        self._scope.__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        self._scope.__exit__(kind, error, traceback)
        return super().__exit__(kind, error, traceback)
