"""Static models and steps under Lightning's Trainer: losses, logged values and weights are those of eager."""

from __future__ import annotations

import logging

import pytest
import torch
from torch.nn import functional as F

import dy2st
from tests.trainers.models import Experts, loader, made, programs, same_state

L = pytest.importorskip("lightning")
torchmetrics = pytest.importorskip("torchmetrics")
pytestmark = pytest.mark.filterwarnings("ignore")


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Experts()
        self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3)

    def training_step(self, batch):
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.log("loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch):
        x, y = batch
        scores = self.model(x)
        self.accuracy(scores, y)
        self.log("accuracy", self.accuracy, on_epoch=True)
        self.log("validation_loss", F.cross_entropy(scores, y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


class LogsAsPython(Classifier):
    """What the trainer keeps of logged values is no part of the program."""

    @dy2st.not_to_static
    def log(self, *args, **kwargs):
        super().log(*args, **kwargs)

    def training_step(self, batch):
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.log("loss", loss, on_epoch=True)
        if loss > 1.1:
            self.log("large_loss", loss)
        return loss


class ByHand(Classifier):
    """Goes through its optimizer itself."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch):
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        self.log("loss", loss)
        return loss


class Losses(L.Callback):
    def __init__(self):
        self.values = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.values.append(outputs["loss"].detach().clone())


def fit(module, folder, epochs=2, **settings):
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    losses = Losses()
    trainer = L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[losses],
        default_root_dir=folder,
        **settings,
    )
    torch.manual_seed(1)
    trainer.fit(module, loader(), loader(shuffle=False))
    trainer.save_checkpoint(folder / "last.ckpt")
    return losses.values, trainer.callback_metrics


def model(module):
    module.model = dy2st.to_static(module.model)
    return module.model.forward


def whole(module):
    return dy2st.to_static(module).model


def training_step(module):
    module.training_step = dy2st.to_static(module.training_step)
    return module.training_step


def validation_step(module):
    module.validation_step = dy2st.to_static(module.validation_step)
    return module.validation_step


CASES = [
    (Classifier, model, {"gradient_clip_val": 1.0}, 2),
    (Classifier, model, {"accumulate_grad_batches": 2}, 2),
    (Classifier, model, {"precision": "bf16-mixed"}, 2),
    (Classifier, validation_step, {}, None),
    (Classifier, training_step, {"gradient_clip_val": 1.0}, None),
    (LogsAsPython, training_step, {}, 1),
    (ByHand, model, {}, 2),
]


@pytest.mark.parametrize(
    ("kind", "make_static", "settings", "count"),
    CASES,
    ids=[f"{kind.__name__}-{what.__name__}-{i}" for i, (kind, what, *_) in enumerate(CASES)],
)
def test_training_is_that_of_eager(kind, make_static, settings, count, tmp_path):
    eager, static = made(kind), made(kind)
    function = make_static(static)
    expected, metrics = fit(eager, tmp_path, **settings)
    losses, static_metrics = fit(static, tmp_path, **settings)
    assert len(losses) == 16 and all(map(torch.equal, expected, losses))
    assert metrics.keys() == static_metrics.keys() and all(torch.equal(metrics[name], static_metrics[name]) for name in metrics)
    assert same_state(eager, static)
    assert programs(function) == count or count is None
    again = made(kind)
    again.load_state_dict(torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"])
    assert same_state(again, static)


def test_a_step_of_the_class(tmp_path):
    class Static(LogsAsPython):
        training_step = dy2st.to_static(LogsAsPython.training_step)

    eager, static = made(LogsAsPython), made(Static)
    assert all(map(torch.equal, fit(eager, tmp_path)[0], fit(static, tmp_path)[0]))
    assert same_state(eager, static) and programs(static.training_step) == 1
