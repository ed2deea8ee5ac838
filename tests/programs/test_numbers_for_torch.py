"""Numbers that only the program knows, where torch has to know them: windows, kernels, strides, exponents, numbers of steps."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dy2st
from tests.oracle import agree

X = torch.rand(12, generator=torch.Generator().manual_seed(0))
IMAGE = torch.rand(1, 4, 12, 12, generator=torch.Generator().manual_seed(2))
WEIGHT = torch.rand(3, 3, 3, generator=torch.Generator().manual_seed(3))
NUMBERS = [torch.tensor(number) for number in (2, 3, 1, 4)]

WITHOUT_TENSORS = {
    "hann_window": lambda n: torch.hann_window(n) * n,
    "hann_window_periodic": lambda n: torch.hann_window(n + 1, periodic=False, dtype=torch.float64),
    "kaiser_window": lambda n: torch.kaiser_window(n, periodic=False, beta=2.0),
    "linspace": lambda n: torch.linspace(0, 1, n) + torch.linspace(0, n, n),
    "linspace_ends": lambda n: torch.linspace(0, 1, steps=n + 1)[1:] - torch.arange(n),
    "logspace": lambda n: torch.logspace(0, 1, n),
    "tril_indices": lambda n: torch.tril_indices(n, n, -1),
    "triu_indices": lambda n: torch.triu_indices(5, 5, n),
    "fftfreq": lambda n: torch.fft.fftfreq(n),
    "leaf": lambda n: torch.linspace(0, 1, n, requires_grad=True).is_leaf,
}
WITH_TENSORS = {
    "rot90": lambda x, n: torch.rot90(x.view(3, 4), n),
    "diff": lambda x, n: torch.diff(x, n=n),
    "vander": lambda x, n: torch.vander(x.detach(), n),
    "histc": lambda x, n: torch.histc(x.detach(), n),
    "histogram": lambda x, n: torch.histogram(x.detach(), n).bin_edges,
    "unfold": lambda x, n: x.unfold(0, n, 1).sum(1),
    "unfold_step": lambda x, n: x.unfold(0, 2, n),
    "step": lambda x, n: x[::n] * 2,
    "step_and_bounds": lambda x, n: x[1 : 2 * n : n],
    "diagonal": lambda x, n: x.view(3, 4).diagonal(n - 2),
    "diag": lambda x, n: torch.diag(x, n),
    "polygamma": lambda x, n: torch.polygamma(n, x + 1),
    "quantile": lambda x, n: torch.quantile(x, n / 10),
    "norm": lambda x, n: torch.norm(x, p=n),
    "normalize": lambda x, n: F.normalize(x.view(3, 4), p=n),
    "cdist": lambda x, n: torch.cdist(x.view(3, 4), x.view(3, 4) + 1, p=n),
    "std": lambda x, n: x.std(0, correction=n),
    "rfft": lambda x, n: torch.fft.rfft(x, n=n).abs(),
    "huber": lambda x, n: F.huber_loss(x, x * 2, delta=n),
    "hardtanh": lambda x, n: F.hardtanh(x, 0, n / 4),
    "moved": lambda x, n: torch.rot90(x.view(3, 4), n) @ torch.linspace(0, 1, 3 if n % 2 else 4),
    "view_is_written": lambda x, n: (y := x.clone(), y.unfold(0, n, n).mul_(2), y)[-1],
    "step_is_written": lambda x, n: (y := x.clone(), y.__setitem__(slice(None, None, n), 5.0), y)[-1],
    "view_of_written": lambda x, n: (y := x.clone(), z := y[::n], y.add_(1), z + 0)[-1],
}
OF_IMAGES = {
    "avg_pool2d": lambda x, n: F.avg_pool2d(x, n),
    "max_pool2d": lambda x, n: F.max_pool2d(x, n, stride=1),
    "max_pool2d_pair": lambda x, n: F.max_pool2d(x, (n, 2), return_indices=True),
    "adaptive": lambda x, n: F.adaptive_avg_pool2d(x, n),
    "unfold": lambda x, n: F.unfold(x, n),
    "interpolate": lambda x, n: F.interpolate(x, scale_factor=n, mode="bilinear"),
    "local_response_norm": lambda x, n: F.local_response_norm(x, n),
    "group_norm": lambda x, n: F.group_norm(x, n),
    "pixel_shuffle": lambda x, n: F.pixel_shuffle(x, n),
    "pad_circular": lambda x, n: F.pad(x, (n, n, 1, n), mode="circular"),
    "stft": lambda x, n: torch.stft(x.flatten(), 4 * n, window=torch.hann_window(4 * n), return_complex=True).abs(),
    "conv_stride": lambda x, n: F.conv1d(x[0, :3].flatten(1), WEIGHT, stride=n),
    "conv_padding": lambda x, n: F.conv1d(x[0, :3].flatten(1), WEIGHT, padding=(n,), dilation=n),
    "conv_transpose": lambda x, n: F.conv_transpose1d(x[0, :3].flatten(1), WEIGHT, stride=n),
}


@pytest.mark.parametrize("program", WITHOUT_TENSORS.values(), ids=WITHOUT_TENSORS)
def test_what_is_made_by_a_number(program):
    agree(lambda n: program(n.item()), [*NUMBERS, torch.tensor(0), torch.tensor(-1)])


@pytest.mark.parametrize("program", WITH_TENSORS.values(), ids=WITH_TENSORS)
def test_a_number_beside_tensors(program):
    agree(lambda x, n: program(x, n.item()), [(X.clone().requires_grad_(), number) for number in NUMBERS])


@pytest.mark.parametrize("program", OF_IMAGES.values(), ids=OF_IMAGES)
def test_a_number_for_images(program):
    agree(lambda x, n: program(x, n.item()), [(IMAGE.clone().requires_grad_(), number) for number in NUMBERS])


@pytest.mark.parametrize("name", ["unfold", "step", "diff", "diagonal", "polygamma"])
def test_a_number_that_torch_refuses(name):
    program = WITH_TENSORS[name]
    agree(lambda x, n: program(x, n.item()), [(X, torch.tensor(number)) for number in (2, 0, -1, 13)])


def test_a_number_from_a_size():
    def program(x, n):
        part = x[: n.item()]
        return torch.linspace(0, 1, len(part)) * part, F.avg_pool1d(part[None], len(part))

    agree(program, [(X, number) for number in NUMBERS])


def test_a_number_in_a_branch_and_a_loop():
    def program(x, n):
        total = x.sum()
        for k in range(n.item()):
            total = total + torch.hann_window(k + 2).sum()
            if total > 8:
                total = total + x[:: k + 1].sum()
        return total

    agree(program, [(X, number) for number in NUMBERS])


COUNTS = {
    "hsplit": lambda x, n: torch.hsplit(x, n),
    "chunk_in_vmap": lambda x, n: torch.vmap(lambda row: row.chunk(n))(x),
}


@pytest.mark.parametrize("program", COUNTS.values(), ids=COUNTS)
def test_a_number_that_decides_how_many_results_there_are(program):
    with pytest.raises(dy2st.DataDependentError, match="how many results there are|exists only when the program runs"):
        dy2st.to_static(lambda x, n: program(x, n.item()))(X, torch.tensor(2))


@pytest.mark.parametrize(
    "program",
    [lambda x: F.unfold(x, 3), lambda x: F.unfold(x, 2, stride=2).sum(1), lambda x: F.local_response_norm(x, 2)],
    ids=["unfold", "unfold_stride", "local_response_norm"],
)
def test_sizes_that_torch_has_to_know(program):
    def of_part(x, n):
        k = n.item()
        return program(F.pad(x, (k, 1, k, 0), mode="reflect"))

    agree(of_part, [(IMAGE.clone().requires_grad_(), number) for number in NUMBERS])
