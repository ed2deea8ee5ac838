"""The executor that runs programs in onnxruntime: eager's answers, and what it leaves to others, which it says."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_structure

import dy2st
from dy2st import InputSpec, to_static
from dy2st.errors import BackendError
from dy2st_runtime import executors

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]])


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from dy2st.onnx_backend import kept

    monkeypatch.setattr(kept, "folder", lambda: tmp_path_factory.getbasetemp() / "graphs")
    with torch.no_grad():
        yield


def observe(function: Any, args: tuple[Any, ...]) -> tuple[Any, Any, list[Any]]:
    mine = [value.clone() if isinstance(value, torch.Tensor) else value for value in args]
    try:
        return function(*mine), None, mine
    except Exception as error:
        return None, error, mine


def objects(given: list[Any], result: Any) -> list[int]:
    """For each tensor of the result, the first place where it stands."""
    tensors = [leaf for leaf in (*given, *tree_leaves(result)) if isinstance(leaf, torch.Tensor)]
    return [next(i for i, other in enumerate(tensors) if other is tensor) for tensor in tensors]


def agree(function: Any, *calls: tuple[Any, ...], spec: Any = None, elsewhere: bool = False) -> Any:
    """Check each call against eager; ``elsewhere`` is whether none of it may run in onnxruntime."""
    static = to_static(function, input_spec=spec, backend="onnxruntime")
    for args in calls:
        expected, raised, before = observe(function, args)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore" if elsewhere else "error", message=".*runs without onnxruntime")
            found, error, after = observe(static, args)
        assert type(error) is type(raised) and str(error) == str(raised), f"{args}: {error!r}, expected {raised!r}"
        assert tree_structure(found) == tree_structure(expected)
        assert objects(after, found) == objects(before, expected), args
        for mine, theirs in zip([*tree_leaves(found), *after], [*tree_leaves(expected), *before], strict=True):
            assert type(mine) is type(theirs)
            if isinstance(mine, torch.Tensor):
                torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)
            else:
                assert mine == pytest.approx(theirs)
    assert len(static.program_cache) == 1
    assert elsewhere == ("runs in onnxruntime" not in static.report().runs[-1])
    return static


def test_every_branch_and_any_number_of_iterations() -> None:
    def f(x: Any, n: Any, other: Any) -> Any:
        steps, total = 0, 0.5
        while steps < n:
            if x.sum() > 0:
                x = x - 1
            else:
                x, other = other, x * 2
            steps += 1
            total = total * 2 + int(n)
        return x, steps, total, total > 3, None, "text", [x, {"same": x}]

    agree(f, *((X, torch.tensor(n), X * 3) for n in (0, 1, 2, 7)))


@pytest.mark.slow
def test_early_returns_and_exceptions_agree_with_eager() -> None:
    def f(x: Any, limit: Any, n: Any) -> Any:
        start = x
        for scale in (1.0, 2.0, -4.0):
            if x.abs().max() > limit:
                return x, scale
            if n < 0:
                raise ValueError("a negative number")
            x = x * scale
            i = 0
            while i < n:
                x = x + 0.25 * n
                i += 1
        if n > 3:
            return start, 0.0
        return x + 1, 1.5

    limits = (0.5, 2.9, 3.5, 8.0, 100.0, 1e4)
    agree(f, *((X, torch.tensor(limit), torch.tensor(n)) for limit in limits for n in (-1, 0, 1, 3, 5)))


def test_what_comes_back_is_the_argument_where_it_is_in_eager() -> None:
    def f(a: Any, b: Any, n: Any, flag: Any) -> Any:
        i = 0
        while i < n:
            a, b = b, a
            i += 1
        if flag > 0:
            c = a
        elif flag < 0:
            c = b * 1
        else:
            c = b
        return a, b, c

    calls = [(n, flag) for n in (0, 1, 2) for flag in (-1, 0, 1)]
    agree(f, *((X, X * 2, torch.tensor(n), torch.tensor(flag)) for n, flag in calls))


def test_what_eager_refuses_raises_the_same() -> None:
    def f(x: Any, n: Any, d: Any, index: Any) -> Any:
        if n < 0:
            raise LookupError("a negative number", int(n))
        whole, i = x.to(torch.int64), 0
        while i < n:
            if i > 4:
                raise ValueError("too many iterations")
            whole, i = whole // d, i + 1
        rows = nn.functional.embedding(index, x)
        return whole, rows, int(n) % int(d), math.sqrt(float(n)), int(float(d) * 1.0)

    good = torch.tensor([0, 1])
    cases = [
        (3, 2, good),
        (-1, 2, good),
        (9, 2, good),
        (2, 0, good),
        (0, 0, good),
        (1, 2, good - 1),
        (1, 2, good + 1),
        (0, 3, good),
    ]
    static = agree(f, *((X * 10, torch.tensor(n), torch.tensor(d), index) for n, d, index in cases))
    assert "runs not: it raises" in static.report().runs[-1]


def _unused_item(x: Any, n: Any) -> Any:
    [x, x + 1][int(n)]
    return x * 2


def _replaced_item(x: Any, n: Any) -> Any:
    items = [x, x + 1]
    items[int(n)] = x * 5
    return torch.stack(items)


def _unused_entries(x: Any, n: Any) -> Any:
    x[n.reshape(1)]
    return x * 2


def _unused_selection(x: Any, n: Any) -> Any:
    x.index_select(0, n.abs().reshape(1))
    torch.gather(x, 0, n.abs().reshape(1, 1))
    return x * 2


def _unused_sum(x: Any, n: Any) -> Any:
    x[: int(n)] + x
    return x * 2


def _unused_loop(x: Any, n: Any) -> Any:
    for i in range(int(n) + 1):
        x[i]
    return x * 2


def _unused_inner_loop(x: Any, n: Any) -> Any:
    i = n * 0
    while i < n:
        for k in range(int(i) + 2):
            x[k]
        i = i + 1
    return x * 2


@pytest.mark.parametrize(
    "function",
    [_unused_item, _replaced_item, _unused_entries, _unused_selection, _unused_sum, _unused_loop, _unused_inner_loop],
)
def test_what_nobody_uses_raises_the_same(function: Any) -> None:
    trips = (2, 0) if function is _unused_sum else (0, 1, 2, 0, 3, -3)
    static = agree(function, *((X, torch.tensor(n)) for n in trips))
    assert "runs in onnxruntime" in static.report().runs[-1]


@pytest.mark.parametrize(
    "reduce",
    [torch.mean, torch.max, torch.any, torch.std, torch.argmin, lambda x: x.amax(0), lambda x: x.var(0, unbiased=False), torch.sum],
)
def test_reductions_of_tensors_without_entries_agree_with_eager(reduce: Any) -> None:
    def f(x: Any, limit: Any) -> Any:
        some = x[x > limit]
        return reduce(some), reduce(x), x[:0].sum()

    static = agree(f, *((X, torch.tensor(limit)) for limit in (0.0, 10.0, -1.5)))
    assert "runs in onnxruntime" in static.report().runs[-1]
    if reduce in (torch.mean, torch.any):
        agree(lambda x: reduce(x[:0]), (X,), elsewhere=True)


def test_numbers_beyond_64_bits_and_not_a_number() -> None:
    def f(x: Any, n: Any) -> Any:
        a, b, i = int(n), 1, 0
        while i < 100:
            a, b, i = b, a + b, i + 1
            if a > x:
                break
        return a, int(float(x))

    agree(
        f, (torch.tensor(50.0), torch.tensor(1)), (torch.tensor(1e18), torch.tensor(7)), (torch.tensor(math.nan), torch.tensor(1))
    )


def test_dynamic_sizes_and_layouts() -> None:
    def f(x: Any) -> Any:
        y = x.cumsum(0) if x.sum() > 0 else x * 2
        return y.sum(0), y.shape[0], torch.softmax(x, -1), x > 0, x.t() + 1

    spec = [InputSpec([None, 3])]
    agree(f, *((torch.randn(size, 3),) for size in (2, 0, 1, 7)), (torch.randn(3, 4).t(),), spec=spec)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32, torch.bool, torch.bfloat16])
def test_other_dtypes_agree_and_bfloat16_runs_elsewhere(dtype: torch.dtype) -> None:
    def f(x: Any) -> Any:
        return (x & ~x, x) if x.dtype is torch.bool else (x + x, x.t() + 1)

    agree(f, ((X * 3).to(dtype),), elsewhere=dtype is torch.bfloat16)


def test_arguments_that_change_in_place() -> None:
    def f(x: Any, y: Any) -> Any:
        x[0] = 5.0
        if y.sum() > 0:
            y.mul_(x)
        return y, x.sum()

    static = agree(f, (X, X.abs()), (X, -X.abs()))
    x = X.clone()
    with pytest.warns(RuntimeWarning, match="shares its memory with another one"):
        static(x, x[:])


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.calls = 0
        self.last = torch.zeros(2, 3)

    def forward(self, x: Any) -> Any:
        self.seen += 1
        self.calls += 1
        x = self.linear(x)
        while x.abs().sum() > 1:
            x = x * 0.5
        self.last = x
        return x


def test_state_is_written_and_weights_may_change() -> None:
    model, eager = Counting().eval(), Counting().eval()
    eager.load_state_dict(model.state_dict())
    static = to_static(model, backend="onnxruntime")
    optimizers = [torch.optim.SGD(module.parameters(), 0.1) for module in (model, eager)]

    def check() -> None:
        for x in (X, X * 9):
            found = static(x)
            torch.testing.assert_close(found, eager(x))
            assert found is static.last and (static.calls, static.seen) == (eager.calls, eager.seen)

    check()
    for module, optimizer in zip((model, eager), optimizers):
        for parameter in module.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    check()
    for module in (model, eager):
        module.linear.weight.data.mul_(2)
    check()
    for module in (model, eager):
        module.load_state_dict({key: value + 1 for key, value in module.state_dict().items()})
    check()
    for step in range(4):
        for module in (model, eager):
            module.linear.bias.add_(step)
        check()
    assert "runs not" not in model.forward.report().runs[-1]


class LooksNowhere(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.ones(3)), nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: Any) -> Any:
        unused = self.first * 2
        if unused.numel() > 5:
            return unused
        return x * self.second if x.sum() > 0 else x - self.second.sum()


def test_a_weight_that_no_result_needs() -> None:
    model = LooksNowhere().eval()
    static = to_static(LooksNowhere().eval(), backend="onnxruntime")
    for x in (X, -X):
        torch.testing.assert_close(static(x), model(x))
    assert "runs in onnxruntime" in static.forward.report().runs[-1]  # type: ignore[operator,union-attr]


def test_with_gradients_it_runs_elsewhere_and_says_so() -> None:
    model = nn.Linear(3, 2)
    static = to_static(lambda x: model(x).relu(), backend="onnxruntime")
    with torch.enable_grad():
        with pytest.warns(RuntimeWarning, match=r"test_onnxruntime.py:\d+: .*runs without onnxruntime.*gradients are wanted"):
            static(X).sum().backward()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            static(X).sum().backward()  # told once
    assert model.weight.grad is not None
    static(X)
    assert "1 runs in onnxruntime" in str(static.report()) and "2 runs not: gradients are wanted" in str(static.report())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda x: x.t(), "shares memory with 'x'"),
        (lambda x: (x + 1).split(1), "two results may share memory"),
        (lambda x: x + torch.rand(2, 3), "makes random numbers"),
        (lambda x: nn.functional.one_hot(x.to(torch.int64), 8), "refuses some values"),
        (lambda x: torch.linalg.cholesky(x @ x.t()), "no translation to ONNX"),
    ],
)
def test_what_onnx_cannot_hold_runs_elsewhere(body: Any, reason: str) -> None:
    x = X.abs()
    static = to_static(body, backend="onnxruntime")
    torch.manual_seed(0)
    with pytest.warns(RuntimeWarning, match=rf"test_onnxruntime.py:\d+: .*{reason}"):
        found = static(x)
    torch.manual_seed(0)
    torch.testing.assert_close(found, body(x))
    assert reason in str(static.report())


def _part_of_itself(x: Any, n: Any) -> Any:
    y = x * 1
    y -= y[n % 2]
    return y


def _part_taken_before(x: Any, n: Any) -> Any:
    y = x * 1
    row = y[n % 2]
    if n > 0:
        y += row
    return y


def _part_left_by_a_loop(x: Any, n: Any) -> Any:
    y, z, row = x * 1, x * 2, x[0] * 1
    while n > 0:
        y, z, row, n = z, y, y[n % 2], n - 1
    z *= row
    return y, z * 1


def _part_in_a_loop(x: Any, n: Any) -> Any:
    y = x * 1
    while n > 0:
        y += y.narrow(0, n % 2, 1)
        n = n - 1
    return y


@pytest.mark.parametrize("function", [_part_of_itself, _part_taken_before, _part_left_by_a_loop, _part_in_a_loop])
def test_what_reads_a_part_of_what_it_writes_raises_the_same(function: Any) -> None:
    agree(function, *((X, torch.tensor(n)) for n in (1, 2, 0)), elsewhere=True)


def test_an_item_is_changed_in_place() -> None:
    def f(x: Any, n: Any) -> Any:
        y = x * 1
        while n > 0:
            y[n % 2] += 1
            n = n - 1
        y[n] += x[n]
        return y

    agree(f, *((X, torch.tensor(n)) for n in (0, 1, 2, 3)))


def _carry_that_starts_as_it(x: Any, n: Any) -> Any:
    z = x
    while n > 0:
        x[0] = x.mean(0)
        if x.sum() < -100:
            z = x + 1
        n = n - 1
    return z + 0, x


def _carry_that_becomes_it(x: Any, n: Any) -> Any:
    z = x * 2
    while n > 0:
        x.add_(z)
        z = x
        n = n - 1
    return z + 0


def _carries_that_become_one(x: Any, n: Any) -> Any:
    y, z = x * 1, x * 2
    while n > 0:
        y += 1
        y = z = y + z
        n = n - 1
    return y + z


def _view_from_before(x: Any, n: Any) -> Any:
    row = x[0]
    if n > 1:
        x.add_(1)
        return row * 2
    return row * 3


@pytest.mark.parametrize(
    "function", [_carry_that_starts_as_it, _carry_that_becomes_it, _carries_that_become_one, _view_from_before]
)
def test_a_loop_or_branch_sees_what_it_writes_under_another_name(function: Any) -> None:
    agree(function, *((X, torch.tensor(n)) for n in (2, 0, 1, 3)), elsewhere=True)


def test_results_are_nobody_elses_memory() -> None:
    weight = nn.Parameter(torch.ones(3))

    def f(x: Any) -> Any:
        return x * 1 + weight, torch.arange(3), weight + 0

    static = to_static(f, backend="onnxruntime")
    first = static(X)
    kept = [value.clone() for value in first]
    for value in static(X + 1):
        value.zero_()
    for value, before in zip(first, kept):
        assert torch.equal(value, before)
    assert torch.equal(weight, torch.ones(3))
    assert torch.equal(static(X)[1], torch.arange(3))


def test_graphs_are_kept_on_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from dy2st.onnx_backend import kept

    made: list[Any] = []
    original = kept.create
    monkeypatch.setattr(kept, "create", lambda *args: made.append(args) or original(*args))
    monkeypatch.setattr(kept, "folder", lambda: tmp_path / "onnx")

    def call() -> Any:
        return to_static(lambda x: x * 2 if x.sum() > 0 else x - 1, backend="onnxruntime")(X)

    first = call()
    assert torch.equal(first, call()) and len(made) == 1
    (file,) = (tmp_path / "onnx").iterdir()
    file.write_bytes(file.read_bytes()[:-10])  # cut short
    assert torch.equal(first, call()) and len(made) == 2


def test_many_threads_get_the_results_of_eager() -> None:
    weight = nn.Parameter(torch.full((3,), 2.0))

    @to_static(backend="onnxruntime")
    def f(x: Any, n: Any) -> Any:
        i = 0
        while i < n:
            x, i = x * 0.5 + weight, i + 1
        return x, i

    wrong: list[Any] = []

    def work(index: int) -> None:
        with torch.no_grad():
            for step in range(30):
                x, n = X + index, torch.tensor((index + step) % 5)
                found, count = f(x, n)
                expected, expected_count = f.function(x, n)
                if count != expected_count or not torch.allclose(found, expected):
                    wrong.append((index, step))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_a_saved_model_runs_there(tmp_path: Path) -> None:
    model = Counting().eval()
    dy2st.save(to_static(model), tmp_path / "model.dy2st", input_spec=[InputSpec([2, 3])])
    loaded = dy2st.load(tmp_path / "model.dy2st", backend="onnxruntime")
    for _ in range(2):
        torch.testing.assert_close(loaded(X), model(X))
    assert loaded.seen == 2


def test_without_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    from dy2st.onnx_backend import registration

    monkeypatch.setattr(registration.importlib.util, "find_spec", lambda name: None)
    registration._require.cache_clear()
    try:
        with pytest.raises(BackendError, match=r"needs onnx, onnxscript, onnxruntime: pip install 'dy2st\[onnx\]'"):
            to_static(lambda x: x, backend="onnxruntime")
        assert "onnxruntime" not in executors.available()
    finally:
        registration._require.cache_clear()


def test_the_runtime_alone_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    unregistered = executors.Backend(executors._not_registered, require=executors._not_registered)
    monkeypatch.setitem(executors.BACKENDS, "onnxruntime", unregistered)
    with pytest.raises(BackendError, match=r"pip install 'dy2st\[onnx\]', and import dy2st"):
        executors.choose("onnxruntime")
