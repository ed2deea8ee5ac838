"""What `for` loops step through: Python iterables, iterators of the user's, lengths that a tensor decides."""

from __future__ import annotations

import collections
import itertools
import types

import pytest
import torch

import dy2st
from tests.oracle import agree, same
from tests.programs.values import counts, signs, vec

X = vec(1, 2, 3)


def trips():
    return [(X, count) for count in counts(3, 0, 1, 9)]


def lengths():
    return [(X, count) for count in counts(3, 1, 0, 5)]


def ways():
    return [X, vec(0, 0, 0), vec(9, 9, 9), vec(-20, 0, 1)]


def refused(function, says):
    with pytest.raises(dy2st.CaptureError, match=says):
        dy2st.to_static(function)(X)


class Counting:
    def __init__(self, n):
        self.n = n
        self.i = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.i >= self.n:
            raise StopIteration
        self.i += 1
        return self.i


class ByPosition:
    def __init__(self, n):
        self.n = n

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError
        return i * 2

    def __len__(self):
        return self.n


class Generating:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            yield i


class UntilLarge:
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        return self

    def __next__(self):
        if self.x.sum() > 20:
            raise StopIteration
        self.x = self.x + 3
        return self.x


def test_a_range_that_counts_down():
    def f(x, n):
        for i in range(n, 0, -1):
            x = x + i
        return x

    agree(f, trips())


def test_a_range_of_tensors():
    def f(x, a, b, c):
        for i in range(a, b, c):
            x = x * 2 + i
        return x

    agree(f, [(X, a, b, c) for a, b, c in zip(counts(0, 2, 5, 9), counts(5, 2, 9, 1), counts(1, 2, 3, -2))])


def test_a_range_with_step_zero():
    def f(x, a, b, c):
        for i in range(a, b, c):
            x = x * 2 + i
        return x

    agree(f, [(X, a, b, c) for a, b, c in zip(counts(0, 2, 5, 9), counts(5, 2, 9, 1), counts(1, 2, 0, -2))])


def test_a_reversed_range_of_dynamic_length_counts_down():
    def f(x, n):
        for i in reversed(range(n)):
            x = x * 2 + i
        return x

    agree(f, trips())


def test_enumerate_of_a_range():
    def f(x, n):
        for i, j in enumerate(range(n), start=2):
            x = x * 2 + i - j
        return x

    agree(f, trips())


def test_a_strict_zip_raises_where_the_lengths_differ():
    def f(x, n):
        for a, b in zip(x, range(n), strict=True):
            x = x + a * b
        return x

    agree(f, [(vec(*range(k)), n) for k, n in ((3, torch.tensor(3)), (3, torch.tensor(1)), (3, torch.tensor(0)))])


def test_strict_zip_left_early():
    def f(x, n):
        y = x
        for i, (a, b) in enumerate(zip(range(n), x, strict=True)):
            if n == 5 and i == 1:
                break
            y = y + a * b
        else:
            y = y * 2
        return y

    agree(f, lengths())


def test_strict_zip_of_three():
    def f(x, n):
        y = x
        for a, b, c in zip(x, range(3), range(n), strict=True):
            y = y + a * b * c
            print(c)
        return y

    agree(f, lengths())


def test_loops_over_a_dict_are_left_and_continued_by_tensors():
    def f(x):
        d = {"a": 1.0, "b": x, "c": 3}
        for k in d:
            x = x + d[k]
            if x.sum() > 10:
                break
        for k, v in d.items():
            x = x + v
            if x.sum() > 20:
                break
        for v in d.values():
            x = x * v
            if x.sum() < 0:
                continue
            x = x + 1
        for k in d.keys():
            if k == "b":
                continue
            x = x + len(k)
        return x

    agree(f, signs())


def test_strings_and_sorted_sets():
    def f(x):
        for c in "abc":
            x = x + ord(c)
            if x.sum() > 500:
                break
        for c in sorted({1, 2, 3}):
            x = x * c
            if x.sum() > 500:
                break
        return x, c

    agree(f, signs())


