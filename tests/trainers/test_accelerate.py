"""Static models and functions with accelerate: losses and weights are those of eager, and models come out as they went in."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import dy2st
from tests.trainers.models import Experts, data, loader, made, programs, same_state

accelerate = pytest.importorskip("accelerate")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def a_state_of_its_own():
    """What accelerate keeps for the process, such as the precision, ends with a test."""
    yield
    accelerate.state.AcceleratorState._reset_state(True)


def train(model, make_step=lambda step: step, precision="no", folder=None):
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2, mixed_precision=precision)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4)
    model, optimizer, batches, scheduler = accelerator.prepare(model, optimizer, loader(), scheduler)
    step = make_step(lambda x, y: F.cross_entropy(model(x), y))
    torch.manual_seed(1)
    losses = []
    for _ in range(2):
        for x, y in batches:
            with accelerator.accumulate(model):
                loss = step(x, y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
    if folder is not None:
        accelerator.save_state(str(folder))
        with torch.no_grad():
            next(model.parameters()).zero_()
        accelerator.load_state(str(folder))
    return losses, model, accelerator


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_training_is_that_of_eager(precision, tmp_path):
    expected, eager, _ = train(made(Experts), precision=precision, folder=tmp_path / "eager")
    model = dy2st.to_static(made(Experts))
    forward = model.forward
    losses, static, _ = train(model, precision=precision, folder=tmp_path / "static")
    assert len(losses) == 16 and all(map(torch.equal, expected, losses))
    assert same_state(eager, static)
    assert programs(forward) == 1


def test_a_static_function_with_a_prepared_model():
    expected, eager, _ = train(made(Experts))
    losses, model, _ = train(made(Experts), dy2st.to_static)
    assert all(map(torch.equal, expected, losses)) and same_state(eager, model)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_an_unwrapped_model_is_the_static_one(precision, keep):
    model = dy2st.to_static(made(Experts))
    forward = model.forward
    _, prepared, accelerator = train(model, precision=precision)
    unwrapped = accelerator.unwrap_model(prepared, keep_fp32_wrapper=keep)
    assert unwrapped is model
    unwrapped.eval()
    before, x = programs(forward), data()[0]
    result = unwrapped(x)
    assert programs(forward) == before + 1  # it runs as a program
    with dy2st.enable_to_static(False):
        assert torch.equal(unwrapped(x), result)
