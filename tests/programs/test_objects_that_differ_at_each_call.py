"""State made of objects, of which each call finds others: trackers, queues, trees, undo stacks; one program serves all."""

from __future__ import annotations

import collections
import copy
import dataclasses
import heapq
import threading
from typing import Any

import pytest
import torch

import dy2st
from dy2st_runtime.primitives.cells import Cell
from tests.programs.state import described

XS = [
    torch.tensor(pair)
    for pair in ([1.0, 2], [-1.0, -2], [0.5, -0.25], [3.0, 1], [2.0, 2], [-3.0, 1], [1.0, 1], [-1.0, 0.5], [4.0, 4], [-5.0, -1])
]


class Item:
    def __init__(self, h, n=0):
        self.h, self.n = h, n


class Slots:
    __slots__ = ("h", "n")

    def __init__(self, h, n=0):
        self.h, self.n = h, n


@dataclasses.dataclass
class Data:
    h: Any
    n: Any = 0
    tags: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    h: Any
    n: Any = 0


class World:
    def __init__(self):
        self.items, self.others, self.best, self.table, self.count = [], [], None, {}, 0

    def step(self, x):
        raise NotImplementedError


class Tracks(World):
    def step(self, x):
        hit = None
        for t in self.items:
            if (t.h - x).abs().sum() < 3.0:
                t.h, t.n = 0.5 * t.h + 0.5 * x, 0
                t.tags.append(self.count)
                hit = t
                break
        if hit is None:
            self.items.append(Data(x))
            self.count += 1
        for t in self.items:
            if t is not hit:
                t.n += 1
        self.items = [t for t in self.items if t.n < 4]
        return [t.n for t in self.items], [len(t.tags) for t in self.items]


class ReturnsOne(World):
    def step(self, x):
        self.items.append(Item(x, len(self.items)))
        best = self.items[0]
        for t in self.items:
            if t.h.sum() > best.h.sum():
                best = t
        return best


class ReturnsFirst(World):
    def step(self, x):
        if not self.items or x.sum() > 3:
            self.items.append(Item(x))
        return self.items[0]


class KeepsBest(World):
    def step(self, x):
        self.items.append(Item(x, len(self.items)))
        last = self.items[-1]
        for t in self.items:
            if self.best is None or t.h.sum() > self.best.h.sum():
                self.best = t
        self.best.n += 10
        return self.best is last, self.best is self.items[0], [t.n for t in self.items]


class GivesBack(World):
    def step(self, x):
        if x.sum() > 0:
            self.items.append(Item(x))
            return None
        if self.items:
            item = self.items.pop()
            item.n += 1
            return item
        return None


class MovesBetweenLists(World):
    def step(self, x):
        self.items.append(Item(x))
        for a in self.items:
            a.n += 1
        still = []
        for a in self.items:
            if a.h.sum() + a.n > 3:
                self.others.append(a)
            else:
                still.append(a)
        self.items = still
        return len(self.items), [d.n for d in self.others]


class WithSlots(World):
    def step(self, x):
        for i in self.items:
            if i.h.sum() > x.sum():
                i.n = i.n + 1
        self.items.append(Slots(x.clone()))
        return sum(i.n for i in self.items)


class Immutable(World):
    def step(self, x):
        self.items = [dataclasses.replace(i, n=i.n + 1) for i in self.items if i.n < 3]
        self.items.append(Frozen(x * 2))
        return torch.stack([i.h for i in self.items]).sum(0), self.items[0]


class Dicts(World):
    def step(self, x):
        for d in self.items:
            if d["loss"] < float(x.sum()):
                d["n"] += 1
        self.items.append({"loss": float(x.sum()), "n": 0})
        worst = max(self.items, key=lambda d: d["loss"])
        return [d["n"] for d in self.items], worst


