"""Programs that random testing found to give a wrong answer, made smaller by hand."""

from __future__ import annotations

import torch

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
