"""The queue, without a server around it; the datatypes; and the command."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dy2st.cli.app import app
from dy2st_runtime import serving
from dy2st_runtime.serving.metrics import Metrics
from dy2st_runtime.serving.protocol.failures import DeadlineError, ModelError, QueueFullError, UnavailableError
from dy2st_runtime.serving.scheduler import Scheduler


class Gate:
    """Work that goes on when it may."""

    def __init__(self) -> None:
        self.open, self.began = threading.Event(), threading.Semaphore(0)
        self.done: list[object] = []

    def __call__(self, item: object) -> object:
        self.began.release()
        assert self.open.wait(10)
        self.done.append(item)
        return item


def test_calls_run_in_order_and_the_queue_is_bounded():
    gate = Gate()
    scheduler = Scheduler(gate, threads=1, capacity=3)
    first = scheduler.submit(0)
    gate.began.acquire()
    waiting = [scheduler.submit(number) for number in (1, 2, 3)]
    assert (scheduler.running, scheduler.waiting) == (1, 3)
    with pytest.raises(QueueFullError, match="3 requests wait already"):
        scheduler.submit(4)
    assert waiting[1].cancel() and scheduler.waiting == 2 and not first.cancel()
    gate.open.set()
    assert [call.result(10) for call in (first, waiting[0], waiting[2])] == [0, 1, 3] == gate.done
    with pytest.raises(CancelledError):
        waiting[1].result(10)
    assert scheduler.close(10)
    with pytest.raises(UnavailableError):
        scheduler.submit(5)


def test_a_call_behind_its_deadline_does_not_run():
    gate = Gate()
    scheduler = Scheduler(gate, threads=1, capacity=3)
    scheduler.submit(0)
    gate.began.acquire()
    late = scheduler.submit(1, deadline=time.perf_counter())
    gate.open.set()
    with pytest.raises(DeadlineError):
        late.result(10)
    assert scheduler.close(10) and gate.done == [0]


def test_what_is_raised_is_the_calls_own():
    def run(error: type[BaseException]) -> None:
        raise error("no")

    scheduler = Scheduler(run, threads=1, capacity=3)
    with pytest.raises(KeyError):
        scheduler.submit(KeyError).result(10)
    with pytest.raises(ModelError, match="SystemExit: no"):
        scheduler.submit(SystemExit).result(10)
    assert scheduler.close(10)


def test_nothing_of_a_call_is_kept():
    scheduler = Scheduler(lambda item: None, threads=1, capacity=3)
    item = torch.ones(3)
    gone = weakref.ref(item)
    ticket = scheduler.submit(item)
    ticket.result(10)
    del item
    time.sleep(0.05)
    gc.collect()
    assert gone() is None
    scheduler.close(10)


def test_who_waits_when_the_time_to_end_is_over_is_told():
    gate = Gate()
    scheduler = Scheduler(gate, threads=1, capacity=3)
    scheduler.submit(0)
    gate.began.acquire()
    waiting = scheduler.submit(1)
    assert not scheduler.close(0.05)
    with pytest.raises(UnavailableError):
        waiting.result(10)
    gate.open.set()


def test_workers_add_up_what_they_have_counted(tmp_path: Path):
    one, other = (Metrics(str(tmp_path), slot) for slot in (0, 1))
    for metrics in (one, other):
        metrics.count("dy2st_requests_total", model='a"b\\\n')
        metrics.observe("dy2st_request_seconds", 0.002, model="a")
        metrics.set_gauges([("dy2st_waiting", {"model": "a"}, 2)])
        metrics.leave()
    text = one.together().text()
    assert 'dy2st_requests_total{model="a\\"b\\\\\\n"} 2\n' in text and 'dy2st_waiting{model="a"} 4\n' in text
    assert 'dy2st_request_seconds_count{model="a"} 2\n' in text and 'le="0.0025"} 2\n' in text
    again = Metrics(str(tmp_path), 1)  # after that worker has died
    again.count("dy2st_requests_total", model='a"b\\\n')
    assert 'dy2st_requests_total{model="a\\"b\\\\\\n"} 3\n' in (again.leave(), one.together())[1].text()


def test_the_command_gives_its_options_to_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    given: list[serving.Options] = []
    monkeypatch.setattr(serving, "run", lambda options: given.append(options) or 0)
    key = tmp_path / "key"
    key.write_text("secret\n")
    words = [
        "serve",
        "nets/a.dy2st",
        "b=c.dy2st",
        "--port",
        "0",
        "--grpc-port",
        "-1",
        "--max-steps",
        "7",
        "--api-key-file",
        str(key),
    ]
    assert CliRunner().invoke(app, [*words, "--threads", "3", "--no-control"]).exit_code == 0
    (options,) = given
    assert options.models == {"a": "nets/a.dy2st", "b": "c.dy2st"} and options.api_key == "secret" and "secret" not in repr(options)
    assert (options.port, options.grpc_port, options.max_steps, options.threads, options.control) == (0, None, 7, 3, False)
    assert serving.Options.from_json(options.to_json()) == options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "there is nothing to serve"),
        (["a.dy2st", "b/a.dy2st"], "two models are called a"),
        (["missing.dy2st", "--port", "0"], "there is no archive at missing.dy2st"),
    ],
)
def test_the_command_tells_why_it_cannot_start(words, message):
    found = CliRunner().invoke(app, ["serve", *words])
    assert found.exit_code == 1 and message in " ".join(found.output.split())


def test_a_package_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serving, "PACKAGES", {"no_such_package": "no-such-package"})
    found = CliRunner().invoke(app, ["serve", "a.dy2st"])
    assert found.exit_code == 1 and "pip install 'dy2st[serve]'" in found.output
