"""Values that branches and loops change."""

from __future__ import annotations

import collections
import dataclasses
import enum
import heapq
import types
import typing

import torch

import dy2st
from tests.syntax.case import Chapter

CHAPTER = Chapter("Values that branches and loops change")


def _row(*values):
    return torch.tensor(values, dtype=torch.float64)


XS = [_row(1.0, 3.0, 2.0), _row(-1.0, -2.0, -3.0), _row(5.0, -9.0, 0.0)]
_SEEN = {1}
_LATEST = collections.deque()
NS = [(torch.tensor(n), XS[0]) for n in (2, 0, 1, 5)]


@CHAPTER.captured("locals", XS)
def local(x):
    h, n = x, 0
    while h.abs().sum() < 50:
        h, n = h * 2, n + 1
    return h, n


@CHAPTER.captured('attributes of any object: `s.cache.k`, `s.d["z"].x`', XS)
def attributes(x):
    s = types.SimpleNamespace(cache=types.SimpleNamespace(k=x, n=0), d={"z": types.SimpleNamespace(x=x)})
    if x.sum() > 0:
        s.cache.k = s.cache.k * 2
        s.d["z"].x = x + 1
    while s.cache.k.abs().sum() < 50:
        s.cache.k = s.cache.k * 2
        s.cache.n += 1
    return s.cache.k, s.cache.n, s.d["z"].x


@CHAPTER.captured("items of lists and dicts, nested", XS)
def items(x):
    d = {"a": [x, 0], "b": {"c": x}}
    if x.sum() > 0:
        d["a"][0] = x * 2
    else:
        d["b"]["c"] = d["b"]["c"] - 1
    while d["a"][0].abs().sum() < 50:
        d["a"][0] = d["a"][0] * 2
        d["a"][1] += 1
    return d


@CHAPTER.captured("a key that is there on some ways only", XS)
def keys(x):
    d = {"a": x}
    if x.sum() > 0:
        d["b"] = x * 2
    return "b" in d, d.get("b", x), len(d), d


@CHAPTER.captured("`locals()`, with a variable that is bound on some ways only", XS)
def table_of_locals(x):
    y = x * 2
    if x.sum() > 0:
        z = y + 1
    table = locals()
    return list(table), table["y"], table.get("z", x)


@CHAPTER.captured("`OrderedDict`, `defaultdict`, `Counter`, `deque` of a fixed length", XS)
def collection(x):
    ordered, lists = collections.OrderedDict(a=x, b=x * 2), collections.defaultdict(list)
    made, counts = collections.defaultdict(lambda: torch.zeros(3, dtype=torch.float64)), collections.Counter()
    window = collections.deque([x, x * 2], maxlen=2)
    lists["a"].append(x)
    if x.sum() > 0:
        ordered["a"] = x + 1
        lists["a"].append(x * 2)
        made["a"] += x
        window.append(x * 3)
    for v in x:
        counts["up" if v > 0 else "down"] += 1
    return ordered["a"], len(lists["a"]), made["a"] + x, counts["up"], window[0], window[-1], len(window)


@dataclasses.dataclass
class _State:
    h: torch.Tensor
    n: int = 0
    log: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class _Frozen:
    h: torch.Tensor
    n: int = 0


class _Slots:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class _Pair(typing.NamedTuple):
    a: torch.Tensor
    b: int = 0


@CHAPTER.captured("dataclasses, frozen ones with `dataclasses.replace`, `__slots__`, named tuples with `_replace`", XS)
def records(x):
    state, frozen, slots, pair = _State(x), _Frozen(x), _Slots(x), _Pair(x)
    if x.sum() > 0:
        state.h, state.n = state.h * 2, 1
        frozen = dataclasses.replace(frozen, h=x * 3, n=4)
        slots.b = x
        pair = pair._replace(b=3)
    while frozen.h.abs().sum() < 60:
        frozen = dataclasses.replace(frozen, h=frozen.h * 2, n=frozen.n + 1)
    a, b = pair
    return state.h, state.n, frozen.h, frozen.n, slots.b if hasattr(slots, "b") else slots.a, a, b


