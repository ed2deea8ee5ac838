"""Many threads, and captures that end badly: right answers, one capture for each signature, nothing left behind."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import dy2st
from dy2st import to_static
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK, CaptureLock
from tests.oracle import same

X = torch.tensor([1.0, -2.0, 3.0])
THREADS = 8


def at_once(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """Run ``work(index)`` in threads that start together."""
    barrier = threading.Barrier(threads)

    def run(index: int) -> Any:
        barrier.wait(timeout=30)
        return work(index)

    with ThreadPoolExecutor(threads) as pool:
        return [future.result(timeout=120) for future in [pool.submit(run, index) for index in range(threads)]]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            x = self.a(x)
        else:
            x = self.b(x)
        while x.abs().sum() > 1:
            x = x * 0.5
        return x


def _count_captures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    from dy2st.static import programs

    seen: list[Any] = []
    original = programs.capture

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen.append(threading.get_ident())
        time.sleep(0.02)  # time for the others to come
        return original(*args, **kwargs)

    monkeypatch.setattr(programs, "capture", counted)
    return seen


def test_a_cold_start_captures_once(monkeypatch: pytest.MonkeyPatch) -> None:
    captures = _count_captures(monkeypatch)
    net = Net()
    eager = Net()
    eager.load_state_dict(net.state_dict())
    to_static(net)

    def work(index: int) -> Any:
        return [(eager(x), net(x)) for x in (X * index, -X, X + index)]

    for results in at_once(work):
        for expected, found in results:
            same(expected, found)
    assert len(captures) == len(net.forward.program_cache) == 1


def test_several_signatures_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    captures = _count_captures(monkeypatch)

    @to_static
    def f(x: Any, k: int) -> Any:
        if x.sum() > 0:
            return x * k
        return x - k

    sizes = [1, 2, 3, 4]

    def work(index: int) -> Any:
        found = []
        for step in range(20):
            size = sizes[(index + step) % len(sizes)]
            x = torch.full((size,), float(index - 3))
            found.append((f.function(x, size), f(x, size)))
        return found

    for results in at_once(work):
        for expected, found in results:
            same(expected, found)
    assert len(captures) == len(f.program_cache) == len(sizes)


def test_a_decorated_method_of_a_new_object(monkeypatch: pytest.MonkeyPatch) -> None:
    captures = _count_captures(monkeypatch)

    class Static(Net):
        @to_static
        def forward(self, x: Any) -> Any:
            return super().forward(x)

    net = Static()
    for results in at_once(lambda index: net(X)):
        same(results, net(X))
    assert len(captures) == len(net.forward.program_cache) == 1


def test_warm_calls_with_gradients() -> None:
    net = to_static(Net())
    net(X)
    expected = torch.autograd.grad(net(X).sum(), net.a.weight)[0]

    def work(index: int) -> Any:
        return [torch.autograd.grad(net(X).sum(), net.a.weight)[0] for _ in range(30)]

    for grads in at_once(work):
        for grad in grads:
            same(grad, expected)
    assert len(net.forward.program_cache) == 1


def test_modes_are_those_of_the_thread() -> None:
    net = to_static(Net())

    def work(index: int) -> Any:
        found = []
        for _ in range(10):
            if index % 2:
                with torch.no_grad():
                    found.append(net(X).requires_grad)
            else:
                found.append(net(X).requires_grad)
        return found

    for index, found in enumerate(at_once(work)):
        assert found == [not index % 2] * 10
    assert len(net.forward.program_cache) == 2


def test_eager_threads_do_not_notice_captures() -> None:
    stop = threading.Event()
    wrong: list[Any] = []
    eager = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.5)).eval()
    expected = eager(X).detach()

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    def watch() -> None:
        while not stop.is_set():
            out = eager(X)
            doubled = Double.apply(out)
            fine = type(out) is torch.Tensor and torch.equal(out.detach(), expected) and torch.equal(doubled, out * 2)
            if not fine or _get_current_dispatch_mode_stack() or torch.overrides._get_current_function_mode_stack():
                wrong.append(out)

    watchers = [threading.Thread(target=watch) for _ in range(3)]
    for thread in watchers:
        thread.start()
    try:
        for _ in range(8):
            net = to_static(Net())
            net(X)
            net(X[None])
    finally:
        stop.set()
        for thread in watchers:
            thread.join()
    assert not wrong


def test_clearing_while_others_call() -> None:
    @to_static
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x * 2
        return x

    def work(index: int) -> Any:
        for step in range(10):
            if index == 0:
                f.program_cache.clear()
            same(f(X), X * 2)
        return True

    assert all(at_once(work))


# -- captures side by side ---------------------------------------------------------------------------------------------------


def _meeting(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Captures go on once ``count`` of them have begun."""
    from dy2st.static import programs

    original, barrier = programs.capture, threading.Barrier(count)

    def meeting(*args: Any, **kwargs: Any) -> Any:
        barrier.wait(timeout=60)
        return original(*args, **kwargs)

    monkeypatch.setattr(programs, "capture", meeting)


