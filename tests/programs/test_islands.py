"""Islands: functions marked `not_to_static` run as Python when the program runs, where they stand and each time."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import random
import statistics
import threading
import weakref

import numpy as np
import pytest
import torch

import dy2st
from dy2st import InputSpec
from tests.oracle import agree, same
from tests.programs.values import vec

T = torch.tensor
SIGNS = [vec(1.0, 2.0, 3.5), vec(-1.0, -2.0, 0.5), vec(4.0, -1.0, 2.0)]


def islands_of(static):
    return {island.name: island.calls for island in static.report().islands}


@dy2st.not_to_static(returns=InputSpec([None], "float64"))
def sorted_by_numpy(x):
    return torch.from_numpy(np.sort(x.detach().numpy()))


@dy2st.not_to_static
def median(x):
    return statistics.median(x.detach().tolist())


@dy2st.not_to_static
def doubled_while_small(x):
    while x.sum() < 10:
        x = x * 2 + 1
    return x


def test_a_declared_island_runs_at_the_top_level():
    static = agree(lambda x: sorted_by_numpy(x) * 2 + x, SIGNS)
    assert islands_of(static)["sorted_by_numpy"] > 0


def test_an_island_runs_in_a_branch():
    def f(x):
        if x.sum() > 0:
            x = x - median(x)
        return x * 2

    agree(f, SIGNS)


def test_an_island_runs_in_each_iteration_of_a_loop():
    def f(x, n):
        total = 0.0
        for k in range(n):
            x = sorted_by_numpy(x + k)
            total += median(x)
        return x, total

    agree(f, [(x, T(n)) for x in SIGNS for n in (3, 0, 1)])


def test_an_island_in_a_while_loop_decides_when_it_ends():
    def f(x):
        count = 0
        while median(x) < 5.0:
            x = x + 1
            count += 1
        return x, count

    agree(f, SIGNS)


def test_gradients_flow_through_an_island():
    agree(lambda x: doubled_while_small(x * 3).sum() * x[0], [vec(1.0, 2.0).requires_grad_(), vec(0.1, 0.2).requires_grad_()])


def test_gradients_flow_through_an_island_in_a_loop():
    def f(x, n):
        for _ in range(n):
            x = doubled_while_small(x) * 0.5
        return x

    agree(f, [(vec(1.0, 2.0).requires_grad_(), T(n)) for n in (2, 3, 0)])


def test_an_island_without_gradients_gives_none():
    @dy2st.not_to_static
    def detached(x):
        return torch.from_numpy(x.detach().numpy() * 2)

    agree(lambda x: (detached(x), detached(x) * x), [vec(1.0, 2.0).requires_grad_()] * 2)


def test_a_method_is_an_island():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        @dy2st.not_to_static
        def scale(self, x):
            return self.weight * float(np.abs(x.detach().numpy()).max())

        def forward(self, x):
            if x.sum() > 0:
                x = self.scale(x) + x
            return x

    agree(Net(), SIGNS)


def test_prints_of_an_island_come_at_each_call_and_in_order():
    @dy2st.not_to_static
    def shows(x):
        print("sum", x.sum().item())

    def f(x, n):
        print("begin")
        for k in range(n):
            shows(x + k)
            print("iteration", k)
        return x

    agree(f, [(x, T(n)) for x in SIGNS for n in (2, 0)])


def test_random_numbers_of_python_are_drawn_at_each_call():
    @dy2st.not_to_static
    def drawn(x):
        return x * random.random() + float(np.random.rand())

    def run(function):
        random.seed(3)
        np.random.seed(3)
        return [function(x) for x in SIGNS]

    f = lambda x: drawn(x) + drawn(x)
    static = dy2st.to_static(f)
    for _ in range(2):
        for one, other in zip(run(f), run(static)):
            same(one, other)


def test_an_island_gives_each_kind_of_value():
    @dataclasses.dataclass
    class Parts:
        first: object
        second: object

    Pair = collections.namedtuple("Pair", "left right")

    @dy2st.not_to_static
    def gives(x, kind):
        high = float(x.max().item())
        return {
            "none": None,
            "bool": high > 2,
            "int": int(high),
            "float": high,
            "str": f"<{high}>",
            "tuple": (x * 2, high),
            "list": [x, x + 1],
            "dict": {"a": x, "b": {"c": int(high)}},
            "pair": Pair(x, high),
            "parts": Parts(x * 2, None),
            "empty": ([], {}, ()),
            "bytes": b"ab",
            "dtype": x.dtype,
        }[kind]

    for kind in ("none", "bool", "int", "float", "str", "tuple", "list", "dict", "pair", "parts", "empty", "bytes", "dtype"):
        agree(lambda x, kind=kind: gives(x, kind), SIGNS, programs=1)
    agree(lambda x: gives(x, "str") + "!" if gives(x, "bool") else gives(x, "int") + 1, SIGNS)


def test_what_an_island_gives_is_used_like_what_converted_code_makes():
    @dy2st.not_to_static
    def gives(x):
        return {"items": [x * 2, x + 1], "count": int((x > 1).sum().item())}

    def f(x):
        found = gives(x)
        found["items"].append(x)
        found["more"] = x * found["count"]
        total = x
        for _ in range(found["count"]):
            total = total + found["items"][0]
        return found, total

    agree(f, SIGNS)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_an_island_takes_and_gives_tensors_of_each_dtype(dtype):
    agree(lambda x: doubled_or_not(x), [T([1, 0, 3]).to(dtype), T([0, 0, 1]).to(dtype)])


@dy2st.not_to_static
def doubled_or_not(x):
    return x.clone() if x.float().sum().item() > 2 else x.logical_not().to(x.dtype)


def test_an_island_takes_and_gives_empty_tensors():
    agree(lambda x: doubled_or_not(x[:0]) + 1, SIGNS)
    agree(lambda x: sorted_by_numpy(x[x > 100]), SIGNS)


def test_sizes_of_what_an_island_gives_differ_from_call_to_call():
    @dy2st.not_to_static
    def picked(x):
        return torch.tensor([v for v in x.tolist() if v > 0])

    def f(x):
        y = picked(x)
        return y * 2, len(y), y.sum()

    agree(f, [*SIGNS, vec(1.0, 1.0, 1.0)])


def test_numbers_of_the_program_are_arguments_of_an_island():
    @dy2st.not_to_static
    def combined(n, f, text):
        assert type(n) is int and type(f) is float and type(text) is str
        return f"{n + 1}{f}{text}"

    agree(lambda x: combined(int(x[0].item()), x.sum().item(), f"{x[1].item():.1f}"), SIGNS)


def test_containers_are_arguments_of_an_island():
    @dy2st.not_to_static
    def total(items, table, *rest, factor=1.0, **more):
        values = [*items, *table.values(), *rest, *more.values()]
        return torch.tensor(sum(float(v.sum()) for v in values) * factor)

    def f(x):
        return total([x, x * 2], {"a": x}, x + 1, factor=x[0].item(), z=x)

    agree(f, SIGNS)


def test_a_list_that_grows_in_a_loop_is_an_argument_of_an_island():
    @dy2st.not_to_static
    def longest(items):
        return len(items), max(items, key=lambda item: item.sum().item())

    def f(x, n):
        items = [x]
        for k in range(n):
            items.append(x * k)
        return longest(items), len(items)

    agree(f, [(x, T(n)) for x in SIGNS for n in (3, 0)])


def test_an_island_changes_the_tensor_that_it_is_given():
    @dy2st.not_to_static
    def filled(x):
        x.numpy()[:] = 7

    def f(x):
        y = x * 2
        filled(y)
        z = y + 1
        filled(x)
        return y, z, x.sum()

    agree(f, [vec(1.0, 2.0), vec(3.0, 4.0)])


def test_an_island_gives_its_argument_back():
    @dy2st.not_to_static
    def back(x):
        return x if x.sum().item() > 0 else x + 0

    def f(x):
        y = x * 2
        z = back(y)
        z.add_(1)
        return y, z, y is z

    agree(f, SIGNS)


def test_an_island_changes_an_object_from_outside():
    def make():
        log, state = [], {"calls": 0}

        @dy2st.not_to_static
        def notes(x):
            log.append(x.tolist())
            state["calls"] += 1

        def f(x):
            if x.sum() > 0:
                notes(x * 2)
            return x + 1

        return f, log, state

    f, log, state = make()
    g, log_of_static, state_of_static = make()
    static = dy2st.to_static(g)
    for x in [*SIGNS, *SIGNS]:
        same(static(x), f(x))
    assert (log, state) == (log_of_static, state_of_static)


def test_an_exception_of_an_island_passes_through():
    @dy2st.not_to_static
    def checked(x):
        if x.sum().item() < 0:
            raise LookupError(f"negative: {x.sum().item()}")
        return x * 2

    agree(lambda x: checked(x) + 1, SIGNS)


def test_an_island_catches_its_own_exceptions():
    @dy2st.not_to_static
    def factored(x):
        try:
            return torch.linalg.cholesky(x), True
        except torch.linalg.LinAlgError:
            return x, False

    agree(lambda x: factored(x.outer(x) + torch.eye(3) * x[0]), SIGNS)


def test_an_island_calls_a_static_function_that_calls_islands():
    @dy2st.to_static
    def inner(x):
        return sorted_by_numpy(x) + median(x)

    @dy2st.not_to_static
    def outer(x, depth):
        return inner(x) if depth == 0 else outer(inner(x), depth - 1)

    agree(lambda x: outer(x, 2) if x.sum() > 0 else x, SIGNS)


def test_a_second_signature_is_learned_by_itself():
    f = lambda x: doubled_while_small(x) + 1
    static = dy2st.to_static(f)
    for x in (vec(1.0, 2.0), vec(1.0, 2.0).float(), vec(1.0, 2.0)[None], vec(3.0, 4.0), vec(3.0, 4.0).float(), vec(3.0, 4.0)[None]):
        same(static(x), f(x))
    assert len(static.program_cache) == 3


def test_an_island_that_a_call_does_not_reach_is_learned_later():
    def f(x):
        if x.sum() > 0:
            return x * median(x)
        return x

    static = dy2st.to_static(f)
    for x in (SIGNS[1], SIGNS[1], SIGNS[0], SIGNS[1], SIGNS[0]):
        same(static(x), f(x))
    assert len(static.program_cache) == 1


def test_threads_call_one_program_with_islands():
    f = lambda x, n: sum((sorted_by_numpy(x + k) for k in range(3)), x) * median(x)
    static = dy2st.to_static(f)
    static(vec(1.0, 2.0), 0)
    found = {}

    def work(index):
        found[index] = [static(vec(float(index), k), 0) for k in range(20)]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in range(4):
        for k, value in enumerate(found[index]):
            same(value, f(vec(float(index), k), 0))


def test_passes_keep_remove_and_reorder_no_island():
    seen = []

    @dy2st.not_to_static(returns=float)
    def noted(x):
        seen.append(float(x.sum()))
        return seen[-1]

    def f(x, n):
        y = noted(x) + noted(x)
        for _ in range(n):
            noted(x)  # its value is used by nobody, and its argument is the same each time
        return x * y

    from dy2st_runtime.passes.pipeline import optimize

    static = dy2st.to_static(f, passes=[optimize])
    same(static(vec(1.0), T(3)), f(vec(1.0), T(3)))
    assert seen == [1.0] * 10


def test_an_island_of_only_torch_is_recorded_operation_by_operation():
    @dy2st.not_to_static
    def plain(x):
        return torch.relu(x) * 2

    static = agree(lambda x: plain(x) + 1, SIGNS)
    assert static.report().islands == ()


def test_inference_and_no_grad_reach_into_islands():
    @dy2st.not_to_static
    def grad_mode(x):
        print("grad", torch.is_grad_enabled(), x.requires_grad)
        return x * 2

    def f(x):
        with torch.no_grad():
            y = grad_mode(x)
        return grad_mode(x) + y

    agree(f, [vec(1.0, 2.0).requires_grad_()] * 2)


def test_a_tensor_of_outside_that_an_island_changes_is_read_anew():
    from functools import partial

    from dy2st_runtime.passes.pipeline import optimize

    buffer = torch.ones(2)

    @dy2st.not_to_static(returns=None)
    def changes():
        buffer.numpy()[:] += 1

    def f(n):
        total = buffer * 2
        changes()
        total = total + buffer * 2
        for _ in range(n):
            total = total + buffer * 2
            changes()
        return total

    static = dy2st.to_static(f, passes=[partial(optimize, gradients=False)])
    for n in (T(2), T(3)):
        buffer.fill_(1.0)
        found = static(n)
        buffer.fill_(1.0)
        same(found, f(n))


def test_an_island_gives_other_gradients_with_and_without_grad_mode():
    f = lambda x: doubled_while_small(x) * 2
    static = dy2st.to_static(f)
    for _ in range(3):
        x = vec(1.0, 2.0).requires_grad_()
        same(static(x), f(x))
        assert static(x).requires_grad
        with torch.no_grad():
            same(static(x), f(x))
        with torch.inference_mode():
            same(static(x), f(x))


def test_a_profiler_that_watches_goes_on_when_an_island_has_been_learned():
    import cProfile

    @dy2st.not_to_static
    def watched(x):
        return float(np.sum(x.numpy()))

    profiler = cProfile.Profile()
    profiler.enable()
    assert dy2st.to_static(lambda x: watched(x) * 2)(vec(1.0, 2.0)) == 6.0
    sum(sorted([3, 1, 2]))
    profiler.disable()
    assert any("sorted" in str(entry.code) for entry in profiler.getstats())


def test_two_islands_on_one_line_are_told_apart():
    one, other = dy2st.not_to_static(lambda x: x.tolist()[0]), dy2st.not_to_static(lambda x: x.long().tolist())
    agree(lambda x: (one(x), other(x)), SIGNS)


def test_islands_run_inside_of_context_managers():
    @contextlib.contextmanager
    def named(name):
        print("begin", name)
        yield
        print("end", name)

    def f(x):
        with named("median"):
            y = x - median(x)
        return y

    agree(f, SIGNS)


def test_objects_from_outside_come_as_themselves():
    class Config:
        def __init__(self, factor):
            self.factor = factor

    @dy2st.not_to_static
    def scaled(x, config, owner):
        assert type(config) is Config and isinstance(owner, torch.nn.Linear)
        return owner(x.float()).double() * config.factor * float(np.max(x.numpy()))

    linear = torch.nn.Linear(3, 3)
    f = lambda x, config: scaled(x, config, linear) + 1
    static = dy2st.to_static(f)
    config = Config(2.0)
    for x in SIGNS:
        same(static(x, config), f(x, config))
        config.factor += 1
    same(static(SIGNS[0], Config(5.0)), f(SIGNS[0], Config(5.0)))


def test_a_module_goes_with_its_programs_with_islands():
    class Net(torch.nn.Module):
        @dy2st.not_to_static(returns=float)
        def part(self, x):
            return float(np.max(x.numpy()))

        def forward(self, x):
            return self.part(x) + x

    net = dy2st.to_static(Net(), backend="native")
    same(net(vec(1.0, 2.0)), vec(3.0, 4.0))
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_generators_of_random_numbers_in_attributes_and_variables_are_used_at_each_call():
    class Noisy:
        def __init__(self):
            self.rng, self.other = np.random.default_rng(0), random.Random(0)

        @dy2st.not_to_static
        def noise(self, x):
            return x + self.rng.normal() * self.other.random()

    def run(make):
        noisy = Noisy()
        function = make(lambda x: noisy.noise(x) * 2)
        return [function(x) for x in SIGNS]

    for one, other in zip(run(lambda function: function), run(dy2st.to_static)):
        same(one, other)


class Totals:
    """Keeps what it is told in objects that it makes."""

    class Total:
        def __init__(self):
            self.last, self.calls = None, 0

    def __init__(self):
        self.kept = {}

    def log(self, name, value):
        if name not in self.kept:
            self.kept[name] = self.Total()
        self.kept[name].last = value
        self.kept[name].calls += 1


def test_an_island_that_leaves_objects_that_it_makes_runs_at_each_call():
    class Step(Totals):
        @dy2st.not_to_static
        def log(self, *args):
            super().log(*args)

        def __call__(self, x):
            self.log("sum", x.sum())
            if x.sum() > 1:
                self.log("large", x.sum())
            return x * 2

    step = Step()
    static = dy2st.to_static(step.__call__)
    for factor in (1, 2, 0, 3):
        static(torch.ones(2) * factor)
    assert (step.kept["sum"].last, step.kept["sum"].calls) == (torch.tensor(6.0), 4)
    assert (step.kept["large"].last, step.kept["large"].calls) == (torch.tensor(6.0), 3)
