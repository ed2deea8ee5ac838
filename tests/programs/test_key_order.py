"""The order of a dict's keys after branches and loops: Python's, on each way."""

from __future__ import annotations

import collections

import pytest
import torch

import dy2st
from dy2st.capture.looping.carries import Carries
from tests import worlds
from tests.oracle import agree
from tests.programs.values import signs


def other_order_in_each_branch(x):
    d = {}
    if x.sum() > 0:
        d["a"], d["b"] = x, x * 2
    else:
        d["b"] = x
        d["a"] = x * 3
    return d


def written_again(x):
    d = {}
    if x.sum() > 0:
        d["a"] = x
    d["b"] = x
    d["a"] = x * 2
    return [v for v in d.values()]


def first_on_one_side(x):
    d = {}
    if x.sum() > 0:
        d["b"] = x
    else:
        d["a"] = x
        d["b"] = x
    return f"{list(d.items())}"


def key(x):
    return "a" if x.sum() > 0 else "b"


def counted(x):
    counts, numbers = collections.Counter(), {}
    for row in x:
        counts["p" if row > 0.5 else ("n" if row < -0.5 else "z")] += 1
        numbers[key(row)] = numbers.get(key(row), 0) + 1
    return counts, numbers, list(numbers), len(numbers)


def counted_in_a_loop(x):
    d, trips = {}, int(x.sum().clamp(min=0, max=2))
    for i in range(trips):
        d[key(x[i])] = d.get(key(x[i]), 0) + i
    return d


def grouped(x):
    groups = {}
    for row in x:
        groups.setdefault(key(row), []).append(row)
    return {name: torch.stack(rows).sum() for name, rows in groups.items()}


def moved_to_an_end(x):
    d = collections.OrderedDict(a=1, b=2, c=3)
    d.move_to_end(key(x))
    d.move_to_end("c", last=False)
    return list(d), d


def taken_out_and_put_in(x):
    d = {"a": 1, "b": 2, "c": 3}
    d[key(x)] = d.pop(key(x)) + 1
    if x[1] > 0:
        del d["c"]
    d["c"] = 5
    return d, " ".join(d), max(d)


def copies(x):
    d = written_again_in(x)
    return dict(d), {**d, "q": 1}, d.copy(), d | {"r": 2}, [name for name in d if name != "b"], next(iter(d))


def written_again_in(x):
    d = {}
    if x.sum() > 0:
        d["a"] = 1
    d["b"] = 2
    d["a"] = 3
    return d


def last_of_all(x):
    d = {}
    for row in x:
        d.pop("last", None)
        d[key(row)] = row
        d["last"] = row
    return d


PROGRAMS = [
    other_order_in_each_branch, written_again, first_on_one_side, counted, counted_in_a_loop, grouped, moved_to_an_end,
    taken_out_and_put_in, copies, last_of_all,
]  # fmt: skip
CALLS = [torch.tensor(row) for row in ([1.0, -1.0], [-1.0, 1.5], [1.0, 1.0], [-1.0, -2.0], [0.0, 0.25])]


@pytest.mark.parametrize("program", PROGRAMS)
def test_order_of_each_way(program):
    agree(program, CALLS)


def _items_that_differ(x):
    d = {"a": 1, "b": 2}
    if x.sum() > 0:
        d["z"] = 3
    else:
        d["b"], d["a"] = d.pop("b"), d.pop("a")
    return d


def starred_in_a_list(x):
    d = _items_that_differ(x)
    return [*d], [0, *d.values()], len([*d])


def starred_in_a_tuple(x):
    return (*_items_that_differ(x), 1)


def starred_in_a_call(x):
    def given(*args):
        return args

    d = _items_that_differ(x)
    return given(*d), max(*d.values())


def starred_members_of_a_set(x):
    members = {1, 2}
    if x.sum() > 0:
        members.add(3)
    return sorted([*members]), len([*members])


def mapped_over(x):
    return list(map(lambda key: key + "!", _items_that_differ(x)))


@pytest.mark.parametrize(
    "program", [starred_in_a_list, starred_in_a_tuple, starred_in_a_call, starred_members_of_a_set, mapped_over]
)
def test_keys_that_are_spread(program):
    agree(program, signs())


def taken_apart(x):
    first, *rest = _items_that_differ(x)
    return first, rest


