"""What eager tells of a tensor beside its values: whether it requires a gradient, whether it is a leaf, whether it is a parameter.

Where the ways to a tensor disagree in such a trait, its abstract value is marked, and so is what is computed from it. Once the
trait of a marked one is asked for, the capture starts again and tells such tensors apart: then a branch leaves a tagged union of
tensors, and what is asked is asked of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Protocol, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from dy2st import errors
from dy2st.capture.types import tensor_classes
from dy2st.capture.types.traits import Traits
from dy2st.capture.values.signals import NeedsApart

AUTOGRAD, CLASS = "autograd", "class"
"""Whether it requires a gradient and is a leaf; which class it is of."""
IDENTITY = "identity"
"""Of a container or object that a loop carries: whether it is one that is older than the loop."""
NUMBER = "number"
"""Of a number: whether it is an int or a float."""
TUPLES = "which tuple"
"""Of a tuple that branches or loops leave: whether it is one that was there before."""
OWNERS = "which object"
"""Of an object out of a list of the program: which it is, wherever it is put in again, or left."""
ATTRIBUTES, MADE_ATTRIBUTES = "attributes", "attributes of one that is made"
"""What the user's code has put on it; the same of a tensor that the program makes."""
OF_AUTOGRAD = ("requires_grad", "is_leaf", "grad_fn")
"""The attributes that tell of autograd."""
_MIXED, _CLASS, _NO_OPERATION, _OPERAND = "_dy2st_mixed", "_dy2st_class", "_dy2st_no_operation", "_dy2st_operand"
_WORDS = {AUTOGRAD: "whether this tensor requires a gradient, or is a leaf,", CLASS: "whether this tensor is a parameter"}
_KINDS: dict[type, str] = {torch.nn.Parameter: "_is_param", torch.nn.Buffer: "_is_buffer"}


class Outside(Protocol):
    """What is needed of the state from outside."""

    def adopted(self, value: Any) -> Any: ...

    def is_state(self, value: Any) -> bool: ...


class _Arrays(Protocol):
    def is_shared(self, value: torch.Tensor) -> bool: ...


class _Tracker(Protocol):
    @property
    def arrays(self) -> _Arrays: ...

    def source_of(self, value: Any) -> Any: ...


class _Builder(Protocol):
    parent: Any

    def is_operand(self, value: Any) -> bool: ...


class Capturing(Protocol):
    """What is needed of the session."""

    traits: Traits

    @property
    def outside(self) -> Outside: ...

    @property
    def tracker(self) -> _Tracker: ...

    @property
    def builder(self) -> _Builder: ...

    def here(self) -> errors.Location | None: ...


def is_of_abstracts(tensor: torch.Tensor, name: str) -> bool:
    """Tell whether only the abstract value has an attribute of this name, and no tensor of eager's."""
    own = name in FakeTensor.__annotations__ or name in FakeTensor.__dict__
    return own and isinstance(tensor, FakeTensor) and not hasattr(torch.Tensor, name)


def mixed(tensor: torch.Tensor) -> frozenset[str]:
    """Return the traits in which the ways to a tensor disagree."""
    return getattr(tensor, _MIXED, frozenset())


def mark(tensor: torch.Tensor, traits: Iterable[str]) -> None:
    """Note that the ways to a tensor disagree in some traits."""
    traits = frozenset(traits)
    if traits:
        setattr(tensor, _MIXED, mixed(tensor) | traits)


def mark_attributes(abstract: torch.Tensor, tensor: torch.Tensor) -> None:
    """Note that an abstract value is for a tensor on which the user's code may have put something."""
    if vars(tensor):
        mark(abstract, (ATTRIBUTES,))


def class_of(tensor: torch.Tensor) -> type:
    """Return the class of the tensor that eager has."""
    if not hasattr(tensor, "fake_mode"):
        return torch.nn.Buffer if type(tensor) is torch.Tensor and isinstance(tensor, torch.nn.Buffer) else type(tensor)
    known: type | None = getattr(tensor, _CLASS, None)
    return known or next((kind for kind, flag in _KINDS.items() if getattr(tensor, flag, False)), torch.Tensor)


def give_class(abstract: torch.Tensor, kind: type) -> None:
    """Note that an abstract value is for a tensor of this class."""
    for known, flag in _KINDS.items():
        if issubclass(kind, known):
            setattr(abstract, flag, True)
            setattr(abstract, _CLASS, kind)
    if tensor_classes.is_users(kind):
        cast(Any, abstract).__class__ = tensor_classes.stand_in(kind)
        setattr(abstract, _CLASS, kind)


def users_class(value: Any) -> type | None:
    """Return the class of a tensor that the user has written; ``None`` for any other value."""
    if not isinstance(value, torch.Tensor) or type(value) is FakeTensor:
        return None
    kind = class_of(value)
    return kind if tensor_classes.is_users(kind) else None


def note_no_operation(abstract: torch.Tensor) -> None:
    """Note that no operation has computed an abstract value: it does not know which function of autograd gave the tensor."""
    setattr(abstract, _NO_OPERATION, True)


def has_no_operation(abstract: torch.Tensor) -> bool:
    """Tell whether an abstract value is for a tensor that no operation has computed.

    An input, or one that a branch or loop gives.
    """
    return bool(getattr(abstract, _NO_OPERATION, False))