@CHAPTER.captured("`None` or a tensor", NS)
def none(n, x):
    h = None
    for k in range(n):
        h = x if h is None else h * 2 + k
    return h


class _Mode(enum.Enum):
    A = 1
    B = 2


class _Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@CHAPTER.captured("numbers, strings, members of enumerations, dtypes and functions that a tensor chooses", XS)
def chosen(x):
    up = x.sum() > 0
    mode, level, n = (_Mode.A, _Level.LOW, 3) if up else (_Mode.B, _Level.HIGH, 2.5)
    act, dtype = (torch.relu, torch.float64) if up else (torch.tanh, torch.float32)
    return mode.name, mode is _Mode.A, level, level + 1, n * 2, act(x), dtype == torch.float64, "up" if up else "down"


@CHAPTER.captured("tuples of different origin, swaps", XS)
def tuples(x):
    a, b = x, x * 2
    if x.sum() > 0:
        a, b, rest = b, a, (x, 1, "p")
    else:
        rest = (x * 2, 2.5, "q")
    return a, b, rest


@CHAPTER.captured("a key that a tensor chooses among known ones: `d[k]`, `d[k] = v`", XS)
def chosen_key(x):
    table, key = {"up": x, "down": -x}, "up" if x.sum() > 0 else "down"
    table[key] = table[key] * 2
    return table[key], table, {0: "no", 1: "yes"}[int(x[0] > 0)]


@CHAPTER.captured("a growing list: `append`, `extend`, `+=`, `insert`, `pop`, `del`, `clear`", NS)
def growing(n, x):
    items = [x]
    for k in range(n):
        items.append(x * k)
        items.extend([x, x + k])
        items += [x]
        items.insert(0, x - k)
        x = x + items.pop(0) + items.pop()
        if k == 3:
            items.clear()
            items.append(x)
    items[-1] = x * 9
    del items[:1]
    return items, len(items), x


@CHAPTER.captured("a growing list: index, slice, `len`, iterate, `reversed`, `enumerate`, `zip`, `in`, `==`", NS)
def growing_reads(n, x):
    items = [x, x * 2]
    for k in range(n):
        items.append(items[-1] + items[k])
    total = items[0]
    for i, v in enumerate(items):
        total = total + v * i
    for v in reversed(items):
        total = total * 2 + v
    for a, b in zip(items, items[1:]):
        total = total + a * b
    numbers = [k * k for k in range(n)]
    return total, items[1:], len(items[::2]), 4 in numbers, numbers == [0, 1], numbers.count(0), bool(numbers)


@CHAPTER.captured("a growing list: `torch.stack`, `torch.cat`, `sum`, `max`, `copy`, `sort`, `remove`, `reverse`, `*`, `+`", NS)
def growing_whole(n, x):
    rows, numbers = [x], [3]
    for k in range(n):
        rows.append(x * k)
        numbers.append((k * 7) % 5)
    other = numbers.copy()
    numbers.sort(reverse=True)
    other.remove(3)
    other.reverse()
    return torch.stack(rows), torch.cat(rows), sum(rows), max(numbers), numbers, other, numbers * 2 + other


@CHAPTER.captured("a growing list of tuples", NS)
def growing_tuples(n, x):
    items = [(x, 0)]
    for k in range(n):
        items.append((x * k, k))
    total = x
    for row, k in items:
        total = total + row * k
    return total, items[-1], sorted(items, key=lambda pair: -pair[1])


@CHAPTER.captured("a dict of growing lists; a list that two names or attributes hold", NS)
def shared_lists(n, x):
    lists, state = {"a": [], "b": [x]}, types.SimpleNamespace(log=[x])
    state.same = state.log
    for k in range(n):
        lists["a"].append(x * k)
        if k % 2:
            lists["b"].append(x)
            state.log.append(x - k)
    return lists, len(state.same), state.same is state.log


@CHAPTER.captured("aliases of a tensor, and views written through", XS)
def aliases(x):
    a = x.clone()
    b, view = a, a[1:]
    if x.sum() > 0:
        view += 1
    else:
        a = a * 2
        a += 1
    while b.abs().sum() < 50:
        b *= 2
        view[0] += 1
    return a, b, view, a is b


