"""Functions and models that go through every export target, and what they are called with."""

import torch

from dy2st import InputSpec


def two_ways(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y, x.sum()


def returns_its_input(x, y):
    if x.sum() > y.sum():
        return x
    return y


def one_side_only(x):
    y = x + 1
    if x.max() > 1:
        y = y / x.max()
    return y


def numbers(x, n):
    k = 0
    scale = 0.5
    while n > 0:
        n = n - 1
        k += 2
        if x.sum() > k:
            scale = scale * 1.5
    return x * scale + k, k / 3, k // 3, k**2, k % 3 == 1


def two_loops(x):
    total = torch.zeros(())
    for i in range(x.shape[0]):
        j = 0
        while j < i:
            total = total + x[i] * x[j]
            j += 1
    return total


def loop_in_branch(x):
    if x.sum() > 0:
        while x.max() > 0.1:
            x = x / 2
    return x


def branch_in_loop(x):
    steps = 0
    while x.abs().max() > 1:
        if x.sum() > 0:
            x = x / 2
        else:
            x = x / 3 + 0.1
        steps += 1
    return x, steps


def leaves_early(x):
    for i in range(5):
        if x.sum() > 10:
            return x, i
        x = x * 2
    return x, -1


def grows_each_iteration(x):
    out = x[:0]
    for i in range(x.shape[0]):
        out = torch.cat([out, x[i][None] * i])
    return out


def grows_sometimes(x):
    out = x[:1]
    for i in range(x.shape[0]):
        if x[i, 0] > 0:
            out = torch.cat([out, x[i][None] * 2])
    return out.sum(0), out


def grows_in_a_list(x):
    outs = []
    h = torch.zeros(x.shape[1])
    for t in range(x.shape[0]):
        h = torch.tanh(h + x[t])
        outs.append(h)
    return torch.stack(outs), outs[-1]


def sizes_differ(x):
    if x.sum() > 0:
        y = x[:2]
    else:
        y = x
    return y.sum(), y * 1


def in_place(x):
    y = x.clone()
    for i in range(3):
        if y[i] > 0:
            y[i] = y[i] * 2
    return y


def in_place_in_a_loop(x, n):
    y = torch.zeros(5)
    i = 0
    while i < n:
        y[i] += x[i]
        i += 1
    return y


def fixed_list(x):
    parts = [x, x * 2]
    for i in range(x.shape[0]):
        if x[i] > 0:
            parts[0] = parts[1] + 1
        else:
            parts[1] = parts[0] * 0.5
    return parts[0], parts


def nothing_at_first(x):
    h = None
    for i in range(4):
        if x[i].sum() > 0:
            h = x[i] if h is None else h + x[i]
    return x.sum() if h is None else h.sum()


def guarded(x):
    if x.numel() > 0 and x.isnan().any():
        raise ValueError("not a number")
    assert x.abs().max() < 1e6, "too large"
    return x * 2


def views_beside(x):
    first = x[0]
    if x.sum() > 0:
        y = first + x[-1]
        if first.sum() > 1:
            y = y * x.sum()
    else:
        y = x[0] - 1
    while y.sum() < first.sum():
        y = y + first.abs() + x.abs().sum() + 1
    return y


def keywords(x, scale, bias=None):
    if scale > 0:
        return {"y": x * scale + bias, "inner": [x, (bias, None)]}
    return {"y": x - bias, "inner": [x * 2, (bias, None)]}


def keyword_only(x, y, power=2, *, scale=0.5, flags=None):
    if x.sum() > y.sum():
        return x**power * scale
    return y


class Counter(torch.nn.Module):
    """Keeps a buffer, a tensor and a number from call to call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.linear = torch.nn.Linear(2, 2)
        self.h = torch.zeros(2)
        self.steps = 0

    def forward(self, x):
        if x.sum() > 0:
            self.count += 1
            self.h = self.h + self.linear(x)
        self.steps += 1
        return x + self.count + self.h, self.steps


class Normalized(torch.nn.Module):
    """Batch norm and dropout, which do nothing of their own in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        y = self.conv(x)
        if y.mean() > 0:
            y = self.drop(self.norm(y))
        return y.flatten(1)


def spec(*shape, dtype="float32", name=None):
    return InputSpec(list(shape), dtype, name)


FUNCTIONS = {
    "two_ways": (two_ways, [spec(None, 2)]),
    "returns_its_input": (returns_its_input, [spec(2), spec(2)]),
    "one_side_only": (one_side_only, [spec(3)]),
    "numbers": (numbers, [spec(3), spec(dtype="int64")]),
    "two_loops": (two_loops, [spec(None)]),
    "loop_in_branch": (loop_in_branch, [spec(3)]),
    "branch_in_loop": (branch_in_loop, [spec(3)]),
    "leaves_early": (leaves_early, [spec(2)]),
    "grows_each_iteration": (grows_each_iteration, [spec(None, 2)]),
    "grows_in_a_list": (grows_in_a_list, [spec(None, 3)]),
    "sizes_differ": (sizes_differ, [spec(4, 2)]),
    "in_place": (in_place, [spec(3)]),
    "in_place_in_a_loop": (in_place_in_a_loop, [spec(5), spec(dtype="int64")]),
    "fixed_list": (fixed_list, [spec(None)]),
    "nothing_at_first": (nothing_at_first, [spec(4, 2)]),
    "views_beside": (views_beside, [spec(3, 2)]),
    "guarded": (guarded, [spec(None)]),
    "keywords": (keywords, [spec(2), spec(), spec(2)]),
    "keyword_only": (keyword_only, [spec(None), spec(None)]),
    "Counter": (Counter, [spec(2)]),
    "Normalized": (Normalized, [spec(None, 1, 4, 4)]),
}
"""By name: a function, or a class of modules, and the specification of its arguments."""


def made(name):
    """A function or a new module, and its specification."""
    found, specification = FUNCTIONS[name]
    torch.manual_seed(0)
    return (found().eval() if isinstance(found, type) else found), specification
