"""Loops whose carried values are of another kind each time that the body is looked at: what is said of them."""

from __future__ import annotations

import torch

from dy2st import errors
from dy2st.capture.diagnostics.access_path import access_path
from dy2st.capture.looping.carries import LONGEST, Carries, Carry, cut
from dy2st.capture.session.session import Session
from dy2st.capture.types import lattice, mismatches, value_types
from dy2st.capture.values.signals import NeedsRanks


def error(session: Session, carry: Carry | None) -> errors.LoopVariableError:
    """Return the error for a variable that is of another kind after each iteration, however often it is looked at."""
    name = "a variable" if carry is None else f"'{access_path(session, carry.place, carry.initial, carry.final)}'"
    if carry is not None and carry.place.key[0] == "order" and not session.blocks.key_orders.are_ranked:
        raise NeedsRanks
    return errors.LoopVariableError(
        f"{name} is another kind of value after each iteration of this loop",
        session.here(),
        seen=None if carry is None else f"{mismatches.text(lattice.type_of(carry.initial))} before, then {_shortened(carry.kind)}",
        fix=f"give {name} its final dtype, number of dimensions and structure before the loop",
    )


def check_keys(session: Session, carries: Carries) -> None:
    """Refuse a loop that puts a tensor of each iteration into a set or dict."""
    keys = {id(item): item for carry in carries.values() if isinstance(item := getattr(carry.place, "item", None), torch.Tensor)}
    if sum(map(session.fakes.is_abstract, keys.values())) > _MOST_TENSORS:
        raise errors.LoopVariableError(
            "tensors that are known only at run time are put into a set or dict, which finds them by their identity",
            session.here(),
            seen="another one in each iteration of a loop",
            fix="keep them in a list; torch.unique gives the distinct values in a tensor",
        )


_MOST_TENSORS = 2
"""So many keys that are tensors of the program come up where a loop is looked at as often as it takes; more have no end."""


def _shortened(kind: value_types.Type) -> str:
    return cut(mismatches.text(kind), LONGEST)
