"""Arguments that are others at each call: lists of any length, containers that grow, sizes and numbers; few programs serve all."""

from __future__ import annotations

import collections
import dataclasses
import enum
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dy2st
from tests.worlds import World, agree

LENGTHS = [0, 1, 5, 2, 9, 3, 12, 4, 7]


def vectors(count=12):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(3, generator=generator) for _ in range(count)]


def tensors(*sizes):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(size, generator=generator) for size in sizes]


def world(function, calls, *roots):
    """A world whose calls have these arguments."""
    return World(function, roots, [lambda run, call=call: run(*call) for call in calls])


@dataclasses.dataclass
class State:
    step: int = 0
    total: Any = 0.0
    log: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Box:
    box: Any
    score: float


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def grown_list():
    def f(h, x):
        if x.sum() > 0:
            h.append(x)
        return h, len(h)

    h = []
    return world(f, [(h, x) for x in vectors()], h)


def default_list():
    def f(x, h=[]):  # noqa: B006
        h.append(x)
        return len(h), sum(h)

    return world(f, [(x,) for x in vectors()], f.__defaults__)


def raises_in_between():
    def f(h, x):
        h.append(float(x.sum()))
        if x.sum() < 0:
            raise ValueError("below zero")
        h.append(0.5)
        return sum(h)

    h = []
    return world(f, [(h, x) for x in vectors()], h)


def counts():
    def f(d, x):
        key = int(x.abs().sum())
        d[key] = d.get(key, 0) + 1
        return d[key]

    d = {}
    return world(f, [(d, x) for x in vectors()], d)


def grouped():
    def f(d, x):
        d[int(x.argmax())].append(x)
        return len(d)

    d = collections.defaultdict(list)
    return world(f, [(d, x) for x in vectors()], d)


def members():
    def f(s, x):
        key = int(x.abs().sum())
        if key in s:
            return -1
        s.add(key)
        return len(s)

    s = set()
    return world(f, [(s, x) for x in vectors()], s)


def nested():
    def f(d, x):
        d["a"]["n"] += 1
        if x.sum() > 0:
            d["a"]["log"].append(x)
        else:
            d["b"].append(d["a"]["n"])
        return d["a"]

    d = {"a": {"n": 0, "log": []}, "b": []}
    return world(f, [(d, x) for x in vectors()], d)


def in_a_tuple():
    def f(pair, x):
        pair[0].append(x)
        pair[1]["n"] = pair[1].get("n", 0) + 1
        return pair

    a, b = [], {}
    return world(f, [((a, b), x) for x in vectors()], a, b)


def an_object():
    def f(s, x):
        s.step += 1
        s.total = s.total + x.sum()
        if x.sum() > 0:
            s.log.append(s.step)
        return s

    s = State()
    return world(f, [(s, x) for x in vectors()], s)


def replaced_objects():
    def f(s, x):
        return dataclasses.replace(s, step=s.step + 1, total=s.total + x.sum(), log=[*s.log, x])

    states = [State()]
    for x in vectors():
        states.append(f(states[-1], x))
    return world(f, list(zip(states, vectors())))


def of_any_length():
    def f(xs):
        total = torch.zeros(3)
        for x in xs:
            if x.sum() > 0:
                total = total + x
        return total

    v = [x * 2 for x in vectors()]
    return world(f, [(v[:n],) for n in LENGTHS])


def with_gradients():
    def f(xs):
        total = torch.zeros(3)
        for x in xs:
            if x.sum() > 0:
                total = total + x * x
        return total

    v = [x.requires_grad_() * 2 for x in vectors()]
    return world(f, [(v[:n],) for n in LENGTHS])


def numbers():
    def f(xs, x):
        return x * sum(xs), max(xs, default=0), sorted(xs)

    return world(f, [([(i * 7) % 5 for i in range(n)], x) for n, x in zip(LENGTHS, vectors())])


def texts():
    def f(xs, x):
        return x * len("".join(xs)), [text.upper() for text in xs]

    return world(f, [(["ab" * i for i in range(n)], x) for n, x in zip(LENGTHS, vectors())])