def joined_by_a_generator(x):
    return ",".join(key for key in _items_that_differ(x))


def yielded(x):
    def keys():
        yield from _items_that_differ(x)

    return [key for key in keys()]


@pytest.mark.parametrize("program", [taken_apart, joined_by_a_generator])
def test_keys_that_python_steps_through(program):
    agree(program, signs())


def test_keys_that_a_generator_steps_through():
    with pytest.raises(dy2st.errors.CaptureError, match="what this iterates over is known only when the program runs"):
        dy2st.to_static(yielded)(signs()[0])


outside: dict[str, int] = {}
places = collections.OrderedDict(a=1, b=2, c=3)


def test_dicts_from_outside_keep_the_order_of_each_way():
    def f(x):
        if x.sum() > 0:
            outside["a"], outside["b"] = 1, 2
        else:
            outside["b"], outside["a"] = 3, 4
        places.move_to_end(key(x))
        return list(outside)

    for call in CALLS[:4]:
        expected = []
        for function in (f, dy2st.to_static(f)):
            outside.clear()
            for name in "abc":
                places.move_to_end(name)
            expected.append((function(call), list(outside.items()), list(places)))
        assert expected[0] == expected[1]


def test_a_loaded_program_gives_keys_in_eager_order(tmp_path):
    dy2st.save(dy2st.to_static(counted), tmp_path / "m.dy2st", input_spec=[dy2st.InputSpec([2])])
    loaded = dy2st.load(tmp_path / "m.dy2st")
    for call in CALLS:
        assert [list(part) for part in loaded(call)[:3]] == [list(part) for part in counted(call)[:3]]


def many_orders(x):
    d = {}
    for row in torch.cat([x, x + 1, x + 2]):
        d["a" if row > 2 else "b" if row > 1 else "c" if row > 0 else "d"] = row
    return list(d)


STATE = collections.defaultdict(dict)


def into_state(xs):
    for x in xs:
        if x.mean() > 0:
            STATE["a"]["last"] = x
        else:
            STATE["b"]["last"] = x
        for bound, name in enumerate("cde"):
            if x.mean() > bound + 1:
                STATE[name]["last"] = x
            elif x.mean() < -bound - 3 and name in STATE:
                del STATE[name]


def test_keys_that_come_into_a_dict_from_outside_in_any_order():
    static = dy2st.to_static(into_state, input_spec=[dy2st.InputSpec([None, 1])])
    for call in ([-1, 1], [1, -1], [3, 5, -3], [5, -5, 5], [-3, 4, 3], [5, -3, -4, 2, 3, 4, 5], []):
        results = []
        for function in (into_state, static):
            STATE.clear()
            function(torch.tensor(call, dtype=torch.float32)[:, None])
            results.append([(key, value["last"].item()) for key, value in STATE.items()])
        assert results[0] == results[1]
    assert len(static.program_cache) == 1


def made_on_some_ways(state, total, x, index, n):
    for i in range(n):
        if x.sum() > i:
            own = state["p"]
            if len(own) == 0:
                own["step"] = x * 0
                own["mean"] = x * 0
            own["step"] = own["step"] + 1
            own["mean"] = own["mean"] * x[index]
        total += x[index]  # fails after what it has written, which the program records
    return total


def test_loops_that_record_dicts_with_keys_of_some_ways_are_captured_a_few_times(monkeypatch):
    monkeypatch.setattr(Carries, "attempts", 10)

    def make():
        state, total = collections.defaultdict(dict), torch.zeros(())
        rows = ((0.0, 1, 2), (1.0, 1, 0), (1.0, 1, 2), (4.0, 5, 3), (-1.0, 1, 2), (2.0, 0, 4))
        inputs = [(torch.full((3,), value), torch.tensor(index), torch.tensor(n)) for value, index, n in rows]
        return worlds.World(made_on_some_ways, [state, total], [lambda f, given=given: f(state, total, *given) for given in inputs])

    worlds.agree(make)


def test_many_key_orders():
    agree(many_orders, CALLS)


def test_a_text_of_a_dict_in_many_orders_is_refused():
    def function(x):
        d = {}
        for row in torch.cat([x, x + 1, x + 2]):
            d["a" if row > 2 else "b" if row > 1 else "c" if row > 0 else "d"] = 1
        return str(d)

    with pytest.raises(dy2st.CaptureError, match="the order of a dict's keys depends on a branch or loop"):
        dy2st.to_static(function)(CALLS[0])


