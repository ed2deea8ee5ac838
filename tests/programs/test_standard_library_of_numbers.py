"""Functions of the standard library on numbers and texts that only the program knows."""

from __future__ import annotations

import collections
import heapq
import itertools
import math
import random
import statistics

import numpy as np
import pytest
import torch

import dy2st
from tests.oracle import agree

XS = [
    torch.tensor(v) for v in ([3, 1, 2, 5, 4, 0], [0, 0, 0, 0, 0, 0], [5, 4, 3, 2, 1, 0], [-3, 7, 7, -3, 2, 9], [1, 2, 3, 4, 5, 6])
]


def floats(t):
    return [float(v) for v in t.tolist()]


def some(t):
    return [float(v) for v in t.tolist() if v > 0]


def of_one_number(t):
    x = abs(float(t[0])) / 10 + 0.1
    return (
        math.fabs(-x), math.ldexp(x, 2), math.ulp(x), math.nextafter(x, 9), math.frexp(x), math.modf(-x), math.log(x, 3),
        math.log(x, int(t[1]) ** 2 + 2),
    )  # fmt: skip


def of_several_numbers(t):
    a, b = float(t[0]), float(t[1])
    return (
        math.isclose(a, b), math.isclose(a, 2.99, rel_tol=1e-2), math.isclose(int(t[1]), int(t[2]), abs_tol=1),
        math.hypot(a, b, 2), math.dist([a, 1.0], [0.0, b]), math.fsum([a, b, 0.1]), math.fsum(some(t)), math.prod(some(t)),
    )  # fmt: skip


def in_order(t):
    items = t.tolist()
    return statistics.median(items), statistics.median_low(items), statistics.median_high(items), statistics.quantiles(floats(t))


def most_common(t):
    return statistics.mode(t.tolist()), statistics.multimode(t.tolist())


def of_a_known_number(t):
    xs = floats(t)
    positive = [abs(x) + 1 for x in xs]
    return (
        statistics.mean(xs), statistics.fmean(t.tolist()), statistics.stdev(xs), statistics.pstdev(t.tolist()),
        statistics.variance(xs), statistics.pvariance(xs), statistics.geometric_mean(positive), statistics.harmonic_mean(positive),
    )  # fmt: skip


def of_any_number(t):
    xs = some(t)
    return statistics.stdev(xs) if len(xs) > 1 else 0.0, statistics.mean(xs) if xs else None


def of_a_deque(t):
    return statistics.mean(collections.deque(floats(t), maxlen=4))


def too_few(t):
    try:
        return statistics.mean(some(t))
    except statistics.StatisticsError as error:
        return str(error)


def merged(t):
    small, large = [v for v in t.tolist() if v <= 1], [v for v in t.tolist() if v > 1]
    return (
        list(heapq.merge(sorted(small), sorted(large))), list(heapq.merge(small, large, key=lambda v: -v)),
        list(heapq.merge(sorted(small, reverse=True), [2], reverse=True)), list(heapq.merge(sorted(t.tolist()), [1, 2, 8])),
    )  # fmt: skip


def grouped(t):
    parity = [(k, len(list(g))) for k, g in itertools.groupby(sorted(t.tolist()), key=lambda v: v % 3)]
    return parity, [(k, list(g)) for k, g in itertools.groupby(t.tolist())], [k for k, _ in itertools.groupby(t)]


def letters(t):
    text = "".join(chr(97 + abs(v)) for v in t.tolist())
    counts = {}
    for c in text:
        counts[c] = counts.get(c, 0) + 1
    return (
        text[0], text[-1], list(text), sorted(text), "".join(reversed(text)), counts, len(set(text)), [ord(c) - 97 for c in text],
        "".join(chr((ord(c) - 96) % 26 + 97) for c in text),
    )  # fmt: skip


def digits(t):
    text = str(abs(int(t[0])) * 13)
    return (
        sum(int(c) for c in text),
        int(text[::-1]),
        float(text) / 2,
        int(text, 16),
        int("".join(str(v & 1) for v in t.tolist()), 2),
    )


def no_such_letter(t):
    try:
        return str(int(t[0]))[1]
    except IndexError as error:
        return str(error)


def put_into_a_slice(t):
    items, k = t.tolist(), abs(int(t[1])) % 6
    items[k:] = reversed(items[k:])
    items[:2] = (v + 1 for v in items[:3])
    items[1:1] = range(abs(int(t[0])) % 3)
    items[:0] = map(abs, items[:2])
    return items


def seeded(t):
    random.seed(int(t[0]))
    np.random.seed(abs(int(t[1])))
    first, of_numpy = random.random(), np.random.rand()
    if t[0] > 2:
        random.seed("three")
    items = t.tolist()
    random.shuffle(items)
    return first, of_numpy, items, random.randint(0, 99)


@pytest.mark.parametrize(
    "program",
    [
        of_one_number, of_several_numbers, in_order, most_common, of_a_known_number, of_any_number, of_a_deque, too_few, merged,
        grouped, letters, digits, no_such_letter, put_into_a_slice, seeded,
    ],
)  # fmt: skip
def test_the_standard_library(program):
    agree(program, XS)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (lambda t: statistics.mean(t.tolist()), "whole numbers that are known only at run time is a whole number or a float"),
        (lambda t: statistics.mean(floats(t), 2), "with more than these"),
        (lambda t: list(heapq.merge(iter(t.tolist()), [2])), "of iterators whose order is known only at run time"),
        (lambda t: random.seed(), "seed.. without a number or text"),
    ],
)
def test_what_is_refused(program, says):
    with pytest.raises(dy2st.CaptureError, match=says):
        dy2st.to_static(program)(XS[0])


def test_a_text_that_is_no_number_in_a_try_statement_is_refused():
    def parses(t):
        try:
            return int(f"{int(t[0])}x")
        except ValueError:
            return -1

    with pytest.raises(dy2st.CaptureError, match="int.. of a string may fail when the program runs"):
        dy2st.to_static(parses)(XS[0])
