"""``except RuntimeError`` around operations whose sizes fit or do not fit as the data is."""

from __future__ import annotations

from typing import Any

import torch

import dy2st
from tests.oracle import agree
from tests.programs.values import vec

X = vec(0, 1, 2, 3, 4, 5)


def masks(*counts: int) -> list[Any]:
    return [(X.clone().requires_grad_(), torch.arange(6) < count) for count in counts]


def folded(x, mask):
    try:
        y = x[mask].view(2, -1)
    except RuntimeError as error:
        if "is invalid" in str(error):
            return x - 1, str(error)
        raise
    return y, "fits"


def test_the_clause_is_entered_with_the_message_of_eager():
    agree(folded, masks(4, 3, 2, 5, 6))


def test_the_number_of_bins_is_checked_at_run_time():
    def f(x, n):
        try:
            return torch.bincount(n, minlength=4).reshape(2, 2) + x
        except RuntimeError as error:
            return x, str(error)

    agree(f, [(torch.ones(2, 2), torch.tensor(n)) for n in ([1, 2], [3, 3], [9, 0], [5, 5])])


def test_a_clause_that_raises_again_says_what_eager_says():
    def f(x, mask):
        def update(x, mask):
            return x[mask] + torch.ones(4)

        try:
            y = update(x, mask)
        except RuntimeError as error:
            if "Expected all tensors to be on" in str(error):
                raise RuntimeError("move them") from error
            raise error
        return y * 2

    agree(f, masks(4, 3, 6, 0))


def test_what_fits_on_the_way_without_an_exception_is_not_known_in_the_clause():
    def f(x, mask):
        s = x[mask]
        try:
            s = s.clone().add_(torch.ones(4))
        except RuntimeError as error:
            if s.shape[0] == 4:
                return s, "four"
            raise ValueError(f"there are {s.shape[0]}") from error
        return (s * 2, "four") if s.shape[0] == 4 else (s, "other")

    agree(f, masks(4, 3, 6, 0))


def test_sizes_that_do_not_fit_in_an_iteration_end_the_loop():
    def f(x, n):
        total = x.sum()
        for i in range(int(n)):
            try:
                total = total + (x[: i + 2] + x[:4]).sum()
            except RuntimeError:
                total = total * 10
                if i > 3:
                    break
        return total

    agree(f, [(X, torch.tensor(n)) for n in (6, 3, 0, 1)], programs=1)


def test_what_an_attempt_gives_is_a_view_of_its_operand():
    def f(x, mask):
        y = x[mask]
        try:
            z = y.view(2, 2)
        except RuntimeError:
            z = y
        z.mul_(3)
        return y, z

    agree(f, [(X, torch.arange(6) < n) for n in (4, 3, 6)])


def test_one_size_is_no_failure():
    """Where eager stretches a size of 1, no clause is entered."""

    def f(x, mask):
        try:
            return x[mask] + x[x > 2]
        except RuntimeError:
            return x

    agree(f, [(X, torch.arange(6) < n) for n in (3, 2, 1, 0)])


def test_it_is_saved(tmp_path):
    dy2st.save(folded, tmp_path / "model.dy2st", input_spec=list(masks(4)[0]))
    loaded = dy2st.load(tmp_path / "model.dy2st")
    for args in masks(4, 3, 2):
        expected, given = folded(*args), loaded(*args)
        assert torch.equal(expected[0], given[0]) and expected[1] == given[1]