def test_loops_step_through_what_itertools_makes():
    def f(x):
        for a, b in itertools.product([1, 2], [3.0, 4.0]):
            x = x * a + b
            if x.sum() > 50:
                break
        for a in itertools.chain([1], (2, 3)):
            x = x + a
            if x.sum() < 0:
                continue
            x = x + a
        for i in itertools.islice(itertools.count(2), 4):
            x = x + i
        for i in itertools.repeat(x, 3):
            x = x + i
        for a, b in itertools.pairwise([1, 2, 3]):
            x = x + a * b
        for a in itertools.accumulate([x, x + 1, x * 2]):
            x = x + a
        for a in itertools.takewhile(lambda v: v < 3, [1, 2, 3]):
            x = x + a
        for a, b in itertools.zip_longest([1, 2], [3]):
            x = x + a
        for k, g in itertools.groupby([1, 1, 2]):
            for v in g:
                x = x + v * k
        return x

    agree(f, signs())


def test_generators_that_read_what_the_loop_changes():
    def f(x):
        for v in (x * k for k in range(3)):
            x = x + v
            if x.sum() > 10:
                break

        def g(n):
            for i in range(n):
                yield x + i

        for v in g(3):
            x = x + v
        for v in map(lambda t: t * 2, [x, x + 1]):
            x = x + v
        for v in filter(lambda t: t > 1, [1, 2, 3]):
            x = x + v
        return x

    agree(f, signs())


def test_iterators_of_the_user():
    def f(x):
        for v in Counting(3):
            x = x + v
        for v in ByPosition(3):
            x = x + v
        for v in Generating(3):
            x = x + v
        return x

    agree(f, signs())


def test_iterators_of_the_user_left_early():
    def f(x):
        for v in Counting(3):
            x = x + v
            if x.sum() > 10:
                break
        for v in ByPosition(3):
            x = x + v
            if x.sum() > 20:
                break
        for v in Generating(3):
            x = x + v
            if x.sum() > 30:
                break
        return x

    agree(f, signs())


def test_iter_of_a_function_and_a_sentinel():
    def f(x):
        c = [3, 2, 1, 0, 5]
        for v in iter(lambda: c.pop(0), 0):
            x = x + v
        return x, c

    agree(f, signs())


def test_every_kind_of_target():
    def f(x):
        d = {}
        l = [0, 0]

        class Box:
            pass

        o = Box()
        for (a, (b, *c)), l[0] in [((1, (2, 3, 4)), x), ((5, (6,)), x + 1)]:
            x = x * a + b + len(c) + l[0]
        for o.v in range(3):
            x = x + o.v
            if x.sum() > 30:
                break
        for d["k"] in [x, x * 2]:
            x = x + d["k"]
        for a, *b in [(1, 2, 3), (4, 5)]:
            x = x + a + sum(b)
        return x, l, d, o.v, b, c

    agree(f, signs())


def test_targets_in_captured_loops():
    def f(x, n):
        l = [0, 0]
        d = {"k": 0}
        for l[0] in range(n):
            x = x + l[0]
        for d["k"] in range(n):
            x = x * 2 + d["k"]
            if x.sum() > 30:
                break
        for i, (j, k) in enumerate(zip(range(n), range(1, 100))):
            x = x + i * j - k
        return x, l, d

    agree(f, trips())


def test_rows_of_a_tensor():
    def f(x):
        t = x[0] * 0
        for a, b in x:
            t = t + a * 2 - b
            if t.sum() > 3:
                break
        else:
            t = t - 100
        for *a, b in x:
            t = t + b + len(a)
        for i, row in enumerate(reversed(x)):
            t = t + row * i
        for r, s in zip(x, x[1:]):
            t = t + r * s
        return t

    agree(f, [torch.arange(6.0).double().view(3, 2), torch.ones(3, 2).double() * 5, torch.zeros(3, 2).double()])


