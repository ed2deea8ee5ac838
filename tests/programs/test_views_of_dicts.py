"""Views of dicts whose keys a tensor decides: they show what is in the dict when they are looked at."""

from __future__ import annotations

import collections

import pytest
import torch

from tests.worlds import agree, registry
from tests.worlds import called as W

P, N = torch.ones(2), -torch.ones(2)
WORLDS, world = registry()


class Box:
    """An object of the user's."""


@world
def keys_later():

    def f(x):
        d = {"a": 1}
        if x.sum() > 0:
            d["b"] = 2
        k = d.keys()
        d["c"] = 3
        return (len(k), "c" in k)

    return W(f, [], P, N, P)


@world
def values_change():

    def f(x):
        d = {"a": x}
        if x.sum() > 0:
            d["b"] = x + 1
        v = d.values()
        d["a"] = x * 5
        return (list(v), len(v))

    return W(f, [], P, N, P)


@world
def items_del():

    def f(x):
        d = {"a": x, "z": x}
        if x.sum() > 0:
            d["b"] = x + 1
        v = d.items()
        del d["a"]
        return ([k for k, _ in v], len(v))

    return W(f, [], P, N, P)


@world
def iter_later():

    def f(x):
        d = {"a": x}
        if x.sum() > 0:
            d["b"] = x + 1
        v = d.keys()
        out = []
        for k in v:
            out.append(k)
        d["c"] = x
        for k in v:
            out.append(k)
        return out

    return W(f, [], P, N, P)


@world
def branch_later():

    def f(x):
        d = {"a": x}
        if x.sum() > 0:
            d["b"] = x + 1
        v = d.keys()
        if x.sum() > 3:
            d["c"] = x
        return (len(v), "b" in v, "c" in v)

    return W(f, [], P, N, 5 * P)


@world
def view_ops():

    def f(x):
        d = {"a": x}
        if x.sum() > 0:
            d["b"] = x + 1
        v = d.keys()
        d["c"] = x
        return (sorted(v | {"q"}), sorted(v & {"a", "c"}), v == {"a", "c"}, sorted(v - {"a"}))

    return W(f, [], P, N, 5 * P)


@world
def view_attr():
    o = Box()
    o.d = {"a": torch.zeros(2)}
    o.v = o.d.values()

    def f(x):
        if x.sum() > 0:
            o.d["b"] = x
        return len(o.v)

    return W(f, [], N, P, N)


@world
def view_returned():

    def f(x):
        d = {"a": x}
        if x.sum() > 0:
            d["b"] = x
        return (d, d.keys())

    return W(f, [], lambda f: (lambda r: (r[0].update(q=1), list(r[1])))(f(P)))


@world
def view_ret_plain():

    def f(x):
        d = {"a": x}
        return (d, d.keys())

    return W(f, [], lambda f: (lambda r: (r[0].update(q=1), list(r[1])))(f(P)))


@world
def ordered():

    def f(x):
        d = collections.OrderedDict(a=x)
        if x.sum() > 0:
            d["b"] = x
        k = d.keys()
        d["c"] = x
        return (list(k), list(reversed(k)))

    return W(f, [], P, N)


@world
def counter():

    def f(x):
        d = collections.Counter()
        d["a"] += 1
        if x.sum() > 0:
            d["b"] += 1
        k = d.items()
        d["c"] += 2
        return list(k)

    return W(f, [], P, N)


@world
def view_alias():

    def f(x):
        d = {"a": x}
        e = d
        if x.sum() > 0:
            e["b"] = x
        k = d.keys()
        e["c"] = 1
        return (len(k), len(e.keys()))

    return W(f, [], P, N)


@world
def keys_isdisjoint():

    def f(x):
        d = {"a": x}
        if x.sum() > 0:
            d["b"] = x
        k = d.keys()
        r = k.isdisjoint(["c"])
        d["c"] = 1
        return (r, k.isdisjoint(["c"]), k.isdisjoint(["b"]))

    return W(f, [], P, N)


@world
def dict_of_view():

    def f(x):
        d = {"a": x}
        if x.sum() > 0:
            d["b"] = x
        v = d.items()
        d["c"] = x
        return (dict(v), list(zip(d.keys(), d.values())))

    return W(f, [], P, N)


@world
def view_print():

    def f(x):
        d = {"a": 1}
        if x.sum() > 0:
            d["b"] = 2
        k = d.keys()
        d["c"] = 3
        print(k, list(d.values()))
        return x

    return W(f, [], P, N)


@world
def any_all():

    def f(x):
        d = {"a": x.sum() > 0}
        if x.sum() > 0:
            d["b"] = x.sum() > 3
        v = d.values()
        d["c"] = x.sum() > -1
        return (any(v), all(v), max(len(v), 1))

    return W(f, [], P, N, 5 * P)


@world
def clear_view():

    def f(x):
        d = {"a": x}
        if x.sum() > 0:
            d["b"] = x * 2
        v = d.keys()
        d.clear()
        n = len(v)
        d["z"] = x
        return (n, list(v))

    return W(f, [], P, N, 5 * P)


@pytest.mark.parametrize("make", WORLDS)
def test_views_show_what_the_dict_holds_when_looked_at(make):
    agree(make, programs=3)
