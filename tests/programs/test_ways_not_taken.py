"""What a branch leaves for later, on the calls that take another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dy2st
from tests.worlds import World, agree


def text_of_one_way(x: Any) -> Any:
    value, count = x.item(), 0
    if value < 0:
        count = 1
    elif value > 10:
        return f"{value:.2f}", count
    return value, count


def texts_of_some_ways(x: Any) -> Any:
    value, found = x.item(), [None]
    if value > 10:
        found[0] = "%05.1f" % value
    elif value > 1:
        return f"{value!r:>9}|{int(value):03d}", found
    return value, found


class Fallback:
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class Answers:
    def __getattr__(self, name: str) -> Any:
        if name == "a":
            return 7
        raise AttributeError(name)


def asks_a_class_that_fails(x: Any) -> Any:
    one = Fallback()
    if x > 0:
        one.a = x
    return hasattr(one, "a"), getattr(one, "a", None) is None


def asks_a_class_that_answers(x: Any) -> Any:
    one = Answers()
    if x > 0:
        one.a = x
        one.b = 3
    return hasattr(one, "a"), getattr(one, "a", None), hasattr(one, "b"), getattr(one, "b", 4)


@pytest.mark.parametrize("function", [text_of_one_way, texts_of_some_ways, asks_a_class_that_fails, asks_a_class_that_answers])
def test_what_one_way_makes_does_not_disturb_the_others(function: Callable[[Any], Any]) -> None:
    agree(lambda: World(function, [], [lambda run, v=v: run(torch.tensor(v)) for v in (1.25, -1.0, 11.0, 2.0)]), programs=1)


def test_an_attribute_that_one_of_two_arguments_has_got() -> None:
    def function(x, y):
        y.tag = "y"
        z = x if x.sum() > 0 else y
        return hasattr(z, "tag")

    with pytest.raises(dy2st.CaptureError, match="one of several, of which some have attributes"):
        dy2st.to_static(function)(torch.tensor(1.0), torch.tensor(2.0))
