"""What dicts and sets do under keys that only the program knows: all methods, ways and errors."""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict

import pytest
import torch

from dy2st import InputSpec
from tests.oracle import agree

XS = [torch.tensor(values) for values in ([3, 1, 3, 7], [5, 5, 5, 5], [9, 8, 7, 6], [0, 1, 0, 2])]


def counted(x):
    d = {}
    for v in x.tolist():
        d[v] = d.get(v, 0) + 1
    return d


def key_error(x):
    d = counted(x)
    return d[7]


def key_error_runtime(x):
    d = counted(x)
    return d[int(x[0]) + 1]


def del_error(x):
    d = counted(x)
    del d[int(x[0])]
    del d[int(x[0])]


def caught(x):
    d = counted(x)
    try:
        return d[int(x.sum())]
    except KeyError as e:
        return str(e), len(d)


def what_class_it_is(x):
    d = counted(x)
    return type(d), isinstance(d, dict), d.__class__, type(d).__name__, hasattr(d, "keys"), callable(d)


def texts(x):
    d = counted(x)
    print(d)
    return f"{d}", str(d), repr(d), "%s" % (d,)


def texts_of_other_kinds(x):
    c = Counter(x.tolist())
    dd = defaultdict(list)
    for i, v in enumerate(x.tolist()):
        dd[v].append(i)
    return f"{c}", str(dd)


def equality(x):
    d, e = counted(x), counted(x)
    e2 = counted(x + 1)
    return d == e, d == e2, d != e, d == {5: 4}, {5: 4} == d, d == 3, d == {}


def views(x):
    d = counted(x)
    return (
        list(d.keys()),
        list(d.values()),
        list(d.items()),
        list(d),
        [*d],
        tuple(d),
        list(reversed(d)),
        list(enumerate(d)),
        list(zip(d, d.values())),
    )


def view_ops(x):
    d = counted(x)
    return 3 in d.keys(), (3, 2) in d.items(), 2 in d.values(), len(d.keys()), len(d.items()), sorted(d.keys() & {3, 5}), 7 in d


def aggregates(x):
    d = counted(x)
    return (
        sum(d.values()),
        max(d),
        min(d),
        max(d.values()),
        sorted(d, key=d.get),
        sorted(d.items(), key=lambda kv: -kv[1]),
        max(d.items(), key=lambda kv: kv[1]),
        any(v > 2 for v in d.values()),
        all(d),
    )


def comprehensions(x):
    d = counted(x)
    return (
        {k: v for k, v in d.items() if v > 1},
        [k + v for k, v in d.items()],
        {v: k for k, v in d.items()},
        sorted({v for v in d.values()}),
    )


def spread(x):
    d = counted(x)
    return {**d, 100: 1}, {100: 1, **d}, dict(d), dict(d, a=1)


def unpack(x):
    d = counted(x)
    first, *rest = d
    return first, rest


def truth_of_a_dict(x):
    d = {}
    if x[0] > 3:
        d[int(x[0])] = 1
    r = 1 if d else 2
    return r, not d, bool(d), len(d)


def merge(x):
    d, e = counted(x), counted(x * 2)
    f = d | e
    d |= {1: 5}
    e.update(d)
    return f, d, e, {1: 2} | d


def pops(x):
    d = counted(x)
    a = d.pop(3, None)
    b = d.pop(int(x[1]), -1)
    c = d.popitem() if d else 0
    return a, b, c, d


def clear(x):
    d = counted(x)
    d.clear()
    d[int(x[0])] = 1
    return d, d.setdefault(int(x[1]), 7), d


def alias(x):
    d = {}
    e = d
    for v in x.tolist():
        e[v] = len(d)
    return d, e, d is e


def in_list(x):
    d = {}
    l = [d, d]
    d[int(x[0])] = 1
    l[1][int(x[1])] = 2
    return l


def branch_choice(x):
    a, b = {}, {}
    d = a if x[0] > 3 else b
    d[int(x[1])] = 1
    return a, b, d


def branch_replaced(x):
    d = {}
    if x[0] > 3:
        d = {int(x[0]): 1}
    d[int(x[1])] = 2
    return d


def maybe_none(x):
    d = None
    if x[0] > 3:
        d = {}
    for v in x.tolist():
        if d is None:
            d = {}
        d[v] = 1
    return d


