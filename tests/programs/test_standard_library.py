"""Classes and functions of the standard library, written in Python, that hold and change the user's objects."""

from __future__ import annotations

import argparse
import bisect
import collections
import collections.abc
import copy
import heapq
import operator
import types

import pytest
import torch

import dy2st
from tests.oracle import agree
from tests.programs.state import agree_with_state

T = torch.tensor
CALLS = [T(1.0), T(-1.0), T(2.0), T(-2.0), T(1.0)]


class Table(collections.abc.MutableMapping):
    def __init__(self, **items):
        self.items_by_key = dict(items)

    def __getitem__(self, key):
        return self.items_by_key[key]

    def __setitem__(self, key, value):
        self.items_by_key[key] = value

    def __delitem__(self, key):
        del self.items_by_key[key]

    def __iter__(self):
        return iter(self.items_by_key)

    def __len__(self):
        return len(self.items_by_key)


class Row(collections.abc.MutableSequence):
    def __init__(self, *items):
        self.kept = list(items)

    def __getitem__(self, position):
        return self.kept[position]

    def __setitem__(self, position, value):
        self.kept[position] = value

    def __delitem__(self, position):
        del self.kept[position]

    def __len__(self):
        return len(self.kept)

    def insert(self, position, value):
        self.kept.insert(position, value)


class Members(collections.abc.MutableSet):
    def __init__(self, items=()):
        self.kept = dict.fromkeys(items)

    def __contains__(self, item):
        return item in self.kept

    def __iter__(self):
        return iter(self.kept)

    def __len__(self):
        return len(self.kept)

    def add(self, item):
        self.kept[item] = None

    def discard(self, item):
        self.kept.pop(item, None)


class World:
    def __init__(self):
        self.table = {"a": T(1.0)}
        self.chain = collections.ChainMap({"b": T(2.0)}, self.table)
        self.dict = collections.UserDict(a=T(1.0), n=3)
        self.list = collections.UserList([T(1.0), T(4.0)])
        self.mapping = Table(a=T(5.0))
        self.row = Row(T(6.0))
        self.members = Members(["p", "q"])
        self.numbers = [1, 4, 6]
        self.tensors = [T(1.0)]
        self.options = argparse.Namespace(a=T(1.0))


def chain_written(w, x):
    collections.ChainMap(w.table)["c"] = x
    w.chain["a"] = x
    return w.table["c"] is x, w.chain["a"], len(w.chain), list(w.chain), w.chain.get("none", x)


def chain_in_branches(w, x):
    if x > 0:
        w.chain["c"] = x
        w.chain.update(b=x * 2)
    else:
        w.chain.setdefault("b", x)
    return w.chain.get("c"), "c" in w.chain, w.chain["b"], len(w.chain)


def chain_shadows(w, x):
    if x > 0:
        w.chain["a"] = x * 3
    return w.chain["a"], w.table["a"], w.chain.parents["a"]


def chain_loses(w, x):
    if x < 0 and "b" in w.chain.maps[0]:
        del w.chain["b"]
    return w.chain.get("b", 0), w.chain.pop("b", None)


def chain_made_here(w, x):
    child = w.chain.new_child()
    if x > 0:
        child["a"] = x
    return child["a"] + x, w.chain["a"]


def dict_written(w, x):
    w.dict["c"] = x
    w.dict.update(a=x)
    w.dict.setdefault("q", x * 3)
    return w.dict.pop("c") is x, len(w.dict), "q" in w.dict, list(w.dict.items()), w.dict | {"z": 1}


def dict_in_branches(w, x):
    if x > 0:
        w.dict["c"] = x
        w.dict["n"] += 1
    else:
        w.dict.pop("c", None)
        w.dict |= {"e": x}
    return w.dict.get("c"), "c" in w.dict, len(w.dict), w.dict["n"]


def dict_grows_a_list(w, x):
    if x < 0:
        w.dict.setdefault("l", []).append(x)
    return w.dict.get("l")


def dict_in_a_loop(w, x):
    while w.dict["a"] < 5:
        w.dict["a"] = w.dict["a"] + x.abs()
    return w.dict["a"]


def dict_made_here(w, x):
    made = collections.UserDict(a=x)
    if x > 0:
        made["a"] = x * 2
    w.made = made
    return made


