"""Programs that random testing found to give a wrong answer, made smaller by hand."""

from __future__ import annotations

import collections

import pytest
import torch

import dy2st
from tests.oracle import agree


def inputs() -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Values of ``x``, ``v`` and ``n``."""
    values = [(-1.0, [1.0, 2.0, 3.0], 2), (2.0, [1.0, -2.0, 3.0], 1), (-1.0, [-1.0, -2.0, 3.0], 0), (5.0, [0.0, 0.0, 0.0], 5)]
    return [(torch.tensor(x, dtype=torch.float64), torch.tensor(v, dtype=torch.float64), torch.tensor(n)) for x, v, n in values]


def test_a_branch_makes_one_list_another_of_the_same_items():
    def f(x, v, n):
        xs = [x]
        ys = [x]
        if v.sum() == 0:
            ys = xs
        ys.append(x)
        return xs, ys

    agree(f, inputs())


def test_key_that_one_branch_adds():
    def f(x, v, n):
        d = {"a": x}
        if n % 2 == 0:
            d["c"] = v
        return "c" in d, len(d), d

    agree(f, inputs())


def test_starred_list_that_grows_in_a_loop_in_a_loop():
    def f(x, v, n):
        while n > 0:
            n = n - 1
            y, *ys = [x, x]
            k = n * 0
            while k < n % 2:
                k = k + 1
                ys.append(y)
            x = x + len(ys)
        return x

    agree(f, inputs())


def test_result_that_is_one_of_several_in_a_match():
    def f(x, v, n):
        for mode in ("up", "down", "stay"):
            match n % 3:
                case 0:
                    return v, mode
                case 1:
                    return v * 2, "one"
            if x > 1:
                return v, "large"
        return v, "none"

    agree(f, inputs())


def test_assignment_in_a_chain_of_comparisons():
    def f(x, v, n):
        y = v[1]
        z = x
        read = lambda: abs(z)
        if 0 < z < (z := y) + 1:
            x = x + 1
        return x, z, read()

    agree(f, inputs())


def test_assignment_in_the_last_operand():
    def f(x, v, n):
        z = x
        if x > 0 and n > 1 and (z := v[1]) > 0:
            x = x + 1
        if x < 0 or n > 1 or (z := v[0]) > 0:
            x = x + 2
        return x, z

    agree(f, inputs())


def test_growing_list_in_a_tuple_that_a_branch_returns():
    def f(x, v, n):
        xs = [x]
        if n > 0:
            for i in range(n):
                xs.append(x + i)
            return xs, v
        xs.append(v.sum())
        return xs, v * 2

    agree(f, inputs())


def test_two_names_of_a_list_that_a_loop_makes():
    def f(x, v, n):
        for _ in range(n * 0 + 1):
            ys = [x]
            xs = ys
        ys.append(v.sum())
        return xs, ys

    agree(f, inputs())


def test_two_names_of_a_dict_that_each_iteration_makes():
    def f(x, v, n):
        d = {"a": x}
        e = d
        while n > 0:
            d = {"a": v.sum() + n}
            e = d
            n = n - 1
        d["a"] = x * 3
        return d, e

    agree(f, inputs())


def test_one_list_twice_in_what_a_loop_returns():
    def f(x, v, n):
        def helper():
            for _ in range(n * 0 + 1):
                xs = [x]
                return xs, xs

        a, b = helper()
        a.append(v.sum())
        return a, b

    agree(f, inputs())


def test_two_names_of_a_dict_that_one_branch_makes():
    def f(x, v, n):
        if x > 0:
            d = {"a": x}
            e = d
        if x > 0:
            d["a"] = v
            return e
        return x

    agree(f, inputs())


def test_list_that_may_be_there_grows():
    def f(x, v, n):
        r = None
        if x > 0:
            r = ([x], 1)
        if r is not None:
            r[0].append(v.sum())
        return r

    agree(f, inputs())


def test_name_that_is_not_bound_in_a_loop_keeps_what_was_written():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("t", torch.tensor(0.5, dtype=torch.float64))

        def forward(self, x, v, n):
            for _ in range(n * 0 + 1):
                self.t = v[0].clone()
                x *= 2
                if n > 1:
                    y = x
                x = y + 1
            return x

    agree(Net(), inputs())


def test_name_that_is_not_bound_passes_a_finally_clause():
    def f(x, v, n):
        for _ in range(n * 0 + 1):
            if n > 1:
                y = x * 2
            try:
                x.mul_(3)
                z = y + 1
            finally:
                x.add_(v[0])
            x = z
        return x

    agree(f, inputs())


def test_error_on_the_way_out_of_a_refusal_does_not_hide_it():
    def f(x, v, n):
        xs = [x]
        try:
            try:
                for j in range(n):
                    xs += [object()]
            finally:
                x += j
        except NameError:
            return v
        return x

    with pytest.raises(dy2st.CaptureError, match="a value of class object is put in a list"):
        dy2st.to_static(f)(*inputs()[0])


def test_what_was_written_before_an_operation_on_overlapping_memory_fails():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("t", torch.tensor(0.5, dtype=torch.float64))

        def forward(self, x, v, n):
            self.t = v.sum().clone()
            try:
                if n > 0:
                    v *= v[0]
            finally:
                x += 1
            return v

    agree(Net(), inputs())


@pytest.mark.parametrize(
    "change",
    [lambda v: v[1:].add_(v[:2]), lambda v: v[:2].copy_(v[1:]), lambda v: v[0].expand(3).add_(1), lambda v: v.view(3, 1).mul_(v)],
)
def test_operations_on_overlapping_memory(change):
    def f(x, v, n):
        if n > 1:
            change(v)
        return v

    agree(f, inputs())


@pytest.mark.parametrize(
    "change",
    [lambda v: v.mul_(v), lambda v: v[1:].add_(v[0]), lambda v: v[::2].add_(v[:2]), lambda v: v.fill_(v[0]), lambda v: v.copy_(v)],
)
def test_operations_on_memory_that_torch_accepts(change):
    def f(x, v, n):
        if n > 1:
            change(v)
        return v

    agree(f, inputs())


def test_item_that_one_branch_sets_and_the_other_updates():
    def f(x, v, n):
        d = {"a": v[0], "b": x}
        if n == 2:
            d.update(a=x * 3)
        elif n > 0:
            d["a"] = x * 2
            d["c"] = x
        return d

    agree(f, inputs())


def test_items_that_branches_of_a_loop_set_and_update():
    def f(x, v, n):
        d = {"a": v[0], "b": x}
        while n > 0:
            n = n - 1
            if n == 2:
                d.update(a=d["a"] + 1)
            elif n > 0:
                d["a"] = x * 2
            else:
                d["b"] = d["a"]
        return d

    agree(f, inputs())


def test_item_that_is_set_before_and_after_the_dict_is_updated():
    def f(x, v, n):
        d = {"a": v[0], "b": x}
        old = d["a"]
        d["a"] = x + 1
        if n == 2:
            d["a"] = x + 2
            e = d["a"]
            d.update(b=x)
            d["a"] = e + 1
        elif n > 0:
            d["a"] = x
            d.update(a=old)
        else:
            d["a"] = d["a"] + x
            d.update(b=x * 2)
            d["c"] = x
        return d

    agree(f, inputs())


def test_dict_that_one_branch_joins_with_another_and_the_other_takes_an_item_from():
    def f(x, v, n):
        d = {"a": v[0], "b": x}
        if n > 0:
            d |= {"b": v[1], "c": v[2]}
        elif n == 0:
            d.setdefault("c", x)
            d.pop("a")
        return d

    agree(f, inputs())


def test_ordered_dict_that_branches_set_and_update():
    def f(x, v, n):
        d = collections.OrderedDict(a=x, b=v[0])
        if n > 1:
            d["a"] = v[1]
        elif n == 0:
            d.update(b=v[2])
        return d["a"], d["b"]

    agree(f, inputs())


def test_dict_of_a_module_that_branches_set_and_update():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.d = {"a": torch.zeros((), dtype=torch.float64)}

        def forward(self, x, v, n):
            self.d.update(a=x)
            y = self.d["a"] + 1
            if n > 1:
                self.d.update(a=y)
            elif n == 0:
                self.d["a"] = v[0]
            return self.d["a"] * 2

    agree(Net(), inputs())


def test_item_that_one_branch_takes_out_and_puts_back_comes_last():
    def f(x, v, n):
        d = {"a": v[0], "b": x}
        if n > 0:
            a = d.pop("a")
            d["a"] = a
        return d

    agree(f, inputs())


def test_list_that_runs_out_passes_a_finally_clause():
    def f(x, v, n):
        xs = [x]
        try:
            for _ in range(n):
                xs.append(x)
            xs[3] = x * 2
            del xs[n - 5]
            y = xs[n - 2]
            xs.pop(n)
        finally:
            x += 1
        return xs, y

    agree(f, inputs())


def test_list_that_runs_out_leaves_what_was_written():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("t", torch.tensor(0.5, dtype=torch.float64))

        def forward(self, x, v, n):
            xs = [x, x + 1]
            self.t = x.clone()
            for _ in range(n):
                xs.pop()
            return xs

    agree(Net(), inputs())


def test_list_that_runs_out_where_the_error_would_be_caught():
    def f(x, v, n):
        xs = [x]
        try:
            while n > 0:
                n = n - 1
                xs.pop()
        except IndexError:
            return v
        return x

    agree(f, inputs())


def test_structure_with_a_set_and_a_deque_that_an_early_return_leaves_out():
    def f(x, v, n):
        e = collections.deque([x])
        s = {"a"}
        if n == 2:
            return x
        if n > 0:
            s.add("b")
            e.append(v[0])
        return x, e, s

    agree(f, inputs())


def with_gradients() -> list[tuple[torch.Tensor, ...]]:
    """The same values, as tensors that autograd follows and that may be written."""
    return [(x.requires_grad_() * 1, v.requires_grad_() * 1, n) for x, v, n in inputs()]


def test_view_whose_base_another_branch_modifies():
    def f(x, v, n):
        y, z, a = v.unbind()
        if n == 5:
            v -= x
        elif n == 0:
            return -z, y
        return v * 2, x + 1

    agree(f, with_gradients())


def test_view_whose_base_another_branch_of_the_same_iteration_modifies():
    def f(x, v, n):
        for y in v * 1:
            if x < -5:
                v[n % 3] += x
            else:
                x = x + y
        return x, v

    agree(f, with_gradients())


def test_view_is_used_after_a_branch_that_modifies_its_base():
    def f(x, v, n):
        y, *_ = v.unbind()
        if n == 6:
            v.mul_(2)
        z = y.view(1)
        z = z.sin().mul_(2)
        return z, y * 2

    agree(f, with_gradients())


def test_view_that_a_branch_makes_stale_fails_where_it_is_used():
    def f(x, v, n):
        y, *_ = v.unbind()
        if n > 1:
            v.mul_(2)
        return y + x

    static = dy2st.to_static(f)
    for x, v, n in with_gradients():
        if n <= 1:
            assert torch.equal(static(x, v, n), f(x, v, n))
            continue
        for function in (f, static):
            with pytest.raises(RuntimeError, match="has been modified inplace"):
                function(x, v * 1, n)


def test_list_that_is_another_one_after_some_iterations_grows():
    def f(x, v, n):
        xs = [v.sum()]
        ys = xs
        t = 0 * n
        while True:
            if t >= n:
                break
            t = t + 1
            ys = []
        ys.append(x + 1)
        return xs, ys

    agree(f, inputs())


def test_number_of_a_tensor_with_several_elements():
    def f(x, v, n):
        if n == 2:
            return int(v), x
        if n == 1:
            return float(v > 0), x
        if n == 0:
            return int(v[v < -1]), x
        return int(v[v > 0]), x

    agree(f, inputs())


def test_state_that_is_written_before_a_view_turns_out_to_be_stale():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("t", torch.tensor(0.5, dtype=torch.float64))

        def forward(self, x, v, n):
            y, z, _ = v.unbind()
            self.t = x.detach().clone()
            if n > 1:
                v.mul_(2)
            x = x + y
            self.t = self.t * 2
            z.mul_(3)
            return x

    static, eager = dy2st.to_static(Net()), Net()
    for call in [*with_gradients(), *with_gradients()[::-1]]:
        x, v, n = call
        for module in (static, eager):
            with pytest.raises(RuntimeError, match="modified inplace"):
                module(x, v * 1, n)
        assert torch.equal(static.t, eager.t)


def test_view_that_may_be_stale_where_a_finally_clause_would_see_it():
    def f(x, v, n):
        y, *_ = v.unbind()
        if n > 1:
            v.mul_(2)
        try:
            x = x + y
        finally:
            v.add_(1)
        return x

    with pytest.raises(dy2st.errors.CaptureError, match="torch may refuse a view here"):
        dy2st.to_static(f)(*with_gradients()[0])


@pytest.mark.parametrize("changed", ["xs", "ys", "both"])
def test_list_of_another_length_after_some_iterations(changed):
    def f(x, v, n):
        xs = [v.sum()]
        ys = xs
        t = 0 * n
        while t < n - 1:
            t = t + 1
            ys = [x, x + t]
        if n > 0 and changed != "ys":
            xs.append(x)
        if changed != "xs":
            ys.append(v[0])
        return xs, ys

    agree(f, inputs())


def test_list_that_needs_to_be_one_of_the_program_when_it_is_out_of_date():
    def f(x, v, n):
        xs = [x, x + 1]
        ys = xs
        for _ in range(2):
            t = 0
            while True:
                if t >= n:
                    break
                t = t + 1
                ys = [x]
        ys.extend([xs[-1], x])
        return xs, ys

    agree(f, inputs())


def test_stack_of_no_tensors():
    def f(x, v, n):
        xs = []
        v.mul_(2)
        if n > 1:
            x = torch.stack(xs)
        return x

    agree(f, inputs())


def test_contents_of_a_dict_and_a_check_in_a_branch_of_a_loop():
    def f(x, v, n):
        d = {"a": v}
        for _ in range(2):
            if n < 2:
                d.update(a=x)
                assert x < 40
            else:
                break
            n = n + 1
        return d

    agree(f, inputs())


def test_item_of_two_dtypes_after_a_break():
    def f(x, v, n):
        d = {"a": v, "b": x}
        t = 0
        while True:
            if t >= n:
                break
            t = t + 1
            d = {"a": x.float(), "b": x}
        return d

    agree(f, inputs())