def loop_carried(x):
    best, cur = {}, {}
    for v in x:
        n = int(v)
        if n in cur:
            if len(cur) > len(best):
                best = cur
            cur = {}
        cur[n] = n * 2
    return best, cur


def while_carried(x):
    cur = {}
    n = int(x[0])
    k = 0
    while k < 5:
        cur[n] = k
        n = (n * 7 + 1) % 10
        if len(cur) > 3:
            cur = {n: k}
        k += 1 + n % 2
    return cur


def mutate_in_loop(x):
    d = counted(x)
    for k in d:
        if d[k] > 1:
            del d[k]
    return d


def grow_in_loop(x):
    d = counted(x)
    for k in d:
        d[k + 1] = 0
    return d


def set_values_in_loop(x):
    d = counted(x)
    for k in d:
        d[k] += 10
    for k, v in d.items():
        d[k] = v * 2
    return d


def copy_keys_loop(x):
    d = counted(x)
    for k in list(d):
        if d[k] == 1:
            del d[k]
    return d


def mixed_keys(x):
    d = {"a": 1, None: 2}
    d[int(x[0])] = 3
    d["b"] = 4
    return d, d.get("a"), d[None], d.get("c"), list(d)


def float_keys(x):
    d = {}
    for v in (x / 2).tolist():
        d[v] = d.get(v, 0) + 1
    d[1] = 5
    return d, 1.5 in d, d.get(2.5), 1 in d


def bool_keys(x):
    d = {}
    d[int(x[0])] = 1
    d[bool(x[1] > 2)] = 2
    return d


def pairs_as_keys(x):
    d = {}
    for a in x.tolist():
        for b in range(2):
            d[a, b] = a + b
    return d, (3, 1) in d, d.get((9, 9)), sorted(d)


def keys_of_several_kinds(x):
    d = {}
    d[int(x[0])] = 1
    d[int(x[0]), int(x[1])] = 2
    d["s", int(x[1])] = 3
    return d


def tensors_values(x):
    d = {}
    for i, v in enumerate(x.tolist()):
        d[v] = d[v] + x[i] if v in d else x[i] * 1.0
    return d, torch.stack(list(d.values()))


def list_values(x):
    d = {}
    for i, v in enumerate(x.tolist()):
        if v not in d:
            d[v] = []
        d[v].append(i)
    return d


def dict_of_sets(x):
    d = {}
    for i, v in enumerate(x.tolist()):
        d.setdefault(v, set()).add(i)
    return {k: len(s) for k, s in d.items()}


def dict_of_sets_returned(x):
    d = {}
    for i, v in enumerate(x.tolist()):
        d.setdefault(v, set()).add(v)
    return d


def nested(x):
    d = {}
    for i, v in enumerate(x.tolist()):
        d.setdefault(v, {})[v + 1] = i
    return {k: sum(s.values()) for k, s in d.items()}


def str_values(x):
    d = {}
    for v in x.tolist():
        d[v] = "odd" if v % 2 else "even"
    return d


def mixed_values(x):
    d = {}
    d[int(x[0])] = None
    d[int(x[1])] = x[1]
    return d.get(int(x[0])), d


def copied(x):
    d = counted(x)
    e, f, g = d.copy(), copy.copy(d), copy.deepcopy(d)
    e[100], f[200], g[300] = 1, 2, 3
    return d, e, f, g


def least_recent_by_order(x):
    d = OrderedDict()
    for v in x.tolist():
        if v in d:
            d.move_to_end(v)
        d[v] = len(d)
        if len(d) > 2:
            d.popitem(last=False)
    return d, list(d)


def orders_compared(x):
    d, e = OrderedDict(), OrderedDict()
    for v in x.tolist():
        d[v] = 1
    for v in reversed(x.tolist()):
        e[v] = 1
    return d == e, d == dict(e)


def counters(x):
    a, b = Counter(x.tolist()), Counter((x + 1).tolist())
    return a + b, a - b, a | b, a & b, a.total(), sorted(a.elements()), a == b, a.most_common(1), a[1000], a


def counter_update(x):
    a = Counter()
    a.update(x.tolist())
    a.update({5: 3})
    a.subtract(x.tolist()[:2])
    del a[99]
    return a


