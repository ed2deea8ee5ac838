"""Collectives of a program as plain data and back: the function, and the group by its name and ranks."""

from __future__ import annotations

from typing import Any

from torch import distributed, fx

from dy2st_runtime.distributed import agreement, collectives
from dy2st_runtime.errors import SaveError
from dy2st_runtime.ir.document import Json
from dy2st_runtime.primitives import control

TARGET = "collective_"
"""The target of an operation that works together with other processes."""
_ASKS = "asks"
_TOLD: dict[str, type[agreement.Told]] = {kind.name: kind for kind in (agreement.Agree, agreement.Either)}
_FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (
        agreement.mask, agreement.tie, agreement.link, agreement.all_hold, agreement.holds_or_idle,
    )
}  # fmt: skip
"""What a program calls where processes take a way together."""


def to_json(node: fx.Node) -> dict[str, Any] | None:
    """Return what tells a collective; ``None`` where an operation is none.

    Raises:
        SaveError: it exists only in this process.
    """
    call: Any = node.args[0] if node.target is control.call_ else None
    if call is collectives.ask:
        return {"target": TARGET, "function": _ASKS}
    if isinstance(call, collectives.Expect):
        group = {} if call.group is None else {"group": _group(call.group)}
        return {"target": TARGET, "function": call.question, "answer": call.answer, **group}
    if isinstance(call, collectives.Batch):
        parts = [[name, peer, tag, _group(group)] for name, peer, group, tag in call.parts]
        return {"target": TARGET, "function": call.name, "parts": parts}
    if isinstance(call, agreement.Told):
        return {"target": TARGET, "function": call.name, "group": _group(call.group), "place": call.place, "what": call.what}
    if call in _FUNCTIONS.values():
        return {"target": TARGET, "function": call.__name__}
    if not isinstance(call, collectives.Collective):
        return None
    results: dict[str, Any] = {"target": TARGET, "function": call.name}
    if call.operation is not None:
        name = getattr(call.operation, "name", None)
        if name not in collectives.OPERATIONS:
            raise SaveError(f"{call.name} reduces by {call.operation!r}, which exists only in this process")
        results["operation"] = name
    return results | ({} if call.group is None else {"group": _group(call.group)})


def ranks_to_json(node: fx.Node) -> dict[str, Any]:
    """Return the ranks of the group that an operator of torch names which is a collective."""
    name = collectives.group_name(node.target, node.args, node.kwargs)
    if name is None:
        return {}
    return {"ranks": distributed.get_process_group_ranks(collectives.named(name))}


def check_ranks(json: Json, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check that this process has the group which such an operator names.

    Raises:
        LoadError: it does not say its ranks.
        GroupError: this process has no such group.
    """
    name = collectives.group_name(target, args, kwargs)
    if name is not None:
        collectives.Group(name, tuple(rank.integer(0) for rank in json.field("ranks").array())).find()


def _group(group: Any) -> list[Any]:
    return [group.name, list(group.ranks)]


def read(json: Json) -> Any:
    """Return what an operation calls.

    Raises:
        LoadError: it is nothing that a file may say.
        GroupError: this process has no such group.
    """
    function = json.field("function")
    name = function.text()
    if name == _ASKS:
        return collectives.ask
    if name in collectives.QUESTIONS:
        given = json.optional("group")
        answer = json.field("answer").value
        if type(answer) not in (int, bool):
            json.field("answer").fail("a number or a bool")
        result = collectives.Expect(name, None if given is None else _read_group(given), answer)
        result()
        return result
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name in _TOLD:
        return _TOLD[name](_read_group(json.field("group")), json.field("place").text(), json.field("what").text())
    if name == collectives.Batch.name:
        return collectives.Batch([_read_part(part) for part in json.field("parts").array()])
    if name not in collectives.COLLECTIVES or not hasattr(distributed, name):
        function.fail("the name of a collective of torch.distributed")
    operation = json.optional("operation")
    if operation is not None and operation.text() not in collectives.OPERATIONS:
        operation.fail("the name of a reduction")
    reduced = None if operation is None else getattr(distributed.ReduceOp, operation.text())
    group = json.optional("group")
    return collectives.Collective(name, None if group is None else _read_group(group), reduced)


def _read_part(json: Json) -> Any:
    name, peer, tag, group = json.array(4)
    if name.text() not in ("isend", "irecv"):
        name.fail("isend or irecv")
    return name.text(), peer.integer(0), _read_group(group), tag.integer(0)


def _read_group(json: Json) -> Any:
    name, ranks = json.array(2)
    known = None if name.value is None else name.text()
    return collectives.Group(known, tuple(rank.integer(0) for rank in ranks.array())).find()
