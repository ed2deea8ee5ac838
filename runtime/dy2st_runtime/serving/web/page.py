"""The page at ``/`` and what it asks for."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources
from typing import Any

from dy2st_runtime.serving.metrics import Histogram, Metrics
from dy2st_runtime.serving.service import Service


def html() -> tuple[str, str]:
    """Return the page, and the policy that lets a browser run its own script and ask this server, and nothing else."""
    text = resources.files("dy2st_runtime.serving.web").joinpath("page.html").read_text(encoding="utf-8")
    hashes = {}
    for tag in ("script", "style"):
        inside = "".join(re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL))
        hashes[tag] = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, policy


def status(service: Service, index: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the page shows: the models, how much waits and runs, and how long requests take.

    Args:
        service: what serves them.
        index: of the repository.
    """
    metrics = service.gather()
    return {
        "ready": service.is_ready,
        "workers": service.options.workers,
        "control": service.options.allows_control,
        "models": [line | _occupancy(metrics, line) for line in index],
    }


def _occupancy(metrics: Metrics, line: dict[str, Any]) -> dict[str, Any]:
    name, number = line["name"], line["version"]
    times = Histogram()
    for (kind, labels), histogram in metrics.histograms.items():
        if kind == "dy2st_request_seconds" and dict(labels)["model"] == name:
            times.add(histogram)
    outcomes: dict[str, float] = {}
    for (kind, labels), value in metrics.counters.items():
        if kind == "dy2st_requests_total" and dict(labels)["model"] == name:
            outcome = dict(labels)["outcome"]
            outcomes[outcome] = outcomes.get(outcome, 0) + value
    place = (("model", name), ("version", number))
    return {
        "waiting": metrics.gauges.get(("dy2st_waiting", place), 0),
        "running": metrics.gauges.get(("dy2st_running", place), 0),
        "outcomes": outcomes,
        "p50": times.quantile(0.5),
        "p99": times.quantile(0.99),
    }
