"""`if` statements and conditional expressions whose test is a tensor."""

from __future__ import annotations

import pytest
import torch

import dy2st
from tests.oracle import agree, same
from tests.programs.values import DTYPES, num, signs, vec


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float32, torch.bfloat16])
def test_both_branches_give_a_tensor(dtype):
    def f(x):
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - 1
        return y

    agree(f, signs(dtype))


def test_gradients_flow_through_the_branch_taken():
    def f(x):
        if x.sum() > 0:
            y = x * x
        else:
            y = x.exp()
        return y * 3

    agree(f, signs(grad=True))


def test_gradient_of_an_unused_input_stays_none():
    def f(x, w):
        if x.sum() > 0:
            return (x * 2).sum()
        return (x * w).sum()

    agree(f, [(vec(1, 2, grad=True), vec(3, 4, grad=True)), (vec(-1, -2, grad=True), vec(3, 4, grad=True))])


def test_an_elif_chain_takes_the_first_branch_that_holds():
    def f(x):
        s = x.sum()
        if s > 5:
            return x + 1
        elif s > 0:
            return x + 2
        elif s == 0:
            return x + 3
        else:
            return x + 4

    agree(f, [vec(3, 3), vec(1, 1), vec(1, -1), vec(-1, -1)])


def test_if_without_else_changes_a_name():
    def f(x):
        y = x
        if x.sum() > 0:
            y = y + 1
        return y

    agree(f, signs())


def test_swap_in_a_branch():
    def f(a, b):
        if a.sum() > b.sum():
            a, b = b, a
        return a, b

    agree(f, [(vec(1, 2), vec(3, 4)), (vec(5, 2), vec(3, 4)), (vec(3, 4), vec(3, 4))])


def test_swap_in_both_branches():
    def f(a, b, c):
        if a.sum() > 0:
            a, b, c = b, c, a
        else:
            a, b, c = c, a, b
        if b.sum() > 0:
            a, b = b, a
        return a, b, c

    agree(f, [(vec(1), vec(2), vec(3)), (vec(-1), vec(2), vec(3)), (vec(1), vec(-2), vec(-3)), (vec(-1), vec(-2), vec(3))])


def test_in_place_change_in_a_branch():
    def f(x):
        y = x.clone()
        if x.sum() > 0:
            y += 1
        else:
            y.mul_(3)
        return y

    agree(f, signs())


def test_in_place_change_is_seen_through_an_alias():
    def f(x):
        y = x * 1
        z = y
        v = y[1:]
        if x.sum() > 0:
            y += 1
        else:
            v *= 5
        return y, z, v

    agree(f, signs())


def test_in_place_change_of_an_input_in_a_branch():
    def f(x):
        if x.sum() > 0:
            x += 10
        return x.sum()

    agree(f, signs())


def test_alias_made_in_one_branch_only():
    def f(x):
        y = x.clone()
        z = x.clone()
        if x.sum() > 0:
            z = y
        z += 1
        return y, z

    agree(f, signs())


def test_view_chosen_by_a_branch_is_written_through():
    def f(x):
        base = x.clone()
        if x.sum() > 0:
            v = base[:2]
        else:
            v = base[1:]
        v += 100
        return base, v

    agree(f, signs())


def test_fresh_or_input_returned_keeps_identity():
    def f(x):
        if x.sum() > 0:
            y = x
        else:
            y = x + 0
        y += 1
        return x, y

    agree(f, signs())


def test_branches_may_give_shapes_that_differ():
    def f(x):
        if x.sum() > 0:
            y = x[:1]
        else:
            y = torch.cat([x, x])
        return y * 2, y.shape[0], y.sum()

    agree(f, signs())


def test_shape_zero_or_one_or_more():
    def f(x):
        if x[0] > 1:
            y = x[:0]
        elif x[0] > 0:
            y = x[:1]
        else:
            y = x
        return y, y + y, y.sum(), y.numel(), x.sum() + y

    agree(f, [vec(2, 1, 1), vec(1, 1, 1), vec(0, 1, 1)])


