"""`and`, `or`, `not`, chained comparisons, `in` and `is` on tensors."""

from __future__ import annotations

import torch

from tests.oracle import agree
from tests.programs.values import num, signs, vec


def test_and_or_not_in_a_test():
    def f(x):
        if x.sum() > 0 and not x[0] > 3 or x[1] == 0:
            return x + 1
        return x - 1

    agree(f, [*signs(), vec(-1, 0, 0), vec(4, 0, 1)])


def test_and_and_or_call_their_right_side_only_where_needed():
    def f(x):
        calls = torch.zeros(2)

        def a(v):
            calls[0] += 1
            return v.sum() > 0

        def b(v):
            calls[1] += 1
            return v[0] > 3

        first = a(x) and b(x)
        second = a(x) or b(x)
        if a(x) and b(x):
            calls += 10
        if a(x) or b(x):
            calls += 100
        return calls, first, second

    agree(f, signs())


def test_and_gives_the_operand():
    def f(x):
        a = x.sum() and x[0]
        b = x.sum() or x[0]
        return a, b, (x[0] or x[1]) + 1

    agree(f, [vec(1, 2), vec(0, 0), vec(1, -1), vec(0, 5)])


def test_and_and_or_of_a_number_give_the_operand():
    def f(x, n):
        k = n.item()
        return (k and 5), (k or 7), not k

    agree(f, [(vec(1), num(n, torch.int64)) for n in (3, 0, 1)])


def test_and_with_python_true_and_tensor():
    def f(x):
        use = True
        if use and x.sum() > 0:
            x = x + 1
        if not use or x.sum() > 5:
            x = x * 2
        return x

    agree(f, signs())


def test_a_chained_comparison_decides_as_in_eager():
    def f(x):
        if 0 < x.sum() < 5:
            return x + 1
        if -1 <= x[0] != x[1] < 3:
            return x + 2
        return x

    agree(f, [*signs(), vec(1, 1, 1), vec(0, 0, 9)])


def test_chain_evaluates_its_middle_once():
    def f(x):
        count = torch.zeros(1)

        def middle(v):
            count.add_(1)
            return v.sum()

        ok = 0 < middle(x) < 5
        return ok, count

    agree(f, signs())


def test_a_chained_comparison_stops_where_its_first_part_fails():
    def f(x):
        count = torch.zeros(1)

        def last(v):
            count.add_(1)
            return v[0] + 4

        if 0 < x.sum() < last(x):
            x = x + 1
        return x, count

    agree(f, signs())


def test_in_a_list_of_numbers():
    def f(x):
        s = x.sum()
        if s in (6, 0):
            return x + 1
        return x

    agree(f, signs())


def test_item_in_a_list():
    def f(x):
        s = x.sum().item()
        return s in [6.0, 0.0], s not in (1, 2), x[0].item() in {1, 5}

    agree(f, signs())


def test_in_finds_a_number_in_a_tensor():
    def f(x):
        if 2 in x:
            return x + 1
        return x

    agree(f, signs())


def test_is_none_follows_what_a_branch_has_bound():
    def f(x, y=None):
        if y is None and x.sum() > 0:
            y = x
        return y is None

    agree(f, [(vec(item),) for item in (1.0, -1.0, 0.0)])


def test_is_tells_an_alias_from_a_new_tensor():
    def f(x):
        y = x
        return y is x, x.clone() is x, (x + 0) is not x

    agree(f, signs())


def test_identity_after_a_branch():
    def f(x):
        y = x.clone()
        z = y if x.sum() > 0 else x
        return z is y, z is x

    agree(f, signs(), programs=None)


def test_not_of_a_tensor():
    def f(x):
        flag = not x.sum()
        return flag, not flag

    agree(f, signs())


def test_bool_of_comparison_stored():
    def f(x):
        big = x.sum() > 0
        small = x[0] < 2
        if big & small:
            x = x + 1
        if big | small:
            x = x * 2
        if ~big:
            x = x - 7
        if big ^ small:
            x = x / 2
        return x

    agree(f, signs())


def test_any_and_all_decide_over_tensors_and_bools():
    def f(x):
        a = any(v > 2 for v in x)
        b = all([v > 0 for v in x])
        c = any([x.sum() > 0, False])
        d = all([x.sum() > 0, True])
        return a, b, c, d

    agree(f, signs())


def test_items_of_a_tensor_are_compared_like_numbers():
    def f(x):
        a, b = x[0].item(), x[1].item()
        return a < b, a == b, a != b, a >= b, (a < b) + 1, (a < b) and a

    agree(f, signs())
    agree(f, signs(torch.int64))


def test_comparison_of_item_with_float_and_int():
    def f(x):
        a = x[0].item()
        return a < 1.5, a == 1, a == 1.0, 1 < a <= 5

    agree(f, signs())
    agree(f, signs(torch.int64))


def test_bools_of_tensors_are_computed_with_like_numbers():
    def f(x):
        a, b = bool(x[0] > 0), bool(x[1] > 0)
        return a + b, a & b, a | b, a ^ b, a == b, a != b, a * 3, int(a), float(b), a and b, a or b

    agree(f, [vec(1, 1), vec(1, -1), vec(-1, 1), vec(-1, -1)])


def test_a_bool_of_a_tensor_multiplies_a_tensor():
    def f(x):
        a = bool(x[0] > 0)
        return x * a

    agree(f, signs())


def test_an_int_of_a_comparison_is_an_index():
    def f(x):
        a = int(x[0] > 0)
        return x[a]

    agree(f, signs())


def test_numbers_of_a_tensor_are_true_unless_zero():
    def f(x):
        n = int(x.sum())
        s = x.sum().item()
        out = x
        if n:
            out = out + 1
        if s:
            out = out * 2
        if not n:
            out = out - 3
        return out, bool(n), bool(s)

    agree(f, [*signs(), vec(0.5, 0, 0)])


def test_nan_is_true_and_equals_nothing():
    def f(x):
        s = x.sum().item()
        return s == s, s < 1, bool(s), s != s

    agree(f, [vec(1, 2), vec(float("nan"), 1), vec(float("inf"), 1), vec(0, 0)])
