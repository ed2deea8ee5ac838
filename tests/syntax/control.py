"""Control flow."""

from __future__ import annotations

import dataclasses
import itertools

import torch

from tests.programs.values import counts, signs, vec
from tests.syntax.case import Chapter

CHAPTER = Chapter("Control flow")
X = vec(1, 2, 3)
TRIPS = [(X, count) for count in counts(3, 0, 1, 9)]
BOUNDS = [(X, *bounds) for bounds in zip(counts(0, 2, 5, 9), counts(5, 2, 9, 1), counts(1, 2, 3, -2))]
MATRICES = [torch.arange(6.0).view(3, 2), torch.full((3, 2), 5.0), torch.zeros(3, 2)]


@dataclasses.dataclass
class Point:
    """A class with positional patterns."""

    x: torch.Tensor
    y: int


@CHAPTER.captured("`if` / `elif` / `else` on a tensor", calls=signs())
def if_elif_else(x):
    if x.sum() > 2:
        y = x * 2
    elif x.sum() < -2:
        y = -x
    else:
        y = x + 1
    return y


@CHAPTER.plain("`if` on a Python value", calls=[(signs()[0], True), (signs()[0], False)])
def if_on_python(x, double):
    if double:
        x = x * 2
    return x


@CHAPTER.unrolled("`for` over a Python list", calls=[(signs()[0], [1.0, 2.0]), (signs()[1], [1.0, 2.0])])
def for_over_a_list(x, scales):
    for scale in scales:
        x = x * scale
    return x


@CHAPTER.captured("`match` on a tensor or number: values, alternatives, captures", calls=TRIPS)
def match_values(x, n):
    match n:
        case 0:
            return x
        case 1 | 2:
            x = x * 2
        case 3 as k:
            x = x * k
        case other:
            x = x - other
    return x


@CHAPTER.captured("`match` with guards that tensors decide", calls=signs())
def match_guards(x):
    match x.dim(), x[0]:
        case 1, first if first > 0:
            return x * first
        case 1, _ if x.sum() < 0:
            return -x
    return x


@CHAPTER.captured("`match` on sequences, starred patterns included", calls=TRIPS)
def match_sequences(x, n):
    match [x, n, 3]:
        case [a, 0, _]:
            return a
        case [a, 1, *rest]:
            return a * len(rest)
        case [*_, m, 3] if m > 5:
            return x * m
        case _:
            return -x


@CHAPTER.captured("`match` on mappings, `**rest` included", calls=signs())
def match_mappings(x):
    match {"x": x, "state": {"sum": x.sum()}}:
        case {"missing": _}:
            return x
        case {"state": {"sum": 0.0}}:
            return x + 5
        case {"state": {"sum": s}, **rest} if s > 2:
            return rest["x"] * s
        case {"x": y}:
            return -y


@CHAPTER.captured("`match` on classes, with positional and keyword patterns", calls=signs())
def match_classes(x):
    match Point(x.sum(), 2):
        case Point(0.0, y):
            return x + y
        case Point(s, y=2) if s > 2:
            return x * s
        case Point(x=torch.Tensor() as s):
            return x - s


@CHAPTER.captured("`match` on a string or `None` that a tensor decides", calls=signs())
def match_strings(x):
    mode = "up" if x.sum() > 0 else "down" if x.sum() < 0 else None
    match mode:
        case "up":
            return x + 1
        case "down" | "left":
            return x - 1
        case None:
            return x


@CHAPTER.captured("`match` in a loop, with `break`, `continue` and `return` in its cases", calls=signs())
def match_in_a_loop(x):
    for step in ["add", "skip", "double", "leave", "stop", "never"]:
        match step:
            case "add":
                x = x + 1
            case "skip" if x.sum() > 6:
                continue
            case "leave" if x.sum() < 0:
                return -x
            case "stop":
                break
            case _:
                x = x * 2
    return x


@CHAPTER.plain("`match` on what Python knows", calls=[(signs()[0], "double"), (signs()[0], ["add", 2])])
def match_python(x, how):
    match how:
        case str():
            return x * 2
        case ["add", int(k)]:
            return x + k


@CHAPTER.captured("`for` over `range` with tensor start, stop and step, negative ones too", calls=BOUNDS)
def for_over_a_range(x, start, stop, step):
    for i in range(start, stop, step):
        x = x * 2 + i
    return x


