import json

import pytest
import torch

from benchmarks import profile
from benchmarks.__main__ import main
from benchmarks.case import Case, check
from benchmarks.measure import Row, measure
from benchmarks.peers import PEERS
from benchmarks.report import matrix
from benchmarks.workloads import WORKLOADS


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_two_workloads_are_measured_printed_and_written(tmp_path, capsys):
    figures = tmp_path / "figures.json"
    arguments = ["--workload", "call", "--workload", "tiny-loop-train", "--peer", "dy2st.python", "--seconds", "0.05"]
    assert main([*arguments, "--rounds", "2", "--threads", "1", "--json", str(figures)]) == 0
    rows = json.loads(figures.read_text())["rows"]
    assert [(row["workload"], row["peer"]) for row in rows] == [
        (name, peer) for name in ("call", "tiny-loop-train") for peer in ("eager", "dy2st.python")
    ]
    assert all(row["failure"] is None and len(row["samples"]) == 2 and row["first"] > 0 for row in rows)
    printed = capsys.readouterr().out
    assert "above eager" in printed and "times eager" in printed


def wrong(case, function):
    return lambda x: function(x) + 1


def refusing(case, function):
    raise TypeError("no functions\nplease")


def test_wrong_answers_and_refusals_are_not_timed(monkeypatch):
    monkeypatch.setitem(PEERS, "wrong", wrong)
    monkeypatch.setitem(PEERS, "refusing", refusing)
    rows = measure("relu", Case(torch.relu, [(torch.ones(3),)]), ["wrong", "refusing"], 0.002, 1)
    assert [row.peer for row in rows] == ["eager", "wrong", "refusing"]
    assert rows[0].samples and rows[0].ratio == 1
    assert rows[1].failure.startswith("wrong answer:") and not rows[1].samples
    assert rows[2].failure == "refused: TypeError: no functions"
    assert matrix(rows).splitlines()[1].split()[-2:] == ["wrong", "refused"]


def test_gradients_are_part_of_the_answer():
    case = Case(torch.relu, [(torch.ones(3, requires_grad=True),)], train=True)
    assert check(case, [torch.ones(3)], [torch.ones(3)]) is None
    assert check(case, [torch.ones(3)], [None]) is not None
    assert check(case, [None], [None]) is None
    assert measure("relu", case, [], 0.001, 1)[0].failure is None


def test_an_element_on_its_other_side_is_rounding_and_more_is_not():
    case = Case(torch.relu, [(torch.ones(3),)])
    big, small = torch.full((1000,), 5.0), torch.full((4,), 1e-6)
    flipped = big.clone()
    flipped[0] = 5.1
    assert check(case, [big, small], [flipped, small * 2]) is None
    assert check(case, [big, small], [big * 1.01, small]) == "result 0 is 0.01 of its size away"
    assert check(case, [big], [big * float("nan")]) is not None
    assert check(case, [big], [big.double()]) == check(case, [big], [small]) == "result 0 is of another kind"
    assert check(case, [torch.tensor(3)], [torch.tensor(4)]) is not None
    assert check(case, [3, True], [3, False]) is not None
    assert check(case, [3], [3, 4]) == "2 results instead of 1"


def test_spread_and_ratio_of_rounds():
    row = Row("w", "p", samples=[2.0, 2.0, 4.0], eager=[4.0, 6.0, 4.0])
    assert (row.median, row.ratio, row.best_ratio) == (2.0, 2.0, 2.0)
    assert Row("w", "p", samples=[1.0]).spread == 0


def test_names_are_listed_and_unknown_ones_refused(capsys):
    assert main(["--list"]) == 0
    assert "tiny-loop" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--workload", "nonesuch"])
    assert "there is no workload 'nonesuch'" in capsys.readouterr().err
    assert {"tiny-loop", "dopri5-train", "llama"} <= set(WORKLOADS) and "eager" in PEERS


def test_a_plot_is_drawn_as_svg(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.plot import draw

    rows = [
        {"workload": w, "peer": p, "ratio": 1.5, "overhead": False}
        for w in ("a", "b")
        for p in ("eager", "dy2st.native", "torch.jit")
    ]
    path = tmp_path / "plot.svg"
    draw({"rows": rows, "environment": {"threads": 2}}, path)
    assert "<svg" in path.read_text()


def test_samples_fall_into_parts():
    report = (
        " 50.00%|libc.so.6|[.] _int_malloc\n 25.00%|libtorch_cpu.so|[.] at::TensorIteratorBase::build\n  5.00%|x.so|[.] run\n\n"
    )
    found = profile.shares(report)
    assert (found["allocation"], found["iteration set-up"], found["other"]) == (0.5, 0.25, 0.05)
    assert sum(found.values()) == 0.8
