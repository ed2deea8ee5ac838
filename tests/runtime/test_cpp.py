"""The executor that compiles whole loops: it agrees with eager, up to rounding, and declines what it cannot do."""

from __future__ import annotations

import shutil
import signal
import threading

import pytest
import torch

import dy2st
from benchmarks.loops import tiny_loop
from benchmarks.ode import dopri5
from dy2st_runtime.executors.cpp import compile as compiling
from dy2st_runtime.executors.cpp import unit as units

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")


def cache_in(folder, monkeypatch):
    """Keep what this executor compiles in a folder of its own; what others build stays where it is."""
    monkeypatch.setattr(compiling, "cache_directory", lambda: folder / "cpp")


@pytest.fixture(autouse=True)
def plainly(tmp_path_factory, monkeypatch):
    """A cache of the tests' own, and no gradients."""
    cache_in(tmp_path_factory.getbasetemp(), monkeypatch)
    monkeypatch.delenv("CXX", raising=False)
    with torch.no_grad():
        yield


def runners_of(static):
    return [captured.program.block.runners["cpp"] for captured in static.program_cache]


def runner_of(static):
    (runner,) = runners_of(static)
    return runner


def ran(static):
    return sum(unit.ran for runner in runners_of(static) for unit in runner.units)


def why(static):
    return "\n".join(runner.report() for runner in runners_of(static))


def close(found, expected, rtol=2e-6, atol=1e-6):
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, equal_nan=True)


def agrees(function, *calls, in_cpp=True, **tolerance):
    """Check that calls give what eager gives, and that they run in C++."""
    static = dy2st.to_static(function, backend="cpp")
    for args in calls:
        given = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
        expected, found = function(*args), static(*given)
        close(found, expected, **tolerance)
        close(given, list(args))
    if in_cpp is not None:
        assert bool(ran(static)) is in_cpp, why(static)
    return static


def test_one_variant_runs_a_tiny_loop_of_any_iterations():
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    static = agrees(tiny_loop, *((x, y, torch.tensor(trips)) for trips in (0, 1, 2, 100)))
    assert ran(static) == 4 and len(runner_of(static).units[0].variants) == 1
    assert static(x, y, torch.tensor(0)) is x


def test_dopri5_runs_in_cpp_and_agrees_with_eager():
    weight, end = torch.randn(16, 16) * 0.8, torch.tensor(6.0)
    static = agrees(dopri5, (torch.randn(4, 16), weight, end), (torch.randn(4, 16), weight, end * 0), rtol=1e-3, atol=1e-3)
    assert ran(static) == 2


def test_other_strides_are_another_variant():
    y, trips = torch.randn(4, 6), torch.tensor(3)
    x = torch.randn(6, 4)
    static = agrees(tiny_loop, (torch.randn(4, 6), y, trips), (x.t(), y, trips))
    assert ran(static) == 2 and len(runner_of(static).units[0].variants) == 2


def test_gradients_are_left_to_the_default_executor():
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    static = dy2st.to_static(tiny_loop, backend="cpp")
    with torch.enable_grad():
        (found,) = torch.autograd.grad(static(x, y, torch.tensor(3)).sum(), x)
        (expected,) = torch.autograd.grad(tiny_loop(x, y, torch.tensor(3)).sum(), x)
    assert torch.equal(found, expected) and ran(static) == 0
    assert "gradients are wanted" in why(static)


def test_python_numbers_keep_their_types_and_values():
    def f(x, n):
        i, t, going = 0, 0.5, True
        while going:
            i = i * 3 + 1
            t = t * 1.25 - i / 7
            going = i < n and t > -1e9
        return i, t, going, x * t, i % 5, -i // 4, abs(t), max(i, 3)

    for n in (1, 50, 10**6):
        static = agrees(f, (torch.ones(2), torch.tensor(n)))
        expected, found = f(torch.ones(2), torch.tensor(n)), static(torch.ones(2), torch.tensor(n))
        for one, other in zip(expected, found):
            assert type(one) is type(other) and (isinstance(one, torch.Tensor) or one == other)


def test_integers_that_grow_too_large():
    def f(n):
        a = 1
        for _ in range(n):
            a = a * 10
        return a

    static = agrees(f, (torch.tensor(5),))
    assert static(torch.tensor(30)) == 10**30
    assert "another way" in why(static)


