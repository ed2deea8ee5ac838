"""Static models under Hugging Face's Trainer: losses, norms of gradients, predictions and weights are those of eager."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dy2st
from tests.trainers.models import WithLoss, data, made, programs, same_state

pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")


def rows():
    return [{"x": x, "labels": y} for x, y in zip(*data())]


def sentences():
    ids = torch.randint(0, 50, (32, 7), generator=torch.Generator().manual_seed(3))
    return [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row} for row in ids]


def llama():
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    return transformers.LlamaForCausalLM(config)


class Logs(transformers.TrainerCallback):
    def __init__(self):
        self.values = []

    def on_log(self, args, state, control, logs=None, **others):
        self.values.append({name: logs[name] for name in ("loss", "grad_norm", "eval_loss") if name in logs})


def train(model, rows, folder, **settings):
    logs = Logs()
    arguments = transformers.TrainingArguments(
        str(folder),
        num_train_epochs=2,
        per_device_train_batch_size=8,
        use_cpu=True,
        report_to=[],
        logging_steps=1,
        save_strategy="epoch",
        eval_strategy="epoch",
        disable_tqdm=True,
        learning_rate=1e-2,
        **settings,
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:16], callbacks=[logs])
    trainer.remove_callback(transformers.trainer_callback.PrinterCallback)
    torch.manual_seed(1)
    trainer.train()
    predicted = trainer.predict(rows[:8]).predictions
    trainer.save_model(str(folder / "saved"))
    return logs.values, predicted


@pytest.mark.parametrize(
    ("make", "make_rows", "settings"),
    [
        (WithLoss, rows, {}),
        (WithLoss, rows, {"gradient_accumulation_steps": 2}),
        (WithLoss, rows, {"bf16": True}),
        (llama, sentences, {}),
    ],
    ids=["own", "accumulated", "bfloat16", "llama"],
)
def test_training_is_that_of_eager(make, make_rows, settings, tmp_path):
    eager, static = made(make), dy2st.to_static(made(make))
    forward = static.forward
    expected, expected_predictions = train(eager, make_rows(), tmp_path / "eager", **settings)
    logs, predictions = train(static, make_rows(), tmp_path / "static", **settings)
    assert len(logs) > 4 and logs == expected
    assert np.array_equal(predictions, expected_predictions)
    assert same_state(eager, static)
    assert programs(forward) <= 4  # training and evaluation, with and without a number of items


def test_a_run_goes_on_from_a_checkpoint(tmp_path):
    for static in (False, True):
        model = made(WithLoss)
        model = dy2st.to_static(model) if static else model
        train(model, rows(), tmp_path)
        arguments = transformers.TrainingArguments(
            str(tmp_path), num_train_epochs=3, per_device_train_batch_size=8, use_cpu=True, report_to=[], disable_tqdm=True
        )
        again = made(WithLoss)
        again = dy2st.to_static(again) if static else again
        trainer = transformers.Trainer(again, arguments, train_dataset=rows())
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-16"))
        result = again if static else None
        expected = again if not static else expected
    assert same_state(expected, result)
