"""Truth values of what is known only at run time."""

from __future__ import annotations

import operator
import types
from typing import Any

import sympy
import torch

from dy2st import errors
from dy2st.capture.branching import optional
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers import lists
from dy2st.capture.containers.complex_numbers import RuntimeComplex
from dy2st.capture.environment.users_code import is_users_function, user_method
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current
from dy2st.capture.texts import text
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractObject
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st.capture.values.texts import Text
from dy2st_runtime.primitives import scalars


def condition(value: Any) -> Any:
    """Return a value as the test of a statement: symbolic if it is known only at run time, else something Python can decide."""
    session = current()
    if session is None:
        return value
    if isinstance(value, torch.SymBool):
        known = session.shapes.known(value)
        return value if known is None else known
    if isinstance(value, torch.Tensor):
        _check_single(session, value)
    if is_symbolic(value):
        return value
    return truth(session, value) if _is_open(session, value) else value


def _is_open(session: Session, value: Any) -> bool:
    """Tell whether Python alone cannot tell if a value counts as true."""
    held = session.lists.of(value) is not None or optional.has_optional(value)
    return held or isinstance(value, (TaggedUnion, AbstractArray, AbstractObject, Text)) or _own_truth(value) is not None


def decided(value: Any) -> Any:
    """Return a value as a test that only Python can decide, because a ``yield`` stands in the statement."""
    session = current()
    value = condition(value)
    if session is None or not is_symbolic(value):
        return value
    session.iterators.ask_running_to_give()
    raise errors.DataDependentError(
        "a tensor decides about a statement with a yield inside, and a generator cannot be suspended where a tensor decides",
        session.here(),
        fix="yield in any case, a value that the test chooses, or collect the values in a list",
    )


def truth(session: Session, value: Any) -> Any:
    """Return the truth value: a Python bool, or a symbolic one."""
    known = session.lists.of(value)
    if known is not None and _own_truth(value) is None:
        return lists.length(session, known) > 0
    if isinstance(value, Text):
        return text.compared(session, operator.ne, value, "")
    if isinstance(value, AbstractArray):
        return truth(session, value.truth())
    if isinstance(value, AbstractObject):
        return value.truth() if isinstance(value, RuntimeComplex) else truth(session, value.length())
    if isinstance(value, TaggedUnion):
        return session.over(value, lambda option: truth(session, option))
    if not is_symbolic(value):
        own = _own_truth(value)
        if own is None and optional.has_optional(value):
            return truth(session, session.call(len, value))
        return bool(value) if own is None else _answered(session, own, session.call(own))
    if isinstance(value, torch.SymBool):
        return value
    if isinstance(value, torch.Tensor):
        _check_single(session, value)
    return session.number(scalars.to_bool, (value,), "bool")


def _check_single(session: Session, value: torch.Tensor) -> None:
    """Raise what eager raises for a tensor that has no truth value, so that the user's handlers see it."""
    count = value.numel()
    if isinstance(count, int):
        if count != 1:
            raise raised(RuntimeError(_AMBIGUOUS.format("more than one value" if count else "no values")))
    elif session.in_flight.pending:
        check(session, count > 0, RuntimeError, _AMBIGUOUS.format("no values"))
        check(session, count < 2, RuntimeError, _AMBIGUOUS.format("more than one value"))


_AMBIGUOUS = "Boolean value of Tensor with {} is ambiguous"


def _answered(session: Session, method: Any, value: Any) -> Any:
    """Return what the user's method says; Python takes a bool of ``__bool__`` only."""
    if isinstance(value, torch.Tensor) and method.__func__.__name__ == "__bool__":
        raise raised(TypeError(f"__bool__ should return bool, returned {type(value).__name__}"))
    return truth(session, value)


def _own_truth(value: Any) -> Any:
    """Return what the user has written to decide whether an object counts as true."""
    kind = type(value)
    own = user_method(kind, "__bool__")
    if own is None and isinstance(value, type) and is_users_function(of_metaclass := getattr(kind, "__bool__", None)):
        own = of_metaclass
    if own is None and not hasattr(kind, "__bool__") and is_users_function(length := getattr(kind, "__len__", None)):
        own = length
    return None if own is None else types.MethodType(own, value)


def truth_value(value: Any) -> Any:
    """Return the truth value during a capture; any value as it is outside of one."""
    session = current()
    return value if session is None else truth(session, value)


def logical_not(value: Any) -> Any:
    """Return ``not value``."""
    session = current()
    value = condition(value)
    if session is None or not is_symbolic(value):
        return not value
    if isinstance(value, torch.SymBool) and isinstance(value.node.expr, (sympy.Eq, sympy.Ne)):
        return torch.sym_not(value)  # what is known of the number stays so in the branches
    return session.number(scalars.logical_not, (value,), "bool")


def both(session: Session, again: Any, going: Any) -> Any:
    """Tell whether there is another iteration."""
    if going is True or again is False:
        return again
    return going if again is True else session.number(scalars.logical_and, (again, going), "bool") if going is not False else False
