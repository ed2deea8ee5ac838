"""Iterators that are kept in a variable, and of which a tensor decides how many items have been taken."""

from __future__ import annotations

import collections
import copy
import heapq
import itertools
import math
import operator

import numpy as np
import pytest
import torch

import dy2st
from tests.oracle import agree

XS = [
    torch.tensor(v) for v in ([3, 1, 2, 5, 4, 0], [2, 0, 0, 0, 0, 0], [0, 7, 7, -3, 2, 9], [1, 2, 3, 4, 5, 6], [9, 2, 3, 4, 5, 6])
]


def a_range_first(t):
    it = iter(t.tolist())
    return list(zip(range(abs(int(t[0]))), it)), list(it)


def a_range_last(t):
    it = iter(t.tolist())
    return list(zip(it, range(abs(int(t[0]))))), list(it)


def in_a_statement(t):
    it, out = iter(t.tolist()), []
    for e, i in zip(it, range(abs(int(t[0])))):
        out.append(e * i)
    return out, list(it)


def beside_a_list_of_any_length(t):
    xs = [v for v in t.tolist() if v > 1]
    it = enumerate(t.tolist())
    return list(zip(xs, it)), list(it)


def a_sum(t):
    it = iter(t)
    return sum(a * b for a, b in zip(range(abs(int(t[0]))), it)), list(it)


def mapped(t):
    seen = []

    def looked_at(v):
        seen.append(v)
        return v + 1

    it = map(looked_at, t.tolist())
    taken = [e for _, e in zip(range(abs(int(t[0]))), it)]
    return taken, list(seen), next(it, "end"), seen


def generated(t):
    it = (v * 2 for v in t.tolist())
    return [e for _, e in zip(range(abs(int(t[0]))), it)], list(it)


def generated_with_a_condition(t):
    it = (v for v in t.tolist() if v > 1)
    first, second = next(it, None), -1
    if t[0] > 2:
        second = next(it, None)
    return first, second, list(it)


def found_in_a_generator(t):
    it = iter(t.tolist())
    return next((e for e in it if e > 3), None), list(it)


def sliced(t):
    it = iter(t.tolist())
    return list(itertools.islice(it, abs(int(t[0])))), list(itertools.islice(it, 2)), list(it)


def sliced_and_left(t):
    it, taken = iter(t.tolist()), []
    for v in itertools.islice(it, abs(int(t[0]))):
        taken.append(v)
        if v > 2:
            break
    return taken, list(it)


def among(t):
    it = iter(t.tolist())
    return 2 in it, list(it)


def decided_by_any(t):
    it = iter(t.tolist())
    return any(e > 3 for e in it), list(it)


def left_and_gone_on(t):
    it, out = iter(t.tolist()), []
    for v in it:
        if v > 2:
            for w in it:
                if w < 2:
                    break
                out.append(w)
        else:
            out.append(-v)
    return out


def next_in_a_while_loop(t):
    it, total = iter(t.tolist()), 0
    while total < 5:
        v = next(it, None)
        if v is None:
            break
        total += abs(v)
    return total, list(it)


def too_many(t):
    it = iter(t.tolist())
    try:
        taken = [next(it) for _ in range(abs(int(t[0])))]
    except StopIteration:
        taken = []
    return taken, list(it)


def beneath_another(t):
    it = iter(t.tolist())
    counted, first = enumerate(it), None
    if t[0] > 2:
        first = next(counted)
    return first, list(it), list(counted)


def in_an_object(t):
    class Reader:
        def __init__(self, values):
            self.values = iter(values)

        def read(self):
            return next(self.values, -1)

    reader = Reader(t.tolist())
    first, second = reader.read(), 0
    if first > 2:
        second = reader.read()
    return first, second, reader.read()


def ended_before_the_list_grew(t):
    items = t.tolist()
    it = iter(items)
    taken = list(zip(range(abs(int(t[0]))), it))
    items.append(77)
    return taken, list(it), list(it)


def of_letters(t):
    it = iter("abcdef")
    return [c for _, c in zip(range(abs(int(t[0]))), it)], "".join(it)


