"""What the code under capture finds in ``tensor.grad``, as the attribute of an object, so that it is a place like others.

The program writes the tensor itself where it runs: this is only what is known of it while the code is captured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch

from dy2st.capture.writes.places import AttributePlace

ACTS_FOR_USER = False


_LEAF = "_dy2st_leaf"
_SPARSE = ("sparse", "sparse_grad")
"""The names by which operations are told to give a sparse gradient."""


@functools.cache
def _place_of_sparse(func: Any) -> tuple[int, str]:
    """Return the position and the name of the argument by which an operator is told to; no name where there is none."""
    names = [argument.name for argument in func._schema.arguments]
    return next(((place, name) for place, name in enumerate(names) if name in _SPARSE), (0, ""))


Start = Any
"""Where a walk through autograd's graph begins: a node of it, a leaf, or ``None`` for a tensor that requires no gradient."""


class GradientSlot:
    """The gradient that a tensor has at this point of the capture.

    Args:
        tensor: one from outside, or an abstract value of one that the program makes.
        value: what it has before the capture writes it.
    """

    __slots__ = ("tensor", "value")

    def __init__(self, tensor: torch.Tensor, value: Any) -> None:
        self.tensor, self.value = tensor, value


class Gradients:
    """The slots of one capture.

    Attributes:
        ways: what stands for one of several tensors, or is computed of some, by the leaf that its abstract value has in autograd's
            graph: for each way where the histories begin.
        hook_checks: for each hook of a tensor that is a function of Python, what raises where it must not run in a backward pass of
            the program.
        sparse: the tensors that operations give sparse gradients.
        changed: nodes of autograd's graph of operations that change a tensor in place in a branch or loop, which may not run: by
            their identity, with where the history of the tensor began before.
        is_switched: whether a branch or loop has switched whether a tensor requires gradients.
        leaves: tensors that the program has made leaves of autograd's graph, or has told to keep their gradient, in order.
    """

    def __init__(self) -> None:
        self._slots: dict[int, GradientSlot] = {}
        self.hook_checks: list[Callable[[], Any]] = []
        self.sparse: list[torch.Tensor] = []
        self.leaves: dict[int, torch.Tensor] = {}
        self.ways: dict[int, tuple[torch.Tensor, list[list[Start]]]] = {}
        self.changed: dict[int, tuple[Start, Start]] = {}
        self.is_switched = False

    def place(self, tensor: torch.Tensor) -> AttributePlace:
        """Return the place of the gradient of a tensor: one from outside itself, or else the abstract value."""
        slot = self._slots.get(id(tensor))
        if slot is None:
            slot = self._slots[id(tensor)] = GradientSlot(tensor, None)
            if not hasattr(tensor, "fake_mode"):
                with torch._C.DisableTorchFunction():
                    slot.value = tensor.grad
        return AttributePlace(slot, "value")

    def note_sparse(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Note an operation that gives its first operand a sparse gradient."""
        place, name = _place_of_sparse(func)
        is_sparse = bool(name) and (args[place] if place < len(args) else kwargs.get(name)) is True
        if is_sparse and args[0].requires_grad:
            self.sparse.append(args[0])

    def gives_sparse(self, tensors: Collection[torch.Tensor]) -> bool:
        """Tell whether one of some abstract values may have a sparse gradient."""
        return any(not tensor.is_leaf or any(tensor is one for one in tensors) for tensor in self.sparse)

    def note_leaf(self, tensor: torch.Tensor) -> None:
        """Note that a backward pass may give a tensor a gradient that the program makes."""
        self.leaves[id(tensor)] = tensor

    def link(self, value: Any, ways: Iterable[Any]) -> None:
        """Note that a new value is one of some others, or computed of them: autograd does not connect the abstract values."""
        leaf: torch.Tensor | None = getattr(value, _LEAF, None)
        if leaf is not None:
            self.ways[id(leaf)] = leaf, [_starts(way) for way in ways]

    def histories(self, tensors: Iterable[torch.Tensor]) -> list[tuple[torch.Tensor, Start]]:
        """Return where the histories of some tensors, and of those that they are views of, begin now."""
        bases = [base for tensor in tensors for base in (tensor, tensor._base) if base is not None]
        return [(base, start_of(base)) for base in bases]

    def note_changed(self, before: Iterable[tuple[torch.Tensor, Start]]) -> None:
        """Note that tensors that are older than the block that is recorded have been changed in place."""
        for tensor, start in before:
            now = start_of(tensor)
            if now is not None and now is not start:
                self.changed[id(now)] = now, start


def note_history(abstract: torch.Tensor, leaf: torch.Tensor) -> None:
    """Note the leaf of autograd's graph that an abstract value comes from which no operation has computed."""
    setattr(abstract, _LEAF, leaf)


def start_of(tensor: torch.Tensor) -> Start:
    """Return where the history of a tensor begins.

    That of an item of ``unbind``, ``split`` or ``chunk`` is not known once another branch has changed the base in place: autograd
    refuses to tell it, and the item stands for what may be anything.
    """
    with torch._C.DisableTorchFunction():
        if not tensor.requires_grad:
            return None
        try:
            return tensor.grad_fn or tensor
        except RuntimeError:
            return tensor


def _starts(way: Any) -> list[Start]:
    return [start_of(tensor) for tensor in (way if isinstance(way, list) else [way]) if isinstance(tensor, torch.Tensor)]