def test_exceptions_are_those_of_eager():
    def f(x, n):
        total = 0.0
        for i in range(3):
            assert x.sum() < 100, f"too large: {i}"
            total = total + 1 / (n - i)
            x = x * 2
        return x, total

    static = agrees(f, (torch.ones(3), torch.tensor(5)))
    with pytest.raises(AssertionError, match="too large: 2") as caught:
        static(torch.ones(3) * 10, torch.tensor(5))
    assert caught.traceback[-1].path.name == "test_cpp.py"

    def g(x, n):
        i, total = int(n), 0.0
        while x.sum() < 100:
            total = total + 1 / i
            i, x = i - 1, x * 2
        return total

    static = agrees(g, (torch.ones(3), torch.tensor(50)))
    with pytest.raises(ZeroDivisionError):
        static(torch.ones(3), torch.tensor(2))


def test_index_out_of_range():
    def f(x, n):
        total = x[0]
        for i in range(n):
            total = total + x[i] * 2
        return total

    static = agrees(f, (torch.randn(4, 2), torch.tensor(4)))
    with pytest.raises(IndexError):
        static(torch.randn(4, 2), torch.tensor(5))


def test_changes_of_an_input():
    def f(x, n):
        for i in range(n):
            x += i
            x[0] = x[1] * 2
        return x

    static = agrees(f, (torch.ones(3), torch.tensor(3)), (torch.ones(3), torch.tensor(0)))
    x = torch.ones(3)
    version = x._version
    assert static(x, torch.tensor(2)) is x and x._version > version


def test_an_input_is_as_it_was_when_the_unit_gives_up():
    def f(x, n):
        for i in range(n):
            x += 1
            assert x.sum() < 10
        return x

    static = agrees(f, (torch.ones(2), torch.tensor(2)))
    x, expected = torch.ones(2), torch.ones(2)
    for function, value in ((static, x), (f, expected)):
        with pytest.raises(AssertionError):
            function(value, torch.tensor(9))
    assert torch.equal(x, expected)


def test_inputs_that_share_memory():
    def f(x, y, n):
        for i in range(n):
            x += y
        return x

    static = agrees(f, (torch.ones(2), torch.ones(2), torch.tensor(2)))
    one, other = torch.ones(2), torch.ones(2)
    f(one, one.view(2), torch.tensor(2))
    static(other, other.view(2), torch.tensor(2))
    assert torch.equal(one, other) and "shares its memory" in why(static)


def test_which_object_a_result_is():
    def f(x, y, c):
        a, b, seen = x, y, None
        while c > 0:
            a, b, c = b, a, c - 1
            seen = a
        return a, b, seen

    static = dy2st.to_static(f, backend="cpp")
    x, y = torch.ones(2), torch.zeros(2)
    for trips in (0, 1, 2):
        for one, other in zip(static(x, y, torch.tensor(trips)), f(x, y, torch.tensor(trips))):
            assert one is other
    assert ran(static) == 3, why(static)


def test_results_that_are_one_object():
    def f(x, n):
        y = z = x + 1
        while n > 0:
            y = z = y * 2
            n = n - 1
        return y, z, y

    static = agrees(f, (torch.ones(2), torch.tensor(2)))
    a, b, c = static(torch.ones(2), torch.tensor(2))
    assert a is b is c


@pytest.mark.parametrize("order", [1, -1])
def test_views_of_a_result_with_its_shape_are_objects_of_their_own(order):
    def f(x, n):
        y = x + 1
        while n > 0:
            y, n = y * 2, n - 1
        return (y, y.detach(), y.view(y.shape), y[:], y.contiguous(), y.expand(2, 2), x[:], x[:].contiguous(), x[1:].contiguous())[
            ::order
        ]

    x = torch.ones(2, 2)
    static = dy2st.to_static(f, backend="cpp")
    for trips in (0, 1, 2):
        found, expected = static(x, torch.tensor(trips)), f(x, torch.tensor(trips))
        same = [[one is other for one in [x, *values]] for values in (found, expected) for other in values]
        assert same[: len(found)] == same[len(found) :]
        shared = [[one.data_ptr() == other.data_ptr() for one in [x, *values]] for values in (found, expected) for other in values]
        assert shared[: len(found)] == shared[len(found) :]
    assert ran(static) == 3, why(static)


