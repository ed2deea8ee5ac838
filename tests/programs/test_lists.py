"""Lists that grow, shrink and are read where a tensor decides."""

from __future__ import annotations

import pytest
import torch

from tests import worlds
from tests.oracle import agree
from tests.programs.values import counts, num, signs, vec

X = vec(1, 2, 3)


def trips(*items):
    return [(X, count) for count in counts(*items)]


def test_append_in_a_loop_then_stack():
    def f(x, n):
        outs = [x]
        for i in range(n):
            outs.append(outs[-1] * 2)
        return torch.stack(outs), torch.cat(outs), len(outs)

    agree(f, trips())


def test_append_to_an_empty_list():
    def f(x, n):
        outs = []
        for i in range(n):
            outs.append(x * i)
        return len(outs), outs

    agree(f, trips())


def test_append_in_one_branch():
    def f(x):
        outs = [x]
        if x.sum() > 0:
            outs.append(x + 1)
        return len(outs), outs[-1], torch.stack(outs).sum()

    agree(f, signs())


def test_append_in_a_branch_of_a_loop():
    def f(x):
        outs = []
        for v in x:
            if v > 0:
                outs.append(v * 2)
        return len(outs), sum_of(outs, x)

    agree(f, signs())


def sum_of(values, x):
    total = x * 0
    for v in values:
        total = total + v
    return total


def test_numbers_in_a_growing_list():
    def f(x, n):
        ks = [0]
        for i in range(n):
            ks.append(ks[-1] + i)
        return ks, ks[-1], len(ks)

    agree(f, trips())


def test_pop_insert_extend_clear_reverse_copy():
    def f(x, n):
        a = [x]
        for i in range(n):
            a.append(x + i)
            a.insert(0, x * i)
            a.extend([x, x - 1])
            if len(a) > 6:
                a.pop()
                a.pop(0)
        b = a.copy()
        b.reverse()
        c = a + b
        return len(a), torch.stack(a), torch.stack(b), len(c)

    agree(f, trips())


def test_a_loop_assigns_items_of_a_list():
    def f(x, n):
        a = [x, x, x]
        for i in range(n):
            a[i % 3] = a[i % 3] + i
        return a[0], a[1], a[2]

    agree(f, trips())


def test_index_by_a_number():
    def f(x, n):
        a = [x, x + 1, x + 2]
        return a[n % 3], a[-1 - n.item() % 3]

    agree(f, trips())


def test_index_out_of_range():
    def f(x, n):
        a = [x, x + 1, x + 2]
        return a[n]

    agree(f, trips(1, 0, 7))


def test_tuple_index_out_of_range():
    def f(x, n):
        return (x, x + 1, x * 2)[n], (1, 2, 3)[n.item()]

    agree(f, trips(1, 0, -3, 3, -4))


def test_change_at_an_index_where_the_list_was_made():
    def f(x, n):
        k = n.item()
        a, b, total = [x, x + 1, x * 2], [1, 2, 3], 0
        a[k] = x * 5
        del b[k]
        for i in range(n):
            inner = [0, 0]
            inner[i % 2] += i
            total += inner.pop(i % 2)
        return a, b, total, [4, 5].pop(k)

    agree(f, trips(1, 0, -2, 5, -4))


def test_change_at_an_index_of_a_list_of_the_module():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.counts = [0, 0]

        def forward(self, x, n):
            self.counts[n.item()] += 1
            return x * self.counts[0]

    agree(Counts(), trips(1, 0, 0, 5), programs=None)


def test_slices_of_a_growing_list_have_eager_lengths():
    def f(x, n):
        a = []
        for i in range(n):
            a.append(x + i)
        return len(a[1:]), len(a[:-1]), len(a[::2])

    agree(f, trips())


def test_truth_of_a_growing_list():
    def f(x, n):
        a = []
        for i in range(n):
            a.append(x)
        if a:
            x = x + 1
        if not a:
            x = x - 1
        return x

    agree(f, trips())


