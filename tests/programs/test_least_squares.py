"""``torch.linalg.lstsq``: what torch has no abstract result for, but where its driver leaves residuals."""

import pytest
import torch

import dy2st
from tests.oracle import agree


def _rows(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def of_kept_rows(a, b):
    kept = b[:, 0] > 0
    found = torch.linalg.lstsq(a[kept], b[kept])
    return found.solution, found.residuals, found.rank, found.singular_values


def in_a_loop(a, b):
    total, rounds = a.new_zeros(2, 1), 0
    while b.sum() > 0:
        total = total + torch.linalg.lstsq(a, b).solution
        b, rounds = b - 1, rounds + 1
    return total, rounds


def of_a_branch(a, b):
    return [torch.linalg.lstsq(a, b).solution if b.sum() > 9 else torch.linalg.lstsq(a, b, driver="gelsy").solution * 2]


def check(function, calls):
    """Compare with eager but for the last bits, in which the solver differs from call to call."""
    for backend in ("native", "python"):
        static = dy2st.to_static(function, backend=backend)
        for args in calls:
            results = []
            for run in (function, static):
                a = args[0].clone().requires_grad_()
                found = [part for part in run(a, *args[1:]) if isinstance(part, torch.Tensor)]
                results.append([found, torch.autograd.grad(sum(part.sum() for part in found), a)])
            torch.testing.assert_close(*results)
        assert len(static.program_cache) == 1


@pytest.mark.parametrize("function", [of_kept_rows, in_a_loop, of_a_branch])
def test_a_program_solves_least_squares(function):
    b = torch.tensor([[1.0], [2.0], [-1.0], [3.0], [1.0]], dtype=torch.float64)
    check(function, [(_rows(5, 2), b), (_rows(5, 2) * 2, b * 3)])


def test_many_are_solved_at_once():
    check(lambda a, b: torch.linalg.lstsq(a, b), [(_rows(3, 5, 2), _rows(3, 5, 4)), (_rows(3, 5, 2), _rows(3, 5, 4) * 2)])


def test_sizes_that_do_not_fit_are_eagers_error():
    agree(lambda a, b: torch.linalg.lstsq(a, b), [(_rows(3, 5, 2), _rows(3, 4, 1))], programs=None)


def test_a_driver_that_leaves_residuals_for_a_full_rank_is_refused():
    with pytest.raises(dy2st.CaptureError, match="lstsq"):
        dy2st.to_static(lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd"))(_rows(5, 2), _rows(5, 1))