def members_of_an_enumeration():
    def f(colors):
        return sum(1 for color in colors if color is Color.RED), [color.name for color in colors]

    return world(f, [([Color.RED if j % 2 else Color.BLUE for j in range(n)],) for n in LENGTHS])


def objects():
    def f(boxes, limit):
        keep = []
        for one in sorted(boxes, key=lambda box: -box.score):
            if all((one.box - other.box).abs().sum() > limit for other in keep):
                keep.append(one)
        return keep

    v = vectors()
    boxes = [Box(x, float(x[0])) for x in v]
    return world(f, [(boxes[:n], 1.5) for n in LENGTHS], boxes)


def changed_objects():
    def f(boxes, x):
        for box in boxes:
            if x.sum() > 0:
                box.score += 1
            box.box = box.box + x
        return boxes[0] if boxes else None

    boxes = [Box(x, 0.0) for x in vectors()]
    return world(f, [(boxes[:n], x) for n, x in zip(LENGTHS, vectors())], boxes)


def beams():
    def f(beams, x):
        found = [(score + float(x[v]), [*tokens, v]) for score, tokens in beams for v in range(3)]
        found.sort(key=lambda beam: -beam[0])
        return found[:4]

    calls, now = [], [(0.0, [])]
    for x in vectors(8):
        calls.append((now, x))
        now = f(now, x)
    return world(f, calls)


def rows_of_dicts():
    def f(rows):
        return [row["a"] + row["n"] for row in rows if row["a"].sum() > 0]

    return world(f, [([{"a": x, "n": i} for i, x in enumerate(vectors()[:n])],) for n in LENGTHS])


def lists_in_a_list():
    def f(rows):
        return [sum(row) for row in rows if len(row) > 1], max((len(row) for row in rows), default=0)

    return world(f, [([[j * k for k in range(j % 4)] for j in range(n)],) for n in LENGTHS])


