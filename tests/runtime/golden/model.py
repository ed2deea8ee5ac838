"""A model whose every number is exact in binary, so that its answers do not depend on the machine."""

import sys

import torch
from torch import nn

import dy2st


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        with torch.no_grad():
            self.layer.weight.copy_(torch.arange(16.0).reshape(4, 4) / 16 - 0.5)
            self.layer.bias.copy_(torch.tensor([0.5, -0.25, 0.125, 1.0]))
        self.again = self.layer
        self.register_buffer("scale", torch.full((4,), 1.5), persistent=False)
        self.calls = 0
        self.last = torch.zeros(4)
        self.recent = [torch.zeros(4), torch.zeros(4)]

    def forward(self, x, limit=8.0):
        y, trips, seen = self.layer(x), 0, [x]
        while y.abs().sum() < limit:
            y = y * self.scale + x
            if y.sum() > 0:
                y = y + trips
            else:
                y = self.again(y).abs()
            seen.append(y)
            trips += 1
        self.last = y.detach().mean(0)
        self.calls = self.calls + 1
        return {"y": y, "trips": trips}, torch.stack(seen)

    def fixed(self, x, times):
        """As many trips as asked for."""
        self.calls = self.calls + 1
        y = self.layer(x)
        for _ in range(int(times)):
            y = y * self.scale + x
        return y

    def remember(self, x, kept):
        """What the last two calls were given, and what is kept."""
        self.recent.append(x)
        self.recent.pop(0)
        return self.recent, kept

    def checked(self, x):
        """Raises for a negative sum, and has counted by then."""
        self.calls = self.calls + 1
        if x.sum() < 0:
            raise ValueError("negative")
        return x


def examples():
    x = torch.arange(12.0).reshape(3, 4) / 32
    return [x, -x, x * 64]


def made():
    model = Golden()
    fresh = Golden()
    for index, x in enumerate(examples()):
        found, stacked = fresh(x)
        model.register_buffer(f"x{index}", x)
        model.register_buffer(f"y{index}", found["y"].detach())
        model.register_buffer(f"trips{index}", torch.tensor(found["trips"]))
        model.register_buffer(f"stacked{index}", stacked.detach())
    model.register_buffer("last_in_the_end", fresh.last)
    model.register_buffer("fixed_twice", fresh.fixed(examples()[0], torch.tensor(2)).detach())
    return model


if __name__ == "__main__":
    row = dy2st.InputSpec([4])
    specs = {"forward": [dy2st.InputSpec([None, 4])], "fixed": [dy2st.InputSpec([None, 4]), dy2st.InputSpec([], "int64")]}
    specs["remember"] = [row, [row]]
    specs["checked"] = [row]
    dy2st.save(
        made(), sys.argv[1], methods=specs, example_inputs={"fixed": (examples()[0], torch.tensor(2))}, about={"task": "golden"}
    )
