"""Broadcasting of sizes that only the program knows: what fits another one may be 1, too.

Torch takes two such sizes for the same. The result has the size that is known, or that the operation writes; else its own, which
only the program knows. What does not fit is refused by the operation itself when the program runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import _meta_registrations, _refs
from torch._refs import _conversions
from torch._subclasses import fake_impls

from dy2st.capture.recording.patches import Patch
from dy2st.capture.session.session import Session, current

ACTS_FOR_USER = False

_OF_TENSORS = ((_refs, "_maybe_broadcast"), (_meta_registrations, "_maybe_broadcast"))
_PLACES = (
    (_refs, "_broadcast_shapes"), (_meta_registrations, "_broadcast_shapes"), (_conversions, "_broadcast_shapes"),
    (fake_impls, "infer_size"),
)  # fmt: skip
_ORIGINALS: dict[tuple[Any, str], Callable[..., Any]] = {}


def _with_known_sizes(session: Session, shapes: Iterable[Any]) -> list[Any]:
    """Return shapes with the sizes that results have in the place of those that fit them, being the same or 1."""
    given = [list(shape) if isinstance(shape, Sequence) else shape for shape in shapes]
    rows = [shape for shape in given if isinstance(shape, list)]
    for position in range(1, 1 + max(map(len, rows), default=0)):
        there = [row for row in rows if len(row) >= position]
        sizes = [row[-position] for row in there]
        if not any(isinstance(size, torch.SymInt) for size in sizes):
            continue
        for row, size in zip(there, _stretched_sizes(session, sizes)):
            row[-position] = size
    return given


def _stretched_sizes(session: Session, sizes: Sequence[Any]) -> list[Any]:
    """Return the sizes of one dimension as the result has it, where they are known to fit, or may."""
    for size in sizes:
        if all(session.shapes.is_stretched(other, size) for other in sizes):
            return [other if type(other) is int else size for other in sizes]
    known = {size for size in sizes if type(size) is int and size != 1}
    if len(known) != 1:
        return list(sizes) if known else _together(session, sizes)
    (one,) = known
    return [one if isinstance(size, torch.SymInt) and session.shapes.may_be_stretched(size, one) else size for size in sizes]


def _together(session: Session, sizes: Sequence[Any]) -> list[Any]:
    """Return sizes of which none is known but 1, with what they give together in the place of each that is not known."""
    one = session.shapes.together([size for size in sizes if isinstance(size, torch.SymInt)])
    return list(sizes) if one is None else [one if isinstance(size, torch.SymInt) else size for size in sizes]


def _broadcast(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def broadcast(*shapes: Any) -> Any:
        session = current()
        return original(*shapes) if session is None else original(*_with_known_sizes(session, shapes))

    return broadcast


def _broadcast_tensors(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def broadcast(*tensors: Any, **options: Any) -> Any:
        session = current()
        return original(*tensors, **options) if session is None else original(*_stretched(session, tensors), **options)

    return broadcast


def _stretched(session: Session, tensors: Sequence[Any]) -> list[Any]:
    """Return tensors of which the shapes fit: in the place of those that may be stretched others, which no operation writes."""
    places = [place for place, tensor in enumerate(tensors) if isinstance(tensor, torch.Tensor)]
    result = list(tensors)
    for place, shape in zip(places, _with_known_sizes(session, [tensors[place].shape for place in places])):
        if any(new is not old for new, old in zip(shape, tensors[place].shape)):
            result[place] = tensors[place].new_empty(shape)
    return result


def _install() -> None:
    for places, change in ((_PLACES, _broadcast), (_OF_TENSORS, _broadcast_tensors)):
        for module, name in places:
            _ORIGINALS[module, name] = getattr(module, name)
            setattr(module, name, change(_ORIGINALS[module, name]))


def _remove() -> None:
    for (module, name), original in _ORIGINALS.items():
        setattr(module, name, original)


BROADCASTING = Patch(_install, _remove)
