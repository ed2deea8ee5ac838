"""The ``dy2st`` command, archive by archive."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

import dy2st
from dy2st.cli.app import app
from tests.cli.models import Net

ROOT = Path(__file__).parents[2]
X = torch.linspace(-1, 1, 8).reshape(2, 4)
SPECS = [dy2st.InputSpec([None, 4])]


def call(*arguments):
    """Run the command; what it prints, with its exit status."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], terminal_width=200, color=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def good(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def bad(*arguments):
    result = call(*arguments)
    assert result.exit_code != 0 and "Traceback" not in result.output, result.output
    return result.output


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("saved") / "net ä.dy2st"
    dy2st.save(Net(), path, [dy2st.InputSpec([None, 4])], example_inputs=(X,), about={"licence": "free \x1b[31m"})
    return path


# ---- show, check


def test_show_prints_signature_state_and_members(archive):
    text = good("show", archive)
    for part in ("net ä.dy2st", "forward(x: f32[", "-> {'x': f32[", "layer.weight", "f32[4, 4]", "64 B", "program.json", "licence"):
        assert part in text
    assert "20 parameters in 2 tensors" in text and "\x1b" not in text and "while" not in text
    assert "while" in good("show", archive, "--program")


def test_show_json_describes_methods_and_state(archive):
    found = json.loads(good("show", archive, "--json"))
    (program,) = found["methods"]["forward"]
    assert list(program["inputs"]) == ["x"] and program["modes"] == ["train", "eval"]
    assert found["state"]["layer.weight"] == {"kind": "parameter", "type": "f32[4, 4]"}


def test_check_tells_whole_archives_from_damaged_ones(archive, tmp_path):
    assert ": whole (" in good("check", archive, archive)
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    text = bad("check", archive, tmp_path / "damaged", tmp_path / "missing")
    assert text.count(": whole (") == 1 and "altered" in text and "No such file" in text


@pytest.mark.parametrize("command", ["show", "run", "bench"])
def test_errors_are_told_without_a_traceback(command, tmp_path):
    (tmp_path / "text").write_text("text")
    assert "is not a dy2st archive" in bad(command, tmp_path / "text")
    assert "No such file" in bad(command, tmp_path / "missing")
    assert "No such file" in bad("diff", tmp_path / "text", tmp_path / "missing")


# ---- run


def test_run_without_input_takes_the_saved_examples(archive):
    assert "'trips': " in good("run", archive)


@pytest.mark.parametrize("suffix", ["npy", "npz", "json"])
@pytest.mark.parametrize("named", [False, True])
def test_run_reads_inputs_and_writes_results_as_files(archive, tmp_path, suffix, named):
    given = tmp_path / f"x.{suffix}"
    if suffix == "npy":
        numpy.save(given, X.numpy())
    elif suffix == "npz":
        numpy.savez(given, **({"x": X.numpy()} if not named else {"arr_0": X.numpy()}))
    else:
        given.write_text(json.dumps([X.tolist()] if not named else {"x": X.tolist()}))
    argument = f"x={given}" if named and suffix == "npy" else given
    text = good("run", archive, "--input", argument, "--output", tmp_path / "y.npz")
    assert text == ""
    expected = dy2st.load(archive)(X)
    found = numpy.load(tmp_path / "y.npz")
    numpy.testing.assert_array_equal(found["x"], expected["x"].detach().numpy())
    assert found["trips"] == expected["trips"]
    good("run", archive, "-i", argument, "-o", tmp_path / "y.json")
    assert json.loads((tmp_path / "y.json").read_text()) == {"x": expected["x"].tolist(), "trips": expected["trips"]}


def test_run_refuses_what_it_cannot_read_or_write(archive, tmp_path):
    numpy.save(tmp_path / "wide.npy", X.double().numpy())
    assert "must be a tensor f32" in bad("run", archive, "-i", tmp_path / "wide.npy")
    good("run", archive, "-i", tmp_path / "wide.npy", "--cast")
    assert "write it to a .npz or .json file" in bad("run", archive, "-o", tmp_path / "y.npy")
    assert "not to y.txt" in bad("run", archive, "-o", tmp_path / "y.txt")
    assert "no method missing" in bad("run", archive, "--method", "missing")
    numpy.save(tmp_path / "object.npy", numpy.array([{}], dtype=object), allow_pickle=True)
    assert "cannot be read" in bad("run", archive, "-i", tmp_path / "object.npy")
    (tmp_path / "broken.json").write_text("{")
    assert "cannot be read" in bad("run", archive, "-i", tmp_path / "broken.json")
    (tmp_path / "ragged.json").write_text("[[[1.0], [2.0, 3.0]]]")
    assert "x is no float32 tensor" in bad("run", archive, "-i", tmp_path / "ragged.json")
    (tmp_path / "x.pt").write_text("")
    assert "not from x.pt" in bad("run", archive, "-i", tmp_path / "x.pt")
    assert "more than 0 iterations" in bad("run", archive, "--max-steps", "0")