class Subclasses(World):
    class Square(Item):
        def area(self):
            return self.h.prod()

    class Circle(Item):
        def area(self):
            return self.h.sum() * 3

        def grow(self):
            self.h = self.h * 1.5

    def step(self, x):
        self.items.append(self.Square(x) if x.sum() > 0 else self.Circle(x))
        for i in self.items:
            if isinstance(i, self.Circle):
                i.grow()
        return sum(i.area() for i in self.items)


class Nested(World):
    def step(self, x):
        for o in self.items:
            if (o.h.h - x).norm() < 3:
                o.h.h = o.h.h + 0.5 * (x - o.h.h)
        if len(self.items) < 4:
            self.items.append(Item(Item(x), self.count))
            self.count += 1
        return [o.h.h for o in self.items]


class Shared(World):
    def step(self, x):
        if self.best is None:
            self.best = Item(torch.ones(2))
        self.items.append(Item(self.best, len(self.items)))
        self.best.n += 1
        return self.items[0].h is self.best, self.items[-1].h.n


class Twice(World):
    def step(self, x):
        a = Item(x)
        self.items.append(a)
        if x.sum() > 0:
            self.items.append(a)
        for i in self.items:
            i.n += 1
        return [i.n for i in self.items], self.items[-1] is self.items[0], sum(i is self.items[0] for i in self.items)


class RemovedWhileIterating(World):
    def step(self, x):
        self.items.append(Item(x, 3))
        for i in list(self.items):
            i.n -= 1
            if i.n == 0:
                self.items.remove(i)
        return len(self.items), [self.items.index(i) for i in self.items]


class Raises(World):
    def step(self, x):
        self.items.append(Item(x))
        for i in self.items:
            i.n += 1
            if i.h.sum() < -2 and x.sum() > 2:
                raise ValueError("too far apart")
        return len(self.items)


class Optional(World):
    def step(self, x):
        for i in self.items:
            if i.n is None and i.h.sum() > x.sum():
                i.n = x
        self.items.append(Item(x, None))
        return sum(i.n is None for i in self.items)


class Queue(World):
    class Event(Item):
        def __lt__(self, other):
            return self.n < other.n

    def step(self, x):
        heapq.heappush(self.items, self.Event(x, self.count + float(x.abs().sum())))
        out = []
        while self.items and self.items[0].n <= self.count:
            out.append(heapq.heappop(self.items).h)
        self.count += 2.0
        return out, len(self.items)


class Population(World):
    def step(self, x):
        self.items.append(Item(x, None))
        for i in self.items:
            if i.n is None:
                i.n = float(-(i.h**2).sum())
        self.items = sorted(self.items, key=lambda i: -i.n)[:4]
        return self.items[0].n


class Sublists(World):
    def step(self, x):
        if x.sum() > 0 or not self.items:
            self.items.append([])
        self.items[-1].append(x)
        return [len(g) for g in self.items], torch.stack(self.items[0]).sum(0)


class Alias(World):
    def __init__(self):
        super().__init__()
        self.others = self.items

    def step(self, x):
        self.items.append(Item(x))
        for i in self.others:
            i.n += 1
        return len(self.others), self.items is self.others


class InPlace(World):
    def step(self, x):
        self.items.append(Item(x.clone()))
        for i in self.items:
            if i.h.sum() > 0:
                i.h.add_(1)
                i.h[0] = 0.0
        return [i.h for i in self.items]


class Current(World):
    def step(self, x):
        if self.best is None or x.sum() > 2:
            self.best = Item(x)
            self.items.append(self.best)
        else:
            self.best.n += 1
            self.best.h = self.best.h + x
        return [i.n for i in self.items], self.best.h


class CurrentRemoved(World):
    def step(self, x):
        if x.sum() < -1 and self.best is not None:
            self.items.remove(self.best)
            self.best = self.items[-1] if self.items else None
        elif x.sum() > 0:
            self.best = Item(x)
            self.items.append(self.best)
        return len(self.items), None if self.best is None else self.best.h


