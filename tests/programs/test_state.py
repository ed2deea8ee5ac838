"""Attributes, items, containers and closures that branches and loops change."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

import dy2st
from tests.oracle import agree
from tests.programs.values import counts, signs, vec

X = vec(1, 2, 3)


def trips(*items):
    return [(X, count) for count in counts(*items)]


class Box:
    def __init__(self, value):
        self.value = value
        self.count = 0

    def bump(self):
        self.value = self.value + 1
        self.count += 1


def test_list_made_in_the_body():
    def f(x, n):
        for i in range(n):
            parts = []
            parts.append(x)
            parts.append(x + 1)
            x = torch.stack(parts).sum(0)
        return x

    agree(f, trips())


def test_dict_made_in_the_body():
    def f(x, n):
        for i in range(n):
            d = {}
            d["a"] = x
            d["b"] = x + i
            x = d["a"] * d["b"]
        return x

    agree(f, trips())


def test_set_and_dict_calls_in_the_body():
    def f(x, n):
        for i in range(n):
            seen = set()
            d = dict(a=x)
            for name in ("a", "b", "a"):
                if name in seen:
                    d["a"] = d["a"] * 2
                seen.add(name)
            x = d["a"] + len(seen)
        return x

    agree(f, trips())


def test_object_made_in_the_body():
    def f(x, n):
        for i in range(n):
            box = Box(x)
            box.bump()
            if box.value.sum() > 5:
                box.bump()
            x = box.value + box.count
        return x

    agree(f, trips())


def test_list_made_in_each_branch():
    def f(x):
        if x.sum() > 0:
            parts = [x]
            parts.append(x * 2)
        else:
            parts = [x * 3, x * 4]
        return parts[0], parts[1]

    agree(f, signs())


def test_object_made_before_a_loop():
    def f(x, n):
        box = Box(x)
        for i in range(n):
            box.bump()
        return box.value, box.count

    agree(f, trips())


def test_object_made_in_each_branch():
    def f(x):
        if x.sum() > 0:
            box = Box(x)
            box.bump()
        else:
            box = Box(x * 2)
        return box.value, box.count

    agree(f, signs())


def test_attribute_made_in_branches():
    def f(x):
        box = Box(x)
        if x.sum() > 0:
            box.bump()
            box.extra = x * 2
        else:
            box.extra = x
        return box.value, box.count, box.extra

    agree(f, signs())


def test_dict_items_in_branches():
    def f(x):
        d = {"a": x}
        if x.sum() > 0:
            d["b"] = x + 1
        else:
            d["b"] = x + 2
            d["a"] = x * 5
        return d

    agree(f, signs())


def test_dict_order_follows_the_branch_taken_or_is_refused():
    def f(x):
        d = {}
        if x.sum() > 0:
            d["a"] = x
            d["b"] = x + 1
        else:
            d["b"] = x + 2
            d["a"] = x * 5
        return d["a"], d["b"]

    agree(f, signs())


def test_a_branch_writes_into_nested_containers():
    def f(x):
        d = {"a": x, "inner": {"k": [x, x + 1]}}
        if x.sum() > 0:
            d["inner"]["k"][1] = x * 7
        e = d["inner"]["k"]
        return d, e[1]

    agree(f, signs())


def test_dict_items_in_a_loop():
    def f(x, n):
        d = {"a": x, "n": 0}
        for k in range(n):
            d["a"] = d["a"] + k
            d["n"] += 1
        return d

    agree(f, trips())


def test_list_items_swapped_in_a_loop():
    def f(x, n):
        s = [x, x + 1]
        for q in range(n):
            s[0], s[1] = s[1], s[0] + q
        return s

    agree(f, trips())


def test_list_seen_through_another_name():
    def f(x, n):
        s = [x]
        t = s
        for q in range(n):
            t.append(x + q)
        return len(s), torch.stack(s)

    agree(f, trips())


def test_local_loop_of_a_helper_called_in_a_loop():
    def helper(x):
        y = x
        while y.sum() < 5:
            y = y + 1
        x = y * 2
        if x.sum() > 50:
            x = x - 50
        return x

    def f(x, n):
        y = x
        for i in range(n):
            x = helper(x + y)
        return x

    agree(f, trips())


def test_nonlocal_of_a_helper_called_in_a_loop():
    def counter(x):
        c = 0

        def inc(v):
            nonlocal c
            c = c + 1
            return v

        if x.sum() > 0:
            inc(x)
        return inc(x) * c

    def f(x, n):
        for i in range(n):
            x = x + counter(x)
        return x

    agree(f, trips())


def test_nonlocal_reached_through_a_container():
    def f(x, n):
        c = 0

        def inc():
            nonlocal c
            c = c + 1

        operations = [inc]
        for i in range(n):
            operations[0]()
        return x * c, c

    agree(f, trips())


def test_nonlocal_reached_through_an_argument():
    def twice(action, x):
        for i in range(2):
            if x.sum() > 0:
                action()

    def f(x, n):
        c = 0

        def inc():
            nonlocal c
            c = c + 1

        for i in range(n):
            twice(inc, x - i)
        return c

    agree(f, trips())


def test_closure_factory_called_before_the_loop():
    def make():
        total = 0

        def add(v):
            nonlocal total
            total = total + v
            return total

        return add

    def f(x, n):
        add = make()
        for i in range(n):
            x = x + add(i)
        return x, add(0)

    agree(f, trips())


def test_closure_factory_called_in_the_loop():
    def make(start):
        total = start

        def add(v):
            nonlocal total
            total = total + v
            return total

        return add

    def f(x, n):
        for i in range(n):
            add = make(x)
            add(1)
            x = add(i)
        return x

    agree(f, trips())


def test_closure_made_in_a_loop_reads_the_last_value():
    def f(x, n):
        k = 0

        def read():
            return x * k

        for i in range(n):
            k = i
        return read()

    agree(f, trips())


@dataclasses.dataclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor
    n: int = 0


def test_dataclass_in_a_loop():
    def f(x, n):
        p = Pair(x, x + 1)
        for i in range(n):
            p.a, p.b = p.b, p.a + i
            p.n += 1
        return p

    agree(f, trips())


def test_dataclass_replaced_in_a_loop():
    def f(x, n):
        p = Pair(x, x + 1)
        for i in range(n):
            p = Pair(p.b, p.a, p.n + 2)
        return p.a, p.b, p.n

    agree(f, trips())


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.float64))
        self.register_buffer("steps", torch.tensor(0))
        self.last = None

    def forward(self, x):
        if x.sum() > 0:
            self.seen += x.detach()
            self.steps += 1
        else:
            self.seen = self.seen * 2
        return x * self.weight + self.seen


def test_buffers_changed_in_branches():
    agree(Counter(), signs())


class Carry(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = torch.zeros(3, dtype=torch.float64)

    def forward(self, x):
        h = self.h
        while h.sum() < x.sum():
            h = h + 1
        self.h = h
        return h * x


def test_attribute_of_the_module_over_calls():
    agree(Carry(), signs(), programs=None)


class BufferOnly(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x):
        if x.sum() > 0:
            self.n += 1
        return x


def test_buffer_is_the_only_thing_that_a_branch_changes():
    agree(BufferOnly(), signs())


def test_change_of_a_container_that_is_an_argument():
    def f(x, d):
        if x.sum() > 0:
            d["a"] = d["a"] + x
        return d["a"]

    static = dy2st.to_static(f)
    for x in (X, -X):
        expected, found = {"a": X.clone()}, {"a": X.clone()}
        f(x, expected), static(x, found)
        assert torch.equal(expected["a"], found["a"])
    assert len(static.program_cache) == 1


def test_a_loop_fills_a_deque_and_a_defaultdict():
    import collections

    def f(x):
        q = collections.deque(maxlen=2)
        d = collections.defaultdict(int)
        for v in [x, x + 1, x + 2]:
            q.append(v)
            d["n"] += 1
        return q[0] + q[1], d["n"]

    agree(f, signs())


def test_global_written_in_a_branch():
    def f(x):
        global _written
        if x.sum() > 0:
            _written = _written + 1
        return x * _written

    global _written
    for x in signs():
        _written = 1
        expected = f(x), _written
        _written = 1
        found = dy2st.to_static(f)(x), _written
        assert torch.equal(expected[0], found[0]) and expected[1] == found[1]


_written = 1
