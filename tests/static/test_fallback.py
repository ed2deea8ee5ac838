"""`full_graph=False`: what cannot be captured runs as it is written, and says so."""

from __future__ import annotations

import copy
import hashlib
import pickle
import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dy2st
from dy2st import InputSpec, to_static
from dy2st.errors import CaptureError, SaveError, SignatureError
from tests.oracle import same

X = torch.tensor([1.0, -2.0, 4.0])


def listed(x: Any) -> Any:
    """What dy2st refuses."""
    return [float(value) for value in memoryview(x.detach().numpy())]


def numbers(x: Any) -> Any:
    if x.sum() > 0:
        return [value * 2 for value in memoryview(x.detach().numpy())]
    return []


def only_floats(x: Any) -> Any:
    """Captured for integers, refused for floats."""
    if x.is_floating_point():
        return x * len({value for value in memoryview(x.numpy())})
    if x.sum() > 0:
        return x * 2
    return x


def eager_calls(static: Any) -> int:
    return sum(refused.calls for refused in getattr(static, "forward", static).report().eager)


def quietly(static: Any, *args: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return static(*args)


def test_a_function_that_cannot_be_captured() -> None:
    static = to_static(full_graph=False)(numbers)
    with pytest.warns(dy2st.EagerWarning, match="runs numbers as it is written") as caught:
        assert static(X) == numbers(X)
    (warning,) = caught
    line = numbers.__code__.co_firstlineno + 2
    assert f'File "{__file__}", line {line}, in numbers' in str(warning.message)
    assert warning.filename == __file__
    assert quietly(static, -X) == []
    assert quietly(static, X) == numbers(X)
    assert len(static.program_cache) == 0
    assert eager_calls(static) == 3
    assert "3 calls ran as written: " in str(static.report())


def test_one_signature_does_not_disable_another() -> None:
    static = to_static(only_floats, full_graph=False)
    same(static(X.long()), X.long() * 2)
    with pytest.warns(dy2st.EagerWarning):
        same(static(X), X * 3)
    same(quietly(static, -X.long()), -X.long())
    same(quietly(static, X), X * 3)
    assert len(static.program_cache) == 1
    assert eager_calls(static) == 2
    assert [site.outcome for site in static.report().sites if site.construct == "if"] == ["plain Python", "captured"]


def test_what_cannot_be_converted() -> None:
    @to_static(full_graph=False)
    def rows(x: Any) -> Any:
        for row in x:
            yield row * 2

    with pytest.warns(dy2st.EagerWarning, match=r"cannot yield(.|\n)*test_fallback.py(.|\n)*yield row"):
        assert [int(row) for row in rows(X)] == [2, -4, 8]
    assert eager_calls(rows) == 1
    space: dict[str, Any] = {}
    exec("def f(x):\n    return x * 2\n", space)
    with pytest.warns(dy2st.EagerWarning, match="cannot find the source of 'f'"):
        same(to_static(space["f"], full_graph=False)(X), X * 2)
    with pytest.raises(dy2st.ConversionError):
        _ = rows.code


COUNT = 0


def test_nothing_is_left_half_done() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))
            self.calls, self.log, self.table = 0, [], {}

        def forward(self, x: Any, rows: Any) -> Any:
            global COUNT
            COUNT += 1
            self.calls += 1
            self.seen.add_(x)
            self.log.append(x)
            self.table["x"] = self.last = x
            rows.append(x * 2)
            x += 1
            if x.sum() > 0:
                self.calls += 10
                rows.append(x)
            x = nn.functional.dropout(x) + torch.rand(3) + random.random() + float(np.random.rand(1)[0])
            return [float(value) for value in memoryview(x.detach().numpy())], self.calls

    global COUNT
    outcomes = []
    for net in (Net(), to_static(Net(), full_graph=False)):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        COUNT = 0
        x, rows = X.clone(), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = [net(x, rows), net(x, rows)]
        drawn = [torch.rand(1), random.random(), np.random.rand()]
        outcomes.append([results, x, rows, net.seen, net.calls, net.log, net.table, net.last, COUNT, drawn])
    same(outcomes[0], outcomes[1])
    assert eager_calls(net) == 2


GIVEN: Any = None


