"""`break`, `continue`, early `return` and `else` of loops where a tensor decides."""

from __future__ import annotations

import torch

from tests.oracle import agree
from tests.programs.values import counts, signs, vec

X = vec(1, 2, 3)


def trips(*items):
    return [(X, count) for count in counts(*items)]


def test_break_in_a_range_of_python():
    def f(x):
        for i in range(10):
            if x.sum() > 20:
                break
            x = x + i
        return x, i

    agree(f, [vec(1, 2), vec(30, 1), vec(-90, 1)])


def test_break_in_a_range_of_a_tensor():
    def f(x, n):
        for i in range(n):
            if x.sum() > 12:
                break
            x = x + i
        return x

    agree(f, trips(3, 0, 1, 7))


def test_continue_in_a_range_of_a_tensor():
    def f(x, n):
        for i in range(n):
            if x.sum() > 8:
                x = x - 5
                continue
            x = x + i
        return x

    agree(f, trips(3, 0, 1, 7))


def test_one_loop_may_continue_and_break():
    def f(x, n):
        hits = 0
        for i in range(n):
            x = x + 1
            if x[0] % 2 == 0:
                continue
            hits += 1
            if hits > 2:
                break
            x = x + 0.5 * 2
        return x, hits

    agree(f, trips(3, 0, 1, 9))


def test_else_of_a_for_runs_unless_it_breaks():
    def f(x, n):
        for i in range(n):
            if x.sum() + i > 9:
                x = x * 2
                break
        else:
            x = x - 100
        return x

    agree(f, trips(3, 0, 1, 9))


def test_else_of_a_while_runs_unless_it_breaks():
    def f(x):
        k = 0
        while x.sum() < 20:
            x = x + 2
            k += 1
            if x[0] > 5:
                break
        else:
            k = -1
        return x, k

    agree(f, [vec(1, 2), vec(5, 9), vec(30, 1), vec(-9, 22)])


def test_return_in_a_loop():
    def f(x, n):
        for i in range(n):
            x = x + 1
            if x.sum() > 12:
                return x, i
        return x, -1

    agree(f, trips(3, 0, 1, 9))


def test_return_in_nested_loops():
    def f(x, n):
        for i in range(n):
            for j in range(n):
                x = x + j
                if x.sum() > 15:
                    return x * 10
            if x[0] > 100:
                return x
        return -x

    agree(f, trips(3, 0, 1, 5))


def test_return_in_a_while_in_a_branch():
    def f(x):
        if x.sum() > 0:
            while x.sum() < 100:
                x = x * 2
                if x[0] > 8:
                    return x
            x = x + 0.5
        return x - 1

    agree(f, [vec(1, 2), vec(1, 100), vec(-1, 0), vec(0, 1)])


def test_code_after_a_break_is_not_evaluated():
    def f(x, n):
        count = torch.zeros(1)
        for i in range(n):
            if x.sum() + i > 8:
                break
            count += 1
            x = x + 0
        return count

    agree(f, trips(3, 0, 1, 9))


def test_early_return_then_more_code():
    def f(x):
        if x.sum() > 4:
            return x
        y = x * 2
        if y.sum() > 4:
            return y
        y += 1
        if y.sum() < 0:
            return y * 3
        return x + y

    agree(f, signs())


def test_return_of_different_expressions_of_one_kind():
    def f(x):
        for k in range(3):
            x = x + 1
            if x.sum() > 6:
                return x, k
        return x, 100

    agree(f, signs())


def test_break_in_the_inner_loop_only():
    def f(x, n):
        total = 0
        for i in range(n):
            for j in range(5):
                if x[0] + j > 3:
                    break
                total += 1
            x = x + 1
        return total, x

    agree(f, trips(3, 0, 1, 9))


def test_break_by_a_flag():
    def f(x, n):
        done = False
        i = 0
        while not done and i < n:
            x = x + 1
            done = x.sum() > 14
            i += 1
        return x, i

    agree(f, trips(3, 0, 1, 9))


