"""What islands may not do, and what is said: both kinds, and the user's line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import dy2st
from dy2st import InputSpec
from tests.oracle import agree, same
from tests.programs.values import vec

X = vec(1.0, 2.0)


@dy2st.not_to_static(returns=InputSpec([None], "float64"))
def by_numpy(x):
    return torch.from_numpy(np.sort(x.detach().numpy()))


def line(error):
    return f"{os.path.basename(__file__)}:" in str(error)


def test_a_result_of_another_dtype_names_both_and_widens_the_next_capture():
    @dy2st.not_to_static
    def found(x):
        return torch.tensor(float(x.max().item())) if x.max().item() < 5 else torch.tensor(int(x.max().item()))

    def f(x):
        y = found(x)
        return y * 2, y.dtype

    static = dy2st.to_static(f)
    for _ in range(3):
        same(static(X), f(X))
    with pytest.raises(
        dy2st.IslandError, match=r"gave a tensor \[\] of float32, and now it gives a tensor \[\] of int64"
    ) as caught:
        static(X * 10)
    assert "found()" in str(caught.value) and line(caught.value)
    for x in (X * 10, X, X * 20, X):
        same(static(x), f(x))
    assert len(static.program_cache) == 1


def test_a_result_of_another_structure_names_the_place():
    @dy2st.not_to_static
    def found(x):
        high = x.max().item()
        return {"a": high, "b": (high, None if high > 5 else x)}

    static = dy2st.to_static(lambda x: found(x)["a"])
    static(X), static(X)
    with pytest.raises(dy2st.IslandError, match=r"gave a tensor \[\?\] of float64 at result\['b'\]\[1\], and now it gives None"):
        static(X * 10)
    assert static(X * 10) == 20.0 and static(X) == 2.0


def test_none_or_a_tensor_is_told_apart_once_both_are_known():
    @dy2st.not_to_static
    def found(x):
        return x * 2 if x.max().item() > 5 else None

    def f(x):
        y = found(x)
        return x if y is None else y + 1

    static = dy2st.to_static(f)
    same(static(X), f(X))
    same(static(X), f(X))
    with pytest.raises(dy2st.IslandError, match="gave None, and now it gives a tensor"):
        static(X * 10)
    for x in (X, X * 10, X, X * 9):
        same(static(x), f(x))


def test_a_declared_result_is_kept_to():
    @dy2st.not_to_static(returns=(InputSpec([2], "float64"), float))
    def given(x):
        return (x.detach().clone(), 1) if x.sum().item() > 5 else (x.detach().clone(), 1.0)

    static = dy2st.to_static(lambda x: given(x))
    same(static(X), given(X))
    with pytest.raises(dy2st.IslandError, match=r"is declared to give a float at result\[1\], and now it gives an int"):
        static(X * 10)
    with pytest.raises(
        dy2st.IslandError, match=r"a tensor \[2\] of float64 at result\[0\], and now it gives a tensor \[\?\] of float64"
    ):
        dy2st.to_static(lambda x: given(x))(vec(0.0, 0.0, 0.0))


@pytest.mark.parametrize("returns", [InputSpec, "float32", 3, {1, 2}, [object()]])
def test_what_is_no_declaration_is_refused(returns):
    if returns == "float32":
        returns = torch.float32
    with pytest.raises(dy2st.SignatureError, match="returns is an InputSpec, int, float"):
        dy2st.not_to_static(returns=returns)


def test_a_numpy_array_is_refused_with_what_to_give():
    @dy2st.not_to_static
    def array(x):
        return np.asarray(memoryview(x.detach().numpy())) * 2

    static = dy2st.to_static(lambda x: array(x))
    static(X)
    with pytest.raises(
        dy2st.CaptureError, match=r"array\(\), which runs as Python, gives a numpy.ndarray; give torch.from_numpy\(result\)"
    ):
        static(X)


def test_an_island_inside_a_transform_is_refused():
    for transform in (torch.func.vmap, torch.func.grad):
        static = dy2st.to_static(lambda x: transform(lambda row: by_numpy(row * 2).sum())(x))
        with pytest.raises(dy2st.CaptureError, match=r"by_numpy\(\), which runs as Python, is called inside torch.func") as caught:
            static(torch.ones(2, 2, dtype=torch.float64))
        assert __file__ in str(caught.value)


def test_an_island_in_a_try_statement_is_refused():
    def f(x):
        try:
            return by_numpy(x)
        except ValueError:
            return x

    with pytest.raises(dy2st.CaptureError, match="may raise when the program runs, and no program enters the except"):
        dy2st.to_static(f)(X)
    with pytest.warns(dy2st.EagerWarning):
        same(dy2st.to_static(f, full_graph=False)(X), f(X))


def test_an_island_in_contextlib_suppress_is_refused():
    def f(x):
        with contextlib.suppress(ValueError):
            x = by_numpy(x)
        return x

    with pytest.raises(dy2st.CaptureError, match="no program enters the except"):
        dy2st.to_static(f)(X)


def test_an_island_does_not_get_a_function_that_the_static_function_makes():
    @dy2st.not_to_static(returns=float)
    def applied(function, x):
        return float(function(x.numpy()))

    same(dy2st.to_static(lambda x: applied(np.sum, x))(X), 3.0)
    with pytest.raises(dy2st.CaptureError, match="gets a function that the static function has made"):
        dy2st.to_static(lambda x: applied(lambda values: values[0], x))(X)


def test_an_island_that_looks_at_what_was_written_before_is_refused():
    class Net(torch.nn.Module):
        @dy2st.not_to_static(returns=float)
        def reads(self):
            return float(self.kept.sum())

        def forward(self, x):
            self.kept = x * 2
            return x * self.reads()

    with pytest.raises(dy2st.CaptureError, match=r"may look at Net.kept, which the static function has written before"):
        dy2st.to_static(Net())(X)


class Counter:
    def __init__(self):
        self.calls = 0


def test_what_an_island_changes_is_not_read_as_it_was_before():
    counter = Counter()

    @dy2st.not_to_static(returns=None)
    def counts(counter):
        counter.calls += 1

    def f(x):
        counts(counter)
        return x * counter.calls

    with pytest.raises(dy2st.IslandError, match=r"has changed counter.calls, and what the program does after"):
        dy2st.to_static(f)(X)


def test_what_an_island_changes_is_read_before_the_call():
    def make():
        counter = Counter()

        @dy2st.not_to_static(returns=None)
        def counts(counter):
            counter.calls += 1

        def f(x):
            y = x * 2 if counter.calls > 1 else x
            counts(counter)
            return y + 1

        return f

    f, g = make(), make()
    static = dy2st.to_static(g)
    for _ in range(5):
        same(static(X), f(X))


def test_a_list_that_is_made_for_an_island_is_not_changed():
    @dy2st.not_to_static(returns=None)
    def appends(items):
        items.append(1)

    def f(x):
        items = [x, x]
        appends(items)
        return len(items)

    with pytest.raises(dy2st.IslandError, match="changes a list that it is given and that the program has made for it"):
        dy2st.to_static(f)(X)


def test_an_island_does_not_change_what_its_argument_is():
    @dy2st.not_to_static(returns=None)
    def resized(x):
        x.resize_(5)

    with pytest.raises(dy2st.IslandError, match=r"changes its argument from float64\[2\] to float64\[5\]"):
        dy2st.to_static(lambda x: resized(x + 1))(X)


def test_a_generator_is_no_island():
    @dy2st.not_to_static
    def yields(x):
        yield float(np.max(x.numpy()))

    with pytest.raises(dy2st.CaptureError, match="is a generator or a coroutine"):
        dy2st.to_static(lambda x: list(yields(x)))(X)


def test_wrong_arguments_raise_what_python_raises():
    @dy2st.not_to_static
    def two(x, y):
        return float(x.numpy().sum()) + y

    agree(lambda x: two(x), [X], programs=None)


def test_saves_and_exports_name_the_island(tmp_path):
    static = dy2st.to_static(lambda x: by_numpy(x) * 2, input_spec=[InputSpec([None], "float64")])
    same(static(X), by_numpy(X) * 2)
    with pytest.raises(dy2st.Dy2stError, match=r"by_numpy\(\), which runs as Python(.|\n)*test_islands_refused.py"):
        dy2st.save(static, tmp_path / "f.dy2st")
    for name in ("f.pt2", "f.onnx"):
        with pytest.raises(dy2st.Dy2stError, match=r"by_numpy\(\), which runs as Python(.|\n)*test_islands_refused.py"):
            dy2st.export(static, tmp_path / name)
    assert not [*tmp_path.iterdir()]


def test_an_interrupt_ends_an_endless_island(tmp_path):
    file = tmp_path / "endless.py"
    file.write_text(
        textwrap.dedent(
            """
            import signal
            import torch, dy2st

            signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background has its children ignore

            @dy2st.not_to_static(returns=None)
            def endless(x):
                print("begun", flush=True)
                while x.sum().item() > 0:
                    pass

            @dy2st.to_static
            def f(x):
                if x.sum() > 0:
                    endless(x)
                return x

            f(torch.zeros(2))
            f(torch.ones(2))
            """
        )
    )
    process = subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in errors and "in endless" in errors


@pytest.mark.parametrize("backend", ["python", "native", "cpp", "onnxruntime", "inductor"])
def test_each_backend_leaves_islands_to_python(backend):
    def f(x, n):
        for _ in range(n):
            x = by_numpy(x * 2 + 1) - 1
        return x.exp() + x

    static = dy2st.to_static(f, backend=backend)
    for n in (2, 0, 3):
        torch.testing.assert_close(static(X, torch.tensor(n)), f(X, torch.tensor(n)))