class Tree(World):
    class Node:
        def __init__(self, v):
            self.v, self.children, self.visits = v, [], 0

    def __init__(self):
        super().__init__()
        self.best = self.Node(torch.zeros(2))

    def step(self, x):
        root = self.best
        root.visits += 1
        if root.children:
            child = max(root.children, key=lambda c: c.v.sum() - c.visits)
            child.visits += 1
            if x.sum() > 0:
                child.children.append(self.Node(x))
        if x.sum() > 0:
            root.children.append(self.Node(x))
        return [len(c.children) for c in root.children], root.visits


class Edges(World):
    def step(self, x):
        self.items.append(Item(x))
        if len(self.items) > 1 and x.sum() > 0:
            self.others.append((self.items[-2], self.items[-1]))
            self.items[-1].n += 1
        for a, _ in self.others:
            a.n += 1
        return [i.n for i in self.items], sum(a is self.items[0] for a, _ in self.others)


class Swapped(World):
    def __init__(self):
        super().__init__()
        self.a, self.b = Item(torch.zeros(2), 1), Item(torch.ones(2), 2)

    def step(self, x):
        if x.sum() > 0:
            self.a, self.b = self.b, self.a
        self.a.n += 1
        self.items.append(self.a)
        return self.a.n, self.b.n, sum(i is self.a for i in self.items), [i.n for i in self.items]


class States(World):
    def __init__(self):
        super().__init__()
        self.best = Data(torch.zeros(2))

    def step(self, x):
        s = self.best
        self.items.append(s)
        self.best = Data(s.h + x, s.n + 1)
        if x.sum() < -1 and len(self.items) > 2:
            self.best = self.items.pop()
            self.items.pop()
        return self.best.h, self.best.n, len(self.items)


class LastInAList(World):
    def step(self, x):
        pairs = []
        if self.best is None or x[0] > 2:
            self.best = Item(x)
        if x.sum() > 0:
            pairs.append(self.best)
        for p in pairs:
            p.n += 1
        return [p.h for p in pairs], self.best.n


class UnderKeys(World):
    def step(self, x):
        k = int(x[0])
        if k not in self.table:
            self.table[k] = Item(x)
        o = self.table[k]
        o.n += 1
        o.h = o.h + x
        return o.n, o.h, max(v.n for v in self.table.values())


class RemovedKeys(World):
    def step(self, x):
        self.count += 1
        self.table[self.count] = Item(x)
        for k in list(self.table):
            self.table[k].n += 1
            if self.table[k].n > 3:
                del self.table[k]
        return list(self.table)


class GroupedByKey(World):
    def __init__(self):
        super().__init__()
        self.table = collections.defaultdict(list)

    def step(self, x):
        self.table[int(x[0])].append(x)
        return {k: len(v) for k, v in self.table.items()}


class LeastRecent(World):
    def step(self, x):
        k = int(x[0])
        if k in self.table:
            entry = self.table.pop(k)
            entry.n += 1
        else:
            entry = Item(x * 2)
        self.table[k] = entry
        if len(self.table) > 2:
            del self.table[next(iter(self.table))]
        return entry.h, entry.n, list(self.table)


class Copied(World):
    def step(self, x):
        self.items.append(Item(x))
        c = copy.copy(self.items[0])
        c.n += 5
        self.items.append(c)
        for i in self.items:
            i.n += 1
        if len(self.items) > 5:
            self.items = self.items[2:]
        return [i.n for i in self.items], c is self.items[-1]


class NamedTuples(World):
    Step = collections.namedtuple("Step", "state action reward size")

    def step(self, x):
        self.items.append(self.Step(x, int(x[0]), float(x[1]), x.shape))
        if len(self.items) > 4:
            self.items.pop(0)
        return sum(t.reward for t in self.items), torch.stack([t.state for t in self.items]).mean(0), self.items[-1].size[0]


class Replaced(World):
    def step(self, x):
        if self.best is None:
            self.best = Frozen(x)
        if x.sum() > 0:
            self.best = dataclasses.replace(self.best, n=x.sum())
        else:
            self.others.append(self.best)
        return self.best.h