@pytest.mark.parametrize("made", [lambda: iter([1, 2, 3, 4]), lambda: (n for n in range(5)), lambda: map(int, "1234"), lambda: bytearray(b"ab"), lambda: np.ones(3), hashlib.md5])  # fmt: skip
@pytest.mark.parametrize("way", ["an argument", "a global"])
def test_what_cannot_be_put_back_is_not_touched(made: Any, way: str) -> None:
    def used(x: Any, value: Any) -> Any:
        value = GIVEN if value is None else value
        if isinstance(value, bytearray):
            value.append(1)
        elif isinstance(value, np.ndarray):
            value[0] += 1
        elif hasattr(value, "digest"):
            value.update(b"a")
        else:
            x = x + next(value)
            if x.sum() > 0:
                x = x + next(value)
        return listed(x)

    global GIVEN
    outcomes = []
    for function in (used, to_static(used, full_graph=False)):
        value = made()
        GIVEN = value if way == "a global" else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = [function(x, None if way == "a global" else value) for x in (X, -X)]
        left = value.digest() if hasattr(value, "digest") else list(value)
        outcomes.append((results, left))
    assert outcomes[0] == outcomes[1]


def test_errors_of_the_users_own_code_come_through() -> None:
    calls = 0

    @to_static(full_graph=False)
    def wrong(x: Any) -> Any:
        if x.shape[0] == 3:
            raise KeyError("three")
        return listed(x)

    for _ in range(2):
        with pytest.raises(KeyError, match="three"):
            quietly(wrong, X)
    assert eager_calls(wrong) == 0
    with pytest.warns(dy2st.EagerWarning):
        assert wrong(X[:2]) == [1.0, -2.0]
    with pytest.raises(SignatureError):
        wrong(X, X)
    typed = to_static(numbers, input_spec=[InputSpec([3], "int64")], full_graph=False)
    with pytest.raises(SignatureError):
        typed(X)
    assert calls == 0


def test_code_that_fails_on_abstract_values_only() -> None:
    @dy2st.not_to_static
    def plain(x: Any) -> Any:
        if type(x) is not torch.Tensor:
            raise TypeError("no plain tensor")
        return x * 2

    static = to_static(lambda x: plain(x) + 1, full_graph=False)
    for _ in range(2):
        same(quietly(static, X), X * 2 + 1)
    assert len(static.program_cache) == 1 and eager_calls(static) == 0


def test_a_helper_of_modules_methods_and_copies_runs_as_python() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return listed(self.linear(x)) if x.sum() > 0 else []

        @to_static(full_graph=False)
        def other(self, x: Any) -> Any:
            return listed(x) if x.sum() > 0 else self.linear(x).sum()

    net = to_static(Net(), full_graph=False)
    with pytest.warns(dy2st.EagerWarning):
        assert net(X) == net.linear(X).tolist()
    with pytest.warns(dy2st.EagerWarning):
        assert net.other(X) == X.tolist()
    copied = copy.deepcopy(net)
    with pytest.warns(dy2st.EagerWarning):
        assert copied(-X) == []
    assert copied(-X) == [] and net(-X) == []
    for static in (net.forward, copied.forward, net.other):
        assert eager_calls(static) == 0
        assert [island.name for island in static.report().islands] == (["listed"] if len(static.program_cache) else [])


def test_pickled_functions_keep_the_setting() -> None:
    net = to_static(Pickled(), full_graph=False)
    again = pickle.loads(pickle.dumps(net))
    assert not again.forward.options.full_graph
    with pytest.warns(dy2st.EagerWarning):
        assert again(X) == X.tolist()


class Pickled(nn.Module):
    def forward(self, x: Any) -> Any:
        return listed(x) if x.sum() > 0 else []


def test_programs_of_what_is_refused() -> None:
    static = to_static(numbers, full_graph=False)
    with pytest.raises(CaptureError):
        static.program(X)
    with dy2st.enable_to_static(False):
        assert quietly(static, X) == numbers(X)
    assert eager_calls(static) == 0


def test_inside_of_another_static_function() -> None:
    inner = to_static(numbers, full_graph=False)

    @to_static(full_graph=False)
    def outer(x: Any) -> Any:
        return inner(x), x + 1

    with pytest.warns(dy2st.EagerWarning, match="numbers"):
        same(outer(X), (numbers(X), X + 1))


def test_what_falls_back_cannot_be_saved(tmp_path: Any) -> None:
    static = to_static(only_floats, full_graph=False)
    dy2st.save(static, tmp_path / "f.dy2st", [InputSpec([3], "int64")])
    with pytest.raises(SaveError, match=r"only_floats cannot be saved.*\n?(.|\n)*test_fallback.py"):
        dy2st.save(static, tmp_path / "g.dy2st", [InputSpec([3], "float32")])
    with pytest.warns(dy2st.EagerWarning):
        static(X)
    with pytest.raises(SaveError, match="runs as it is written"):
        dy2st.save(static, tmp_path / "g.dy2st")
    assert not (tmp_path / "g.dy2st").exists()


def test_the_default_refuses_what_cannot_be_captured() -> None:
    with pytest.raises(CaptureError):
        to_static(numbers)(X)
    with pytest.raises(SignatureError, match="full_graph is True or False"):
        to_static(numbers, full_graph="no")
