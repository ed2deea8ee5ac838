"""Functions that are called as they are and write to the objects that they get."""

from __future__ import annotations

import collections
import types

import pytest
import torch

import dy2st
from tests.programs.state import agree_with_state

T = torch.tensor
CALLS = [T(1.0), T(-1.0), T(2.0), T(-2.0), T(1.0)]


class World:
    def __init__(self):
        self.table = {"a": T(1.0)}
        self.tensors = [T(1.0)]
        self.numbers = [1, 2]
        self.queue = collections.deque([1])
        self.nested = {"inner": {"deep": 1}}
        self.other = types.SimpleNamespace()


@dy2st.not_to_static
def appends(items, value):
    items.append(value)


@dy2st.not_to_static
def puts(table, value):
    table["put"] = value


@dy2st.not_to_static
def puts_deep(table, value):
    table["inner"]["deep"] = value


@dy2st.not_to_static
def sets(owner, value):
    owner.seen = value


@dy2st.not_to_static
def drops(table):
    table.clear()
    raise ValueError("dropped")


def in_any_case(w, x):
    appends(w.tensors, x)
    appends(w.numbers, 4)
    puts(w.table, x * 2)
    sets(w, x)
    return w.tensors[-1] is x, len(w.numbers), w.table["put"], w.seen is x


def in_a_branch(w, x):
    if x > 0:
        puts(w.table, x)
        sets(w, x * 2)
        appends(w.queue, 3)
    else:
        puts_deep(w.nested, x)
    return w.table.get("put"), getattr(w, "seen", None), len(w.queue), w.nested["inner"]["deep"]


def then_raises(w, x):
    if x > 0:
        try:
            drops(w.nested)
        except ValueError:
            return x, len(w.nested)
    return x, len(w.nested)


def made_here(w, x):
    table = {"a": x}
    if x > 0:
        puts(table, x * 2)
    return table.get("put"), len(table)


@pytest.mark.parametrize("function", [in_any_case, in_a_branch, then_raises, made_here], ids=lambda f: f.__name__)
def test_writes_of_unconverted_functions_are_those_of_eager(function):
    def make():
        world = World()
        return types.MethodType(function, world), lambda: vars(world), CALLS

    agree_with_state(make)


def test_a_list_of_outside_grows_where_a_tensor_decides():
    def make():
        world = World()

        def function(x):
            if x > 0:
                appends(world.tensors, x)
            return x

        return function, lambda: vars(world), CALLS

    agree_with_state(make)


LOG: list[object] = []
COUNTS = {"calls": 0}
last = None


@dy2st.not_to_static
def notes(value):
    global last
    last = value
    COUNTS["calls"] += 1
    _helps(value)


def _helps(value):
    LOG.append(value * 2)


@dy2st.not_to_static
def gives_log():
    return LOG


exec("def without_source(value): LOG.append(value)", globals())


def to_globals(x):
    notes(x)
    return COUNTS["calls"], len(LOG)


def to_globals_in_a_branch(x):
    if x > 0:
        gives_log().clear()
        COUNTS["calls"] += 1
    return x


def without_a_source(x):
    without_source(x + 1)  # noqa: F821
    return x


def to_what_it_gives(x):
    gives_log().append(x)
    return len(gives_log())


@pytest.mark.parametrize(
    "function", [to_globals, to_globals_in_a_branch, without_a_source, to_what_it_gives], ids=lambda f: f.__name__
)
def test_what_code_that_is_not_converted_finds_itself_is_written_at_each_call(function):
    def make():
        global last
        LOG[:], COUNTS["calls"], last = [T(0.0)], 0, None
        return function, lambda: (LOG, COUNTS, last), CALLS

    agree_with_state(make)


def test_a_variable_of_an_enclosing_function_is_written_at_each_call():
    def make():
        count, seen = 0, None

        @dy2st.not_to_static
        def tick(value):
            nonlocal count, seen
            count += 1
            seen = value

        def function(x):
            if x > 0:
                tick(x * 2)
            return count, seen

        return function, lambda: (count, seen), CALLS

    agree_with_state(make)


class Part:
    def __init__(self):
        self.scale = 2


@dy2st.not_to_static
def scaled(part, value):
    return value * part.scale


@dy2st.not_to_static
def shifted(part, value):
    return value + getattr(part, "shift", 5)


def test_an_attribute_that_is_there_on_some_ways_is_no_matter_to_code_that_does_not_ask_for_it():
    def make():
        part = Part()

        def function(x):
            if x > 0:
                part.shift = x
            return scaled(part, x)

        return function, lambda: vars(part), [T(-1.0), T(1.0)]

    agree_with_state(make)


def test_code_that_is_not_converted_does_not_ask_for_an_attribute_that_is_there_on_some_ways():
    part = Part()

    @dy2st.to_static
    def function(x):
        if x > 0:
            part.shift = x
        return shifted(part, x)

    with pytest.raises(dy2st.CaptureError, match="whether it has 'shift'"):
        function(T(-1.0))
