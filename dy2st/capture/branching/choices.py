"""Operations on a value that is one of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dy2st.capture.branching.assertions import check
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.session.session import Session, need
from dy2st.capture.values.symbolic import Choice, Undefined
from dy2st.errors import CaptureError
from dy2st_runtime.primitives import scalars


def over(choice: Choice, function: Callable[[Any], Any]) -> Any:
    """Do something with a choice: an ``if`` over its tag, with the thing done to each option in its branch.

    An option for which Python raises (``None + 1``) raises when the program gets there.
    """
    session = need()
    rest = bound(choice)
    if not isinstance(rest, Choice):
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


def bound(choice: Choice, **about: Any) -> Any:
    """A choice without the option of being unbound, with a check that it is not; ``about`` as in :meth:`Undefined.error`."""
    for tag, option in choice.options.items():
        if isinstance(option, Undefined):
            check(need(), choice.tag != tag, option.kind, *option.arguments, about=about)
            return choice.without_unbound()
    return choice


def certain(value: Any, **about: Any) -> Any:
    """An item or attribute that is read: one that is not there raises what Python raises."""
    if isinstance(value, Undefined):
        error = value.error(**about)
        need().raised.append(error)
        raise error
    return bound(value, **about) if isinstance(value, Choice) else value


def presence(value: Any) -> Any:
    """Whether something that may be :class:`Undefined` is there: a Python bool, or a symbolic one."""
    if not isinstance(value, Choice):
        return not isinstance(value, Undefined)
    tags = [tag for tag, option in value.options.items() if isinstance(option, Undefined)]
    if not tags:
        return True
    made = value.tag != tags[0]
    known = need().shapes.known(made)
    return made if known is None else known


def is_option(choice: Choice, holds: Callable[[Any], bool]) -> Any:
    """Whether the value is one of the options for which ``holds``: a Python bool, or a symbolic one."""
    session = need()
    choice = bound(choice)
    if not isinstance(choice, Choice):
        return holds(choice)
    wanted = [tag for tag, option in choice.options.items() if holds(option)]
    if len(wanted) in (0, len(choice.options)):
        return bool(wanted)
    made: Any = choice.tag == wanted[0]
    for tag in wanted[1:]:
        made = session.number(scalars.logical_or, (made, choice.tag == tag), "bool")
    known = session.shapes.known(made)
    return made if known is None else known


def where_there(value: Any, there: Any, missing: Any) -> Any:
    """One of two values: whether a third is there decides."""
    present = presence(value)
    if isinstance(present, bool):
        return there if present else missing
    return capture_if_exp(present, lambda: there, lambda: missing)


def check_answered(session: Session, found: Any, method: Any) -> None:
    """Raise CaptureError where a tensor decides whether an operator's method is for its operand: Python asks another one then."""
    if isinstance(found, Choice) and any(option is NotImplemented for option in found.options.values()):
        raise CaptureError(
            f"{method.__qualname__} gives NotImplemented where a tensor decides",
            session.here(),
            fix="decide by the classes of the operands whether the method is for them",
        )
