"""`full_graph=False`: the innermost function that cannot be captured runs as Python, and the rest is captured around it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import dy2st
from tests.oracle import same
from tests.programs.values import vec

XS = [vec(1.0, 2.0, 3.5), vec(-1.0, -2.0, 0.5), vec(4.0, -1.0, 2.0), vec(1.0, 2.0, 3.5)]


def highest(x):
    return max(memoryview(x.detach().numpy()))


def scaled(x):
    if x.sum() > 0:
        x = x / highest(x)
    return x * 2


def as_eager(function, calls, backend=None):
    static = dy2st.to_static(function, full_graph=False, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dy2st.EagerWarning)
        for x in calls:
            same(static(x), function(x))
    return static


@pytest.mark.parametrize("backend", ["python", "native"])
def test_the_innermost_function_that_cannot_be_captured_runs_as_python(backend):
    def f(x):
        for _ in range(2):
            x = scaled(x)
        return x

    static = as_eager(f, XS, backend)
    report = static.report()
    assert len(static.program_cache) == 1 and report.eager == ()
    (island, *_) = report.islands
    assert island.name == "highest" and island.calls > 0 and "memoryview" in island.reason
    assert "highest runs as Python, called" in str(report)


def test_a_warning_says_which_function_runs_as_python_and_why():
    static = dy2st.to_static(lambda x: scaled(x), full_graph=False)
    with pytest.warns(dy2st.EagerWarning, match=r"runs highest as Python in (.|\n)*memoryview") as caught:
        static(XS[0])
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in XS:
            same(static(x), scaled(x))


def test_a_function_whose_result_no_program_can_hold_takes_its_caller_along():
    def array(x):
        return memoryview(x.detach().numpy())

    def uses(x):
        return torch.tensor(array(x).tolist()) + 1

    def f(x):
        return uses(x) * 3 if x.sum() > 0 else x

    static = as_eager(f, XS)
    assert [island.name.rpartition(".")[2] for island in static.report().islands] == ["uses"]


def test_a_call_whose_outermost_function_cannot_be_captured_runs_as_it_is_written():
    def f(x):
        return [float(v) for v in memoryview(x.detach().numpy())]

    static = as_eager(f, XS)
    assert len(static.program_cache) == 0 and static.report().islands == ()


def test_a_method_of_a_module_runs_as_python_and_gradients_flow():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3, dtype=torch.float64)

        def chosen(self, x):
            return x * self.linear.weight[int(np.argmax(memoryview(x.detach().numpy())))]

        def forward(self, x):
            y = self.linear(x)
            if y.sum() > 0:
                y = self.chosen(y)
            return y.sum()

    net = Net()
    static = dy2st.to_static(net, full_graph=False)
    with pytest.warns(dy2st.EagerWarning, match="chosen"):
        static(XS[0])
    for x in XS:
        grads = []
        for run in (static, Net.forward):
            net.zero_grad()
            result = run(x) if run is static else run(net, x)
            result.backward()
            grads.append([p.grad.clone() for p in net.parameters()])
        same(grads[0], grads[1])
    assert [island.name.rpartition(".")[2] for island in static.forward.report().islands] == ["chosen"]


def test_a_function_that_cannot_be_converted_runs_as_python():
    def rows(x):
        names = {"x": eval("x")}
        return names["x"] * 2

    def f(x):
        return rows(x) + 1 if x.sum() > 0 else x

    static = as_eager(f, XS)
    assert len(static.program_cache) == 1 and len(static.report().islands) == 1


def test_saving_a_function_with_an_island_says_where_it_is(tmp_path):
    def f(x):
        return scaled(x)

    static = dy2st.to_static(f, full_graph=False, input_spec=[dy2st.InputSpec([3], "float64")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dy2st.EagerWarning)
        for x in XS:
            static(x)
    with pytest.raises(dy2st.SaveError, match=r"highest\(\), which runs as Python(.|\n)*test_islands_by_themselves.py"):
        dy2st.save(static, tmp_path / "f.dy2st")
