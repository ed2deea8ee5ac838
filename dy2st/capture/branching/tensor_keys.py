"""Tensors as keys of dicts and members of sets, which are found by their identity.

Two abstract values may stand for one tensor: a branch or loop gives one of several, an operation like ``contiguous`` gives its
operand, an argument may be a tensor that is reached in another way, too. So a look-up asks the program, for each tensor that is
there and may be the one, and what uses the key is done in a branch for each.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching import unions
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.environment.users_code import is_generated
from dy2st.capture.session.session import Session
from dy2st.capture.types import tensor_traits
from dy2st.capture.values import storage
from dy2st.capture.values.symbolic import may_be_undefined


class _Kind(enum.Enum):
    """What is known of the tensor that an abstract value stands for."""

    ARGUMENT = "an argument: no other argument, but perhaps one from outside"
    OUTSIDE = "one from outside, whose object is known"
    MADE = "what an operation has given"
    ANY = "what a branch or loop gives, which may be any"


def over(session: Session, table: Any, key: Any, use: Callable[[Any], Any]) -> Any:
    """Do something with a key of a dict: with the tensor that is there, where the program finds that it is the same.

    Raises:
        CaptureError: a tuple or dataclass holds the tensor.
    """
    if not isinstance(table, dict):
        return use(key)
    if not isinstance(key, torch.Tensor):
        check(session, storage.keys_of(table), (key,))
        return use(key)
    if dict.__contains__(table, key) and not may_be_undefined(dict.get(table, key)):
        return use(key)
    return _first(session, table, key, candidates(session, key, storage.keys_of(table)), use)


def _first(session: Session, table: Any, key: Any, others: list[Any], use: Callable[[Any], Any]) -> Any:
    """Use the first of some keys that is there and is the same tensor; the key itself if there is none."""
    if not others:
        return use(key)
    other, *rest = others
    there = unions.presence(dict.get(table, other))
    if there is False:
        return _first(session, table, key, rest, use)
    is_one = _is(session, key, other)
    test = is_one if there is True else capture_if_exp(there, lambda: is_one, lambda: False)
    if isinstance(test, bool):
        return use(other) if test else _first(session, table, key, rest, use)
    return capture_if_exp(test, lambda: use(other), lambda: _first(session, table, key, rest, use))


def is_one(session: Session, one: Any, other: Any) -> Any:
    """Tell whether two values are one tensor: a Python bool, or a symbolic one."""
    return one is other or (bool(candidates(session, one, (other,))) and _is(session, one, other))


def _is(session: Session, one: torch.Tensor, other: torch.Tensor) -> Any:
    if session.outside.real(one) is session.outside.real(other):
        return True
    result = session.number(operator.is_, (one, other), "bool")
    known = session.shapes.known(result)
    return result if known is None else known


def may_share(session: Session, table: Any, keys: Iterable[Any]) -> bool:
    """Tell whether one of some keys has a tensor that may be the one in another key that is there.

    Raises:
        CaptureError: one has an object that is found by its identity, which only the program knows.
    """
    held: list[tuple[Any, list[torch.Tensor]]] | None = None
    for key in keys:
        check_objects(session, key)
        tensors = tensors_of(key)
        if not tensors:
            continue
        held = [(other, tensors_of(other)) for other in table] if held is None else held
        others = [tensor for other, parts in held if other is not key for tensor in parts]
        if any(candidates(session, tensor, others) for tensor in tensors):
            return True
    return False


def check(session: Session, table: Any, keys: Iterable[Any]) -> None:
    """Check keys that are looked up at once, or in tuples.

    Raises:
        CaptureError: one has a tensor that may be the one in another key.
    """
    if may_share(session, table, keys):
        raise refused(session, "dict or set")


def refused(session: Session, kind: str) -> errors.CaptureError:
    """Return the error for a tensor of which only the program knows which one it is."""
    return errors.CaptureError(
        f"a {kind} is asked for a tensor, which it finds by its identity",
        session.here(),
        fix="keep tensors in a list, or under names or numbers in the dict",
    )


def is_key(key: Any) -> bool:
    """Tell whether a key is a tensor, or holds one."""
    return bool(tensors_of(key))


def tensors_of(key: Any) -> list[torch.Tensor]:
    """Return the tensors whose identities are in the hash of a key: itself, or those of a tuple or frozen dataclass."""
    if isinstance(key, torch.Tensor):
        return [key]
    return [tensor for part in _hashed_parts(key) for tensor in tensors_of(part)]


def check_objects(session: Session, key: Any) -> None:
    """Check what a key is, or holds, for objects out of lists of the program: each look gives another copy of them.

    Raises:
        CaptureError: one is found by its identity.
    """
    if key in session.places.copies and type(key).__hash__ is vars(object)["__hash__"]:
        kind = type(key).__name__
        raise errors.CaptureError(
            f"a {kind} out of a list that changes length inside a captured block is hashed, as a key of a dict or member of a set",
            session.here(),
            fix="give the objects numbers or names, and use these as keys; or keep a list of them, and search it with 'in'",
        )
    for part in _hashed_parts(key):
        check_objects(session, part)


def _hashed_parts(key: Any) -> Iterable[Any]:
    if isinstance(key, tuple):
        return tuple.__iter__(key)
    if not hasattr(type(key), "__dataclass_fields__") or not is_generated(type(key).__hash__):
        return ()
    fields = [field for field in dataclasses.fields(key) if (field.compare if field.hash is None else field.hash)]
    return [getattr(key, field.name, None) for field in fields]


def may_be_any(session: Session, tensor: torch.Tensor) -> bool:
    """Tell whether a branch, a loop or an operation has given a tensor that may be one that is reached in another way, too."""
    return _kind_of(session, tensor) is _Kind.ANY or tensor_traits.operand_of(tensor) is not None


def is_outside(session: Session, tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is one from outside, and no argument, of which the object is known."""
    return _kind_of(session, tensor) is _Kind.OUTSIDE


