"""Lists of lists that are empty at first, of which a tensor decides where something is put in."""

from __future__ import annotations

import collections

import pytest
import torch

from tests.oracle import agree

BUCKETS = [torch.tensor(v) for v in ([4, 3, 7], [1, 1, 1], [3, 13, 23], [0, 0, 9])]


def sorted_by_digits(t):
    items, place = t.tolist(), 1
    while place <= max(items):
        buckets = [[] for _ in range(10)]
        for v in items:
            buckets[(v // place) % 10].append(v)
        items = [v for bucket in buckets for v in bucket]
        place *= 10
    return items


def first_of_each(t):
    buckets = [[] for _ in range(10)]
    first = buckets[1]
    for v in t.tolist():
        buckets[v % 10].append(v)
    return [bucket[0] if bucket else None for bucket in buckets], first, first[0] if first else None, first is buckets[1]


def beside_other_things(t):
    rows = [(k, []) for k in range(10)]
    rows[int(t[0])][1].append(2)
    return [row[1][0] if row[1] else -1 for row in rows], rows


def two_deep(t):
    table = [[[] for _ in range(9)] for _ in range(9)]
    table[int(t[0])][int(t[1]) % 9].append(t[2])
    return sum(len(cell) for row in table for cell in row), [cell[0] for row in table for cell in row if cell]


def in_a_deque_too(t):
    buckets = [[] for _ in range(10)]
    queue = collections.deque(buckets)
    buckets[int(t[0])].append(t.float())
    total = torch.zeros(3)
    for bucket in queue:
        for item in bucket:
            total = total + item
    return total


def taken_out_again(t):
    buckets = [[] for _ in range(10)]
    for v in t.tolist():
        bucket = buckets[v % 10]
        if bucket and bucket[-1] == v:
            bucket.pop()
        else:
            bucket.append(v)
    return buckets, max(len(bucket) for bucket in buckets)


def all_ways_from_an_empty_list(t):
    stack, found = [[]], []
    while stack:
        way = stack.pop()
        if len(way) == 2 + int(t[0]) % 2:
            found.append(way)
            continue
        for k in range(3):
            if all(step != k for step in way) and not (way and way[-1] == k + 1):
                stack.append([*way, k])
    return found


def searched(t):
    buckets = [[] for _ in range(10)]
    for v in t.tolist():
        buckets[v % 10].append(v)
    count, place = buckets.count([]), buckets.index([])
    buckets.remove([])
    return count, place, [] in buckets, buckets


@pytest.mark.parametrize(
    "program",
    [
        searched,
        sorted_by_digits,
        first_of_each,
        beside_other_things,
        two_deep,
        in_a_deque_too,
        taken_out_again,
        all_ways_from_an_empty_list,
    ],
)
def test_lists_that_are_empty_at_first(program):
    agree(program, BUCKETS)
