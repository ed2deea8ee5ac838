"""What the first call of a static function costs beside the capture itself."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import dy2st
from dy2st.collecting import Collecting
from dy2st.static.conversion import convert

_COUNTED = """
import sys
import torch
import dy2st
def program(x, n):
    while n > 0:
        x, n = x[: n + 1] + x.sum().item(), n - 1
    return x
before = set(sys.modules)
dy2st.to_static(program)(torch.ones(3), torch.tensor(2))
print([name for name in sys.modules if name not in before and name.partition(".")[0] in ("torch", "networkx")])
"""


def test_numbers_of_the_program_load_none_of_torchs_exporters(tmp_path):
    file = tmp_path / "counted.py"
    file.write_text(_COUNTED)
    loaded = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True).stdout.strip()
    assert "export" not in loaded and "networkx" not in loaded, loaded


def test_results_of_operations_are_kept_beside_a_number_of_the_program():
    @dy2st.to_static
    def program(x, n):
        n = n.item() + 1
        for _ in range(20):
            x = x * 2 + 1
        return x, n

    FakeTensorMode.cache_clear()
    program(torch.ones(3), torch.tensor(1))
    assert FakeTensorMode.cache_hits >= 38


def test_no_size_of_the_program_is_taken_not_to_be_one():
    @dy2st.to_static
    def program(x):
        return torch.argwhere(x > 0) + 1, torch.nonzero(x).sum(0)

    for values in ([1.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]):
        x = torch.tensor(values)
        result, total = program(x)
        assert torch.equal(result, torch.argwhere(x > 0) + 1) and torch.equal(total, torch.nonzero(x).sum(0))
    assert len(program.program_cache) == 1


def test_a_capture_leaves_the_collector_as_it_was():
    before = gc.get_threshold()
    dy2st.to_static(lambda x: x + 1)(torch.ones(2))
    assert gc.get_threshold() == before


def test_thresholds_of_the_collector_set_meanwhile_stay():
    before, collecting = gc.get_threshold(), Collecting()
    try:
        with collecting.rarely():
            with collecting.rarely():
                raised = gc.get_threshold()
            assert gc.get_threshold() == raised != before
            gc.set_threshold(123, 4, 5)
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        gc.set_threshold(*before)


def test_a_collector_that_is_off_stays_off():
    before, collecting = gc.get_threshold(), Collecting()
    try:
        gc.set_threshold(0)
        with collecting.rarely():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


def test_the_last_of_several_threads_puts_the_thresholds_back():
    before, collecting = gc.get_threshold(), Collecting()
    inside, leave = threading.Event(), threading.Event()

    def other():
        with collecting.rarely():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with collecting.rarely():
        thread.start()
        inside.wait(10)
    assert gc.get_threshold() != before
    leave.set()
    thread.join()
    assert gc.get_threshold() == before


def calls_of(function):
    """Return how many functions of Python a call enters: a measure of its time that no other process changes."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def written(tmp_path, lines):
    """Return a function of so many lines, from a file of its own."""
    pattern = ["    if x.sum() > {n}:", "        y = x * {n} + y", "        z = [y for _ in range({n})]", "    x = x + len(z) + y"]
    body = "\n".join(pattern[n % 4].format(n=n) for n in range(lines))
    file = tmp_path / f"of_{lines}_lines.py"
    file.write_text(f"def program(x):\n    y, z = x, []\n{body}\n    return x\n")
    space = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    return space["program"]


def test_conversion_takes_time_in_proportion_to_the_lines(tmp_path):
    convert(written(tmp_path, 40))  # what is parsed once for all functions
    some, many = (calls_of(lambda: convert(function)) for function in (written(tmp_path, 60), written(tmp_path, 120)))
    assert many < 2.2 * some
    assert many / 120 < 2_000
