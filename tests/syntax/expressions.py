"""Expressions."""

from __future__ import annotations

import math

import torch

import dy2st
from tests.syntax.case import Chapter

CHAPTER = Chapter("Expressions")


def _row(*values):
    return torch.tensor(values, dtype=torch.float64)


XS = [_row(1.0, 3.0, 2.0), _row(-1.0, -2.0, -3.0), _row(5.0, -9.0, 0.0)]
NS = [(torch.tensor(n), XS[0]) for n in (2, 0, 1, 3)]
SOME = [(torch.tensor(n), XS[0]) for n in (2, 1, 3)]


@CHAPTER.captured("`a < b < c`, `a < b == c`", XS)
def chain(x):
    return -2 < x.sum() <= 6, x[0] < (y := x[2] + 3) < 9 != x[1], y


@CHAPTER.captured("`x in [a, b]`, `k in {…}`, `k in range(n)`, `k in d`, of tensors and numbers from tensors", NS)
def membership(n, x):
    k = int(n)
    return x[k - 1] in [x[0], x[2]], k in {1, 5}, 1 in range(k), k in {2: "a", 7: "b"}, k not in (0, 3), k in {1: 2}.values()


@CHAPTER.captured("`x is None`, `x is y`", XS)
def identity(x):
    h = None
    if x.sum() > 0:
        h = x * 2
    return h is None, h is not x, x - 1 if h is None else h


@CHAPTER.captured("`any`, `all`, `sum` of tensors, of generators, and over unknown lengths", NS)
def folds(n, x):
    y = torch.cat([x, x[:n] * 2])
    return any(v > 5 for v in y), all(v < 4 for v in y), sum(y), sum(k * k for k in range(n)), any(x > 2), sum([x[0], x[1]], x[2])


@CHAPTER.captured("`min`, `max` with `key` and `default`", NS)
def extremes(n, x):
    y = torch.cat([x, x[:n] * 2])
    return min(y), max(y, key=lambda v: -v), max(x[0], 2.0), min([int(n), 1]), max(x[:n], default=None)


@CHAPTER.captured("`sorted` by values known only at run time", NS)
def in_order(n, x):
    y = torch.cat([x, x[:n] * 2])
    return sorted(x), sorted(y, key=lambda v: -v), sorted([(v.item(), k) for k, v in enumerate(x * (n - 1))], reverse=True)


@CHAPTER.captured("`abs`, `round`, `divmod`, `pow` of numbers from tensors", XS)
def arithmetic(x):
    v = x.sum().item()
    return abs(v), round(v), round(v / 7, 2), divmod(v, 2.5), pow(v, 2), divmod(int(v), 4), pow(int(v), 3, 5)


@CHAPTER.captured("`map`, `filter`, `reversed`, `zip`, `enumerate`", XS)
def streams(x):
    kept = list(filter(lambda v: v > 0, x))
    return list(map(lambda a, b: a + b, x, [1, 2, 3])), len(kept), [v * k for k, v in enumerate(reversed(kept), 1)]


@CHAPTER.captured("`len`, `shape`, `size`, `numel` of tensors of unknown size; arithmetic of sizes", NS)
def sizes(n, x):
    y = x[:n].unsqueeze(0).expand(2, -1)
    a, b = y.shape
    return (
        len(x[:n]),
        y.shape[-1] * 2 + 1,
        y.shape + (1,),
        y.shape[1:],
        y.numel(),
        b // 2,
        y.shape == (2, 3),
        y.shape[1] in (0, 3),
        a,
    )


@CHAPTER.captured("list comprehensions: conditions on tensors, several `for`, over unknown lengths", NS)
def list_comprehensions(n, x):
    y = x * (n - 1)
    return (
        [v * 2 for v in y if v > 0],
        [a * b for a in y for b in y if a > b],
        [k * j for k in range(n) for j in range(k)],
        [[w for w in y if w > v] for v in x],
    )