WORLDS = [
    Copied, NamedTuples, Replaced,
    Tracks, ReturnsOne, ReturnsFirst, KeepsBest, GivesBack, MovesBetweenLists, WithSlots, Immutable, Dicts, Subclasses, Nested,
    Shared, Twice, RemovedWhileIterating, Raises, Optional, Queue, Population, Sublists, Alias, InPlace, Current, CurrentRemoved,
    Tree, Edges, Swapped, States, LastInAList, UnderKeys, RemovedKeys, GroupedByKey, LeastRecent,
]  # fmt: skip


def pictures(world, step, xs):
    """What each call gives and leaves, with the identity of the objects in both."""
    results = []
    for x in xs:
        try:
            result = step(x)
        except ValueError as error:
            result = str(error).split("\nraised")[0]
        results.append(described((result, vars(world))))
    return results


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize("kind", WORLDS)
def test_few_programs_serve_all_calls(kind, backend):
    eager, world = kind(), kind()
    static = dy2st.to_static(world.step, backend=backend)
    assert pictures(world, static, XS) == pictures(eager, eager.step, XS)
    assert len(static.program_cache) <= 4
    known = len(static.program_cache)
    assert pictures(world, static, XS) == pictures(eager, eager.step, XS)
    assert len(static.program_cache) <= known + 1


def test_state_is_changed_between_calls():
    eager, world = KeepsBest(), KeepsBest()
    static = dy2st.to_static(world.step)
    for position, x in enumerate([*XS, *XS]):
        assert pictures(world, static, [x]) == pictures(eager, eager.step, [x])
        for one in (eager, world):
            match position:
                case 3:
                    one.best = one.items[0]
                case 5:
                    one.items = [Item(torch.ones(2), 7), one.items[1]]
                case 7:
                    one.items.append(one.best)
                case 9:
                    one.best = Item(torch.zeros(2))
                case 11:
                    one.items.clear()
                case 13:
                    one.items[0].n = None
                case 14:
                    one.items[0].n = 3
                case 15:
                    one.items[0].extra = 1
    assert pictures(world, static, XS[:1]) == pictures(eager, eager.step, XS[:1])


def test_an_object_is_known_by_two_names_at_some_calls():
    class Two(World):
        def __init__(self):
            super().__init__()
            self.items, self.a, self.b = [Item(torch.zeros(2))], None, Item(torch.ones(2))

        def step(self, x):
            self.items.append(Item(x))
            for i in self.items:
                i.n += 1
            self.b.n += 100
            return self.b is self.items[0], [i.n for i in self.items], self.b.n

    eager, world = Two(), Two()
    static = dy2st.to_static(world.step)
    for position, x in enumerate(XS):
        for one in (eager, world):
            if position in (3, 7):
                one.b = one.items[1]
            if position == 5:
                one.b = Item(torch.zeros(2))
        assert pictures(world, static, [x]) == pictures(eager, eager.step, [x])


def test_objects_have_their_attributes_when_a_call_has_raised():
    class Fails(World):
        def step(self, x):
            self.items.append(Item(x))
            for i in self.items:
                i.n += 1
                torch.linalg.cholesky(torch.diag(i.h + 2))
            return len(self.items)

    eager, world = Fails(), Fails()
    static = dy2st.to_static(world.step)
    for x in XS:
        errors = []
        for step in (eager.step, static):
            try:
                step(x)
            except torch.linalg.LinAlgError as error:
                errors.append(str(error).split("\nraised")[0])
        assert len(errors) in (0, 2)
        assert described(vars(world)) == described(vars(eager))
    assert not any(isinstance(part, Cell) for item in world.items for part in vars(item).values())