@CHAPTER.captured("`for` over `reversed`, `enumerate(start=)` and `zip(strict=)` of what a tensor makes long", calls=TRIPS)
def for_over_wrapped(x, n):
    for i, (j, k) in enumerate(zip(reversed(range(n)), range(n), strict=True), start=1):
        x = x + i * j - k
    return x


@CHAPTER.captured("`for` over the rows of a tensor, whose number a tensor decides", calls=MATRICES)
def for_over_rows(x):
    total = x.new_zeros(())
    for a, b in x[x.sum(1) > 3]:
        total = total * 2 + a - b
        if total > 9:
            break
    else:
        total = -total
    return total


@CHAPTER.captured("`for` / `else`, with a `break` that a tensor decides", calls=TRIPS)
def for_else(x, n):
    for i in range(n):
        if x.sum() + i > 9:
            x = x * 2
            break
    else:
        x = x - 100
    return x


@CHAPTER.captured("`while` / `else`, `break` and `continue`", calls=TRIPS)
def while_else(x, n):
    k = 0
    while k < n:
        k += 1
        if k % 2 == 0:
            continue
        x = x + 1
        if x.sum() > 12:
            break
    else:
        x = -x
    return x, k


@CHAPTER.captured("`while True` that a tensor leaves, by `break` or `return`", calls=signs())
def while_true(x):
    k = 0
    while True:
        k += 1
        x = x + 1
        if x.sum() > 20:
            return x, k
        if k > 4:
            break
    return -x, k


@CHAPTER.captured("`while` whose condition becomes a tensor in a later iteration", calls=signs())
def while_becomes_a_tensor(x):
    go = True
    while go:
        x = x + 1
        go = x.sum() < 10
    return x


@CHAPTER.captured("`while` with `:=` in its condition", calls=signs())
def while_walrus(x):
    while (total := x.sum()) < 10:
        x = x + 1
    return x, total


@CHAPTER.captured("early `return` out of nested loops", calls=TRIPS)
def return_out_of_loops(x, n):
    for i in range(n):
        for j in range(n):
            x = x + j
            if x.sum() > 15:
                return x, i, j
    return x, -1, -1


@CHAPTER.captured(
    "`for` over a Python list that a tensor leaves", calls=signs(), note="Each iteration is skipped once the loop is left."
)
def for_over_a_list_with_break(x):
    for scale in [1.0, 2.0, 3.0]:
        x = x + scale
        if x.sum() > 8:
            break
    else:
        x = -x
    return x, scale


@CHAPTER.captured("`for` over a list that its body grows where a tensor decides", calls=signs())
def for_over_a_growing_list(x):
    items = [x, x * 2]
    for item in items:
        if item.sum() > 3:
            items.append(item - 4)
        x = x + item
    return x, len(items)


@CHAPTER.captured("`for` over `itertools.count()` that a tensor leaves", calls=signs())
def for_over_count(x):
    for i in itertools.count():
        x = x + i
        if x.sum() > 100:
            break
    return x, i


@CHAPTER.captured("an iterator that is kept, and used again after a loop that a tensor leaves", calls=TRIPS)
def resumed(x, n):
    steps = iter([1.0, 2.0, 3.0])
    for _, step in zip(range(n), steps):
        x = x + step
        if x.sum() > 9:
            break
    for step in steps:
        x = x * step
    return x


@CHAPTER.unrolled("`for` over dicts, `items()`, `keys()`, `values()`", calls=signs())
def for_over_a_dict(x):
    weights = {"a": 1.0, "b": x}
    for name, weight in weights.items():
        x = x + weight * len(name)
    return x


@CHAPTER.unrolled("`for` over `ModuleList`, `ModuleDict`, `Sequential`, `ParameterList`", calls=signs())
class ForOverModules(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(3, 3).double() for _ in range(2)])
        self.heads = torch.nn.ModuleDict({"a": torch.nn.ReLU(), "b": torch.nn.Tanh()})
        self.scales = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(3).double())])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            if x.sum() > 1:
                break
        for name, head in self.heads.items():
            x = head(x) * len(name)
        for scale in self.scales:
            x = x * scale
        return x