def same_order(x):
    d = {"z": x}
    if x.sum() > 0:
        d["a"] = x
    d["a"] = x * 2
    if x.sum() > 1:
        d["b"] = x
        d["c"] = x
    else:
        d["c"] = x
    return d, list(d), [key for key in d]


def filled_by_a_loop(x):
    d = {"c": x.abs() + 1}
    while d["c"].sum() < 50:
        d["b"] = x
        d["c"] = d["c"] * 2
        d["a"] = x
    return d


def asked_for_no_order(x):
    d = {}
    if x.sum() > 0:
        d["a"] = x
    d["b"] = x
    d["a"] = x * 2
    return d["a"], d.get("b"), len(d), "c" in d, sorted(d)


@pytest.mark.parametrize("program", [same_order, filled_by_a_loop])
def test_order_that_is_known(program):
    agree(program, signs())


def test_order_that_nobody_asks_for():
    agree(asked_for_no_order, signs())


def _taken_and_put_back(x, r):
    if x > 1:
        value = r.pop("s", 0)
        r["s"] = value


def _cleared_and_filled(x, r):
    r.clear()
    for name in ("s", "m", "l"):
        if x < 1:
            r["stop"] = name
            break
        x = x - 1
        r[name] = 0


def _moved_at_the_top(x, r):
    value = r.pop("stop", 0)
    if x > 1:
        r["z"] = value
    r["stop"] = x


def _moved_in_each_branch(x, r):
    for i in range(3):
        if x > i:
            r.pop("s", None)
            r["s"] = i
        else:
            r.pop("stop", None)
            r["stop"] = i


def _cleared_in_a_branch(x, r):
    if x > 1:
        r.clear()
        r["stop"], r["s"] = 1, 2
    else:
        r.pop("s", None)
        r["s"], r["k"] = 5, 3


def _reversed(x, r):
    old = dict(r)
    r.clear()
    for name in reversed(list(old)):
        r[name] = old[name]
    if x > 1:
        r["n"] = r.pop("s", 1)


def _moved_in_a_loop(x, r):
    r.setdefault("q", x)
    if x > 2:
        r |= {"s": r.pop("s", 0)}
    while x > 0:
        x = x - 1
        r["stop"] = r.pop("stop", 0)


def _set_and_then_cleared(x, r):
    if x > 1:
        r["spike"] = 2
    if x < 2:
        r.clear()
    return len(r)


def _copied_after_a_move(x, r):
    if x > 1:
        r["s"] = r.pop("s", 0)
    return {**r, "last": x}, list(r)


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
@pytest.mark.parametrize(
    "program",
    [
        _taken_and_put_back, _cleared_and_filled, _moved_at_the_top, _moved_in_each_branch, _cleared_in_a_branch, _reversed,
        _moved_in_a_loop, _set_and_then_cleared, _copied_after_a_move,
    ],
)  # fmt: skip
def test_keys_that_were_there_come_back(program, kind):
    def make():
        table = kind({"s": 0, "stop": 7})
        numbers = (2.0, 0.0, 1.5, 3.0, 0.5, 2.5, 2.0)
        return worlds.World(program, [table], [lambda call, v=v: call(torch.tensor(v), table) for v in numbers])

    worlds.agree(make)


def _raises_first(x, r):
    if x > 1:
        raise ValueError("no")
    r["s"] = r.pop("s")


def _asserts_first(x, r):
    assert x < 1, "no"
    r["s"] = r.pop("s")
    r["stop"] = r.pop("stop") + 1


@pytest.mark.parametrize("program", [_raises_first, _asserts_first])
def test_keys_stay_where_they_are_when_an_exception_comes_first(program):
    def make():
        table = {"s": 0, "stop": 7}
        numbers = (2.0, 0.0, 3.0, 0.5)
        return worlds.World(program, [table], [lambda call, v=v: _message(call, torch.tensor(v), table) for v in numbers])

    worlds.agree(make)


def _message(call, *arguments):
    try:
        return call(*arguments)
    except (ValueError, AssertionError) as error:
        return type(error).__name__