def test_while_true_with_two_exits():
    def f(x):
        k = 0
        while True:
            k += 1
            x = x + 1
            if x.sum() > 20:
                return x, k
            if k > 4:
                break
        return -x, k

    agree(f, [vec(1, 2), vec(30, 1), vec(-40, 1)])


def test_break_over_a_python_list():
    def f(x):
        total = x
        for w in [1.0, 2.0, 3.0]:
            if total.sum() > 8:
                break
            total = total + w
        else:
            total = total * 0
        return total, w

    agree(f, signs())


def test_iterator_is_resumed_by_a_later_loop():
    def f(x):
        it = iter([1, 2, 3, 4])
        for v in it:
            x = x + v
            if v == 2:
                break
        for v in it:
            x = x * v
        return x

    agree(f, signs())


def test_break_over_a_filtered_tensor():
    def f(x):
        total = x.new_zeros(())
        for v in x[x > 0]:
            if v > 5:
                break
            total = total * 2 + v
        return total

    agree(f, [vec(1, -2, 3), vec(-1, -1, -1), vec(1, 7, 3), vec(9, 1, 1)])


def test_a_break_ends_a_loop_over_rows():
    def f(x):
        total = torch.zeros_like(x[0])
        for row in x:
            total = total + row
            if total.sum() > 4:
                break
        return total, row

    agree(f, [torch.arange(6.0).view(3, 2), torch.ones(3, 2), torch.full((3, 2), 9.0)])


def test_index_and_item_outlive_a_break_out_of_enumerate():
    def f(x):
        for i, v in enumerate(x):
            if v > 2:
                break
        return i, v

    agree(f, [vec(1, 2, 3), vec(1, 1, 1), vec(4, 1, 1)])


def test_a_break_ends_a_loop_over_zip():
    def f(x, y):
        s = x.new_zeros(())
        for a, b in zip(x, y):
            s = s + a * b
            if s > 6:
                break
        return s

    agree(f, [(vec(1, 2, 3), vec(1, 2, 3)), (vec(9, 2, 3), vec(1, 2, 3)), (vec(0, 0, 0), vec(1, 2, 3))])


def test_continue_skips_the_rest_in_a_while():
    def f(x):
        k = 0
        while k < 6:
            k += 1
            if x.sum() + k > 8:
                continue
            x = x + 0.5
        return x

    agree(f, signs())


def test_return_none_or_nothing():
    def f(x):
        y = x.clone()
        if y.sum() > 0:
            y += 1
            return
        y -= 1

    agree(f, signs())


def test_loop_var_after_break_with_reassignment():
    def f(x, n):
        i = 100
        for i in range(n):
            if x.sum() + i > 7:
                i = i * 10
                break
            i = i - 50
        return i

    agree(f, trips(3, 0, 1, 9))


def test_break_then_bound_name():
    def f(x, n):
        for i in range(n):
            if x.sum() + i > 7:
                found = x * i
                break
        else:
            found = x
        return found

    agree(f, trips(3, 0, 1, 9))


def test_break_out_of_with():
    def f(x, n):
        for i in range(n):
            with torch.no_grad():
                x = x + 1
                if x.sum() > 10:
                    break
                x = x * 1
        return x * 2

    agree(f, trips(3, 0, 1, 9))


def test_return_out_of_try_finally():
    def f(x, n):
        log = torch.zeros(1)
        for i in range(n):
            try:
                x = x + 1
                if x.sum() > 10:
                    return x, log
            finally:
                log += 1
        return -x, log

    agree(f, trips(3, 0, 1, 9))


def test_results_of_different_structure_from_inside_a_loop():
    def f(x, n):
        for i in range(n):
            if x.sum() > 20:
                return x, [x, x * 2]
            if x.sum() < -20:
                return (x.long(),)
            x = x * 2
        return {"x": x, "n": n}, x.sum()

    agree(f, [(x, n) for x in (vec(1, 2), vec(-1, -2), vec(30, 1)) for n in counts(3, 0, 1, 7)])