@CHAPTER.captured("dict comprehensions with conditions on tensors", XS)
def dict_comprehensions(x):
    kept = {k: v * 2 for k, v in zip("abc", x) if v > 0}
    return kept, len(kept), {k: (v if v > 0 else -v) for k, v in enumerate(x)}


@CHAPTER.captured("generator expressions", XS)
def generators(x):
    total = x.sum()
    for v in (w * 2 for w in x if w > 0):
        total = total + v
    return total, [*(v + 1 for v in x)], list(v for v in x if v < 0)


@CHAPTER.captured("f-strings, `%`, `str.format`, `str.join`, in `print` and `raise`", XS)
def formatting(x):
    v, width = x.sum().item(), abs(int(x[0])) + 6
    print(f"{v:{width}.2f} {x} {x.shape} {v!r:>12}", "%6.1f%% of %s" % (v, x[0]), "{0:.2f} {1:>{w}}".format(v, int(v), w=9))
    print(", ".join(f"{u:.1f}" for u in x))
    if v < -5:
        raise ValueError("%(a).1f is too small" % {"a": v})
    return x


@CHAPTER.captured("slices with bounds from tensors; negative and runtime indices; `...` and `None`", SOME)
def indices(n, x):
    k = int(n)
    return x[:n], x[k:], x[-k:], x[:-k], x[1:k], x[-k], x[..., k - 1], x[None, -n], x[k // 2 : k, None]


@CHAPTER.captured("`x[mask]`, `x[mask] = v`, `x[i] = v`, `x[i, j:k] += 1`", SOME)
def item_assignment(n, x):
    k, y, z = int(n) - 1, x * (n - 1.5), torch.zeros(4, 4, dtype=torch.float64)
    y[y > 0] = 9.0
    y[torch.tensor([0, 2])] += 1
    z[k, k : k + 2] += y[0]
    z[..., k] *= 2
    z[-n, 0] -= 1
    return y, z, x[x > n], y[y < 0].sum()


@CHAPTER.captured("a list, tuple or string indexed with a number from a tensor", SOME)
def sequences(n, x):
    k = int(n)
    return [x, x * 2, x * 3][-k], (10, 20, 30)[k - 1], "abc"[k - 1], ("relu", "tanh", "none")[-k]


class _Box:
    def __init__(self, v):
        self.held, self.writes = v, 0

    @property
    def v(self):
        return self.held

    @v.setter
    def v(self, value):
        self.held, self.writes = value, self.writes + 1

    def __setitem__(self, key, value):
        self.held[key] = value

    def __getitem__(self, key):
        return self.held[key]

    def __iadd__(self, other):
        self.held = self.held + other
        return self


@CHAPTER.captured("augmented assignment to names, attributes, properties, items, `__setitem__`, `__iadd__`", XS)
def augmented(x):
    box, y = _Box(x.clone()), x.clone()
    if x.sum() > 0:
        box.v *= 2
        box[0] += 5
        box += 3
    else:
        y -= 1
        y **= 2
    return box.v, box.writes, y


@CHAPTER.captured("`@` and every in-place operator of tensors", XS)
def in_place(x):
    k, m = x.long() + 20, torch.eye(3, dtype=torch.float64)
    if x.sum() > 0:
        k &= 7
        k |= 1
        k <<= 2
    else:
        k ^= 3
        k //= 2
        k %= 5
        m @= m * 2
    return k, m @ x


@CHAPTER.captured("walrus in conditions and operands", XS)
def walrus(x):
    if (s := x.sum()) > 0 and (m := s * 2) < 100:
        return m
    while (s := s + 3) < 0:
        pass
    return s


@CHAPTER.captured("lambdas, defaults, `*args`, `**kwargs`", XS)
def lambdas(x):
    f = lambda a, b=2, *c, k=1, **d: (a * b * k + sum(c)) if a.sum() > 0 else a - b  # noqa: E731
    return f(x, 3, 1, 2, k=4), f(*[x, 2], **{"k": 3})


@CHAPTER.captured("`{**a, **b}`, `a | b`, sums and products of lists and tuples, repeated a number of times from a tensor", NS)
def containers(n, x):
    d = {"a": x} | {"b": x * 2}
    if n > 1:
        d["a"] = d["a"] * 2
    return {**d, "c": n}, (x, 1) + (2,), [x] * 2 + [n], [0] * int(n), len([x] * n)


@CHAPTER.captured(
    "`a ** n`, `pow(a, n, m)` of ints, with an exponent that may be negative", NS, note="Then it is a float, as in Python."
)
def powers(n, x):
    k = int(n) - 2
    return 2**k, x * 3**k, isinstance(2**k, int), pow(3, k, 7)


@CHAPTER.captured("integer division, remainder, shifts, bits and powers of numbers from tensors", NS)
def integers(n, x):
    k = int(n) - 1
    return (
        k // 2,
        k % 3,
        k // -2,
        -7 % (k + 2),
        k & 1,
        k | 8,
        k ^ 3,
        ~k,
        k >> 1,
        (k + 1) << 2,
        k**2,
        2 ** (k + 1),
        k / 2,
        -7 // (k + 5),
    )


@CHAPTER.captured("integers beyond 64 bits", [(torch.tensor(n), XS[0]) for n in (3, 2**62, 40)])
def big(n, x):
    k, product = int(n), 1
    for j in range(1, 30):
        product = product * (k + j)
    return k * k, k * 4 + 1, product, product % 1000007


@CHAPTER.captured("`math` functions", XS)
def maths(x):
    v = abs(x.sum().item()) + 1
    k = int(v)
    return (
        math.sqrt(v),
        math.log(v, 2),
        math.floor(v),
        math.ceil(v / 2),
        math.gcd(k, 4),
        math.isclose(v, 7.0),
        math.prod([v, 2]),
        math.isqrt(k),
    )


@CHAPTER.captured("methods and operators of a string that a tensor chooses", XS)
def strings(x):
    mode = "relu" if x.sum() > 0 else "tanh"
    y = x.relu() if mode == "relu" else x.tanh()
    return y, mode + "x", len(mode), mode[0], mode.upper(), "a" in mode, mode.startswith("re"), f"{mode}!"


@CHAPTER.captured(
    "Sets and dicts of numbers from tensors", XS, note="Lists of the program; a set is not looped over but by `sorted`."
)
def set_of_numbers(x):
    seen, counts = {int(v) for v in x}, {}
    for v in x:
        counts[int(v)] = counts.get(int(v), 0) + 1
    return len(seen), sorted(seen), counts, max(counts, key=counts.get)


@CHAPTER.refused("A loop over a set of numbers from tensors", XS[:1], error=dy2st.CaptureError, says="order is one of Python's own")
def loop_over_a_set(x):
    return [v for v in {int(v) for v in x}]


@CHAPTER.captured("Set and dict comprehensions over an unknown length, whose keys are a few texts or numbers", NS)
def dict_of_few_keys(n, x):
    found = {("even", "odd")[k % 2]: k for k in range(n)}
    return found, list(found), {k % 2 for k in range(n)}


@CHAPTER.captured("A dict comprehension over an unknown length, whose keys are any numbers", NS)
def dict_of_unknown_size(n, x):
    return {k: x * k for k in range(n)}


@CHAPTER.captured("A tuple of an unknown length", NS)
def tuple_of_unknown_size(n, x):
    return tuple(x[:n])


@CHAPTER.captured("A slice whose step a tensor decides", NS)
def step(n, x):
    return x[:: int(n)]


@CHAPTER.captured("`complex` of numbers from tensors, and `item()` of complex ones", XS)
def complex_number(x):
    z = complex(x.sum().item(), 2.0) * torch.complex(x, x).sum().item()
    return z, abs(z), z.real > 0
