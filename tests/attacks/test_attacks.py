"""Altered archives, saves that are killed or fail, writers and readers at the same time."""

import concurrent.futures
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dy2st_runtime import SaveError, load
from tests.attacks import references

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a fork makes the child processes")


def attack(*options):
    """Run the attack in a process of its own: it forks, which a process that computed something should not."""
    command = [sys.executable, "-m", "tests.attacks", *options]
    paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": paths})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_most_altered_archives_raise_a_clear_error():
    found = attack("--mutants", "5000")
    counts = {line[9:].partition("  (")[0]: int(line[:7]) for line in found.splitlines() if re.match(r" *\d+  ", line)}
    assert sum(counts.values()) == 5000
    assert counts["a clear error"] > 4000


def test_killed_saves_leave_the_old_or_new_file():
    assert "20 killed saves" in attack("--mutants", "0", "--kills", "20")


def in_child(script, *arguments):
    """Run a script in a process of its own, which may set limits."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("last", ["write", "fsync", "replace"])
def test_killed_at_each_step(tmp_path, last):
    """The process dies in the middle of writing, before the data is on the disk, before the new file is in its place."""
    path = tmp_path / "model.dy2st"
    references.save_weights(path, 1.0, 64)
    before = path.read_bytes()
    script = """
import os, signal, sys
import dy2st_runtime.archive.container
from tests.attacks import references
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "write":
    whole = dy2st_runtime.archive.container.write
    dy2st_runtime.archive.container.write = lambda file, members: (file.write(b"PK\\x03\\x04 half"), file.flush(), die())
else:
    setattr(os, sys.argv[2], die)
references.save_weights(sys.argv[1], 2.0, 64)
"""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
    done = subprocess.run([sys.executable, "-c", script, str(path), last], env=os.environ | {"PYTHONPATH": paths})
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert load(path).weight[0, 0] == 1


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.dy2st"
    references.save_weights(path, 1.0)
    before = path.read_bytes()
    script = """
import resource, signal, sys
from dy2st_runtime import SaveError
from tests.attacks import references
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
try:
    references.save_weights(sys.argv[1], 2.0)
except SaveError as error:
    print(error)
"""
    assert "cannot write" in in_child(script, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.dy2st"]


def test_a_folder_that_cannot_be_written():
    script = """
import os, tempfile
from pathlib import Path
import dy2st_runtime
from tests.attacks import references
with tempfile.TemporaryDirectory() as folder:
    path, root = Path(folder) / "model.dy2st", os.geteuid() == 0
    references.save_weights(path, 1.0, 64)
    before = path.read_bytes()
    os.chmod(folder, 0o555)
    if root:
        os.seteuid(65534)
    try:
        references.save_weights(path, 2.0, 64)
    except dy2st_runtime.SaveError as error:
        print(error)
    if root:
        os.seteuid(0)
    path.chmod(0)
    if root:
        os.seteuid(65534)
    try:
        dy2st_runtime.load(path)
    except PermissionError as error:
        print(error)
    if root:
        os.seteuid(0)
    path.chmod(0o600)
    assert path.read_bytes() == before and os.listdir(folder) == ["model.dy2st"]
    os.chmod(folder, 0o755)
"""
    found = in_child(script).splitlines()
    assert len(found) == 2 and all("Permission denied" in line for line in found)


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(SaveError, match="it is a device, a pipe or a socket"):
            references.save_weights(tmp_path / name, 1.0, 64)
    assert (tmp_path / "pipe").is_fifo() and sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_two_writers_and_a_reader(tmp_path):
    path = tmp_path / "model.dy2st"
    references.save_weights(path, 0.0, 64)
    script = """
import sys
from tests.attacks import references
for _ in range(8):
    references.save_weights(sys.argv[1], float(sys.argv[2]), 64)
"""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
    commands = [[sys.executable, "-c", script, str(path), value] for value in ("1", "2")]
    writers = [subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}) for command in commands]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        weight = load(path).weight.detach()
        assert torch.equal(weight, weight[0, 0].expand(64, 64))
        seen.add(weight[0, 0].item())
    assert [writer.wait() for writer in writers] == [0, 0]
    assert load(path).weight[0, 0] in (1, 2) and seen <= {0, 1, 2}
    assert os.listdir(tmp_path) == ["model.dy2st"]


@pytest.mark.parametrize("folder", ["with spaces", "ä ñ 模型", "a%20b;$HOME'\"", "x" * 200])
def test_folders_with_odd_names(tmp_path, folder):
    (tmp_path / folder).mkdir()
    made = tmp_path / folder / "my modèl.dy2st"
    references.save_weights(made, 0.5)
    assert load(made).weight[0, 0] == 0.5
    assert os.listdir(made.parent) == [made.name]


def test_many_threads_load_and_run(tmp_path):
    originals = references.write(tmp_path)
    expected = {name: references.answers(tmp_path / name) for name in originals}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        names = [name for _ in range(8) for name in originals]
        found = list(pool.map(lambda name: references.answers(tmp_path / name), names))
    for name, answer in zip(names, found, strict=True):
        assert references.same(answer, expected[name])


def test_the_judge_sees_what_goes_wrong(tmp_path):
    """Each kind of failure is told apart, or the other tests would prove nothing."""
    script = """
import os, sys, time
from pathlib import Path
import dy2st_runtime
from tests.attacks import judging, references
real = references.answers
for wrong, judging.SECONDS in ((os.abort, 60), (lambda: time.sleep(60), 1), (lambda: ["wrong"], 60), (lambda: 1 / 0, 60)):
    references.answers = lambda path: wrong() if path.name.startswith("mutant") else real(path)
    print(next(judging.run([50], Path(sys.argv[1]))).kind.name)
"""
    kinds = in_child(script, tmp_path).split()
    assert kinds == ["CRASH", "HANG", "DIFFERENT", "UNCLEAR"]
