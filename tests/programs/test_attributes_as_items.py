"""Classes of the user's whose attributes are the items of a container: ``__getattr__ = dict.__getitem__`` and its like."""

from __future__ import annotations

import operator
import threading
from typing import Any

import pytest
import torch

from tests.worlds import World, agree

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])


class ByItem(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class ByGet(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.pop


class Itself(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


def read(d, x):
    return x * d.a


def written(d, x):
    if x.sum() > 0:
        d.a = 7
    return x * d.a


def put(d, x):
    if x.sum() > 0:
        d.c = x
    return "c" in d, d.get("c")


def missing(d, x):
    try:
        return d.late
    except (KeyError, AttributeError) as error:
        return type(error).__name__, str(error)


def deleted(d, x):
    if x.sum() > 0 and "b" in d:
        del d.b
    return len(d)


def counted(d, x):
    d.inner.n += 1
    if x.sum() > 0:
        d.inner.n += 10
    return x * d.inner.n


@pytest.mark.parametrize("kind", [ByItem, ByGet, Itself])
@pytest.mark.parametrize("use", [read, written, put, missing, deleted, counted])
def test_attributes_that_are_items(use: Any, kind: type) -> None:
    def make() -> World:
        d = kind(a=1, b=2, inner=kind(n=0))

        def changed(function: Any) -> Any:
            d.update(a=9, b=2, late=3)
            return function(P), function(N)

        return World(lambda x: use(d, x), [d], [lambda f: f(N), lambda f: f(P), lambda f: f(N), changed])

    agree(make)


class Named(dict):
    put = dict.__setitem__
    take = dict.pop
    both = dict.update
    size = property(len)
    held = property(dict.values)
    first = property(operator.itemgetter("a"))


def test_methods_of_a_container_under_other_names() -> None:
    def make() -> World:
        d = Named(a=1)

        def f(x):
            if x.sum() > 0:
                d.put("b", 2)
            else:
                d.both(c=3)
            return d.take("b", 0), d.size, d.first, list(d.held)

        return World(f, [d], [lambda f: f(N), lambda f: f(P), lambda f: f(N)])

    agree(make)


def test_attributes_of_each_thread() -> None:
    def make() -> World:
        local = threading.local()

        def f(x):
            if not hasattr(local, "n"):
                local.n = 0
            if x.sum() > 0:
                local.n += 1
            return x * local.n

        def changed(function: Any) -> Any:
            local.n = 10
            return function(P), function(N), local.n

        def gone(function: Any) -> Any:
            del local.n
            return function(P), local.n

        return World(f, [], [lambda f: f(N), lambda f: f(P), changed, gone])

    agree(make, programs=3)