def list_written(w, x):
    w.list.append(x)
    w.list.extend([x, x])
    w.list.pop(0)
    w.list += [x]
    w.list.insert(0, x)
    w.list.reverse()
    return w.list[-1] is x, len(w.list), w.list[0:2], sum(w.list)


def list_in_branches(w, x):
    if x > 0:
        w.list.append(x)
        w.list[0] = x
    return len(w.list), w.list[0]


def mapping_mixins(w, x):
    w.mapping.update(a=x, g=x)
    if x > 0:
        w.mapping.update(a=x * 2)
    return w.mapping.pop("g"), w.mapping.setdefault("h", x), len(w.mapping), list(w.mapping.items()), w.mapping == {"a": 1}


def sequence_mixins(w, x):
    w.row.append(x)
    w.row.extend([x])
    w.row.reverse()
    w.row += [x]
    if x > 0:
        w.row[0] = x * 5
    return w.row.pop(), len(w.row), list(w.row)


def set_mixins(w, x):
    w.members |= {"r"}
    if x > 0:
        w.members.add("z")
    else:
        w.members.discard("p")
    return len(w.members), "z" in w.members, w.members >= {"q"}


def namespace(w, x):
    w.options.z = x
    if x > 0:
        w.options.a = x
    return w.options.a, "z" in w.options


def heap(w, x):
    if x > 0:
        heapq.heappush(w.numbers, 2)
    else:
        x = x + heapq.heappop(w.numbers)
    return x, len(w.numbers)


def heap_of_tensors(w, x):
    items = [x, -x, x * 2]
    heapq.heapify(items)
    heapq.heappush(w.tensors, x)
    return heapq.heappop(items), heapq.heappop(items), w.tensors[0]


def kept_in_order(w, x):
    if x > 0:
        bisect.insort(w.numbers, 5)
    return x, len(w.numbers), bisect.bisect([1, 3, 5], int(x)), bisect.bisect_left([1.0, 2.0], x.item())


def joined_in_place(w, x):
    if x > 0:
        operator.iconcat(w.tensors, [x])
    return len(w.tensors)


def copies(w, x):
    kept = copy.deepcopy(w.options)
    kept.a = kept.a + x
    numbers = copy.deepcopy(w.numbers)
    numbers.append(3)
    return kept.a, w.options.a, len(numbers), len(w.numbers)


@pytest.mark.parametrize(
    "function",
    [
        chain_written, chain_in_branches, chain_shadows, chain_loses, chain_made_here, dict_written, dict_in_branches,
        dict_grows_a_list, dict_in_a_loop, dict_made_here, list_written, list_in_branches, mapping_mixins, sequence_mixins,
        set_mixins, namespace, heap, pytest.param(heap_of_tensors, marks=pytest.mark.slow), kept_in_order, joined_in_place, copies,
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_library_objects_are_left_as_eager_leaves_them(function):
    def make():
        world = World()
        return types.MethodType(function, world), lambda: vars(world), CALLS

    agree_with_state(make)


def test_a_missing_key_raises_as_in_eager():
    def function(w, x):
        return w.chain["none"] if x > 0 else w.dict["none"]

    def make():
        world = World()
        return types.MethodType(function, world), lambda: vars(world), CALLS

    agree_with_state(make)


def test_a_chain_written_in_branches_needs_one_program():
    function = dy2st.to_static(types.MethodType(chain_in_branches, World()))
    for x in (T(-1.0), T(-2.0), T(-3.0)):
        function(x)
    assert len(function.program_cache) == 1


@pytest.mark.parametrize("ask", [list, lambda cm: [key for key in cm], sorted, len])
def test_a_chain_of_dicts_whose_keys_a_tensor_decides(ask):
    def f(x):
        first, second = {"a": 1}, {"b": 2}
        if x.sum() > 0:
            first["c"] = 3
        else:
            second["d"] = 4
        return ask(collections.ChainMap(first, second))

    x = torch.ones(2)
    agree(f, [(x,), (-x,)])


def test_a_dict_of_a_chain_whose_keys_a_tensor_decides_is_refused():
    def f(x):
        first, second = {"a": 1}, {"b": 2}
        if x.sum() > 0:
            first["c"] = 3
        return dict(collections.ChainMap(first, second))

    with pytest.raises(dy2st.errors.DataDependentError, match="what this iterates over"):
        dy2st.to_static(f)(torch.ones(2))
