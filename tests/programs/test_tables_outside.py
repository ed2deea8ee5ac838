"""Dicts of all kinds that were there before the call: taken from, filled and replaced where tensors decide, and read again."""

from __future__ import annotations

import collections
import collections.abc
import itertools
import types

import pytest
import torch

import dy2st
from tests.worlds import World, agree

BOTH = list(itertools.product((True, False), repeat=2))


def x():
    return torch.tensor([1.0, 2.0])


def run(function, state, *, programs=None, ways=(*BOTH, *BOTH)):
    """Compare a function of two tests and some state, in all ways, with what each call leaves for the next one."""

    def world():
        space = state()

        def program(a, b):
            return function(space, x(), a, b)

        roots = [*vars(space).values()]
        steps = [lambda call, way=way: call(torch.tensor(way[0]), torch.tensor(way[1])) for way in ways]
        return World(program, [space, *roots], steps)

    agree(world, programs=programs)


def tables():
    held = {"a": torch.ones(2)}
    return types.SimpleNamespace(
        t=held,
        same=[held],
        od=collections.OrderedDict(a=torch.ones(2), b=torch.zeros(2)),
        made=[],
        cnt=collections.Counter(a=2, b=1),
    )


def cleared(s, x, a, b):
    if a:
        s.t.setdefault("b", x)
    if b:
        s.t.clear()
    return len(s.t), list(s.t)


def cleared_and_filled(s, x, a, b):
    if a:
        s.t["c"] = x
        s.od.clear()
    if b:
        s.t.clear()
        s.t["b"] = x
        s.t["a"] = x + 1
        s.od["b"] = s.od.pop("b", x) + 1
    return list(s.t), list(s.od)


def default_put_in(s, x, a, b):
    if a:
        s.t["b"] = x + 1
    y = s.t.setdefault("b", x)
    if b:
        del s.t["b"]
    return y, s.t.setdefault("c", y), list(s.t)


def items_popped(s, x, a, b):
    if a:
        s.t["b"] = x
        s.od["c"] = x
    taken = s.t.popitem()
    if b and s.od:
        first = s.od.popitem(last=False)
        return taken, first, list(s.od)
    s.t["a"] = x
    return taken, list(s.t)


def ordered_in_branches(s, x, a, b):
    if a:
        s.od.update(c=x, a=x)
    elif b:
        s.od["a"] = s.od.pop("a") + 1
    else:
        s.od = collections.OrderedDict(s.od)
    return list(s.od), s.od


def one_of_two(s, x, a, b):
    table = s.t if a else s.od
    items = s.made if b else [1.0, 2.0]
    rest = []
    rest.extend(items)
    filled = {"z": x}
    filled.update(table)
    return dict(table), {**table, "z": x}, filled, collections.deque(items, 1), len(set(items)), collections.Counter(items), rest


def replaced_in_a_loop(s, x, a, b):
    for _ in range(a + 2 * b):
        s.t = {**s.t, "a": s.t["a"] + 1}
    return dict(s.t), s.t


def arithmetic(s, x, a, b):
    key = "a" if a else "b"
    s.cnt[key] += 1
    other = collections.Counter(b=2)
    s.sums = [s.cnt + other, s.cnt - other, s.cnt | other, s.cnt & other, +s.cnt]
    if b:
        s.cnt -= other
    kept = s.cnt.copy()
    kept["z"] += 1
    return s.cnt, kept, s.cnt == other, s.cnt <= other


def counted_in_a_loop(s, x, a, b):
    made = collections.Counter()
    for _ in range(a + b):
        made["k"] += 1
        s.cnt["b"] += 1
    return made, made + s.cnt


@pytest.mark.parametrize(
    "function",
    [
        cleared, cleared_and_filled, default_put_in, items_popped, ordered_in_branches, one_of_two, replaced_in_a_loop, pytest.param(arithmetic, marks=pytest.mark.slow),
        counted_in_a_loop,
    ],
)  # fmt: skip
def test_tables_from_outside_are_left_as_eager_leaves_them(function):
    run(function, tables)


def makers():
    space = tables()

    def factory():
        space.made.append(len(space.made))
        return [len(space.made)]

    space.default = collections.defaultdict(factory)
    return space


def made_under_a_chosen_key(s, x, a, b):
    key = "a" if a else "b"
    s.default[key].append(1)
    return list(s.default), len(s.default[key])


