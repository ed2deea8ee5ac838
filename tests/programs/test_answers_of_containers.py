"""Containers of the user's classes, whose methods answer for them: also where a tensor decides what is in them."""

from __future__ import annotations

import collections
import os
import typing

import pytest

import dy2st
from tests.oracle import agree
from tests.programs.state import agree_with_state
from tests.programs.values import signs


class Odd(dict):
    """Says something else than what is in it, nearly everywhere."""

    log: list = []

    def __len__(self):
        return super().__len__() + 5

    def __contains__(self, key):
        return key == "q"

    def __repr__(self):
        return f"Odd {len(self)}"

    def __iter__(self):
        return iter(["w"])

    def __getitem__(self, key):
        return f"item {key}"

    def __setitem__(self, key, value):
        self.log.append(key)
        super().__setitem__(key, value)

    def __delitem__(self, key):
        self.log.append(f"no {key}")
        super().__delitem__(key)

    def __eq__(self, other):
        return "eq"

    def get(self, key, default=None):
        return "got"

    def keys(self):
        return ["kk"]

    def items(self):
        return [("kk", super().__len__())]

    def values(self):
        return [4]

    def copy(self):
        return "copy"


def removed(d):
    if dict.__contains__(d, "z"):
        del d["z"]
    return dict.__len__(d)


def replaced(d):
    d["z"] = 5
    return dict.__getitem__(d, "z")


USES = {
    "len": len,
    "bool": lambda d: (bool(d), 1 if d else 2, not d),
    "in": lambda d: ("q" in d, "z" in d, dict.__contains__(d, "z")),
    "text": lambda d: (str(d), repr(d), f"{d}", f"{d!r:>9}", "%s" % d),
    "iterated": lambda d: (list(d), [k for k in d], [*d], sorted(d), tuple(d), max(d), any(d), list(zip(d, d)), next(iter(d))),
    "spread": lambda d: ({**d}, dict(d)),
    "items": lambda d: (d.items(), d.keys(), d.values(), d.get("z"), d["z"], d.copy()),
    "by the base": lambda d: (dict.get(d, "z", 3), len(dict.keys(d)), dict.__len__(d)),
    "compared": lambda d: (d == {}, {} == d),
    "removed": removed,
    "replaced": replaced,
}


@pytest.mark.parametrize("use", USES)
def test_a_dict_of_the_users_class_answers_by_its_own_methods(use):
    def make():
        Odd.log = []

        def f(x):
            d = Odd()
            if x.sum() > 0:
                d["z"] = 1
            return USES[use](d)

        return f, lambda: Odd.log, signs()

    agree_with_state(make)


def test_a_list_that_grows_asks_its_class_as_often_as_eager():
    counts: collections.Counter = collections.Counter()

    class Counted(list):
        def __len__(self):
            counts["len"] += 1
            return super().__len__()

        def __contains__(self, item):
            counts["in"] += 1
            return super().__contains__(item)

        def __eq__(self, other):
            counts["eq"] += 1
            return super().__eq__(other)

    def make():
        counts.clear()
        made = Counted([1, 2])

        def f(x):
            if x.sum() > 0:
                made.append(3)
            return x * len(made), 3 in made, made == [1, 2], bool(made)

        return f, lambda: (list(made), dict(sorted(counts.items()))), signs()

    agree_with_state(make)


class Asked:
    """Answers functions of Python's that are written in C."""

    def __init__(self):
        self.count = 1

    def _next(self):
        self.count += 1
        return self.count

    def __float__(self):
        return float(self._next())

    __int__ = __index__ = _next

    def __fspath__(self):
        return f"p{self._next()}"

    def __bytes__(self):
        return b"a" * self._next()

    def __dir__(self):
        return ["b", "a"][: self._next()]


@pytest.mark.parametrize("use", [float, int, os.fspath, bytes, dir, lambda asked: [1, 2, 3, 4, 5, 6][asked]])
def test_objects_that_functions_in_c_ask(use):
    def make():
        asked = Asked()

        def f(x):
            y = use(asked)
            return y, x * asked.count

        return f, lambda: asked.count, signs()[:3]

    agree_with_state(make)


class Counting:
    """Counts what is put in one by one: ``dict.update`` does not ask it, that of ``OrderedDict`` does."""

    puts = 0

    def __setitem__(self, key, value):
        self.puts += 1
        super().__setitem__(key, value)


class Plain(Counting, dict):
    pass


class Ordered(Counting, collections.OrderedDict):
    pass


@pytest.mark.parametrize("kind", [Plain, Ordered])
def test_update_calls_the_setitem_that_eager_calls(kind):
    def make():
        table = kind(a=1)

        def f(x):
            if x.sum() > 0:
                table.update(a=5)
            return dict(table), table.puts

        return f, lambda: (table.puts, sorted(table)), signs()

    agree_with_state(make)


class Pair(tuple):
    def __new__(cls, *items):
        return super().__new__(cls, items)


def test_tuples_that_a_class_makes_in_its_own_way():
    def f(x):
        pair = Pair(x, 1) if x.sum() > 0 else Pair(-x, 2)
        return pair[0], len(pair), pair, type(pair).__name__

    agree(f, signs())


class Some:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        if self.value > 0:
            return NotImplemented
        return "sum"


def test_an_operator_that_a_tensor_declines_is_refused():
    with pytest.raises(dy2st.CaptureError, match="gives NotImplemented"):
        dy2st.to_static(lambda x: Some(x.sum()) + 1)(signs()[0])


@typing.runtime_checkable
class Valued(typing.Protocol):
    value: typing.Any


def test_isinstance_of_a_protocol_follows_what_a_branch_sets_or_deletes():
    def make():
        box = Asked()

        def f(x):
            if x.sum() > 0:
                box.value = x
            elif hasattr(box, "value"):
                del box.value
            return isinstance(box, Valued), isinstance(box, (int, Valued))

        return f, lambda: sorted(vars(box)), signs()

    agree_with_state(make)


class Moved(collections.OrderedDict):
    """Has its keys in an order of its own."""


def test_the_order_of_a_class_of_ordered_dicts():
    def make():
        kept = Moved(a=1, b=2, c=3)
        kept.move_to_end("a")

        def f(x):
            made = Moved(a=1, b=2)
            made.move_to_end("a")
            if x.sum() > 0:
                kept["z"] = made["z"] = 1
            return list(kept), list(made.items()), dict(kept), list(reversed(made))

        return f, lambda: list(kept), signs()

    agree_with_state(make)