@CHAPTER.captured("a set whose members depend on a tensor: `add`, `discard`, `remove`, `|=`, `in`, `len`, loops", XS)
def changing_set(x):
    seen, late = {"a"}, set()
    if x.sum() > 0:
        seen.add("b")
    else:
        seen |= {"c", "d"}
        seen.remove("a")
    while x.abs().sum() < 50:
        if "b" in seen:
            x = x + 1
        late.add("again" if "first" in late else "first")
        x = x * 2
    total = 0
    for name in seen:
        total += ord(name)
    return x, len(seen), sorted(seen | {"z"}), seen, late, total


@CHAPTER.captured(
    "a set or deque from outside: a global, an attribute, an argument", XS, note="A program belongs to what it holds."
)
def outside_set(x):
    if x.sum() > 0:
        _SEEN.add(2)
        _LATEST.append(x)
    found = len(_SEEN), 2 in _SEEN, len(_LATEST)
    _SEEN.discard(2)
    _LATEST.clear()
    return found


@CHAPTER.captured("a copy of a set from outside", XS)
def copied_set(x):
    seen = set(_SEEN)
    if x.sum() > 0:
        seen.add(2)
    return len(seen), 2 in seen, seen


@CHAPTER.captured("a set that a loop makes anew at each iteration", XS)
def set_made_anew(x):
    last = {"first"}
    while x.abs().sum() < 50:
        last = {"again"}
        x = x * 2
    return last


@CHAPTER.captured("a deque that grows or shrinks: a window of the last values", NS)
def growing_deque(n, x):
    window, total = collections.deque(maxlen=3), x
    for k in range(n):
        window.append(x * k)
        total = total + torch.stack(list(window)).mean(0)
    if n > 2:
        window.rotate(1)
        total = total + window.popleft() - window[-1]
    return total, len(window), sum(window), window


@CHAPTER.captured("a growing list of strings, of `None` or tensors, of tensors and numbers", NS)
def growing_mixed(n, x):
    names, found, mixed = ["first"], [], [x]
    for k in range(n):
        names.append("even" if k % 2 == 0 else f"odd {k}")
        found.append(x * k if k % 2 else None)
        mixed += [k, x]
    total = x
    for h in found:
        if h is not None:
            total = total + h
    return names, names.count("even"), "odd 1" in names, names[-1], found, mixed, total


@CHAPTER.captured("a growing list of dicts, dataclasses, named tuples and lists", NS)
def growing_records(n, x):
    tracks, states, rows = [], [], []
    for k in range(n):
        tracks.append({"h": x * k, "score": 3 - k})
        states.append((_State(x, k), _Pair(x + k)))
        rows.append([x, k])
    total = x
    for track in tracks:
        total = total + track["h"] * track["score"]
    for (state, pair), (row, k) in zip(states, rows):
        total = total + state.h * pair.a + row * k
        state_is_last = state.n + 1 == n
        total = total * 2 if state_is_last else total
    return tracks, states, rows, total, [track["score"] for track in sorted(tracks, key=lambda track: track["score"])]


@CHAPTER.captured("a string that grows in a loop, or is one of many", NS)
def growing_string(n, x):
    log = ""
    for k in range(n):
        log += f"{k}: {x.sum() * k:.1f} "
    letter = "abcdefghijkl"[n]
    return log, log == "0: 0.0 ", letter, letter != "f", "empty" if not log else "written"


@CHAPTER.captured("targets that take a growing list apart: `first, *rest = xs`, `a, (b, c) = …`", [*NS, (torch.tensor(0), XS[0])])
def taken_apart(n, x):
    items, rows = [x, x * 2], [(x, [n, 1])]
    for k in range(n):
        items.append(x * k)
        rows.append((x + k, [k, 2]))
    first, *middle, last = items
    h, (k, (number, two)) = 0, rows[-1]
    pair = [x, first]
    if n == 5:
        pair.append(last)
    a, b = pair
    return first, middle, last, k, number + two, [u * v for _, (u, v) in rows], a + b


