"""The modules of ``torch.distributed`` that have the user's module in them."""

from __future__ import annotations

import sys
from typing import Any

from torch.nn.parallel import DistributedDataParallel

_STATES = "torch.distributed.fsdp._fully_shard._fsdp_state"


def is_sharding_there() -> bool:
    """Tell whether any module may be sharded by ``fully_shard``."""
    return _STATES in sys.modules


def state_of(hook: Any) -> Any:
    """Return the state of a group of ``fully_shard`` whose hook this is, or ``None``."""
    kind = getattr(sys.modules.get(_STATES), "FSDPState", None)
    owner = getattr(hook, "__self__", None)
    return owner if kind is not None and isinstance(owner, kind) else None


def is_grouped(hook: Any) -> bool:
    """Tell whether a hook is one of several modules that are sharded as one group."""
    if state_of(hook) is not None:
        return False
    while (hook := getattr(hook, "__wrapped__", None)) is not None:
        if state_of(hook) is not None:
            return True
    return False


def is_flat(value: Any) -> bool:
    """Tell whether a value is a module that has the parameters of another one in one flat tensor."""
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FullyShardedDataParallel", None)
    return kind is not None and isinstance(value, kind)


def is_wrapper(value: Any) -> bool:
    """Tell whether a value is a module that does something with other processes before and after it calls the user's."""
    return isinstance(value, DistributedDataParallel) or is_flat(value)