def test_one_view_of_an_input_under_two_names():
    def f(x, n):
        total, row = x.sum(), x[1]
        while n > 0:
            total, n = total * 2, n - 1
        return row, row.contiguous(), row.to(torch.float32), total

    static = dy2st.to_static(f, backend="cpp")
    one, other, again, _ = static(torch.ones(3, 2), torch.tensor(2))
    assert one is other is again and ran(static), why(static)


def test_views_of_an_input_are_views():
    def f(x, n):
        total = x.sum()
        while n > 0:
            total, n = total * 2, n - 1
        return x[1], total

    x = torch.ones(3, 2)
    row, _ = dy2st.to_static(f, backend="cpp")(x, torch.tensor(2))
    row += 1
    assert torch.equal(x[1], torch.full((2,), 2.0))


def elementwise(x, y, n):
    while n > 0:
        n = n - 1
    return (
        x + y, x - 2 * y, x * y, x / y, -x, x.abs(), x.sign(), x.square(), x**3, x.clamp(-1, 1), torch.minimum(x, y),
        torch.maximum(x, y), x == y, x < y, x >= 0.5, torch.where(x > y, x, 0.25), x.masked_fill(x > 1, 0.5), x.to(torch.float64),
        x.exp(), x.tanh(), x.sigmoid(), x.sin(), x.cos(), x.log(), x.sqrt(), x.rsqrt(), x.erf(), x.log1p(), x.expm1(), x.isnan(),
        torch.relu(x), torch.floor(x), torch.ceil(x), torch.nn.functional.gelu(x.clamp(-9, 9)), torch.nn.functional.silu(x),
        torch.nn.functional.softplus(x), torch.nn.functional.elu(x), torch.nn.functional.leaky_relu(x), x.logical_not(),
        torch.lerp(x, y, 0.3), torch.addcmul(x, y, y, value=2), x.pow(-0.5), x // 0.75, x % 0.75, torch.atan2(x, y), x.round(),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_elementwise_functions_agree_on_special_numbers(dtype):
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, float("inf"), -float("inf"), float("nan"), 1e-30, -1e-30, 60.0, -60.0, 1e-8]
    x = torch.cat([torch.tensor(special, dtype=dtype), torch.randn(41, dtype=dtype) * 4])
    agrees(elementwise, (x, x.roll(3), torch.tensor(1)))


def test_elements_of_whole_numbers():
    def f(x, y, b, n):
        while n > 0:
            n = n - 1
        return (
            x + y, x * y, x / 4, x // 3, x % 5, x**2, -x, x.abs(), x > y, x & y, x | 3, ~x, b & (x > 0), ~b, b + b, b * x, x * 0.5,
            x.clamp(max=3), x.sqrt(), x.sum(), b.sum(), b.any(), b.all(), x.float().mean(), x.max(), x.to(torch.int32) * 3, x.double(),
            torch.where(b, x, 7),
        )  # fmt: skip

    x = torch.arange(-8, 9)
    agrees(f, (x, x.roll(5), x > 2, torch.tensor(1)))


def test_small_functions_are_accurate():
    def f(x, n):
        while n > 0:
            n = n - 1
        return x.tanh(), x.exp(), x.log(), x.sigmoid(), x.expm1()

    x = torch.cat([torch.linspace(-105, 105, 20001), torch.linspace(-1, 1, 20001), torch.logspace(-44, 38, 9999)])
    static = dy2st.to_static(f, backend="cpp")
    for found, expected in zip(static(x, torch.tensor(1)), f(x.double(), torch.tensor(1))):
        exact = expected.float()
        steps = (found.view(torch.int32).long() - exact.view(torch.int32).long()).abs()
        assert steps[exact.isfinite() & (exact.abs() > 1.2e-38)].max() <= 3, (x[steps.argmax()], found[steps.argmax()])
        assert torch.equal(found.isnan(), exact.isnan())
    assert ran(static) == 1, why(static)


