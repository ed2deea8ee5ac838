"""Variables of the module and of functions around that are deleted where a tensor decides."""

from __future__ import annotations

import pytest
import torch

import dy2st
from tests.oracle import agree

kept = None
others, table = [], {"a": 1}


def numbers():
    return [torch.tensor(v) for v in (-0.5, 1.0, -2.0, 0.5)]


def test_a_variable_of_the_module_is_deleted_where_a_tensor_decides():
    def f(x):
        global kept
        if x > 0:
            kept = x
        elif x < -1:
            del kept
        try:
            return kept
        except NameError as error:
            return str(error)

    def told(function, x):
        global kept
        kept = None
        return str(function(x)), globals().get("kept", "nothing")

    static = dy2st.to_static(f)
    for x in numbers():
        assert told(static, x) == told(f, x)


def test_the_other_variables_of_the_module_stay_what_they_are():
    def f(x):
        global kept
        if x > 0:
            del kept
        return 1

    static, before = dy2st.to_static(f), (others, table, __builtins__)
    for x in numbers():
        globals()["kept"] = None
        static(x)
        assert all(one is other for one, other in zip((others, table, __builtins__), before))


def test_of_a_function_around():
    def f(x):
        v = 1

        def change():
            nonlocal v
            if x > 0:
                del v
            else:
                v = 2

        change()
        try:
            return v
        except NameError as error:
            return str(error)

    agree(f, numbers())


class Held:
    shown = "by the class"


class Slotted:
    __slots__ = ("shown",)


class Answering:
    def __getattr__(self, name):
        return "instead"


@pytest.mark.parametrize("kind", [Held, Slotted, Answering, torch.nn.Module])
def test_an_attribute_that_is_gone_at_a_later_call(kind):
    box = kind()

    def f(x):
        del box.shown
        return x

    def told(function, x):
        if float(x) > 0:
            box.shown = 1
        try:
            return function(x), hasattr(type(box), "shown")
        except AttributeError as error:
            return str(error)

    for function in (f, dy2st.to_static(f)):
        assert [type(told(function, x)) for x in numbers()] == [str, tuple, str, tuple]
        assert [type(told(function, x)) for x in numbers()[1:3] * 2] == [tuple, str, tuple, str]


def test_the_builtin_is_there_where_the_module_has_none():
    def assigned(x):
        global sum
        if x > 0:
            sum = x
        return sum([1, 2]) if callable(sum) else sum

    def deleted(x):
        global max
        if x > 0:
            max = lambda a, b: a  # noqa: E731
        elif "max" in globals():
            del max
        return max(1, 2), [max(k, 1) for k in range(3)]

    def told(function, x, before):
        for name in ("sum", "max"):
            globals().pop(name, None)
        globals().update(before)
        try:
            return str(function(x)), "sum" in globals(), "max" in globals()
        finally:
            for name in ("sum", "max"):
                globals().pop(name, None)

    for function in (assigned, deleted):
        static = dy2st.to_static(function)
        for before in ({}, {"max": min, "sum": min}, {}):
            for x in numbers():
                assert told(static, x, before) == told(function, x, before)
