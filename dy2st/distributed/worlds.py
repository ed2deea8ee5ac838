"""Programs of all processes of a world, captured in one process one after the other: whether they would meet."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from torch import distributed, fx

from dy2st.errors import SignatureError
from dy2st.static.distributed.meeting import DivergenceWarning
from dy2st.static.static_function import StaticFunction
from dy2st_runtime.analyses.communication import group_of
from dy2st_runtime.ir.printing import short_place
from dy2st_runtime.ir.program import Program, operations

_BETWEEN_TWO = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
"""What two processes do with each other, each something else."""


class Step(NamedTuple):
    """An operation that processes do together.

    Attributes:
        name: of it, as the program's text has it.
        ranks: of the processes.
        place: the user's line.
    """

    name: str
    ranks: tuple[int, ...]
    place: str


def findings(make: Callable[[], StaticFunction], world: int) -> list[str]:
    """Capture the programs of all processes of a world, and tell where they may not meet.

    Args:
        make: makes what is static, as each process does; with an ``input_spec``.
        world: how many processes there are.

    Returns:
        What was found, in words, each once.

    Raises:
        SignatureError: there is no such world, or this process is in one.
    """
    if world < 1:
        raise SignatureError(f"a world has one process or more, not {world}")
    if not distributed.is_available() or distributed.is_initialized():
        raise SignatureError("a world is checked in a process in which torch.distributed is there, and has not been set up")
    found: dict[str, None] = {}
    steps: list[list[Step]] = []
    for rank in range(world):
        with _world(rank, world):
            try:
                program, told = _captured(make)
            except Exception as error:
                found[f"rank {rank}: {type(error).__name__}: {error}"] = None
                continue
            found |= dict.fromkeys(told)
            steps.append([*_steps(program.block)])
            for other in range(len(steps) - 1):
                difference = _difference(steps[other], steps[-1], other, rank)
                if difference is not None:
                    found[difference] = None
                    break
    return [*found]


@contextlib.contextmanager
def _world(rank: int, world: int) -> Iterator[None]:
    """Be one of some processes: what these would do together is done by nobody."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # it sets the kind of group up that does nothing

    distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def _captured(make: Callable[[], StaticFunction]) -> tuple[Program, list[str]]:
    static = make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DivergenceWarning)
        program = static.program()
    return program, [str(warning.message) for warning in caught if issubclass(warning.category, DivergenceWarning)]


def _steps(block: Any) -> Iterator[Step]:
    for node in operations(block):
        group = group_of(node)
        call: Any = node.args[0] if node.args else None
        if group is not None and getattr(call, "name", None) not in _BETWEEN_TWO:
            yield Step(_name(node), group.ranks, short_place(node.meta["location"]) if "location" in node.meta else "?")


def _name(node: fx.Node) -> str:
    return getattr(node.args[0], "__qualname__", None) or str(node.target)


def _difference(one: list[Step], other: list[Step], rank: int, other_rank: int) -> str | None:
    """Return in words where two processes would not do the same together."""
    pairs = [[step for step in steps if {rank, other_rank} <= {*step.ranks}] for steps in (one, other)]
    for position in range(max(map(len, pairs))):
        here, there = (steps[position] if position < len(steps) else None for steps in pairs)
        if here is None or there is None or here.name != there.name or here.ranks != there.ranks:
            return f"rank {rank} {_told(here)} where rank {other_rank} {_told(there)}: their programs are different ones"
    return None


def _told(step: Step | None) -> str:
    return "is done" if step is None else f"does {step.name} at {step.place}"
