"""Methods that are training steps: a loaded model goes on training, and its weights are eager's bit for bit."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dy2st
import dy2st_runtime
from dy2st import InputSpec
from dy2st_runtime.errors import SignatureError
from tests.runtime.trainers import Adding, Plain


class Trainer(nn.Module):
    def __init__(self, name, **options):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        self.optimizer = getattr(torch.optim, name)(self.net.parameters(), lr=0.05, **options)

    @dy2st.to_static
    def step(self, x, y):
        self.optimizer.zero_grad()
        out = self.net(x)
        if out.sum() > 0:
            out = out * 2
        loss = F.mse_loss(out, y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        return loss

    @dy2st.to_static
    def forward(self, x):
        return self.net(x)


METHODS = {"step": [InputSpec([None, 4]), InputSpec([None, 2])], "forward": [InputSpec([None, 4])]}


def trained(name, steps, **options):
    """A trainer after some steps, and the batches of more."""
    torch.manual_seed(0)
    trainer = Trainer(name, **options)
    batches = [(torch.randn(3, 4), torch.randn(3, 2)) for _ in range(steps + 6)]
    with dy2st.enable_to_static(False):
        for x, y in batches[:steps]:
            trainer.step(x, y)
    return trainer, batches[steps:]


@pytest.mark.parametrize(
    ("name", "steps", "options"),
    [
        ("SGD", 0, {}),
        ("SGD", 2, {"momentum": 0.9}),
        ("SGD", 0, {"momentum": 0.9, "nesterov": True}),
        ("AdamW", 2, {}),
        ("AdamW", 0, {"amsgrad": True}),
        ("Adagrad", 0, {}),
        ("RMSprop", 0, {"momentum": 0.5, "centered": True}),
        ("NAdam", 0, {}),
    ],
)
def test_a_loaded_model_goes_on_training(tmp_path, name, steps, options):
    trainer, batches = trained(name, steps, **options)
    eager = copy.deepcopy(trainer)
    dy2st.save(trainer, tmp_path / "step.dy2st", methods=METHODS)
    loaded = dy2st_runtime.load(tmp_path / "step.dy2st")
    for index, (x, y) in enumerate(batches):
        with dy2st.enable_to_static(False):
            expected = eager.step(x, y)
        assert torch.equal(loaded.step(x, y), expected)
        if index == 3:  # what it has learned by then is saved, too
            loaded.save(tmp_path / "again.dy2st")
            loaded = dy2st_runtime.load(tmp_path / "again.dy2st")
    for (name, mine), (other, theirs) in zip(loaded.named_parameters(), eager.named_parameters(), strict=True):
        assert name == other and torch.equal(mine, theirs) and torch.equal(mine.grad, theirs.grad)
    x = batches[0][0]
    with dy2st.enable_to_static(False):
        assert torch.equal(loaded(x), eager(x))


def test_saving_leaves_a_fresh_optimizer_as_it_was(tmp_path):
    trainer, _ = trained("AdamW", 0)
    dy2st.save(trainer, tmp_path / "one.dy2st", methods=METHODS)
    dy2st.save(trainer, tmp_path / "two.dy2st", methods=METHODS)
    assert not trainer.optimizer.state and all(p.grad is None for p in trainer.parameters())
    assert (tmp_path / "one.dy2st").read_bytes() == (tmp_path / "two.dy2st").read_bytes()


@pytest.mark.parametrize(("name", "options"), [("ASGD", {}), ("SGD", {"momentum": 0.9, "dampening": 0.1})])
def test_an_optimizer_whose_first_step_is_another_one_is_not_saved_before_it(tmp_path, name, options):
    trainer, _ = trained(name, 0, **options)
    with pytest.raises(dy2st.errors.SaveError, match=f"makes the state of {name}.*; step once before you save it"):
        dy2st.save(trainer, tmp_path / "step.dy2st", methods=METHODS)
    assert not list(tmp_path.iterdir())


class Forgetting(Adding):
    @dy2st.to_static
    def forget(self):
        self.optimizer.zero_grad()


def test_gradients_that_are_added_to_are_those_of_the_weights(tmp_path):
    """They were copies: the weights began without, and what a loaded step added up was lost."""
    torch.manual_seed(0)
    trainer = Forgetting(Plain, "SGD")
    batches = [(torch.randn(3, 4), torch.randn(3, 2)) for _ in range(6)]
    with dy2st.enable_to_static(False):
        trainer.step(*batches[0])
    methods = {"step": METHODS["step"], "forget": []}
    dy2st.save(trainer, tmp_path / "step.dy2st", methods=methods)
    loaded = dy2st_runtime.load(tmp_path / "step.dy2st")
    for index, (x, y) in enumerate(batches[1:]):
        with dy2st.enable_to_static(False):
            expected = trainer.step(x, y)
        assert torch.equal(loaded.step(x, y), expected)
        if index == 2:  # they are part of the file
            loaded.save(tmp_path / "again.dy2st")
            loaded = dy2st_runtime.load(tmp_path / "again.dy2st")
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(loaded.parameters(), trainer.parameters(), strict=True))
    loaded.forget()
    with pytest.raises(SignatureError, match=r"captured with a tensor as net\.0\.weight\.grad, which is None now"):
        loaded.step(*batches[0])
