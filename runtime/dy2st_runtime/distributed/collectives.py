"""Functions of ``torch.distributed`` as operations of a program, and the groups of processes that they are for.

A program names its groups: a file of it can be loaded by processes that have groups of the same names and ranks. The function is
torch's own, called when the program runs; those that wait let other threads of Python run meanwhile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed

from dy2st_runtime.errors import GroupError

NAMESPACE = "_c10d_functional"
"""Of the operators of torch that are collectives."""
COLLECTIVES = (
    "all_reduce", "all_reduce_coalesced", "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single",
    "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "broadcast", "all_to_all", "all_to_all_single", "scatter",
    "gather", "reduce", "send", "recv", "barrier", "monitored_barrier", "isend", "irecv",
)  # fmt: skip
"""The names of the functions that a program may call."""
OPERATIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
"""How a reduction may be told in a file."""
METHODS = ("wait", "is_completed", "is_success")
"""What may be asked of a collective that was not waited for."""
QUESTIONS = ("get_rank", "get_world_size", "is_initialized")
"""What a saved program relies on about its process."""


def named(name: str) -> Any:
    """Return the group of processes of a name."""
    return torch._C._distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]  # torch has a type for names


def group_name(target: Any, args: Any, kwargs: Any) -> str | None:
    """Return the name of the group that an operator of :data:`NAMESPACE` gets; ``None`` if it gets none, or for any other."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != NAMESPACE:
        return None
    names = [argument.name for argument in target._schema.arguments]
    if "group_name" not in names:
        return None
    at = names.index("group_name")
    name = args[at] if at < len(args) else kwargs.get("group_name")
    return name if isinstance(name, str) else None


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of processes.

    Attributes:
        name: that torch gave it; ``None`` for the group of all processes.
        ranks: of its processes.
        handle: the group, where the program was captured.
    """

    name: str | None
    ranks: tuple[int, ...]
    handle: Any = dataclasses.field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, handle: Any) -> Group:
        """Return what a program keeps of a group, as the functions of ``torch.distributed`` take it."""
        if handle is None or handle is distributed.GroupMember.NON_GROUP_MEMBER:
            ranks = distributed.get_process_group_ranks(None) if handle is None and distributed.is_initialized() else ()
            return cls(None, tuple(ranks), handle)
        return cls(handle.group_name, tuple(distributed.get_process_group_ranks(handle)), handle)

    @classmethod
    def of_mesh(cls, mesh: Any) -> Group:
        """Return the processes of a mesh, where they have a group; else all that there are."""
        return cls.of(mesh.get_group() if mesh is not None and mesh.ndim == 1 else None)

    @classmethod
    def around(cls, groups: Sequence[Group]) -> Group:
        """Return one of some groups that has the processes of all others in it; if there is none, that of all processes."""
        widest = max(groups, key=lambda group: len(group.ranks))
        return widest if all(set(group.ranks) <= set(widest.ranks) for group in groups) else cls.of(None)

    def find(self) -> Group:
        """Return this group as the running process has it.

        Raises:
            GroupError: it has none.
        """
        what = "the group of all processes" if self.name is None else f"the group {self.name!r}"
        if not distributed.is_initialized():
            raise GroupError(f"the program is for {what}, ranks {[*self.ranks]}, and torch.distributed has not been set up")
        handle = None
        if self.name is not None:
            try:
                handle = named(self.name)
            except Exception as error:
                raise GroupError(f"the program is for {what} of ranks {[*self.ranks]}, which this process does not have") from error
        ranks = tuple(distributed.get_process_group_ranks(handle))
        if ranks != self.ranks:
            raise GroupError(f"the program is for {what} of ranks {[*self.ranks]}, which has ranks {[*ranks]} here")
        return dataclasses.replace(self, handle=handle)

    def __str__(self) -> str:
        return "" if self.name is None else f"group={self.name}"


class Collective:
    """A function of ``torch.distributed`` for one group.

    Args:
        name: of the function.
        group: of processes; ``None`` where it takes none.
        operation: how it reduces; ``None`` where it does not, or as the function does by itself.
    """

    def __init__(self, name: str, group: Group | None = None, operation: Any = None) -> None:
        self.name, self.group, self.operation = name, group, operation
        reduced = "" if operation is None else f"op={getattr(operation, 'name', operation)}"
        told = ", ".join(filter(None, (reduced, "" if group is None else str(group))))
        self.__name__ = self.__qualname__ = f"{name}[{told}]" if told else name

    def __deepcopy__(self, memo: dict[int, Any]) -> Collective:
        return self

    def __repr__(self) -> str:
        return self.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.operation is not None:
            kwargs["op"] = self.operation
        if self.group is not None:
            kwargs["group"] = self.group.handle
        return getattr(distributed, self.name)(*args, **kwargs)


class Batch:
    """Sends and receives that are started together.

    Args:
        parts: of each its name, the other process, the group and the tag.
    """

    name = "batch_isend_irecv"

    def __init__(self, parts: Sequence[tuple[str, Any, Group, int]]) -> None:
        self.parts = parts
        self.__name__ = self.__qualname__ = f"{self.name}[{', '.join(f'{name} {peer}' for name, peer, _, _ in parts)}]"

    def __deepcopy__(self, memo: dict[int, Any]) -> Batch:
        return self

    def __call__(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
        started = [
            distributed.P2POp(getattr(distributed, name), tensor, peer, group.handle, tag)
            for tensor, (name, peer, group, tag) in zip(tensors, self.parts, strict=True)
        ]
        return tuple(distributed.batch_isend_irecv(started))


def ask(work: Any, method: str, *args: Any, **kwargs: Any) -> bool:
    """Return the answer of a collective that was not waited for."""
    return bool(getattr(work, method)(*args, **kwargs))


class Expect:
    """What a saved program relies on about the process that runs it.

    Args:
        question: the name of a function of ``torch.distributed``.
        group: that it is asked of.
        answer: that it gave when the program was made.
    """

    def __init__(self, question: str, group: Group | None, answer: Any) -> None:
        self.question, self.group, self.answer = question, group, answer
        self.__name__ = self.__qualname__ = f"expect[{question}() == {answer!r}]"

    def __deepcopy__(self, memo: dict[int, Any]) -> Expect:
        return self

    def __call__(self) -> None:
        """Check it.

        Raises:
            GroupError: it is not so.
        """
        given = () if self.group is None or not distributed.is_initialized() else (self.group.handle,)
        found = getattr(distributed, self.question)(*given)
        if found != self.answer:
            raise GroupError(
                f"the program is for a process of which {self.question}() is {self.answer!r}, and here it is {found!r}"
            )