class Two(Net):
    def triple(self, x, plus):
        return x * 3 + plus


def test_run_takes_a_method_and_its_inputs(tmp_path):
    path = tmp_path / "m"
    dy2st.save(Two(), path, methods={"forward": SPECS, "triple": [dy2st.InputSpec([2]), dy2st.InputSpec([])]})
    assert "no example arguments for triple: give some with --input" in bad("run", path, "-m", "triple")
    (tmp_path / "x.json").write_text(json.dumps({"x": [1, 2], "plus": 0.5}))
    assert "[3.5000, 6.5000]" in good("run", path, "-m", "triple", "-i", tmp_path / "x.json")
    assert "forward" in good("show", path) and "triple" in good("show", path)


def repeated(x, times, factor):
    for _ in range(times):
        x = x * factor
    return x, times * 2


def test_run_takes_python_numbers_of_the_right_type(tmp_path):
    path = tmp_path / "m"
    dy2st.save(repeated, path, [dy2st.InputSpec([2]), int, float])
    text = good("show", path)
    assert "times: int, factor: float" in text and "?" not in text
    (tmp_path / "x.json").write_text(json.dumps({"x": [1, 2], "times": 3, "factor": 2}))
    assert "[ 8., 16.]" in good("run", path, "-i", tmp_path / "x.json")
    (tmp_path / "x.json").write_text(json.dumps({"x": [1, 2], "times": 3.0, "factor": 2}))
    assert "times must be a Python int, but is the float 3.0" in bad("run", path, "-i", tmp_path / "x.json")


def nested(pair, flags, n):
    total = pair["a"] * 2 + pair["b"][0]
    return (total, [flags[0]]) if flags[1] else total * n


def test_run_on_nested_arguments(tmp_path):
    spec = [{"a": dy2st.InputSpec([2]), "b": [dy2st.InputSpec([2], "int64")]}, (1, True), 3]
    dy2st.save(nested, tmp_path / "m", spec)
    (tmp_path / "x.json").write_text(json.dumps([{"a": [1.5, 2], "b": [[3, 4]]}, [1, True], 3]))
    good("run", tmp_path / "m", "-i", tmp_path / "x.json", "-o", tmp_path / "y.json")
    assert json.loads((tmp_path / "y.json").read_text()) == [[6.0, 8.0], [1]]


# ---- diff, bench, doctor, build, export


def test_diff_shows_changed_values_parameters_and_programs(archive, tmp_path):
    assert "the same bytes" in good("diff", archive, archive)
    model = dy2st.load(archive)
    with torch.no_grad():
        model.layer.bias[1] += 0.5
    model.save(tmp_path / "other")
    text = bad("diff", archive, tmp_path / "other")
    assert "layer.bias: 1 of 4 values differ, at most by 0.5" in text and "programs" not in text
    changed = Net()
    changed.layer = torch.nn.Linear(4, 4, bias=False)
    dy2st.save(changed, tmp_path / "changed", [dy2st.InputSpec([None, 4])])
    text = bad("diff", archive, tmp_path / "changed")
    assert "- layer.bias: parameter f32[4]" in text and "programs:" in text and "-licence" in text


def test_bench_prints_the_median_of_a_backend(archive):
    text = good("bench", archive, "--seconds", "0", "--backend", "python")
    assert "python" in text and "median" in text and "µs" in text or "ms" in text
    assert "no backend 'missing'" in bad("bench", archive, "--backend", "missing")


def test_doctor_prints_versions_and_executors():
    text = good("doctor")
    assert torch.__version__ in text and "python" in text and "executors" in text


def test_export_says_what_is_missing(archive):
    assert "there is no format 'jpeg'" in bad("export", archive, "--to", "jpeg")
    assert "--to" in bad("export", archive)


def test_help_names_and_describes_every_command():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime")))}
    done = subprocess.run([sys.executable, "-m", "dy2st", "--help"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    for command in ("show", "check", "run", "export", "diff", "bench", "build", "doctor", "explain"):
        assert command in done.stdout
        assert "Usage" in good(command, "--help")


def test_without_typer_the_command_names_its_extra():
    """Nothing but a message where typer is missing."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime")))}
    script = "import sys; sys.modules['typer'] = None; from dy2st.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "pip install 'dy2st[cli]'" in done.stderr and "Traceback" not in done.stderr


def test_export_writes_a_file_and_names_it(archive, tmp_path):
    if not hasattr(dy2st, "export"):
        assert "does not export" in bad("export", archive, "-o", tmp_path / "net.pt2")
        return
    text = good("export", archive, "-o", tmp_path / "net.pt2", "--no-verify")
    assert "net.pt2" in text and (tmp_path / "net.pt2").stat().st_size > 1000
