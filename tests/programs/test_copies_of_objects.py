"""Copies of objects: ``copy``, ``dataclasses.replace``, ``asdict`` and ``astuple``; what is copied and what is shared is as in eager."""

from __future__ import annotations

import collections
import copy
import dataclasses
import json
from typing import Any

import pytest
import torch

import dy2st
from tests.oracle import agree as alike
from tests.programs.state import agree_with_state
from tests.worlds import World, agree, calls

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])


class Plain:
    def __init__(self, h):
        self.h = h
        self.k = 1


def test_copies_of_plain_objects_share_what_eager_shares():
    def make() -> World:
        o, p = Plain(torch.ones(2)), Plain(2.0)
        p.items = [o]  # type: ignore[attr-defined]

        def f(x):
            t = copy.copy(o)
            t.h = x
            if x.sum() > 0:
                t.k = 5
                o.k = t.k + 1
            u = copy.deepcopy(p)
            u.items[0].h = x
            u.more = [t, u.items]
            v = copy.deepcopy(u)
            return t, o.h, u, v, v.more[0] is t, v.h is u.h

        return World(f, [o, p], calls(N, P, N))

    agree(make, programs=2)


OPTIONS: list[dict[str, bool]] = [{}, {"slots": True}, {"frozen": True}, {"slots": True, "frozen": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_dataclasses_are_copied_and_converted_as_in_eager(options):
    @dataclasses.dataclass(**options)
    class Data:
        h: Any
        k: int = 2
        items: list[Any] = dataclasses.field(default_factory=list)

    def shown(data):
        return [getattr(data, field.name) for field in dataclasses.fields(data)]

    def make() -> World:
        o = Data(torch.ones(2), items=[torch.zeros(2), {"a": 1}])

        def f(x):
            if x.sum() > 0 and not options.get("frozen"):
                o.h = x
                o.k += 1
            s = Data(x)
            if x.sum() > 1:
                s = Data(x + 1, k=5)
            t, u, v = copy.copy(o), copy.deepcopy(o), dataclasses.replace(o, h=x)
            tables = dataclasses.asdict(s), dataclasses.asdict(o, dict_factory=collections.OrderedDict)
            return [shown(each) for each in (s, t, u, v)], t, tables, dataclasses.astuple(o)

        return World(f, [shown(o)], [lambda g, x=x: (g(x), shown(o)) for x in (N, P, N)])

    agree(make, programs=2)


def test_fields_that_are_made_after():
    @dataclasses.dataclass
    class Data:
        h: Any
        k: int = 2
        n: int = dataclasses.field(init=False, default=3)

        def __post_init__(self):
            if self.h.sum() > 0:
                self.n = self.k + 1

    def make() -> World:
        o = Data(torch.ones(2))

        def f(x):
            return dataclasses.replace(o, h=x), dataclasses.replace(o, k=5), dataclasses.asdict(o)

        return World(f, [o], calls(N, P))

    agree(make, programs=1)


def test_replace_and_asdict_raise_pythons_errors():
    @dataclasses.dataclass
    class Data:
        h: Any
        n: int = dataclasses.field(init=False, default=3)

    def make() -> World:
        o = Data(torch.ones(2))

        def f(x, way):
            if way == 0:
                return dataclasses.replace(o, n=1)
            return dataclasses.asdict(x) if way == 1 else dataclasses.replace(o, other=1)

        return World(f, [o], [lambda g, way=way: g(P, way) for way in range(3)])

    agree(make)


def test_ways_of_the_class():
    def make() -> World:
        log: list[str] = []

        class Own(Plain):
            def __copy__(self):
                log.append("copy")
                return Plain(self.h * 2)

            def __deepcopy__(self, memo):
                log.append("deepcopy")
                return Plain(self.h * 3)

        o = Own(torch.ones(2))

        def f(x):
            if x.sum() > 0:
                o.h = x
            return copy.copy(o), copy.deepcopy(o), copy.deepcopy([o, {"a": o}])

        return World(f, [o], calls(N, P))

    agree(make)


def test_dataclass_that_keeps_a_growing_list():
    @dataclasses.dataclass
    class Data:
        h: Any
        items: list[Any]

    def make() -> World:
        def f(x, n):
            rows = []
            for k in range(n):
                rows.append(x * k)
            data = Data(x, rows)
            data.items.append(x)
            return data, len(rows), data.items is rows

        return World(f, [], [lambda g, n=n: g(P, torch.tensor(n)) for n in (2, 0, 1)])

    agree(make, programs=1)


TWICE = []


def twice(make):
    """Register a world in which a copied list holds something more than once."""
    TWICE.append(pytest.param(make, id=make.__name__))
    return make


@twice
def dc_item_twice():

    def f(x):
        h = x * 2
        xs = [h, h]
        if x.sum() > 0:
            xs.append(h)
        c = copy.deepcopy(xs)
        c[0].add_(1)
        return (c, xs)

    return World(f, [], calls(P, N, P))


@twice
def dc_dict_of():

    def f(x):
        a = [x]
        d = {"p": a, "q": a}
        if x.sum() > 0:
            a.append(x + 1)
        c = copy.deepcopy(d)
        c["p"].append(x)
        return (c, d)

    return World(f, [], calls(P, N, P))


@twice
def dc_dict_of_same_items():

    def f(x):
        a = [x]
        b = [x]
        d = {"p": a, "q": b}
        if x.sum() > 0:
            a.append(x)
            b.append(x)
        c = copy.deepcopy(d)
        c["p"][0].add_(1)
        return (c, d)

    return World(f, [], calls(P, N, P))


@twice
def dc_outside():
    o = Plain(None)
    o.l = [torch.zeros(2)]
    o.l.append(o.l[0])

    def f(x):
        if x.sum() > 0:
            o.l.append(o.l[0])
        c = copy.deepcopy(o.l)
        c[0].add_(1)
        return c

    return World(f, [o], calls(N, P, N, P))


@twice
def dc_tuple_memo():

    def f(x):
        t = ([x], x)
        xs = [t, t]
        c = copy.deepcopy(xs)
        return (c[0] is c[1], c, c[0][0] is t[0])

    return World(f, [], calls(P, N))


@twice
def dc_loop_grow_same():

    def f(x):
        h = x * 1
        xs = []
        n = 0
        while n < x.sum():
            xs.append(h)
            n += 1
        c = copy.deepcopy(xs)
        if len(c) > 0:
            c[0].add_(1)
        return (c, xs, h)

    return World(f, [], calls(P, 5 * P, N))


@twice
def dc_self_obj():

    class Q:
        def __init__(s, h):
            s.h = h
            s.log = [h]

    o = Q(torch.zeros(2))
    o.again = o.log

    def f(x):
        if x.sum() > 0:
            o.log.append(x)
        c = copy.deepcopy(o)
        c.log.append(x)
        return (len(c.again), len(o.again), c.log is c.again)

    return World(f, [o], calls(N, P, N))


@twice
def dc_nested_dict_grow():

    def f(x):
        a = [x]
        d = {"k": {"l": a}, "m": a}
        while x.sum() < 5:
            a.append(x)
            x = x + 1
        c = copy.deepcopy(d)
        c["m"].append(x)
        return (len(c["k"]["l"]), len(a), c["m"] is c["k"]["l"])

    return World(f, [], calls(P, 5 * P, N))


@twice
def dc_choice():

    def f(x):
        a = [x]
        b = [x + 1]
        c = a if x.sum() > 0 else b
        d = copy.deepcopy([a, b, c])
        d[2].append(x)
        return (len(d[0]), len(d[1]), len(d[2]))

    return World(f, [], calls(P, N, P))


@twice
def dc_choice_obj():

    class Q:
        def __init__(s, h):
            s.h = h

    def f(x):
        a = Q(x)
        b = Q(x + 1)
        c = a if x.sum() > 0 else b
        d = copy.deepcopy({"a": a, "b": b, "c": c})
        d["c"].h = d["c"].h * 2
        return (d["a"].h, d["b"].h, d["c"].h, d["c"] is d["a"])

    return World(f, [], calls(P, N, P))


@pytest.mark.parametrize("make", TWICE)
def test_what_is_there_twice(make):
    agree(make)


class Keeper:
    def __init__(self):
        self.table = {"n": 0}
        self.deep = {"a": [{"n": 1}]}


@dataclasses.dataclass
class Inner:
    items: object


MAKERS = [
    lambda keeper: keeper.table.copy(),
    lambda keeper: dict.fromkeys(keeper.table, 1),
    lambda keeper: copy.deepcopy(keeper).table,
    lambda keeper: copy.deepcopy(keeper.deep)["a"][0],
    lambda keeper: copy.deepcopy((1, keeper.table))[1],
    lambda keeper: copy.deepcopy(collections.OrderedDict(a={"z": 1}))["a"],
    lambda keeper: copy.deepcopy(collections.deque([{"a": 1}]))[0],
    lambda keeper: dataclasses.asdict(Inner([{"z": 1}]))["items"][0],
    lambda keeper: json.loads('{"a": {"b": 1}}')["a"],
]


@pytest.mark.parametrize("maker", MAKERS, ids=range(len(MAKERS)))
def test_a_copy_that_a_branch_keeps_is_the_one_that_was_made_before_it(maker):
    def make():
        keeper = Keeper()

        def function(x):
            made = maker(keeper)
            if x < 0:
                keeper.table = made
            return keeper.table is made, keeper.table

        return function, lambda: vars(keeper), [torch.tensor(1.0), torch.tensor(-1.0)]

    agree_with_state(make)


# -- tensors -----------------------------------------------------------------------------------------------------------------


class Held:
    def __init__(self, v):
        self.v = v

    def __deepcopy__(self, memo):
        return Held(copy.deepcopy(self.v, memo))


def one_of_two(x, n):
    y = torch.ones(2)
    if n > 0:
        y = x
    try:
        c = copy.deepcopy([y])[0]
    except RuntimeError:
        c = y
    d = copy.copy(y)
    return c, d, c.requires_grad, d.requires_grad, c.is_leaf, d.is_leaf, d is y


def in_an_object(x, n):
    o, p = Plain(torch.ones(2)), Held(torch.ones(2))
    if n > 0:
        o.h = p.v = x.detach().requires_grad_()
    c, d = copy.deepcopy(o), copy.deepcopy(p)
    return c.h, d.v, c.h.requires_grad, d.v.is_leaf


def by_its_method(x, n):
    y = x.detach().clone()
    if n > 0:
        y.requires_grad_()
    c = x.detach().requires_grad_().__deepcopy__({})
    return c, c.requires_grad, c.is_leaf


def with_attributes(x, n):
    y = x.detach().clone()
    y.tag = n
    y.items = [x.detach()]
    c, d = copy.deepcopy(y), copy.copy(y)
    return c.tag, d.tag, d.items is y.items, c.items is y.items, c.items


WEIGHT, KEPT = torch.nn.Parameter(torch.ones(2)), torch.nn.Buffer(torch.ones(2), persistent=False)


def of_a_class(x, n):
    w = torch.nn.Parameter(x.detach())
    found = [*copy.deepcopy([w, WEIGHT, KEPT]), copy.copy(w), copy.copy(WEIGHT), copy.copy(KEPT)]
    return found, [[type(c).__name__, isinstance(c, torch.nn.Buffer), c.requires_grad, getattr(c, "persistent", 0)] for c in found]


def one_of_two_classes(x, n):
    w = x
    if n > 0:
        w = WEIGHT
    c = copy.copy(w)
    return c, isinstance(c, torch.nn.Parameter)


def parts_of_one(x, n):
    y = x.detach().clone().view(1, 2)
    c = copy.deepcopy({"whole": y, "part": (y[0], y.t()), "other": y * 2})
    c["part"][0].add_(1)
    c["other"].zero_()
    rows = copy.deepcopy(list(y[0].split(1)))
    rows[0].zero_()
    return c, rows, y


@pytest.mark.parametrize(
    "function",
    [one_of_two, in_an_object, by_its_method, with_attributes, of_a_class, one_of_two_classes, parts_of_one],
    ids=lambda function: function.__name__,
)
def test_copies_of_tensors_are_those_of_eager(function):
    for make in (lambda: P.clone().requires_grad_(), P.clone, lambda: P.clone().requires_grad_() * 1):
        agree(lambda make=make: World(function, [], [lambda f, n=n: f(make(), torch.tensor(n)) for n in (0, 1, 0)]))


def test_copies_of_parts_that_share_some_elements_are_refused():
    @dy2st.to_static
    def f(x):
        return copy.deepcopy([x[:2], x[1:]])

    with pytest.raises(dy2st.CaptureError, match="share a part of their memory"):
        f(torch.ones(3))


class Row:
    def __init__(self, number):
        self.numbers = [number]


class Stated:
    def __init__(self):
        self.row = Row(1)

    def __getstate__(self):
        return {"row": self.row}

    def __setstate__(self, state):
        self.__dict__.update(state)


class Copying(Stated):
    def __deepcopy__(self, memo):
        result = Copying.__new__(Copying)
        result.row = copy.deepcopy(self.row, memo)
        return result


@pytest.mark.parametrize("kind", [Stated, Copying])
def test_what_an_object_that_says_how_it_is_copied_holds_is_changed_in_a_branch(kind):
    def make():
        held = kind()

        def f(n):
            new = copy.deepcopy(held)
            if n > 0:
                new.row.numbers.append(n)
            return new

        return f, lambda: held, [torch.tensor(n) for n in (2, 0, 1)]

    agree_with_state(make)


def test_tensors_that_have_become_views_of_others() -> None:
    """A program fits as long as what is copied shares memory as it did."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("u", torch.zeros(4))
            self.register_buffer("v", torch.ones(2))

    def make() -> World:
        o, net, items = Plain(torch.zeros(4)), Net(), [torch.zeros(4), torch.ones(2)]
        o.k = torch.ones(2)  # type: ignore[assignment]

        def f(x, more=None):
            copies = copy.deepcopy([o, net, items, x, more])
            for one in (copies[0].h, copies[1].u, copies[2][0], copies[3]):
                one += 1
            return copies

        def change(g, shares):
            o.k = o.h[1:3] if shares else torch.ones(2)
            net.v = net.u[2:] if shares else torch.ones(2)
            items[1] = items[0][:2] if shares else torch.ones(2)
            return g(P)

        own = [lambda g: g(P), lambda g: change(g, True), lambda g: change(g, False), lambda g: change(g, True)]
        t = torch.zeros(4)
        return World(f, [o, net, items, t], [*own, lambda g: g(t, t[1:3]), lambda g: g(t, o.h[1:3])])

    agree(make, programs=5)


def test_copies_lie_in_memory_as_their_originals() -> None:
    def make() -> World:
        base = torch.arange(8.0).view(2, 4)
        o = Plain(base[:, 2])

        def f(x):
            copies = copy.deepcopy([o.h, torch.ones(2, 1).expand(2, 3)]), copy.deepcopy(base.t())
            return copies, [one.stride() for one in [*copies[0], copies[1]]]

        def change(g):
            o.h = torch.ones(2)
            return g(P)

        return World(f, [base, o], [lambda g: g(P), change])

    agree(make)


def test_attributes_of_ordered_dicts() -> None:
    """A ``state_dict`` says in an attribute of which version it is."""

    def make() -> World:
        layer = torch.nn.Linear(2, 2)
        torch.nn.init.ones_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
        kept: dict[str, Any] = {}

        def f(x):
            if x.sum() > 0:
                kept["copy"] = copy.deepcopy(layer.state_dict())
                own = kept["own"] = collections.OrderedDict(a=x)
                own.note = {"n": 3}  # type: ignore[attr-defined]
            state = kept.get("copy", layer.state_dict())
            return state, layer.state_dict()

        return World(f, [kept, layer], calls(N, P, N))

    agree(make)


class Tagged:
    def __init__(self, v):
        self.v, self.tags = v, []


def chosen_before_all(x):
    a, b = Tagged(1), Tagged(2)
    one = a if x[0] > 0 else b
    copies = copy.deepcopy([one, a, b])
    copies[0].v = 100
    return copies[1].v, copies[2].v, copies[0] is copies[1], a.v, b.v


def chosen_in_a_dict(x):
    rows = [[1], [2], [3]]
    best = rows[int(x[0] > 0)]
    copies = copy.deepcopy({"best": best, "rows": rows})
    copies["best"].append(9)
    return copies["rows"], rows


def chosen_in_an_object(x):
    held = Tagged(0)
    held.pair = [Tagged(1), Tagged(2)]
    held.best = held.pair[0] if x[0] > 0 else held.pair[1]
    held.best, held.pair = held.best, held.pair
    copied = copy.deepcopy(held)
    copied.best.tags.append("best")
    return [one.tags for one in copied.pair], [one.tags for one in held.pair], copied.best is copied.pair[0]


@pytest.mark.parametrize("function", [chosen_before_all, chosen_in_a_dict, chosen_in_an_object])
def test_the_copy_of_one_of_several_is_the_copy_of_that_one(function):
    alike(function, [torch.tensor([3.0]), torch.tensor([-3.0])])
