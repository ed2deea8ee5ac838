"""Functions of ``torch.distributed``: the program calls them, each time and in order, and waits for them where eager does.

What a process is in its group (its rank, the size of the group) is read at capture and checked at each call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from torch import distributed

from dy2st import errors
from dy2st.capture.library.registry import handles, refuses
from dy2st.capture.recording.recorder import fresh_number
from dy2st.capture.session.session import Session, current
from dy2st.capture.values.symbolic import RuntimeFunction
from dy2st_runtime.distributed.collectives import COLLECTIVES, QUESTIONS, Batch, Collective, Expect, Group, ask
from dy2st_runtime.primitives import control

_STARTED = ("isend", "irecv")
"""Those that never wait."""
_OBJECTS = (
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list", "recv_object_list",
)  # fmt: skip
_ANSWERS = (
    "get_rank", "get_world_size", "is_initialized", "get_backend", "get_process_group_ranks", "get_group_rank", "get_global_rank",
    "get_node_local_rank",
)  # fmt: skip
_MANAGING = (
    "init_process_group", "destroy_process_group", "new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group",
    "shrink_group",
)  # fmt: skip


class Work(RuntimeFunction):
    """What a collective that does not wait gives: asked, it records that the program asks the work of this call.

    Args:
        session: the capture.
        name: of the function that started it.
    """

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name = session, name
        session.allocations.created[id(self)] = self

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Return ``self.wait(timeout)``."""
        return self._ask("wait", args, kwargs)

    def is_completed(self) -> Any:
        """Return ``self.is_completed()``."""
        return self._ask("is_completed")

    def is_success(self) -> Any:
        """Return ``self.is_success()``."""
        return self._ask("is_success")

    def _ask(self, method: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        session = current()
        if session is not self._session or not session.builder.knows(self):
            raise errors.CaptureError(
                f"what {self._name}() gave is asked outside of the block of the program that made it",
                session.here() if session is not None else None,
                fix="wait for it in the branch, loop or function that starts it",
            )
        answer = fresh_number(session.shapes, "bool")
        session.builder.call(control.call_, (ask, (self, method, *args), kwargs or {}), {}, answer)
        return answer

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise errors.CaptureError(
            f"{name} of the work of {self._name}() cannot be used inside a captured function",
            self._session.here(),
            fix="wait() for it",
        )


def _is_outside(group: Any) -> bool:
    """Tell whether this process is not in a group: then nothing is done, and there is nothing to wait for."""
    return group is distributed.GroupMember.NON_GROUP_MEMBER


def _collective(function: Callable[..., Any], session: Session, *args: Any, **kwargs: Any) -> Any:
    signature = inspect.signature(function)
    given = signature.bind(*args, **kwargs).arguments
    name, group, operation = function.__name__, given.pop("group", None), given.pop("op", None)
    waits = name not in _STARTED and not given.get("async_op", False)
    if name == "recv":
        result: Any = fresh_number(session.shapes, "int")
    else:
        result = None if waits or _is_outside(group) else Work(session, name)
    parameters = [*signature.parameters]
    first = next((at for at, known in enumerate(parameters) if known not in given), len(parameters))
    shown = tuple(given.pop(known) for known in parameters[:first])
    session.builder.call(control.call_, (Collective(name, Group.of(group), operation), shown, given), {}, result)
    return result


def _batch(session: Session, p2p_op_list: Sequence[Any]) -> list[Any]:
    """Start sends and receives together; each gives a work, or they have one, as their group does it."""
    if not p2p_op_list:
        return distributed.batch_isend_irecv([])
    batch = Batch([(op.op.__name__, op.peer, Group.of(op.group), op.tag) for op in p2p_op_list])
    works = [Work(session, batch.name) for _ in p2p_op_list[: _number_of_works(p2p_op_list)]]
    session.builder.call(control.call_, (batch, tuple(op.tensor for op in p2p_op_list), {}), {}, tuple(works))
    return works


def _number_of_works(operations: Sequence[Any]) -> int:
    group = operations[0].group or distributed.group.WORLD
    together = type(group) is distributed.ProcessGroup and group._get_backend(operations[0].tensor.device).supports_coalescing
    return 1 if together else len(operations)


def _answer(function: Callable[..., Any], session: Session, *args: Any, **kwargs: Any) -> Any:
    """Read at capture; the program is for processes of which it is true."""
    given = inspect.signature(function).bind(*args, **kwargs)
    given.apply_defaults()
    if session.request.for_any_call and function.__name__ in QUESTIONS:
        group = Group.of(given.arguments["group"]) if distributed.is_initialized() and "group" in given.arguments else None
        answer = function(*given.args)
        session.builder.call(control.call_, (Expect(function.__name__, group, answer), (), {}), {}, None)
        return answer
    return session.tracker.answer(function, given.args, f"torch.distributed.{function.__name__}()")


def _register() -> None:
    for name in COLLECTIVES:
        function = getattr(distributed, name, None)
        if function is not None:
            handles(function)(functools.partial(_collective, function))
    handles(distributed.batch_isend_irecv)(_batch)
    for name in _ANSWERS:
        handles(getattr(distributed, name))(functools.partial(_answer, getattr(distributed, name)))
    for name in _OBJECTS:
        refuses(
            getattr(distributed, name),
            message=f"torch.distributed.{name}() moves Python objects, and what comes is known only when the program runs",
            fix="move tensors, or call it outside of the static function",
        )
    for name in _MANAGING:
        if hasattr(distributed, name):
            refuses(
                getattr(distributed, name),
                message=f"torch.distributed.{name}() inside a captured function would be called only once, at capture",
                fix="call it outside of the static function",
            )


if distributed.is_available():
    _register()
