"""Models that the tests of the command line name by their module."""

import torch
from torch import nn

import dy2st


class Net(nn.Module):
    """A loop with a branch in it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, limit=10.0):
        trips = 0
        for step in range(2):
            x = x + step
        while x.sum() < limit:
            if x[0, 0] > 0:
                x = self.layer(x).abs() * 2 + 1
            else:
                x = x + 1
            trips += 1
        return {"x": x, "trips": trips}

    def double(self, pair, *, twice):
        a, b = pair["a"], pair["b"][0]
        return (a * 2, [b, twice])


@dy2st.to_static(input_spec=[dy2st.InputSpec([None], "float32"), dy2st.InputSpec([], "float32")])
def halve(x, limit):
    """Says "<b>&amp;</b>"."""
    while x.abs().max() > limit:
        x = x / 2
    return x


def fails(x):
    return x.numpy()


def nothing():
    return torch.ones(2)


class NeedsArguments(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        return x * self.width


net = Net()
not_a_function = 3
