"""Dicts and sets that the function makes, under keys that only the program knows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest
import torch
from torch.utils import _pytree as pytree

import dy2st
from dy2st import InputSpec
from tests.oracle import agree

XS = [torch.tensor(values) for values in ([3, 1, 3, 7], [5, 5, 5, 5], [9, 8, 7, 6], [0, 1, 0, 2])]
EDGES = [
    torch.tensor(pairs)
    for pairs in ([[0, 1], [1, 2], [3, 4], [0, 1]], [[0, 3], [1, 2], [3, 4], [2, 0]], [[4, 4], [4, 3], [3, 4], [4, 4]])
]


def spec_of(arguments):
    return [InputSpec([None] * value.dim(), value.dtype) for value in arguments]


def cycle_length(nxt, x):
    seen, n = set(), int(x)
    while n not in seen:
        seen.add(n)
        n = int(nxt[n])
    return n, len(seen)


def histogram(x):
    counts = {}
    for v in x.tolist():
        counts[v] = counts.get(v, 0) + 1
    return counts


def most_frequent(x):
    counts = Counter(x.tolist())
    return counts.most_common(2)


def most_frequent_key(x):
    c = Counter()
    for v in x.tolist():
        c[v] += 1
    return max(c, key=c.get), len(c), sorted(c)


def counted_by_default(x):
    d = defaultdict(int)
    for v in x.tolist():
        d[v] += 1
    return d


def positions_of_each(x):
    d = defaultdict(list)
    for i, v in enumerate(x.tolist()):
        d[v].append(i)
    return dict(d)


def union_find(edges, n):
    parent = {}
    for i in range(int(n)):
        parent[i] = i

    def find(a):
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        return a

    for a, b in edges.tolist():
        ra, rb = find(a), find(b)
        if ra != rb:
            parent[ra] = rb
    roots = set()
    for i in parent:
        roots.add(find(i))
    return len(roots)


def breadth_first(adj, start):
    frontier = [int(start)]
    seen = {int(start)}
    order = []
    while frontier:
        u = frontier.pop(0)
        order.append(u)
        for v in range(adj.shape[0]):
            if adj[u, v] > 0 and v not in seen:
                seen.add(v)
                frontier.append(v)
    return order


def depth_first(edges, start):
    adj = {}
    for a, b in edges.tolist():
        adj.setdefault(a, []).append(b)
    stack = [int(start)]
    visited = set()
    while stack:
        u = stack.pop()
        if u in visited:
            continue
        visited.add(u)
        for v in adj.get(u, []):
            stack.append(v)
    return sorted(visited)


def memo(ns):
    memo = {}
    out = []
    for n in ns.tolist():
        if n in memo:
            out.append(memo[n])
            continue
        k, steps = n, 0
        while k > 1:
            k = k // 2
            steps += 1
        memo[n] = steps
        out.append(steps)
    return out, len(memo)


def least_recently_used(tokens, emb):
    cache = {}
    hits = 0
    for t in tokens.tolist():
        if t in cache:
            v = cache.pop(t)
            hits += 1
        else:
            v = emb[t] * 2
            if len(cache) >= 3:
                oldest = next(iter(cache))
                del cache[oldest]
        cache[t] = v
    return list(cache), hits


def followers_of_the_last(ids, vocab):
    banned = {}
    ids = ids.tolist()
    for i in range(len(ids) - 1):
        banned.setdefault(ids[i], []).append(ids[i + 1])
    return banned.get(ids[-1], [])


def vocabulary(ids):
    table = {}
    out = []
    for w in ids.tolist():
        if w not in table:
            table[w] = len(table)
        out.append(table[w])
    return torch.tensor(out), table


def two_sum(x, target):
    seen = {}
    t = int(target)
    for i, v in enumerate(x.tolist()):
        if t - v in seen:
            return seen[t - v], i
        seen[v] = i
    return -1, -1


def ids_in_order(x):
    ids = {}
    for row in x:
        k = row.argmax().item()
        if k not in ids:
            ids[k] = len(ids)
    return ids


def edges_seen_twice(edges):
    seen = set()
    n = 0
    for a, b in edges.tolist():
        if (a, b) in seen:
            n += 1
        seen.add((a, b))
    return n, len(seen)


def bigrams(ids):
    c = {}
    l = ids.tolist()
    for a, b in zip(l, l[1:]):
        c[a, b] = c.get((a, b), 0) + 1
    return c


def squares(x):
    return {v: v * v for v in x.tolist()}


def remainders(x):
    return sorted({v % 3 for v in x.tolist()})


def how_many_distinct(x):
    return len(set(x.tolist()))


def in_both(a, b):
    return sorted(set(a.tolist()) & set(b.tolist()))


def group_sum(x, g):
    sums = {}
    for v, k in zip(x, g.tolist()):
        sums[k] = sums[k] + v if k in sums else v
    return torch.stack(list(sums.values()))


def collatz(x):
    n = int(x)
    seen = {}
    while n != 1 and n not in seen:
        seen[n] = True
        n = n // 2 if n % 2 == 0 else 3 * n + 1
    return len(seen), n


def mode(x):
    c = Counter(x.tolist())
    best = None
    for k, v in c.items():
        if best is None or v > c[best]:
            best = k
    return best


def degree(edges):
    deg = defaultdict(int)
    for a, b in edges.tolist():
        deg[a] += 1
        deg[b] += 1
    return max(deg.values()), sorted(deg.items())


ORDINARY = {
    cycle_length: [
        (torch.tensor([1, 2, 0, 1]), torch.tensor(3)),
        (torch.tensor([0, 2, 0, 1]), torch.tensor(0)),
        (torch.tensor([1, 2, 3, 3]), torch.tensor(0)),
    ],
    histogram: [(x,) for x in XS],
    most_frequent: [(x,) for x in XS],
    most_frequent_key: [(x,) for x in XS],
    counted_by_default: [(x,) for x in XS],
    positions_of_each: [(x,) for x in XS],
    union_find: [(edges, torch.tensor(n)) for edges, n in zip(EDGES, (5, 6, 5))],
    breadth_first: [
        (torch.eye(4).roll(1, 0), torch.tensor(0)),
        (torch.ones(4, 4), torch.tensor(2)),
        (torch.zeros(4, 4), torch.tensor(1)),
    ],
    depth_first: [(edges, torch.tensor(n)) for edges, n in zip(EDGES, (0, 1, 7))],
    memo: [(x,) for x in XS],
    least_recently_used: [(x, torch.rand(10, 2)) for x in XS],
    followers_of_the_last: [(x, torch.tensor(10)) for x in XS],
    vocabulary: [(x,) for x in XS],
    two_sum: [(x, torch.tensor(n)) for x, n in zip(XS, (8, 8, 17, 9))],
    ids_in_order: [(torch.rand(4, 4),), (torch.eye(4),), (torch.zeros(4, 4),)],
    edges_seen_twice: [(edges,) for edges in EDGES],
    bigrams: [(x,) for x in XS],
    squares: [(x,) for x in XS],
    remainders: [(x,) for x in XS],
    how_many_distinct: [(x,) for x in XS],
    in_both: [(x, x + 1) for x in XS],
    group_sum: [(torch.rand(4, 2), x) for x in XS],
    collatz: [(torch.tensor(n),) for n in (6, 1, 27)],
    mode: [(x,) for x in XS],
    degree: [(edges,) for edges in EDGES],
}


@pytest.mark.parametrize("program", ORDINARY, ids=lambda program: program.__name__)
def test_ordinary_code(program):
    agree(program, ORDINARY[program])


@pytest.mark.parametrize("program", ORDINARY, ids=lambda program: program.__name__)
def test_ordinary_code_with_any_sizes(program):
    agree(program, ORDINARY[program], spec=spec_of(ORDINARY[program][0]))


def counted(x):
    d = {}
    for v in x.tolist():
        d[v] = d.get(v, 0) + 1
    return d


def moved_to_the_end_in_a_loop(x):
    d = counted(x)
    for k in d:
        v = d.pop(k)
        d[k] = v
    return d


def loop_over_members(x):
    a = set(x.tolist())
    t = 0
    for v in a:
        t = t * 10 + v
    return t


def list_of_members(x):
    return list(set(x.tolist()))


def any_member(x):
    a = set(x.tolist())
    return a.pop()


def text_of_members(x):
    return str(set(x.tolist()))


def frozen_members(x):
    d = {}
    d[frozenset(x.tolist())] = 1
    return len(d)


def matched(x):
    d = counted(x)
    match d:
        case {3: n}:
            return n
        case _:
            return -1


def mapped(x):
    d = counted(x)
    return pytree.tree_map(lambda v: v + 1, d)


def tensor_as_key(x):
    d = counted(x)
    d[x] = 1
    return len(d)


def written_as_json(x):
    return json.dumps(counted(x))


def as_keywords(x):
    d = counted(x)
    return dict(**d)


REFUSED = {
    moved_to_the_end_in_a_loop: "takes keys out and puts some in",
    loop_over_members: "order is one of Python's own",
    list_of_members: "order is one of Python's own",
    any_member: "order is one of Python's own",
    text_of_members: "order is one of Python's own",
    frozen_members: "put into a set|a frozen set is made",
    matched: "a pattern asks for keys",
    mapped: "tree_map.. gets a dict",
    tensor_as_key: "a tensor is the key",
    written_as_json: "dumps.. gets a dict",
    as_keywords: "gets the items of a dict",
}


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_what_only_python_knows_is_refused(program):
    with pytest.raises(dy2st.CaptureError, match=REFUSED[program]) as caught:
        dy2st.to_static(program)(XS[0])
    assert f"in {program.__name__}" in str(caught.value)


def test_a_nan_is_no_key():
    @dy2st.to_static
    def f(x):
        found = {}
        for value in (x * 1).tolist():
            found[value] = 1
        return found

    assert f(torch.tensor([1.0, 2.5])) == {1.0: 1, 2.5: 1}
    with pytest.raises(dy2st.errors.TableError, match="a NaN is a key"):
        f(torch.tensor([1.0, float("nan")]))


def test_gradients_go_through_what_is_in_a_dict():
    def f(x, groups):
        sums = {}
        for value, group in zip(x, groups.tolist()):
            sums[group] = sums.get(group, 0.0) + value * value
        return torch.stack(list(sums.values())).prod()

    agree(f, [(torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True), x) for x in XS])


def saved(function, arguments, folder):
    static = dy2st.to_static(function, input_spec=spec_of(arguments))
    dy2st.save(static, str(folder / "saved.dy2st"))
    return dy2st.load(folder / "saved.dy2st")


@pytest.mark.filterwarnings("ignore:.*which a loaded model cannot do")
@pytest.mark.parametrize("program", [cycle_length, histogram, positions_of_each, how_many_distinct, bigrams, least_recently_used])
def test_programs_are_saved(program, tmp_path):
    calls = ORDINARY[program]
    loaded = saved(program, calls[0], tmp_path)
    for call in calls:
        assert repr(loaded(*call)) == repr(program(*call))


def test_a_nan_is_no_key_of_a_loaded_model(tmp_path):
    def f(x):
        return {value: 1 for value in (x * 1).tolist()}

    loaded = saved(f, (torch.ones(2),), tmp_path)
    assert loaded(torch.tensor([2.0, 3.0])) == {2.0: 1, 3.0: 1}
    with pytest.raises(dy2st.errors.TableError, match="a NaN is a key"):
        loaded(torch.tensor([2.0, float("nan")]))


@pytest.mark.parametrize("format", ["pt2", "onnx"])
def test_exports_are_refused(format, tmp_path):
    def f(x):
        return len({value: 1 for value in x.tolist()})

    static = dy2st.to_static(f, input_spec=[InputSpec([None], "int64")])
    with pytest.raises(dy2st.errors.ExportError):
        dy2st.export(static, str(tmp_path / "out"), format, inputs=[XS[0]])


def test_lists_under_keys_are_added_to():
    def grouped(x):
        groups, grams, rows = {}, {}, x.tolist()
        for v in rows:
            groups[v] = groups.get(v, []) + [v * 2]
        for gram in zip(rows, rows[1:], rows[2:]):
            grams[gram[:-1]] = grams.get(gram[:-1], []) + [gram[-1]]
        return groups, grams, groups.get(rows[0], ()) * 2, [0] + groups.get(rows[1], [7])

    agree(grouped, [(torch.tensor(row),) for row in ([3, 1, 3, 2], [0, 0, 0, 0], [5, 4, 3, 2], [-1, 7, -1, 9])])


ROWS = [(torch.tensor(row),) for row in ([3, 1, 3, 5], [1, 2, 3, 1], [2, 2, 2, 2], [3, 1, 1, 1])]


def test_keys_and_items_are_compared_as_the_sets_that_they_are():
    def compared(x):
        table, n = {value: 1 for value in x.tolist()}, int(x[0])
        keys, items = table.keys(), table.items()
        alike = keys == set(table), set(table) == keys, keys == {3, 1}, {3, 1} == keys, keys != {1, 3}, keys == frozenset([1, 3])
        parts = (
            keys <= set(table),
            keys >= {n},
            keys > {n},
            {n} < keys,
            keys < {1, 2, 3, 5},
            items >= {(n, 1)},
            items == {(3, 1), (1, 1)},
        )
        return alike, parts

    agree(compared, ROWS)


def test_counters_are_compared_and_parted_by_sign():
    def compared(x):
        first, second = Counter(x.tolist()), Counter(x.tolist()[:2])
        orders = first <= second, second <= first, first > second, first >= second, second < first
        first.subtract([3, 3])
        return orders, sorted((+first).items()), sorted((-first).items())

    agree(compared, ROWS)
