"""Loaded programs leave the objects that were there: containers of their own state, of their arguments, and those that they give."""

from __future__ import annotations

import collections
import dataclasses
import textwrap

import pytest
import torch

import dy2st
from tests.fuzz.oracle import Kind
from tests.fuzz.stateful.oracle import judge
from tests.fuzz.stateful.program import Call, Program

_WORLD = """\
import collections
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass(eq=False)
class Box:
    h: torch.Tensor
    items: list


acc, d = [torch.zeros(2), torch.ones(2)], {"a": torch.zeros(2), "b": torch.ones(2)}
st = Box(torch.ones(2), [torch.zeros(2)])
"""
_NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.5, -1.0]))
        self.h = torch.zeros(2)
        self.items = [torch.zeros(2), torch.ones(2)]
        self.same = self.items
        self.table = {"a": torch.zeros(2), "n": 1}
        self.nest = {"l": [torch.zeros(2)], "d": {"a": torch.zeros(2)}}
        self.part = self.nest["d"]
        self.row = [self.nest["l"], torch.zeros(2)]
        self.order = collections.OrderedDict(a=torch.zeros(2), b=torch.ones(2))
        self.names = ["a", "b"]
        self.cfg = st

    def forward(self, x, *more):
"""

OF_MODULES = {
    "an item is written": "self.table['a'] = x\nreturn self.table",
    "an item is written in a branch": "if x.sum() > 0:\n    self.table['a'] = x\nreturn self.table",
    "a list is filled anew": "self.items[0], self.items[1] = self.items[1], x\nreturn self.items",
    "a list under two names": "if x.sum() > 0:\n    self.items[0] = x\nreturn self.same[0]",
    "two names of a list": "return self.items, self.same",
    "a list that comes and goes": "self.items.append(x)\nreturn self.items.pop(0), self.items",
    "an inner list": "self.nest['l'][0] = x\nreturn self.nest, self.nest['l']",
    "an inner dict is replaced": "if x.sum() > 0:\n    self.nest['d'] = {'a': x}\nreturn self.nest['d']",
    "a part of what is written, by another name": "found = self.part\nself.nest['l'][0] = x\nreturn found, self.nest",
    "a part of what is written on some ways": "if x.sum() > 0:\n    self.nest['l'][0] = x\nreturn self.part",
    "a part of a part": "found = self.row[0]\nself.nest['d']['a'] = x\nreturn found, self.nest['d']",
    "one of two parts": "found = self.part if x.sum() > 0 else self.row\nself.nest['l'][0] = x\nreturn found",
    "the order of keys": "self.order['a'] = x\nreturn self.order",
    "one of two lists": "one = self.items if x.sum() > 0 else self.nest['l']\none[0] = x\nreturn one",
    "a list is filled and then replaced": "old = self.items\nold[:] = [x, x]\nself.items = [x + 1, old[0]]\nreturn old",
    "a list of constants": "return x + 1, self.names",
    "a dataclass": "return self.cfg, self.cfg.items",
    "a list is kept that is given": "old = self.items\nself.items = more[0]\nreturn old",
    "a list of the caller's": "return more[0], more[0][0] + x",
    "a dict of the caller's": "return {'given': more[1], 'x': x}",
    "a dataclass of the caller's": "return more[2].items, more[2]",
    "a list of the module's or the caller's": "return self.items if x.sum() > 0 else more[0]",
}
OF_FUNCTIONS = {
    "a list": "return acc",
    "a list and a part": "acc[0].add_(x)\nreturn acc, acc[0]",
    "a dataclass of a closure": "return st, st.items",
    "a list or another": "return acc if x.sum() > 0 else st.items",
}
_XS = ("[1.0, 2.0]", "[-1.0, -2.0]", "[3.0, 1.0]", "[-3.0, 1.0]")


@pytest.mark.parametrize("name", OF_MODULES)
def test_saved_modules_do_the_same_when_loaded(name: str):
    source = _WORLD + _NET + textwrap.indent(OF_MODULES[name], " " * 8) + "\n\nprogram = Net()\n"
    more = ", acc, d, st" if "more" in source.partition("def forward(self, x, *more)")[2] else ""
    _check(source, more)


@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_saved_functions_do_the_same_when_loaded(name: str):
    _check(_WORLD + "def program(x):\n" + textwrap.indent(OF_FUNCTIONS[name], "    ") + "\n", "")


def _check(source: str, more: str) -> None:
    calls = tuple(Call((), f"torch.tensor({x}){more}") for x in _XS)
    verdict = judge(Program(source, calls), "saved")
    assert (verdict.kind, verdict.calls) == (Kind.SAME, len(calls)), f"{verdict.reason}\n{verdict.detail}"


def test_saving_leaves_the_tables_of_a_module():
    """What the capture of a method registers as a parameter or module has been a plain attribute, and is again."""
    for value in ("self.w", "self"):
        source = _WORLD + _NET + f"        y = x + self.h\n        self.h = {value}\n        return y\n\nprogram = Net()\n"
        verdict = judge(Program(source, (Call((), "torch.ones(2)"),)), "saved")
        assert verdict.reason != "saving changes the world", verdict.reason


class Keeps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.items = [torch.zeros(2)]

    def forward(self, x, given):
        self.items[0] = x
        return given[0]


def test_a_list_of_its_own_is_no_argument(tmp_path):
    row = dy2st.InputSpec([2])
    dy2st.save(Keeps(), tmp_path / "m.dy2st", [row, [row]])
    model = dy2st.load(tmp_path / "m.dy2st")
    assert model(torch.ones(2), [torch.zeros(2)]).sum() == 0
    with pytest.raises(dy2st.SignatureError, match="two objects"):
        model(torch.ones(2), model.items)


class AsksWhich(torch.nn.Module):
    def forward(self, x, one, two):
        return x + 1 if one is two else x


def test_two_lists_are_not_one(tmp_path):
    row = dy2st.InputSpec([2])
    dy2st.save(AsksWhich(), tmp_path / "m.dy2st", [row, [row], [row]])
    model, given = dy2st.load(tmp_path / "m.dy2st"), [torch.zeros(2)]
    assert model(torch.ones(2), given, [torch.zeros(2)]).sum() == 2
    with pytest.raises(dy2st.SignatureError, match="argument 1 and argument 2|argument 2 and argument 1"):
        model(torch.ones(2), given, given)


class Appends(torch.nn.Module):
    def forward(self, x, table):
        return table["a"] + x


def test_a_mapping_that_makes_items_is_no_plain_one(tmp_path):
    row = dy2st.InputSpec([2])
    dy2st.save(Appends(), tmp_path / "m.dy2st", [row, {"a": row}])
    model = dy2st.load(tmp_path / "m.dy2st")
    assert model(torch.ones(2), collections.OrderedDict(a=torch.ones(2))).sum() == 4
    with pytest.raises(dy2st.SignatureError, match="makes nothing"):
        model(torch.ones(2), collections.defaultdict(list, a=torch.ones(2)))
    with pytest.raises(dy2st.SaveError, match="table of Appends.forward is a defaultdict"):
        dy2st.save(Appends(), tmp_path / "m.dy2st", [torch.ones(2), collections.defaultdict(list, a=torch.ones(2))])


Pair = collections.namedtuple("Pair", "a b")


def test_a_named_tuple_is_an_example(tmp_path):
    class Adds(torch.nn.Module):
        def forward(self, pair):
            return pair.a + pair.b

    dy2st.save(Adds(), tmp_path / "m.dy2st", [Pair(torch.ones(2), torch.ones(2))])
    assert dy2st.load(tmp_path / "m.dy2st")(Pair(torch.ones(2), torch.ones(2))).sum() == 4


class Changed(torch.nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg

    def forward(self, x):
        self.cfg.h = x
        return self.cfg


def test_an_object_that_changes_is_not_left_as_a_whole(tmp_path):
    cfg = dataclasses.make_dataclass("Cfg", ["h"], eq=False)(torch.zeros(2))
    with pytest.raises(dy2st.SaveError, match=r"test_saved_state\.py:\d+: .*return what is in it instead"):
        dy2st.save(Changed(cfg), tmp_path / "m.dy2st", [dy2st.InputSpec([2])])


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.nest = {"one": [torch.zeros(2)]}
        self.nest["two"] = self.nest["one"]

    def forward(self, x):
        self.nest["one"][0] = x
        return self.nest["two"][0]


def test_one_dict_in_two_places_of_the_state(tmp_path):
    with pytest.raises(
        dy2st.SaveError, match=r"test_saved_state\.py:\d+: self\.nest\['one'\] and self\.nest\['two'\] are one list"
    ):
        dy2st.save(Twice(), tmp_path / "m.dy2st", [dy2st.InputSpec([2])])


def test_the_copy_that_the_oracle_makes_is_no_change_by_saving() -> None:
    source = """\
import torch

class Rows(list):
    def __iter__(self):
        self.gone_through = getattr(self, "gone_through", 0) + 1
        return super().__iter__()

rows = Rows([1, 2])

class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1

program = Net()
"""
    verdict = judge(Program(source, (Call((), "torch.ones(2)"),)), "saved")
    assert verdict.kind is Kind.SAME, f"{verdict.reason}\n{verdict.detail}"
