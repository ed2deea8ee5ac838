"""Exceptions of the user's code inside captured blocks: raised when the program gets there.

Inside of its block an exception travels as Python sends it, through the user's handlers and ``finally`` clauses. Where it leaves
the block, an operation that raises it is recorded, and what would have followed in the block never runs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.diagnostics.attribution import is_users
from dy2st.capture.diagnostics.translation import in_users_words, user_line
from dy2st.capture.raising import departures
from dy2st.capture.raising.unwinding import CHAIN, outstanding, unwound
from dy2st.capture.recording.block import OutOfScopeError
from dy2st.capture.session.session import Session, current
from dy2st.capture.texts import wording
from dy2st.capture.values.signals import Signal, Unreachable
from dy2st.capture.values.storage import MISSING
from dy2st.capture.values.symbolic import Stale, TaggedUnion, Undefined
from dy2st.capture.writes.places import AttributePlace
from dy2st_runtime.ir.program import Location
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.raising import Recipe, copied

ACTS_FOR_USER = False

_MAX_CHAIN = 8


def raised(error: Any, *cause: Any) -> Any:
    """Return what a ``raise`` statement raises during capture: the exception itself, noted as the user's own."""
    session = current()
    if session is None:
        return error
    if isinstance(error, TaggedUnion):
        session.over(error, lambda option: _raise(option, *cause))
    if isinstance(error, type) and issubclass(error, BaseException):
        error = session.call(error)
    if not isinstance(error, BaseException):
        error = TypeError("exceptions must derive from BaseException")
    _raise_each(session, error, *cause)
    session.in_flight.raised.append(error)
    before = {name: getattr(error, name) for name in CHAIN}
    session.in_flight.chains.append((error, session.allocations.now(), before))
    return error


def _raise_each(session: Session, error: BaseException, *cause: Any) -> None:
    """Note that of an exception with an attribute that is one of several, raise one with each of them."""
    for name, value in vars(error).items():
        if isinstance(value, TaggedUnion):
            options = {tag: MISSING if isinstance(option, Undefined) else option for tag, option in value.options.items()}
            session.over(TaggedUnion(session, value.tag, options), functools.partial(_raise_with, session, error, name, cause))


def _raise_with(session: Session, error: BaseException, name: str, cause: tuple[Any, ...], value: Any) -> None:
    place = AttributePlace(error, name)
    session.places.write(place)
    place.write(value)
    _raise(error, *cause)


def raised_from(error: Any, cause: Any) -> Any:
    """Return what ``raise error from cause`` raises, with its cause: one of several where a tensor decides on it."""
    session = current()
    if isinstance(error, TaggedUnion):
        error.session.over(error, lambda option: _raise(option, cause))
    if isinstance(cause, TaggedUnion):
        cause.session.over(cause, lambda option: _raise(error, option))
    if isinstance(cause, Undefined):
        cause.fail()
    if isinstance(cause, type) and issubclass(cause, BaseException):
        cause = cause() if session is None else session.call(cause)
    result = raised(error() if session is None and isinstance(error, type) else error, cause)
    if cause is not None and not isinstance(cause, BaseException):
        return raised(TypeError("exception causes must derive from BaseException"))
    if isinstance(result, BaseException):
        result.__cause__ = cause
    return result


def _raise(error: Any, *cause: Any) -> None:
    raise raised_from(error, *cause) if cause else raised(error)


def records(session: Session, error: BaseException) -> bool:
    """Record that the block raises an exception which leaves it now, or that one is on its way to a handler.

    Returns:
        False if this is no exception of the user's program, but one of the capture.

    Raises:
        Refused: something of the user's outside of the block would catch it, and nothing can be on its way there.
        Signal, Dy2stError: it was raised on the way out of this one.
    """
    before = outstanding(error)
    if isinstance(before, Unreachable):
        return True  # a clause has raised after all ways had ended, where the program never gets
    if before is not None:
        raise before
    if isinstance(error, Signal) or not is_users(session, error):
        return False
    if session.blocks.at_root and not wording.has_runtime_parts(session, error.args) and not _acts_before(session):
        return False
    location = user_line(session, error) or session.here()
    try:
        outcome, attempt = unwound(session, error)
    except Unreachable:
        return True  # a finally clause has recorded another one
    if attempt is not None:
        values: list[Any] = []
        recipe = _recipe(session, outcome, values, _MAX_CHAIN)
        recipe = dataclasses.replace(recipe, about=_about(session, outcome, attempt.depth))
        departures.leave(session, attempt, outcome, recipe, values)
        return True
    if outcome is not error:
        error, location = outcome, user_line(session, outcome) or location
    session.checks.emit()
    behind = None if error.__context__ is None else handled(session, error.__context__)
    place = None if location is None else Location(location.file, location.line, location.function, behind=behind)
    with session.position.located(place):
        session.in_flight.before_raise()
        if session.in_flight.failed is not None and session.in_flight.failed[0] is error:
            _record_failing(session, error, *session.in_flight.failed[1:])
        else:
            values = []
            make = maker(session, error, values)
            session.builder.call(control.raise_, (make, *_given(session, error, values)))
    _unchain(session, error)
    return True


def _given(session: Session, error: BaseException, values: list[Any]) -> list[Any]:
    """Return what an exception is made with.

    Raises:
        CaptureError: a block that has ended has made some of it.
    """
    try:
        return [wording.node_value(session, value) for value in values]
    except OutOfScopeError as missing:
        raise errors.CaptureError(
            f"a {type(error).__name__} with values that are known only at run time is raised outside of the block that made it",
            session.here(),
            fix="raise it in the except clause, or keep the text or the values and make the exception where it is raised",
        ) from missing


