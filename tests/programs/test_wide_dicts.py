"""Dicts that may have more sets of keys, in more orders, than are written out: counted by labels that tensors decide."""

from __future__ import annotations

import collections
import copy
import heapq

import pytest
import torch

import dy2st
from tests.oracle import agree

CALLS = [
    torch.tensor(values)
    for values in (
        [2.0, 0.5, -0.5, -2.0],
        [2.0, 2.0, 2.0, 2.0],
        [-0.5, -0.5, 0.5, 0.5],
        [-2.0, -2.0, 2.0, -0.5],
        [-1.5, -0.5, 0.5, 1.5],
    )
]


def label(v):
    if v > 1:
        return "big"
    if v > 0:
        return "pos"
    if v < -1:
        return "low"
    return "neg"


def counted(x):
    d = {}
    for i in range(4):
        d[label(x[i])] = d.get(label(x[i]), 0) + i + 1
    return d


def counter(x):
    c = collections.Counter(label(v) for v in x)
    return c, list(c), c.most_common(), c.most_common(1), c.most_common(2), sum(c.values())


def arithmetic_of_counters(x):
    c, other = collections.Counter(label(v) for v in x), collections.Counter({"pos": 1})
    return c + other, c - other, c & other, c | other, +c


def grouped(x):
    groups = collections.defaultdict(list)
    for i in range(4):
        groups[label(x[i])].append(x[i])
    return {key: torch.stack(items).sum() for key, items in groups.items()}, dict(groups)


def optional(x):
    d = {}
    for i, key in enumerate("abcd"):
        if x[i] > 0:
            d[key] = x[i]
    total = torch.zeros(())
    for i, (key, value) in enumerate(d.items()):
        total = total + value * (i + 1)
        if key == "c":
            total = total * 2
    return total, len(d), d, sum(d.values()), list(d.keys()), {key: value * 2 for key, value in d.items()}


def chosen(x):
    d = counted(x)
    first = next(iter(d))
    return first, d[first], max(d, key=d.get), max(d.values()), sorted(d.items()), sorted(d, key=d.get), min(d, key=lambda k: d[k])


def displays(x):
    d = counted(x)
    first, *others = d
    return {**d, "z": 1, "big": 0}, dict(d), [*d], (*d.values(),), list(reversed(d)), first, others, dict(sorted(d.items()))


def compared(x):
    d, other = counted(x), counted(-x)
    return d == other, d == dict(d), sorted(d.keys() & other.keys()), len(set(d) | set(other)), d.keys() == other.keys()


def asked(x):
    d = counted(x)
    views = d.keys(), d.items()
    d["extra"] = 100
    kinds = [type(view).__name__ for view in views]
    return (
        kinds,
        len(views[0]),
        "extra" in views[0],
        ("big", 1) in views[1],
        3 in d.values(),
        any(v > 3 for v in d.values()),
        views[0],
    )


def updated(x):
    d = counted(x)
    d.update(counted(-x))
    copy = d.copy()
    copy["new"] = 5
    return d, list(d.items()), list(copy)


def taken_out(x):
    d = counted(x)
    for key in list(d):
        if d[key] > 3:
            del d[key]
    d.pop("big", None)
    d["big"] = 7
    last = d.popitem()
    return d, list(d), last


def least_recent(x):
    recent = collections.OrderedDict()
    for i in range(4):
        key = label(x[i])
        if key in recent:
            recent.move_to_end(key)
        recent[key] = i
        if len(recent) > 2:
            recent.popitem(last=False)
    return list(recent), recent


def changed_while_read(x):
    d = counted(x)
    for key in d:
        d[key] += 1
    try:
        for key in d:
            d[key + "!"] = 1
    except RuntimeError as error:
        return str(error), d
    return d


def left_early(x):
    d = counted(x)
    for i, key in enumerate(d):
        if key == "pos":
            break
    else:
        return "none", d
    return i, key