def test_rows_of_a_tensor_of_unknown_length():
    def f(x):
        t = x[0] * 0
        for a, b in x[x.sum(1) > 3]:
            t = t + a * 2 - b
            if t.sum() > 3:
                break
        else:
            t = t - 100
        for i, row in enumerate(reversed(x[x.sum(1) > 3])):
            t = t + row * i
        return t

    agree(f, [torch.arange(6.0).double().view(3, 2), torch.ones(3, 2).double() * 5, torch.zeros(3, 2).double()])


def test_an_iterator_of_the_user_in_a_branch():
    def f(x):
        it = Counting(5)
        if x.sum() > 0:
            for v in it:
                x = x + v
                if v == 2:
                    break
        return x, it.i

    agree(f, signs())


def test_a_list_that_the_loop_grows_and_leaves():
    def f(x):
        l = [1, 2, 3]
        for v in l:
            x = x + v
            if x.sum() > 20:
                break
            if v < 3:
                l.append(v + 3)
        return x, len(l)

    agree(f, signs())


def test_a_dict_that_the_loop_changes():
    def f(x):
        l = {"a": 1, "b": 2}
        for v in l:
            x = x + l[v]
            if x.sum() > 20:
                break
            l[v] = 10
            l["b"] += 1
        return x, l

    agree(f, signs())


def test_a_generator_that_accumulates():
    def f(x):
        def g():
            a = x
            for i in range(3):
                a = a + 1
                yield a

        y = x
        for v in g():
            y = y + v
            if y.sum() > 20:
                break
        return y

    agree(f, signs())


def test_a_loop_over_a_map_is_left_by_a_tensor():
    def f(x):
        for v in map(lambda k: x * k, range(3)):
            x = x + v
            if x.sum() > 20:
                break
        return x

    agree(f, signs())


def test_a_loop_over_an_endless_count_is_left_by_a_tensor():
    def f(x):
        for i in itertools.count():
            x = x + i
            if x.sum() > 100:
                break
        return x, i

    agree(f, signs())


def test_a_list_that_the_loop_grows():
    def f(x):
        l = [x, x * 2]
        for v in l:
            if v.sum() > 3 and len(l) < 5:
                l.append(v - 4)
            x = x + v
        return x, len(l)

    agree(f, signs())


def test_an_iterator_used_by_two_loops():
    def f(x):
        it = iter([1, 2, 3, 4])
        for v in it:
            x = x + v
            if v == 2:
                break
        if x.sum() > 0:
            x = x * 2
        for v in it:
            x = x * v
        return x, next(it, None)

    agree(f, signs())


def test_next_and_stop_iteration():
    def f(x):
        it = iter((x, x * 2))
        a = next(it)
        b = next(it)
        c = next(it, 5)
        try:
            next(it)
        except StopIteration:
            x = x + 1
        return a + b + c + x

    agree(f, signs())


def test_zip_of_one_iterator_with_itself():
    def f(x):
        it = iter(range(6))
        for a, b in zip(it, it):
            x = x + a * b
            if x.sum() > 10:
                break
        return x

    agree(f, signs())


def test_an_iterator_over_a_range():
    def f(x):
        it = iter(range(100))
        for a in it:
            x = x + a
            if x.sum() > 10:
                break
        return x

    agree(f, signs())


def test_a_loop_over_a_zipped_cycle_is_left_by_a_tensor():
    def f(x):
        for a, b in zip(itertools.cycle([1, 2]), range(5)):
            x = x + a * b
            if x.sum() > 10:
                break
        return x

    agree(f, signs())


def test_iterators_made_in_a_branch():
    def f(x):
        if x.sum() > 0:
            it = iter([1, 2, 3])
            x = x + next(it)
            for v in it:
                x = x * v
        else:
            for v in (k * x for k in range(3)):
                x = x + v
        return x

    agree(f, signs())


def test_next_in_the_body_of_a_loop_that_a_tensor_leaves():
    def f(x):
        it = iter([1, 2, 3, 4, 5])
        for v in it:
            w = next(it, 0)
            x = x + v * w
            if x.sum() > 20:
                break
        return x

    agree(f, ways())


