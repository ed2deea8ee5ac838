"""``dy2st-run --train``: saved training steps in a process without Python; what it writes is what Python would have written."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import dy2st
import dy2st_runtime
from dy2st import InputSpec
from dy2st_runtime.executors.native import build
from tests.runtime import trainers
from tests.runtime.trainers import Accumulating, Adding, ByHand, Net, Plain, Scheduled, Trainer

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")

SPEC = {"step": [InputSpec([None, 4]), InputSpec([None, 2])]}


@pytest.fixture(scope="module")
def runner():
    return build.build_runner(quiet=True)


def saved(path, kind, net, optimizer, steps=2, spec=None, **options):
    """A trainer after some steps in eager, saved."""
    torch.manual_seed(0)
    trainer = kind(net, optimizer, **options)
    with dy2st.enable_to_static(False):
        for _ in range(steps):
            trainer.step(torch.randn(3, 4), torch.randn(3, 2))
    dy2st.save(trainer, path, methods=spec or SPEC)
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The bytes of a small model."""
    return saved(tmp_path_factory.mktemp("plain") / "model.dy2st", Trainer, Plain, "SGD").read_bytes()


@pytest.fixture
def path(plain, tmp_path):
    (tmp_path / "model.dy2st").write_bytes(plain)
    return tmp_path / "model.dy2st"


def write_data(folder, rows):
    torch.manual_seed(1)
    x, y = torch.randn(rows, 4), torch.randn(rows, 2)
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "y.npy", y.numpy())
    return x, y