def shared_tensors():
    def f(xs, y):
        y.add_(1)
        return [x + 0 for x in xs], sum(1 for x in xs if x is y)

    v = vectors()
    return world(f, [(v[:n], v[n // 2]) for n in LENGTHS], v)


def changed_twice():
    def f(xs):
        for x in xs:
            x.mul_(2)
        return [a is b for a, b in zip(xs, xs[1:])]

    v = vectors()
    calls = [([v[j % 3] for j in range(n)],) for n in LENGTHS]
    return world(f, [*calls, ([v[0], v[0], v[1]],), ([v[0], v[1], v[0], v[2]],)], v)


CONTAINERS = [
    (grown_list, 2), (default_list, 2), (raises_in_between, 2), (counts, 1), (grouped, 1), (members, 1), (nested, 3), (in_a_tuple, 3),
    (an_object, 4), (replaced_objects, 6), (of_any_length, 3), (with_gradients, 3), (numbers, 3), (texts, 3),
    (members_of_an_enumeration, 3), (objects, 3), (changed_objects, 3), (beams, 3), (rows_of_dicts, 3), (lists_in_a_list, 3),
    (shared_tensors, 3), (changed_twice, 3),
]  # fmt: skip


@pytest.mark.parametrize(("make", "programs"), CONTAINERS, ids=[make.__name__ for make, _ in CONTAINERS])
def test_containers(make, programs):
    agree(make, programs=programs)


def kinds():
    def f(xs):
        return list(xs), len(xs)

    t = torch.ones(2)
    lists = [[], [1], [1, 2.5], [t], [t, 1], [None], ["a", None, t], [[1], [2, 3]], [(1, t)], [{"a": 1}], [True, False, True]]
    return world(f, [(one,) for one in [*lists, [1, 2, 3, 4], [torch.ones(3), torch.ones(2)], [torch.ones(1), torch.ones(1, 2)]]])


def one_list_in_two_places():
    def f(a, b, x):
        a.append(x)
        b.append(x * 2)
        return len(a), len(b), a is b

    a, b = [], []
    return world(f, [((a, b, x) if i % 3 else (a, a, x)) for i, x in enumerate(vectors(10))], a, b)


def also_an_attribute():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.last, self.all = None, []

        def forward(self, h, x):
            if x.sum() > 0:
                self.last = h
            h.append(x)
            self.all.append(h)
            return h is self.last

    net, lists = Net(), [[], [], []]
    return world(net, [(lists[i % 3], x) for i, x in enumerate(vectors(8))], net, lists)


def leaves_of_autograd():
    def f(xs):
        return sum((x * x for x in xs if x.sum() > 0), torch.zeros(3))

    v = [x.requires_grad_() for x in vectors()]
    return world(f, [(v[:n],) for n in LENGTHS])


def holds_itself():
    def f(h, x):
        h.append(x)
        return len(h)

    h = []
    h.append(h)
    return World(f, [], [lambda run, x=x: run(h, x) for x in vectors(5)])


@pytest.mark.parametrize("make", [kinds, one_list_in_two_places, also_an_attribute, leaves_of_autograd, holds_itself])
def test_what_has_programs_of_its_own_is_right(make):
    agree(make)


SIZES = [4, 7, 2, 9, 5, 1, 0, 12, 3]


def module(net):
    return lambda x: net(x)


def branches(x):
    return x * 2 if x.sum() > 0 else x


def by_size(x):
    if len(x) > 4:
        return x * 2
    return x * 3 if len(x) == 1 else x


def in_python(x):
    n = len(x)
    return {4: "four", 7: "seven"}.get(n, "other"), n / 2, f"{n} rows", {n: 1}, x / n if n else x


def over_rows(x):
    found, total = [], torch.zeros(3)
    for i, row in enumerate(x):
        if row.sum() > 0:
            total = total + row
            found.append(i)
    return found, total


def pieces(x):
    return (
        [part.sum() for part in x.chunk(3)],
        [part.sum() for part in x.split(2)],
        x.reshape(-1),
        torch.topk(x[:, 0], min(3, len(x))),
    )


def masked(x):
    n = x.shape[0]
    mask = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
    return (x @ x.t()).masked_fill(mask, 0.0), torch.arange(n), F.pad(x, (0, 0, 0, 8 - n % 8))


def in_place(x):
    x.mul_(2)
    x[x > 1] = 0
    return x.sum()


def drawn(x):
    return torch.rand_like(x), torch.randperm(len(x)), F.dropout(x, 0.3)


def laid_out(x):
    return x.is_contiguous(), x.stride(), x.flatten() if x.sum() > 0 else x


@pytest.mark.parametrize("function", [branches, by_size, in_python, over_rows, pieces, masked, in_place, laid_out])
def test_sizes(function):
    agree(lambda: world(function, [(x,) for x in tensors(*((n, 3) for n in SIZES))]), programs=3)


def test_sizes_of_what_is_drawn():
    def call(run, x):
        torch.manual_seed(0)
        return run(x), torch.rand(1)

    agree(lambda: World(drawn, [], [lambda run, x=x: call(run, x) for x in tensors(*((n, 3) for n in SIZES))]), programs=3)


def test_sizes_in_other_layouts():
    agree(lambda: world(laid_out, [(x.t() if len(x) % 2 else x,) for x in tensors(*((n, 3) for n in SIZES))]))


@pytest.mark.parametrize("wanted", [(4, 4), (6, 6)])
def test_sizes_that_broadcast(wanted):
    pairs = [(4, 4), (5, 1), (1, 4), (6, 6), (7, 7), (3, 3), (2, 2), (1, 1), (8, 1), (2, 3), wanted]
    agree(lambda: world(lambda x, y: (x + y, x.shape == y.shape), [(torch.ones(n), torch.ones(m)) for n, m in pairs]))


def test_sizes_of_modules():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def normed():
        norm = nn.BatchNorm1d(3)
        return world(module(norm), [(x,) for x in tensors(*((n, 3) for n in [4, 7, 2, 9, 5, 1, 12]))], norm)

    agree(normed)
    agree(lambda: world(module(layer), [(x,) for x in tensors(*((2, n, 8) for n in [4, 7, 2, 9, 5, 1, 12]))]), programs=3)


def test_sizes_of_arrays():
    def f(a):
        a[:1] = 5
        return torch.from_numpy(a * 2).sum() if a.sum() > 0 else torch.zeros(())

    def make():
        arrays = [np.arange(n, dtype=np.float32) - 2 for n in SIZES]
        return world(f, [(a,) for a in arrays], arrays)

    agree(make, programs=3)


def test_past_keys_and_values():
    def step(x, past):
        return tuple((torch.cat([k, x[None]]), torch.cat([v, x[None] * 2])) for k, v in past)

    def make():
        calls, past = [], tuple((torch.zeros(0, 3), torch.zeros(0, 3)) for _ in range(2))
        for x in vectors(8):
            calls.append((x, past))
            past = step(x, past)
        return world(step, calls)

    agree(make, programs=3)


def test_a_size_that_has_to_be_known_stays_what_it_is():
    torch.manual_seed(0)
    layers = {f"of_{n}": nn.Linear(n, 2) for n in range(1, 9)}

    def f(x):
        y = layers[f"of_{len(x)}"](x)
        return y * 2 if y.sum() > 0 else y

    agree(lambda: world(f, [(torch.ones(n),) for n in range(1, 9)]))


def test_numbers():
    def scaled(x, by):
        return x * by if x.sum() > by else x - by

    def repeated(x, n):
        for _ in range(n):
            x = x * 1.5 if x.sum() > 0 else x + 1
        return x, n * 2, f"{n}", torch.zeros(n, 2)

    agree(lambda: world(scaled, [(x, i / 3) for i, x in enumerate(vectors())]), programs=3)
    agree(lambda: world(repeated, [(x, n) for n, x in zip(LENGTHS, vectors())]), programs=3)


def test_numbers_of_layers():
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(6))

    def f(x, n):
        return layers[n](x) if x.sum() > 0 else x

    agree(lambda: world(f, [(x, n % 6) for n, x in enumerate(vectors())]))


def test_numbers_that_are_defaults_or_too_large():
    def f(x, n=3):
        return x * n, n

    agree(
        lambda: world(
            f, [(torch.ones(2), *more) for more in [(1,), (2,), (4,), (5,), (), (2**70,), (6,), (), (7,), (2**70,), (8,)]]
        )
    )


def test_attributes_that_others_set():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rate, self.steps, self.rows = 0.1, [], []

        def forward(self, x):
            y = x * self.rate if x.sum() > self.rate else x - len(self.rows)
            return y, sum(self.rows), [n for n in self.steps if n > 2]

    def make():
        net, v = Net(), vectors()

        def call(run, i):
            net.rate, net.steps, net.rows = i / 7, list(range(i % 5)), v[: i % 4]
            return run(v[i])

        return World(net, [net], [lambda run, i=i: call(run, i) for i in range(12)])

    agree(make, programs=5)


def test_a_saved_model_has_the_sizes_and_numbers_of_its_example(tmp_path):
    def f(x, n):
        return x * n if x.sum() > 0 else x

    static = dy2st.to_static(f)
    for n in range(1, 9):
        static(torch.ones(n), n)
    dy2st.save(static, tmp_path / "f.dy2st", input_spec=[dy2st.InputSpec([3]), 2])
    loaded = dy2st.load(tmp_path / "f.dy2st")
    assert torch.equal(loaded(torch.ones(3), 2), torch.full((3,), 2.0))
    for call in ((torch.ones(4), 2), (torch.ones(3), 5)):
        with pytest.raises(dy2st.errors.SignatureError):
            loaded(*call)


def test_lists_of_any_length_are_not_saved_as_state(tmp_path):
    def f(xs):
        return sum(xs) if sum(xs).sum() > 0 else xs[0]

    static, v = dy2st.to_static(f), vectors()
    for n in (1, 2, 3, 4, 5):
        static(v[:n])
    dy2st.save(static, tmp_path / "f.dy2st", input_spec=[[dy2st.InputSpec([3]), dy2st.InputSpec([3])]])
    assert torch.equal(dy2st.load(tmp_path / "f.dy2st")(v[2:4]), f(v[2:4]))


def test_an_error_of_the_users_is_raised_once():
    seen = []

    def f(xs, x):
        seen.append(len(xs))
        raise KeyError("nothing")

    static = dy2st.to_static(f)
    for n in range(5):
        with pytest.raises(KeyError):
            static([1] * n, torch.ones(2))
    assert seen == list(range(5))
