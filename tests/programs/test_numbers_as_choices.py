"""A number of the program that picks one of few Python objects: a member of an enumeration, a module of a list."""

import collections
import enum

import pytest
import torch
from torch import nn

import dy2st
from tests.oracle import agree

NUMBERS = [(torch.ones(1), torch.tensor(k)) for k in (0, 1, 2, 3, 4, -1, -3, 7)]


class Op(enum.IntEnum):
    ADD = 0
    MUL = 1
    SUB = 4


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    LIME = 2


class Name(str, enum.Enum):
    A = "k1"
    B = "k2"


class Flag(enum.Flag):
    A = 1
    B = 2


class Doubled:
    def __init__(self, items):
        self.items = items

    def __getitem__(self, position):
        return self.items[position] * 2


LAYERS = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.Tanh()])
STEPS = nn.Sequential(nn.Tanh(), nn.Sigmoid())
DOUBLED = Doubled([torch.ones(1), torch.zeros(1), torch.ones(1) * 5])


def test_a_number_picks_a_member_of_an_enumeration():
    def f(x, k):
        op = Op(int(k))
        return (x * 2 if op is Op.MUL else x + 1), op.name, op + 1, op.value, op == 1, op

    agree(f, NUMBERS)


def test_members_by_other_values():
    def f(x, k):
        try:
            return Color(k.item()).name, x
        except ValueError as error:
            return str(error), x

    def g(x, k):
        return Name(f"k{int(k)}").name, x

    agree(f, NUMBERS)
    agree(g, NUMBERS)


def test_a_flag_makes_members_itself():
    with pytest.raises(dy2st.errors.DataDependentError, match=r"Flag\(\) gets a value that is known only at run time"):
        dy2st.to_static(lambda k: Flag(int(k)))(torch.tensor(1))


def test_modules_of_a_list():
    def f(x, k):
        return LAYERS[int(k)](x)

    def g(x, k):
        try:
            return STEPS[int(k)](x), STEPS[-int(k)](x)
        except IndexError as error:
            return x, str(error)

    agree(f, NUMBERS)
    agree(g, NUMBERS)


def test_items_as_the_user_defines_them():
    def f(x, k):
        return DOUBLED[int(k)] + x

    agree(f, NUMBERS)


def test_operands_that_no_number_takes():
    def late(x, k):
        rest, count = None, 0
        while x > 0:
            rest, x, count = x, x - 1, count + 1
        if rest is None:
            rest = 1 - x
        return count + rest

    def words(x, k):
        other = None
        if k > 1:
            other = 2
        try:
            return int(k) + other
        except TypeError as error:
            return str(error)

    agree(late, NUMBERS)
    agree(words, NUMBERS)


def test_numbers_in_deques_from_outside():
    def f(window, x):
        window.append(x.sum().item())
        window.appendleft((int(x.sum()), "a"))
        window.rotate(int(x.sum()))
        window[0] = int(x.sum())
        return list(window), window.count(int(x.sum())), int(x.sum()) in window

    for value in (1.0, 2.0):
        eager, static = (collections.deque([1, 2, 3], maxlen=4) for _ in range(2))
        x = torch.tensor([value])
        assert f(eager, x) == dy2st.to_static(f)(static, x)
        assert eager == static


def test_a_slice_that_is_as_long_as_the_program_says():
    def f(x, k):
        items = [1, 2, 3]
        items[1:] = [4, 5, 6][int(k) :]
        return items, len(items)

    agree(f, NUMBERS)