def make_function(number: int) -> Any:
    def f(x: Any, k: int) -> Any:
        total = 0
        while x.abs().sum() > 1:
            if x.sum() > number:
                x = x * 0.5 + k
            else:
                x = x * 0.25
            total += k
            if total > 20:
                break
        return x, total

    return to_static(f)


def test_captures_of_several_functions_and_signatures_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [make_function(number) for number in range(4)]
    _meeting(monkeypatch, THREADS)

    def work(index: int) -> Any:
        f = functions[index % 4]
        x = torch.full((2 + index // 4,), float(index))
        return f(x, index % 4), f.function(x, index % 4)

    for found, expected in at_once(work):
        same(found, expected)
    assert [len(f.program_cache) for f in functions] == [2] * 4
    untouched()


def test_whoever_needs_no_capture_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    from dy2st.static import programs

    known, slow, other = make_function(1), make_function(2), make_function(3)
    known(X, 1)
    original, begun, go_on = programs.capture, threading.Event(), threading.Event()

    def blocked(request: Any, *args: Any) -> Any:
        if request.function is slow.function:
            begun.set()
            assert go_on.wait(timeout=60)
        return original(request, *args)

    monkeypatch.setattr(programs, "capture", blocked)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(slow, X, 1) for _ in range(2)]
        assert begun.wait(timeout=60)
        same(known(X, 1), known.function(X, 1))
        same(other(X, 1), other.function(X, 1))
        assert not any(future.done() for future in waiting)
        go_on.set()
        for future in waiting:
            same(future.result(timeout=60), slow.function(X, 1))
    assert len(slow.program_cache) == 1


class Box:
    def __init__(self) -> None:
        self.last, self.scale, self.log, self.count = torch.zeros(3), torch.ones(3), [0], 0


def make_writer(box: Box, number: int) -> Any:
    def f(x: Any) -> Any:
        scale = box.scale
        box.last = x + number
        if x.sum() > 0:
            box.log[0] = number
            box.last = box.last * 2
        return box.last * scale

    return to_static(f)


def test_captures_that_write_to_one_object() -> None:
    box = Box()
    functions = [make_writer(box, number) for number in range(THREADS)]

    def work(index: int) -> Any:
        results = []
        for step in range(THREADS):
            number = (index + step) % THREADS
            results.append((functions[number](X), (X + number) * 2))
        return results

    for results in at_once(work):
        for found, expected in results:
            same(found, expected)
    assert type(box.last) is torch.Tensor and box.log[0] in range(THREADS)
    untouched()


def test_nobody_meets_the_abstract_values_of_a_capture() -> None:
    box = Box()
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert go_on.wait(timeout=60)

    wait.__dy2st_not_to_static__ = True  # type: ignore[attr-defined]

    @to_static
    def capturing(x: Any) -> Any:
        box.last = x * 2
        box.log.append(5)
        wait()
        return x

    @to_static
    def reading(x: Any) -> Any:
        return box.last + x

    @to_static
    def writing(x: Any) -> Any:
        box.scale = x * 3
        return x - 1

    for _ in range(3):
        same(reading(X), X)
        same(writing(X), X - 1)
    free = make_function(0)
    free(X, 1)
    box.scale = torch.ones(3)
    with ThreadPoolExecutor(3) as pool:
        slow = pool.submit(capturing, X)
        assert begun.wait(timeout=60)
        others = [pool.submit(reading, X), pool.submit(writing, X)]
        same(free(X, 1), free.function(X, 1))
        time.sleep(0.05)
        assert type(box.scale) is torch.Tensor and torch.equal(box.scale, torch.ones(3))
        go_on.set()
        same(slow.result(timeout=60), X)
        read = others[0].result(timeout=60)
        assert any(torch.equal(read, expected) for expected in (X, X * 3))  # before or after what the other function leaves
        same(others[1].result(timeout=60), X - 1)
    same(box.scale, X * 3)
    same(box.last, X * 2)
    assert box.log == [0, 5] and len(reading.program_cache) == 1
    untouched()


def test_static_functions_that_call_each_other() -> None:
    def f(x: Any, depth: int) -> Any:
        return x * 2 if depth == 0 else g(x + 1, depth - 1)

    def g(x: Any, depth: int) -> Any:
        if x.sum() > 100:
            return x
        return x - 1 if depth == 0 else f(x * 2, depth - 1)

    plain_f, plain_g = f, g
    expected = []
    for depth in range(4):
        expected.append((plain_f(X, depth), plain_g(X, depth)))
    f, g = to_static(f), to_static(g)

    def work(index: int) -> Any:
        order = range(4) if index % 4 < 2 else reversed(range(4))
        return [(depth, index % 2, (f, g)[index % 2](X, depth)) for depth in order]

    for results in at_once(work):
        for depth, which, found in results:
            same(found, expected[depth][which])
    assert len(f.program_cache) == len(g.program_cache) == 4


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_some_captures_fail_while_others_run(kind: Any) -> None:
    box = Box()
    failing = [True]

    def fail() -> None:
        if failing:
            raise kind("stop")

    fail.__dy2st_not_to_static__ = True  # type: ignore[attr-defined]

    @to_static
    def bad(x: Any, k: int) -> Any:
        box.last = x * k
        box.count += 1
        fail()
        return x

    good = [make_writer(box, number) for number in range(2)] + [make_function(number) for number in range(2)]

    def work(index: int) -> Any:
        for step in range(4):
            if index % 2:
                with pytest.raises(kind, match="stop"):
                    bad(X, index)
                continue
            f = good[(index // 2 + step) % 4]
            args = (X,) if "writer" in f.__qualname__ else (X, index)
            found = f(*args)
            if "writer" not in f.__qualname__:
                same(found, f.function(*args))
        return True

    assert all(at_once(work))
    untouched()
    assert type(box.last) is torch.Tensor and isinstance(box.count, int)
    failing.clear()
    bad.program_cache.clear()
    same(bad(X, 1), X)
    assert not CAPTURE_LOCK.is_taken and (CAPTURE_LOCK._running, CAPTURE_LOCK._waiting, CAPTURE_LOCK._alone) == (0, 0, None)


def test_a_turn_that_is_interrupted_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = CaptureLock()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with turns.shared():
            inside.set()
            leave.wait(timeout=60)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(timeout=60)

    def interrupted(timeout: Any = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(turns._changed, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt), turns.shared():
            turns.go_alone()
        with pytest.raises(KeyboardInterrupt), turns:
            raise AssertionError("it had to wait")
    leave.set()
    thread.join(timeout=60)
    with turns:
        assert turns.is_taken
    assert (turns._running, turns._waiting, turns._alone, turns.is_taken) == (0, 0, None, False)


def test_saving_while_others_capture(tmp_path: Any) -> None:
    nets = [to_static(Net()) for _ in range(2)]

    def work(index: int) -> Any:
        if index < 2:
            dy2st.save(nets[index], tmp_path / f"{index}.dy2st", input_spec=[dy2st.InputSpec([3])])
            return dy2st.load(tmp_path / f"{index}.dy2st")(X), nets[index](X)
        f = make_function(index)
        return f(X, index), f.function(X, index)

    for found, expected in at_once(work):
        same(found, expected)


# -- captures that end badly ------------------------------------------------------------------------------------------------------


def untouched() -> None:
    """Nothing of a capture is left in the process."""
    assert not _get_current_dispatch_mode_stack()
    assert not torch.overrides._get_current_function_mode_stack()
    assert nn.Module.__call__.__module__ == "torch.nn.modules.module"
    assert torch.autograd.Function.apply.__func__.__module__ == "torch.autograd.function"
    assert dy2st.capture.session.session.current() is None
    assert type(torch.ones(2) + 1) is torch.Tensor
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu") and not torch.is_inference_mode_enabled()
    same(nn.Identity()(X), X)


class Trouble(BaseException):
    """No Exception."""


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, Trouble, RecursionError])
@pytest.mark.parametrize("where", ["root", "branch", "loop", "callee", "no_grad", "autocast", "hook", "unconverted", "function"])
def test_an_exception_during_capture(kind: Any, where: str) -> None:
    active = [True]

    def fail() -> None:
        if active:
            raise kind("stop")

    fail.__dy2st_not_to_static__ = True  # type: ignore[attr-defined]

    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            fail()
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    class Bad(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.seq = nn.Sequential(nn.Identity())
            self.h, self.count, self.log = torch.zeros(3), 0, [1]
            self.register_buffer("total", torch.zeros(3))

        def part(self, x: Any) -> Any:
            fail()
            return x

        def forward(self, x: Any) -> Any:
            self.h = x
            self.count += 1
            self.log.append(x)
            self.total = self.total + x
            if where == "root":
                fail()
            if x.sum() > 0:
                self.count += 1
                self.h = x * 2
                if where == "branch":
                    fail()
            while x.abs().sum() > 1:
                x = x * 0.5
                self.total.add_(1)
                if where == "loop":
                    fail()
            if where == "callee":
                x = self.part(x)
            with torch.no_grad():
                if where == "no_grad":
                    fail()
            with torch.autocast("cpu", torch.bfloat16):
                if where == "autocast":
                    fail()
            if where == "function":
                x = Failing.apply(x)
            return self.seq(self.linear(x))

    def hook(module: Any, args: Any) -> None:
        fail()

    bad = Bad()
    if where == "hook":
        bad.seq[0].register_forward_pre_hook(hook)
    if where == "unconverted":
        bad.part = type("Callable", (), {"__call__": lambda self, x: fail()})()
        bad.seq = nn.Sequential(type("Inner", (nn.Module,), {"forward": lambda self, x: fail() or x})())
    before = {key: value for key, value in vars(bad).items() if not key.startswith("_")}
    recorded = int(kind is ValueError)  # an error of the user's: the program raises it, and leaves what eager leaves
    copied = copy.deepcopy(bad)
    if recorded:
        with pytest.raises(ValueError):
            copied(X)
    static = to_static(bad)
    try:
        static(X)
        raise AssertionError("nothing was raised")
    except (kind, dy2st.errors.Dy2stError) as error:
        assert isinstance(error, kind), error
    untouched()
    kept = {key for key, value in vars(bad).items() if key in before and value is before[key]}
    assert recorded or kept == before.keys()
    assert len(bad.log) == len(copied.log) and bad.count == copied.count
    assert torch.equal(bad.total, copied.total) and torch.equal(bad.h, copied.h)
    assert len(static.forward.program_cache) == recorded
    static.forward.program_cache.clear()
    active.clear()
    same(static(X).shape, X.shape)
    assert len(static.forward.program_cache) == 1
    untouched()


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_exception_in_a_program_puts_the_modes_back(kind: Any) -> None:
    @to_static
    def f(x: Any) -> Any:
        with torch.no_grad():
            with torch.autocast("cpu", torch.bfloat16):
                y = x @ x
                if y > 0:
                    with torch.autocast("cpu", enabled=False):
                        raise kind("inside")
        return y

    with pytest.raises(kind, match="inside"):
        f(X)
    untouched()
    same(f(X * 0), f.function(X * 0))
    untouched()
    with torch.no_grad(), pytest.raises(kind):
        f(X)
    untouched()


def test_an_exception_of_an_operation_names_the_line() -> None:
    @to_static
    def f(x: Any, i: Any) -> Any:
        with torch.no_grad():
            return torch.gather(x, 0, i)  # the failing line

    same(f(X, torch.tensor([0, 1])), X[:2])
    with pytest.raises(RuntimeError) as caught:
        f(X, torch.tensor([0, 7]))
    notes = "\n".join(getattr(caught.value, "__notes__", ()))
    line = next(n for n, text in enumerate(open(__file__), 1) if "the failing" + " line" in text)
    assert f'{__file__}", line {line}' in notes
    untouched()