def handled(session: Session, error: BaseException) -> Callable[[], BaseException] | None:
    """Return what makes an exception that is being handled: one of the user's, of which nothing is known at run time only."""
    if not any(error is known for known in session.in_flight.raised):
        return None
    values: list[Any] = []
    make = maker(session, error, values)
    return None if wording.has_runtime_parts(session, tuple(values)) else functools.partial(make, *values)


def _unchain(session: Session, error: BaseException) -> None:
    """Note that an exception has been raised in a block: another block may raise the same object, which is behind nothing there."""
    for position, (known, time, before) in reversed([*enumerate(session.in_flight.chains)]):
        if known is error and time > session.blocks.region.start:
            for name in CHAIN:  # the last one, since a cause sets it
                setattr(error, name, before[name])
            del session.in_flight.chains[position]
            return


def _acts_before(session: Session) -> bool:
    """Tell whether the program does something before it fails that a caller can see, or may fail earlier in another way."""
    targets = [node.target for node in session.builder.graph.nodes if node.op == "call_function"]
    controls = (target.effect for target in targets if isinstance(target, control.Control))
    operators = [target for target in targets if isinstance(target, torch._ops.OpOverload)]
    changes = any(target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags for target in operators)
    return changes or any(controls) or session.in_flight.has_written()


def _record_failing(session: Session, error: BaseException, operation: Any, args: Any, kwargs: Any) -> None:
    """Note that an operation fails on abstract values: it is recorded, for its own words when it fails on tensors."""
    node = session.builder.call(operation, args, kwargs)
    message = f"{operation} failed when the program was captured: {error}"
    session.builder.call_raw(control.raise_, (RuntimeError, message, node))


def maker(session: Session, error: BaseException, values: list[Any]) -> Callable[..., BaseException]:
    """Return what makes an exception like this one from the values that it adds to ``values``.

    The class, if that is all it takes.
    """
    recipe = _recipe(session, error, values, _MAX_CHAIN)
    own_init = hasattr(type(error).__init__, "__code__")
    special = own_init or recipe.names or recipe.fixed or recipe.links or recipe.suppress or recipe.itself or recipe.about
    return recipe if special else recipe.kind


def _recipe(session: Session, error: BaseException, values: list[Any], depth: int) -> Recipe:
    args = error.__reduce__()[1] if isinstance(error, OSError) else error.args  # its args leave out the name of the file
    args = tuple(map(in_users_words, args))
    known = depth < _MAX_CHAIN and not wording.has_runtime_parts(session, args)
    values += () if known else args
    attributes = vars(error)
    runtime = [name for name, value in attributes.items() if wording.has_runtime_parts(session, value)]
    values += [attributes[name] for name in runtime]
    fixed = {name: value for name, value in attributes.items() if name not in runtime}
    own = [name for name, value in fixed.items() if session.tracker.source_of(value) is None]
    shares = error.__cause__ is error.__context__ is not None
    names = ("__cause__", "__context__")[: 1 if shares else 2] if depth else ()
    links = [(name, getattr(error, name)) for name in names]
    linked = [
        (name, link) for name, link in links if isinstance(link, Exception) and id(link) not in session.in_flight.handled_around
    ]
    return Recipe(
        kind=type(error),
        count=0 if known else len(args),
        args=args if known else (),
        names=tuple(runtime),
        fixed={name: copied(value) if name in own else value for name, value in fixed.items()},
        copies=frozenset(own),
        links=tuple((name, _recipe(session, link, values, depth - 1)) for name, link in linked),
        suppress=error.__suppress_context__,
        shares=shares and bool(linked),
        about=_about(session, error, None),
        itself=error if from_outside(session, error) else None,
    )


_ABOUT = ("name", "obj")


def _about(session: Session, error: BaseException, depth: int | None) -> dict[str, Any]:
    """Return what Python keeps in an exception outside of its attributes.

    Args:
        session: the capture.
        error: the exception.
        depth: the blocks above this one are left by it; ``None`` for all, when nothing that the call makes goes along.
    """
    if not isinstance(error, (AttributeError, NameError)):
        return {}
    results = {name: value for name in _ABOUT if (value := getattr(error, name, None)) is not None}
    obj = results.pop("obj", None)
    if obj is None:
        return results
    given = not isinstance(obj, torch.Tensor) and session.tracker.source_of(obj) is not None
    if given or (depth is not None and session.blocks.is_older(obj, depth)):
        results["obj"] = obj
    elif depth is not None:
        message = "the object without the attribute, which an AttributeError has as its obj, is not known where it is caught"
        results["obj"] = Stale(message=message, fix="keep the object in a variable")
    return results


def from_outside(session: Session, error: BaseException) -> bool:
    """Tell whether an exception was there before the call: it is no other one where it is caught.

    Raises:
        CaptureError: it has got another behind it here, which it keeps.
    """
    source = session.tracker.source_of(error)
    if source is None:
        return False
    before = next((before for known, _, before in session.in_flight.chains if known is error), None)
    if before is not None and any(getattr(error, name) is not before[name] for name in CHAIN):
        raise errors.CaptureError(
            f"a {type(error).__name__} from outside is raised where a tensor decides, and gets a cause or context there",
            session.here(),
            fix="make a new exception where it is raised",
        )
    session.tracker.guards.same(source, error)
    return True