def test_reductions_agree_with_eager():
    def f(x, n):
        while n > 0:
            n = n - 1
        return (
            x.sum(), x.sum(0), x.sum(-1, keepdim=True), x.mean((0, 2)), x.amax(1), x.amin(), x.max(), x.max(1), x.min(-1), x.norm(),
            x.abs().sum(1), x.argmax(), x.argmax(-1), x.prod(0), (x > 0).any(), (x > 0).all(1), x.softmax(-1), x.log_softmax(1),
            torch.linalg.vector_norm(x, 1, dim=(0, 1)), torch.nn.functional.layer_norm(x, (40,)), x.transpose(0, 2).sum(1),
        )  # fmt: skip

    agrees(f, (torch.randn(3, 5, 40), torch.tensor(1)))


def test_products_agree_with_eager():
    def f(x, y, w, b, batch, n):
        while n > 0:
            n = n - 1
        return (
            x @ y, torch.nn.functional.linear(x, w, b), torch.nn.functional.linear(x, w), torch.addmm(b, x, y), batch @ y,
            torch.bmm(batch, batch.transpose(1, 2)), y @ b, b @ b, x[0] @ y, x.t() @ x, batch @ batch.transpose(1, 2),
        )  # fmt: skip

    args = torch.randn(5, 20), torch.randn(20, 20), torch.randn(20, 20), torch.randn(20), torch.randn(2, 3, 20)
    agrees(f, (*args, torch.tensor(1)))
    agrees(f, (*(arg.double() for arg in args), torch.tensor(1)))


def test_views_and_joined_tensors_agree_with_eager():
    def f(x, i, n):
        while n > 0:
            y = x.reshape(6, 4).t().unsqueeze(0).expand(2, -1, -1)
            x = (x + y.permute(0, 2, 1).reshape(2, 24)[0].view(4, 6) * 0.1 + torch.cat([x[:, 3:], x[:, :3]], 1)).clone()
            n = n - 1
        a, b, c = x.chunk(3, dim=1)
        return (
            torch.stack([a, b]),
            c,
            x[i],
            x.gather(1, i.unsqueeze(1).expand(4, 2)),
            torch.zeros(2, 3),
            torch.arange(4),
            x.flatten(),
        )

    agrees(f, (torch.randn(4, 6), torch.tensor([0, 3, 1, 1]), torch.tensor(3)))


def test_buffers_of_the_loop():
    def f(x, n):
        out = torch.zeros(10)
        for i in range(n):
            out[i] = x.sum() + i
            out[0] += 1
        return out

    agrees(f, (torch.ones(2), torch.tensor(4)), (torch.ones(2), torch.tensor(10)))


def test_changes_through_another_name():
    def f(x, n):
        y = x.clone()
        z = y
        for i in range(n):
            z += 1
            z = z * 2
        return y, z

    static = agrees(f, (torch.ones(2), torch.tensor(3)), in_cpp=None)
    assert "under another name" in why(static)


def test_a_loop_inside_of_what_has_no_code():
    def f(x, n):
        outs = []
        for i in range(2):
            y = torch.fft.fft(x).real
            while y.norm() < n:
                y = y * 2 + i
            outs.append(y)
        return torch.stack(outs)

    agrees(f, (torch.ones(4), torch.tensor(20.0)))


def test_lists_of_tensors_that_another_part_goes_through():
    def rows(x, n):
        made = (x * 2).tanh()
        i, total = n * 0, x.sum(0)
        while i < n:
            i, made = i + 1, made * 0.5 + 1
        parts = []
        for row in made:
            parts.append(row * 2)
            total = total + row
        for row in x:
            total = total * row
        return parts, total, made

    static = dy2st.to_static(
        rows, backend="cpp", input_spec=[dy2st.InputSpec([None, 3]), dy2st.InputSpec([], "int64")], unroll=False
    )
    for size, trips in ((3, 2), (1, 0), (3, 1), (2, 3)):
        for _ in range(2):
            args = torch.randn(size, 3), torch.tensor(trips)
            close(static(*args), rows(*args))
    assert ran(static) > 0


def test_growing_tensors_are_left_to_the_default_executor():
    def f(x, n):
        y = x
        for _ in range(n):
            y = torch.cat([y, x])
        return y

    static = agrees(f, (torch.ones(2), torch.tensor(3)), in_cpp=False)
    assert "changes its shape" in why(static) or "depends on the path" in why(static)


