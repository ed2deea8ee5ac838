"""``dy2st-run``: saved models in a process without Python."""

from __future__ import annotations

import logging
import shutil
import subprocess
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import dy2st
from dy2st import InputSpec
from dy2st_runtime.executors.native import build

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")


@pytest.fixture(scope="module")
def runner():
    return build.build_runner(quiet=True)


class Decides(nn.Module):
    """Loops, branches, growing lists, numbers, state, a check."""

    def __init__(self):
        super().__init__()
        self.step = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.hidden = torch.zeros(4)

    def forward(self, x, limit):
        if x.shape[0] > 5:
            raise ValueError(f"at most 5 rows, not {x.shape[0]}")
        steps, sizes = 0, []
        while x.abs().max() > limit and steps < 20:
            x = torch.tanh(self.norm(self.step(x))) * 0.7 + self.hidden * 0.1
            sizes.append(x.norm())
            steps += 1
            if x[0, 0] > 0.6:
                break
        self.calls += 1
        self.hidden = x.mean(0)
        top, where = x.max(dim=1)
        return {"x": x, "steps": steps, "half": steps / 2}, (torch.stack(sizes) if sizes else x.new_zeros(0)), [top, where]


def saved(model, path, spec):
    torch.manual_seed(0)
    static = dy2st.to_static(model.eval())
    with torch.no_grad():
        dy2st.save(static, path, input_spec=spec)
    return dy2st.load(path)