def sets(x):
    a, b = set(x.tolist()), set((x + 1).tolist())
    return sorted(a | b), sorted(a & b), sorted(a - b), sorted(a ^ b), a <= b, a == b, a < (a | b), a.isdisjoint(b), len(a), a


def sets_changed(x):
    a = set(x.tolist())
    a |= {100, 200}
    a -= {5}
    a &= {100, 3, 9, 1, 7}
    a.discard(1)
    b = a.copy()
    b.add(int(x[0]))
    a ^= {3}
    return sorted(a), sorted(b), a.issubset(b), {3} <= b, {3, 100} | a == a | {3, 100}


def removed_from_a_set(x):
    a = set(x.tolist())
    a.remove(5)
    return a


def iterators(x):
    d = counted(x)
    it = iter(d)
    a = next(it)
    b = next(it, -1)
    return a, b, next(iter(d.values())), next(iter(d.items()))


def passed(x):
    def f(d, n):
        d[n] = 1
        return d

    d = {}
    f(d, int(x[0]))
    f(d, int(x[1]))
    return d


def closure(x):
    seen = {}

    def visit(n):
        if n in seen:
            return 0
        seen[n] = n
        return 1

    return sum([visit(v) for v in x.tolist()]), seen


def without_hash(x):
    d = counted(x)
    return d[[1]]


def fromkeys(x):
    return dict.fromkeys(x.tolist()), dict.fromkeys(x.tolist(), 3), OrderedDict.fromkeys(x.tolist())


def from_pairs(x):
    l = x.tolist()
    return dict(zip(l, range(4))), dict((v, v) for v in l), dict([(l[0], 1), (l[1], 2)])


def display(x):
    return {int(x[0]): 1, int(x[1]): 2, 3: 4}


def error_middle(x):
    d = {}
    for v in x.tolist():
        if v in d:
            raise ValueError(f"twice {v}")
        d[v] = 1
    return d


def index_tensor(x):
    d = counted(x)
    return torch.tensor(list(d)), torch.zeros(len(d)), x[list(d.values())[0] - 1]


def attribute_written(x):
    d = counted(x)
    d.foo = 1


def identity_of_a_value(x):
    d = {}
    k = [1]
    d[int(x[0])] = k
    return d[int(x[0])] is k, d


def hash_of_a_dict(x):
    return hash(counted(x))


def ordered_comparison(x):
    return counted(x) < counted(x)


def added(x):
    return counted(x) + counted(x)


def plain_then(x):
    d = {0: 1, 1: 2}
    d[int(x[0])] = 5
    return d, d[0], list(d)


def del_first(x):
    d = counted(x)
    while len(d) > 1:
        del d[next(iter(d))]
    return d


def sorted_by_count(x):
    c = Counter(x.tolist())
    return [k for k, _ in c.most_common(2)], c.most_common()[0][0]


def text_keys(x):
    d = {}
    for v in x.tolist():
        d[f"id{v}"] = v
    return d, "id3" in d, d.get(f"id{int(x[1])}")


def views_kept(x):
    d = counted(x)
    ks, vs = d.keys(), d.values()
    d[1000] = 5
    return list(ks), list(vs), ks


def from_argmax(x):
    d = {}
    d[x.argmax().item()] = 1
    d[x[0].item()] = 2
    return d


def same_line(x):
    a, b = {}, {}
    for v in x.tolist():
        (a if v > 3 else b)[v] = 1
    return a, b


def returned_twice(x):
    d = counted(x)
    return {"d": d, "l": [d, d]}


def walrus(x):
    d = {}
    out = []
    for v in x.tolist():
        if (p := d.get(v)) is not None:
            out.append(p)
        d[v] = v * 2
    return out


def last_item_of_few(x):
    d, n, out = {}, int(x[-1]), []
    for v in x.tolist():
        if len(d) > 1:
            out.append(d.popitem()[1])
            d[v % 4] = 7
        else:
            d.update({n: v})
        n = n + d.setdefault(v % 4, v)
    return d, n, out


def counts_of_a_dict(x):
    d, n = Counter(), int(x[0])
    for v in x.tolist():
        d.update({n: v})
        n = n + d[v] % 3
    return d, n


