"""The schema of the routes, for clients that are made from it."""

from __future__ import annotations

from typing import Any

from dy2st_runtime.serving.protocol.datatypes import DTYPES, TEXT

_NAME = {"type": "string"}
_SHAPE = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_PARAMETERS = {"type": "object"}
_ONE = [{"$ref": "#/components/schemas/tensor_data"}, {"type": "number"}, {"type": "string"}, {"type": "boolean"}]
_DATA = {
    "type": "array",
    "description": "Row by row, or nested as the shape says; numbers that JSON does not have are texts: NaN, Infinity, -Infinity.",
    "items": {"anyOf": _ONE},
}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(name: str) -> dict[str, Any]:
    return {"type": "array", "items": _ref(name)}


_DATATYPE = {"type": "string", "enum": [*DTYPES, TEXT]}
_SCHEMAS: dict[str, Any] = {
    "error": _object(["error"], error=_NAME),
    "parameters": _PARAMETERS,
    "tensor_data": _DATA,
    "server": _object(["name", "version", "extensions"], name=_NAME, version=_NAME, extensions={"type": "array", "items": _NAME}),
    "live": _object(["live"], live={"type": "boolean"}),
    "ready": _object(["ready"], ready={"type": "boolean"}),
    "model_ready": _object(["name", "ready"], name=_NAME, ready={"type": "boolean"}),
    "metadata_tensor": _object(
        ["name", "datatype", "shape"],
        name=_NAME,
        datatype=_DATATYPE,
        shape={"type": "array", "items": {"type": "integer", "minimum": -1}},
    ),
    "model": _object(
        ["name", "versions", "platform", "inputs", "outputs"],
        name=_NAME,
        versions={"type": "array", "items": _NAME},
        platform=_NAME,
        inputs=_list("metadata_tensor"),
        outputs=_list("metadata_tensor"),
    ),
    "request_input": _object(
        ["name", "datatype", "shape"],
        name=_NAME,
        datatype=_DATATYPE,
        shape=_SHAPE,
        parameters=_ref("parameters"),
        data=_ref("tensor_data"),
    ),
    "request_output": _object(["name"], name=_NAME, parameters=_ref("parameters")),
    "inference_request": _object(
        ["inputs"], id=_NAME, parameters=_ref("parameters"), inputs=_list("request_input"), outputs=_list("request_output")
    ),
    "response_output": _object(
        ["name", "datatype", "shape"],
        name=_NAME,
        datatype=_DATATYPE,
        shape=_SHAPE,
        parameters=_ref("parameters"),
        data=_ref("tensor_data"),
    ),
    "inference_response": _object(
        ["model_name", "outputs"], model_name=_NAME, model_version=_NAME, id=_NAME, outputs=_list("response_output")
    ),
    "index_request": _object([], ready={"type": "boolean"}),
    "index": {
        "type": "array",
        "items": _object(["name", "version", "state", "reason"], name=_NAME, version=_NAME, state=_NAME, reason=_NAME),
    },
    "load_request": _object([], parameters=_ref("parameters")),
}

_ROUTES = (
    ("get", "/v2", "server", None, ()),
    ("get", "/v2/health/live", "live", None, ()),
    ("get", "/v2/health/ready", "ready", None, (503,)),
    ("get", "/v2/models/{model}", "model", None, (404, 503)),
    ("get", "/v2/models/{model}/versions/{version}", "model", None, (404, 503)),
    ("get", "/v2/models/{model}/ready", "model_ready", None, (404, 503)),
    ("get", "/v2/models/{model}/versions/{version}/ready", "model_ready", None, (404, 503)),
    ("post", "/v2/models/{model}/infer", "inference_response", "inference_request", (404, 422, 429, 503, 504)),
    ("post", "/v2/models/{model}/versions/{version}/infer", "inference_response", "inference_request", (404, 422, 429, 503, 504)),
    ("post", "/v2/repository/index", "index", "index_request", ()),
    ("post", "/v2/repository/models/{model}/load", None, "load_request", (403, 404)),
    ("post", "/v2/repository/models/{model}/unload", None, "load_request", (403, 404)),
)


def document(release: str) -> dict[str, Any]:
    """Return the schema, of OpenAPI 3.0.

    Args:
        release: the version of the server.

    Example:
        >>> document("1.0")["openapi"]
        '3.0.3'
    """
    paths: dict[str, Any] = {}
    for method, path, result, request, statuses in _ROUTES:
        paths.setdefault(path, {})[method] = _operation(path, result, request, statuses)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Open Inference Protocol, version 2", "version": release, "license": {"name": "Apache 2.0"}},
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }


def _operation(path: str, result: str | None, request: str | None, statuses: tuple[int, ...]) -> dict[str, Any]:
    failed = {"description": "The message says why.", "content": {"application/json": {"schema": _ref("error")}}}
    responses: dict[str, Any] = {str(status): failed for status in (400, 401, 413, 500, *statuses)}
    if path == "/v2/health/ready":
        responses["503"] = {"description": "Not ready.", "content": {"application/json": {"schema": _ref("ready")}}}
    schema = {"type": "object"} if result is None else _ref(result)
    responses["200"] = {"description": "Done.", "content": {"application/json": {"schema": schema}}}
    names = [name for name in ("model", "version") if f"{{{name}}}" in path]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    operation: dict[str, Any] = {"responses": responses, "parameters": parameters}
    if request is not None:
        is_needed = request == "inference_request"
        operation["requestBody"] = {"required": is_needed, "content": {"application/json": {"schema": _ref(request)}}}
    return operation