@CHAPTER.captured(
    "a growing list: `torch.tensor`, `x[items]`, `extend` by a tensor, range or generator, `[a, *items]`, `print(*items)`", NS
)
def growing_spread(n, x):
    where, rows = [0], [x]
    for k in range(n):
        where.append(k % 3)
        rows.extend(x[:k])
    rows += (x * k for k in range(n))
    print(*where, sep="+")
    both = [*where, 2, *reversed(where)]
    return torch.tensor(where), torch.tensor([v * 0.5 for v in where]), x[where], rows, both, max(7, *where, 1), [*rows, x]


@CHAPTER.captured("a growing list: `f(*items)`, `max(*items, x)`, `zip(*rows)`, `(x, *items)`, `tuple(items)`", NS)
def growing_arguments(n, x):
    def total(first, *values):
        return first + sum(values)

    items, rows = [x], [(x, 0)]
    for k in range(n):
        items.append(x * k)
        rows.append((x, k))
    tensors, numbers = zip(*rows)
    return total(*items), torch.stack(tensors), max(*numbers, 2), (x, *items), tuple(items)


@CHAPTER.captured("a tuple that grows in a loop: `states += (h,)`", NS)
def growing_tuple(n, x):
    states = ()
    for k in range(n):
        states += (x * k,)
    return states, len(states)


@CHAPTER.refused(
    "`torch.block_diag(*items)` of a growing list",
    NS[:1],
    error=dy2st.CaptureError,
    says="gets the items of a list as its arguments",
)
def spread_to_a_function(n, x):
    return torch.block_diag(*[x * k for k in range(n)])


@CHAPTER.captured("walrus and nested targets in comprehensions", NS)
def walrus_in_comprehension(n, x):
    rows = [(k, (x * k, [k, k + 1])) for k in range(n)]
    found = [last := a * b for a, (b, [_, *_]) in rows if (total := b.sum()) > 0]
    names = {key: value for key, (value, *_) in [("a", (x, 1)), ("b", (x * 2, 2, 3))]}
    return found, names, last if found else total if rows else None


@CHAPTER.captured("a dict that branches fill in another order, asked for what is in it", XS)
def filled_in_another_order(x):
    table = {}
    if x.sum() > 0:
        table["a"], table["b"] = x, x * 2
    else:
        table["b"] = x
        table["a"] = x * 3
    return table["a"] + table["b"], len(table), "a" in table, sorted(table)


@CHAPTER.captured("the order of a dict's keys that depends on a branch or loop: `list(d)`, `return d`", XS)
def order_of_keys(x):
    table = {}
    if x.sum() > 0:
        table["a"] = x
    table["b"] = x * 2
    table["a"] = x * 3
    return list(table)


@CHAPTER.captured("Dicts and objects in a growing list, changed while they are there", NS)
def changed_item(n, x):
    tracks = []
    for k in range(n):
        tracks.append({"h": x * k, "hits": 0})
    for track in tracks:
        if track["h"].sum() > 1:
            track["hits"] += 1
    if tracks:
        tracks[0]["h"] = x
    return tracks


@CHAPTER.captured("Keys that dicts in a growing list get later, or lose", NS)
def new_key_of_an_item(n, x):
    tracks = []
    for k in range(n):
        tracks.append({"h": x * k})
    for track in tracks:
        track["hits"] = 1
        if track["h"].sum() > 1:
            del track["h"]
    return tracks


@CHAPTER.refused(
    "An attribute that an object in a growing list gets later",
    NS[:1],
    error=dy2st.CaptureError,
    says="gets 'hits', which it did not have when it was put in",
)
def new_attribute_of_an_item(n, x):
    tracks = []
    for k in range(n):
        tracks.append(_State(x * k))
    for track in tracks:
        track.hits = 1
    return tracks


@CHAPTER.captured("Heaps: `heapq` with tensors, numbers, tuples and objects in order", XS)
def smallest_first(x):
    heap, taken = [], []
    for k in range(3):
        heapq.heappush(heap, (x[k], k))
    while heap and len(taken) < 2:
        taken.append(heapq.heappop(heap)[1])
    return taken, heap


@CHAPTER.captured("A growing list of objects that the function makes", NS)
def growing_objects(n, x):
    class Slots:
        def __init__(self, a):
            self.a = a

    made = []
    for k in range(n):
        made.append(Slots(x * k))
    return len(made)
