"""What is refused, and with which words: each message names the line, what was seen there and what to write instead."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import statistics
import zlib

import torch

import dy2st
from dy2st import InputSpec, UnsupportedSyntaxError
from dy2st.errors import CaptureError, DataDependentError, LoopVariableError, SignatureError
from tests.programs.values import signs, vec
from tests.syntax.case import Chapter

CHAPTER = Chapter("Refused")


@CHAPTER.refused("`yield` in the static function", calls=signs(), error=UnsupportedSyntaxError, says="collect the values in a list")
def yields(x):
    for i in range(3):
        yield x * i


@CHAPTER.refused(
    "a `yield` in a `try` statement where a tensor decides",
    calls=signs(),
    error=DataDependentError,
    says="yield in any case, a value",
)
def yields_in_a_branch(x):
    def positive():
        try:
            if x.sum() > 0:
                yield x
        finally:
            print("done")

    return list(positive())


@CHAPTER.refused(
    "`return` in a `finally` that drops a `break`", calls=signs(), error=UnsupportedSyntaxError, says="move it after the try"
)
def returns_in_finally(x):
    for _ in range(3):
        try:
            x = x * 2
            break
        finally:
            if x.sum() > 0:
                return x
    return x + 1


@CHAPTER.refused("`async def`", calls=signs(), error=UnsupportedSyntaxError, says="make it a plain function")
async def asynchronous(x):
    return x


@CHAPTER.refused(
    "`locals()` that is kept, called again",
    calls=signs(),
    error=UnsupportedSyntaxError,
    says="may change the dict of the one before",
)
def keeps_locals(x):
    before = locals()
    y = x * 2
    return before, locals()["y"]


@CHAPTER.refused(
    "`eval` and `exec` of the local variables", calls=signs(), error=UnsupportedSyntaxError, says="eval() looks at local variables"
)
def evaluates(x):
    return eval("x * 2")


@contextlib.contextmanager
def swallowing():
    try:
        yield
    except ValueError:
        pass


@CHAPTER.refused(
    "a `contextlib.contextmanager` that swallows what a tensor decides", calls=signs(), error=CaptureError, says="an except clause"
)
def swallows(x):
    with swallowing():
        if x.sum() < 0:
            raise ValueError("negative")
    return x


@CHAPTER.refused(
    "an attribute that gets one more dimension at each iteration of a loop",
    calls=signs(),
    error=LoopVariableError,
    says="'self.state'",
)
class ChangesKind(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.state = vec(0, 0, 0)

    def forward(self, x):
        while self.state.sum() < x.sum():
            self.state = self.state[None] + 1
        return self.state


@CHAPTER.refused(
    "a variable that changes its number of dimensions in a loop", calls=signs(), error=LoopVariableError, says="before the loop"
)
def grows_dimensions(x):
    h = x
    while h.sum() > 0:
        h = h[None] - 1
    return h


@CHAPTER.refused(
    "an item that gets one more dimension at each iteration of a loop", calls=signs(), error=LoopVariableError, says="'d[\"b\"]'"
)
def item_of_another_kind(x):
    d = {"b": x}
    while d["b"].sum() > 0:
        d["b"] = d["b"][None] - 1
    return d["b"]


@CHAPTER.refused(
    "a container that is made where a tensor decides, and put in itself", calls=signs(), error=CaptureError, says="holds itself"
)
def holds_itself(x):
    table = {"x": x}
    while table["x"].sum() > 0:
        table = {"x": table["x"] - 1}
        table["table"] = table
    return table["x"]


@CHAPTER.refused("recursion whose depth a tensor decides", calls=signs(), error=CaptureError, says="as a while loop")
def recursive(x):
    if x.sum() > 0:
        return recursive(x - 1)
    return x


@CHAPTER.refused(
    "the number of a tensor asked by code without source",
    calls=signs(),
    error=DataDependentError,
    says="use a function of NumPy or torch",
)
def asks_for_a_number(x):
    return x * zlib.crc32(x.detach().numpy())


@CHAPTER.refused("a string of run-time values used as a string", calls=signs(), error=CaptureError, says="Text")
def takes_a_text_apart(x):
    return x * len(f"{x.sum()}".split("."))


@CHAPTER.refused(
    "a generator that the function makes, returned", calls=signs(), error=CaptureError, says="named tuples or dataclasses"
)
def returns_a_generator(x):
    return (x * k for k in range(3))


@CHAPTER.refused("a random number of Python's own generators", calls=signs(), error=CaptureError, says="torch's random functions")
def random_bytes(x):
    return x * random.randbytes(1)[0]


@CHAPTER.refused(
    "a loop over an endless iterator that a tensor leaves", calls=signs(), error=CaptureError, says="write a while loop"
)
def endless(x):
    for k in itertools.cycle([1.0, 2.0]):
        x = x - k
        if x.sum() < 0:
            break
    return x


@CHAPTER.refused(
    "`itertools.takewhile` of numbers, with a condition on tensors", calls=signs(), error=CaptureError, says="with an if statement"
)
def take_while(x):
    return list(itertools.takewhile(lambda n: x.sum() > n, [1, 2]))


@CHAPTER.refused("an input that is sparse", calls=[torch.eye(3).to_sparse()], error=CaptureError, says="to_dense")
def sparse(x):
    return x * 2


@CHAPTER.refused(
    "an argument that is not as specified",
    calls=[vec(1, 2)],
    spec=[InputSpec([3], "float64")],
    error=SignatureError,
    says="'x' is specified",
)
def specified(x):
    return x


@CHAPTER.refused("a missing argument", calls=[(vec(1, 2),)], error=SignatureError, says="missing a required argument: 'y'")
def two(x, y):
    return x + y


@dy2st.not_to_static(returns=float)
def median(x):
    return statistics.median(x.tolist())


@CHAPTER.refused(
    "a function marked `@not_to_static` in a `try` statement that may catch what it raises",
    calls=signs(),
    error=CaptureError,
    says="put the try statement into the function",
)
def caught_outside_of_an_island(x):
    try:
        return x - median(x)
    except statistics.StatisticsError:
        return x


@CHAPTER.refused(
    "A function of a number that the data makes fail in its own way, with an `except` clause for that",
    calls=[vec(2, 1)], error=CaptureError, says="math.gamma may fail",
)  # fmt: skip
def failing_function(x):
    try:
        return x * math.gamma(x.sum().item())
    except ValueError:
        return x
