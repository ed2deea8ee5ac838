"""The objects of a random world, and the ways that lead to them.

Every object has a name among the globals of the module. The program gets it as an argument, as a default, as a variable of an
enclosing function, or as the global that it is; objects hold each other, so that most can be reached in more than one way.
"""

from __future__ import annotations

import dataclasses
import textwrap

from tests.fuzz.choices import Choices

IMPORTS = """\
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import types

import torch
from torch import nn
"""

HEADS = {
    "plain": "class Box:",
    "slots": 'class Box:\n    __slots__ = ("h", "c", "items", "table", "other", "opt", "init")',
    "dataclass": "@dataclasses.dataclass(eq=False)\nclass Box:",
    "module": "class Box(nn.Module):",
    "subclass": "class Root:\n    z = 3\n    shared = []\n\n    def step(self, v):\n        self.h = self.h - v\n        return self.h\n\n\nclass Box(Root):",
}
INIT = """\
def __init__(self, h, c=0):
    self.h = h
    self.c = c
    self.items = [h]
    self.table = {"a": h}
    self.other = far
    self.opt = None
    self.init = h
"""
FIELDS = """\
h: torch.Tensor
c: int = 0
items: list = dataclasses.field(default_factory=list)
table: dict = dataclasses.field(default_factory=dict)
other: object = None
opt: object = None
init: object = None

def __post_init__(self):
    self.other = far
    self.init = self.h
"""
HELPERS = """\
known, scale = {}, 2.0

def count(name, v):
    known[name] = known.get(name, 0) + 1
    return v * scale

def turn(by):
    nonlocal scale
    scale = by

build.turn, build.known = turn, known
"""
"""Functions with variables of their own, which a closure calls."""
EXTRAS = {
    "subclass of dict": """\
class Table(dict):
    def __getitem__(self, key):
        return dict.get(self, key, torch.ones(2)) * 2

    def __setitem__(self, key, value):
        dict.__setitem__(self, key, value + 1)

    def __delitem__(self, key):
        self.gone = vars(self).get("gone", 0) + 1
        super().__delitem__(key)

    def __len__(self):
        return super().__len__() + 2

    def __contains__(self, key):
        self.asked = vars(self).get("asked", 0) + 1
        return super().__contains__(key)


tab = Table(a=torch.zeros(2))
""",
    "subclass of list": """\
class Rows(list):
    def __init__(self, *rows):
        self.made = vars(self).get("made", 0) + 1
        super().__init__(rows)

    def __iter__(self):
        self.gone_through = vars(self).get("gone_through", 0) + 1
        return super().__iter__()

    def __bool__(self):
        self.asked = vars(self).get("asked", 0) + 1
        return True

    def __getitem__(self, key):
        self.taken = vars(self).get("taken", 0) + 1
        return super().__getitem__(key)


rows = Rows(torch.zeros(2), torch.ones(2))
""",
}
METHODS = {
    "step": """\
def step(self, v):
    if v.sum() > 0:
        self.h = self.h + v
    else:
        self.c += 1
    return self.h
""",
    "super": """\
def step(self, v):
    if v.sum() > 0:
        return super().step(v * 2)
    self.c += 1
    return self.h
""",
    "put": """\
def put(self, v):
    self.items.append(v)
    return self
""",
    "property": """\
@property
def twice(self):
    return self.h * 2

@twice.setter
def twice(self, v):
    self.h = v / 2
""",
    "getattr": """\
def __getattr__(self, name):
    if name.startswith("_"):
        raise AttributeError(name)
    return 42
""",
    "getattribute": """\
def __getattribute__(self, name):
    if name == "h":
        object.__setattr__(self, "c", object.__getattribute__(self, "__dict__").get("c", 0) + 1)
    return super().__getattribute__(name)
""",
    "setattr": """\
def __setattr__(self, name, value):
    object.__setattr__(self, name, value)
    if name == "h":
        object.__setattr__(self, "c", self.__dict__.get("c", 0) + 1)
""",
    "enter": """\
def __enter__(self):
    self.c += 1
    return self

def __exit__(self, *error):
    self.items = []
    return False
""",
    "getitem": """\
def __getitem__(self, key):
    return self.table[key]

def __setitem__(self, key, value):
    self.table[key] = value
""",
    "reset": """\
def reset(self):
    self.h = self.init
    self.items = []
    return self.items
""",
    "class method": """\
@classmethod
def count(cls):
    cls.z += 1
    return cls.z
""",
    "repr": """\
def __repr__(self):
    return f"Box({self.c})"
""",
    "eq": """\
def __eq__(self, other):
    return isinstance(other, Box) and self.c == other.c

__hash__ = None
""",
}
NET = """\
class Net(nn.Module):
    shared = []
    z = 5

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.5, -1.0]))
        self.register_buffer("b", torch.zeros(2))
        self.lin = nn.Linear(2, 2)
        nn.init.constant_(self.lin.weight, 0.5)
        nn.init.constant_(self.lin.bias, 0.25)
        self.h = torch.zeros(2)
        self.c = 0
        self.items = []
        self.table = {"a": torch.zeros(2)}
        self.other = st
        self.opt = None
        self.init = torch.full((2,), 5.0)
"""
FAR = """\
far = types.SimpleNamespace(h=torch.zeros(2), c=0, items=[torch.ones(2)], table={"b": torch.ones(2)}, opt=None, init=torch.ones(2))
"""
"""What objects hold at first as another one."""

