"""Methods and partial functions of what a static function makes: each call makes others, bound to what it has made."""

from __future__ import annotations

import functools
import types

import pytest
import torch
from torch import nn

import dy2st
from dy2st.errors import SaveError

INPUTS = (torch.ones(2), torch.full((2,), -2.0), torch.full((2,), 3.0))


class Scaled:
    def __init__(self, scale):
        self.scale = scale
        self.own = self.times
        self.twice = functools.partial(self.times, k=2)

    def times(self, x, k=1):
        return x * self.scale * k


class Metric(nn.Module):
    """Wraps its own methods, as those of torchmetrics do."""

    def __init__(self, start):
        super().__init__()
        self.total = start
        self.update = self._counted(self.update)
        self.calls = 0

    def update(self, x):
        self.total = self.total + x
        return self.total

    def _counted(self, function):
        @functools.wraps(function)
        def counted(*args):
            self.calls += 1
            return function(*args)

        return counted


def makes_object(x):
    return Scaled(x if x.sum() > 0 else -x)


def makes_method(x):
    return Scaled(x).times


def makes_method_and_object(x):
    scaled = Scaled(x)
    return scaled.own, scaled


def makes_partial(x):
    return functools.partial(torch.add, x, alpha=2)


def makes_method_of_tensor(x):
    return (x * 2).unflatten


def makes_method_of_made_function(x):
    return types.MethodType(lambda self, y: x + y + self.scale, Scaled(1))


def makes_module(x):
    metric = Metric(x * 2)
    first = metric.update(x)
    return metric, first


USES = {
    makes_object: lambda r: (r.own(3), r.twice(2), r.own.__self__ is r, r.twice.func.__self__ is r),
    makes_method: lambda r: (r(3), type(r)),
    makes_method_and_object: lambda r: (r[0](3), r[0].__self__ is r[1], r[1].own is r[0]),
    makes_partial: lambda r: (r(torch.ones(2)), r.keywords, type(r)),
    makes_method_of_tensor: lambda r: r(0, (1, 2)),
    makes_method_of_made_function: lambda r: r(3),
    makes_module: lambda r: (r[1], r[0].total, r[0].update(torch.ones(2)), r[0].total, r[0].calls, r[0].update.__name__),
}


@pytest.mark.parametrize("function", list(USES), ids=lambda function: function.__name__)
def test_methods_and_partial_functions_are_bound_to_what_the_call_has_made(function):
    static, use = dy2st.to_static(function), USES[function]
    for x in INPUTS:
        assert repr(use(static(x))) == repr(use(function(x)))
    assert len(static.program_cache) == 1
    assert static(INPUTS[0]) is not static(INPUTS[0])


def test_a_module_that_wraps_its_methods_is_written_outside():
    metrics = {}

    def step(x):
        if "loss" not in metrics:
            metrics["loss"] = Metric(torch.zeros(2))
        return metrics["loss"].update(x)

    static = dy2st.to_static(step)
    totals = [static(x) for x in INPUTS]
    assert [total[0].item() for total in totals] == [1, -1, 2]
    assert metrics["loss"].calls == 3 and metrics["loss"].total is totals[-1]
    assert len(static.program_cache) <= 3  # without the metric, with it, and with a count that differs


def test_a_method_of_what_is_made_is_not_saved(tmp_path):
    with pytest.raises(SaveError, match="a method of what is made inside"):
        dy2st.save(dy2st.to_static(makes_method), str(tmp_path / "f.dy2st"), input_spec=[dy2st.InputSpec([2])])


class CalledByProperty:
    def __init__(self, scale):
        self.scale = scale
        self.function = self.times

    def times(self, x):
        return x * self.scale if x.sum() > 0 else x - self.scale

    @property
    def __call__(self):
        return self.function


class CalledWithoutSelf:
    @staticmethod
    def __call__(x):
        return x * 2 if x.sum() > 0 else x - 2


class CalledWithClass:
    scale = 3

    @classmethod
    def __call__(cls, x):
        return x * cls.scale if x.sum() > 0 else x - cls.scale


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize(
    "kind", [lambda: CalledByProperty(2), CalledWithoutSelf, CalledWithClass], ids=["property", "static", "class"]
)
def test_what_is_called_by_a_descriptor(kind, made):
    outside = kind()

    def function(x):
        return (kind() if made else outside)(x)

    static = dy2st.to_static(function)
    for x in INPUTS:
        assert torch.equal(static(x), function(x))
    assert len(static.program_cache) == 1


def test_objects_called_by_a_property_are_guarded_by_what_is_read():
    class Holder:
        scaled = CalledByProperty(2)

    def function(x):
        return Holder.scaled(x)

    static = dy2st.to_static(function)
    for scale in (2, 2, 3):
        Holder.scaled = CalledByProperty(scale)
        assert torch.equal(static(INPUTS[0]), function(INPUTS[0]))
    assert len(static.program_cache) == 2
