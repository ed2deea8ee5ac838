"""Deques that branches and loops change."""

from __future__ import annotations

from collections import defaultdict, deque

import pytest
import torch

import dy2st
from tests.oracle import agree


def row(*values, grad=False):
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


XS = [row(1.0, 3.0, 2.0), row(-1.0, -2.0, -3.0), row(5.0, -9.0, 0.0)]
NS = [(torch.tensor(n), row(1.0, 2.0, grad=True)) for n in (2, 0, 1, 5)]


@pytest.mark.parametrize("calls", [NS, NS[::-1]])
def test_a_window_of_the_last_values(calls):
    def f(n, x):
        window = deque(maxlen=3)
        means = []
        for k in range(n):
            x = x * 2 + k
            window.append(x)
            means.append(torch.stack(list(window)).mean(0))
        total = x
        for h in window:
            total = total + h
        return len(window), total, list(window), means, window, bool(window)

    agree(f, calls)


@pytest.mark.parametrize("limit", [0, 1, 3, None])
def test_a_deque_grows_and_shrinks_at_both_ends(limit):
    def f(n, x):
        d, count = deque([x], limit), 0
        for k in range(n):
            if k % 2 == 0:
                d.append(x * k)
            else:
                d.appendleft(x + k)
            d.extend([x, x * 3])
            d.extendleft((x * 5, x * 7))
            if len(d) > 2:
                x = x + d.pop() - d.popleft()
                count += 1
        return d, x, count, len(d)

    agree(f, NS)
    agree(f, NS[1:])


@pytest.mark.parametrize("calls", [XS, XS[::-1]])
def test_branches_change_a_deque_as_in_eager(calls):
    def f(x):
        d = deque([x, x + 1, x + 2], maxlen=3)
        e = d
        if x.sum() > 0:
            d.append(x * 2)
            d.rotate(1)
        elif x[0] < 0:
            d.popleft()
            d.rotate(-1)
        if x[1] < 0:
            d.clear()
        if d:
            d[0] = d[0] * 2
            x = x + d[-1]
        return (
            x,
            d,
            len(d),
            d is e,
            sum(d),
            [h.sum() for h in d],
            list(reversed(d)),
            isinstance(d, deque),
            type(d) is deque,
            d.maxlen,
        )

    agree(f, calls)


@pytest.mark.parametrize("calls", [NS, NS[1:]])
def test_a_deque_of_numbers_is_filled_by_a_loop(calls):
    def f(n, x):
        d = deque()
        for k in range(n):
            d.append(k * 3)
        found = 3 in d
        e = d.copy()
        e.rotate(2)
        e += [1]
        if len(d) > 1:
            d.remove(3)
            d.insert(1, 7)
            d.reverse()
        return found, d, e, d.count(0), d == e, max(e), sum(d), [k + v for k, v in enumerate(d)], d + e, list(zip(d, e))

    agree(f, calls)


def test_a_deque_of_dynamic_length_raises_pythons_errors():
    def empty(n, x):
        d = deque()
        for _ in range(n):
            d.append(x)
        return d.popleft()

    def outside(n, x):
        d = deque([x])
        for _ in range(n):
            d.append(x)
        return d[3]

    def full(n, x):
        d = deque([x], 2)
        for _ in range(n):
            d.append(x)
        d.insert(0, x)
        return d

    def unknown(n, x):
        d = deque([1])
        for k in range(n):
            d.append(k)
        d.remove(4)
        return d

    def sought(n, x):
        d = deque([1])
        for k in range(n):
            d.append(k)
        return d.index(n.item() + 3)

    for f in (empty, outside, full, unknown, sought):
        agree(f, NS)
        agree(f, NS[::-1])


def test_a_deque_without_tensors_is_that_of_python():
    def f(x):
        d = deque("abc", maxlen=3)
        d.append("d")
        names = []
        while d:
            names.append(d.popleft())
        with pytest.raises(IndexError, match="pop from an empty deque"):
            d.pop()
        return x * len(names), names, f"{deque([1, 2])}"

    agree(f, XS)


def test_a_breadth_first_search_visits_nodes_in_eagers_order():
    def f(start, edges):
        todo, order = deque([start]), []
        while todo and len(order) < 6:
            node = todo.popleft()
            order.append(node)
            if edges[int(node)] > 0:
                todo.append(node * 2 % 4)
                todo.append(node + 1)
        return torch.stack(order)

    for first in (0.0, 1.0):
        agree(f, [(row(first)[0], row(1.0, e, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0)) for e in (1.0, 0.0)])


def test_a_deque_that_a_saved_model_gives_keeps_its_limit(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            d = deque([x], maxlen=2)
            if x.sum() > 0:
                d.append(x * 2)
            return d

    static = agree(Model(), XS)
    dy2st.save(static, tmp_path / "model.dy2st")
    loaded = dy2st.load(tmp_path / "model.dy2st")
    for x in XS:
        assert loaded(x).maxlen == 2 and all(map(torch.equal, loaded(x), static(x))) and len(loaded(x)) == len(static(x))


def test_text_of_a_deque_of_tensors():
    def f(x):
        print(deque([x]), [deque([x, 1], maxlen=2)])
        return x

    agree(f, XS)


@pytest.mark.parametrize("times", [0, 1, 2, -1])
def test_a_deque_is_extended_and_repeated_in_place(times):
    def grown(items, other, x):
        if x.sum() > 0:
            items += other
        return items

    def repeated(items, other, x):
        same = items
        if x.sum() > 0:
            items *= times
        return items, same is items

    def of_a_choice(items, other, x):
        chosen = items if x.sum() > 0 else other
        items += chosen
        return items

    for function in (grown, repeated, of_a_choice):
        signs = [torch.tensor(v) for v in (1.0, -1.0)]
        agree(function, [(deque("ab", maxlen), deque("bc"), x) for x in signs for maxlen in (None, 3)], programs=None)


@pytest.mark.parametrize("backend", ["native", "python"])
def test_a_deque_of_another_maxlen_has_a_program_of_its_own(backend):
    def put_in(items, x, n):
        while n > 0:
            n = n - 1
            items.append(x)
        if x.sum() > 0:
            items.appendleft(x * 2)
        return len(items), list(items)

    static = dy2st.to_static(put_in, backend=backend)
    for maxlen in (None, 2, 1, None, 3, 2):
        for n in (0, 2):
            results = []
            for function in (put_in, static):
                items = deque([torch.ones(2)], maxlen)
                results.append((str(function(items, torch.full((2,), 3.0), torch.tensor(n))), str(items)))
            assert results[0] == results[1]


def test_a_dict_with_another_factory_has_a_program_of_its_own():
    def asked(table, x):
        if x.sum() > 0:
            table["k"]
        return list(table.items())

    class Maker:
        def make(self):
            return 5

    maker = Maker()
    static = dy2st.to_static(asked)
    for factory in (list, dict, list, lambda: 7, lambda: 8, maker.make, Maker().make, maker.make, None):
        for x in (torch.ones(2), -torch.ones(2)):
            if factory is None and x.sum() > 0:
                continue
            assert static(defaultdict(factory), x) == asked(defaultdict(factory), x)
    before = len(static.program_cache)
    for _ in range(3):
        assert static(defaultdict(lambda: 9), torch.ones(2)) == [("k", 9)]
    assert len(static.program_cache) == before + 1