MADE = {
    "st": ("O", "Box(torch.tensor([1.0, 2.0]))"),
    "ob": ("O", "Box(torch.tensor([3.0, -4.0]), 1)"),
    "acc": ("L", "[]"),
    "log": ("L", "[torch.zeros(2)]"),
    "d": ("D", '{"a": torch.zeros(2)}'),
    "e": ("D", '{"b": torch.ones(2), "a": torch.full((2,), 3.0)}'),
    "t": ("T", "torch.tensor([0.5, 0.25])"),
    "num": ("N", "2"),
    "seen": ("S", '{"a"}'),
    "cnt": ("C", "collections.Counter()"),
    "dd": ("V", "collections.defaultdict(list)"),
    "nest": ("E", '[0, {"h": torch.zeros(2)}]'),
}
"""The objects by name: their kind, and how they are made."""

KINDS = {
    "T": "tensors", "N": "numbers", "L": "lists of tensors", "D": "dicts of tensors by name", "O": "objects", "S": "sets of names",
    "C": "counters", "V": "dicts of lists", "E": "a list of a number and a dict",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class World:
    """The objects of one program.

    Attributes:
        form: what the program is: a function, a closure, a method or a module.
        classes: text of the classes.
        made: text that makes the objects.
        ways: how the program gets each object, by name: argument, default, cell or global.
        members: which methods ``Box`` has.
        kind: what ``Box`` is.
        extras: what else there is.
    """

    form: str
    classes: str
    made: str
    ways: dict[str, str]
    members: frozenset[str]
    kind: str
    extras: frozenset[str] = frozenset()

    def names(self, kind: str) -> list[str]:
        """The names of the objects of a kind."""
        return [name for name in self.ways if MADE[name][0] == kind]


def world(choices: Choices, needed: frozenset[str]) -> World:
    """A random world with objects of the kinds that are needed, and some more."""
    form = choices.pick(["function", "function", "closure", "method", "module", "module"])
    kind = choices.pick(["plain", "plain", "plain", "slots", "dataclass", "module", "subclass"])
    names = ["st", *(name for name, (sort, _) in MADE.items() if name != "st" and choices.chance(55 if sort in needed else 12))]
    ways = {
        name: choices.pick(["argument", "argument", "global", "cell" if form == "closure" else "global", "default"])
        for name in names
    }
    members = frozenset(name for name in METHODS if choices.chance(35) and _fits(name, kind))
    made = [f"{name} = {MADE[name][1]}" for name in names]
    made += [line for line in _aliases(names) if choices.chance(22)]
    classes = _box(kind, members)
    if form == "method":
        ways = {name: "argument" if way == "default" else way for name, way in ways.items()}
    extras = frozenset(name for name in EXTRAS if choices.chance(10))
    classes = "\n\n\n".join([*(EXTRAS[name].strip() for name in sorted(extras)), FAR.strip(), classes])
    return World(form, classes, "\n".join(made), ways, members, kind, extras)


def _fits(member: str, kind: str) -> bool:
    if member == "super":
        return kind == "subclass"
    if member == "class method":
        return kind in ("plain", "module", "subclass")
    if member == "eq":
        return kind != "module"
    return not (member in ("getattr", "getattribute", "setattr") and kind in ("slots", "module", "dataclass"))


def _box(kind: str, members: frozenset[str]) -> str:
    parts = [METHODS[name] for name in METHODS if name in members]
    if "step" not in members and "super" not in members:
        parts.append(METHODS["step"])
    start = "super().__init__()\n    self.h = h" if kind == "module" else "self.h = h"
    init = FIELDS if kind == "dataclass" else INIT.replace("self.h = h", start, 1)
    if kind == "module":
        init = init.replace("self.other = far\n", "self.other = None\n")
    numbers = "" if kind in ("slots", "dataclass", "subclass") else "z = 5\nshared = []\n\n"
    if kind == "dataclass":
        numbers = ""
    return HEADS[kind] + "\n" + textwrap.indent("\n".join([numbers + init, *parts]), "    ")


def _aliases(names: list[str]) -> list[str]:
    """Statements that give an object a second way to it."""
    found = ["st.other = st", "st.init = st.h", "st.opt = st.h", "st.table = {'a': st.h, 'b': st.init}", "st.init = st.h[:]"]
    pairs = {"acc": "items", "log": "items", "d": "table", "e": "table"}
    found += [f"st.{part} = {name}" for name, part in pairs.items() if name in names]
    if "ob" in names:
        found += ["st.other = ob", "ob.items = st.items", "ob.table = st.table", "ob.h = st.h", "ob.other = st"]
        found += ["ob = st", "ob.init = st.h"]
    if {"acc", "log"} <= set(names):
        found.append("log = acc")
    if {"d", "e"} <= set(names):
        found.append("e = d")
    if "t" in names:
        found += ["st.h = t", "st.items.append(t)"]
    if "nest" in names:
        found += ["nest[1] = st.table"]
    return found