def _kind_of(session: Session, tensor: torch.Tensor) -> _Kind:
    if id(tensor) in session.outside.arguments:
        return _Kind.ARGUMENT
    if not session.fakes.is_abstract(session.outside.real(tensor)):
        return _Kind.OUTSIDE
    return _Kind.ANY if tensor_traits.has_no_operation(tensor) else _Kind.MADE


def candidates(session: Session, tensor: Any, others: Iterable[Any]) -> list[torch.Tensor]:
    """Return those that are another object during the capture and may be this tensor when the program runs."""
    others = [other for other in others if isinstance(other, torch.Tensor) and other is not tensor]
    if not others or not isinstance(tensor, torch.Tensor):
        return []
    given = _given_back(tensor)
    return [other for other in others if any(_may_be(session, a, b) for a in given for b in _given_back(other))]


def _may_be(session: Session, one: torch.Tensor, other: torch.Tensor) -> bool:
    kinds = {_kind_of(session, one), _kind_of(session, other)}
    if one is other or kinds == {_Kind.OUTSIDE}:
        return session.outside.real(one) is session.outside.real(other)
    return (_Kind.ANY in kinds or kinds == {_Kind.ARGUMENT, _Kind.OUTSIDE}) and _are_alike(one, other)


def _given_back(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return a tensor, and the operands that the operations that have given it may have given back."""
    found = [tensor]
    while (operand := tensor_traits.operand_of(found[-1])) is not None:
        found.append(operand)
    return found


def _are_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    kinds = [(tensor.dtype, tensor.dim(), tensor.device) for tensor in (one, other)]
    sizes = zip(one.shape, other.shape)
    return kinds[0] == kinds[1] and all(a == b for a, b in sizes if type(a) is int and type(b) is int)
