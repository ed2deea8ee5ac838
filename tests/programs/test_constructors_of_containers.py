"""Constructors of classes that are dicts or lists, and of dataclasses among them, made by a metaclass or by other functions."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import functools

import pytest
import torch

from tests.oracle import agree
from tests.programs.state import agree_with_state


class Named(collections.OrderedDict):
    def __init__(self, x):
        super().__init__()
        if x.sum() > 0:
            self["more"] = x
        else:
            self["less"] = -x


class Table(dict):
    def __init__(self, x, **others):
        super().__init__(others)
        self.total = x.sum()
        if self.total > 0:
            self["x"] = x * 2


class Row(list):
    def __init__(self, x):
        super().__init__([x])
        if x.sum() > 0:
            self.append(x * 3)


class Latest(collections.deque):
    def __init__(self, x):
        super().__init__([x, x * 2], maxlen=2)
        if x.sum() > 0:
            self.append(x * 3)


def test_a_constructor_of_a_container_is_captured():
    for kind in (Named, Table, Row, Latest):
        agree(lambda x, kind=kind: kind(x), [torch.ones(2), -torch.ones(2)])
    agree(lambda x: Table(x, y=x + 1).total, [torch.ones(2), -torch.ones(2)])


class Renaming(type):
    """Puts a function around the ``__init__`` that ``dataclasses`` writes."""

    def __setattr__(cls, name, value):
        if name == "__init__":
            init = value

            @functools.wraps(init)
            def __init__(self, *args, **kwargs):
                if "old" in kwargs:
                    kwargs["hidden"] = kwargs.pop("old")
                init(self, *args, **kwargs)

            value = __init__
        super().__setattr__(name, value)


class Output(collections.OrderedDict, metaclass=Renaming):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


@dataclasses.dataclass
class Decoded(Output):
    last: torch.Tensor | None = None
    hidden: list | None = None
    notes: list = dataclasses.field(default_factory=list)


def decoded(x, limit):
    steps, sums = [], []
    for _ in range(6):
        x = x * 2
        steps.append(x)
        sums.append(x.sum())
        if torch.stack(sums).gt(limit).any():
            break
    return Decoded(last=torch.stack(steps), old=steps)


def test_a_dataclass_keeps_a_list_as_long_as_the_program_decides():
    calls = [(torch.ones(2), torch.tensor(limit)) for limit in (3.0, 8.0, 50.0, 1e9)]
    agree(decoded, calls)


def test_what_a_dataclass_makes_for_a_field_is_made_at_each_call():
    def twice(x):
        first, second = Decoded(x), Decoded(x)
        if x.sum() > 0:
            first.notes.append(x)
        return first, second, first.notes is second.notes

    agree(twice, [torch.ones(2), -torch.ones(2)])


class Layers(collections.abc.Mapping):
    """A mapping of two tables."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def __getitem__(self, key):
        return self.first[key] if key in self.first else self.second[key]

    def __iter__(self):
        return iter({**self.second, **self.first})

    def __len__(self):
        return len({**self.second, **self.first})


@pytest.mark.parametrize("kind", [Layers, collections.ChainMap])
def test_dicts_of_a_mapping_whose_tables_a_branch_changes(kind):
    def make():
        first, second = {"a": 1}, {"a": 2, "b": 3}
        layers = kind(first, second)

        def f(n):
            if n > 1:
                first.pop("a", None)
            else:
                first["a"] = int(n)
            counted = collections.Counter(layers)
            counted.update(layers)
            return dict(layers), {**layers}, collections.OrderedDict(layers), counted, layers["a"]

        return f, lambda: (first, second), [torch.tensor(n) for n in (2, 0, 1, 3)]

    agree_with_state(make)


def test_a_counter_counts_a_name_that_a_tensor_chooses():
    def make():
        counted = collections.Counter()

        def f(n):
            counted.update(["a" if n > 0 else "b", "c"])
            counted.update("ca")
            return dict(counted)

        return f, lambda: counted, [torch.tensor(n) for n in (2, 0, 1, 3)]

    agree_with_state(make)