def of_keys(t):
    table = {1: "a", 2: "b", 3: "c"}
    it = iter(table)
    taken = [k for _, k in zip(range(abs(int(t[0]))), it)]
    return taken, list(it)


def of_a_deque(t):
    it = iter(collections.deque([4, 5, 6]))
    return [v for _, v in zip(range(abs(int(t[0]))), it)], list(it)


def backwards(t):
    it, total = reversed(t.tolist()), 0
    for v in it:
        if v > t[0]:
            break
        total += v
    return total, max(it, default=None)


def made_in_a_branch(t):
    n, items = abs(int(t[0])), t.tolist()
    if n >= len(items):
        return 7, []
    it = iter(items)
    return [x for _, x in zip(range(n), it)], list(it)


def smallest_of_any_number(t):
    return heapq.nsmallest(abs(int(t[0])), t.tolist()), heapq.nlargest(abs(int(t[0])), t.tolist())


@pytest.mark.parametrize(
    "program",
    [
        a_range_first, a_range_last, in_a_statement, beside_a_list_of_any_length, a_sum, mapped, generated, generated_with_a_condition,
        found_in_a_generator, sliced, sliced_and_left, among, decided_by_any, left_and_gone_on, next_in_a_while_loop, too_many,
        beneath_another, in_an_object, ended_before_the_list_grew, of_letters, of_keys, of_a_deque, backwards, made_in_a_branch,
        smallest_of_any_number,
    ],
)  # fmt: skip
def test_the_items_that_are_left(program):
    agree(program, XS)


def test_a_list_that_changes_while_zip_goes_through_it():
    def forward(t):
        items, out = t.tolist(), []
        for k, v in zip(range(abs(int(t[0]))), items):
            if k + 1 < len(items):
                items[k + 1] += v
            out.append(v)
        return out, items

    def longer(t):
        items, out = [1, 2], []
        for _, v in zip(range(abs(int(t[0]))), items):
            if v < 5:
                items.append(v + 2)
            out.append(v)
        return out, items

    agree(forward, XS)
    agree(longer, XS)


def test_the_steps_of_a_generator_that_acts_are_not_taken_at_once():
    def prints(t):
        def numbers():
            for v in t.tolist():
                print(v)
                yield v

        return [v for _, v in zip(range(int(t[0])), numbers())]

    with pytest.raises(dy2st.CaptureError, match="how many items are taken of a generator that raises, prints"):
        dy2st.to_static(prints)(XS[0])


def test_what_is_gone_through_must_not_change_before_all_is_taken():
    def changes(t):
        table = {1: "a", 2: "b", 3: "c"}
        it = iter(table.items())
        taken = [k for _, k in zip(range(int(t[0])), it)]
        table[2] = "d"
        return taken, list(it)

    with pytest.raises(dy2st.CaptureError, match="what an iterator goes over has changed"):
        dy2st.to_static(changes)(XS[1])


def left_at_three(t):
    it = iter(t.tolist())
    for x in it:
        if x >= 3:
            break
    return it


class Holder:
    """Its ``__iter__`` gives an iterator that it keeps."""

    def __init__(self, it):
        self.it = it

    def __iter__(self):
        return self.it


def of_a_loop_around(t):
    it, taken = iter(t.tolist()), []
    for x in it:
        for y in it:
            if y == 0:
                break
        taken.append(x)
    return taken


def searched_in_a_loop_over_it(t):
    it = iter(t.tolist())
    return [(x, 0 in it) for x in it]


def taken_at_once(t):
    return list(itertools.product(left_at_three(t), [0, 1])), list(itertools.combinations(left_at_three(t), 2))


def too_many_to_unpack(t):
    it = left_at_three(t)
    try:
        a, b = it
    except ValueError as error:
        return str(error), list(it)
    return a, b


def in_pairs(t):
    it = left_at_three(t)
    return list(enumerate(zip(it, it)))


def held(t):
    holder, taken = Holder(iter(t.tolist())), []
    for v in holder:
        if v >= 3:
            break
    for v in holder:
        taken.append(v)
    return taken


