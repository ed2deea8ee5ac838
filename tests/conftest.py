"""Every test starts from the same random numbers and leaves PyTorch's settings as it found them."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def reproducible() -> Iterator[None]:
    dtype = torch.get_default_dtype()
    grad = torch.is_grad_enabled()
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(grad)
