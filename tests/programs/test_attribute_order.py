"""The order of the attributes of objects: one that is deleted and set again comes last, on the ways that do it."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch

import dy2st
from tests.oracle import EXECUTORS


class Record:
    def __init__(self) -> None:
        self.a, self.b, self.c = 1, 2, 3


def again(o: Any, name: str, value: Any = 5) -> None:
    delattr(o, name)
    setattr(o, name, value)


def always(o, x):
    again(o, "a", x)
    return x


def last_one_again(o, x):
    again(o, "c")
    return x


def on_one_way(o, x):
    if x[0] > 0:
        again(o, "a")
    return list(vars(o)), dict(o.__dict__)


def others_on_each_way(o, x):
    if x[0] > 0:
        again(o, "a")
    else:
        again(o, "b", 7)
    if x[1] > 0:
        again(o, "c")
    return x


def new_ones_in_each_order(o, x):
    if x[0] > 0:
        o.p = 1
        o.q = 2
    else:
        o.q = 1
        o.p = 2
    return x


def new_one_again(o, x):
    o.p = 1
    o.q = 2
    again(o, "p")
    return x


def same_value_again(o, x):
    if x[0] > 0:
        again(o, "b", o.b)
    return x


def in_a_loop(o, x):
    for row in x:
        if row > 0:
            again(o, "a", row)
        else:
            again(o, "b", row)
    return list(vars(o))


def new_in_a_loop(o, x):
    for row in x:
        if row > 0:
            o.above = row
        else:
            o.below = row
    return x


def gone_on_one_way(o, x):
    if x[0] > 0:
        del o.a
    o.a = 3
    return [name for name in vars(o)]


def through_the_dict(o, x):
    table = vars(o)
    if x[0] > 0:
        table["a"] = table.pop("a")
    else:
        kept = dict(table)
        table.clear()
        table.update(reversed(kept.items()))
    return x


def in_an_object_that_is_made(o, x):
    made = Record()
    if x[0] > 0:
        again(made, "a")
    o.made = list(vars(made))
    return list(made.__dict__.items())


def before_an_error(o, x):
    again(o, "a")
    if x[0] > 0:
        raise ValueError("above")
    again(o, "b")
    return x


def caught(o, x):
    try:
        del o.a
        if x[0] > 0:
            raise ValueError
        o.b = 9
        o.a = 1
    except ValueError:
        again(o, "b")
        o.a = 2
    return x


def in_copies(o, x):
    if x[0] > 0:
        again(o, "a")
    made = copy.copy(o)
    return list(vars(made)), list(vars(copy.deepcopy(o))), list(copy.copy(vars(o))), list(copy.deepcopy(vars(made)))


def in_a_list_of_objects(o, x):
    made = [Record(), Record()]
    for position, row in enumerate(x):
        if row > 0:
            again(made[position], "a", row)
    return [list(vars(one)) for one in made]


PROGRAMS = [
    always, last_one_again, on_one_way, others_on_each_way, new_ones_in_each_order, new_one_again, same_value_again, in_a_loop,
    new_in_a_loop, gone_on_one_way, through_the_dict, in_an_object_that_is_made, before_an_error, caught, in_copies,
    in_a_list_of_objects,
]  # fmt: skip
CALLS = [torch.tensor(row) for row in ([1.0, 2.0], [-1.0, 2.0], [1.0, -2.0], [-1.0, -2.0])]


def _done(function: Any, o: Any, x: torch.Tensor) -> str:
    try:
        result = function(o, x)
    except ValueError as error:
        result = error
    return f"{result!r} {list(vars(o).items())}"


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", ["native", "python"])
def test_order_of_each_way(program, backend):
    static = dy2st.to_static(program, backend=backend)
    for x in CALLS:
        assert _done(static, Record(), x) == _done(program, Record(), x)
    assert len(static.program_cache) == 1


@pytest.mark.parametrize("program", [always, last_one_again, others_on_each_way, same_value_again])
def test_object_whose_attributes_come_in_another_order(program):
    static = dy2st.to_static(program)
    for names in ("abc", "cba", "bzac"):
        for x in CALLS:
            mine, other = Record(), Record()
            for o in (mine, other):
                vars(o).clear()
                vars(o).update(dict.fromkeys(names, 1) | {"a": 1, "b": 2, "c": 3})
            assert _done(static, mine, x) == _done(program, other, x)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
        self.p, self.q = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        again(self, "p", self.p)
        if x[0] > 0:
            again(self, "a", self.a)
        return self.b(self.a(x[:1]))


@pytest.mark.parametrize("x", CALLS[:2])
def test_tables_of_a_module(x):
    torch.manual_seed(0)
    eager = Model()
    torch.manual_seed(0)
    static = dy2st.to_static(Model())
    for _ in range(2):
        assert torch.equal(static(x), eager(x))
        assert list(static.state_dict()) == list(eager.state_dict())


def given(o, x):
    made = Record()
    if x[0] > 0:
        again(made, "a")
    if x[1] > 0:
        again(made, "b")
    o.made = made
    return made, [made]


def test_objects_that_are_left():
    static = dy2st.to_static(given)
    for x in CALLS:
        mine, other = Record(), Record()
        (found, listed), (expected, _) = static(mine, x), given(other, x)
        assert found is listed[0] is mine.made
        assert list(vars(found).items()) == list(vars(expected).items())
    assert len(static.program_cache) == 1


@pytest.mark.parametrize("ask", ["named_children", "state_dict", "named_parameters"])
def test_order_in_a_table_that_a_module_is_asked_for_is_refused(ask):
    def f(model, x):
        if x[0] > 0:
            again(model, "a", model.a)
        return [str(name) for name in dict(getattr(model, ask)())]

    with pytest.raises(dy2st.CaptureError, match="depends on a branch"):
        dy2st.to_static(f)(Model(), CALLS[0])


@dataclasses.dataclass
class Part:
    value: Any = None


class Parts(torch.nn.Module):
    def __init__(self, part: Any) -> None:
        super().__init__()
        self.first, self.second, self.third = part, None, 3

    def forward(self, n: torch.Tensor, part: Any = None) -> Any:
        seen = self.first if isinstance(self.first, (int, torch.Tensor)) else None
        if n > 0:
            self.first = self
        return seen


@pytest.mark.parametrize("backend", EXECUTORS)
@pytest.mark.parametrize(
    "part", [Part(2), 5, 2.5, torch.ones(2), [torch.ones(2)]], ids=["dataclass", "int", "float", "tensor", "list"]
)
def test_what_a_module_registers_on_one_way_stays_in_its_place_on_the_other(part, backend):
    for n in (0, 1):
        static, eager = dy2st.to_static(Parts(part), backend=backend), Parts(part)
        for _ in range(2):
            static(torch.tensor(n), part)
            eager(torch.tensor(n), part)
            assert [name for name in vars(static) if name != "forward"] == list(vars(eager))
            assert list(static._modules) == list(eager._modules)
            assert static.first is (static if n else part)