def note_operand(result: torch.Tensor, operand: torch.Tensor) -> None:
    """Note that an operation gives its operand itself where there is nothing to do, which only the call knows."""
    setattr(result, _OPERAND, operand)


def operand_of(abstract: torch.Tensor) -> torch.Tensor | None:
    """Return the operand that an operation may have given itself."""
    return getattr(abstract, _OPERAND, None)


def differing(one: torch.Tensor, other: torch.Tensor) -> set[str]:
    """Return the traits in which two tensors differ, or the ways to the first disagree."""
    results = {AUTOGRAD} if AUTOGRAD in mixed(one) or autograd_of(one) != autograd_of(other) else set()
    return results | ({CLASS} if CLASS in mixed(one) or class_of(one) is not class_of(other) else set())


def ask(session: Capturing, tensor: torch.Tensor, trait: str) -> None:
    """Note that the user's code, or a library, asks for a trait.

    Raises:
        NeedsApart: the ways disagree, and a capture that tells them apart has the answer.
        CaptureError: they disagree in what no capture tells apart: an operation in a branch has changed the tensor itself.
    """
    session.traits.asked.add(trait)
    if trait not in mixed(tensor):
        return
    if trait not in session.traits.apart:
        raise NeedsApart(trait)
    raise errors.CaptureError(
        f"{_WORDS[trait]} is decided by a tensor, where a branch or loop changes it in place or puts it in a list",
        session.here(),
        fix="ask in the branch, or give the changed tensor a name of its own there: y = x + 1 in the place of x += 1",
    )


def read(session: Capturing, tensor: torch.Tensor, name: str) -> Any:
    """Return one of the attributes that tell of autograd."""
    tensor = adopted(session, tensor)
    ask(session, tensor, AUTOGRAD)
    with torch._C.DisableTorchFunction():
        result = getattr(tensor, name)
    return grad_fn(session, tensor, result) if name == "grad_fn" else result


def adopted(session: Capturing, tensor: torch.Tensor) -> torch.Tensor:
    """Return the abstract value of a tensor that is there at each call: what is told of it is checked there."""
    return session.outside.adopted(tensor) if session.tracker.source_of(tensor) is not None else tensor


def asked_class(session: Capturing, tensor: torch.Tensor) -> type:
    """Return ``type(tensor)``."""
    tensor = adopted(session, tensor)
    ask(session, tensor, CLASS)
    return class_of(tensor)


def before(session: Capturing, func: Any, args: Sequence[Any]) -> list[tuple[torch.Tensor, Any]]:
    """Return what autograd says of tensors of outer blocks that an operation is about to change."""
    if session.builder.parent is None or not func._schema.is_mutable:
        return []
    changed = [arg for arg, place in zip(args, func._schema.arguments) if isinstance(arg, torch.Tensor) and place.is_write]
    changed += [tensor._base for tensor in changed if tensor._base is not None]
    return [(tensor, autograd_of(tensor)) for tensor in changed if session.builder.is_operand(tensor)]


def follow(session: Capturing, func: Any, operands: Any, result: Any, changed: Sequence[tuple[torch.Tensor, Any]]) -> None:
    """Do what is computed from a marked tensor is marked; so is one of an outer block that is another for autograd now."""
    for tensor, known in changed:
        if autograd_of(tensor) != known:
            mark(tensor, (AUTOGRAD,))
            session.traits.has_mixed = True
    if session.traits.has_mixed:
        _spread(func, operands, result)


def changed_in_place(session: Capturing, tensor: torch.Tensor) -> None:
    """Do what autograd says of a tensor is changed by a call, which only some ways may make."""
    if session.builder.is_operand(tensor):
        mark(tensor, (AUTOGRAD,))
        session.traits.has_mixed = True


def autograd_of(tensor: torch.Tensor) -> tuple[bool, bool]:
    """Tell whether a tensor requires a gradient, and whether it is a leaf.

    An item of ``unbind``, ``split`` or ``chunk`` whose base has been changed in place raises when it is asked: it is none.
    """
    with torch._C.DisableTorchFunction():
        try:
            return tensor.requires_grad, tensor.is_leaf
        except RuntimeError:
            return tensor.requires_grad, False


def _spread(func: Any, operands: Any, result: Any) -> None:
    given = [leaf for leaf in tree_leaves(operands) if isinstance(leaf, torch.Tensor)]
    if func is torch.ops.aten.detach.default or not torch.is_grad_enabled() or not any(AUTOGRAD in mixed(t) for t in given):
        return
    for item in tree_leaves(result):
        if isinstance(item, torch.Tensor) and (item.is_floating_point() or item.is_complex()):
            mark(item, (AUTOGRAD,))


def grad_fn(session: Capturing, tensor: torch.Tensor, value: Any) -> Any:
    """Return ``tensor.grad_fn``, where the abstract value has ``value``."""
    return UnknownFunction(session) if value is not None and getattr(tensor, _NO_OPERATION, False) else value


class UnknownFunction:
    """The function of autograd that gave a tensor, of which it is known that there is one."""

    def __init__(self, session: Capturing) -> None:
        self._session = session

    def _refuse(self, *args: Any) -> NoReturn:
        raise errors.CaptureError(
            "which function of autograd gave this tensor is known only when the program runs",
            self._session.here(),
            fix="ask whether grad_fn is None, or look at it outside of the static function",
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return "a function of autograd"

    __str__ = __format__ = __call__ = _refuse
