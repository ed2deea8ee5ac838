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
