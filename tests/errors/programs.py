"""Functions with a mistake, and the call that shows it."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dy2st import InputSpec, not_to_static, to_static

X = torch.tensor([1.0, 2.0, 3.0])


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A function with a mistake.

    Attributes:
        function: the function, or the class of a module.
        args: the arguments of the call that fails.
        before: those of calls that do not.
        spec: the ``input_spec``.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    before: Sequence[Any] = ()
    spec: Any = None

    def show(self) -> None:
        """Make the mistake."""
        made = self.function() if isinstance(self.function, type) else self.function
        static = to_static(made, input_spec=self.spec)
        for args in self.before:
            static(*args)
        static(*self.args)


MISTAKES: list[Mistake] = []


def mistake(*args, **options):
    def register(function):
        MISTAKES.append(Mistake(function, args, **options))
        return function

    return register


@mistake(X)
def yields(x):
    for row in x:
        yield row * 2


@mistake(X)
class BranchMismatch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.recent = torch.zeros(3)

    def forward(self, x):
        for k in range(9):
            if x.sum() > k:
                self.recent = x.reshape((1,) * k + (3,))
        return x * self.recent


@mistake(X)
class LoopVariable(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = {"k": torch.zeros(3)}

    def forward(self, x):
        while x.sum() > 0:
            self.cache["k"] = torch.stack([self.cache["k"], self.cache["k"]])
            x = x - 1
        return self.cache["k"]


@mistake(-X, before=[(X,)])
def undefined_name(x):
    if x.sum() > 0:
        y = x * 2
    return y + 1


@mistake(X)
def value_of_a_tensor(x):
    mean = x.mean()
    return x * "-".join(["a"] * int(mean)).split("-")[0]


@mistake(X)
def caught_outside(x):
    try:
        with torch.autocast("cpu"):
            if x.sum() > 0:
                raise ValueError("positive")
    except ValueError:
        x = -x
    return x


@mistake(X)
def error_at_capture(x):
    weight = torch.ones(4, 2)
    return x.vieww(3, 1) @ weight


@mistake(-X, before=[(X,)])
def check_of_the_program(x):
    if x.sum() < 0:
        raise ValueError(f"expected a positive sum of {tuple(x.shape)}, got {x.sum():.1f}")
    return x.log()


def fold(x, rows):
    return x.view(rows, -1)


@mistake(torch.tensor(2), before=[(torch.tensor(3),)])
def error_at_execution(n):
    x = torch.arange(9.0)
    return fold(x, n.item())


@mistake(-X, before=[(X,)])
def error_of_python(x):
    table = {"plus": 1.0}
    if x.sum() > 0:
        return x * table["plus"]
    return x * table["minus"]


@mistake(X, before=[(X, X)])
def missing_argument(x, y):
    return x + y


@mistake(torch.ones(2, 4), spec=[InputSpec([None, 3], "float32")])
def unlike_its_specification(features):
    return features * 2


@mistake(X)
def library_of_numbers(x):
    return x * zlib.crc32(x.detach().numpy())


@not_to_static
def peak_of_island(x):
    place = int(x.numpy().argmax())
    return place if place > 0 else None


@mistake(-X, before=[(X,), (X,)])
def island_of_another_kind(x):
    place = peak_of_island(x)
    return x if place is None else x + place
