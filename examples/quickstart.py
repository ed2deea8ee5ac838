"""Handwritten digits: an early exit and a refinement loop in plain Python, from training to deployment.

    python examples/quickstart.py

`DigitNet.forward` asks its own tensors what to do next. The same class is trained twice with the same
seed, eagerly and as a static program, and the losses are compared bit for bit. The static model is
saved, and a fresh Python process, which has neither this file nor the compiler, loads the archive and
predicts the held-out images again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional as F

import dy2st

ANY_BATCH = dy2st.InputSpec([None, 1, 8, 8], "float32", "images")

FRESH_PROCESS = """
import sys
import numpy as np, torch, dy2st_runtime

archive, inputs, outputs = sys.argv[1:]
model = dy2st_runtime.load(archive).eval()
with torch.no_grad():
    results = [model(images) for images in torch.from_numpy(np.load(inputs)).split(4)]
np.savez(outputs, logits=torch.cat([r[0] for r in results]), depths=[int(r[2]) for r in results])
unwanted = {"dy2st", "gast", "astor", "sklearn"} & set(sys.modules)
assert not unwanted, unwanted
"""


def least_confidence(logits: Tensor) -> Tensor:
    """Return the probability of the likeliest class, for the image where it is lowest."""
    return logits.softmax(dim=1).amax(dim=1).min()


class DigitNet(nn.Module):
    """A network that works only as long as a batch needs: a shallow head, a deep head, then corrections."""

    def __init__(self, sure: float = 0.9, max_steps: int = 6) -> None:
        super().__init__()
        self.sure = sure
        self.max_steps = max_steps
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.shallow_head = nn.Linear(16 * 4 * 4, 10)
        self.body = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.deep_head = nn.Linear(32 * 2 * 2, 10)
        self.memory = nn.GRUCell(10, 32 * 2 * 2)
        self.correction = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, int]:
        """Return the logits, the first guess at them, and how deep the batch went (0: it left early)."""
        features = self.stem(images)
        guess = self.shallow_head(features.flatten(1))
        if least_confidence(guess) > self.sure:
            return guess, guess, 0

        state = self.body(features).flatten(1)
        logits = guess + self.deep_head(state)
        depth = 1
        while depth <= self.max_steps and least_confidence(logits) < self.sure:
            state = self.memory(logits, state)
            logits = logits + self.correction(state)
            depth += 1
        return logits, guess, depth


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, held-out images and labels: 1,797 real images, part of scikit-learn."""
    data = load_digits()
    images = (data.images / 16).astype(np.float32)[:, None]
    parts = train_test_split(images, data.target, test_size=0.2, stratify=data.target, random_state=0)
    train_images, held_images, train_labels, held_labels = map(torch.from_numpy, parts)
    return train_images, train_labels, held_images, held_labels


