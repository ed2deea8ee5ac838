"""Objects and dicts in lists whose length a tensor decides, changed while they are there."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch

import dy2st


class Plain:
    def __init__(self, s, n=0):
        self.s, self.n = s, n

    def __repr__(self):
        return f"Plain({self.n})"

    def push(self, s):
        self.s = self.s + s
        self.n += 1


class Slots:
    __slots__ = ("n", "s")

    def __init__(self, s, n=0):
        self.s, self.n = s, n


@dataclasses.dataclass
class Data:
    s: Any
    n: Any = 0
    tags: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class DataSlots:
    s: Any
    n: Any = 0


class WithProperty:
    def __init__(self, s, n=0):
        self._s, self.n = s, n

    @property
    def s(self):
        return self._s

    @s.setter
    def s(self, value):
        self._s = value * 2


KINDS = [Plain, Slots, Data, DataSlots, WithProperty]


def filled(x, make):
    items = []
    for t in range(3):
        if x[t] > 0:
            items.append(make(x[t]))
    return items


def each(x, kind):
    items = filled(x, kind)
    for item in items:
        item.n += 1
        item.s = item.s + 1
    if len(items) > 1:
        items[-1].s = items[0].s
        items[0], items[1] = items[1], items[0]
        items[0].n, items[1].n = 5, 6
    return [item.s for item in items], items


def best(x, kind):
    live, found = [], None
    for t in range(3):
        if x[t] > 0:
            item = kind(x[t], t)
            live.append(item)
            if found is None or item.s > found.s:
                found = item
    if found is not None:
        found.n = 100
    return [item.n for item in live]


def in_branches(x, kind):
    a, b = [], []
    for t in range(3):
        item = kind(x[t], t)
        if x[t] > 0:
            a.append(item)
        else:
            b.append(item)
        item.n += 10
    for item in a:
        item.s = item.s * 2
    return a, b


def in_two_lists(x, kind):
    a, b = [], []
    for t in range(3):
        if x[t] > 0:
            item = kind(x[t])
            a.append(item)
            b.append(item)
    for item in a:
        item.n += 1
    c = [item for item in a if item.s > 1]
    for item in c:
        item.n += 1
    return a, b, c


def put_in_again(x, kind):
    items, out = filled(x, kind), []
    if items:
        first = items[0]
        for k in range(3):
            if x[k] > 1:
                out.append(first)
        for item in out:
            item.n += 1
    return out, items


def worklist(x, kind):
    queue, done = [kind(x, 0)], []
    while queue:
        item = queue.pop()
        if item.n >= 2 or item.s.sum() > 9:
            done.append(item)
        else:
            item.n += 1
            item.s = item.s * 2
            queue.append(item)
    return done


def matched(x, kind):
    tracks = []
    for t in range(3):
        hit = False
        for track in tracks:
            if (track.s - x[t]).abs() < 1.5:
                track.s = 0.5 * (track.s + x[t])
                track.n += 1
                hit = True
                break
        if not hit:
            tracks.append(kind(x[t], 1))
    return tracks


def sorted_and_removed(x, kind):
    items = filled(x, kind)
    for item in items:
        item.n += 1
    items = [item for item in items if item.s > 1.5]
    if items:
        last = items.pop()
        last.n = 50
        items.insert(0, last)
    items.sort(key=lambda item: item.s)
    top = max(items, key=lambda item: item.n) if items else None
    if top is not None:
        top.n += 1
    return [item.n for item in items]


def nothing_yet(x, kind):
    items = filled(x, lambda v: kind(v, None))
    for item in items:
        if item.n is None:
            item.n = item.s * 2
    return items


def in_each_other(x, kind):
    items = filled(x, lambda v: kind(kind(v, 1), "a"))
    for item in items:
        inner = item.n
        item.n = inner + "b" if x.sum() > 8 else "c"
    return [item.n for item in items], items


def by_its_dict(x):
    items = filled(x, Plain)
    for item in items:
        item.__dict__["n"] = 4
    return [vars(item)["n"] for item in items], [getattr(item, "n", 3) for item in items], [hasattr(item, "m") for item in items]


def by_methods(x):
    live = [Plain(torch.zeros(()))]
    for t in range(3):
        new = []
        for item in live:
            if item.s < 4:
                item.push(x[t])
                new.append(item)
                if x[t] > 1:
                    new.append(Plain(item.s - 1, item.n))
            else:
                item.n = -1
                new.append(item)
        live = new
    return live


def copied(x):
    items = filled(x.detach(), Plain)
    last = None
    for item in items:
        last = copy.copy(item)
        last.n += 1
        item.n += 10
        copy.deepcopy(item).n = 0
    return (None if last is None else last.n), [item.n for item in items]


def of_dataclasses(x):
    items = filled(x.detach(), Data)
    for k in range(len(items)):
        items[k].n += 1
        items[k] = dataclasses.replace(items[k], s=items[k].s * 2)
        items[k].tags.append(k)
        items[k].n += len(items[k].tags)
    if items:
        items[0].tags = [7, 8]
    return items, [dataclasses.asdict(item) for item in items]


def dicts(x):
    items = filled(x, lambda v: {"a": v, "n": 0})
    for item in items:
        item.update(n=3)
        for key, value in item.items():
            if key == "n":
                item[key] = value + 1
        item["a"] = item.get("a") * 2
        if "n" in item and len(item) == 2:
            item["n"] += 1
    if len(items) > 1:
        items[-1]["a"] = items[0]["a"]
    return items, [{**item} for item in items], [list(item.values()) for item in items], [dict(item) for item in items]


def last_entry(x):
    log = [{"s": x, "n": 0}]
    for t in range(3):
        if x[t] > 0:
            log.append({"s": x * t, "n": t})
        else:
            log[-1]["n"] += 1
    return log


def returns_of_steps(x):
    steps = []
    for t in range(3):
        if x[t] != 2:
            steps.append({"r": x[t], "done": False, "value": None})
        if x[t] < 0 and steps:
            steps[-1]["done"] = True
    value = torch.zeros(())
    for step in reversed(steps):
        value = step["r"] + 0.9 * value
        step["value"] = value
    return steps


def particles(x):
    made = []
    while x.sum() < 6:
        x = x + 1
        made.append({"at": x, "speed": x * 0.5, "alive": True})
    for _ in range(2):
        for p in made:
            p["at"] = p["at"] + p["speed"]
            if p["at"].sum() > 8:
                p["alive"] = False
    return [p for p in made if p["alive"]], len(made)


def shown(value: Any, seen: dict[int, int]) -> Any:
    """A value in words, objects numbered by their identity."""
    if isinstance(value, torch.Tensor):
        return f"{value.tolist()} {value.dtype} {value.requires_grad}"
    if isinstance(value, (str, int, float, type(None))):
        return repr(value)
    if isinstance(value, tuple):
        return tuple(shown(part, seen) for part in value)
    number = seen.setdefault(id(value), len(seen))
    if isinstance(value, list):
        return [number, *(shown(part, seen) for part in value)]
    table = (
        value if isinstance(value, dict) else {**getattr(value, "__dict__", {}), **{n: getattr(value, n) for n in _slots(value)}}
    )
    return type(value).__name__, number, {name: shown(part, seen) for name, part in table.items()}


def _slots(value: Any) -> tuple[str, ...]:
    return tuple(getattr(type(value), "__slots__", ()))


WAYS = ([1.0, 2.0, 3.0], [9.0, 9.0, 9.0], [0.0, 6.0, 1.0], [-1.0, -2.0, -3.0], [2.0, -2.0, 2.0])


def outcome(function, way, *args):
    x = torch.tensor(way, requires_grad=True)
    result = function(x * 1, *args)
    tensors = [t for t in _tensors(result) if t.requires_grad]
    if tensors:
        torch.autograd.backward(sum(t.sum() for t in tensors))
    return shown(result, {}), None if x.grad is None else x.grad.tolist()


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for part in value for t in _tensors(part)]
    table = (
        value if isinstance(value, dict) else {**getattr(value, "__dict__", {}), **{n: getattr(value, n) for n in _slots(value)}}
    )
    return [t for part in table.values() for t in _tensors(part)]


def check(program, backend, *args):
    static = dy2st.to_static(program, backend=backend)
    for way in WAYS:
        assert outcome(static, way, *args) == outcome(program, way, *args)
    assert len(static.program_cache) == 1


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("kind", KINDS)
def test_items_of_each_kind_are_changed_in_one_program(kind, backend):
    check(each, backend, kind)


@pytest.mark.parametrize("kind", [Plain, DataSlots])
@pytest.mark.parametrize(
    "program", [best, in_branches, in_two_lists, put_in_again, worklist, matched, sorted_and_removed, nothing_yet, in_each_other]
)
def test_objects_in_growing_lists_are_changed_as_in_eager(program, kind):
    check(program, "native", kind)


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize(
    "program", [by_its_dict, by_methods, copied, of_dataclasses, dicts, last_entry, returns_of_steps, particles]
)
def test_ways_to_change_an_item(program, backend):
    check(program, backend)


def test_programs_that_change_items_are_saved_and_loaded(tmp_path):
    for number, program in enumerate((last_entry, particles)):
        x = torch.tensor(WAYS[0])
        dy2st.save(dy2st.to_static(program), str(tmp_path / f"p{number}.dy2st"), input_spec=[x])
        loaded = dy2st.load(str(tmp_path / f"p{number}.dy2st"))
        for way in WAYS:
            assert shown(loaded(torch.tensor(way)), {}) == shown(program(torch.tensor(way)), {})


def test_changed_items_are_printed_as_in_eager(capsys):
    def prints(x):
        items = filled(x, Plain) + filled(x, Data)
        for item in items:
            item.n += 1
            print(item)
        print(items)

    x = torch.tensor(WAYS[2])
    prints(x)
    expected = capsys.readouterr().out
    dy2st.to_static(prints)(x)
    assert capsys.readouterr().out == expected


def test_a_new_attribute_is_refused():
    def adds(x):
        items = filled(x, Plain)
        for item in items:
            item.extra = 1
        return [item.extra for item in items]

    with pytest.raises(dy2st.CaptureError, match="'extra', which it did not have when it was put in"):
        dy2st.to_static(adds)(torch.tensor(WAYS[0]))


class Link:
    def __init__(self, value, after):
        self.value, self.after = value, after


def test_a_chain_of_objects_is_refused_and_its_fix_works():
    def chain(x):
        last = None
        while x.sum() < 6:
            x = x + 1
            last = Link(x, last)
        return last

    def by_position(x):
        links, last, total = [], -1, torch.zeros(())
        while x.sum() < 6:
            x = x + 1
            links.append(Link(x, last))
            last = len(links) - 1
        while last >= 0:
            total = total + links[last].value.sum()
            last = links[last].after
        return total

    with pytest.raises(dy2st.LoopVariableError, match="'last' holds the one of the iteration before"):
        dy2st.to_static(chain)(torch.tensor(WAYS[3]))
    check(by_position, "native")