def made_on_some_ways(s, x, a, b):
    if a:
        s.default["q"].append(x)
    y = s.default["r"]
    if b:
        s.default["q"].append(x + 1)
    return list(s.default), len(y)


@pytest.mark.parametrize("function", [made_under_a_chosen_key, made_on_some_ways])
def test_factories_run_where_an_item_is_missing(function):
    run(function, makers)


class Mapping(collections.abc.MutableMapping):
    def __init__(self):
        self.held = {"a": torch.ones(2)}

    def __getitem__(self, key):
        return self.held[key]

    def __setitem__(self, key, value):
        self.held[key] = value * 2

    def __delitem__(self, key):
        del self.held[key]

    def __iter__(self):
        return iter(self.held)

    def __len__(self):
        return len(self.held)


def written_in_python():
    return types.SimpleNamespace(
        items=collections.UserList([torch.ones(2)]),
        table=collections.UserDict(a=torch.ones(2)),
        chain=collections.ChainMap({"a": torch.ones(2)}, {"b": torch.zeros(2)}),
        mapping=Mapping(),
    )


def user_list(s, x, a, b):
    if a:
        s.items.append(x)
    if b and len(s.items) > 1:
        s.items.pop()
    return s.items[-1], len(s.items)


def user_dict(s, x, a, b):
    if a:
        s.table["b"] = x
    if b:
        s.table["a"] = s.table["a"] + 1
    return "b" in s.table, len(s.table), s.table["a"]


def chain(s, x, a, b):
    s.chain["c"] = x
    if a:
        s.chain["a"] = s.chain["b"] + x
    return s.chain["a"], len(s.chain)


def mapping(s, x, a, b):
    s.mapping.update(c=x)
    y = s.mapping.setdefault("d", x)
    if a:
        s.mapping["a"] = s.mapping.get("a") + y
    return sorted(s.mapping), s.mapping.pop("c")


@pytest.mark.parametrize("function", [user_list, user_dict, chain, mapping])
def test_classes_that_are_written_in_python(function):
    run(function, written_in_python)


def test_a_set_that_stays_as_it_is_needs_one_program():
    names = {"p"}

    @dy2st.to_static
    def f(a):
        if a:
            names.clear()
        return len(names)

    for _ in range(3):
        assert f(torch.tensor(False)) == 1
    assert len(f.program_cache) == 1 and names == {"p"}
    assert f(torch.tensor(True)) == 0 and names == set()


def taken_out_under_a_chosen_key(s, x, a, b):
    key = "a" if a else "b"
    if key in s.od:
        del s.od[key]
    if b:
        s.t["a"] = s.t.pop("a") + 1
    else:
        s.t = dict(s.t, c=x)
    return list(s.od), list(s.t), s.od


def test_the_order_of_what_is_left():
    run(taken_out_under_a_chosen_key, tables)


def counted_with_names(s, x, a, b):
    if a:
        s.cnt["z"] += 7
    elif b:
        s.cnt["a"] -= 1
    s.cnt.subtract(a=1)
    s.cnt.update(z=2, b=1)
    return dict(s.cnt), dict.fromkeys(s.cnt, 0)


def test_a_counter_takes_counts_given_as_keywords():
    run(counted_with_names, tables)


class Slot:
    def __init__(self, value=None):
        self.value, self.names, self.under = value, set(), {}


class Pair:
    __slots__ = ("inner", "names")

    def __init__(self):
        self.inner, self.names = Slot(), set()


def kept_in_objects(kind):
    def world():
        queue, log = collections.deque([kind()], maxlen=3), []

        def program(x, n):
            n = n.item()
            if x.sum() > 0:
                queue.appendleft(kind())
            pairs = []
            for i in range(n):
                slot = Slot(x)
                slot.names.add(i)
                slot.under[n] = i
                log.append(slot)
                pair = Pair()
                pair.inner.names.add(n + i)
                pairs.append([pair, {"inner": pair.inner}])
            return pairs

        steps = ((0, 0), (1, 2), (1, 0), (-1, 1), (1, 3), (1, 0))
        return World(program, [queue, log], [lambda f, k=k, n=n: f(x() * k, torch.tensor(n)) for k, n in steps])

    return world


@pytest.mark.parametrize("kind", [Slot, Pair])
def test_sets_and_dicts_are_those_of_python_in_objects_in_lists(kind):
    agree(kept_in_objects(kind))
