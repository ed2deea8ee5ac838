"""What wrappers of ``torch.distributed`` do where a module begins and where it ends, as operations of a program.

``DistributedDataParallel`` makes its buffers equal and gets ready for the gradients; ``fully_shard`` gathers the parameters of a
group of modules and lets go of them, and sees to it that the backward pass does so, too. The program calls the wrapper's own code,
with the tensors that the module gets and gives.
"""

from __future__ import annotations

import weakref
from typing import Any, NoReturn

import torch

from dy2st_runtime.distributed.collectives import Group


class Boundary:
    """One side of a module: a function of Python that a program calls.

    Args:
        module: that the wrapper runs; the program belongs to it, or is guarded by it.
        name: of the module, for the program's text.
    """

    writes_outside = True
    """Whether it may write tensors that it is not given."""
    passes_through = True
    """Whether it gives back what it gets, with other history; what comes behind that was there before."""
    does = "runs"

    def __init__(self, module: torch.nn.Module, name: str) -> None:
        self._module = weakref.ref(module)
        self.__name__ = self.__qualname__ = f"{self.does}({name})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Boundary:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self.__qualname__} is for the processes of this run alone, and is not written")

    def __repr__(self) -> str:
        return self.__qualname__

    @property
    def module(self) -> Any:
        """The module."""
        module = self._module()
        assert module is not None, "the program is guarded by it"
        return module

    @property
    def group(self) -> Group:
        """The processes that have to meet here."""
        raise NotImplementedError


class _OfReplica(Boundary):
    @property
    def group(self) -> Group:
        """The processes that have copies of the module."""
        return Group.of(self.module.process_group)


class BeginReplica(_OfReplica):
    """What ``DistributedDataParallel`` does before its module runs."""

    does = "begin_replica"

    def __call__(self, *tensors: torch.Tensor) -> None:
        self.module._pre_forward(*tensors)


class EndReplica(_OfReplica):
    """What it does afterwards; gives the results, by way of autograd where a backward pass has to tell of those without use."""

    does = "end_replica"

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.module._post_forward(tensors))


class Gather(Boundary):
    """What ``fully_shard`` does before a module of a group runs; gives the arguments, then the parameters of the group."""

    does = "gather"

    def __init__(self, module: torch.nn.Module, name: str, state: Any) -> None:
        super().__init__(module, name)
        self._state = weakref.ref(state)

    @property
    def state(self) -> Any:
        """What torch keeps of the group."""
        state = self._state()
        assert state is not None, "its module is there"
        return state

    @property
    def group(self) -> Group:
        """The processes that have parts of the parameters, or copies of the parts."""
        return group_of_state(self.state)

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given, _ = self.state._pre_forward(self.module, tensors, {})
        return (*given, *(parameter._unsharded_param for parameter in parameters_of(self.state)))


class Release(Gather):
    """What it does when the module has run; gives the results."""

    does = "release"

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.state._post_forward(self.module, (), tensors))


def group_of_state(state: Any) -> Group:
    """Return the processes that share the parameters of a group of ``fully_shard``."""
    groups = []
    for kept in state._fsdp_param_groups:
        names = ("shard_process_group", "replicate_process_group")
        groups += [Group.of(getattr(kept.mesh_info, name)) for name in names if hasattr(kept.mesh_info, name)]
    return Group.around(groups) if groups else Group(None, ())


def parameters_of(state: Any) -> list[Any]:
    """Return what torch keeps of the parameters of a group of ``fully_shard``."""
    return [parameter for kept in state._fsdp_param_groups for parameter in kept.fsdp_params]