def test_loop_over_a_growing_list():
    def f(x, n):
        a = []
        for i in range(n):
            a.append(x + i)
        total = x * 0
        for i, v in enumerate(a):
            total = total + v * i
        for v, w in zip(a, a[1:]):
            total = total * 2 + w - v
        for v in reversed(a):
            total = total + v
        return total

    agree(f, trips())


def test_list_grows_while_it_is_looped_over():
    def f(x, n):
        a = [x]
        for i in range(n):
            a.append(x + i)
        total = x * 0
        for v in a:
            total = total + v
            if len(a) < 6:
                a.append(v * 2)
        return total, len(a)

    agree(f, trips())


def test_elements_of_a_list_alias_the_appended_tensor():
    def f(x, n):
        y = x.clone()
        a = [y]
        for i in range(n):
            a.append(y)
            a[0] += 1
        return y, len(a), torch.stack(a)

    agree(f, trips())


def test_an_inner_loop_fills_a_new_list_each_iteration():
    def f(x, n):
        rows = []
        for i in range(n):
            row = []
            for j in range(2):
                row.append(x * i + j)
            rows.append(torch.stack(row).sum(0))
        return len(rows), sum_of(rows, x)

    agree(f, trips())


def test_a_loop_grows_two_lists_in_turn():
    def f(x, n):
        a, b = [], []
        for i in range(n):
            if i % 2 == 0:
                a.append(x + i)
            else:
                b.append(x - i)
        return len(a), len(b), sum_of(a, x), sum_of(b, x)

    agree(f, trips())


def test_list_rebound_in_a_loop():
    def f(x, n):
        a = [x]
        for i in range(n):
            a = a + [x + i]
        return len(a), torch.stack(a)

    agree(f, trips())


def test_list_comprehension_over_a_growing_list():
    def f(x, n):
        a = []
        for i in range(n):
            a.append(x + i)
        b = [v * 2 for v in a]
        return len(b), sum_of(b, x)

    agree(f, trips())


def test_shapes_in_a_list_differ():
    def f(x, n):
        a = [x]
        for i in range(n):
            a.append(torch.cat([a[-1], x]))
        return torch.cat(a), a[-1].shape[0]

    agree(f, trips())


def test_scores_and_paths_grow_from_the_best_so_far():
    def f(x, n):
        scores, paths = [x.sum()], [x]
        for i in range(n):
            best = 0
            for k in range(len(scores)):
                if scores[k] > scores[best]:
                    best = k
            scores.append(scores[best] - i)
            paths.append(paths[best] * 0.5)
        return torch.stack(scores), torch.stack(paths)

    agree(f, trips())


def test_gradients_flow_through_appended_tensors():
    def f(x, n):
        outs = []
        h = x
        for i in range(n):
            h = h * x
            outs.append(h)
        return h, len(outs), sum_of(outs, x)

    agree(f, [(vec(1, 2, 3, grad=True), c) for c in counts()])


def test_list_argument_is_read():
    def f(xs, n):
        total = xs[0]
        for i in range(n):
            total = total + xs[i % 2]
        return total

    agree(f, [([X, X + 1], c) for c in counts()])


def test_list_returned_from_a_helper_in_a_loop():
    def parts(x):
        return [x, x + 1]

    def f(x, n):
        for i in range(n):
            a, b = parts(x)
            more = parts(x)
            more.append(a)
            x = a * 0.5 + b + more[2]
        return x

    agree(f, trips())


def test_list_carried_by_a_swap():
    def f(x, n):
        a, b = [x], [x + 1]
        for i in range(n):
            a.append(x * i)
            a, b = b, a
        return len(a), len(b), sum_of(a, x), sum_of(b, x)

    agree(f, trips(3, 0, 1, 2, 7))


