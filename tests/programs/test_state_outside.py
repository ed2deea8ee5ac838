"""State outside of the captured function: written as in eager, and the number of programs settles."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import logging
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from dy2st import enable_to_static, to_static
from dy2st.errors import CaptureError
from tests.oracle import same

X = torch.tensor([1.0, -2.0, 3.0])
COUNT = 0
LOG: list[Any] = []
TOTALS = {"sum": torch.zeros(3)}


class Base(nn.Module):
    """Nothing but the state that a test gives it."""

    def __init__(self, **state: Any) -> None:
        super().__init__()
        for name, value in state.items():
            setattr(self, name, value)


def follow(kind: Any, calls: Any, programs: int | None, watch: Any) -> Any:
    """Call a fresh eager and a fresh static module with the same arguments; results and state must agree after each call."""
    eager, static = kind(), to_static(kind())
    static.load_state_dict(eager.state_dict())
    for position, x in enumerate(calls):
        a, b = eager(x), static(x)
        same(a, b, f"call {position}")
        same(watch(eager), watch(static), f"state after call {position}")
    if programs is not None:
        assert len(static.forward.program_cache) <= programs, len(static.forward.program_cache)
    return static


SIGNS = [X, -X, X, X, -X, X * 2, -X * 3, X]


def test_hidden_state_starting_as_none() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(h=None)
            self.cell = nn.Linear(3, 3)
            nn.init.eye_(self.cell.weight)
            nn.init.zeros_(self.cell.bias)

        def forward(self, x: Any) -> Any:
            if self.h is None:
                self.h = torch.zeros(3)
            self.h = torch.tanh(self.cell(x) + self.h.detach())
            if x.sum() > 0:
                self.h = self.h * 2
            return self.h

    static = follow(Net, SIGNS, 3, lambda net: net.h)
    static.h = None
    static(X)
    assert len(static.forward.program_cache) <= 3


def test_a_counter_of_the_module_stays_an_int() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(count=0)

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x * self.count

    static = follow(Net, SIGNS, 2, lambda net: net.count)
    assert type(static.count) is int and static.count == len(SIGNS)


def test_a_counter_that_decides() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(count=0)

        def forward(self, x: Any) -> Any:
            self.count += 1
            if self.count % 3 == 0:
                return x * 2
            for _ in range(self.count):
                x = x + 1
            return x

    follow(Net, SIGNS, 3, lambda net: net.count)


def test_a_running_average_of_floats_follows_eager() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(mean=0.0, seen=0)

        def forward(self, x: Any) -> Any:
            self.mean = 0.9 * self.mean + 0.1 * float(x.sum())
            self.seen += x.shape[0]
            return x - self.mean

    follow(Net, SIGNS, 3, lambda net: (net.mean, net.seen))


def test_written_only_when_the_branch_is_taken() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(hits=0, last=torch.zeros(3), name="none")

        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                self.hits += 1
                self.last = x * 2
            return x + self.last

    follow(Net, SIGNS, 3, lambda net: (net.hits, net.last, net.name))


def test_written_in_a_loop() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(steps=0, h=torch.zeros(3))

        def forward(self, x: Any) -> Any:
            while x.abs().sum() > 1:
                x = x / 2
                self.h = self.h + x
                self.steps += 1
            return x

    follow(Net, SIGNS, 3, lambda net: (net.steps, net.h))


def test_a_buffer_in_place_and_replaced() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.register_buffer("last", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.total += x
            if x.sum() > 0:
                self.total.mul_(2)
                self.last = x + 1
            else:
                self.total[0] = 5
            return self.total * self.last

    static = follow(Net, SIGNS, 1, lambda net: (net.total, net.last, dict(net.state_dict())))
    assert "last" in static._buffers and "last" not in vars(static)


def test_batch_norm_updates_its_statistics_as_in_eager() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x: Any) -> Any:
            y = self.norm(x)
            if y.sum() > 0:
                y = self.norm(y * 2)
            return y

    torch.manual_seed(0)
    calls = [torch.randn(4, 3) for _ in range(4)]
    static = follow(Net, calls, 1, lambda net: {k: v.clone() for k, v in net.state_dict().items()})
    eager = Net()
    eager.load_state_dict(static.state_dict())
    same(eager.eval()(calls[0]), static.eval()(calls[0]))
    assert static.norm.num_batches_tracked >= 4


def test_a_list_on_the_module() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(log=[])

        def forward(self, x: Any) -> Any:
            self.log.append(x * 2)
            return x + 1

    follow(Net, SIGNS, None, lambda net: list(net.log))  # a program for each length: the list might be read


def test_a_bounded_list_on_the_module() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(recent=[])

        def forward(self, x: Any) -> Any:
            self.recent.append(x)
            if len(self.recent) > 3:
                self.recent.pop(0)
            return torch.stack(self.recent).sum(0)

    follow(Net, [x.clone() for x in SIGNS], 4, lambda net: list(net.recent))


def test_a_list_grows_where_a_tensor_decides() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(log=[])

        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                self.log.append(x)
            return x

    try:
        follow(Net, SIGNS, None, lambda net: list(net.log))
    except Exception as error:  # a clear error is all right, a wrong list is not
        assert "list" in str(error) and "test_state_outside.py" in str(error)


def test_a_dict_on_the_module() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(stats={"n": 0, "max": torch.tensor(0.0)})

        def forward(self, x: Any) -> Any:
            self.stats["n"] += 1
            if x.max() > self.stats["max"]:
                self.stats["max"] = x.max()
            self.stats["last"] = x
            return x * self.stats["n"]

    follow(Net, SIGNS, 4, lambda net: dict(net.stats))


def test_a_cache_dict_keyed_by_size() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(cache={})

        def forward(self, x: Any) -> Any:
            key = x.shape[0]
            if key not in self.cache:
                self.cache[key] = torch.arange(key) * 1.0
            return x + self.cache[key]

    follow(Net, [X, X, X[:2], X[:2], X, X[:1], X], None, lambda net: dict(net.cache))


def test_a_deque_counter_and_defaultdict_on_the_module_are_written() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(recent=collections.deque(maxlen=2), counts=collections.Counter(), groups=collections.defaultdict(list))

        def forward(self, x: Any) -> Any:
            self.recent.append(x)
            self.counts["calls"] += 1
            self.groups["all"].append(self.counts["calls"])
            return x * len(self.recent)

    follow(Net, SIGNS, None, lambda net: (list(net.recent), dict(net.counts), {k: list(v) for k, v in net.groups.items()}))


def test_a_set_on_the_module() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(seen=set())

        def forward(self, x: Any) -> Any:
            self.seen.add(x.shape[0])
            return x * len(self.seen)

    follow(Net, [X, X, X[:2], X, X[:1]], None, lambda net: sorted(net.seen))


@dataclasses.dataclass
class Memory:
    """A user object with state."""

    h: Any
    steps: int = 0

    def update(self, x: Any) -> None:
        self.h = self.h * 0.5 + x
        self.steps += 1
        if x.sum() > 0:
            self.h = self.h + 1


def test_state_of_an_object_that_is_no_module() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(memory=Memory(torch.zeros(3)))

        def forward(self, x: Any) -> Any:
            self.memory.update(x)
            return self.memory.h

    follow(Net, SIGNS, 3, lambda net: (net.memory.h, net.memory.steps))


def test_an_object_given_as_argument() -> None:
    class Plain:
        def __init__(self) -> None:
            self.h, self.steps = torch.zeros(3), 0

    def f(state: Any, x: Any) -> Any:
        state.h = state.h * 0.5 + x
        if x.sum() > 0:
            state.steps += 1
        return state.h * state.steps

    static = to_static(f)
    for make in (Plain, lambda: Memory(torch.zeros(3))):
        a, b = make(), make()
        for x in SIGNS:
            same(f(a, x), static(b, x))
            same((a.h, a.steps), (b.h, b.steps))


def test_containers_given_as_arguments_are_changed_in_place() -> None:
    def f(out: Any, table: Any, x: Any) -> Any:
        out.append(x * 2)
        out[0] = x + 1
        table["new"] = x
        table["n"] = table["n"] + 1
        del table["old"]
        return x

    static = to_static(f)
    for x in SIGNS[:3]:
        args = [[x, x], {"n": 1, "old": x}, x], [[x, x], {"n": 1, "old": x}, x]
        same(f(*args[0]), static(*args[1]))
        same(args[0], args[1])


def test_a_tensor_argument_is_changed_in_place() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        if x.sum() > 0:
            x.mul_(2)
            y[0] = 7
        return x + y

    static = to_static(f)
    for x in SIGNS:
        a, b = (x.clone(), x.clone()), (x.clone(), x.clone())
        same(f(*a), static(*b))
        same(a, b)


def test_globals_are_written() -> None:
    def f(x: Any) -> Any:
        global COUNT
        COUNT += 1
        if x.sum() > 0:
            COUNT += 10
        return x * COUNT

    space = f.__globals__
    static = to_static(f)
    found = []
    for runner in (f, static):
        space["COUNT"] = 0
        found.append([(runner(x), space["COUNT"]) for x in SIGNS])
    same(found[0], found[1])
    assert len(static.program_cache) <= 3


def test_global_containers_are_written() -> None:
    def f(x: Any) -> Any:
        LOG.append(x)
        TOTALS["sum"] = TOTALS["sum"] + x
        return TOTALS["sum"] * 2

    static = to_static(f)
    found = []
    for runner in (f, static):
        LOG.clear()
        TOTALS["sum"] = torch.zeros(3)
        found.append(([runner(x) for x in SIGNS], list(LOG), dict(TOTALS)))
    same(found[0], found[1])


def test_nonlocals_are_written() -> None:
    def make(wrap: Any) -> Any:
        count, last = 0, None

        @wrap
        def f(x: Any) -> Any:
            nonlocal count, last
            count += 1
            if x.sum() > 0:
                count += 1
            last = x * count
            return x + count

        return lambda x: (f(x), count, last)

    plain, static = make(lambda f: f), make(to_static)
    for x in SIGNS:
        same(plain(x), static(x))


def test_nonlocals_of_a_callee() -> None:
    def make() -> Any:
        count = 0

        def bump(x: Any) -> Any:
            nonlocal count
            if x.sum() > 0:
                count += 1
            return count

        return bump, lambda: count

    def run(static: bool) -> Any:
        bump, read = make()

        def f(x: Any) -> Any:
            return x * bump(x)

        runner = to_static(f) if static else f
        return [(runner(x), read()) for x in SIGNS]

    same(run(False), run(True))


def test_an_attribute_appears_and_goes() -> None:
    class Net(Base):
        def forward(self, x: Any) -> Any:
            if not hasattr(self, "h"):
                self.h = x
                return x
            y = self.h + x
            del self.h
            return y

    follow(Net, SIGNS, 2, lambda net: getattr(net, "h", None))


def test_class_attributes_are_written() -> None:
    class Net(Base):
        total = 0

        def forward(self, x: Any) -> Any:
            type(self).total += 1
            return x * Net.total

    class Other(Base):
        total = 0

        def forward(self, x: Any) -> Any:
            type(self).total += 1
            return x * Other.total

    eager, static = Net(), to_static(Other())
    for x in SIGNS:
        same(eager(x), static(x))
        assert Net.total == Other.total


def test_state_stays_when_a_call_fails() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(count=0, h=torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.count += 1
            self.h = x
            if x.sum() > 100:
                raise ValueError("too much")
            return x * 2

    eager, static = Net(), to_static(Net())
    for x in (X, X * 100, X):
        outcomes = []
        for net in (eager, static):
            try:
                outcomes.append(net(x))
            except ValueError as error:
                outcomes.append(str(error))
        same(outcomes[0], outcomes[1])


def test_a_failed_capture_leaves_the_state_as_it_was() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(count=0, h=torch.zeros(3), log=[], table={})

        def forward(self, x: Any) -> Any:
            self.count += 1
            self.h = x
            self.log.append(x)
            self.table["k"] = x
            memoryview(x.numpy())
            return x

    net = to_static(Net())
    with pytest.raises(Exception, match="memoryview"):
        net(X)
    same((net.count, net.h, net.log, net.table), (0, torch.zeros(3), [], {}))


def test_capture_runs_no_user_visible_effect_twice() -> None:
    calls: list[str] = []

    class Net(Base):
        def forward(self, x: Any) -> Any:
            calls.append("python")
            return x * 2

    net = to_static(Net())
    for _ in range(3):
        net(X)
    assert calls == ["python"] * 3


def test_two_modules_share_an_object() -> None:
    memory = Memory(torch.zeros(3))

    class Net(Base):
        def forward(self, x: Any) -> Any:
            self.memory.update(x)
            return self.memory.h * 1

    nets = [to_static(Net(memory=memory)) for _ in range(2)]
    eager_memory = Memory(torch.zeros(3))
    for x in SIGNS:
        for net in nets:
            eager_memory.update(x)
            same(net(x), eager_memory.h * 1)
    assert memory.steps == eager_memory.steps


def test_a_submodule_swapped_by_forward() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(a=nn.Linear(3, 3), b=nn.Linear(3, 3))
            for layer, k in ((self.a, 2.0), (self.b, 3.0)):
                nn.init.constant_(layer.weight, k)

        def forward(self, x: Any) -> Any:
            self.a, self.b = self.b, self.a
            return self.a(x)

    try:
        follow(Net, SIGNS, None, lambda net: net.a.weight.detach().clone())
    except Exception as error:
        assert "test_state_outside.py" in str(error)


def test_the_parameter_is_written_by_forward() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                self.weight.clamp_(max=0.5)
                if x.sum() > 0:
                    self.weight += 0.125
            return (x * self.weight).sum()

    static = follow(Net, SIGNS, 1, lambda net: net.weight.detach().clone())
    static(X).backward()
    same(static.weight.grad, X)


def test_a_result_that_is_state() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(h=torch.zeros(3), log=[])

        def forward(self, x: Any) -> Any:
            self.h = self.h + x
            return self.h

    net = to_static(Net())
    for x in SIGNS:
        out = net(x)
        assert out is net.h


def test_state_copied_with_the_module() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(count=0)

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x * self.count

    net = to_static(Net())
    net(X)
    other = copy.deepcopy(net)
    same(net(X), X * 2)
    same(net(X), X * 3)
    same(other(X), X * 2)
    assert other.count == 2


# -- libraries that do or keep something outside -------------------------------------------------------------------------------


@functools.lru_cache
def cached_mask(size: int) -> Any:
    return torch.ones(size, size).tril()


def test_a_cached_function_keeps_no_tensor_of_the_capture() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return cached_mask(x.shape[0]) @ x
        return x

    cached_mask.cache_clear()
    static = to_static(f)
    same(static(X), torch.ones(3, 3).tril() @ X)
    assert type(cached_mask(3)) is torch.Tensor
    same(static(X), f(X))


def test_an_iterator_from_outside_moves_on_at_each_call() -> None:
    def make() -> Any:
        class Net(Base):
            def forward(self, x: Any) -> Any:
                return x * next(self.numbers)

        return Net(numbers=iter([1.0, 2.0, 3.0, 4.0]))

    follow(make, [X, X, X], 1, lambda net: None)


def test_logging_and_warnings_happen_at_each_call(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test_state")

    @to_static
    def f(x: Any) -> Any:
        logger.warning("called with %s", x[0])
        if x.sum() > 0:
            logging.warning("positive")
            warnings.warn("positive", UserWarning, stacklevel=1)
        return x

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x in (X, -X, X):
            f(x)
    assert [record.getMessage() for record in caplog.records] == [
        "called with tensor(1.)", "positive", "called with tensor(-1.)", "called with tensor(1.)", "positive",
    ]  # fmt: skip
    assert [str(w.message) for w in caught if w.category is UserWarning] == ["positive"] * 2


def test_copies_are_made_by_the_program() -> None:
    class Net(Base):
        def __init__(self) -> None:
            super().__init__(t=torch.ones(3), items=[torch.ones(3), {"k": torch.zeros(3)}])

        def forward(self, x: Any) -> Any:
            t, items = copy.deepcopy(self.t), copy.deepcopy(self.items)
            t.add_(x)
            items[0].mul_(2)
            items.append(copy.copy(t))
            if x.sum() > 0:
                items[1]["k"].add_(x)
            return t, items

    follow(Net, SIGNS, 1, lambda net: (net.t, net.items))


def test_a_module_without_shapes_yet_is_refused() -> None:
    net = to_static(nn.Sequential(nn.LazyLinear(2)))
    with pytest.raises(CaptureError, match="LazyLinear has parameters without a shape"):
        net(X)
    with enable_to_static(False):
        expected = net(X)
    same(net(X), expected)


class ReadInABranch(nn.Module):
    """A number that changes from call to call, and is first looked at where a tensor decides."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 6

    def forward(self, x: Any) -> Any:
        y = x
        if x.sum() > 0:
            assert self.left > 3
            if self.left >= 5:
                y = x * self.left
        z = y if self.left > 3 else -y
        self.left -= 1
        return z


def test_a_number_first_read_in_a_branch() -> None:
    eager, static = ReadInABranch(), to_static(ReadInABranch())
    for k, sign in enumerate([1, 1, 1, -1, -1, -1, 1]):
        x = torch.tensor([1.0, 2.0]) * sign
        if k == 6:
            with pytest.raises(AssertionError):
                static(x)
            break
        assert torch.equal(eager(x), static(x)), k
        assert eager.left == static.left
    assert len(static.forward.program_cache) == 2
