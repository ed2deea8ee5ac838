"""Tensors as keys of dicts and members of sets, which are found by their identity; streams that are read by ``next``."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import pytest
import torch

from dy2st import to_static
from dy2st.errors import CaptureError
from tests import oracle
from tests.worlds import World, agree

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
ONE, OTHER = torch.ones(2), torch.zeros(2)


def test_items_of_tensors_from_outside() -> None:
    def make() -> World:
        table = {ONE: 1}

        def f(x):
            if ONE not in table:
                table[ONE] = 0
            table[ONE] += 1
            return table[ONE], ONE in table, OTHER in table

        def changed(function: Any) -> Any:
            table[ONE], table[OTHER] = 5, 1
            return function(P)

        def gone(function: Any) -> Any:
            del table[ONE]
            return function(P)

        return World(f, [], [lambda f: f(N), lambda f: f(P), changed, gone])

    agree(make)


def test_parameters_are_keys_of_a_dict_from_outside() -> None:
    def make() -> World:
        torch.manual_seed(0)
        layer, steps = torch.nn.Linear(2, 2), {}

        def f(x):
            for p in layer.parameters():
                steps[p] = steps.get(p, 0) + 1
            if x.sum() > 0:
                steps[layer.weight] = 10
            return steps[layer.weight] * x, len(steps)

        return World(f, [], [lambda f: f(N), lambda f: f(P), lambda f: f(N)])

    agree(make)


def test_own_dict_of_tensors() -> None:
    def make() -> World:
        def f(x):
            y = x * 2
            table, members = {x: 1, y: 2}, {x, y, x}
            table[y] += 1
            return table[y], table[x], len(members), x in members, x in table

        return World(f, [], [lambda f: f(N), lambda f: f(P)])

    agree(make, programs=1)


TABLE: dict[Any, int] = {}
MEMBERS: set[Any] = set()


def argument_in_a_dict(x):
    TABLE[x] = 1


def made_tensor_in_a_dict(x):
    TABLE[x * 2] = 1


def argument_in_a_set(x):
    MEMBERS.add(x)
    return len(MEMBERS)


def one_of_two_in_a_dict(x):
    key = ONE if x.sum() > 0 else OTHER
    TABLE[key] = 1


@pytest.mark.parametrize("function", [argument_in_a_dict, made_tensor_in_a_dict, argument_in_a_set, one_of_two_in_a_dict])
def test_tensors_that_are_others_at_each_call(function: Any) -> None:
    with pytest.raises(CaptureError, match="identity"):
        to_static(function)(P)
    assert not TABLE
    assert not MEMBERS


@dataclasses.dataclass(frozen=True)
class Key:
    tensor: torch.Tensor
    number: int


ASKED_AT_ONCE = {
    "tuple": lambda one, other: {(one, 1): 1}.get((other, 1)),
    "frozen dataclass": lambda one, other: Key(other, 1) in {Key(one, 1): 1},
    "frozenset": lambda one, other: len(frozenset([one, other])),
    "equal dicts": lambda one, other: {one: 1} == {other: 1},
    "symmetric difference": lambda one, other: len({one} ^ {other}),
    "hash of a tuple": lambda one, other: hash((one, 1)) == hash((other, 1)),
    "ids": lambda one, other: id(other) in {id(one)},
    "id of what is given back": lambda one, other: id(one.contiguous()) in {id(one)},
}


@pytest.mark.parametrize("ask", ASKED_AT_ONCE.values(), ids=ASKED_AT_ONCE)
def test_one_of_two_tensors_is_no_key_where_keys_are_compared_at_once(ask: Any) -> None:
    with pytest.raises(CaptureError, match="(by its identity|id of one of several)"):
        to_static(lambda x, y: ask(x, x if x.sum() > 0 else y))(P, N)


def test_tensors_that_are_known_are_compared_at_once() -> None:
    def make() -> World:
        def f(x):
            keys = [x + 1, x * 2, ONE, OTHER]
            told = [{key: 1} == {keys[0]: 1} for key in keys], [(key, 1) in {(keys[1], 1), (ONE, 1)} for key in keys]
            return *told, [Key(key, 1) in {Key(ONE, 1)} for key in keys], len(frozenset(keys)), {*keys} == {*reversed(keys)}

        return World(f, [], [lambda f: f(N), lambda f: f(P)])

    agree(make, programs=1)


@pytest.mark.parametrize("read", [next, lambda lines: [*lines], lambda lines: [line for line in lines]])
def test_lines_of_a_stream_from_outside(read: Any) -> None:
    stream = io.StringIO("a\nb\n")
    with pytest.raises(CaptureError, match="StringIO from outside is read"):
        to_static(lambda x: read(stream))(P)
    assert stream.tell() == 0


def test_lines_of_an_own_stream() -> None:
    def make() -> World:
        def f(x):
            stream = io.StringIO("1\n2\n3")
            return next(stream), [line for line in stream], x * 2

        return World(f, [], [lambda f: f(N), lambda f: f(P)])

    agree(make, programs=1)


class Named(torch.nn.Parameter):
    def __repr__(self):
        print("asked for its text")
        return "named: " + super().__repr__()


class Shown:
    def __init__(self, number):
        self.number = number

    def __repr__(self):
        print("asked for its text")
        return f"Shown({self.number})"


def test_nobody_asks_keys_for_their_texts():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.key, self.parameter = Shown(1), Named(torch.ones(2))
            self.counts = {self.key: 0, (self.key, 1): [], self.parameter: {"n": 0}}

        def forward(self, x):
            self.counts[self.key] += 1
            self.counts[self.parameter]["n"] += 2
            here = {self.key: x}
            if x.sum() > 0:
                here[self.key, 2] = x * 2
                self.counts[self.key, 1].append(int(x.sum()))
            else:
                del here[self.key]
            return x * len(here) + self.parameter * self.counts[self.parameter]["n"], self.counts[self.key]

    oracle.agree(Counts(), [torch.ones(2) * k for k in (1, -1, 2, -2)], programs=None)
