"""Python numbers that a tensor decides: `.item()`, `int`, `float`, arithmetic, `min`, `max`, `round`, `math`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import dy2st
from tests.oracle import agree
from tests.programs.values import counts, num, signs, vec

FLOATS = [num(v) for v in (2.5, -2.5, 0.5, 1.5, 0.0, -0.0, 3.0, -7.25, 1e17)]
INTS = [num(v, torch.int64) for v in (5, -5, 0, 1, 2, -1, 7, 2**40)]


def test_int_of_a_float_tensor():
    def f(x):
        return int(x), int(x) + 1, int(x.item())

    agree(f, FLOATS)


def test_float_arithmetic_is_that_of_python():
    def f(x):
        a = x.item()
        return a + 1, a - 1, a * 3, a / 4, -a, abs(a), a**2, 2.0**a if a < 100 else 0.0, a + 1 - 1, a * 0.1 * 3

    agree(f, FLOATS)


def test_float_floor_division_and_modulo():
    def f(x):
        a = x.item()
        return a // 2, a % 2, a // -2, a % -3, divmod(a, 2)

    agree(f, FLOATS)


def test_a_float_may_be_the_right_operand():
    def f(x):
        a = x.item() + 0.25
        return 1 + a, 1 - a, 3 * a, 4 / a, 7 // a, 7 % a

    agree(f, FLOATS)


def test_floats_are_rounded_as_in_python():
    def f(x):
        a = x.item()
        return round(a), round(a, 1), math.floor(a), math.ceil(a), math.trunc(a)

    agree(f, FLOATS)


def test_int_arithmetic_is_that_of_python():
    def f(x):
        a = x.item()
        return a + 1, a - 1, a * 3, a / 4, -a, abs(a), a**2, a // 3, a % 3, a // -3, a % -3, a + 1.5, a * 0.5, a - a

    agree(f, INTS)


def test_bit_operators_of_ints_are_those_of_python():
    def f(x):
        a = x.item()
        return a & 3, a | 8, a ^ 5, a << 2, a >> 1, ~a

    agree(f, INTS)


def test_an_int_may_be_the_divisor():
    def f(x):
        a = x.item()
        return 7 // a, 7 % a, 7 / a

    agree(f, INTS)


def test_arithmetic_of_two_ints_is_that_of_python():
    def f(x, y):
        a, b = x.item(), y.item()
        return a + b, a - b, a * b, a // b, a % b, a / b, min(a, b), max(a, b), a**2 + b**2, a < b, divmod(a, b)

    pairs = [(7, 3), (-7, 3), (7, -3), (-7, -3), (0, 5), (3, 3)]
    agree(f, [(num(a, torch.int64), num(b, torch.int64)) for a, b in pairs])


def test_an_int_is_raised_to_an_int_power():
    def f(x, y):
        a, b = x.item(), y.item()
        return a**b

    agree(f, [(num(a, torch.int64), num(b, torch.int64)) for a, b in [(2, 3), (3, 0), (5, 1), (-2, 3)]])


def test_a_power_of_ints_is_a_float_where_the_exponent_is_negative():
    def f(n, m, x):
        a, k = m.item(), n.item()
        kept = 0 if k > 2 else a**k
        return a**k, k**-2, isinstance(2**k, int), x * 2**k, kept, True**k, pow(2, k)

    x = torch.tensor([1.0, 3.0], dtype=torch.float64)
    agree(
        f, [(num(n, torch.int64), num(m, torch.int64), x) for n, m in [(2, 3), (-1, 2), (-3, -2), (1, 0), (5, 1), (-1, 0), (0, 3)]]
    )


def test_powers_of_two_in_a_loop():
    def f(n, x):
        total = 0
        for k in range(n):
            total = total + 2 ** (k - 1)
            x = x / 2**k
        return total, x

    agree(f, [(num(n, torch.int64), torch.ones(2, dtype=torch.float64, requires_grad=True)) for n in (3, 0, 1, 6)])


def test_a_power_is_a_size_where_its_exponent_is_known_not_to_be_negative():
    def f(n, x):
        n = n.item()
        if n >= 0:
            return x.new_zeros(2**n)
        return x * 2**n

    agree(f, [(num(n, torch.int64), torch.ones(2, dtype=torch.float64)) for n in (3, 0, -1, -6)])


def test_power_with_a_modulus():
    def f(a, b, m):
        a, b, m = a.item(), b.item(), m.item()
        return pow(a, b, m), pow(3, b, 7), pow(a, 10**18, m)

    cases = [(2, 3, 5), (3, -1, 7), (5, 10**9, 13), (2, -1, 4), (2, 3, 0), (-3, 5, -4)]
    agree(f, [tuple(num(v, torch.int64) for v in case) for case in cases])


def test_floats_and_ints_in_min_and_max():
    def f(x, n):
        a, k = x.item(), n.item()
        return min(a, 1.0), max(a, k), min(k, 3), max(k, 0, 2), min(a, k, 2)

    agree(f, [(x, n) for x in FLOATS[:4] for n in INTS[:4]])


def test_min_and_max_of_tensors():
    def f(x):
        return min(x[0], x[1]), max(x[0], x[1], x[2]), max(x), min(list(x)), max(x[0], 1.5), min(x.sum(), 0)

    agree(f, [vec(1, 2, 3), vec(3, 2, 1), vec(2, 2, 2), vec(-1, 5, 0)])


def test_math_functions_of_floats_are_those_of_python():
    def f(x):
        a = abs(x.item()) + 0.5
        return math.sqrt(a), math.log(a), math.exp(-a), math.sin(a), math.pow(a, 0.5), math.isnan(a), math.hypot(a, 1)

    agree(f, FLOATS)


def test_math_of_a_tensor():
    def f(x):
        return math.sqrt(x.abs() + 1), math.floor(x), x * math.exp(-x.abs())

    agree(f, FLOATS)


def test_int_of_bool_tensor():
    def f(x):
        return int(x > 0), float(x > 0), bool(x > 0), (x > 0).item()

    agree(f, FLOATS)


def test_numbers_used_as_sizes():
    def f(x, n):
        k = n.item()
        return torch.zeros(k), torch.arange(k), x.expand(k, 3), torch.full((k, k + 1), 2.0), x.repeat(k)

    agree(f, [(vec(1, 2, 3), c) for c in counts(3, 0, 1, 7)])


def test_numbers_used_as_positions():
    def f(x, n):
        k = n.item()
        return x[k], x[k - 1], x[-k], x[k % 3], x[2 - k]

    agree(f, [(vec(1, 2, 3), c) for c in counts(2, 0, 1)])


def test_number_times_tensor_keeps_dtype():
    def f(x, n):
        k, a = n.item(), n.item() / 2
        return x * k, x + k, x / k, x**k, x * a, k * x, x.to(torch.int32) * k, x.to(torch.float32) * a

    agree(f, [(vec(1, 2, 3), c) for c in counts(3, 1, 7)])
    agree(f, [(vec(1, 2, 3, dtype=torch.int64), c) for c in counts(3, 1, 7)])


def test_tensors_are_made_of_numbers():
    def f(x, n):
        k = n.item()
        return torch.tensor([k, k + 1]), torch.tensor(k), torch.tensor([x[0].item(), 1.0]), torch.tensor([k, 2.5])

    agree(f, [(vec(1, 2, 3), c) for c in counts(3, 0, 1)])


def test_number_in_a_structure():
    def f(x, n):
        k = n.item()
        d = {"k": k, "pair": (k, k * 2)}
        d["k"] += 1
        return d, [k] * 2

    agree(f, [(vec(1, 2, 3), c) for c in counts(3, 0, 1)])


def test_number_as_a_dict_key():
    def f(x, n):
        table = {0: 10, 1: 20, 3: 30}
        return x * table[n.item()]

    agree(f, [(vec(1, 2, 3), c) for c in counts(3, 0, 1, 7)])


def test_items_of_a_tensor_add_up_to_a_number():
    def f(x):
        total = 0
        for v in x:
            total += v.item()
        return total, sum(v.item() for v in x), sum([1, x[0].item()])

    agree(f, signs())
    agree(f, signs(torch.int64))


def test_sum_takes_tensors_lists_and_generators():
    def f(x):
        return sum(x), sum([x, x]), sum(v * 2 for v in x)

    agree(f, signs())


def test_tolist_gives_python_numbers():
    def f(x):
        a = x.tolist()
        return a[0] + a[1], a

    agree(f, signs())
    agree(f, signs(torch.int64))


def test_shape_numbers_are_python():
    def f(x):
        n = x.shape[0]
        return n, type(n) is int, x.size(), x.numel(), len(x), x.dim()

    agree(f, signs())


def test_shape_of_a_filtered_tensor():
    def f(x):
        y = x[x > 0]
        n = y.shape[0]
        return n, y.numel(), len(y), y.size(0), n * 2 + 1, y.shape, y.mean() if n > 0 else x.sum()

    agree(f, signs())


def test_isinstance_and_type_of_numbers():
    def f(x, n):
        k, a = n.item(), x.sum().item()
        return isinstance(k, int), isinstance(a, float), isinstance(a, (int, float)), type(k) is int

    agree(f, [(vec(1, 2, 3), c) for c in counts(3, 0, 1)])


def test_float_of_an_int_and_back():
    def f(n):
        k = n.item()
        return float(k), int(float(k) / 2), float(k) == k, int(k / 2)

    agree(f, INTS)


def test_accumulated_floats_round_as_python():
    def f(x):
        a = x.item()
        total = 0.0
        for i in range(10):
            total = total + a * 0.1
        return total, a + 0.1 + 0.2, a + (0.1 + 0.2), (a + 1e16) - 1e16, a * 3 / 3

    agree(f, FLOATS)


def test_arithmetic_of_large_ints_is_that_of_python():
    def f(n):
        k = n.item()
        return k * k, k + 2**62, k * 2**40

    agree(f, INTS)


def test_division_by_an_item_of_zero_raises():
    def f(x):
        return 1 / x.item()

    agree(f, [num(2.0), num(0.0)])


def test_int_division_by_zero():
    def f(n):
        return 7 // n.item()

    agree(f, [num(2, torch.int64), num(0, torch.int64)])


def test_complex_item():
    def f(x):
        return x.item()

    agree(f, [torch.tensor(1 + 2j), torch.tensor(0j)])


def test_numbers_are_formatted_in_f_strings():
    def f(x, n):
        print(f"{n.item()} {x.sum().item():.3f} {int(x[0])}")
        return x

    agree(f, [(vec(1, 2, 3), c) for c in counts(3, 0, 1)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.uint8])
def test_item_of_other_dtypes(dtype):
    def f(x):
        a = x.item()
        return a, a + 1, a * 2 > 3, x * a

    agree(f, [torch.tensor(v, dtype=dtype) for v in (3, 0, 1)])


def test_comparison_of_number_with_tensor():
    def f(x):
        a = x[0].item()
        return x > a, (x == a).sum().item()

    agree(f, signs())


def test_numbers_bound_slices_of_a_tensor():
    def f(x, n):
        k = n.item()
        return x[:k].sum(), x[k].sum(), x[0 : k + 1]

    agree(f, [(vec(1, 2, 3), c) for c in counts(1, 0, 2)])


def test_new_tensor_of_a_number():
    def f(x, n):
        return x.new_tensor(n.item()), x.new_tensor([n.item(), 2]), x.new_full((2,), n.item()), torch.full_like(x, n.item())

    agree(f, [(vec(1, 2, 3), c) for c in counts()])


def test_is_integer_decides_a_branch():
    def f(x):
        value = float(x)
        if value.is_integer():
            return x * 2
        return x, value.is_integer()

    agree(f, [num(item) for item in (2.0, 2.5, -3.0, float("inf"), float("nan"), 0.0)])


def test_powers_of_negative_numbers():
    def f(x):
        k, v = int(x), x.item()
        return (-3.0) ** k, (-2) ** k, -(2**k), (-2) ** k % 5, (-1.5) ** float(k), (-8) ** v

    agree(f, [num(v) for v in (3.0, 4.0, -2.0, -3.0, 0.0, 0.5)])


def test_numbers_beyond_64_bits():
    def f(x, n):
        k = int(n) * 10**18
        wide = k * 100, k**3, int(n) << 70, k + 2**63, (k * 2**62) // 3, k * 2**64 % 7, float(k * 2**70), k * 2**64 > 5, ~(k * 99)
        return x[k:], x[:k], x[-k:], x[k:2], [10, 20, 30][k * 100 :], wide, str(k * 2**65)

    agree(f, [(torch.arange(2.0), torch.tensor(v)) for v in (30, 0, -30, 1)])


def test_an_index_beyond_64_bits():
    def f(x, n):
        return x[int(n) * 10**19]

    agree(f, [(torch.arange(2.0), torch.tensor(v)) for v in (0, 3, -3)])


def test_a_nan_is_found_by_its_identity():
    def f(x):
        v, w = x.item(), x.item()
        items = [v, 1.0]
        found = [v] == [v], items.index(v), v in items, items.count(v), (v,) == (v,), {"a": v} == {"a": v}, [v] != [v]
        return found, v == v, [v] == [w], w in items, (1, v) == (1, w)

    agree(f, [num(float("nan")), num(2.0)])


def test_division_of_floats_by_zero():
    def f(x, y):
        return divmod(x.item(), y.item())

    agree(f, [(num(7.0), num(v)) for v in (2.0, 0.0, -0.5)])
    agree(f, [(num(7, torch.int64), num(v)) for v in (2.0, 0.0, -0.5)])


def test_a_bool_that_is_rounded_and_functions_of_tensors_with_several_elements():
    def f(x):
        a = bool(x)
        return round(a), round(a, 1), round(a, -1)

    agree(f, [num(1.0), num(0.0)])
    agree(lambda x: math.sqrt(x), [torch.ones(2)], programs=None)


def _by_a_length(x, n, empty):
    return int(n) // len(empty)


def _unused(x, n, empty):
    int(n) % 0
    return x


def _in_a_branch(x, n, empty):
    if x.sum() > 0:
        return int(n) % len(empty)
    return int(n) / 2


def _of_both(x, n, empty):
    return divmod(int(n), len(empty)) if x.sum() > 0 else True % int(n)


@pytest.mark.parametrize("program", [_by_a_length, _unused, _in_a_branch, _of_both])
def test_division_by_a_zero_that_is_known(program):
    for backend in ("native", "python"):
        static = dy2st.to_static(program, backend=backend)
        for sign in (1.0, -1.0):
            outcomes = []
            for function in (program, static):
                try:
                    outcomes.append(str(function(torch.full((2,), sign), torch.tensor(3), [])))
                except ZeroDivisionError as error:
                    outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]


_SCALED = [
    lambda x, y, n: x.sub(y, alpha=n),
    lambda x, y, n: torch.rsub(x, y, alpha=-n),
    lambda x, y, n: torch.addmm(x, x, y, beta=n, alpha=n + 1),
    lambda x, y, n: torch.addr(x, y[0], y[1], beta=n),
    lambda x, y, n: torch.nn.functional.softshrink(x, abs(n)),
    lambda x, y, n: torch.linalg.vector_norm(x, abs(n) + 1),
    lambda x, y, n: x.index_add(0, torch.tensor([0, 0]), y, alpha=n),
    lambda x, y, n: torch.autograd.grad((x.sub(y, alpha=n) ** 2).sum(), x)[0],
]


@pytest.mark.parametrize("scaled", _SCALED)
def test_floats_of_the_program_scale_what_operators_give(scaled):
    def f(x, y):
        return scaled(x, y, (x * y).sum().item())

    x = torch.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
    agree(f, [(x, torch.eye(2)), (x, torch.tensor([[1.0, 2.0], [0.0, -1.0]])), (x, torch.zeros(2, 2))])


def test_an_operator_that_refuses_some_floats_is_not_taken_apart_where_that_is_caught():
    def f(x):
        try:
            return torch.nn.functional.softshrink(x, x.sum().item())
        except RuntimeError:
            return x

    static = dy2st.to_static(f)
    with pytest.raises(dy2st.Dy2stError):
        static(torch.tensor([1.0, 2.0]))


_FLAGGED = [
    lambda x, mask, flag: mask & flag,
    lambda x, mask, flag: flag | mask,
    lambda x, mask, flag: torch.where(mask.unsqueeze(-1) ^ flag, 1.0, x),
    lambda x, mask, flag: mask * flag + mask,
    lambda x, mask, flag: (x.long() + flag, x.long() < flag, mask == flag, flag * x),
    lambda x, mask, flag: torch.add(mask, flag),
]


@pytest.mark.parametrize("flagged", _FLAGGED)
def test_bools_of_the_program_are_operands_of_masks(flagged):
    def f(x, mask, n):
        results, i = [], 0
        while i < n:
            results.append(flagged(x, mask, i > 1))
            i += 1
        return results, flagged(x, mask, n.item() > 2)

    x, mask = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([True, False, True])
    agree(f, [(x, mask, torch.tensor(4)), (x, ~mask, torch.tensor(0)), (-x, mask, torch.tensor(1))])


@pytest.mark.parametrize("asked", [np.isnan, np.isfinite, lambda number: torch.tensor(np.full(2, number)).sum() > 1])
def test_numpy_is_asked_about_a_number_of_the_program(asked):
    def f(x):
        return x + 1 if asked(x.sum().item()) else x

    agree(f, [(torch.ones(2),), (-torch.ones(2),), (torch.full((2,), torch.nan),)])


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.bfloat16, torch.float64])
def test_numbers_that_are_one_are_operands_as_any_others(dtype):
    def f(x, n):
        flag, number = bool(n > 2), n.item()
        first = torch.tensor([0])
        return x + flag, x * flag, x <= flag, x.index_add(0, first, x[:1], alpha=number), torch.add(x, x, alpha=number)

    agree(f, [(torch.tensor([1, 2, 3]).to(dtype), torch.tensor(n)) for n in (2, 3, 1, 0)])


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.float16])
@pytest.mark.parametrize(
    "use",
    [
        lambda x, i, f: x.clone().div_(i), lambda x, i, f: x.clone().add_(f), lambda x, i, f: x << i, lambda x, i, f: x.clone().pow_(i),
        lambda x, i, f: x.clone().mul_(f), lambda x, i, f: x - i,
    ],
)  # fmt: skip
def test_numbers_of_a_kind_that_does_not_fit_raise_what_eager_raises(use, dtype):
    agree(lambda x, n: use(x, n.item(), n.double().item()), [(torch.tensor([1, 2, 3]).to(dtype), torch.tensor(2))], programs=None)
