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
    from dy2st import static_function

    seen: list[Any] = []
    original = static_function.capture

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen.append(threading.get_ident())
        time.sleep(0.02)  # time for the others to come
        return original(*args, **kwargs)

    monkeypatch.setattr(static_function, "capture", counted)
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


# -- captures that end badly ------------------------------------------------------------------------------------------------------


def untouched() -> None:
    """Nothing of a capture is left in the process."""
    assert not _get_current_dispatch_mode_stack()
    assert not torch.overrides._get_current_function_mode_stack()
    assert nn.Module.__call__.__module__ == "torch.nn.modules.module"
    assert torch.autograd.Function.apply.__func__.__module__ == "torch.autograd.function"
    assert dy2st.capture.session.current() is None
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
    twin = copy.deepcopy(bad)
    if recorded:
        with pytest.raises(ValueError):
            twin(X)
    static = to_static(bad)
    try:
        static(X)
        raise AssertionError("nothing was raised")
    except (kind, dy2st.errors.Dy2stError) as error:
        assert isinstance(error, kind), error
    untouched()
    kept = {key for key, value in vars(bad).items() if key in before and value is before[key]}
    assert recorded or kept == before.keys()
    assert len(bad.log) == len(twin.log) and bad.count == twin.count
    assert torch.equal(bad.total, twin.total) and torch.equal(bad.h, twin.h)
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