@CHAPTER.unrolled(
    "`for` over generators, `itertools`, `map`, `filter`; over iterators of one's own where nothing but their number of steps ends them",
    calls=signs(),
)
def for_over_iterators(x):
    for power in (k * k for k in range(3)):
        x = x + power
        if x.sum() > 10:
            break
    for a, b in itertools.product([1, 2], [3.0]):
        x = x * a + b
    for k in map(len, ["a", "bc"]):
        x = x - k
    return x


class Halves:
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        return self

    def __next__(self):
        if self.x.abs().sum() < 1:
            raise StopIteration
        self.x = self.x / 2
        return self.x


@CHAPTER.captured("`for` over an iterator of one's own that a tensor ends, which is at its place afterwards", calls=signs())
def for_over_an_iterator_of_ones_own(x):
    halves = Halves(x)
    for half in halves:
        x = x + half
        if x.sum() > 10:
            break
    return x, halves.x


@CHAPTER.captured("a generator with effects, where a tensor decides how far it runs", calls=signs())
def generator_with_effects(x):
    log = []

    def numbers():
        for k in range(3):
            log.append(k)
            yield k

    for k in numbers():
        x = x + k
        if x.sum() > 9:
            break
    return x, log


@CHAPTER.captured("`break`, `continue` and `return` inside `with`", calls=TRIPS)
def jumps_in_with(x, n):
    for i in range(n):
        with torch.no_grad():
            x = x + 1
            if x.sum() > 14:
                return x, i
            if x.sum() > 10:
                break
            if x.sum() > 8:
                continue
            x = x + 0.5
    return -x, n


@CHAPTER.captured("`return`, `break` and `continue` in `finally`, on all or on some ways", calls=TRIPS)
def leaves_in_finally(x, n):
    for k in range(n):
        try:
            x = x + k
            if x.sum() > 20:
                return x, k
        finally:
            if x.sum() < 0:
                return x, -k
            if x.sum() > 15:
                continue
        x = x * 2
    return x, n


@CHAPTER.captured("`break`, `continue` and `return` inside `try` / `finally`", calls=TRIPS)
def jumps_in_try(x, n):
    passed = 0
    for _ in range(n):
        try:
            x = x + 1
            if x.sum() > 20:
                return x, passed
            if x.sum() > 10:
                break
            if x.sum() > 8:
                continue
            x = x + 0.5
        finally:
            passed += 1
    return -x, passed


@CHAPTER.captured("tuple, starred, nested, attribute and item targets of `for`", calls=TRIPS)
def targets_of_for(x, n):
    found = {"last": 0}
    for found["last"], (a, *rest) in enumerate([(1, 2, 3), (4,)]):
        x = x * a + len(rest)
    for i, (j, _) in enumerate(zip(range(n), range(1, 100))):
        x = x + i * j
    return x, found["last"]


@CHAPTER.captured("`def` and `class` in a branch", calls=signs())
def definitions_in_branches(x):
    if x.sum() > 0:

        def change(v):
            return v * 2
    else:

        def change(v):
            return v if v[0] > -1 else v * 3

    return change(x)


@CHAPTER.captured("`nonlocal` and `global` names written in branches", calls=signs())
def shared_names(x):
    hits = 0

    def note(v):
        nonlocal hits
        if v.sum() > 0:
            hits += 1
        return v + hits

    for _ in range(2):
        x = note(x)
    return x, hits


@CHAPTER.captured("`del` of a name in a branch, and Python's error when it is read", calls=signs())
def del_in_a_branch(x):
    y = x + 1
    if x.sum() > 0:
        del y
    return y


@CHAPTER.captured("annotations, with and without a value, and `pass`", calls=signs())
def annotations(x):
    y: torch.Tensor
    if x.sum() > 0:
        y: torch.Tensor = x * 2
    else:
        pass
        y = x
    return y


@CHAPTER.captured(
    "`return`, `break` and `continue` at the end of `finally`", calls=signs(), note="it drops an exception, or another `return`"
)
def jumps_in_finally(x):
    for i in range(4):
        try:
            x = x + i
            {}["missing"]
        finally:
            if x.sum() > 8:
                break
            else:
                continue
    try:
        if x.sum() > 0:
            return x * 2
        x = x - 1
    finally:
        return x + 1
