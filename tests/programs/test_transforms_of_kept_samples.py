"""Fourier transforms of as many samples as a tensor decides, none among them, which eager refuses."""

import pytest
import torch

from tests.oracle import agree

SAMPLES = [torch.tensor(row) for row in ([1.0, 2, -3, 4], [-1.0, -2, -3, -4], [1.0, 2, 3, -4], [1.0, -2, -3, -4])]
NAMES = ("rfft", "irfft", "fft", "ifft", "hfft", "ihfft")


@pytest.mark.parametrize("name", NAMES)
def test_kept_samples_are_transformed(name):
    transform = getattr(torch.fft, name)
    agree(lambda x: (transform(x[x > 0]), transform(x[x > 0][None], dim=1, norm="ortho")), [(x,) for x in SAMPLES])


@pytest.mark.parametrize("transform", [torch.fft.fft2, torch.fft.rfftn, lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2)])
def test_rows_of_kept_samples_are_transformed(transform):
    agree(lambda x: transform(x[x > 0][None].expand(2, -1)).abs(), [(x.clone().requires_grad_(),) for x in SAMPLES])


def test_a_clause_catches_that_there_is_no_sample():
    def f(x):
        try:
            return torch.fft.irfft(x[x > 0])
        except RuntimeError as error:
            return str(error)

    agree(f, [(x,) for x in SAMPLES])
