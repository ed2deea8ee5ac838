"""Heaps, and what Python compares item by item, where tensors are the keys."""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
from typing import Any

import pytest
import torch

from tests.oracle import agree

XS = [torch.tensor(v) for v in ([1.0, 2.0, 3.0], [9.0, 9.0, 9.0], [0.0, 6.0, 1.0], [-1.0, -2.0, -3.0], [2.0, -2.0, 2.0])]


class Item:
    def __init__(self, p, v):
        self.p, self.v = p, v

    def __lt__(self, other):
        return self.p < other.p


@dataclasses.dataclass(order=True)
class Ordered:
    p: Any
    v: int = dataclasses.field(compare=False, default=0)


@functools.total_ordering
class Total:
    def __init__(self, p):
        self.p = p

    def __lt__(self, other):
        return self.p < other.p

    def __eq__(self, other):
        return self.p == other.p


def pushed_pairs(x):
    heap = []
    for t in range(3):
        heapq.heappush(heap, (x[t], t))
    first = heapq.heappop(heap)
    return first, heap


def pushed_numbers(x):
    heap = [(float(x[t]), t) for t in range(3)]
    heapq.heapify(heap)
    return heapq.heappop(heap), heapq.heapreplace(heap, (1.25, 7)), heapq.heappushpop(heap, (0.3, 8)), heap


def pushed_in_branches(x):
    heap, out = [], []
    for t in range(3):
        if x[t] > 0:
            heapq.heappush(heap, (x[t].item(), t))
    while heap:
        _, t = heapq.heappop(heap)
        out.append(t)
    return out


def pushed_objects(x):
    heap, out = [], []
    for t in range(3):
        if x[t] > 0:
            heapq.heappush(heap, Item(x[t], t))
    while heap:
        out.append(heapq.heappop(heap).v)
    return out


def pushed_ordered(x):
    heap = []
    for t in range(3):
        heapq.heappush(heap, Ordered(x[t], t))
    return [heapq.heappop(heap).v for _ in range(3)]


def shortest_paths(x):
    edges = {0: [(1, 0), (2, 1)], 1: [(2, 2)], 2: []}
    far = [0.0, float("inf"), float("inf")]
    heap = [(0.0, 0)]
    while heap:
        d, u = heapq.heappop(heap)
        if d > far[u]:
            continue
        for v, k in edges[u]:
            found = d + float(x[k].abs())
            if found < far[v]:
                far[v] = found
                heapq.heappush(heap, (found, v))
    return far


def events(x):
    heap, log, t, n = [(0.0, 0, "a"), (0.5, 1, "b")], [], 0.0, 2
    while heap and t < 4.0 and n < 8:
        t, _, name = heapq.heappop(heap)
        log.append(t)
        if name == "a":
            heapq.heappush(heap, (t + abs(float(x[0])) + 0.1, n, "b"))
        else:
            heapq.heappush(heap, (t + abs(float(x[1])) + 0.2, n, "a"))
        n += 1
    return log, n


def best_of_a_stream(x):
    heap = []
    for t in range(3):
        if len(heap) < 2:
            heapq.heappush(heap, (x[t], t))
        else:
            heapq.heappushpop(heap, (x[t], t))
    return sorted(heap, reverse=True)


def smallest_and_largest(x):
    pairs = [(x[0], 0), (x[1], 1), (x[2], 2)]
    rows = heapq.nsmallest(2, pairs, key=lambda pair: -pair[0])
    return (
        rows,
        heapq.nsmallest(2, list(x)),
        heapq.nlargest(2, x),
        [i.v for i in heapq.nlargest(2, [Item(*pair) for pair in pairs])],
    )


@pytest.mark.parametrize(
    "program",
    [
        pushed_pairs, pushed_numbers, pushed_in_branches, pushed_objects, pushed_ordered, shortest_paths, events, best_of_a_stream,
        smallest_and_largest,
    ],
)  # fmt: skip
def test_heaps_with_tensors_as_keys_give_eagers_order(program):
    agree(program, XS)


def tuples_in_order(x):
    a, b = (x[0], [x[1], 3]), (x[2], [x[0], 2])
    return a <= b, a > b, a < b, a >= b, min(a, b), max([b, a]), x if a < b else -x


def lists_of_any_length(x):
    a, b = [], []
    for t in range(3):
        if x[t] > 0:
            a.append(x[t].item())
        if x[t] < 2:
            b.append(x[t].item())
    return a < b, a <= b, [1.0] > a, min(a, b)


def ordered_objects(x):
    a, b = Ordered(x[0], 1), Ordered(x[1], 2)
    c, d = Total(x[0]), Total(x[1])
    return min(a, b).v, a < b, a >= b, c > d, c <= d, c >= d


def sorted_by_method(x):
    items = [Item(x[t], t) for t in range(3)]
    some = [Item(x[t], t) for t in range(3) if x[t] > 0]
    pairs = [(Item(x[t], t), 1) for t in range(3)]
    return [
        [item.v for item in sorted(items)],
        [item.v for item in sorted(items, reverse=True)],
        [item.v for item in sorted(some)],
        min(items).v,
        [item.v for item in sorted(items, key=lambda item: Ordered(-item.p))],
        len(pairs),
    ]


@pytest.mark.parametrize("program", [tuples_in_order, lists_of_any_length, ordered_objects, sorted_by_method])
def test_what_is_compared_item_by_item(program):
    agree(program, XS)


def test_merge_of_numbers_and_of_tensors():
    def merges(x):
        return list(heapq.merge([x[0], x[1]], [x[2]]))

    def merges_numbers(x):
        return [x * k for k in heapq.merge([1, 3], [2])]

    agree(merges_numbers, XS)
    agree(merges, XS)


def test_heap_functions_raise_pythons_error_for_other_sequences():
    def f(x):
        found = []
        for function in (heapq.heapify, heapq.heappop):
            try:
                function(collections.UserList([2, 1]) if x.sum() > 0 else [2, 1])
            except TypeError as error:
                found.append(str(error))
        return found

    agree(f, [(torch.ones(2),), (-torch.ones(2),)])