def test_an_iterator_that_only_one_branch_steps():
    def f(x):
        it = iter([1, 2, 3, 4, 5])
        if x.sum() > 0:
            for v in it:
                x = x + v
                if v == 2:
                    break
        for v in it:
            x = x * v
        return x

    agree(f, ways())


def test_a_generator_that_branches_step_differently():
    def f(x):
        it = (i for i in range(5))
        if x.sum() > 0:
            x = x + next(it)
        else:
            x = x + next(it) + next(it)
        for v in it:
            x = x * v
        return x

    agree(f, ways())


def test_an_iterator_of_the_user_after_its_loop():
    def f(x):
        it = Counting(5)
        for v in it:
            x = x + v
            if x.sum() > 20:
                break
        return x, it.i

    agree(f, ways())


def test_a_generator_that_writes_in_a_loop_that_a_tensor_leaves():
    def f(x):
        log = []

        def g():
            for i in range(3):
                log.append(i)
                yield i

        for v in g():
            x = x + v
            if x.sum() > 3:
                break
        return x, log

    agree(f, ways())


def test_a_loop_over_an_endless_cycle_is_refused():
    def f(x):
        for i in itertools.cycle([1, 2]):
            x = x + i
            if x.sum() > 100:
                break
        return x, i

    refused(f, "endless iterator")


def test_a_sentinel_that_a_tensor_decides():
    def f(x):
        c = [3, 2, 1, 0, 5]
        for v in iter(lambda: c.pop(0), 0):
            x = x + v
            if x.sum() > 10:
                break
        return x, len(c)

    refused(f, "ends where a tensor decides")


def test_an_iterator_that_a_tensor_ends():
    def f(x):
        s = x
        for v in UntilLarge(x):
            s = s + v
        return s

    agree(f, ways())


def test_enumerate_of_a_list_that_the_loop_grows():
    def f(x):
        l = [x, x * 2]
        for i, _ in enumerate(l):
            if x.sum() > 3:
                l.append(x - 4)
            x = x - 1
        return x, len(l)

    agree(f, ways())


class Holding:
    """Iterators that are there before the function is called."""

    def __init__(self):
        self.items = iter([float(k) for k in range(20)])
        self.steps = (float(k) for k in range(20))
        self.pair = (itertools.count(), 1)
        self.queue = collections.deque()

    def left(self):
        return next(self.items), next(self.steps), next(self.pair[0])


def takes_in_any_case(w, x):
    more = [b + x for a, b in zip(range(2), w.items)]
    return x + next(w.items), next(w.pair[0]), sum(itertools.islice(w.steps, 2)), more


def takes_for_a_known_number_of_iterations(w, x):
    for row in x:
        x = x + next(w.items) * row
    for k in w.steps:
        x = x + k
        if k > 2:
            break
    return x


@pytest.mark.parametrize("function", [takes_in_any_case, takes_for_a_known_number_of_iterations])
def test_an_iterator_from_outside(function):
    eager, held = Holding(), Holding()
    static = dy2st.to_static(types.MethodType(function, held))
    for x in (X, -X, X):
        same(static(x), function(eager, x))
        assert held.left() == eager.left()


def takes_next(w, x):
    return x + next(w.items) if x.sum() > 0 else x


def takes_with_a_default(w, x):
    while x.sum() > 0:
        x = x - 1 - next(w.steps, 0)
    return x


def takes_by_method(w, x):
    if x.sum() > 0:
        x = x + w.items.__next__() + w.steps.send(None)
    return x


def takes_through_another(w, x):
    pairs = zip([1, 2], w.pair[0])
    if x.sum() > 0:
        x = x + next(pairs)[1]
    return x


def takes_through_a_library(w, x):
    if x.sum() > 0:
        x = x * len(dict(zip("ab", w.items)))
    return x


def takes_by_looking(w, x):
    return x if x.sum() > 0 and 3.0 in w.items else -x


