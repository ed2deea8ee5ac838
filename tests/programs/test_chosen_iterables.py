"""What goes through the items of one of several lists, tuples or dicts, where one has more items than another."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import dy2st
from tests.worlds import World, agree, calls

UP, DOWN, ZERO = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0]), torch.zeros(2)


def tensors(x: Any) -> Any:
    return [x] if x.sum() > 0 else (x, x + 1)


def strings(x: Any) -> Any:
    return ["a"] if x.sum() > 0 else ["c", "b"]


def counted(*items: Any) -> Any:
    return len(items), items


def displays(x):
    return [*tensors(x)], (*tensors(x), 1), [1, *tensors(x), *strings(x)], [[*tensors(x)], *strings(x)], len([*tensors(x)])


def arguments(x):
    return counted(*tensors(x)), counted(1, *tensors(x)), max(*[1, 2] if x.sum() > 0 else [3, 4, 5])


def characters(x):
    chosen = "abc" if x.sum() > 0 else "de"
    return [*chosen], list(chosen), dict.fromkeys(chosen, x)


def keys_and_items(x):
    chosen = {"a": x} if x.sum() > 0 else {"b": x, "c": x}
    return [*chosen], list(chosen.items()), [*chosen.values()], sorted(chosen)


def from_keys(x):
    return dict.fromkeys(strings(x), x), collections.OrderedDict.fromkeys(strings(x))


def targets(x):
    first, *rest = tensors(x)
    return first, rest


def nested_targets(x):
    first, (second, *rest) = (x, tensors(x))
    return first, second, rest


def too_few(x):
    first, second = tensors(x)
    return first, second


def too_few_in_a_try(x):
    try:
        first, second = tensors(x)
    except ValueError as error:
        return str(error)
    return first, second


def no_iterable(x):
    chosen = None if x.sum() > 0 else (x, x)
    first, second = chosen
    return first, second


def no_iterable_in_a_display(x):
    return [*(None if x.sum() > 0 else (x, x))]


def generators(x):
    total = sum(value * 2 for value in tensors(x))
    return total, all(value.sum() > 0 for value in tensors(x)), any(value.sum() > 0 for value in tensors(x))


def a_late_generator(x):
    one, other = [x], [x, x + 1]
    chosen = one if x.sum() > 0 else other
    made = (value * 2 for value in chosen)
    one.append(x)
    other.append(x + 2)
    return list(made)


def slices(x):
    items = [x, x, x]
    items[1:] = tensors(x)
    return items


FUNCTIONS = [
    displays, arguments, characters, keys_and_items, from_keys, targets, nested_targets, too_few, too_few_in_a_try, no_iterable,
    no_iterable_in_a_display, generators, a_late_generator, slices,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_what_steps_through_a_choice(function):
    agree(lambda: World(function, (), calls(UP, DOWN, ZERO, UP)), programs=1)


def test_a_chosen_list_from_outside_is_read_and_changed():
    def make():
        one, other = [torch.ones(2)], [torch.zeros(2), torch.ones(2)]

        def function(x):
            chosen = one if x.sum() > 0 else other
            made = [*chosen, x]
            chosen[:1] = [x, x] if x.sum() > 0 else []
            return made, [*chosen]

        return World(function, (one, other), calls(UP, DOWN, UP, ZERO))

    agree(make)


class Logged:
    """A context manager."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def __enter__(self) -> Any:
        self.log.append("in")
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        self.log.append(str(kind))


class Counted:
    """Another one, which gives a number."""

    def __init__(self) -> None:
        self.times = 0

    def __enter__(self) -> int:
        self.times += 1
        return self.times

    def __exit__(self, *error: Any) -> bool:
        self.times += 10
        return False


def test_one_of_two_context_managers():
    def make():
        one, other = Logged(), Counted()

        def function(x):
            with one if x.sum() > 0 else other as entered:
                if x.sum() < 0:
                    raise ValueError("negative")
                x = x * 2
            return x, entered is one

        return World(function, (one, other), calls(UP, ZERO, DOWN, UP))

    agree(make)


def test_managers_of_libraries_are_refused():
    def function(x):
        with torch.no_grad() if x.sum() > 0 else torch.enable_grad():
            return x * 2

    with pytest.raises(dy2st.CaptureError, match="write the with statement in each of the branches"):
        dy2st.to_static(function)(UP)
