"""What code does with the world around it: at each call as in eager, or refused; what it reads there is read again when it changes."""

from __future__ import annotations

import contextlib
import datetime
import io
import itertools
import os
import pathlib
import queue
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import numpy as np
import pytest
import torch

import dy2st
from tests.oracle import agree

FOLDER = pathlib.Path(tempfile.mkdtemp())
LOCK, LINES, NUMBERS, RANDOM = threading.Lock(), queue.Queue(), np.random.default_rng(0), np.random.RandomState(0)


def opens(x):
    with open(FOLDER / "log", "a") as file:
        file.write("x")
    return x


def reads_a_path(x):
    return x + len((FOLDER / "log").read_text())


def writes_a_path(x):
    pathlib.Path(FOLDER, "log").write_text("x")
    return x


def loads(x):
    return x + torch.load(FOLDER / "weights")


def loads_an_array(x):
    return x + torch.from_numpy(np.load(FOLDER / "array.npy"))


def makes_a_folder(x):
    os.makedirs(FOLDER / "more", exist_ok=True)
    return x


def lists_a_folder(x):
    return x + len(os.listdir(FOLDER))


def runs_a_process(x):
    subprocess.run(["true"])
    return x


def sets_the_environment(x):
    os.environ["DY2ST_TEST_SET"] = "1"
    return x


def starts_a_thread(x):
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    return x


def takes_a_lock(x):
    with LOCK:
        return x + 1


def puts_into_a_queue(x):
    LINES.put(1)
    return x


def asks_the_date(x):
    return x, datetime.datetime.now()


def asks_the_time_in_words(x):
    return x, time.strftime("%H:%M:%S")


def makes_a_name(x):
    return x, str(uuid.uuid4())


def draws_a_secret(x):
    return x * secrets.randbelow(10)


def draws_with_numpy(x):
    return x * NUMBERS.random()


def draws_with_a_state(x):
    return x * RANDOM.rand()


def sets_a_setting(x):
    torch.set_flush_denormal(False)
    return x


def redirects(x):
    with contextlib.redirect_stdout(io.StringIO()):
        print("unseen")
    return x


@pytest.mark.parametrize(
    "function",
    [
        opens, reads_a_path, writes_a_path, loads, loads_an_array, makes_a_folder, lists_a_folder, runs_a_process,
        sets_the_environment, starts_a_thread, takes_a_lock, puts_into_a_queue, asks_the_date, asks_the_time_in_words, makes_a_name,
        draws_a_secret, draws_with_numpy, draws_with_a_state, sets_a_setting, redirects,
    ],
)  # fmt: skip
def test_what_would_be_done_once_is_refused(function):
    torch.save(torch.ones(2), FOLDER / "weights")
    np.save(FOLDER / "array.npy", np.ones(2, dtype=np.float32))
    (FOLDER / "log").write_text("")
    with pytest.raises(dy2st.CaptureError, match=r"(?s)only once, at capture.*test_surroundings.py"):
        dy2st.to_static(function)(torch.ones(2))
    assert not (FOLDER / "log").read_text()


def test_what_is_written_is_written_at_each_call(tmp_path):
    def f(x):
        if x.sum() > 0:
            torch.save({"x": x * 2, "n": 1}, tmp_path / "saved")
            sys.stdout.write("positive\n")
        else:
            sys.stdout.write(f"{x.sum()} is not\n")
        return x + 1

    agree(f, [torch.ones(2), -torch.ones(2)], programs=None)
    for backend in ("python", "native"):
        static = dy2st.to_static(f, backend=backend)
        for factor in (1, 2, 3):
            static(torch.ones(2) * factor)
            assert torch.load(tmp_path / "saved")["x"].tolist() == [2 * factor, 2 * factor]


def test_a_stream_from_outside_is_written_to_at_each_call():
    log = io.StringIO()

    @dy2st.to_static
    def f(x):
        if x.sum() > 0:
            n = log.write("positive\n")
            return x * n
        return x

    for sign in (1, -1, 1):
        f(torch.ones(2) * sign)
    assert log.getvalue() == "positive\npositive\n"
    assert len(f.program_cache) == 1


def test_a_stream_of_its_own_is_plain_python():
    def f(x):
        text = io.StringIO()
        text.write("a")
        return x, text.getvalue()

    agree(f, [torch.ones(2), -torch.ones(2)])


