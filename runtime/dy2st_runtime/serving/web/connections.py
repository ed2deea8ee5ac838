"""Connections of HTTP that cannot be held open, or filled, for nothing; made of uvicorn's with httptools."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 64 << 10
"""Bytes of the head of a request."""


def protocol_class(seconds: float) -> Any:
    """Return the class of connections for uvicorn.

    Args:
        seconds: how long a client may take for the head of a request, and for reading anything more of a response.
    """
    return type("Connection", (Connection,), {"seconds": seconds})


class _Joining:
    """A transport for one response, whose head is written together with what follows it: in one packet, by one call."""

    def __init__(self, transport: Any) -> None:
        self._transport, self._head, self._is_over = transport, b"", False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._is_over or data.startswith(b"HTTP/1.1 100"):
            self._transport.write(data)
        elif not self._head:
            self._head = data
        else:
            self._is_over = True
            self._transport.write(self._head + data)

    def close(self) -> None:
        if self._head and not self._is_over:
            self._transport.write(self._head)
        self._transport.close()


class Connection(HttpToolsProtocol):
    """A connection that gives up a client which sends or reads too slowly."""

    seconds: ClassVar[float]
    _timer: asyncio.TimerHandle | None = None
    _is_in_head, _head_size, _left = False, 0, -1

    def connection_made(self, transport: Any) -> None:
        """Expect a request soon."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(self.seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Expect the end of the head, soon and after not too much."""
        super().data_received(data)
        if self._is_in_head:
            self._head_size += len(data)
            if self._head_size > MOST_HEAD:
                self.transport.abort()
            elif self._timer is None:
                self._timer = self.loop.call_later(self.seconds, self.transport.abort)

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._is_in_head, self._head_size = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that it ends."""
        self._is_in_head = False
        self._disarm()
        super().on_headers_complete()
        if self.cycle is not None and self.scope.get("method") != "HEAD":
            self.cycle.transport = _Joining(self.transport)  # type: ignore[assignment]  # it is used as one

    def on_response_complete(self) -> None:
        """Expect that the response is read."""
        super().on_response_complete()
        if self.transport is not None and self.transport.get_write_buffer_size():
            self._left = -1
            self._expect_progress()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
        self._disarm()
        super().connection_lost(exc)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expect_progress(self) -> None:
        left = self.transport.get_write_buffer_size()
        if left and left == self._left:
            self.transport.abort()
        elif left:
            self._left = left
            self.loop.call_later(self.seconds, self._expect_progress)
