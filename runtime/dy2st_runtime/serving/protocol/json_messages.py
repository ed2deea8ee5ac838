"""Requests and responses of inference as JSON, with the tensors of the binary extension behind it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from dy2st_runtime.serving.protocol.datatypes import Given, Result
from dy2st_runtime.serving.protocol.failures import BadRequestError

_MOST_SIZE = (1 << 63) - 1


@dataclasses.dataclass(frozen=True)
class Request:
    """What a client asks of a model.

    Attributes:
        inputs: its tensors.
        outputs: the names of the results that it asks for; ``None`` for all.
        id: what it calls the request.
        timeout: how many seconds it gives it; ``None`` where it does not say.
        binary: the results that it wants as bytes, by name.
        all_binary: whether it wants the others so.
    """

    inputs: tuple[Given, ...]
    outputs: tuple[str, ...] | None = None
    id: str = ""
    timeout: float | None = None
    binary: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    all_binary: bool = False


def parse(body: bytearray, json_size: int | None) -> Request:
    """Return the request in a body.

    Args:
        body: all of it; tensors may stay in its memory.
        json_size: how many bytes of it are JSON, of the header ``Inference-Header-Content-Length``; ``None`` for all.

    Raises:
        BadRequestError: it is not what the protocol says; the message says what was wanted.

    Example:
        >>> parse(bytearray(b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [2]}]}'), None).inputs[0].data
        [2]
    """
    if json_size is not None and not 0 <= json_size <= len(body):
        raise BadRequestError(f"Inference-Header-Content-Length is {json_size}, but the body has {len(body)} bytes")
    table = _object(_json(body if json_size is None else body[:json_size]), "the request")
    tail = memoryview(body)[len(body) if json_size is None else json_size :]
    inputs = []
    for number, item in enumerate(_list(table.get("inputs"), "inputs")):
        given, size = _input(_object(item, f"inputs[{number}]"), f"inputs[{number}]", tail)
        inputs.append(given)
        tail = tail[size:]
    if len(tail):
        raise BadRequestError(f"{len(tail)} bytes stand behind the last tensor")
    parameters = _object(table.get("parameters") or {}, "parameters")
    outputs, binary = _outputs(table.get("outputs"))
    return Request(
        tuple(inputs),
        outputs,
        _text(table.get("id", ""), "id"),
        timeout_of(parameters.get("timeout")),
        binary,
        _flag(parameters, "binary_data_output"),
    )


def timeout_of(value: Any) -> float | None:
    """Return the seconds of the parameter ``timeout``, which is in microseconds.

    Raises:
        BadRequestError: it is no positive number.
    """
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise BadRequestError("the parameter timeout is a positive whole number of microseconds")
    return min(value / 1e6, 1e9)


def _json(body: bytearray) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        text = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise BadRequestError(f"the request is not JSON: {text}") from None


def _input(table: dict[str, Any], where: str, tail: memoryview) -> tuple[Given, int]:
    name, datatype = _text(table.get("name"), f"{where}.name"), _text(table.get("datatype"), f"{where}.datatype")
    shape = tuple(_list(table.get("shape"), f"{where}.shape"))
    if not all(type(size) is int and 0 <= size <= _MOST_SIZE for size in shape):
        raise BadRequestError(f"{where}.shape is a list of sizes from 0 to 2**63 - 1")
    parameters = _object(table.get("parameters") or {}, f"{where}.parameters")
    if "binary_data_size" not in parameters:
        return Given(name, datatype, shape, _list(table.get("data"), f"{where}.data")), 0
    size = parameters["binary_data_size"]
    if type(size) is not int or not 0 <= size <= len(tail):
        raise BadRequestError(f"{where} has binary_data_size {str(size)[:40]}, and {len(tail)} bytes are left of the body")
    if "data" in table:
        raise BadRequestError(f"{where} has data in its JSON and binary_data_size")
    return Given(name, datatype, shape, tail[:size]), size


def _outputs(value: Any) -> tuple[tuple[str, ...] | None, dict[str, bool]]:
    if value is None or value == []:
        return None, {}
    names, binary = [], {}
    for number, item in enumerate(_list(value, "outputs")):
        table = _object(item, f"outputs[{number}]")
        names.append(_text(table.get("name"), f"outputs[{number}].name"))
        parameters = _object(table.get("parameters") or {}, f"outputs[{number}].parameters")
        if "binary_data" in parameters:
            binary[names[-1]] = _flag(parameters, "binary_data")
    if len(set(names)) < len(names):
        raise BadRequestError("outputs names one twice")
    return tuple(names), binary


def _flag(parameters: dict[str, Any], name: str) -> bool:
    value = parameters.get(name, False)
    if type(value) is not bool:
        raise BadRequestError(f"the parameter {name} is true or false")
    return value


def _object(value: Any, where: str) -> dict[str, Any]:
    return value if type(value) is dict else _fail(where, "an object", value)


def _list(value: Any, where: str) -> list[Any]:
    return value if type(value) is list else _fail(where, "a list", value)


def _text(value: Any, where: str) -> str:
    return value if type(value) is str else _fail(where, "a text", value)


_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "not there"}


def _fail(where: str, wanted: str, value: Any) -> NoReturn:
    raise BadRequestError(f"{where} must be {wanted}, but is {_KINDS.get(type(value), 'a number')}")


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def response(name: str, number: str, request: Request, results: Sequence[Result]) -> tuple[bytes, int | None]:
    """Return the body of a response.

    Args:
        name: of the model.
        number: of its version.
        request: what was asked.
        results: what the model gave.

    Returns:
        The body, and how many bytes of it are JSON where tensors stand behind it.
    """
    outputs, parts = [], []
    for result in results:
        table: dict[str, Any] = {"name": result.name, "datatype": result.datatype, "shape": result.shape}
        if request.binary.get(result.name, request.all_binary):
            parts.append(result.raw())
            table["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            table["data"] = result.json_values()
        outputs.append(table)
    message: dict[str, Any] = {"model_name": name, "model_version": number, "outputs": outputs}
    if request.id:
        message["id"] = request.id
    head = _ENCODER.encode(message).encode()
    return (b"".join((head, *parts)), len(head)) if parts else (head, None)