def takes_until_a_tensor_decides(w, x):
    for k in w.items:
        x = x + k
        if x.sum() > 9:
            break
    return x


@pytest.mark.parametrize(
    "function",
    [
        takes_next, takes_with_a_default, takes_by_method, takes_through_another, takes_through_a_library, takes_by_looking,
        takes_until_a_tensor_decides,
    ],
)  # fmt: skip
def test_an_iterator_from_outside_where_a_tensor_decides(function):
    held = Holding()
    with pytest.raises(dy2st.CaptureError, match="a tensor decides how many items are taken from 'w."):
        dy2st.to_static(types.MethodType(function, held))(-X)
    if function is not takes_until_a_tensor_decides:
        assert held.left() == (0.0, 0.0, 0)


def test_an_iterator_from_outside_in_a_capture_that_begins_again():
    def function(w, x):
        item = next(w.items)
        if x.sum() > 0:
            w.queue.append(item)
        return x + item

    with pytest.raises(dy2st.CaptureError, match="begin again"):
        dy2st.to_static(types.MethodType(function, Holding()))(X)


class CountDown:
    def __init__(self, left):
        self.left = left

    def __iter__(self):
        return self

    def __next__(self):
        if self.left <= 0:
            raise StopIteration
        self.left = self.left - 1
        return self.left


def test_an_iterator_that_a_branch_makes_goes_on_behind_it():
    def cached(x, n):
        cache = None
        while n > 0:
            kept = iter(cache.unbind(0)) if cache is not None else iter([])
            new = []
            for weight in (1.0, 2.0):
                before = next(kept, None)
                x = x * weight if before is None else x + before
                new.append(x * 2)
            cache, n = torch.stack(new), n - 1
        return x

    agree(cached, [(vec(1, 2), n) for n in counts(3, 0, 1, 4)])

    def rest(x):
        if x.sum() > 0:
            items = iter([x, x + 1, x + 2])
        else:
            items = iter((x * 2,))
        first = next(items)
        return first, sum(items), list(items), next(items, None)

    agree(rest, signs())

    def ended(x):
        kept = [x]
        if x.sum() > 0:
            items = iter(kept)
            before = list(items)
            kept.append(x)
            return before, list(items), kept
        return kept

    agree(ended, signs())


def test_a_default_of_next_where_a_tensor_decides_that_an_iterator_of_the_users_has_ended():
    def f(x):
        down = CountDown(x.sum())
        a, b = next(down, None), next(down, -7.0)
        return (x if a is None else a), b, down.left

    agree(f, [*signs(), vec(0.5, 1, 0)])

    def caught(x):
        down = CountDown(x.sum())
        taken = 0
        try:
            while True:
                next(down)
                taken += 1
        except StopIteration:
            return taken

    agree(caught, [*signs(), vec(0.5, 1, 0), vec(3, 1, 0)])


def _then_raises(x):
    yield x
    x = x + 1
    yield x * 2
    raise KeyError("third")


def _then_draws(x):
    yield x
    yield x + torch.rand(())
    yield x + torch.rand(())


class _Draws:
    def __init__(self, x):
        self.x, self.steps = x, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.steps += 1
        if self.steps == 3:
            raise KeyError("third")
        self.x = self.x + torch.rand(())
        return self.x


@pytest.mark.parametrize("make", [_then_raises, _then_draws, _Draws])
def test_what_an_iterator_does_on_its_way_to_an_item_that_is_not_taken_is_not_done(make):
    def f(x):
        for z in make(x):
            if x.sum() > 0:
                break
        return z

    agree(f, signs())


def test_items_of_map_that_draw_are_not_made_before_the_loop_that_takes_them():
    @dy2st.to_static
    def f(x):
        for k, z in enumerate(map(lambda k: torch.rand(()) * k, range(3))):
            if x.sum() > k:
                break
        return z

    with pytest.raises(dy2st.CaptureError, match="the items of map are made before the loop"):
        f(vec(1.0))
