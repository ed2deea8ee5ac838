"""What captured code reads from classes as a whole: their dicts, their names, attributes that come and go between calls."""

from __future__ import annotations

import inspect
import types
from typing import Any

import pytest
import torch

from tests.worlds import World, agree

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[Any] = []


def case(make: Any) -> Any:
    """A function of an object, its class and the base of that, with what changes between the calls."""
    CASES.append(make)
    return make


def setk(C):
    def change():
        C.k = 7

    return change


def delk(C):
    def change():
        del C.k

    return change


def setn(C):
    def change():
        C.n = 7

    return change


@case
def get_of_the_dict(o, C, B):
    def f(x):
        return x * type(o).__dict__.get("k")

    return f, setk(C)


@case
def membership(o, C, B):
    def f(x):
        return "k" in vars(type(o)), "n" in vars(C)

    return f, delk(C)


@case
def item_of_the_dict(o, C, B):
    def f(x):
        return x * vars(type(o))["k"]

    return f, setk(C)


@case
def hasattr_of_what_comes(o, C, B):
    def f(x):
        return hasattr(type(o), "k"), hasattr(type(o), "n"), hasattr(C, "n")

    return f, setn(C)


@case
def hasattr_of_what_goes(o, C, B):
    def f(x):
        return hasattr(type(o), "k")

    return f, delk(C)


@case
def number_and_names(o, C, B):
    def f(x):
        return len(vars(C)), sorted(k for k in vars(C) if not k.startswith("_"))

    return f, setn(C)


@case
def items_of_the_dict(o, C, B):
    def f(x):
        return [k for k, v in vars(C).items() if not k.startswith("_")], [v for k, v in C.__dict__.items() if k == "k"]

    return f, setk(C)


@case
def dir_of_both(o, C, B):
    def f(x):
        return [k for k in dir(C) if not k.startswith("_")], [k for k in dir(o) if not k.startswith("_")]

    return f, setn(C)


@case
def getattr_with_default(o, C, B):
    def f(x):
        return getattr(type(o), "n", 5), getattr(C, "k", 5)

    return f, setn(C)


@case
def dicts_of_the_bases(o, C, B):
    def f(x):
        return any("k" in vars(b) for b in type(o).__mro__), any("n" in b.__dict__ for b in C.mro())

    return f, setn(C)


@case
def names_in_turn(o, C, B):
    def f(x):
        return [n for n in ("k", "n", "z") if n in C.__dict__ or hasattr(B, n)]

    return f, setn(B)


@case
def written_in_a_branch(o, C, B):
    def f(x):
        if x.sum() > 0:
            C.k = 9
        return vars(C)["k"], "n" in vars(C), vars(C).get("k")

    return f, setn(C)


@case
def put_there_in_a_branch(o, C, B):
    def f(x):
        if x.sum() > 0:
            C.n = 9
        return "n" in vars(C), vars(C).get("n"), hasattr(C, "n"), hasattr(o, "n")

    return f, setn(C)


@case
def getattr_static(o, C, B):
    def f(x):
        return inspect.getattr_static(C, "k"), inspect.getattr_static(o, "n", None)

    return f, setn(C)


@case
def names_of_the_class(o, C, B):
    def f(x):
        return C.__name__, C.__qualname__, C.__doc__, C.__module__, C.__bases__ == (B,)

    def change():
        C.__name__ = "Q"
        C.__qualname__ = "W"
        C.__doc__ = "d"

    return f, change


@case
def another_class(o, C, B):
    def f(x):
        return isinstance(o, B), issubclass(C, B), type(o) is C

    def change():
        o.__class__ = B

    return f, change


@case
def list_in_the_dict(o, C, B):
    C.l = [1]

    def f(x):
        return len(vars(C)["l"]), sum(C.__dict__["l"])

    def change():
        C.l.append(3)

    return f, change


@case
def tensor_in_the_dict(o, C, B):
    C.t = torch.ones(2)

    def f(x):
        return x * vars(C)["t"] + C.__dict__.get("t")

    def change():
        C.t = torch.ones(2) * 3

    return f, change


@case
def annotations(o, C, B):
    C.__annotations__ = {"a": int}

    def f(x):
        return list(C.__annotations__), list(o.__annotations__), "a" in C.__annotations__

    def change():
        C.__annotations__["b"] = int

    return f, change


@case
def method_that_comes(o, C, B):
    def f(x):
        return callable(getattr(C, "meth", None)), "meth" in C.__dict__

    def change():
        C.meth = lambda self: 1

    return f, change


@case
def dict_of_a_module(o, C, B):
    M = types.ModuleType("mm")
    M.k = 3

    def f(x):
        return M.__dict__.get("k"), "n" in vars(M), hasattr(M, "n"), vars(M)["k"], getattr(M, "n", 0)

    def change():
        M.k = 5
        M.n = 1

    return f, change


@case
def dict_of_a_function(o, C, B):
    def g():
        pass

    g.k = 1

    def f(x):
        return g.k, g.__dict__.get("n"), "n" in vars(g), hasattr(g, "n"), getattr(g, "n", 0)

    def change():
        g.k = 5
        g.n = 1

    return f, change


@pytest.mark.parametrize("body", CASES, ids=lambda body: body.__name__)
def test_class_read_as_a_whole(body: Any) -> None:
    def make() -> World:
        class B:
            z = 1

        class C(B):
            k = 2

        o = C()
        f, change = body(o, C, B)

        def changed(function: Any) -> Any:
            change()
            return function(P)

        return World(f, [o], [lambda g: g(N), lambda g: g(P), changed, lambda g: g(N)])

    agree(make, programs=3)
