"""Spans of OpenTelemetry, with its own packages."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dy2st_runtime.errors import ServingError
from tests.serving.clients import soon, tensor
from tests.serving.conftest import Serve

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(scope="module")
def exporter() -> Any:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    result, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(result))
    trace.set_tracer_provider(provider)
    return result


def test_a_request_is_a_span_in_that_of_its_client(serve: Serve, exporter: Any):
    http = serve("spin", tracing=True).http()
    body = {"inputs": [tensor("trips", torch.tensor(1000))]}
    assert http.ask("POST", "/v2/models/spin/infer", body, traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")[0] == 200
    soon(lambda: len(exporter.get_finished_spans()) == 3)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    infer, wait, run = (spans[name] for name in ("infer", "wait", "run"))
    assert f"{infer.context.trace_id:032x}" == TRACE and infer.parent.span_id == 0x00F067AA0BA902B7
    assert wait.parent.span_id == run.parent.span_id == infer.context.span_id
    assert infer.start_time <= wait.start_time <= wait.end_time <= run.start_time < run.end_time <= infer.end_time
    assert dict(infer.attributes) == {"model": "spin", "version": "1", "protocol": "http", "outcome": "200"}
    exporter.clear()
    assert http.infer("spin")[0] == 400
    (failed,) = soon(exporter.get_finished_spans)
    assert not failed.status.is_ok and "input 'trips' is missing" in failed.status.description


def test_packages_that_are_missing_are_told(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ServingError, match=r"dy2st\[tracing\]"):
        serve("spin", tracing=True)
