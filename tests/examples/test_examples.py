"""Each example runs as a newcomer would run it, with fewer steps where that loses nothing."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_has_a_test():
    for path in EXAMPLES.glob("*.py"):
        assert any(name.startswith(f"test_{path.stem}_") for name in globals()), f"no test of {path.name}"


def test_quickstart_trains_to_the_losses_of_eager(capsys):
    result = load("quickstart").main(epochs=6, verbose=True)
    assert result["eager_loss"] == result["static_loss"]
    assert result["identical_losses"] == result["steps"]
    assert result["accuracy"] >= 0.95
    assert result["agreeing"] == result["held_out"] == 360
    assert 0 < result["early_exits"] < result["batches"]
    assert {0, 1} < set(result["trips"]), "no loop iteration, one iteration and several all occur"
    assert result["programs"] == 2, "one for training and one for evaluation, whatever the batch size"
    printed = capsys.readouterr().out
    assert "def forward(self, images" in printed
    assert "360/360 agree" in printed


def test_greedy_decode_writes_many_lengths_with_one_program():
    result = load("greedy_decode").main()
    written = result["written"]
    assert len(set(written)) > 4
    assert min(written) < 5
    assert max(written) == result["limit"]
    assert result["programs"] == 1


def test_adaptive_ode_learns_with_the_losses_of_eager():
    result = load("adaptive_ode").main(epochs=12)
    assert result["identical_losses"]
    assert result["last_loss"] < result["first_loss"]
    assert any(rejected for _, rejected in result["steps"].values()), "both branches of the step control ran"
    assert result["programs"] == 1


def test_lstm_loop_learns_and_serves_any_length():
    result = load("lstm_loop").main(steps=20)
    assert result["identical_losses"]
    assert result["last_loss"] < result["first_loss"]
    assert set(result["lengths"]) == {1, 2, 7, 50, 200}
    assert max(result["lengths"].values()) < 1e-5
    assert result["training_programs"] == 1
    assert result["programs"] == 2


def test_rewrite_rules_remove_operations_and_keep_the_gradients():
    result = load("rewrite_rules").main(rounds=1, calls=1)
    before, after = result["operations"]
    assert result["places"] == 1 and after == before - 5
    assert result["steps"] > 1
    assert result["difference"] < 1e-5 and result["gradients"] < 1e-4


def test_export_targets_agree_with_eager_on_every_branch():
    reports = load("export_targets").main()
    assert "pt2" in reports
    for report in reports.values():
        assert report.verified >= 5
        assert report.largest_difference < 1e-5
        assert sum("both ways" in line for line in report.coverage) == 3, "each branch went both ways"


def test_sharded_training_gives_the_weights_of_replicas():
    result = load("sharded_training").main(steps=28)
    assert result["identical_losses"]
    assert result["difference"] == 0
    assert len(result["refined"]) > 2
    assert result["last_loss"] < result["first_loss"]
    assert result["programs"] == 1


def test_sharded_training_under_torchrun_does_so_too():
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        EXAMPLES / "sharded_training.py",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("weights differ by 0.0e+00") == 2