def set_replaced_in_a_branch(x):
    d = set()
    for v in x.tolist():
        if v > 4:
            d = set()
        d.add(v)
    return sorted(d), d


def set_combined_in_a_loop(x):
    d = {3}
    for v in x.tolist():
        d = d & {3, v % 4, v}
        d |= {v + 1}
        if v in d:
            d -= {v % 4, 3}
    return d, len(d)


def set_of_few_or_many(x):
    d, n = set(), int(x[-1])
    for v in x.tolist():
        if v > 5:
            d |= {3, v % 4}
        else:
            d.add(v % 4)
            d |= {n, v}
        d -= {v % 3}
    return d


def dict_or_table(x):
    d, e = {"a": 1}, {}
    e[int(x[0])] = 2
    if x[1] > 4:
        d = e
    return d, len(d)


def set_alias(x):
    a = set()
    b = a
    a |= {int(x[0])}
    return sorted(b), a is b


def set_alias_changed_twice(x):
    a = {1, 3}
    b = a
    a &= {int(x[0]), 1}
    c = a
    a ^= {int(x[1])}
    return sorted(b), sorted(c), a is b


def dict_alias(x):
    a = {}
    b = a
    a |= {int(x[0]): 1}
    return b, a is b


def counter_alias(x):
    a = Counter()
    b = a
    a += Counter(x.tolist())
    a -= Counter([3])
    a |= Counter([int(x[0])] * 5)
    return b, a is b


def counter_alias_cut(x):
    a = Counter(x.tolist())
    b = a
    a &= Counter([3, 3, 5])
    return b, a is b


def ordered_alias(x):
    a = OrderedDict()
    b = a
    a |= {int(x[0]): 1}
    return b, a is b


def sets_combined_with_known_ones(x):
    s = set(x.tolist())
    return (
        sorted({1, 2} | s),
        sorted({1, 3} & s),
        sorted({1, 3, 9} - s),
        sorted({1, 3} ^ s),
        sorted(frozenset([1, 7]) | s),
        sorted({1: 2}.keys() & s),
        sorted({1: 2}.keys() - s),
    )


PROGRAMS = [
    counted,
    key_error,
    key_error_runtime,
    del_error,
    caught,
    what_class_it_is,
    texts,
    texts_of_other_kinds,
    equality,
    views,
    view_ops,
    aggregates,
    comprehensions,
    spread,
    unpack,
    truth_of_a_dict,
    merge,
    pops,
    clear,
    alias,
    in_list,
    branch_choice,
    branch_replaced,
    maybe_none,
    loop_carried,
    while_carried,
    mutate_in_loop,
    grow_in_loop,
    set_values_in_loop,
    copy_keys_loop,
    mixed_keys,
    float_keys,
    bool_keys,
    pairs_as_keys,
    keys_of_several_kinds,
    tensors_values,
    list_values,
    dict_of_sets,
    dict_of_sets_returned,
    nested,
    str_values,
    mixed_values,
    copied,
    least_recent_by_order,
    orders_compared,
    counters,
    counter_update,
    sets,
    sets_changed,
    removed_from_a_set,
    iterators,
    passed,
    closure,
    without_hash,
    fromkeys,
    from_pairs,
    display,
    error_middle,
    index_tensor,
    attribute_written,
    identity_of_a_value,
    hash_of_a_dict,
    ordered_comparison,
    added,
    plain_then,
    del_first,
    sorted_by_count,
    text_keys,
    views_kept,
    from_argmax,
    same_line,
    returned_twice,
    walrus,
    set_alias,
    set_alias_changed_twice,
    dict_alias,
    counter_alias,
    counter_alias_cut,
    ordered_alias,
    sets_combined_with_known_ones,
    last_item_of_few,
    counts_of_a_dict,
    set_replaced_in_a_branch,
    set_combined_in_a_loop,
    set_of_few_or_many,
    dict_or_table,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_a_dict_does(program):
    agree(program, [(x,) for x in XS])


@pytest.mark.parametrize(
    "program", [program for program in PROGRAMS if program is not loop_carried], ids=lambda program: program.__name__
)
def test_what_a_dict_does_with_any_sizes(program):
    agree(program, [(x,) for x in XS], spec=[InputSpec([None], "int64")])
