"""Dicts and sets from outside under keys that only the program knows: attributes, globals, what is in them."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, defaultdict

import pytest
import torch

import dy2st
from dy2st import InputSpec
from tests.oracle import EXECUTORS, same

XS = [torch.tensor(values) for values in ([3, 1, 3, 7], [5, 5, 5, 5], [9, 8, 7, 6], [3, 1, 0, 2])]


class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.d = {}


class Tracker(Base):
    def __init__(self):
        super().__init__()
        self.next_id = 0

    def forward(self, x):
        for value in x:
            if value > 2:
                self.d[self.next_id] = value * 1.0
                self.next_id += 1
        for key in [key for key, value in self.d.items() if value > 7]:
            del self.d[key]
        return len(self.d), self.d.pop(int(x[0]), None) is None


class Counted(Base):
    def forward(self, x):
        for v in x.tolist():
            self.d[v] = self.d.get(v, 0) + 1
        return len(self.d)


class Boxes(Base):
    def forward(self, x):
        n = int(x[0])
        self.d[n] = x * 2.0
        return self.d[n], n in self.d, [k for k in self.d], sum(v.sum() for v in self.d.values())


class BoxesOfAnySize(Base):
    def forward(self, x):
        n = int(x[0])
        self.d[n] = x * 2.0
        return sum(v.sum() for v in self.d.values())


class Alias(Base):
    def __init__(self):
        super().__init__()
        self.e = self.d

    def forward(self, x):
        self.d[int(x[0])] = 1
        self.e[int(x[1])] = 2
        return self.d is self.e, len(self.d), self.d


class Raises(Base):
    def forward(self, x):
        for v in x.tolist():
            if v in self.d:
                raise ValueError(f"again {v}")
            self.d[v] = v
        return len(self.d)


class Caught(Base):
    def forward(self, x):
        try:
            r = self.d[int(x[0])]
        except KeyError as e:
            r = str(e)
        self.d[int(x[0])] = 5
        return str(r)


class Missing(Base):
    def forward(self, x):
        self.d[int(x[0])] = 5
        return self.d[int(x[0]) + 1]


class Changed(Base):
    def forward(self, x):
        for v in x.tolist():
            self.d[v] = self.d.get(v, 0) + 1
        return len(self.d), list(self.d)


class Counts(Base):
    def __init__(self):
        super().__init__()
        self.d = Counter()

    def forward(self, x):
        self.d.update(x.tolist())
        return self.d.most_common(1), self.d


class Totals(Base):
    def __init__(self):
        super().__init__()
        self.d = defaultdict(int)

    def forward(self, x):
        for v in x.tolist():
            self.d[v] += 2
        return len(self.d)


class RecentFirst(Base):
    def __init__(self):
        super().__init__()
        self.d = OrderedDict()

    def forward(self, x):
        hits = 0
        for v in x.tolist():
            if v in self.d:
                self.d.move_to_end(v)
                hits += 1
            else:
                self.d[v] = v * 2
            if len(self.d) > 3:
                self.d.popitem(last=False)
        return hits, list(self.d)


class Seen(Base):
    def __init__(self):
        super().__init__()
        self.d = set()

    def forward(self, x):
        new = 0
        for v in x.tolist():
            if v not in self.d:
                new += 1
                self.d.add(v)
        return new, len(self.d), sorted(self.d)


class ChangedSet(Base):
    def __init__(self):
        super().__init__()
        self.d = {4}

    def forward(self, x):
        self.d.discard(int(x[0]))
        self.d |= {int(x[1])}
        self.d.update(x.tolist()[2:])
        return len(self.d)


class Nested(Base):
    def __init__(self):
        super().__init__()
        self.d = {"a": {}, "b": 3}

    def forward(self, x):
        self.d["a"][int(x[0])] = 1
        return len(self.d["a"]), self.d["b"]


GLOBAL = {}


class InAGlobal(Base):
    def forward(self, x):
        GLOBAL[int(x[0])] = 1
        return len(GLOBAL)


class Dropped(Base):
    def __init__(self):
        super().__init__()
        self.d = {3: 1, 100: 2}

    def forward(self, x):
        r = self.d.pop(int(x[0]), -1)
        self.d[int(x[1])] = 4
        for k in list(self.d):
            if self.d[k] == 1:
                del self.d[k]
        return r, self.d


class Detached(Base):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        n = int(x[0])
        if n in self.d:
            y = self.d[n] + 1
        else:
            y = self.w * x
        self.d[n] = y.detach()
        return y.sum()


class Pairs(Base):
    def forward(self, x):
        self.d[int(x[0]), int(x[1])] = (1, int(x[2]))
        return len(self.d), (3, 1) in self.d


class ListsInside(Base):
    def forward(self, x):
        self.d.setdefault(int(x[0]), []).append(int(x[1]))
        return len(self.d)


class Assigned(Base):
    def forward(self, x):
        d = {}
        for v in x.tolist():
            d[v] = 1
        self.d = d
        return d is self.d, len(self.d)


class Reset(Base):
    def forward(self, x):
        self.d[int(x[0])] = 1
        if x.sum() > 20:
            self.d = {}
        self.d[int(x[1])] = 2
        return len(self.d)


class ReadOnlyWay(Base):
    def forward(self, x):
        if x[0] > 4:
            return len(self.d)
        self.d[int(x[0])] = 1
        return 0


class Mixed(Base):
    def __init__(self):
        super().__init__()
        self.d = {"x": 1}

    def forward(self, x):
        self.d[int(x[0])] = None
        self.d["n"] = int(x[1])
        return len(self.d), self.d["x"]


class ChangedInPlace(Base):
    def __init__(self):
        super().__init__()
        self.d = set()

    def forward(self, x):
        d, n = self.d, int(x[0])
        d -= {n + 1}
        for value in x.tolist():
            d |= {value}
        d &= {n, 7, 5}
        return len(d), d is self.d


class MergedInPlace(Base):
    def forward(self, x):
        d = self.d
        d |= {int(x[0]): 1}
        return len(d), d is self.d


MODULES = [
    ListsInside,
    ChangedInPlace,
    MergedInPlace,
    Counted,
    Boxes,
    Alias,
    Raises,
    Caught,
    Missing,
    Counts,
    Totals,
    RecentFirst,
    Seen,
    ChangedSet,
    Nested,
    InAGlobal,
    Dropped,
    Pairs,
    Assigned,
    Reset,
    ReadOnlyWay,
    Mixed,
]


def run(module, x):
    try:
        return module(x)
    except Exception as error:
        return type(error).__name__, str(error).split("\nraised")[0]


def compare(kind, calls, between=None, spec=None):
    """Call a module as it is written and as a program, and compare what each call gives and leaves; gives the numbers of programs."""
    counts = []
    for executor in EXECUTORS:
        GLOBAL.clear()
        eager, static = kind(), kind()
        programs = dy2st.to_static(static, input_spec=spec, backend=executor)
        for number, x in enumerate(calls):
            for module in (eager, static):
                (between or {}).get(number, lambda module: None)(module)
            before, known = dict(GLOBAL), static.d
            expected = run(eager, x), dict(GLOBAL)
            GLOBAL.clear()
            GLOBAL.update(before)
            kept = dict(known) if isinstance(known, dict) else {}
            same((run(programs, x), dict(GLOBAL)), expected, f"{executor}, call {number}")
            same(static.d, eager.d, f"{executor}, call {number}")
            if not isinstance(static.d, set):
                assert list(static.d) == list(eager.d), (executor, number)
            if kind not in (Assigned, Reset):
                assert static.d is known
            for key, value in kept.items():
                if isinstance(value, torch.Tensor) and key in known and key != int(x[0]):
                    assert known[key] is value, (executor, number, key)
        counts.append(len(programs.forward.program_cache))
    return counts


@pytest.mark.parametrize("kind", MODULES)
def test_one_program_serves_calls_with_other_keys(kind):
    assert compare(kind, XS) == [1 for _ in EXECUTORS]


@pytest.mark.parametrize("kind", MODULES)
def test_one_program_serves_calls_of_any_size(kind):
    assert compare(kind, [XS[0], *XS], spec=[InputSpec([None], "int64")]) == [1 for _ in EXECUTORS]


def test_the_number_that_is_the_next_key_is_an_input_from_the_second_program_on():
    assert compare(Tracker, [*XS, *XS]) == [2 for _ in EXECUTORS]


def test_what_is_in_a_dict_may_be_of_any_size():
    calls = [torch.arange(start, start + size) for start, size in ((3, 4), (1, 2), (7, 3), (3, 1), (9, 5))]
    assert compare(BoxesOfAnySize, calls, spec=[InputSpec([None], "int64")]) == [1 for _ in EXECUTORS]
    assert max(compare(BoxesOfAnySize, calls)) <= len(calls)


def put(key, value):
    return lambda module: module.d.__setitem__(key, value)


def replaced(module):
    module.d = {100: 7}


@pytest.mark.parametrize("change", [put(3, 5), put("a", 1), put(2.5, 7), put(True, 2), lambda module: module.d.clear(), replaced])
def test_a_dict_is_changed_between_calls(change):
    compare(Changed, [*XS, *XS], between={1: change, 3: change})


class Itself(Base):
    def forward(self, x):
        self.d[int(x[0])] = self
        return len(self.d)


def test_what_cannot_be_an_input_is_refused_where_it_is_put_in():
    with pytest.raises(dy2st.DataDependentError, match="put into a dict") as caught:
        dy2st.to_static(Itself())(XS[0])
    assert "self.d[int(x[0])] = " in str(caught.value)


def test_gradients_go_to_parameters():
    eager, module = Detached(), Detached()
    static = dy2st.to_static(module)
    for x in XS:
        for one in (eager, static):
            result = one(x * 1.0)
            if result.requires_grad:
                result.backward()
        same(module.w.grad, eager.w.grad)
        same(module.d, eager.d)


def test_a_dict_among_the_arguments_is_one_of_the_program():
    def f(table, x):
        table[int(x[0])] = 1
        return len(table)

    static, one, other = dy2st.to_static(f), {}, {}
    for x in XS:
        assert static(one, x) == f(other, x)
        assert list(one.items()) == list(other.items())
    assert len(static.program_cache) == 1


def test_another_dict_that_comes_to_be_the_same_one_is_another_program():
    class Two(Base):
        def __init__(self):
            super().__init__()
            self.other = {1: 2}

        def forward(self, x):
            self.d[int(x[0])] = 1
            return len(self.d), self.other[1], len(self.other)

    def shared(module):
        module.other = module.d
        module.d[1] = 9

    compare(Two, XS, between={2: shared})


def test_a_module_with_such_a_dict_is_not_saved(tmp_path):
    static = dy2st.to_static(Counted(), input_spec=[InputSpec([None], "int64")])
    static(XS[0])
    with pytest.raises(dy2st.SaveError, match="another structure after the call"):
        dy2st.save(static, str(tmp_path / "counted.dy2st"))


def test_threads_that_call_one_module_leave_all_keys():
    static = dy2st.to_static(Seen())
    static(XS[0])
    results = []

    def work(start):
        for number in range(start, start + 20):
            results.append(static(torch.full((4,), number))[0])

    work(100)
    threads = [threading.Thread(target=work, args=(1000,))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 40


class Bins(Base):
    def __init__(self):
        super().__init__()
        self.counts, self.lists = Counter(), defaultdict(list)

    def forward(self, x):
        n = int(x[0])
        self.counts[f"bin{n % 3}"] += 1
        self.counts[f"{n > 4}", n & 1] += 2
        self.lists["row%d" % (n // 4)] += [n]
        return self.counts[f"bin{n % 2}"]


def test_texts_of_numbers_that_are_one_of_few_as_keys():
    compare(Bins, XS)


class Named(dict):
    """A dict of a class of the user's, whose methods know Python's own."""


class Tagged(set):
    """A set of such a class."""


def put(held, x):
    held[int(x[0])] = 1


def add(held, x):
    held.add(int(x[0]))


@pytest.mark.parametrize(("held", "function"), [(Named(), put), (Tagged(), add)], ids=["dict", "set"])
def test_one_of_a_class_of_the_users_is_refused_with_the_line(held, function):
    with pytest.raises(dy2st.errors.DataDependentError, match="a number that is known only at run time is put into a") as refused:
        dy2st.to_static(function)(held, torch.tensor([3]))
    assert "test_runtime_keys_outside.py" in str(refused.value)