def test_shape_of_rank_two_with_a_branch_then_matmul():
    def f(x):
        if x.sum() > 0:
            w = torch.ones(3, 2, dtype=x.dtype)
        else:
            w = torch.ones(3, 5, dtype=x.dtype)
        return x @ w, w.shape

    agree(f, signs())


def test_branches_may_give_strides_that_differ():
    def f(x):
        m = torch.outer(x, x)
        if x.sum() > 0:
            m = m.t()
        return m.contiguous().view(-1), m.reshape(-1), m.stride()

    agree(f, signs())


def test_view_of_a_value_with_strides_that_differ():
    def f(x):
        m = torch.outer(x, x) + torch.arange(3, dtype=x.dtype)
        if x.sum() > 0:
            m = m.t()
        return m.sum(0), m[0], m.flatten()

    agree(f, signs())


def test_ints_that_branches_choose_stay_numbers():
    def f(x):
        if x.sum() > 0:
            n = 2
        else:
            n = 5
        return n, x * n, x.repeat(n), torch.arange(n)

    agree(f, signs())


def test_numbers_int_and_float():
    def f(x):
        if x.sum() > 0:
            n = 2.5
        else:
            n = -0.5
        return n, x * n, n * 2 + 1

    agree(f, signs())


def test_numbers_zero_and_one():
    def f(x):
        n = 0
        if x.sum() > 0:
            n = 1
        return n, x[n], x[n:], x + n, n == 1, n + 1

    agree(f, signs())


def test_int_and_float_keep_their_own_types():
    def f(x):
        if x.sum() > 0:
            n = 2
        else:
            n = 2.5
        return x * n

    agree(f, signs())


def test_int_and_float_returned():
    def f(x):
        if x.sum() > 0:
            n = 2
        else:
            n = 2.5
        return n

    agree(f, signs())


def test_int_tensor_times_int_or_float():
    def f(x):
        if x.sum() > 0:
            n = 2
        else:
            n = 2.0
        return x * n

    agree(f, signs(torch.int64))


def test_bools_that_branches_choose_decide_another_branch():
    def f(x):
        if x.sum() > 0:
            flag = True
        else:
            flag = False
        if flag:
            x = x + 1
        return x, flag, not flag

    agree(f, signs())


def test_a_bool_of_a_comparison_is_negated_and_computed_with():
    def f(x):
        flag = bool(x.sum() > 0)
        other = not flag
        return flag, other, flag + 1, x * flag

    agree(f, signs())


def test_branches_may_give_dtypes_that_differ():
    def f(x):
        if x.sum() > 0:
            y = x
        else:
            y = x.to(torch.float32)
        z = y * 2
        return z, (z.sum() + x.sum(), y.dtype), z.dtype == torch.float64

    agree(f, signs(grad=True))


def test_branches_may_give_ranks_that_differ():
    def f(x):
        y = x if x.sum() > 0 else x.sum()
        z = y * 2
        return z.sum() + y.dim(), z, y.shape

    agree(f, signs(grad=True))


def test_written_in_place_when_ranks_differ():
    def f(x):
        y = x if x.sum() > 0 else x[None]
        y += 1
        y[0] = 3
        return y, x

    agree(f, signs())


def test_tuples_of_two_lengths():
    def f(x):
        t = (x,)
        if x.sum() > 0:
            t = (x, x + 1)
        total = x
        for item in t:
            total = total + item
        return len(t), total, sum([item.sum() for item in t]), t

    agree(f, signs(grad=True))


def test_lists_of_two_lengths():
    def f(x):
        items = [x]
        if x.sum() > 0:
            items = [x, x * 2, x * 3]
        items.append(x * 5)
        return torch.stack(items).sum(), items, len(items), items[-1]

    agree(f, signs(grad=True))