def run(runner, *words, fails=False):
    done = subprocess.run([str(runner), *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def leaves(value, path=""):
    if isinstance(value, dict):
        return {name: leaf for key, part in value.items() for name, leaf in leaves(part, f"{path}.{key}").items()}
    if isinstance(value, (list, tuple)):
        return {name: leaf for key, part in enumerate(value) for name, leaf in leaves(part, f"{path}.{key}").items()}
    return {path[1:]: value}


@pytest.mark.parametrize("scale", [0.001, 0.3, 1.0, 30.0])
@pytest.mark.parametrize("rows", [1, 5])
def test_the_same_as_in_python(runner, tmp_path, scale, rows):
    torch.manual_seed(3)
    path = tmp_path / "a model ü.dy2st"
    loaded = saved(Decides(), path, [InputSpec([None, 4]), InputSpec([])])
    x = torch.randn(rows, 4) * scale
    np.save(tmp_path / "x.npy", x.numpy())
    np.save(tmp_path / "limit.npy", np.array(0.45, dtype=np.float32))
    printed = run(
        runner, path, "--input", f"limit={tmp_path / 'limit.npy'}", "--input", tmp_path / "x.npy", "--output", tmp_path / "out"
    )
    with torch.no_grad():
        expected = leaves(loaded(x, torch.tensor(0.45)))
    for name, value in expected.items():
        if isinstance(value, torch.Tensor):
            found = torch.from_numpy(np.load(tmp_path / "out" / f"{name}.npy"))
            assert found.dtype == value.dtype
            assert torch.equal(found, value), name
        else:
            assert float(printed.split(f"{name} = ")[1].split()[0]) == value


def test_what_it_raises_names_the_users_line(runner, tmp_path):
    path = tmp_path / "model.dy2st"
    saved(Decides(), path, [InputSpec([None, 4]), InputSpec([])])
    np.save(tmp_path / "x.npy", np.zeros((6, 4), dtype=np.float32))
    np.save(tmp_path / "limit.npy", np.array(0.5, dtype=np.float32))
    error = run(runner, path, "--input", tmp_path / "x.npy", "--input", tmp_path / "limit.npy", fails=True)
    assert "ValueError: at most 5 rows, not 6" in error
    assert f'File "{__file__}", line ' in error and "in forward" in error


def test_bad_input_is_refused_in_words(runner, tmp_path):
    path = tmp_path / "model.dy2st"
    saved(Decides(), path, [InputSpec([None, 4]), InputSpec([])])
    assert "x: Float[-1, 4]" in run(runner, path, "--show")
    wrong = {"wide": np.zeros((2, 3), np.float32), "double": np.zeros((2, 4)), "limit": np.array(0.5, np.float32)}
    for name, array in wrong.items():
        np.save(tmp_path / f"{name}.npy", array)
    limit = tmp_path / "limit.npy"
    assert "input x is Float[-1, 4]" in run(runner, path, "--input", tmp_path / "wide.npy", "--input", limit, fails=True)
    assert "not Double[2, 4]" in run(runner, path, "--input", tmp_path / "double.npy", "--input", limit, fails=True)
    assert "input limit is missing" in run(runner, path, "--input", tmp_path / "wide.npy", fails=True)
    assert "no .npy file" in run(runner, path, "--input", path, "--input", limit, fails=True)
    assert "no method generate" in run(runner, path, "--method", "generate", fails=True)
    assert "No such file" in run(runner, tmp_path / "gone.dy2st", fails=True)
    assert "there is no option --fast" in run(runner, path, "--fast", fails=True)
    assert "usage:" in run(runner, "--help")


def test_damaged_files_are_refused(runner, tmp_path):
    path = tmp_path / "model.dy2st"
    saved(Decides(), path, [InputSpec([None, 4]), InputSpec([])])
    data = path.read_bytes()
    damaged = tmp_path / "damaged.dy2st"
    for position in range(0, len(data), max(1, len(data) // 10)):
        for made in (data[:position], data[:position] + bytes([data[position] ^ 0x20]) + data[position + 1 :]):
            damaged.write_bytes(made)
            done = subprocess.run([str(runner), str(damaged), "--show"], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode in (0, 1), f"{position}: {done.returncode} {done.stderr}"
            assert done.returncode == 0 or "damaged.dy2st" in done.stderr


def test_numbers_strings_and_what_needs_python(runner, tmp_path):
    class Prints(nn.Module):
        def forward(self, x):
            n = int(x.sum())
            while n > 3:
                n = n // 2
                print("n is", n, n / 4, n > 4, [n, (n + 1,)])
            return n, "odd" if n % 2 else "even"

    path = tmp_path / "prints.dy2st"
    loaded = saved(Prints(), path, [InputSpec([2])])
    np.save(tmp_path / "x.npy", np.full((2,), 12.0, dtype=np.float32))
    printed = run(runner, path, "--input", tmp_path / "x.npy")
    assert printed.startswith("n is 12 3.0 True [12, (13,)]\nn is 6 1.5 True [6, (7,)]\nn is 3 0.75 False [3, (4,)]\n")
    n, word = loaded(torch.full((2,), 12.0))
    assert printed.endswith(f"0 = {n}\n1 = {word}\n")

    class Logs(nn.Module):
        def forward(self, x):
            logging.warning("seen")
            return x @ x

    path = tmp_path / "logs.dy2st"
    saved(Logs(), path, [InputSpec([2, 2])])
    assert "logging needs Python" in run(runner, path, "--show", fails=True)


def test_autocast_and_warnings(runner, tmp_path):
    class Mixed(nn.Module):
        def forward(self, x, w):
            with torch.autocast("cpu", torch.bfloat16):
                y = x @ w
                while y.float().norm() > 1:
                    y = torch.tanh(y @ w) * y * 0.5
                    warnings.warn("once more", RuntimeWarning, stacklevel=1)
                with torch.autocast("cpu", enabled=False):
                    y = y.float() @ w
            return y, x @ w

    path = tmp_path / "mixed.dy2st"
    loaded = saved(Mixed(), path, [InputSpec([4, 4]), InputSpec([4, 4])])
    torch.manual_seed(0)
    x, w = torch.randn(4, 4) * 3, torch.randn(4, 4)
    np.save(tmp_path / "x.npy", x.numpy())
    np.save(tmp_path / "w.npy", w.numpy())
    command = [str(runner), str(path), "--input", str(tmp_path / "x.npy"), "--input", str(tmp_path / "w.npy")]
    done = subprocess.run([*command, "--output", str(tmp_path)], capture_output=True, text=True, timeout=60, check=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = loaded(x, w)
    assert all(np.array_equal(np.load(tmp_path / f"{index}.npy"), value.numpy()) for index, value in enumerate(expected))
    assert done.stderr.count("RuntimeWarning: once more") == 1 and f"{__file__}:" in done.stderr