def test_a_generator_from_outside_draws_at_each_call():
    generator = random.Random()

    def f(x):
        y = x * generator.random()
        return y + generator.randint(1, 5) if x.sum() > 0 else y

    static = dy2st.to_static(f)
    for sign in (1, -1, 1):
        generator.seed(7)
        expected = f(torch.ones(2) * sign)
        generator.seed(7)
        assert torch.equal(static(torch.ones(2) * sign), expected)
    assert len(static.program_cache) == 1


def test_clocks_are_read_at_each_call():
    @dy2st.to_static
    def f(x):
        return x, time.monotonic_ns(), time.process_time()

    (_, first, _), (_, second, _) = f(torch.ones(1)), f(torch.ones(1))
    assert 0 < first < second
    assert len(f.program_cache) == 1


COUNTERS = [itertools.count()]


def test_an_iterator_in_a_list_goes_on():
    @dy2st.to_static
    def f(x):
        return x * next(COUNTERS[0])

    assert [f(torch.ones(())).item() for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("backend", ["python", "native"])
def test_what_the_environment_says_is_checked_at_each_call(monkeypatch, tmp_path, backend):
    def f(x):
        if x.sum() > 0:
            x = x * int(os.environ["DY2ST_TEST_FACTOR"])
        x = x * int(os.getenv("DY2ST_TEST_FACTOR", "1")) + ("DY2ST_TEST_MORE" in os.environ)
        return x + os.path.exists(tmp_path / "flag") + (tmp_path / "flag").is_file(), os.getcwd(), torch.backends.mkldnn.enabled

    static = dy2st.to_static(f, backend=backend)
    monkeypatch.setenv("DY2ST_TEST_FACTOR", "2")

    def check(programs):
        for _ in range(3):
            (value, *others), (expected, *known) = static(torch.ones(2)), f(torch.ones(2))
            assert torch.equal(value, expected)
            assert others == known
        assert len(static.program_cache) == programs

    check(1)
    monkeypatch.setenv("DY2ST_TEST_FACTOR", "3")
    check(2)
    monkeypatch.setenv("DY2ST_TEST_MORE", "")
    check(3)
    (tmp_path / "flag").touch()
    check(4)
    monkeypatch.chdir(tmp_path)
    check(5)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", not torch.backends.mkldnn.enabled)
    check(6)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: np.array([None]), lambda x: iter([1, 2]), lambda x: zip([1], [2]), lambda x: torch.jit.fork(lambda y: y, x),
    ],
)  # fmt: skip
def test_what_a_library_makes_at_each_call_cannot_be_returned(make):
    with pytest.raises(dy2st.CaptureError, match=r"(?s)that it makes itself.*test_surroundings.py"):
        dy2st.to_static(lambda x: (x, make(x)))(torch.ones(2))


ARRAY = np.ones(2)


def test_what_is_there_already_can_be_returned():
    static = dy2st.to_static(lambda x: (x, ARRAY, torch.relu, opens))
    for _ in range(2):
        assert static(torch.ones(2))[1:] == (ARRAY, torch.relu, opens)
        assert static(torch.ones(2))[1] is ARRAY


class Mode:
    def __init__(self):
        self.lock, self.value = threading.RLock(), 2

    def get(self):
        with self.lock:
            return self.value


MODE = Mode()


def reads_under_locks(x):
    if MODE.get() == 2:
        with LOCK, MODE.lock:
            factor = 3
        return x * factor
    if x.sum() > 0:
        with LOCK:
            factor = MODE.get()
        x = x * factor
    return x


def fails_under_a_lock(x):
    try:
        with LOCK:
            raise ValueError("no")
    except ValueError as error:
        return x * len(str(error)) if x.sum() > 0 else x


@pytest.mark.parametrize("function", [reads_under_locks, fails_under_a_lock])
def test_a_lock_is_held_where_the_program_does_nothing_under_it(function):
    static = dy2st.to_static(function)
    for value in (2, 5):
        MODE.value = value
        for k in (1, -1, 2):
            assert torch.equal(static(torch.ones(2) * k), function(torch.ones(2) * k))
            assert not LOCK.locked()


def writes_under_a_lock(x):
    with LOCK:
        MODE.value += 1
    return x


def draws_under_a_lock(x):
    with LOCK:
        return x + torch.rand(())


@pytest.mark.parametrize("function", [writes_under_a_lock, draws_under_a_lock])
def test_a_lock_around_what_the_program_does_is_refused(function):
    with pytest.raises(dy2st.CaptureError, match="lock acts outside"):
        dy2st.to_static(function)(torch.ones(2))
    assert not LOCK.locked()
