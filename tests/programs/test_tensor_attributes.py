"""Attributes that the user's code puts on tensors: on arguments, on others from outside, on those that the program makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dy2st import to_static
from dy2st.errors import CaptureError
from tests.worlds import World, agree

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[tuple[Any, tuple[Any, ...]]] = []


def case(*others: Any) -> Any:
    """A function of a tensor, and of others."""

    def keep(function: Any) -> Any:
        CASES.append((function, others))
        return function

    return keep


def shown(*values: Any) -> Any:
    """What stands on tensors."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return [list(vars(tensor).items()) for tensor in tensors]


@case()
def number(x):
    x.tag = 1
    return x * 2


@case()
def number_in_a_branch(x):
    if x.sum() > 0:
        x.tag = 1
    return x * 2


@case()
def tensor(x):
    x.tag = x * 2
    return x.tag + 1


@case()
def asked_for(x):
    return getattr(x, "tag", 0), hasattr(x, "tag")


@case()
def taken_off(x):
    if hasattr(x, "tag"):
        del x.tag
    return x


@case()
def on_one_that_is_made(x):
    y = x * 2
    y.tag = 3
    return y.tag


@case()
def returned_with_one(x):
    y = x * 2
    y.tag = 3
    return y


@case()
def in_a_branch_on_one_that_is_made(x):
    y = x * 2
    if x.sum() > 0:
        y.tag = 3
    return getattr(y, "tag", 0)


@case(*[torch.ones(2)])
def on_another_argument(x, w):
    if x.sum() > 0:
        w.tag = 1
    return x + w


@case()
def as_a_dict(x):
    return vars(x), x.__dict__.get("tag"), "tag" in vars(x)


@case()
def by_setattr(x):
    setattr(x, "tag", 7)
    return x.tag


@case()
def by_the_dict(x):
    x.__dict__["tag"] = 7
    return x.tag


@case()
def in_a_loop(x):
    for i in range(3):
        if x.sum() > i:
            x.n = i
    return getattr(x, "n", None)


@case()
def class_as_text(x):
    x.grad_fn_name = str(type(x))
    x.requires_grad = False
    return x


@case()
def dict_that_a_branch_fills(x):
    x.meta = {}
    x.meta["a"] = 1
    if x.sum() > 0:
        x.meta["b"] = x
    return x.meta


@case()
def returned_with_several(x):
    y = x * 2
    y.tag = 3
    y.name2 = "q"
    return y, [y]


@case()
def on_items_of_a_list(x):
    l = [x, x * 2]
    l[1].tag = 4
    return [getattr(t, "tag", 0) for t in l]


@case()
def itself(x):
    x.owner = x
    return x.owner is x


@case()
def message_of_what_is_missing(x):
    try:
        return x.nothing
    except AttributeError as e:
        return str(e)


@case()
def missing(x):
    y = x * 2
    return y.nothing


@case()
def missing_in_a_branch(x):
    if x.sum() > 0:
        return x.nothing
    return x


@case(*[torch.nn.Parameter(torch.ones(2))])
def on_a_parameter(x, w):
    if x.sum() > 0:
        w.tag = getattr(w, "tag", 0) + 1
    return (x * w).detach()


@case()
def on_one_changed_in_place(x):
    y = x
    y += 1
    y.tag = 4
    return x.tag


@case()
def deleted(x):
    del x.tag
    return x


@case()
def function(x):
    x.tag = lambda: 1
    return x.tag()


@pytest.mark.parametrize(("function", "others"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_attributes_put_on_tensors_are_those_of_eager(function: Any, others: Any) -> None:
    def make() -> World:
        given = [other.detach().clone() if type(other) is torch.Tensor else torch.nn.Parameter(other.detach()) for other in others]

        def step(x: torch.Tensor, **attributes: Any) -> Any:
            def call(function: Any) -> Any:
                y = x.clone()
                vars(y).update(attributes)
                found = function(y, *given)
                return found, shown(*(found if isinstance(found, (list, tuple)) else [found]), y, *given)

            return call

        return World(function, given, [step(N), step(P), step(N), step(P, tag=5, other="a"), step(N, tag=5, other="a")])

    agree(make, programs=3)


REFUSED: list[Any] = []


def refused(function: Any) -> Any:
    REFUSED.append(function)
    return function


@refused
def asked_of_one_of_two(x):
    y = x * 2
    if x.sum() > 0:
        z = x
    else:
        z = y
    return getattr(z, "tag", 0)


@refused
def returned_of_one_of_two(x):
    y = x * 2
    y.tag = 3
    z = y if x.sum() > 0 else x
    return z


@refused
def asked_in_a_loop(x):
    y = x * 2
    for i in range(2):
        y.n = getattr(y, "n", 0) + 1
        if x.sum() > 0:
            y = y + 1
    return getattr(y, "n", -1)


@refused
def asked_of_what_a_loop_carries(x):
    n = 0
    while x.sum() > -4:
        n = n + getattr(x, "tag", 0)
        x = x - 1
    return n


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_attributes_of_one_of_several_tensors(function: Any) -> None:
    x = P.clone()
    x.tag = 5
    with pytest.raises(CaptureError, match="a tensor that is one of several, of which some have attributes"):
        to_static(function)(x)


KEPT = torch.ones(2)


def test_attributes_of_a_global_tensor() -> None:
    def f(x):
        if x.sum() > 0:
            KEPT.times = getattr(KEPT, "times", 0) + 1
        return x * KEPT

    static = to_static(f)
    found = []
    for x in (N, P, N, P):
        static(x)
        found.append(getattr(KEPT, "times", None))
    assert found == [None, 1, 1, 2]