def run(runner, folder, *words, fails=0, **options):
    command = [str(runner), "--train", *map(str, words), "--method", "step", "--input", f"x={folder / 'x.npy'}"]
    command += ["--input", f"y={folder / 'y.npy'}", "--threads", str(torch.get_num_threads())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    assert done.returncode == fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def train_in_python(path, batches, to, seed=7):
    loaded = dy2st_runtime.load(path)
    torch.manual_seed(seed)
    results = [loaded.step(x, y) for x, y in batches]
    loaded.save(to)
    return results


def printed(out, name="result"):
    return [float(line.split(f"{name}=")[1].split()[0]) for line in out.splitlines() if line.startswith("step ")]


SLOW = pytest.mark.slow
CASES = [
    (Trainer, Net, "SGD", {"momentum": 0.9}), (Trainer, Plain, "Adam", {"foreach": True}), (Trainer, Plain, "AdamW", {"fused": True}),
    (Scheduled, Plain, "SGD", {"momentum": 0.9}), (Accumulating, Plain, "SGD", {"momentum": 0.9}), (Adding, Plain, "SGD", {}),
    pytest.param(ByHand, Plain, "SGD", {}, marks=SLOW), pytest.param(Scheduled, Net, "Adam", {}, marks=SLOW),
    *(pytest.param(Trainer, Net, name, {}, marks=SLOW) for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "Adadelta", "Adamax")),
    *(pytest.param(Trainer, Net, name, {}, marks=SLOW) for name in ("Rprop", "ASGD", "Adafactor")),
    pytest.param(Trainer, Net, "RMSprop", {"centered": True, "momentum": 0.5}, marks=SLOW),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "net", "optimizer", "options"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_what_it_writes_is_what_python_writes(runner, tmp_path, kind, net, optimizer, options):
    path = saved(tmp_path / "model.dy2st", kind, net, optimizer, **options)
    x, y = write_data(tmp_path, 11)
    batches = list(zip(x.split(3), y.split(3)))
    results = train_in_python(path, batches, tmp_path / "python.dy2st")
    out = run(runner, tmp_path, path, "--batch-size", 3, "--seed", 7, "--out", tmp_path / "trained.dy2st")
    assert (tmp_path / "trained.dy2st").read_bytes() == (tmp_path / "python.dy2st").read_bytes() != path.read_bytes()
    key = "loss" if kind is Scheduled else "result"
    losses = [result["loss"] if kind is Scheduled else result for result in results]
    assert [np.float32(number) for number in printed(out, key)] == [np.float32(loss.item()) for loss in losses]


def test_the_steps_are_those_of_eager(runner, tmp_path):
    path = saved(tmp_path / "model.dy2st", Trainer, Net, "SGD", steps=0)
    torch.manual_seed(0)
    eager = Trainer(Net, "SGD")
    x, y = write_data(tmp_path, 6)
    run(runner, tmp_path, path, "--batch-size", 3, "--seed", 7, "--epochs", 2)
    torch.manual_seed(7)
    with dy2st.enable_to_static(False):
        for _ in range(2):
            for batch in zip(x.split(3), y.split(3)):
                eager.step(*batch)
    loaded = dy2st.load(path)
    assert all(torch.equal(loaded.state_dict()[name], value) for name, value in eager.state_dict().items())


def test_batches(runner, tmp_path, path):
    x, y = write_data(tmp_path, 10)
    out = run(
        runner, tmp_path, path, "--batch-size", 4, "--shuffle", "--seed", 5, "--steps", 5, "--out", tmp_path / "trained.dy2st"
    )
    batches = []
    for epoch in range(2):
        order = torch.randperm(10, generator=torch.Generator().manual_seed(5 + epoch))
        batches += [(x[rows], y[rows]) for rows in order.split(4)]
    train_in_python(path, batches[:5], tmp_path / "python.dy2st")
    assert (tmp_path / "trained.dy2st").read_bytes() == (tmp_path / "python.dy2st").read_bytes()
    assert len(printed(out)) == 5 and out.endswith("after 5 steps\n")
    assert len(printed(run(runner, tmp_path, path, "--batch-size", 4, "--drop-last", "--epochs", 3, "--log-every", 2))) == 3
    assert len(printed(run(runner, tmp_path, path))) == 1  # all rows
    fixed = saved(tmp_path / "fixed.dy2st", Trainer, Plain, "SGD", spec={"step": [InputSpec([5, 4]), InputSpec([5, 2])]})
    assert len(printed(run(runner, tmp_path, fixed))) == 2
    write_data(tmp_path, 12)
    assert "leave it out with --drop-last" in run(runner, tmp_path, fixed, fails=1)
    assert "batches of 5 rows, not 4" in run(runner, tmp_path, fixed, "--batch-size", 4, fails=1)


def test_inputs_that_are_not_cut(runner, tmp_path):
    class Weighted(Trainer):
        @dy2st.to_static
        def step(self, x, y, weights, rate: float):
            loss = ((self.net(x) - y) ** 2 * weights).mean() * rate
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return loss

    torch.manual_seed(0)
    path = tmp_path / "model.dy2st"
    dy2st.save(Weighted(Plain, "SGD"), path, methods={"step": [*SPEC["step"], InputSpec([2]), float]})
    x, y = write_data(tmp_path, 6)
    weights = torch.tensor([0.5, 2.0])
    np.save(tmp_path / "w.npy", weights.numpy())
    loaded = dy2st_runtime.load(path)
    for batch in zip(x.split(3), y.split(3)):
        loaded.step(*batch, weights, 0.25)
    loaded.save(tmp_path / "python.dy2st")
    constants = ("--constant", f"weights={tmp_path / 'w.npy'}", "--input", "rate=0.25")
    run(runner, tmp_path, path, "--batch-size", 3, *constants)
    assert path.read_bytes() == (tmp_path / "python.dy2st").read_bytes()
    error = run(runner, tmp_path, path, "--input", f"weights={tmp_path / 'w.npy'}", "--input", "rate=0.25", fails=1)
    assert "input x has 6 rows and input weights has 2" in error and "--constant" in error


# -- what goes wrong -------------------------------------------------------------------------------------------------------------


def test_bad_input_is_refused_in_words(runner, tmp_path):
    class Model(Trainer):
        @dy2st.to_static
        def forward(self, x):
            return self.net(x)

    torch.manual_seed(0)
    path = tmp_path / "model.dy2st"
    dy2st.save(Model(Plain, "SGD"), path, methods=SPEC | {"forward": SPEC["step"][:1]})
    before = path.read_bytes()
    write_data(tmp_path, 6)
    good = ["--input", f"x={tmp_path / 'x.npy'}", "--input", f"y={tmp_path / 'y.npy'}"]

    def refused(*words):
        done = subprocess.run([str(runner), *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and done.stdout == "" and path.read_bytes() == before
        return done.stderr

    assert "forward of" in (error := refused("--train", path, *good)) and "Its training steps: step" in error
    assert "no method fit, but forward, step" in refused("--train", path, "--method", "fit", *good)
    assert "input y is missing" in refused("--train", path, "--method", "step", *good[:2])
    assert "--epochs is for training: add --train" in refused(path, "--method", "step", *good, "--epochs", 2)
    assert "--batch-size takes a number from 1 on" in refused("--train", path, "--batch-size", 0)
    assert "--mode takes train or eval, not fast" in refused(path, "--mode", "fast")
    for name, array in {"wide": np.zeros((6, 3), np.float32), "double": np.zeros((6, 2)), "flat": np.zeros(6, np.float32)}.items():
        np.save(tmp_path / f"{name}.npy", array)
        error = refused("--train", path, "--method", "step", *good[:2], "--input", f"y={tmp_path / name}.npy")
        assert "input y is cut along its first dimension into batches of Float[-1, 2]" in error
    for target in (tmp_path / "no folder" / "model.dy2st", tmp_path, "/dev/null"):
        assert f"cannot write {target}: " in refused("--train", path, "--method", "step", *good, "--out", target)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".dy2st")]
    done = subprocess.run([str(runner), str(path), "--method", "step", *good], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("result = ") and path.read_bytes() == before  # one step, for its result


def test_steps_that_raise_and_numbers_that_are_none(runner, tmp_path):
    class Checked(Trainer):
        @dy2st.to_static
        def step(self, x, y):
            loss = F.mse_loss(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if x[0, 0] > 100:
                raise ValueError("too large")
            return loss

    path = saved(tmp_path / "model.dy2st", Checked, Plain, "SGD")
    before = path.read_bytes()
    np.save(tmp_path / "x.npy", np.array([[np.nan] * 4, [0] * 4, [1000] * 4], np.float32))
    np.save(tmp_path / "y.npy", np.zeros((3, 2), np.float32))
    error = run(runner, tmp_path, path, "--batch-size", 1, fails=1)
    assert "ValueError: too large" in error and f'File "{__file__}", line ' in error
    assert path.read_bytes() == before
    assert "result=nan" in run(runner, tmp_path, path, "--batch-size", 1, "--steps", 2)
    assert all(parameter.isnan().any() for parameter in dy2st_runtime.load(path).parameters())


def test_a_disk_that_is_full_leaves_the_old_file(runner, tmp_path, path, plain):
    write_data(tmp_path, 6)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    error = run(runner, tmp_path, path, fails=1, preexec_fn=limit, restore_signals=False)
    assert f"cannot write {path}: File too large" in error
    assert path.read_bytes() == plain and sorted(os.listdir(tmp_path)) == ["model.dy2st", "x.npy", "y.npy"]


@pytest.mark.parametrize("kind", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_signals_leave_a_whole_file(runner, tmp_path, kind, path, plain):
    write_data(tmp_path, 6)
    words = ["--train", path, "--method", "step", "--input", tmp_path / "x.npy", "--input", tmp_path / "y.npy", "--steps", 10**9]
    words += ["--batch-size", 3, "--save-every", 3]
    process = subprocess.Popen([str(runner), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(20):
        process.stdout.readline()
    time.sleep(0.05)
    process.send_signal(kind)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == (-kind if kind == signal.SIGKILL else 128 + kind)
    assert path.read_bytes() != plain
    loaded = dy2st_runtime.load(path)
    loaded.step(torch.zeros(1, 4), torch.zeros(1, 2))
    assert kind == signal.SIGKILL or f"wrote {path} after " in out


def test_damaged_files_are_not_trained(runner, tmp_path, path):
    write_data(tmp_path, 6)
    data = path.read_bytes()
    path.write_bytes(data[:-300] + bytes([data[-300] ^ 1]) + data[-299:])
    damaged = path.read_bytes()
    run(runner, tmp_path, path, "--out", tmp_path / "out.dy2st", fails=1)
    assert path.read_bytes() == damaged and not (tmp_path / "out.dy2st").exists()


def test_warnings_are_shown_once(runner, tmp_path, path):
    write_data(tmp_path, 6)
    np.save(tmp_path / "y.npy", np.zeros((1, 2), np.float32))
    words = ["--method", "step", "--input", tmp_path / "x.npy", "--constant", f"y={tmp_path / 'y.npy'}"]
    command = [str(runner), "--train", str(path), *map(str, words), "--epochs", "3", "--log-every", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 1)  # the program relies on equal sizes where the capture did
    assert done.stderr.count("UserWarning: Using a target size (torch.Size([1, 2]))") == 1
    assert f"{trainers.__file__}:" in done.stderr


class CheckpointedStep(Trainer):
    @dy2st.to_static
    def step(self, x, y):
        self.optimizer.zero_grad()
        hidden = torch.utils.checkpoint.checkpoint(self.net, x, use_reentrant=False)
        loss = F.mse_loss(hidden, y)
        loss.backward()
        self.optimizer.step()
        return loss


def test_what_needs_python_names_the_users_line(runner, tmp_path):
    path = saved(tmp_path / "model.dy2st", CheckpointedStep, Plain, "SGD")
    write_data(tmp_path, 6)
    error = run(runner, tmp_path, path, fails=1)
    assert "in a training step, checkpoint needs Python" in error and f'File "{__file__}", line ' in error


class Predicting(Trainer):
    @dy2st.to_static
    def forward(self, x):
        return self.net(x)


@pytest.mark.slow
def test_a_program_of_the_users_own(tmp_path):
    program = build.build_standalone("trained", Path(__file__).with_name("trained.cpp"), quiet=True)
    path = saved(tmp_path / "model.dy2st", Predicting, Plain, "AdamW", spec=SPEC | {"forward": SPEC["step"][:1]})
    x, y = write_data(tmp_path, 6)
    loaded = dy2st_runtime.load(path)
    command = [str(program), str(tmp_path), str(path), str(tmp_path / "trained.dy2st")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("021\n") and "no method fit, but forward, step" in done.stdout
    for _ in range(3):
        loaded.step(x, y)
    assert np.array_equal(np.load(tmp_path / "out.npy"), loaded(x).detach().numpy())
    loaded.step(x, y)
    loaded.save(tmp_path / "python.dy2st")
    assert (tmp_path / "trained.dy2st").read_bytes() == (tmp_path / "python.dy2st").read_bytes()
