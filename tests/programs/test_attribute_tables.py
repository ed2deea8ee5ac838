"""The dicts of objects' attributes: ``vars(obj)`` and ``obj.__dict__``, read and written beside the attributes themselves."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

import dy2st
from tests.worlds import World, agree, calls

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[tuple[Any, int]] = []


def case(programs: int) -> Any:
    """A world whose calls need at most so many programs."""

    def keep(make: Any) -> Any:
        CASES.append((make, programs))
        return make

    return keep


def made() -> Any:
    class Box:
        z = 3

        def __init__(self):
            self.h = torch.ones(2)
            self.k = 1

    return Box()


@case(2)
def written_and_then_looked_at() -> World:
    o = made()

    def f(x):
        o.h = [x]
        t = vars(o)
        t["extra"] = 0.5
        o.h.append(x)
        return list(t), t["h"], t["z"] if "z" in t else None

    return World(f, [o], calls(N, P))


@case(2)
def item_and_attribute_are_one() -> World:
    o = made()

    def f(x):
        if x.sum() > 0:
            vars(o)["h"] = x
        else:
            o.k += 1
        return o.h * o.k, vars(o)["h"], o.__dict__.get("k"), "q" in vars(o), len(vars(o))

    return World(f, [o], calls(N, P, N))


@case(3)
def of_a_choice_of_objects() -> World:
    a, b = made(), made()

    def f(x):
        chosen = a if x.sum() > 0 else b
        vars(chosen).update(k=5)
        chosen.__dict__["q"] = x
        mine, other = made(), made()
        vars(mine if x.sum() > 0 else other)["k"] = 7
        return mine.k, other.k

    return World(f, [a, b], calls(N, P, N))


@case(2)
def item_that_is_there_on_some_ways() -> World:
    o = made()

    def f(x):
        t = vars(o)
        if x.sum() > 0:
            t["q"] = x
        y = t["q"] if "q" in t else x - 1
        o.q = y + 1
        t["q"] = t["q"] * 2
        return o.q, t["q"], hasattr(o, "q")

    def removed(function):
        del o.q
        return function(N)

    return World(f, [o], [*calls(N, P), removed, *calls(P)])


@case(2)
def missing_item() -> World:
    o = made()

    def f(x):
        if x.sum() > 0:
            del vars(o)["h"]
        return vars(o)["h"] + 1

    def again(function):
        o.h = x = torch.zeros(2)
        return function(x)

    return World(f, [o], [*calls(N, P), again])


@case(2)
def methods_of_the_dict() -> World:
    o, p = made(), made()

    def f(x):
        if x.sum() > 0:
            o.__dict__.update(vars(p))
            o.__dict__.setdefault("w", x)
        else:
            vars(o).pop("w", None)
        p.h = p.h + x
        return o.h, p.h, getattr(o, "w", None)

    return World(f, [o, p], calls(N, P, N))


@case(1)
def replaced() -> World:
    o = made()

    def f(x):
        o.h = x
        o.__dict__ = {"h": x * 2, "n": 3}
        if x.sum() > 0:
            o.n += 1
        return o.n, o.h, hasattr(o, "k")

    def again(function):
        o.__dict__ = {"h": torch.ones(2), "k": 1}
        return function(P)

    return World(f, [o], [*calls(N), again])


@case(3)
def one_dict_of_two_objects() -> World:
    shared: dict[str, Any] = {"a": 1, "h": torch.zeros(2)}
    o, p = made(), made()
    o.__dict__, p.__dict__ = shared, shared

    def f(x):
        o.h = x
        if x.sum() > 0:
            p.h = p.h + 1
            p.a += 1
        return o.h, o.a

    def apart(function):
        p.__dict__ = {"a": 5, "h": torch.ones(2)}
        return function(P)

    return World(f, [o, p], [*calls(N, P), apart, *calls(N)])


@case(3)
def object_that_is_its_own_dict() -> World:
    class Table(dict):
        def __init__(self, **items):
            super().__init__(**items)
            self.__dict__ = self

    o = Table(h=torch.ones(2), k=1)

    def f(x):
        o.h = x
        if x.sum() > 0:
            o["h"] = o.h + 1
            o.k += 1
            o.new = 3
        return o["h"], o["k"], list(o)

    return World(f, [dict.items(o)], [lambda g, x=x: (g(x), dict(o)) for x in (N, P, N)])


class Unregistered(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lin = torch.nn.Linear(2, 2)
        self.__dict__["teacher"] = torch.nn.Linear(2, 2)
        self.register_buffer("b", torch.zeros(2))
        self.c = 0


@case(2)
def module_that_another_hides() -> World:
    class Net(Unregistered):
        def forward(self, x):
            if x.sum() > 0:
                self.__dict__["teacher"] = self.lin
                vars(self)["c"] += 1
            return self.teacher(x) + self.c

    net = Net()
    return World(net, [net], calls(N, P, N))


@case(1)
def module_that_is_registered_then() -> World:
    class Net(Unregistered):
        def forward(self, x):
            self.teacher = self.lin
            if x.sum() > 0:
                self.teacher = self.lin
            return self.teacher(x)

    net = Net()

    def again(function):
        del net.teacher
        net.__dict__["teacher"] = torch.nn.Linear(2, 2)
        return function(P)

    return World(net, [net], [*calls(N), again])


@case(1)
def module_in_its_own_dict() -> World:
    class Net(Unregistered):
        def forward(self, x):
            if x.sum() > 0:
                self.extra = x
            self.__dict__["extra"] = self
            return x

    net = Net()

    def removed(function):
        del net.__dict__["extra"]
        return function(P)

    return World(net, [net], [*calls(N), removed])


@case(1)
def dict_of_an_object_that_holds_an_argument() -> World:
    o = made()
    o.table = {"a": torch.zeros(2)}

    def f(x, table):
        o.table["a"] = x
        o.k = 1
        return list(vars(o)), o.table is table

    return World(f, [o], [lambda g, x=x: g(x, o.table) for x in (N, P)])


@case(1)
def object_that_the_function_makes() -> World:
    kind = type(made())

    def f(x):
        o = kind()
        vars(o).update(h=x, w=2)
        if x.sum() > 0:
            o.__dict__["h"] = x + o.w
        else:
            del o.w
        return o, o.h

    return World(f, [], calls(N, P))


@pytest.mark.parametrize(("make", "programs"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_dicts_of_attributes_are_read_and_written_as_in_eager(make, programs):
    agree(make, programs=programs)


_OTHERS = [case for case in CASES if case[0] not in (one_dict_of_two_objects, object_that_the_function_makes)]


@pytest.mark.parametrize(("make", "programs"), _OTHERS, ids=lambda value: getattr(value, "__name__", ""))
def test_objects_whose_class_has_their_dict_like_a_slot(make, programs, monkeypatch):
    class Space(types.SimpleNamespace):
        z = 3

    monkeypatch.setitem(globals(), "made", lambda: Space(h=torch.ones(2), k=1))
    agree(make, programs=programs)


def test_a_namespace_that_is_asked_for_its_dict():
    def make():
        space = types.SimpleNamespace(h=torch.ones(2), other=None)

        def f(x):
            space.other = [x - 2]
            if x.sum() > 0 and "extra" in vars(space):
                del space.extra
            return [*vars(space)], "extra" in space.__dict__

        def extended(function):
            space.extra = 5
            return function(P)

        return World(f, [space], [*calls(N, P), extended, *calls(P)])

    agree(make, programs=2)


def test_dict_from_outside_in_the_place_of_another():
    o, table = made(), {"h": torch.ones(2)}

    def f(x):
        o.__dict__ = table
        return x

    with pytest.raises(dy2st.errors.CaptureError, match="replaced by a dict from outside"):
        dy2st.to_static(f)(P)
    assert vars(o) is not table


def test_item_beside_a_parameter():
    net = Unregistered()

    def f(x):
        net.__dict__["b"] = x
        return net.b

    with pytest.raises(dy2st.errors.CaptureError, match="has a parameter, buffer or submodule of that name in another one"):
        dy2st.to_static(f)(P)
    assert "b" not in vars(net)
    assert isinstance(types.MappingProxyType(net._buffers)["b"], torch.Tensor)


def test_module_that_is_registered_where_a_tensor_decides():
    class Net(Unregistered):
        def forward(self, x):
            if x.sum() > 0:
                self.teacher = self.lin
            return self.teacher(x)

    net = Net()
    with pytest.raises(dy2st.errors.CaptureError, match="decides whether a module registers 'teacher'"):
        dy2st.to_static(net)(P)
    assert "teacher" in vars(net)
