"""Attributes that the user's code gives to tensors: ``x.tag = 1``.

What is put on the abstract value of a tensor from outside would be lost: it is put on the tensor itself, as on any object, and
taken off again when the capture is done. A tensor that the program makes has its attributes on its abstract value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.session.session import Session
from dy2st.capture.types import tensor_classes, tensor_traits, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.kinds import is_mutable
from dy2st.capture.values.signals import NeedsApart
from dy2st.capture.values.symbolic import CAPTURE_VALUES, RuntimeList
from dy2st.capture.writes.places import AttributePlace


@dataclasses.dataclass(frozen=True)
class Marks:
    """What Python knows of a tensor that a program gives, and the program does not.

    Attributes:
        kind: its class.
        attributes: what the user's code has put on it.
    """

    kind: type
    attributes: Mapping[str, Any]

    def put_on(self, tensor: torch.Tensor) -> None:
        """Give them to the tensor."""
        if type(tensor) is torch.Tensor and self.kind is not torch.Tensor:
            tensor.__class__ = self.kind
        for name, value in self.attributes.items():
            setattr(tensor, name, value)


def marks_of(session: Session, outputs: Sequence[Any]) -> dict[int, Marks]:
    """Return those of the outputs of a program, by position.

    Raises:
        CaptureError: an attribute of one is known only when the program runs.
        NeedsApart: a tensor decides of which class one is.
    """
    results = {}
    for position, value in enumerate(outputs):
        if isinstance(value, RuntimeList) and _has_users_class(value.element):
            raise errors.CaptureError(
                f"{session.name} gives away a list of tensors of a class of the user's that changes length inside a captured block",
                session.here(),
                fix="put plain tensors in it: value.as_subclass(torch.Tensor)",
            )
        if isinstance(value, torch.Tensor) and session.outside.behind(value) is value:
            if tensor_traits.CLASS in tensor_traits.mixed(value) and tensor_traits.CLASS not in session.traits.apart:
                raise NeedsApart(tensor_traits.CLASS)  # the caller can see whether it gets a parameter
            result = _with_flags(Marks(tensor_traits.class_of(value), _attributes(session, value)), value)
            if result.attributes or result.kind is not torch.Tensor:
                results[position] = result
    return results


def _has_users_class(kind: Any) -> bool:
    """Tell whether items of a list of the program are tensors of a class of the user's, or hold some: it would give plain ones."""
    if isinstance(kind, value_types.TensorType):
        return tensor_classes.is_users(kind.kind)
    inner = [kind.element] if isinstance(kind, value_types.ListType) else getattr(kind, "items", ())
    return any(map(_has_users_class, inner))


def _with_flags(marks: Marks, value: torch.Tensor) -> Marks:
    """Return a buffer is a tensor with attributes that say so, and no class of its own."""
    if marks.kind is not torch.nn.Buffer:
        return marks
    flags: dict[str, Any] = {"persistent": getattr(value, "persistent", True), "_is_buffer": True}
    return Marks(torch.Tensor, flags | dict(marks.attributes))


def _attributes(session: Session, value: torch.Tensor) -> dict[str, Any]:
    if tensor_traits.MADE_ATTRIBUTES in tensor_traits.mixed(value) and id(value) not in session.places.tagged:
        raise _of_several(session, f"{session.name} gives away a tensor that is one of several, of which some have attributes")
    names = session.places.tagged.get(id(value), (value, ()))[1]
    held = {name: item for name in names if (item := storage.own(value, name)) is not storage.MISSING}
    for name, item in held.items():
        source = None if isinstance(item, (torch.Tensor, *CAPTURE_VALUES)) else session.tracker.source_of(item)
        if source is not None and not is_mutable(item):
            session.tracker.guards.same(source, item)
        elif not isinstance(item, CONSTANTS):
            line = session.places.written_at.get(AttributePlace(value, name).key)
            raise errors.CaptureError(
                f"{session.name} gives away a tensor with an attribute {name!r} that only the program knows",
                None if line is None else errors.Location(line.file, line.line, line.function),
                fix="return the value beside the tensor",
            )
    return held


def is_users(value: Any, name: str) -> bool:
    """Tell whether an attribute of a tensor is one that no tensor has by its class."""
    if not isinstance(value, torch.Tensor) or tensor_traits.is_of_abstracts(value, name):
        return False
    return name == "__dict__" or storage.of_class(torch.Tensor, name) is storage.MISSING


def holder(session: Session, value: torch.Tensor, name: str) -> torch.Tensor:
    """Return what holds the attributes of a tensor during the capture: one from outside itself.

    Raises:
        CaptureError: the tensor is one of several, of which some have attributes.
    """
    real = session.outside.behind(value)
    if not session.fakes.is_abstract(real):
        return real
    if name == "__dict__":
        raise errors.CaptureError(
            "the __dict__ of a tensor that the program makes", session.here(), fix="use getattr(x, name), hasattr(x, name)"
        )
    if tensor_traits.has_no_operation(real) and id(real) not in session.places.tagged:
        if tensor_traits.ATTRIBUTES in tensor_traits.mixed(real) or (
            name == "persistent" and tensor_traits.class_of(real) is torch.nn.Buffer
        ):
            raise _of_several(session, f"{name!r} is asked of a tensor that is one of several, of which some have attributes")
        for _, _, source in session.outside.arguments.values():
            session.tracker.guards.missing(session.tracker.table.attribute(source, name))
    return real


def _of_several(session: Session, what: str) -> errors.CaptureError:
    return errors.CaptureError(
        what, session.here(), fix="ask before the branch or loop, or keep the attribute beside the tensor, in a tuple or object"
    )


def written(session: Session, tensor: torch.Tensor, name: str) -> None:
    """Refuse to put something on a tensor or to take it off, where the program would not."""
    session.places.tagged.setdefault(id(tensor), (tensor, []))[1].append(name)
    if session.fakes.is_abstract(tensor):
        tensor_traits.mark(tensor, (tensor_traits.ATTRIBUTES, tensor_traits.MADE_ATTRIBUTES))
    else:
        for abstract in session.outside.abstracts_of(tensor):
            tensor_traits.mark(abstract, (tensor_traits.ATTRIBUTES,))