def test_dicts_of_other_keys():
    def f(x):
        d = {"a": x}
        if x.sum() > 0:
            d = {"a": x + 1, "b": x}
        total = x
        for value in d.values():
            total = total + value
        if "b" in d:
            total = total + d["b"]
        return total, d

    agree(f, signs())


def test_dtypes_of_two_variables_that_differ():
    def f(x):
        y = x.long() if x[0] > 0 else x
        z = x.float() if x.sum() > 0 else x
        return y + z, y * 2, [y, z]

    agree(f, [vec(1, 2), vec(1, -2), vec(-1, 2), vec(-1, -2)])


def test_name_bound_in_one_branch_only():
    def f(x):
        if x.sum() > 0:
            y = x
        return y

    agree(f, signs())


def test_name_bound_in_one_branch_used_under_the_same_test():
    def f(x):
        big = x.sum() > 0
        if big:
            y = x * 3
        z = x
        if big:
            z = z + y
        return z

    agree(f, signs())


def test_name_deleted_in_a_branch():
    def f(x):
        y = x
        if x.sum() > 0:
            del y
        else:
            y = y + 1
        return y

    agree(f, signs())


def test_a_conditional_expression_gives_the_value_that_a_tensor_decides():
    def f(x):
        y = x + 1 if x.sum() > 0 else x - 1
        return y * (2 if x[0] > 0 else 3)

    agree(f, signs(grad=True))


def test_conditional_expression_is_lazy():
    def f(x):
        return x[3] if x.numel() > 3 else (x / 0 if x.sum() > 0 else x)

    agree(f, signs())


def test_side_effects_of_the_branch_not_taken_do_not_happen():
    def f(x):
        log = x.clone()

        def touch(value):
            log.add_(value)
            return log.sum()

        y = touch(1) if x.sum() > 0 else touch(10)
        return y, log

    agree(f, signs())


def test_nested_ifs_take_the_branches_of_eager():
    def f(x):
        y = x
        if x.sum() > 0:
            if x[0] > 2:
                y = y * 2
            else:
                y = y * 3
                if x[1] > 0:
                    y = y + 1
        else:
            if x[0] < -5:
                y = y - 1
        return y

    agree(f, [vec(3, 1), vec(1, 1), vec(2, -1), vec(-6, 1), vec(-1, 0)])


def test_condition_on_a_view_changed_in_place_between_tests():
    def f(x):
        y = x.clone()
        first = y[0]
        if first > 0:
            y -= 5
        if first > 0:
            y *= 10
        return y

    agree(f, [vec(1, 1), vec(6, 1), vec(-1, 1)])


def test_item_is_read_again_after_an_in_place_change():
    def f(x):
        y = x.clone()
        a = y.sum().item()
        b = y[0].item()
        if a > 0:
            y += 1
        c = y[0].item()
        return a, b, c, y.sum().item()

    agree(f, signs())
    agree(f, signs(torch.int64))


def test_item_of_the_same_tensor_twice():
    def f(x):
        s = x.sum()
        a = s.item()
        s += 1
        b = s.item()
        if x[0] > 0:
            s += 1
        c = s.item()
        return a, b, c

    agree(f, signs())
    agree(f, signs(torch.int64))


def test_facts_of_one_branch_do_not_leak_into_the_other():
    def f(x, n):
        k = n.item()
        if k == 3:
            y = x * k
        else:
            y = x - k
        z = y + 1 if k == 3 else y + 2
        return z, k

    agree(f, [(vec(1, 2), num(3, torch.int64)), (vec(1, 2), num(2, torch.int64)), (vec(1, 2), num(0, torch.int64))])


def test_size_facts_of_one_branch_do_not_leak():
    def f(x):
        y = x[x > 0]
        if y.shape[0] == 2:
            z = y.view(2, 1).sum(1)
        else:
            z = y * 5
        if y.shape[0] == 2:
            z = z + 1
        return z, y.shape[0]

    agree(f, [vec(1, 2, -1), vec(1, 2, 3), vec(-1, -1, -1), vec(1, -1, -1)])