def in_a_loop(x):
    d = {}
    for i in torch.nonzero(x > 0)[:, 0].tolist():
        key = label(x[i])
        d[key] = d.get(key, 0) + x[i]
    return list(d.items()), d


def of_pairs(x):
    pairs = []
    for i in range(4):
        if x[i] > 0:
            pairs.append(("a" if i % 2 else "b", x[i]))
    keys = [key for key, _ in pairs]
    return dict(pairs), len(set(keys)), collections.Counter(keys), dict.fromkeys(keys, 0), {i % 3 for i in range(len(keys))}


def other_kinds(x):
    d = counted(x)
    more = collections.defaultdict(int, d)
    more["new"] += 1
    total = collections.Counter({"z": 1})
    total.update(d)
    return collections.Counter(d), list(collections.Counter(d)), more, list(total), copy.deepcopy(d), copy.copy(d)


def of_two_orders(x):
    d = {}
    if x[0] > 0:
        d["a"] = 1
        d["b"] = 2
    else:
        d["b"] = 3
        d["a"] = 4
    return list(collections.Counter(d)), list(copy.deepcopy(d))


def emptied(x):
    d, taken = counted(x), []
    moved = collections.OrderedDict()
    while d:
        key, value = d.popitem()
        taken.append((key, value))
        moved[key] = value
        moved.move_to_end(key, last=len(taken) % 2 == 0)
    return taken, d, list(moved)


def handled(x):
    d = {}
    try:
        for i in range(4):
            d[label(x[i])] = i
            if x[i] < -1:
                raise ValueError(label(x[i]))
    except ValueError as error:
        return str(error), list(d), d
    return "ok", list(d), d


def put_in_again(x):
    d, recent = {}, {}
    for i in torch.nonzero(x > -3)[:, 0].tolist():
        d.pop(label(x[i]), None)
        d[label(x[i])] = i
        if label(x[i]) in recent:
            del recent[label(x[i])]
        recent[label(x[i])] = i
        if len(recent) > 2:
            recent.popitem()
    return list(d), d, recent


def largest(x):
    return heapq.nlargest(1, [(float(v), i) for i, v in enumerate(x)]), heapq.nsmallest(1, [float(v) for v in x])


@pytest.mark.parametrize(
    "function",
    [counter, arithmetic_of_counters, grouped, optional, chosen, displays, compared, asked, updated, taken_out, least_recent,
     changed_while_read, left_early, in_a_loop, of_pairs, other_kinds, of_two_orders, emptied, handled, put_in_again, largest],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_what_is_asked_of_keys_that_tensors_decide(function):
    agree(function, [(x,) for x in CALLS])


class Tally:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}


def add(tally, x):
    for v in x:
        tally.counts[label(v)] = tally.counts.get(label(v), 0) + 1
    return max(tally.counts, key=tally.counts.get), list(tally.counts)


def test_the_order_of_a_dict_from_outside():
    static = dy2st.to_static(add)
    for x in CALLS:  # one program counts into an empty dict
        eager, found = Tally(), Tally()
        assert add(eager, x) == static(found, x)
        assert list(eager.counts.items()) == list(found.counts.items())
    assert len(static.program_cache) == 1
    for x in CALLS[:2]:
        assert add(eager, -x) == static(found, -x)
        assert list(eager.counts.items()) == list(found.counts.items())


@pytest.mark.slow
def test_a_saved_function_gives_keys_in_order(tmp_path):
    static = dy2st.to_static(counter)
    static(CALLS[0])
    dy2st.save(static, str(tmp_path / "counter"))
    loaded = dy2st.load(str(tmp_path / "counter"))
    for x in CALLS:
        expected, found = counter(x), loaded(x)
        assert found == expected
        assert list(found[0].items()) == list(expected[0].items())


def test_a_view_is_no_iterator():
    def function(x):
        return next(counted(x).keys())

    agree(function, [(x,) for x in CALLS[:2]])
