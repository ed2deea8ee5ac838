"""Special methods that are called by their names do what the statements do that call them."""

from __future__ import annotations

import collections
import itertools
import operator
from typing import Any

import pytest
import torch

import dy2st
from dy2st import to_static
from tests.oracle import agree

INPUTS = [(1.0, 2.0, 3.0), (-1.0, -2.0, -3.0), (0.0, 0.0, 0.0), (5.0, -5.0, 1.0)]
OF_LISTS = {
    "len": lambda xs, x: xs.__len__(),
    "len of the class": lambda xs, x: list.__len__(xs),
    "getitem": lambda xs, x: xs.__getitem__(-1),
    "getitem of the class": lambda xs, x: list.__getitem__(xs, 0),
    "eq": lambda xs, x: xs.__eq__([]),
    "add": lambda xs, x: xs.__add__([x]),
    "add of operator": lambda xs, x: operator.add([x], xs),
    "mul": lambda xs, x: xs.__mul__(2),
    "iadd": lambda xs, x: (xs.__iadd__([x]), xs),
    "imul": lambda xs, x: (xs.__imul__(2), xs),
    "setitem": lambda xs, x: (xs.__setitem__(0, x + 1), xs),
    "delitem": lambda xs, x: (xs.__delitem__(0), xs),
    "reversed": lambda xs, x: [v for v in xs.__reversed__()],
    "a bound one": lambda xs, x: (lambda length: length())(xs.__len__),
}
OF_DICTS = {
    "len": lambda d, x: d.__len__(),
    "len of the class": lambda d, x: dict.__len__(d),
    "contains": lambda d, x: d.__contains__("b"),
    "getitem": lambda d, x: d.__getitem__("a"),
    "setitem": lambda d, x: (d.__setitem__("c", x), d),
    "delitem": lambda d, x: (d.__delitem__("a"), d),
    "or": lambda d, x: d.__or__({"z": x}),
    "keys are a set": lambda d, x: (d.keys() == {"a"}, d.keys() <= {"a"}, {"a", "b"} == d.keys(), len({"a"} | d.keys())),
    "keys": lambda d, x: (len(d.keys()), "b" in d.keys(), d.items() == {}.items()),
}
OF_TENSORS = {
    "bool": lambda x: 1 if x[0].__bool__() else 0,
    "int": lambda x: x[0].__int__() + 1,
    "float": lambda x: x[0].__float__() * 2,
    "index": lambda x: [1, 2, 3, 4, 5, 6][x[0].abs().long().__index__()],
}


def of_list(use: Any) -> Any:
    def function(x):
        xs = [x]
        if x.sum() > 3:
            xs.append(x * 2)
        return use(xs, x)

    return function


def of_dict(use: Any) -> Any:
    def function(x):
        d = {"a": x}
        if x.sum() > 3:
            d["b"] = x * 2
        return use(d, x)

    return function


def check(function: Any) -> None:
    static = to_static(function)
    for values in INPUTS:
        x = torch.tensor(values)
        torch.testing.assert_close(static(x), function(x), rtol=0, atol=0)


@pytest.mark.parametrize("use", OF_LISTS.values(), ids=OF_LISTS)
def test_special_methods_of_a_list_do_what_statements_do(use):
    check(of_list(use))


@pytest.mark.parametrize("use", OF_DICTS.values(), ids=OF_DICTS)
def test_special_methods_of_a_dict_do_what_statements_do(use):
    check(of_dict(use))


@pytest.mark.parametrize("use", OF_TENSORS.values(), ids=OF_TENSORS)
def test_special_methods_of_a_tensor_do_what_builtins_do(use):
    check(use)


def test_a_list_is_repeated_in_place():
    def function(x):
        xs = [x]
        ys = xs
        n = 0
        while n < 2 and x[0] > 0:
            xs *= 2
            n = n + 1
        return xs is ys, xs

    check(function)


def test_operators_that_change_what_a_tensor_decides():
    def f(x, n):
        table, members = {"a": 1}, {1}
        for i in range(n):
            if x > i:
                table.__ior__({"i": i})
                operator.ior(members, {5})
        return table, members, max(table, {}, key=len) is table, list(itertools.repeat(table, 2))[1] is table

    agree(f, [(torch.tensor(x), torch.tensor(n)) for x, n in ((1.0, 0), (1.0, 1), (1.5, 3), (-1.0, 2))])


def test_the_init_of_a_set_or_deque_is_called_by_hand():
    def f(x):
        members, window = {1, 2}, collections.deque([1, 2])
        set.__init__(members, [3])
        window.__init__([3])
        if x.sum() > 0:
            members.add(9)
            window.append(9)
            if x[0] > 2:
                members.__init__((4, 5))
                collections.deque.__init__(window, [6])
        return members, window

    agree(f, [(torch.tensor([a, 1.0]),) for a in (1, -3, 5)])


def test_an_init_that_gives_a_deque_another_maxlen_is_refused():
    def f(x):
        window = collections.deque([1, 2])
        if x.sum() > 0:
            window.__init__([3], 1)
        return window

    with pytest.raises(dy2st.CaptureError, match="another maxlen"):
        dy2st.to_static(f)(torch.ones(2))


class _Counting(type):
    log: list[Any] = []

    def __getitem__(cls, key):
        cls.log.append(key)
        return key

    def __bool__(cls):
        cls.log.append("asked")
        return False


class _OfMetaclass(metaclass=_Counting):
    pass


class _Subscripted:
    log: list[Any] = []

    def __class_getitem__(cls, key):
        cls.log.append(key)
        return key * 2


def test_the_methods_of_a_metaclass_are_called_once():
    def f(x):
        before = len(_Counting.log)
        if x.sum() > 0:
            _OfMetaclass[3]
        found = _OfMetaclass[4], 1 if _OfMetaclass else 2, not _OfMetaclass
        return found, len(_Counting.log) - before

    agree(f, [(torch.ones(2),), (-torch.ones(2),)], programs=None)


def test_a_class_is_subscripted_once():
    def f(x):
        before = len(_Subscripted.log)
        found = _Subscripted["a" if x.sum() > 0 else "b"], _Subscripted[3]
        return found, len(_Subscripted.log) - before

    agree(f, [(torch.ones(2),), (-torch.ones(2),)], programs=None)