@pytest.mark.parametrize(
    "program", [of_a_loop_around, searched_in_a_loop_over_it, taken_at_once, too_many_to_unpack, in_pairs, held]
)
def test_what_others_take_of_it(program):
    agree(program, XS)


@pytest.mark.parametrize(
    "use",
    [
        sum, lambda it: list(Holder(it)), lambda it: collections.deque(it), set, lambda it: " ".join(map(str, it)),
        lambda it: dict(zip(it, it)), sorted, max,
    ],
)  # fmt: skip
def test_what_others_are_given_is_what_is_left(use):
    agree(lambda t: use(left_at_three(t)), XS)


@pytest.mark.parametrize(
    "use",
    [
        math.prod, lambda it: list(itertools.chain(it, [9])), lambda it: list(itertools.chain.from_iterable([it, [9]])),
        lambda it: np.fromiter(it, int), lambda it: list(copy.copy(it)), operator.length_hint, lambda it: operator.countOf(it, 2),
        lambda it: sum(Holder(it)), lambda it: next(iter(Holder(it)), "none"),
    ],
)  # fmt: skip
def test_nobody_finds_it_empty(use):
    """Functions that know nothing of iterators of the program are refused it."""
    with pytest.raises(dy2st.CaptureError, match="known only at run time|a tensor decides how"):
        dy2st.to_static(lambda t: use(left_at_three(t)))(XS[0])


def longest(t):
    taken = []
    for a, b in itertools.zip_longest(t.tolist(), [1]):
        if a > 4:
            break
        taken.append((a, b))
    return taken


def counted_and_left(t):
    it = iter(t.tolist())
    for k, x in enumerate(it):
        if x >= 3:
            break
    return k, list(it)


def counted_in_a_counted_loop(t):
    it, taken = iter(t.tolist()), []
    for _, x in enumerate(it):
        for _, y in enumerate(it):
            if y == 0:
                break
        taken.append(x)
    return taken


def first_four(t):
    it = iter(t.tolist())
    for v in itertools.islice(it, 4):
        if v > 2:
            break
    return list(it)


def characters_unpacked(t):
    text = str(abs(int(t[0])) + 10)
    a, b = text
    c, *d = text + "!"
    return a, b, c, d


def a_list_that_reads_itself(t):
    items, more = t.tolist(), []
    items.extend(len(items) for v in t.tolist() if v > 2)
    items += (items[-1] + v for v in t.tolist() if v > 1)
    try:
        more.extend(12 // v for v in t.tolist())
    except ZeroDivisionError:
        more.append("zero")
    return items, more


@pytest.mark.parametrize(
    "program", [longest, counted_and_left, counted_in_a_counted_loop, first_four, characters_unpacked, a_list_that_reads_itself]
)
def test_steps_taken_one_by_one(program):
    agree(program, XS)


def through(it):
    for v in it:
        yield v


def left_by_a_loop_over(wrapped):
    def forward(t):
        it = iter(t.tolist())
        for v in wrapped(it):
            if v > 2:
                break
        return list(it)

    return forward


def test_what_a_loop_over_something_around_it_leaves():
    agree(left_by_a_loop_over(lambda it: filter(None, it)), XS[:4])


@pytest.mark.parametrize(
    "wrapped",
    [
        through, itertools.accumulate, lambda it: itertools.chain(it, [9]), lambda it: (abs(b) for _, b in zip("abcdef", map(abs, it))),
        lambda it: map(max, zip(map(abs, it), it)), lambda it: itertools.starmap(max, zip(it, it)), lambda it: itertools.tee(it)[0],
        lambda it: (b for _, b in enumerate(map(abs, it))), lambda it: itertools.takewhile(bool, it),
    ],
)  # fmt: skip
def test_what_a_loop_over_something_around_it_leaves_is_not_guessed(wrapped):
    with pytest.raises(dy2st.CaptureError, match="known only at run time|that a tensor decides|a tensor decides how many"):
        dy2st.to_static(left_by_a_loop_over(wrapped))(XS[0])