def _held_items(x, d):
    items = d.items()
    if x > 0:
        d["a"] = 1
    return list(items)


def _held_keys_of_removed(x, d):
    names = d.keys()
    if x > 0:
        d.pop("q", None)
    return names & {"q"}


def _held_where_the_order_changes(x, d):
    values = d.values()
    if x > 0:
        d["q"] = d.pop("q")
    return [*values]


@pytest.mark.parametrize("program", [_held_items, _held_keys_of_removed, _held_where_the_order_changes])
def test_views_that_are_held_are_refused_where_a_tensor_decides_the_keys(program):
    with pytest.raises(dy2st.CaptureError, match="a view of a dict is held"):
        dy2st.to_static(program)(torch.tensor(1.0), {"q": 5, "r": 6})


def _asked_for_where_they_are_used(x, d):
    for key, value in d.items():
        x = x + value + len(key)
    if x > 20:
        d["a"] = 1
    return [key for key in d.keys()], x


def test_views_that_are_not_held():
    def make():
        table = {"q": 5, "r": 6}
        return worlds.World(
            _asked_for_where_they_are_used, [table], [lambda call, v=v: call(torch.tensor(v), table) for v in (1.0, 9.0, 2.0)]
        )

    worlds.agree(make)


def _two_orders(x):
    table = {}
    if x.sum() > 0:
        table["a"] = x
        table["b"] = x + 1
    else:
        table["b"] = x
        table["a"] = x + 1
    return table


def _key(x):
    return "a" if x.sum() > 0 else "c"


def _made_in_a_branch(w, x, n):
    if n > 1:
        w["d"] = {_key(x): x, "a": x + 1}
    return list(w["d"])


def _under_two_names(w, x, n):
    name = None
    if n > 0:
        w["d"] = name = {_key(x): x, "b": x, "a": x + 1}
    same = w["d"] is name
    w["d"]["z"] = x
    return same, list(w["d"])


def _in_a_tuple(w, x, n):
    return (_two_orders(x), x) if n > 0 else None


def _in_a_list(w, x, n):
    if n > 0:
        w["last"] = [_two_orders(x)]


def _returned_early(w, x, n):
    table = {_key(x): x, "a": x + 1}
    if n > 1:
        return table
    table["z"] = x
    return table


def _made_in_a_loop(w, x, n):
    while n > 0:
        w["d"] = _two_orders(x - n)
        n = n - 1
    return list(w["d"])


def _replaced_in_a_loop(w, x, n):
    table = {"a": x, "c": x, "q": x}
    while n > 0:
        table = {_key(x): x, "q": n * x, "a": x}
        n = n - 1
    return table, list(table)


def _nested_in_a_loop(w, x, n):
    pair = None
    while n > 0:
        pair = (x, _two_orders(x - n))
        n = n - 1
    return pair


def _reversed(w, x, n):
    if n > 0:
        w["d"] = dict(reversed(list(_two_orders(x).items())))
    return list(w["d"])


_MADE_ANEW = [
    _made_in_a_branch, _under_two_names, _in_a_tuple, _in_a_list, _returned_early, _made_in_a_loop, _replaced_in_a_loop,
    _nested_in_a_loop, _reversed,
]  # fmt: skip


@pytest.mark.parametrize("function", _MADE_ANEW)
def test_dicts_of_branches_and_loops_keep_the_order_of_the_way(function):
    given = [(torch.tensor([1.0, 2.0]), 1), (torch.tensor([-1.0, 0.5]), 2), (torch.tensor([4.0, 2.0]), 3), (torch.zeros(2), 0)]

    def make():
        w = {"d": {"q": torch.zeros(2)}, "last": None}
        calls = [lambda run, x=x, n=n: run(w, x, torch.tensor(n)) for x, n in (*given, *given[::-1])]
        return worlds.World(function, [w], calls)

    worlds.agree(make)


class Written(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(2, dtype=torch.float64))

    def forward(self, x):
        for row in x:
            if row > 0:
                self.low, self.high = row, row + 1
            else:
                self.high, self.low = row - 1, row
        return x.to(next(self.parameters()).dtype) * next(iter(self.parameters())), [name for name, _ in self.named_buffers()]


def test_attributes_written_in_any_order_leave_the_parameters_in_theirs():
    agree(Written(), [(call,) for call in CALLS], programs=2)