def train(name: str, model: nn.Module, images: Tensor, labels: Tensor, epochs: int) -> tuple[list[float], float]:
    """Train for some epochs; return each step's loss and the seconds it took."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    order = torch.Generator().manual_seed(0)
    losses: list[float] = []
    start = time.perf_counter()
    model.train()
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(len(images), generator=order).split(64):
            logits, guess, _ = model(images[batch])
            loss = F.cross_entropy(logits, labels[batch]) + F.cross_entropy(guess, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"\r  {name}: epoch {epoch}/{epochs}, loss {losses[-1]:.6f}", end="", flush=True)
    print()
    return losses, time.perf_counter() - start


@torch.no_grad()
def predict(model: nn.Module, images: Tensor) -> tuple[Tensor, list[int]]:
    """Logits of all images, four at a time, and the depth each batch went to."""
    model.eval()
    results = [model(batch) for batch in images.split(4)]
    return torch.cat([logits for logits, _, _ in results]), [int(depth) for _, _, depth in results]


def predict_elsewhere(archive: Path, images: Tensor) -> tuple[Tensor, list[int]]:
    """Return `predict`, but in a fresh, isolated Python process that has the archive and `dy2st_runtime` alone."""
    inputs, outputs = archive.with_name("images.npy"), archive.with_name("logits.npz")
    np.save(inputs, images)
    command = [sys.executable, "-I", "-c", FRESH_PROCESS, str(archive), str(inputs), str(outputs)]
    subprocess.run(command, cwd=archive.parent, check=True)
    with np.load(outputs) as found:
        return torch.from_numpy(found["logits"]), found["depths"].tolist()


def show(title: str, text: object) -> None:
    print(f"\n--- {title} ---\n{text}")


def main(epochs: int = 15, verbose: bool = True) -> dict[str, object]:
    train_images, train_labels, held_images, held_labels = digits()

    torch.manual_seed(0)
    eager = DigitNet()
    torch.manual_seed(0)
    static = dy2st.to_static(DigitNet(), input_spec=[ANY_BATCH])

    start = time.perf_counter()
    program = static.forward.program(train_images[:64])
    capture_seconds = time.perf_counter() - start
    if verbose:
        show("forward, transformed", static.forward.code)
        show("its program", program)

    show("training", f"{len(train_images)} images, the same seed twice")
    eager_losses, eager_seconds = train("eager ", eager, train_images, train_labels, epochs)
    static_losses, static_seconds = train("static", static, train_images, train_labels, epochs)
    assert static_losses == eager_losses, "the two trainings must agree bit for bit"

    eager_logits, eager_depths = predict(eager, held_images)
    logits, depths = predict(static, held_images)
    assert torch.equal(logits, eager_logits) and depths == eager_depths

    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "digits.dy2st"
        dy2st.save(static, archive, input_spec=[ANY_BATCH])
        archive_bytes = archive.stat().st_size
        start = time.perf_counter()
        loaded_logits, loaded_depths = predict_elsewhere(archive, held_images)
        fresh_seconds = time.perf_counter() - start

    agreeing = int((loaded_logits.argmax(1) == logits.argmax(1)).sum())
    assert agreeing == len(held_images) and loaded_depths == depths
    trips = Counter(depth - 1 for depth in depths if depth > 0)
    result: dict[str, object] = {
        "eager_loss": eager_losses[-1],
        "static_loss": static_losses[-1],
        "identical_losses": sum(a == b for a, b in zip(eager_losses, static_losses, strict=True)),
        "steps": len(eager_losses),
        "accuracy": (logits.argmax(1) == held_labels).float().mean().item(),
        "batches": len(depths),
        "early_exits": depths.count(0),
        "trips": dict(sorted(trips.items())),
        "programs": len(static.forward.program_cache),
        "agreeing": agreeing,
        "held_out": len(held_images),
        "archive_bytes": archive_bytes,
        "seconds": {
            "capture": capture_seconds,
            "eager": eager_seconds,
            "static": static_seconds,
            "fresh": fresh_seconds,
        },
    }
    show("result", table(result))
    return result


def table(result: dict[str, object]) -> str:
    seconds, trips = result["seconds"], result["trips"]
    rows = {
        "loss of the last step, eager": f"{result['eager_loss']:.9f}",
        "loss of the last step, static": f"{result['static_loss']:.9f}",
        "identical losses": f"{result['identical_losses']}/{result['steps']} steps",
        "held-out accuracy": f"{result['accuracy']:.2%}",
        "batches that left early": f"{result['early_exits']}/{result['batches']}",
        "batches by refinement steps": ", ".join(f"{n} steps: {count}" for n, count in trips.items()),
        "programs (train and eval)": result["programs"],
        "predictions of the fresh process": f"{result['agreeing']}/{result['held_out']} agree",
        "archive": f"{result['archive_bytes'] / 1024:.0f} KiB",
        "capture of the first program": f"{seconds['capture']:.2f} s",
        "training, eager / static": f"{seconds['eager']:.1f} s / {seconds['static']:.1f} s",
        "fresh process, start to end": f"{seconds['fresh']:.1f} s",
    }
    return "\n".join(f"{name:<34}{value}" for name, value in rows.items())


if __name__ == "__main__":
    main()
