"""Operations on a value that is one of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.session.session import Session, need
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import TaggedUnion, Undefined
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import scalars


def over(union: TaggedUnion, function: Callable[[Any], Any]) -> Any:
    """Do something with a tagged union: an ``if`` over its tag, with the thing done to each option in its branch.

    An option for which Python raises (``None + 1``) raises when the program gets there.
    """
    session = need()
    rest = bound(union)
    if not isinstance(rest, TaggedUnion):
        return function(rest)
    tags = list(rest.options)

    def pick(position: int) -> Any:
        option = rest.options[tags[position]]
        if position == len(tags) - 1:
            return function(option)
        test = rest.tag == tags[position]
        known = session.shapes.known(test)
        if known is not None:
            return function(option) if known else pick(position + 1)
        return capture_if_exp(test, lambda: function(option), lambda: pick(position + 1))

    return pick(0)


def bound(union: TaggedUnion, **about: Any) -> Any:
    """Return a tagged union without the option of being unbound, with a check that it is not.

    ``about`` as in :meth:`Undefined.error`.
    """
    for tag, option in union.options.items():
        if isinstance(option, Undefined):
            check(need(), union.tag != tag, option.kind, *option.arguments, about=about)
            return union.without_unbound()
    return union


def narrowed(session: Session, value: Any) -> Any:
    """Return a value without the options that what is known here excludes: a function that keeps it is called elsewhere, too."""
    if not isinstance(value, TaggedUnion) or any(isinstance(option, Undefined) for option in value.options.values()):
        return value
    left = {tag: option for tag, option in value.options.items() if session.shapes.known(value.tag == tag) is not False}
    if len(left) == len(value.options) or not left:
        return value
    return next(iter(left.values())) if len(left) == 1 else TaggedUnion(value.session, value.tag, left)


def certain(value: Any, **about: Any) -> Any:
    """Return an item or attribute that is read: one that is not there raises what Python raises."""
    if isinstance(value, Undefined):
        error = value.error(**about)
        need().in_flight.raised.append(error)
        raise error
    return bound(value, **about) if isinstance(value, TaggedUnion) else value


def presence(value: Any) -> Any:
    """Tell whether something that may be :class:`Undefined` is there: a Python bool, or a symbolic one."""
    if not isinstance(value, TaggedUnion):
        return not isinstance(value, Undefined)
    tags = [tag for tag, option in value.options.items() if isinstance(option, Undefined)]
    if not tags:
        return True
    result = value.tag != tags[0]
    known = need().shapes.known(result)
    return result if known is None else known


def as_number(session: Session, test: Any) -> Any:
    """Return 1 where a test holds, else 0: a Python int, or a symbolic one."""
    return session.number(scalars.to_int, (test,), "int") if is_symbolic(test) else int(test)


def is_option(union: TaggedUnion, holds: Callable[[Any], bool]) -> Any:
    """Tell whether the value is one of the options for which ``holds``: a Python bool, or a symbolic one."""
    session = need()
    union = bound(union)
    if not isinstance(union, TaggedUnion):
        return holds(union)
    wanted = [tag for tag, option in union.options.items() if holds(option)]
    if len(wanted) in (0, len(union.options)):
        return bool(wanted)
    result: Any = union.tag == wanted[0]
    for tag in wanted[1:]:
        result = session.number(scalars.logical_or, (result, union.tag == tag), "bool")
    known = session.shapes.known(result)
    return result if known is None else known


def where_there(value: Any, there: Any, missing: Any) -> Any:
    """Return one of two values: whether a third is there decides."""
    present = presence(value)
    if isinstance(present, bool):
        return there if present else missing
    return capture_if_exp(present, lambda: there, lambda: missing)


def check_answered(session: Session, value: Any, method: Any) -> None:
    """Raise CaptureError where a tensor decides whether an operator's method is for its operand: Python asks another one then."""
    if isinstance(value, TaggedUnion) and any(option is NotImplemented for option in value.options.values()):
        raise CaptureError(
            f"{method.__qualname__} gives NotImplemented where a tensor decides",
            session.here(),
            fix="decide by the classes of the operands whether the method is for them",
        )


def or_else(value: Any, other: Any) -> Any:
    """Return the value of a name that may be unbound: another one where it is."""
    if isinstance(value, TaggedUnion):
        options = {tag: other if isinstance(option, Undefined) else option for tag, option in value.options.items()}
        return TaggedUnion(value.session, value.tag, options)
    return other if isinstance(value, Undefined) else value
