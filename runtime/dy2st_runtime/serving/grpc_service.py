"""The service of gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from dy2st_runtime.errors import Dy2stError
from dy2st_runtime.serving.options import Options
from dy2st_runtime.serving.protocol import grpc_messages
from dy2st_runtime.serving.protocol.failures import RequestError, failure_of
from dy2st_runtime.serving.protocol.grpc_messages import SERVICE, messages
from dy2st_runtime.serving.service import EXTENSIONS, NAME, PLATFORM, Service, Trip, release

_HEAD = 64 << 10
"""Bytes of a message besides its tensors."""


async def listen(service: Service, port: int, is_shared: bool) -> tuple[Any, int]:
    """Start to serve gRPC.

    Args:
        service: what answers.
        port: where; 0 for any that is free.
        is_shared: whether other processes listen there, too.

    Returns:
        The server, and the port.

    Raises:
        OSError: the address is taken.
    """
    options = service.options
    server = grpc.aio.server(
        maximum_concurrent_rpcs=options.max_connections,
        options=[
            ("grpc.so_reuseport", int(is_shared)),
            ("grpc.max_receive_message_length", min(options.max_body + _HEAD, (1 << 31) - 1)),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", _HEAD),
        ],
    )
    server.add_generic_rpc_handlers((_handlers(service),))
    address = f"[{options.host}]:{port}" if ":" in options.host else f"{options.host}:{port}"
    try:
        bound = server.add_secure_port(address, _credentials(options)) if options.tls_cert else server.add_insecure_port(address)
    except RuntimeError:
        bound = 0
    if not bound:
        raise OSError(f"cannot listen at {address} for gRPC: the address is taken, or is not one of this machine")
    await server.start()
    return server, bound


def _credentials(options: Options) -> Any:
    with open(options.tls_cert or "", "rb") as cert, open(options.tls_key or options.tls_cert or "", "rb") as key:
        pair = key.read(), cert.read()
    authority = None
    if options.tls_client_ca is not None:
        with open(options.tls_client_ca, "rb") as file:
            authority = file.read()
    return grpc.ssl_server_credentials([pair], authority, authority is not None)


def _handlers(service: Service) -> Any:
    own = _Methods(service)
    table = {
        "ServerLive": (own.server_live, True),
        "ServerReady": (own.server_ready, True),
        "ModelReady": (own.model_ready, False),
        "ServerMetadata": (own.server_metadata, False),
        "ModelMetadata": (own.model_metadata, False),
        "RepositoryIndex": (own.repository_index, False),
        "RepositoryModelLoad": (own.repository_load, False),
        "RepositoryModelUnload": (own.repository_unload, False),
    }
    handlers = {name: _handler(name, own.answered(answer, is_open)) for name, (answer, is_open) in table.items()}
    return grpc.method_handlers_generic_handler(SERVICE, handlers | {"ModelInfer": _handler("ModelInfer", own.model_infer)})


def _handler(name: str, answer: Any) -> Any:
    taken, given = messages()[f"{name}Request"], messages()[f"{name}Response"]
    return grpc.unary_unary_rpc_method_handler(answer, taken.FromString, given.SerializeToString)


Answer = Callable[[Any], Awaitable[Any]]


class _Methods:
    """What each method answers."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def answered(self, answer: Answer, is_open: bool) -> Any:
        """Return a method whose errors are told as gRPC does; without ``is_open`` it wants the API key."""

        async def method(request: Any, context: Any) -> Any:
            try:
                if not is_open:
                    self._authorize(context)
                return await answer(request)
            except Dy2stError as error:
                await _abort(context, failure_of(error))

        return method

    def _authorize(self, context: Any) -> None:
        if self.service.options.api_key is not None:
            self.service.authorize(_headers(context))

    async def server_live(self, request: Any) -> Any:
        return messages()["ServerLiveResponse"](live=True)

    async def server_ready(self, request: Any) -> Any:
        return messages()["ServerReadyResponse"](ready=self.service.is_ready)

    async def model_ready(self, request: Any) -> Any:
        try:
            self.service.repository.find(request.name, request.version)
        except RequestError as error:
            if error.status != 503:
                raise
            return messages()["ModelReadyResponse"](ready=False)
        return messages()["ModelReadyResponse"](ready=True)

    async def server_metadata(self, request: Any) -> Any:
        return messages()["ServerMetadataResponse"](name=NAME, version=release(), extensions=EXTENSIONS)

    async def model_metadata(self, request: Any) -> Any:
        found = self.service.repository.find(request.name, request.version)
        signature = found.version.signatures[found.method]
        numbers = self.service.repository.numbers_of(found.name)
        return grpc_messages.metadata(found.name, numbers, PLATFORM, signature.inputs, signature.outputs)

    async def repository_index(self, request: Any) -> Any:
        index = await asyncio.to_thread(self.service.repository.index, request.ready)
        return messages()["RepositoryIndexResponse"](models=index)

    async def repository_load(self, request: Any) -> Any:
        await asyncio.to_thread(self.service.control, request.model_name, True)
        return messages()["RepositoryModelLoadResponse"]()

    async def repository_unload(self, request: Any) -> Any:
        await asyncio.to_thread(self.service.control, request.model_name, False)
        return messages()["RepositoryModelUnloadResponse"]()

    async def model_infer(self, message: Any, context: Any) -> Any:
        trip, service = Trip("grpc"), self.service
        try:
            self._authorize(context)
            if service.options.tracing:
                trip.headers = _headers(context)
            found = trip.found = service.repository.find(message.model_name, message.model_version)
            request = grpc_messages.parse(message)
            results = await service.infer(trip, request, context.time_remaining())
            answer = grpc_messages.response(found.name, found.number, request, results)
        except asyncio.CancelledError:  # by the client, or by its deadline
            service.account(trip, "CANCELLED")
            raise
        except Exception as error:
            failure = failure_of(error)
            service.account(trip, failure.code, failure)
            await _abort(context, failure)
        service.account(trip, "OK")
        return answer


def _headers(context: Any) -> list[tuple[bytes, bytes]]:
    metadata = context.invocation_metadata() or ()
    return [(name.encode(), value.encode() if isinstance(value, str) else value) for name, value in metadata]


async def _abort(context: Any, failure: RequestError) -> None:
    await context.abort(grpc.StatusCode[failure.code], str(failure))