def test_growing_list_chosen_by_a_branch():
    def f(x, n):
        a, b = [x], []
        for i in range(n):
            a.append(x + i)
            b.append(x - i)
        c = a if x.sum() > 0 else b
        c.append(x)
        return len(a), len(b), len(c)

    agree(f, [(s, c) for s in signs() for c in counts(3, 0)])


def test_growing_list_taken_apart():
    def f(x, n):
        a = []
        for i in range(n):
            a.append(x + i)
        first, second = a
        return first * second

    static = agree(f, [(x, num(2, torch.int64)) for x in (X, -X)])
    with pytest.raises(ValueError):
        static(X, num(3, torch.int64))
    assert len(static.program_cache) == 1


def test_starred_target_of_a_growing_list():
    def f(x, n):
        a = []
        for i in range(n):
            a.append(x * i)
        first, *rest, last = a
        return first, len(rest), last

    agree(f, [(X, num(n, torch.int64)) for n in (3, 2, 1, 0, 5)])


def test_a_list_of_tensors_and_text_that_grows():
    def f(x):
        out = []
        while x.sum() > 0:
            out.append(x)
            out.append("text")
            x = x - 1
        return out

    agree(f, [torch.tensor([1.0, -2.0, 3.0]), torch.tensor([5.0, 2.0, 2.0]), torch.tensor([-5.0, 0.0, 0.0])])


def _taken_from_a_copy(w, x, n):
    if x.sum() > 0:
        del w["items"][:]
    for item in list(w["items"]):
        x = x + item
    for item in w["items"] + []:
        x = x + item
    copied = w["items"].copy() * 2
    if n > 0:
        try:
            copied.pop()
        except IndexError:
            x = x + 100
        w["items"].insert(0, x)
    return x, copied


def _filled_under_another_name(w, x, n):
    items = []
    if x.sum() > 0:
        items.clear()
    copied = list(items)
    name = copied
    w["last"] = [copied]
    while n > 0:
        name.append(x)
        n = n - 1
    if copied:
        x = x + copied[0]
    return x, copied is name, len(items)


@pytest.mark.parametrize("function", [_taken_from_a_copy, _filled_under_another_name])
def test_copies_of_lists_in_which_nothing_has_been_put_yet(function):
    given = [(torch.tensor([1.0, 2.0]), 1), (torch.tensor([-1.0, 0.5]), 2), (torch.tensor([4.0, 2.0]), 0), (torch.zeros(2), 1)]

    def make():
        w = {"items": [], "last": None}
        return worlds.World(function, [w], [lambda run, x=x, n=n: run(w, x, torch.tensor(n)) for x, n in given])

    worlds.agree(make)


def grown_in_one_branch(x):
    if x[0] > 0:
        found = [i for i in torch.nonzero(x > 0)[:, 0].tolist()]
    else:
        found = [1, 2]
    found.append(7)
    return found, len(found)


def grown_in_both(x):
    if x[1] > 0:
        names, other = [], None
        for i in torch.nonzero(x)[:, 0].tolist():
            names.append("a" if x[i] > 0 else "b")
    else:
        names = ["c" for _ in torch.nonzero(x)]
        other = names
    return names, other is names, {"names": names}


def grown_in_a_loop(x):
    kept, n = [0], 0
    while n < 3:
        if x[n] > 0:
            kept = [i for i in torch.nonzero(x > 0)[:, 0].tolist()]
        n += 1
        if kept and kept[-1] > 1:
            kept.append(n)
    return kept


def given_early(x):
    if x[0] > 0:
        return [x[i] for i in torch.nonzero(x > 0)[:, 0].tolist()]
    if x[1] > 0:
        return [x[1]]
    return None


@pytest.mark.parametrize("function", [grown_in_one_branch, grown_in_both, grown_in_a_loop, given_early])
def test_a_list_that_grows_in_a_branch_that_makes_it(function):
    agree(function, [(vec(1, 2, 3),), (vec(-1, 2, -3),), (vec(-1, -2, 3),), (vec(-1, -2, -3),), (vec(1, -1, 1),)])
