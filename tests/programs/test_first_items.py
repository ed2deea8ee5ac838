"""``next`` of an iterator of which nothing has been taken: the first item, where a tensor decides which that is."""

from __future__ import annotations

import pytest
import torch

from tests import oracle
from tests.worlds import agree, registry
from tests.worlds import called as W

P, N = torch.ones(2), -torch.ones(2)
WORLDS, world = registry()


class Box:
    """An object of the user's."""


@world
def next_default():

    def f(x):
        xs = []
        while x.sum() < 5:
            xs.append(x)
            x = x + 1
        return next(iter(xs), None)

    return W(f, [], P, 5 * P, N)


@world
def next_default_t():

    def f(x):
        xs = []
        if x.sum() > 0:
            xs.append(x)
        return next(iter(xs), x * 0)

    return W(f, [], P, 5 * P, N)


@world
def next_iter():

    def f(x):
        xs = [x]
        if x.sum() > 0:
            xs.append(x * 2)
        return next(iter(xs))

    return W(f, [], P, N)


@world
def next_gen():

    def f(x):
        xs = [x]
        while x.sum() < 5:
            xs.append(x)
            x = x + 1
        return next((t for t in xs if t.sum() > 2), None)

    return W(f, [], P, 5 * P, N)


@world
def next_gen_plain():

    def f(x):
        ts = [x, x + 1, x + 2]
        return next((t for t in ts if t.sum() > 2), x * 0)

    return W(f, [], P, 5 * P, N)


@world
def next_stop():

    def f(x):
        xs = []
        if x.sum() > 0:
            xs.append(x * 2)
        try:
            return next(iter(xs))
        except StopIteration:
            return x * 0

    return W(f, [], P, N)


@world
def next_stop_out():

    def f(x):
        xs = []
        if x.sum() > 0:
            xs.append(x * 2)
        return next(iter(xs))

    return W(f, [], P, N, P)


@world
def next_gen_obj():

    class Q:
        def __init__(s, k):
            s.k = k

    qs = [Q(1), Q(2), Q(3)]

    def f(x):
        q = next((q for q in qs if x.sum() < q.k), None)
        return (q is None, q.k if q is not None else 0)

    return W(f, [], P, N, 5 * P, P)


@world
def next_plain_gen():

    def f(x):
        g = (x * k for k in [1, 2, 3] if k > 1)
        a = next(g)
        b = next(g)
        return (a, b, list(g))

    return W(f, [], P, N)


@world
def next_zip():

    def f(x):
        xs = [x]
        if x.sum() > 0:
            xs.append(x * 2)
        return next(zip(xs, [1, 2]), None)

    return W(f, [], P, N)


@world
def next_filter():

    def f(x):
        return next(filter(lambda t: t.sum() > 2, [x, x + 1, x + 2]), None)

    return W(f, [], P, N, 5 * P)


@world
def next_enumerate():

    def f(x):
        i = next((i for i, t in enumerate([x, x + 1, x + 2]) if t.sum() > 2), -1)
        return i

    return W(f, [], P, N, 5 * P)


@world
def next_in_loop():

    def f(x):
        n = 0
        for k in range(3):
            n += next((j for j in range(3) if x[0] + j > k), 10)
        return n

    return W(f, [], P, N, 5 * P)


@world
def next_write():

    def f(x):
        log = []

        def p(t):
            log.append(1)
            print("p")
            return t.sum() > 2

        r = next((t for t in [x, x + 1, x + 2] if p(t)), None)
        return (r, len(log))

    return W(f, [], P, N, 5 * P)


@world
def next_while():

    def f(x):
        while x.sum() < 9:
            k = next((k for k in [1, 2, 3] if x.sum() < k * 3), 1)
            x = x + k
        return x

    return W(f, [], P, N, 5 * P)


@world
def next_behind_a_write():
    box = Box()
    box.items, box.last = [N], None

    def f(x):
        box.last = x
        return next((t for t in [x, x + 1, *box.items] if t.sum() > 2), None)

    return W(f, [box], P, N, 5 * P)


@world
def next_of_objects_behind_a_write():
    box = Box()
    box.count = 0

    def f(x):
        box.count += 1
        found = next(t for t in [{"x": x, "k": 1}, {"x": x + 5, "k": 2}] if t["x"].sum() > 2)
        return found["k"], found["x"]

    return W(f, [box], P, N, 5 * P)


@world
def next_of_nothing():

    def f(x):
        try:
            return next(t for t in [x, x + 1] if t.sum() > 2)
        except StopIteration:
            return x - 1

    return W(f, [], P, N, 5 * P)


@pytest.mark.parametrize("make", WORLDS)
def test_next_gives_the_first_item_that_eager_gives(make):
    agree(make, programs=3)


def test_a_second_next_where_a_tensor_decides_the_length():
    def f(x):
        items = [x]
        if x.sum() > 0:
            items.append(x * 2)
        found = iter(items)
        return next(found), next(found, None)

    oracle.agree(f, [(P,), (-P,)])