def test_objects_that_a_program_changes_are_changed_by_one_thread_at_a_time():
    class Counted(World):
        def step(self, x):
            for i in self.items:
                if x.sum() > 0:
                    i.n += 1
            if x.sum() > 100:
                self.items.append(Item(x))
            return x

    world = Counted()
    static = dy2st.to_static(world.step)
    for x in (XS[0], XS[0] * 100, XS[0]):
        static(x)
    before = [i.n for i in world.items]

    def work():
        for _ in range(50):
            static(XS[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [i.n for i in world.items] == [n + 200 for n in before]


# -- which object one is that a list of the program gives -------------------------------------------------------------------------


def made(kind, x, count):
    items = []
    for k in range(count):
        if x.sum() > k:
            items.append(kind(x + k, 2))
    return items


def compared(kind, x):
    items = made(kind, x, 3)
    other = items[1:]
    return [(i in other, i not in other, i == items[0], i != items[0], items.index(i)) for i in items]


def removed(kind, x):
    items = made(kind, x, 3)
    for i in list(items):
        i.n -= 1
        if i.h.sum() > 4:
            items.remove(i)
    return [i.h for i in items], [i.n for i in items]


def counted(kind, x):
    items = made(kind, x, 3)
    return [(items + items).count(i) for i in items], items == list(items), items == items[::-1]


def in_tuples(kind, x):
    items = made(kind, x, 3)
    return [(i, 1) == (items[0], 1) for i in items], [(i, 1) in [(j, 1) for j in items] for i in items]


def by_id(kind, x):
    items = made(kind, x, 3)
    return [id(i) == id(items[0]) for i in items]


@dataclasses.dataclass(eq=False)
class ByIdentity:
    h: Any
    n: int = 0


@pytest.mark.parametrize("program", [compared, removed, counted, in_tuples, by_id])
@pytest.mark.parametrize("kind", [Item, ByIdentity])
def test_objects_are_compared_by_identity(program, kind):
    static = dy2st.to_static(program)
    for x in XS[:4]:
        assert described(static(kind, x)) == described(program(kind, x))


@pytest.mark.parametrize(
    "use", [lambda i, seen: seen.add(i), lambda i, seen: seen.add((i, 1)), lambda i, seen: seen.add(id(i)), lambda i, seen: hash(i)]
)
def test_objects_that_only_the_program_knows_are_no_keys(use):
    @dy2st.to_static
    def f(x):
        seen = set()
        for i in made(Item, x, 3):
            use(i, seen)
        return len(seen)

    with pytest.raises(dy2st.CaptureError, match="hashed|used as a key") as caught:
        f(XS[0])
    assert __file__ in str(caught.value)


def test_ids_are_not_kept():
    @dy2st.to_static
    def f(x):
        seen = []
        for i in made(Item, x, 3):
            seen.append(id(i))
        return len(seen)

    with pytest.raises(dy2st.CaptureError, match="id or hash"):
        f(XS[0])


def test_what_may_fail_leaves_objects_in_lists_as_they_are():
    class Appends(World):
        def step(self, x):
            a, seen = Item(x), []
            if x.sum() != 0:
                self.items += [a, a]
                seen.append([t is a for t in self.items])
                a.n = a.n + 1
            return seen

    eager, world = Appends(), Appends()
    assert pictures(world, dy2st.to_static(world.step), XS) == pictures(eager, eager.step, XS)


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize("kind", [Item, Slots, lambda h: [h], lambda h: {"h": h}, lambda h: (h, 1)])
def test_gradients_go_through_what_is_kept_in_a_list(kind, backend):
    class Sums(World):
        def step(self, x):
            total = x.sum()
            for i in self.items:
                for h in parts(i):
                    total = total + (h * h).sum()
            if x.sum() > 100:
                self.items.append(kind(x))
            return total

    def parts(item):
        if isinstance(item, (Item, Slots)):
            return [item.h]
        return [item["h"]] if isinstance(item, dict) else [item[0]]

    w, world = torch.ones(2, requires_grad=True), Sums()
    static = dy2st.to_static(world.step, backend=backend)
    expected = 0.0
    for count in range(1, 6):
        result = static(torch.ones(2))
        assert result.requires_grad is (count > 1)
        if count > 1:
            assert torch.autograd.grad(result, w, retain_graph=True)[0].tolist() == [expected] * 2
        world.items.append(kind(w * count))
        expected += 2.0 * count * count
    assert len(static.program_cache) == 2
