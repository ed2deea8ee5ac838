"""Whole training steps on an accelerator: optimizers, automatic mixed precision, and a scaler that skips a step."""

import contextlib
import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dy2st

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

OPTIMIZERS = {
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "AdamW": lambda weights: torch.optim.AdamW(weights, lr=1e-2),
    "AdamW fused": lambda weights: torch.optim.AdamW(weights, lr=1e-2, fused=True),
    "Adam capturable": lambda weights: torch.optim.Adam(weights, lr=1e-2, capturable=True),
    "RMSprop foreach": lambda weights: torch.optim.RMSprop(weights, lr=1e-3, foreach=True),
    "NAdam": lambda weights: torch.optim.NAdam(weights, lr=1e-3),
}
STEPS, OVERFLOW = 12, 5


class EarlyExit(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.heads = nn.ModuleList(nn.Linear(32, 10) for _ in range(4))
        self.register_buffer("used", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        for layer, head in zip(self.layers, self.heads):
            x = torch.relu(layer(x))
            logits = head(x)
            self.used += 1
            if logits.softmax(-1).max() > 0.22:
                break
        return logits


def step(model, optimizer, scaler, x, y, dtype):
    optimizer.zero_grad(set_to_none=True)
    with contextlib.nullcontext() if dtype is None else torch.autocast("cuda", dtype=dtype):
        loss = F.cross_entropy(model(x), y)
    if scaler is None:
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return loss


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
def test_steps_are_eagers(backend, name, dtype):
    torch.manual_seed(0)
    start = EarlyExit().cuda()
    images, labels = torch.randn(STEPS, 8, 32, device="cuda"), torch.randint(0, 10, (STEPS, 8), device="cuda")
    if dtype is torch.float16:
        images[OVERFLOW] = torch.inf
    static = dy2st.to_static(step, backend=backend)
    outcomes = []
    for function in (step, static):
        model = copy.deepcopy(start)
        optimizer = OPTIMIZERS[name](model.parameters())
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0**14) if dtype is torch.float16 else None
        losses = [function(model, optimizer, scaler, x, y, dtype).detach() for x, y in zip(images, labels)]
        scale = None if scaler is None else scaler.get_scale()
        assert scale in (None, 2.0**13)
        outcomes.append((torch.stack(losses).nan_to_num(), [weight.detach() for weight in model.parameters()], model.used))
    torch.testing.assert_close(*outcomes, rtol=0, atol=0)
    assert len(static.program_cache) == 2, "one for the first step, which makes the state, and one for the others"
