"""Functions that a decorator writes as text and compiles, as those that check types do: their source is in no file."""

from __future__ import annotations

import functools

import torch
from torch import nn

import dy2st
import dy2st_runtime
from tests.oracle import agree
from tests.programs.values import signs, vec

_TEXT = """
def wrapper(*args, __wrapped=wrapped, __violation=violation, **kwargs):
    if len(args) > 0 and not isinstance(args[-1], (kinds)):
        raise __violation(args[-1])
    result = __wrapped(*args, **kwargs)
    if not isinstance(result, kinds):
        raise __violation(result)
    return result
"""


def checked(*kinds):
    def decorate(function):
        names = {"wrapped": function, "violation": violation, "kinds": kinds}
        exec(compile(_TEXT, f"<@checked {id(function)}>", "exec"), names)
        return functools.wraps(function)(names["wrapper"])

    return decorate


def violation(value):
    return TypeError(f"a {type(value).__name__}")


@checked(torch.Tensor)
def choose(x, k=2):
    return x * k if x.sum() > 0 else x - k


@checked(int, torch.Tensor)
def halvings(x):
    n = 0
    while x.abs().sum() > 1:
        x, n = x / 2, n + 1
    return n


def test_calls_of_them_are_converted():
    agree(lambda x: choose(x) + choose(x, k=3), signs(grad=True))


def test_numbers_of_the_program_are_numbers_there():
    agree(lambda x: choose(x) * halvings(x), signs(grad=True))


def test_what_they_refuse_is_refused():
    agree(lambda x: choose("text") if x.shape[0] > 100 else choose(x), signs())

    def refused(x):
        try:
            return choose((x, x))
        except TypeError as error:
            return str(error)

    agree(refused, signs())


def test_they_are_static_functions():
    static = dy2st.to_static(choose)
    agree(choose, signs(grad=True), static=static)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.count = 0

    @checked(torch.Tensor)
    def forward(self, x, scale=0.5):
        self.count += 1
        y = self.linear(x)
        return y * scale if y.sum() > 0 else -y


def test_they_are_methods_of_modules_and_are_saved(tmp_path):
    torch.manual_seed(0)
    agree(Layer(), [vec(1, 2, 3), vec(-1, -2, -3)], programs=None)
    layer = Layer()
    dy2st.save(layer, tmp_path / "layer.dy2st", input_spec=[dy2st.InputSpec([3], "float32")])
    loaded = dy2st_runtime.load(tmp_path / "layer.dy2st")
    for x in (vec(1, 2, 3), vec(-1, -2, -3)):
        torch.testing.assert_close(loaded(x.float()), layer(x.float()), rtol=0, atol=0)


def test_a_decorated_forward_is_saved(tmp_path):
    def passing_on(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    class Decorated(nn.Module):
        @passing_on
        def forward(self, x, scale=2.0):
            return x * scale if x.sum() > 0 else x

    dy2st.save(Decorated(), tmp_path / "decorated.dy2st", input_spec=[dy2st.InputSpec([3], "float32")])
    loaded = dy2st_runtime.load(tmp_path / "decorated.dy2st")
    assert loaded(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert loaded(-torch.ones(3)).tolist() == [-1.0, -1.0, -1.0]
