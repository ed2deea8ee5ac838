"""The routes of HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dy2st_runtime.errors import Dy2stError
from dy2st_runtime.serving.protocol import json_messages
from dy2st_runtime.serving.protocol.failures import (
    BadRequestError,
    EncodingError,
    ForbiddenError,
    GoneError,
    RequestError,
    SlowRequestError,
    TooLargeError,
    failure_of,
)
from dy2st_runtime.serving.protocol.openapi import document
from dy2st_runtime.serving.repository import Found
from dy2st_runtime.serving.service import EXTENSIONS, NAME, PLATFORM, Service, Trip, release
from dy2st_runtime.serving.web import page

_JSON_SIZE = b"inference-header-content-length"
_TIMEOUT = b"x-request-timeout-ms"
_MODEL = "/v2/models/{model}"
_VERSION = _MODEL + "/versions/{version}"
_INFER = re.compile(r"/v2/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?/infer")

Answer = Callable[[HttpRequest], Awaitable[Response]]


def application(service: Service) -> ASGIApp:
    """Return the application of ASGI.

    Args:
        service: what answers.
    """
    inference = _Inference(service)
    routes = [Route(path + "/infer", inference, methods=["POST"]) for path in (_MODEL, _VERSION)]
    own = _Routes(service)
    for path in (_MODEL, _VERSION):
        routes += [Route(path, own.answered(own.model)), Route(path + "/ready", own.answered(own.model_ready))]
    for path, answer, methods in (
        ("/v2", own.server, ["GET"]),
        ("/v2/", own.server, ["GET"]),
        ("/v2/repository/index", own.index, ["POST"]),
        ("/v2/repository/models/{model}/load", own.load, ["POST"]),
        ("/v2/repository/models/{model}/unload", own.unload, ["POST"]),
        ("/metrics", own.metrics, ["GET"]),
        ("/status", own.status, ["GET"]),
    ):
        routes.append(Route(path, own.answered(answer), methods=methods))
    for path, answer in (
        ("/v2/health/live", own.live),
        ("/v2/health/ready", own.ready),
        ("/openapi.json", own.schema),
        ("/", own.page),
    ):
        routes.append(Route(path, own.answered(answer, is_open=True)))
    others = Starlette(routes=routes, exception_handlers={404: _not_found, 405: _wrong_method})

    async def answer_directly(scope: Scope, receive: Receive, send_to_client: Send) -> None:
        async def send(message: Message) -> None:
            with contextlib.suppress(RuntimeError):  # the client has cut the connection just now
                await send_to_client(message)

        found = _INFER.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await others(scope, receive, send)
        else:  # what a framework does around a route takes as long as the route
            scope["path_params"] = found.groupdict()
            await inference(scope, receive, send)

    return answer_directly


async def _not_found(request: HttpRequest, error: Exception) -> Response:
    return JSONResponse({"error": "there is no such page"}, 404)


async def _wrong_method(request: HttpRequest, error: Exception) -> Response:
    return JSONResponse({"error": "this page takes another method"}, 405, headers=getattr(error, "headers", None))


class _Routes:
    """All but inference."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._page, self._policy = page.html()

    def answered(self, answer: Answer, is_open: bool = False) -> Answer:
        """Return a route whose errors are told as the protocol does; without ``is_open`` it wants the API key."""

        async def route(request: HttpRequest) -> Response:
            try:
                if not is_open:
                    self.service.authorize(request.scope["headers"])
                if request.method == "POST":
                    _check_origin(dict(request.scope["headers"]))
                return await answer(request)
            except Dy2stError as error:
                failure = failure_of(error)
                return JSONResponse({"error": str(failure)}, failure.status, headers=_headers(failure))

        return route

    async def server(self, request: HttpRequest) -> Response:
        return JSONResponse({"name": NAME, "version": release(), "extensions": EXTENSIONS})

    async def live(self, request: HttpRequest) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, request: HttpRequest) -> Response:
        is_ready = self.service.is_ready
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    async def model(self, request: HttpRequest) -> Response:
        found = _found(self.service, request.path_params)
        return JSONResponse(described(self.service, found))

    async def model_ready(self, request: HttpRequest) -> Response:
        found = _found(self.service, request.path_params)
        return JSONResponse({"name": found.name, "ready": True})

    async def index(self, request: HttpRequest) -> Response:
        table = await self._table(request)
        ready = table.get("ready", False)
        if type(ready) is not bool:
            raise BadRequestError("ready is true or false")
        return JSONResponse(await asyncio.to_thread(self.service.repository.index, ready))

    async def load(self, request: HttpRequest) -> Response:
        return await self._control(request, True)

    async def unload(self, request: HttpRequest) -> Response:
        return await self._control(request, False)

    async def _control(self, request: HttpRequest, is_wanted: bool) -> Response:
        table = await self._table(request)
        unknown = set(table.get("parameters") or ()) - {"unload_dependents"}
        if unknown:
            raise BadRequestError("models are loaded from their files; there are no parameters")
        await asyncio.to_thread(self.service.control, request.path_params["model"], is_wanted)
        return JSONResponse({})

    async def _table(self, request: HttpRequest) -> dict[str, Any]:
        body = await _body(dict(request.scope["headers"]), request.receive, self.service)
        self.service.hold(-len(body))
        try:
            table = json.loads(body) if body else {}
        except (ValueError, RecursionError):
            raise BadRequestError("the request is not JSON") from None
        if type(table) is not dict or type(table.get("parameters") or {}) is not dict:
            raise BadRequestError("the request must be an object, and its parameters, too")
        return table

    async def metrics(self, request: HttpRequest) -> Response:
        return Response(self.service.gather().text(), media_type="text/plain; version=0.0.4")

    async def status(self, request: HttpRequest) -> Response:
        index = await asyncio.to_thread(self.service.repository.index)
        return JSONResponse(page.status(self.service, index))

    async def schema(self, request: HttpRequest) -> Response:
        return JSONResponse(document(release()))

    async def page(self, request: HttpRequest) -> Response:
        headers = {"Content-Security-Policy": self._policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
        return Response(self._page, media_type="text/html", headers=headers)


def described(service: Service, found: Found) -> dict[str, Any]:
    """Return the metadata of a model as the protocol has it."""
    signature = found.version.signatures[found.method]
    return {
        "name": found.name,
        "versions": service.repository.numbers_of(found.name),
        "platform": PLATFORM,
        "inputs": [item.described() for item in signature.inputs],
        "outputs": [item.described() for item in signature.outputs],
    }


def _found(service: Service, parameters: dict[str, Any]) -> Found:
    return service.repository.find(parameters["model"], parameters.get("version"))


class _Inference:
    """The route that models are called by, without what only other routes need."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        trip, service, held = Trip("http", scope["headers"]), self._service, 0
        try:
            service.authorize(scope["headers"])
            headers = dict(scope["headers"])
            _check_origin(headers)
            found = trip.found = _found(service, scope["path_params"])
            body = await _body(headers, receive, service)
            held = len(body)
            request = json_messages.parse(body, _whole(headers, _JSON_SIZE))
            milliseconds = _whole(headers, _TIMEOUT)
            timeout = None if milliseconds is None else milliseconds / 1e3
            results = await service.infer(trip, request, timeout, lambda: _gone(receive))
            content, size = json_messages.response(found.name, found.number, request, results)
        except Exception as error:
            failure = failure_of(error)
            service.account(trip, str(failure.status), failure)
            more = [(name.lower().encode(), value.encode()) for name, value in _headers(failure).items()]
            await _send(send, failure.status, _error(failure), [(b"content-type", b"application/json"), *more])
            return
        finally:
            service.hold(-held)
        service.account(trip, "200")
        if size is None:
            await _send(send, 200, content, [(b"content-type", b"application/json")])
        else:
            size_header = (b"inference-header-content-length", b"%d" % size)
            await _send(send, 200, content, [(b"content-type", b"application/octet-stream"), size_header])


def _error(failure: RequestError) -> bytes:
    return json.dumps({"error": str(failure)}).encode()


async def _send(send: Send, status: int, content: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    headers.append((b"content-length", b"%d" % len(content)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _headers(failure: RequestError) -> dict[str, str]:
    """Return what a failure says besides its message; where the body was not read, the connection ends."""
    if failure.status in (429, 503):
        return {"Retry-After": "1"}
    if failure.status == 401:
        return {"WWW-Authenticate": "Bearer", "Connection": "close"}
    return {"Connection": "close"} if failure.status in (403, 408, 413, 415) else {}


Headers = Mapping[bytes, bytes]


def _whole(headers: Headers, name: bytes) -> int | None:
    value = headers.get(name)
    if value is None:
        return None
    if not (value.isdigit() and 0 < len(value) <= 15):
        raise BadRequestError(f"the header {name.decode()} is a whole number from 0 on")
    return int(value)


def _check_origin(headers: Headers) -> None:
    """Refuse what pages of other sites send from the browser of somebody who can reach this server."""
    origin = headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
        raise ForbiddenError("the request comes from the page of another site")


async def _body(headers: Headers, receive: Receive, service: Service) -> bytearray:
    """Return the body of a request, whose bytes are held from now on.

    Raises:
        QueueFullError, TooLargeError, SlowRequestError, EncodingError: it is not taken.
        GoneError: nobody sends it any more.
    """
    encoding, length, limit = headers.get(b"content-encoding"), headers.get(b"content-length"), service.options.max_body
    if encoding not in (None, b"", b"identity"):
        raise EncodingError("the body must not be compressed")
    if length is not None and length.isdigit() and int(length[:20]) > limit:
        raise TooLargeError(_too_large(limit))
    if length == b"0":
        return bytearray()
    task, is_late = asyncio.current_task(), False
    assert task is not None

    def expire() -> None:
        nonlocal is_late
        is_late = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(service.options.receive_timeout, expire)
    try:
        return await _read(receive, limit, service)
    except asyncio.CancelledError:
        if not is_late:
            raise
        if hasattr(task, "uncancel"):  # from Python 3.11 on
            task.uncancel()
        raise SlowRequestError("the body did not come in time") from None
    finally:
        timer.cancel()


async def _read(receive: Receive, limit: int, service: Service) -> bytearray:
    body, is_whole = bytearray(), False
    try:
        while not is_whole:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise GoneError("the client is gone")
            part = message.get("body", b"")
            if len(body) + len(part) > limit:
                raise TooLargeError(_too_large(limit))
            service.hold(len(part))
            body += part
            is_whole = not message.get("more_body")
        return body
    finally:
        if not is_whole:
            service.hold(-len(body))


def _too_large(limit: int) -> str:
    return f"the body has more than {limit} bytes"


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
