"""Keys, members and names that a tensor chooses: what uses one is done for each that it may be."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import types
from typing import Any

import pytest
import torch

import dy2st
from tests.oracle import agree

CALLS = [torch.tensor(row) for row in ([1.0, -1.0, 2.0], [-1.0, 1.0, -2.0], [1.0, 1.0, 1.0], [-1.0, -2.0, -3.0], [0.0, 0.5, 0.25])]


def key(x):
    return "a" if x.sum() > 0 else "b"


def key_of_three(x):
    return "a" if x.sum() > 1 else ("b" if x.sum() < -1 else "c")


class Mode(enum.Enum):
    A = 1
    B = 2


def mode(x):
    return Mode.A if x.sum() > 0 else Mode.B


@dataclasses.dataclass(frozen=True)
class Spot:
    name: str
    number: int = 0


Point = collections.namedtuple("Point", "name number")


def methods(x):
    d = {"a": 1}
    found = d.get(key(x)), d.get(key(x), 5), d.setdefault(key(x), 7), d.pop(key(x)), d.pop(key(x), None)
    return found, sorted(d), d.__contains__(key(x))


def one_object_under_each(x):
    d = {}
    d.setdefault(key(x), []).append(1)
    made = collections.defaultdict(list)
    made[key(x)].append(2)
    made[key(x)].append(3)
    return d.get("a"), d.get("b"), dict(made)


def counted(x):
    counts, numbers = collections.Counter(), {}
    for row in x:
        counts[key_of_three(row)] += 1
        numbers[key(row)] = numbers.get(key(row), 0) + 1
    return counts["a"], counts["b"], counts["c"], len(counts), numbers.get("a"), numbers.get("b")


def counted_in_a_loop(x):
    d, trips = {}, int(x.sum().clamp(min=0, max=3))
    for i in range(trips):
        d[key(x[i])] = d.get(key(x[i]), 0) + i
    return d.get("a"), d.get("b"), len(d)


def counter(x):
    counts = collections.Counter([key(x), "a", key(x)])
    counts.update([key(x), "a"])
    counts.subtract({key(x): 3})
    return counts["a"], counts["b"], dict(collections.Counter({key(x): 2}))


def displays(x):
    made = {key(x): 1, "b": 2, "c": 3}
    return made, {k: v for k, v in [(key(x), 1), ("b", 2)]}["b"], dict([(key(x), 1)]), dict(zip([key(x)], [1]), z=2)


def into_another(x):
    first, second = {"a": 1, "b": 5}, {key(x): 2}
    both, either = {**first, **second}, first | second
    first |= second
    copied = dict(second)
    copied.update([(key(x) + "q", 3)], z=key(x))
    return both, either, first, second, sorted(copied), dict.fromkeys([key(x)], 0)


def sets(x):
    made = {key(x), "c"}
    found = sorted(made | {"a"}), sorted(made & {"a", "c"}), key(x) in made
    made.discard(key(x))
    made.add(key_of_three(x))
    frozen = frozenset([key(x), "a"])
    return found, sorted(made), len(set([key(x), "a"])), len(frozen), "b" in frozen


def seen_before(x):
    seen, kept = set(), []
    for row in x:
        if key(row) not in seen:
            seen.add(key(row))
            kept.append(row)
    return len(kept), sorted(seen)


def inside_of_other_keys(x):
    d = {("a", 1): 1, Point("b", 1): 2, Spot("a"): 3, Spot("b"): 4}
    d[key(x), 1] += 5
    d[Point(key(x), 2)] = 3
    return d["a", 1], d["b", 1], d[Spot(key(x))], Spot(key(x)) in d, d.get((key(x), 2)), Spot(key(x)) == Spot("a")


def texts(x):
    flag = int(x.sum() > 0)
    d = {"k0": 1, "k1": 2, "a_c": 3}
    d[f"k{flag}"] += 5
    d[f"z{flag}"] = 3
    d[f"{key(x)}_{key_of_three(x)}"] = 4
    return len(d), d["k0"], d["k1"], d["a_c"], d.get("%s_c" % key(x)), d.get(key(x) + "_b")


def numbers(x):
    flag, ten = int(x.sum() > 0), 10 if x.sum() > 0 else 20
    d: dict[Any, Any] = {flag: x, flag + 1: x * 2, ten: 1, ten * 2: 2}
    remainders = {0: 0, 1: 0, 2: 0}
    for row in x:
        remainders[int(row) % 3] += 1
    return sorted(d), d.get(20), remainders


def any_number_that_is_there(x):
    d = {number: 0 for number in range(-3, 3)}
    for row in x:
        d[int(row)] += 1
    return d


def any_text_that_is_there(x):
    names = {f"n{number}": number for number in range(-3, 3)}
    names[f"n{int(x[0])}"] += 10
    return names[f"n{int(x[1])}"], names.get(f"n{int(x[2])}"), f"n{int(x[0])}" in names, names


def constants(x):
    dtype, name, function = (
        torch.float32 if x.sum() > 0 else torch.float64,
        None if x.sum() > 0 else "a",
        torch.sin if x.sum() > 0 else torch.cos,
    )
    d = {mode(x): 1, dtype: 2, name: 3, function: 4}
    return (
        [d.get(known) for known in (Mode.A, Mode.B, torch.float32, None, "a", torch.sin, torch.cos)],
        d[dtype],
        Mode(mode(x).value).name,
    )


def attributes(x):
    o = types.SimpleNamespace(a=1, b=2)
    setattr(o, key(x), getattr(o, key(x)) + 5)
    asked = hasattr(o, key(x)), hasattr(o, key(x) + "z"), getattr(o, key(x) + "z", 9)
    delattr(o, key(x))
    asked += (getattr(x, "sin" if x.sum() > 0 else "cos")(), getattr(torch, "exp" if x.sum() > 0 else "cos")(x))
    return asked, hasattr(o, "a"), hasattr(o, "b")


def arguments(x):
    def sums(a=0, b=0):
        return a * 10 + b

    @functools.lru_cache(None)
    def doubled(name, times=2):
        return name * times

    return sums(**{key(x): 3}), doubled(key(x)), doubled(key(x), times=3)


def matched(x):
    match {key(x): 5}:
        case {"a": value}:
            return value
        case {"b": value, **rest}:
            return value + 1, rest


def searched(x):
    items = ["a", "b", "a"]
    found = items.index(key(x)), items.count(key(x)), [key(x), "b"].index("b"), (key(x), "b").count("a")
    items.remove(key(x))
    return found, items, hash(key(x)) == hash("a"), mode(x) is mode(x)


def ordered(x):
    ranks = {"a": 2, "b": 1, "c": 0}
    return sorted(["a", "b", "c"], key=lambda name: (name == key(x), ranks[name])), sorted([key(x), "b", "c"], key=ranks.get)


def made_tables(x):
    counts, table = collections.Counter(["z"]), collections.defaultdict(list)
    counts["z"] += int(x.sum() > 0)
    table[key(x)].append(x)
    return counts, table, counts


modules = torch.nn.ModuleDict({"a": torch.nn.Identity(), "b": torch.nn.Flatten(0)})


def library(x):
    known = types.MappingProxyType({"a": 1, "b": 2})
    return modules[key(x)](x), known[key(x)], known.get(key(x)), collections.ChainMap({"a": 1}, {"b": 2})[key(x)]


@pytest.mark.parametrize(
    "program",
    [
        methods, one_object_under_each, counted, counted_in_a_loop, counter, displays, into_another, sets, seen_before,
        inside_of_other_keys, texts, numbers, any_number_that_is_there, any_text_that_is_there, constants, attributes, arguments, matched, searched,
        ordered, made_tables, library,
    ],
)  # fmt: skip
def test_a_key_that_a_tensor_chooses_is_used_as_in_eager(program):
    agree(program, CALLS)


def item_missing(x):
    return {"a": 1}[key(x)]


def changed_missing(x):
    d = {"a": 1}
    d[key(x)] += 1
    return d


def deleted_missing(x):
    d = {"a": 1, "c": 2}
    del d[key(x)]
    return d


def popped_missing(x):
    d = {"a": 1, "c": 2}
    return d.pop(key(x)), d


def removed_missing(x):
    s = {"a"}
    s.remove(key(x))
    return len(s)


def not_in_list(x):
    return ["a", "c"].index(key(x))


@pytest.mark.parametrize("program", [item_missing, changed_missing, deleted_missing, popped_missing, removed_missing, not_in_list])
def test_a_chosen_key_that_is_missing_raises_eagers_error(program):
    agree(program, CALLS)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {"a": torch.zeros(3), "b": torch.zeros(3)}
        self.layers = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3), "b": torch.nn.Linear(3, 3)})

    def forward(self, x):
        self.seen[key(x)] = self.seen[key(x)] + x
        return self.layers[key(x)](x), self.seen.get(key(x[:1])), f"{key(x)}!"


def test_state_under_a_chosen_key_is_kept_and_saved(tmp_path):
    model = Model()
    agree(model, CALLS)
    dy2st.save(dy2st.to_static(Model()), tmp_path / "m.dy2st", input_spec=[dy2st.InputSpec([3])])
    torch.manual_seed(0)
    fresh = Model()
    dy2st.save(dy2st.to_static(fresh), tmp_path / "n.dy2st", input_spec=[dy2st.InputSpec([3])])
    loaded, eager = dy2st.load(tmp_path / "n.dy2st"), fresh
    for x in (*CALLS, *CALLS):
        for expected, found in zip(eager(x), loaded(x)):
            assert torch.equal(expected, found) if isinstance(expected, torch.Tensor) else expected == found


def test_made_tables_are_saved(tmp_path):
    def f(x):
        return made_tables(x)

    dy2st.save(dy2st.to_static(f), tmp_path / "m.dy2st", input_spec=[dy2st.InputSpec([3])])
    loaded = dy2st.load(tmp_path / "m.dy2st")
    for x in CALLS:
        counts, table, again = loaded(x)
        assert type(counts) is collections.Counter and counts is again and counts == f(x)[0]
        assert table.default_factory is list and table.keys() == f(x)[1].keys()


def nobody_knows_the_number(x):
    d = {}
    d[int(x.sum())] = 1
    return d


def nobody_knows_the_text(x):
    return {f"{int(x.sum())}": 1}


class Hashed:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return len({self.name: 1})

    def __eq__(self, other):
        return True


@pytest.mark.parametrize("program", [nobody_knows_the_number, nobody_knows_the_text])
def test_a_key_known_only_at_run_time(program):
    agree(program, [(x,) for x in CALLS])


def test_code_that_is_not_converted_never_gets_a_choice_as_key():
    @dy2st.not_to_static
    def plain(box):
        return {box[0]["k"]: 1}

    def f(x):
        return plain([{"k": key(x)}])

    with pytest.raises(dy2st.DataDependentError, match="looked up, or put into a dict or set, by code that was not converted"):
        dy2st.to_static(f)(CALLS[0])


def test_counts_under_many_keys():
    def counts(x):
        table = dict.fromkeys(range(-3, 10), 0)
        for v in x:
            table[int(v)] += 1
        return table

    agree(counts, CALLS)


def test_pairs_in_place_of_keys():
    def counts(x):
        pairs = []
        for v in x:
            key, at = int(v), -1
            for position, pair in enumerate(pairs):
                if pair[0] == key:
                    at = position
                    break
            if at >= 0:
                pairs[at] = (key, pairs[at][1] + 1)
            else:
                pairs.append((key, 1))
        return pairs

    agree(counts, CALLS)


def test_new_keys_of_a_dict_among_the_arguments():
    def counts(table, x):
        for v in x:
            table[int(v)] = table.get(int(v), 0) + 1
        return table

    static, one, other = dy2st.to_static(counts), {}, {}
    for x in CALLS:
        assert static(one, x) is one
        assert list(one.items()) == list(counts(other, x).items())
