"""`while` and `for` loops whose number of iterations a tensor decides."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agree
from tests.programs.values import DTYPES, counts, signs, vec

X = vec(1, 2, 3)


def trips(*items):
    return [(X, count) for count in counts(*items)]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float32])
def test_a_while_loop_ends_where_a_tensor_decides(dtype):
    def f(x):
        while x.sum() < 50:
            x = x * 2
        return x

    agree(f, [vec(1, 2, dtype=dtype), vec(100, 1, dtype=dtype), vec(20, 20, dtype=dtype)])


def test_gradients_flow_through_a_while_loop():
    def f(x):
        n = 0
        while x.norm() < 50:
            x = x * x + 1
            n += 1
        return x, n

    agree(f, [vec(1, 2, grad=True), vec(100, 1, grad=True), vec(7, 7, grad=True)])


def test_for_range_of_a_tensor():
    def f(x, n):
        for i in range(n):
            x = x + i
        return x

    agree(f, trips())


def test_for_range_with_start_stop_step():
    def f(x, n):
        for i in range(n, 10, 2):
            x = x + i
        for i in range(10, n, -3):
            x = x * 2 - i
        return x

    agree(f, trips(3, 0, 11, 10, 9))


def test_for_range_with_a_step_from_a_tensor():
    def f(x, n):
        for i in range(0, 7, n):
            x = x + i
        return x

    agree(f, trips(3, 1, 8, -1, 0))


def test_the_loop_variable_keeps_its_last_value():
    def f(x, n):
        i = -1
        for i in range(n):
            x = x + 1
        return x, i

    agree(f, trips())


def test_loop_variable_unbound_after_no_iteration():
    def f(x, n):
        for i in range(n):
            x = x + 1
        return x, i

    agree(f, trips())


def test_assignment_to_the_loop_variable_does_not_disturb_it():
    def f(x, n):
        i = 5
        for i in range(n):
            x = x + i
            i = i * 10
        return x, i

    agree(f, trips())


def test_while_with_counter_becomes_symbolic():
    def f(x):
        i = 0
        while x.sum() > i:
            i += 1
        return i, x * i

    agree(f, signs())


def test_while_with_float_counter():
    def f(x):
        t = 0.1
        while x.sum() > t:
            t = t * 1.5 + 0.1
        return t, x * t

    agree(f, signs())


def test_counter_int_becomes_float():
    def f(x):
        t = 0
        while x.sum() > t:
            t = t + 0.5
        return x * t

    agree(f, signs())


def test_two_numbers_swap_and_add_each_iteration():
    def f(n):
        a, b = 0, 1
        for _ in range(n):
            a, b = b, a + b
        return a, b

    agree(f, counts(3, 0, 1, 10))


def test_two_tensors_swap_and_add_each_iteration():
    def f(x, n):
        a, b = x, x + 1
        for _ in range(n):
            a, b = b, a + b
        return a, b

    agree(f, trips())


def test_two_tensors_swap_each_iteration():
    def f(x, n):
        a, b = x, x + 1
        for _ in range(n):
            a, b = b, a
        return a, b

    agree(f, trips(3, 0, 1, 2))


def test_three_tensors_rotate_each_iteration():
    def f(x, n):
        a, b, c = x, x + 1, x + 2
        for i in range(n):
            a, b, c = c, a, b
            if i == 2:
                a = a * 2
        return a, b, c

    agree(f, trips(0, 1, 2, 3, 4, 5))


def test_a_tensor_may_grow_each_iteration():
    def f(x, n):
        y = x
        for _ in range(n):
            y = torch.cat([y, x])
        return y, y.shape[0]

    agree(f, trips())


def test_an_empty_tensor_may_grow_each_iteration():
    def f(x, n):
        y = x[:0]
        for i in range(n):
            y = torch.cat([y, x[:1] * i])
        return y, y.shape[0], y.sum()

    agree(f, trips())


def test_a_tensor_may_shrink_each_iteration():
    def f(x):
        while x.shape[0] > 1 and x.sum() > 3:
            x = x[1:]
        return x

    agree(f, [vec(1, 2, 3, 4), vec(0, 0, 0, 0), vec(9, 1, 1, 1)])


def test_in_place_in_a_loop():
    def f(x, n):
        y = x.clone()
        z = y
        for i in range(n):
            y += i
        return y, z

    agree(f, trips())


def test_in_place_through_a_view_in_a_loop():
    def f(x, n):
        y = torch.zeros(10, dtype=x.dtype)
        for i in range(n):
            y[i] = x.sum() + i
        return y

    agree(f, trips())


def test_in_place_on_an_input_in_a_loop():
    def f(x, n):
        for i in range(n):
            x += i
        return x * 1

    agree(f, trips())


def test_alias_then_rebinding_in_a_loop():
    def f(x, n):
        y = x.clone()
        z = y
        for i in range(n):
            z += 1
            z = z * 2
        return y, z

    agree(f, trips())


def test_previous_value_is_kept():
    def f(x, n):
        prev = x
        for i in range(n):
            prev = x
            x = x + i
        return prev, x

    agree(f, trips())


def test_name_bound_in_the_loop_only():
    def f(x, n):
        for i in range(n):
            y = x * i
        return y

    agree(f, trips())


def test_name_bound_in_the_loop_and_read_in_a_later_iteration():
    def f(x, n):
        for i in range(n):
            if i > 0:
                x = x + y  # noqa: F821  # bound in the iteration before
            y = x * 2
        return x

    agree(f, trips())


def test_while_test_with_side_effects():
    def f(x):
        log = torch.zeros(1, dtype=x.dtype)

        def more(value):
            log.add_(1)
            return value.sum() < 20

        while more(x):
            x = x + 1
        return x, log

    agree(f, [vec(1, 2), vec(30, 1), vec(18, 1)])


def test_walrus_in_the_test():
    def f(x):
        while (s := x.sum()) < 20:
            x = x + 1
        return x, s

    agree(f, [vec(1, 2), vec(30, 1), vec(18, 1)])


def test_a_loop_may_hold_a_for_and_a_while():
    def f(x, n):
        for i in range(n):
            for j in range(i):
                x = x + i * j
            while x.sum() > 30:
                x = x - 5
        return x

    agree(f, trips())


def test_python_loop_around_a_tensor_loop():
    def f(x, n):
        for k in range(3):
            for i in range(n):
                x = x + i * k
        return x

    agree(f, trips())


def test_tensor_loop_around_a_python_loop():
    def f(x, n):
        for i in range(n):
            for k in range(3):
                x = x + i * k
        return x

    agree(f, trips())


def test_loop_in_a_branch_in_a_loop():
    def f(x, n):
        for i in range(n):
            if x.sum() > 10:
                while x.sum() > 5:
                    x = x - 1
            else:
                x = x + 3
        return x

    agree(f, trips(3, 0, 1, 7))


def test_python_while_becomes_a_tensor_test():
    def f(x):
        go = True
        n = 0
        while go:
            x = x * 2
            n += 1
            go = x.sum() < 30
        return x, n

    agree(f, [vec(1, 2), vec(30, 1), vec(9, 5)])


def test_while_true_with_break():
    def f(x):
        n = 0
        while True:
            if x.sum() > 30:
                break
            x = x * 2
            n += 1
        return x, n

    agree(f, [vec(1, 2), vec(31, 1), vec(16, 0)])


def test_a_for_loop_steps_through_rows():
    def f(x):
        total = torch.zeros_like(x[0])
        for row in x:
            total = total + row * row[0]
        return total

    agree(f, [torch.arange(6.0).view(3, 2), -torch.ones(3, 2)])


def test_for_over_a_filtered_tensor():
    def f(x):
        total = torch.zeros((), dtype=x.dtype)
        for v in x[x > 0]:
            total = total * 2 + v
        return total

    agree(f, [vec(1, -2, 3), vec(-1, -1, -1), vec(1, 2, 3)])


def test_for_over_a_filtered_tensor_with_gradients():
    def f(x):
        total = x.new_zeros(())
        for v in x[x > 0]:
            total = total * 2 + v * v
        return total

    agree(f, [vec(1, -2, 3, grad=True), vec(-1, -1, -1, grad=True), vec(1, 2, 3, grad=True)])


def test_range_with_one_iteration_only():
    def f(x, n):
        total = x
        for i in range(n):
            total = total + x
            x = total
        return total, x

    agree(f, trips(1, 0, 2, 5))


def test_zero_iterations_keep_strides_and_values():
    def f(x, n):
        m = torch.outer(x, x + 1)
        for _ in range(n):
            m = m.t()
        return m, m.contiguous()

    agree(f, trips(0, 1, 2, 3))


def test_number_used_as_index():
    def f(x, n):
        total = x.new_zeros(())
        i = 0
        while i < n:
            total = total + x[i % 3] * i
            i = i + 1
        return total, i

    agree(f, trips())


def test_a_number_doubles_each_iteration():
    def f(x, n):
        k = 1
        for _ in range(n):
            k = k * 2
        return k, x * k

    agree(f, trips())


def test_a_number_is_divided_each_iteration():
    def f(x, n):
        k = 100
        for _ in range(n):
            k = k // 3
        return k, k % 7, x * k

    agree(f, trips())


def test_negative_floor_division_and_modulo():
    def f(x, n):
        k = -n.item()
        return k // 2, k % 3, k // -2, k % -3, divmod(k, 4)

    agree(f, trips(3, 0, 1, 7, -5))


def test_true_division_makes_a_float():
    def f(x, n):
        k = n.item()
        return k / 2, x * (k / 3), k / 2 * 2

    agree(f, trips(3, 0, 1, 7))


def test_a_bool_flips_each_iteration():
    def f(x, n):
        flag = False
        for i in range(n):
            flag = not flag
        if flag:
            x = x + 1
        return x, flag

    agree(f, trips())


def test_bool_carried_from_a_tensor():
    def f(x, n):
        found = False
        for i in range(n):
            if x.sum() + i > 8:
                found = True
        return found

    agree(f, trips())


def test_python_bool_becomes_tensor_bool_in_the_loop():
    def f(x, n):
        found = x.sum() > 100
        for i in range(n):
            found = found | (x.sum() + i > 8)
        return found

    agree(f, trips())


def test_size_zero_one_two_in_loop():
    def f(x, n):
        y = x[:0]
        for i in range(n):
            if y.shape[0] == 1:
                y = torch.cat([y, y + 1])
            elif y.shape[0] == 0:
                y = x[:1]
            else:
                y = y[1:]
        return y

    agree(f, trips(0, 1, 2, 3, 4, 5))


def test_broadcast_against_a_carried_size():
    def f(x, n):
        y = x[:1]
        for i in range(n):
            y = torch.cat([y, x[:1]])
        z = y + x[:1]
        return z, y.unsqueeze(1) + x

    agree(f, trips())


def test_random_numbers_in_a_loop():
    def f(x, n):
        for i in range(n):
            x = x + torch.randn(3, dtype=x.dtype)
            if x.sum() > 6:
                x = x * torch.rand(3, dtype=x.dtype)
        return x

    agree(f, trips())


def test_loop_over_a_python_list_of_tensors():
    def f(x):
        total = x
        for w in [x, x + 1, x * 2]:
            if total.sum() > 10:
                total = total - w
            else:
                total = total + w
        return total

    agree(f, signs())


def test_a_dtype_that_the_body_changes():
    def f(x, n):
        for i in range(n):
            x = x * 0.5
        return x, x.sum() * 2

    x = vec(1, 2, dtype=torch.int64)
    agree(f, [(x, n) for n in counts(3, 0, 1, 7)])


def test_a_dtype_that_the_body_changes_at_some_iterations():
    def f(x):
        while x.sum() < 20:
            if x[0] > 3:
                x = x.double() + 0.5
            else:
                x = x + 1
        return x

    agree(f, [vec(*items, dtype=torch.int64) for items in ((1, 2), (30, 2), (-10, 2), (9, 10))])


def test_loop_that_always_raises():
    def f(x, n):
        for i in range(n):
            raise ValueError("never")
        return x

    agree(f, trips(0, 1, 2))


def test_loop_invariant_view_written_in_the_loop():
    def f(x, n):
        y = x.clone()
        head = y[:1]
        for i in range(n):
            head += 1
            x = x + y
        return x, y

    agree(f, trips())


def test_last_value_of_the_item_after_loop_over_tensor():
    def f(x):
        v = x.sum()
        for v in x[x > 0]:
            pass
        return v

    agree(f, [vec(1, -2, 3), vec(-1, -1, -1), vec(1, 2, 3)])


def test_item_inside_the_loop():
    def f(x, n):
        y = x.clone()
        out = 0
        for i in range(n):
            y += 1
            out = out + int(y[0].item()) * i
        return out, y

    agree(f, trips())


def test_a_while_loop_counts_an_item_down():
    def f(x, n):
        k = n.item()
        while k > 0:
            x = x * k
            k -= 2
        return x, k

    agree(f, trips())


def test_range_takes_the_length_of_a_filtered_tensor():
    def f(x):
        y = x[x > 0]
        out = x.new_zeros(())
        for i in range(len(y)):
            out = out * 3 + y[i]
        return out

    agree(f, [vec(1, -2, 3), vec(-1, -1, -1), vec(1, 2, 3)])


def test_the_bound_of_range_is_evaluated_once():
    def f(x, n):
        m = n.clone()
        for i in range(m):
            m += 1
            x = x + i
        return x, m

    agree(f, trips())


def test_bound_changed_by_the_body():
    def f(x, n):
        k = n.item()
        for i in range(k):
            k = k + 5
            x = x + i
        return x, k

    agree(f, trips())


def test_a_long_python_loop_with_a_break_is_not_cut():
    def f(x, limit: int):
        count = 0
        for i in range(9000):
            if i == limit:
                break
            count += 1
        return x + count

    agree(f, [(X, 8000), (X, 99999)], programs=2)


def test_a_long_list_left_at_run_time_is_not_cut(monkeypatch):
    monkeypatch.setattr("dy2st.capture.looping.unrolled._UNROLL_LIMIT", 3)
    offsets = [1, 2, 3, 4, 5, 6, 7]

    def f(x):
        for offset in offsets:
            if x.sum() > 60:
                break
            x = x + offset
        return x

    agree(f, [X, X * 5, X * 100])


@pytest.mark.parametrize("key", ["a", "b"])
def test_lists_in_a_dict_that_may_be_those_from_before_the_loop_change(key):
    def f(x, n):
        d = {"a": [x], "b": [x * 2]}
        before = d
        for _ in range(n):
            d = {"a": [d["a"][0] + 1], "b": [d["b"][0] + 1]}
        before[key][0] = x * 5
        return d[key][0]

    agree(f, [(torch.ones(2), torch.tensor(n)) for n in (0, 1, 3)])
