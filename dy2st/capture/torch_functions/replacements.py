"""Functions of torch that the user may replace (``F.relu = mine``): those that a capture used have to stay what they were.

A program calls kernels; which ones was decided by the functions that stood in torch's namespaces when it was captured.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional

from dy2st.capture.environment.same_contents import PATCH_MARK
from dy2st.capture.session.session import Session

_OWNERS: tuple[Any, ...] = (torch.Tensor, torch, torch.nn.functional)


def _functions(owner: Any) -> dict[str, Any]:
    names = {name: None for kind in owner.__mro__[:-1] for name in vars(kind)} if isinstance(owner, type) else vars(owner)
    results = {name: getattr(owner, name) for name in names}
    return {name: value for name, value in results.items() if callable(value) and not isinstance(value, type)}


_GIVEN = [(owner, _functions(owner)) for owner in _OWNERS]
"""What stood there when this module was imported."""

_PLACES: dict[Any, tuple[Any, str, Any]] = {
    function: (owner, name, function) for owner, held in _GIVEN for name, function in held.items()
}
"""Where each function stands; of one with several names, the one in the last of the owners."""


def used(session: Session, function: Any) -> None:
    """Note that a capture has called a function of torch, wherever it was read."""
    place = _PLACES.get(function)
    if place is not None:
        read(session, *place)


def read(session: Session, owner: Any, name: str, value: Any) -> None:
    """Note that code under capture has read a function from a library: it has to be there at each call."""
    if callable(value) and not hasattr(value, PATCH_MARK):
        tracker = session.tracker
        tracker.guards.same_function_of_library(tracker.table.of_library(owner, name), value)


def guard_replaced(session: Session) -> None:
    """Do what has been replaced already has to stay: code of torch may use it where no capture sees that."""
    for owner, before in _GIVEN:
        for name, function in before.items():
            result = getattr(owner, name, None)
            if result is not function and result is not None and result != function:  # bound anew at each read: class methods
                read(session, owner, name, result)