def test_empty_tensor_as_input():
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    agree(f, [vec(), vec()])


def test_condition_is_a_one_element_tensor():
    def f(x):
        if x:
            return x + 1
        return x - 1

    agree(f, [vec(1), vec(0), vec(-2)])


def test_condition_with_many_elements_raises_as_eager():
    def f(x):
        if x > 0:
            return x
        return -x

    agree(f, [vec(1, 2), vec(-1, 2)], programs=None)


def test_a_condition_that_is_nan_counts_as_true():
    def f(x):
        if x.sum():
            return x + 1
        return x

    agree(f, [vec(1, 2), vec(float("nan")), vec(0.0, 0)], programs=None)


def test_one_object_from_both_branches():
    def f(x):
        y = x + 1
        if x.sum() > 0:
            z = y
        else:
            z = y
        z += 1
        return y, z

    agree(f, signs())


def test_branches_may_bind_a_name_to_tuples():
    def f(x):
        if x.sum() > 0:
            pair = (x, 1)
        else:
            pair = (x * 2, 5)
        a, b = pair
        return pair, a * b

    agree(f, signs())


def test_branches_may_bind_a_name_to_dicts():
    def f(x):
        if x.sum() > 0:
            d = {"a": x, "n": 1}
        else:
            d = {"a": x + 1, "n": 4}
        return d, d["a"] * d["n"]

    agree(f, signs())


def test_branch_result_reused_in_both_branches():
    def f(x):
        h = x.sum()
        if h > 0:
            a, b = h, h
        else:
            a, b = h, h + 1
        a += 1
        return a, b

    agree(f, signs())


def test_same_tensor_bound_to_two_names_in_a_branch():
    def f(x):
        a = x.clone()
        b = x.clone()
        if x.sum() > 0:
            a = b = x * 2
        a += 1
        return a, b

    agree(f, signs())


def test_in_place_change_under_no_grad_in_a_branch():
    def f(x):
        y = x * 1
        if x.sum() > 0:
            with torch.no_grad():
                y = y * 2
        return y

    agree(f, signs(grad=True))


def test_requires_grad_differs_between_branches():
    def f(x):
        if x.sum() > 0:
            y = x.detach()
        else:
            y = x * 2
        return y + 1

    agree(f, signs(grad=True))


def test_branches_that_only_pass_change_nothing():
    def f(x):
        if x.sum() > 0:
            pass
        else:
            pass
        return x

    agree(f, signs())


def test_strings_picked_by_a_branch_then_compared():
    def f(x):
        mode = "a" if x.sum() > 0 else "b"
        if mode == "a":
            return x + 1
        return x - 1

    agree(f, signs())


def test_strides_of_an_input_may_differ_from_call_to_call():
    def f(x):
        y = x.contiguous()
        y += 1
        return y.view(-1), x, x.is_contiguous(), x.stride(), x[1:].storage_offset()

    wide, tall = torch.arange(6.0).view(2, 3), torch.arange(6.0).view(3, 2).t()
    static = dy2st.to_static(f)
    for given in (wide, tall):
        copies = [given.clone(memory_format=torch.preserve_format) for _ in range(2)]
        same(f(copies[0]), static(copies[1]))
    assert len(static.program_cache) == 1


def test_unconverted_code_that_asks_for_a_truth_value_runs_as_python():
    @dy2st.not_to_static
    def pick(k):
        return 1 if k else 2

    def f(n):
        return pick(n.item())

    agree(f, [num(3, torch.int64), num(0, torch.int64), num(5, torch.int64)])


def test_identity_of_two_inputs():
    def f(x, y):
        x += 1
        return y * 2, x is y

    x = vec(1, 2)
    agree(f, [(x, vec(1, 2)), (x, vec(-3, 4))])
    agree(f, [(item, item) for item in (x, vec(-3, 4))])