def test_modes_are_left_to_the_default_executor():
    static = agrees(tiny_loop, (torch.ones(2), torch.ones(2), torch.tensor(2)))
    before = ran(static)

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Mode():
        static(torch.ones(2), torch.ones(2), torch.tensor(2))
    assert ran(static) == before and "mode is on" in why(static)


def test_a_loop_without_a_compiler_warns_and_runs_uncompiled(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setitem(units._state, "warned", False)
    static = dy2st.to_static(tiny_loop, backend="cpp")
    args = torch.ones(2, 3, 5), torch.ones(2, 3, 5), torch.tensor(2)
    with pytest.warns(RuntimeWarning, match="no C\\+\\+ compiler .no-such-compiler"):
        close(static(*args), tiny_loop(*args))
    assert ran(static) == 0


def test_a_compiler_that_fails(monkeypatch):
    monkeypatch.setenv("CXX", "false")
    monkeypatch.setitem(units._state, "warned", False)
    static = dy2st.to_static(tiny_loop, backend="cpp")
    args = torch.ones(7), torch.ones(7), torch.tensor(2)
    with pytest.warns(RuntimeWarning, match="failed \\(1\\)"):
        close(static(*args), tiny_loop(*args))


def test_compiled_files_are_kept_and_repaired(tmp_path, monkeypatch):
    cache_in(tmp_path, monkeypatch)
    args = torch.ones(9), torch.ones(9), torch.tensor(2)
    agrees(tiny_loop, args)
    (library,) = tmp_path.glob("cpp/*.so")
    written = library.stat().st_mtime_ns
    agrees(tiny_loop, args)
    assert library.stat().st_mtime_ns == written and len(list(tmp_path.glob("cpp/*"))) == 1


def test_a_damaged_file_is_compiled_again(tmp_path, monkeypatch):
    cache_in(tmp_path, monkeypatch)
    text = 'extern "C" int dy2st_run(const void*, void*, const void*) { return 7; }'
    monkeypatch.setattr(compiling, "_compile", lambda path, text, directory, library: None)
    with pytest.raises(compiling.CompileError, match="cannot be loaded"):
        compiling.load(text)
    monkeypatch.undo()
    cache_in(tmp_path, monkeypatch)
    monkeypatch.delenv("CXX", raising=False)
    compiling.load(text)
    (library,) = tmp_path.glob("cpp/*.so")
    library.unlink()
    library.write_bytes(b"cut short")
    assert compiling.load(text)(b"", None, None) == 7


def test_ctrl_c_ends_an_endless_loop():
    def f(x, limit):
        while x.sum() < limit:
            x = x * 1
        return x

    static = agrees(f, (torch.ones(3), torch.tensor(1.0)))

    def interrupt(number, frame):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            static(torch.ones(3), torch.tensor(100.0))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    close(static(torch.ones(3), torch.tensor(2.0)), torch.ones(3))


def test_threads_get_the_results_of_eager():
    static = dy2st.to_static(tiny_loop, backend="cpp")
    args = [(torch.randn(4, 4), torch.randn(4, 4), torch.tensor(20 + i)) for i in range(8)]
    expected = [tiny_loop(*each) for each in args]
    static(*args[0])
    wrong = []

    def work(position):
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(static(*args[position]), expected[position], atol=1e-5):
                    wrong.append(position)

    threads = [threading.Thread(target=work, args=(position,)) for position in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_loaded_models_agree_with_eager(tmp_path):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            steps = 0
            while x.norm() > 0.1 and steps < 20:
                x = torch.tanh(self.linear(x)) * 0.5
                steps += 1
            return x, steps

    model = Net().eval()
    static = dy2st.to_static(Net().eval(), input_spec=[dy2st.InputSpec([None, 4])])
    static.load_state_dict(model.state_dict())
    dy2st.save(static, tmp_path / "model.dy2st")
    loaded = dy2st.load(tmp_path / "model.dy2st", backend="cpp")
    for rows in (1, 3):
        x = torch.randn(rows, 4)
        close(loaded(x), model(x))


def test_the_report_says_what_ran_where():
    static = agrees(tiny_loop, (torch.ones(2), torch.ones(2), torch.tensor(2)))
    text = str(static.report())
    assert "loops.py:17: 1 runs in C++ (1 sets of sizes" in text
    with torch.enable_grad():
        static(torch.ones(2, requires_grad=True), torch.ones(2), torch.tensor(2))
