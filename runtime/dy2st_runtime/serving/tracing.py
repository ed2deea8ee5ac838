"""Spans of OpenTelemetry: one for each request, in that of its client, with one for its waiting and one for its running.

The packages of the extra ``tracing`` are imported when spans are wanted. Where they go is told by the environment variables of
OpenTelemetry (``OTEL_EXPORTER_OTLP_ENDPOINT``), unless the process has a provider already.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from dy2st_runtime.errors import ServingError
from dy2st_runtime.serving.scheduler import Ticket


class Tracing:
    """Makes spans of requests that are over.

    Raises:
        ServingError: a package is missing.
    """

    def __init__(self) -> None:
        try:
            from opentelemetry import propagate, trace
        except ModuleNotFoundError as error:
            raise ServingError(f"--tracing needs {error.name}: pip install 'dy2st[tracing]'") from None
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            _provide(trace)
        self._trace, self._extract = trace, propagate.extract
        self._tracer = trace.get_tracer("dy2st_runtime.serving")

    def add(
        self, headers: Iterable[tuple[bytes, bytes]], began: float, ticket: Ticket | None, failure: str | None, **attributes: str
    ) -> None:
        """Make the spans of a request that is over now.

        Args:
            headers: of the request; one of them may say which span of its client it belongs to.
            began: when it came, in seconds of ``time.perf_counter``.
            ticket: its call, if it came to one.
            failure: what the client was told instead of a result.
            **attributes: more about it.
        """
        now, offset = time.time_ns(), time.perf_counter()

        def at(moment: float) -> int:
            return now - int((offset - moment) * 1e9)

        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in _CONTEXT}
        kind = self._trace.SpanKind.SERVER
        span = self._tracer.start_span("infer", self._extract(carrier), kind, attributes, start_time=at(began))
        inside = self._trace.set_span_in_context(span)
        if ticket is not None and ticket.began:
            self._tracer.start_span("wait", inside, start_time=at(ticket.queued)).end(at(ticket.began))
            if ticket.ended:
                self._tracer.start_span("run", inside, start_time=at(ticket.began)).end(at(ticket.ended))
        if failure is not None:
            span.set_status(self._trace.StatusCode.ERROR, failure)
        span.end(now)


_CONTEXT = frozenset({b"traceparent", b"tracestate", b"baggage"})


def _provide(trace: Any) -> None:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise ServingError(f"--tracing needs {error.name}: pip install 'dy2st[tracing]'") from None
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
