"""Operations that give their operand itself where there is nothing to do: what autograd and Python say of it is the operand's."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dy2st import to_static

OPERATIONS = {
    "contiguous": lambda y: y.contiguous(),
    "resolve_conj": lambda y: y.conj().resolve_conj(),
    "resolve_neg": torch.resolve_neg,
    "dropout": lambda y: F.dropout(y, 0.5, False),
    "nothing dropped": lambda y: F.dropout(y, 0.0, True),
    "alpha_dropout": lambda y: F.alpha_dropout(y, 0.5, False),
    "float": lambda y: y.float(),
    "to": lambda y: y.to(torch.float32),
    "type_as": lambda y: y.type_as(y),
    "positive": lambda y: +y,
}
INPUTS = [(1.0, 2.0), (-1.0, -2.0), (0.0, 0.0)]


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_of_one_of_two(operation):
    def function(x):
        y = x
        if x.sum() < 0:
            y = y.clone().requires_grad_()
        z = operation(y)
        return z.requires_grad, z.is_leaf, z is y

    static = to_static(function)
    for values in INPUTS:
        x = torch.tensor(values)
        assert static(x) == function(x)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_results_of_a_parameter_have_the_traits_of_eager(operation):
    weight = nn.Parameter(torch.ones(2, 2))

    def function(transposed):
        with torch.no_grad():
            y = operation(weight.t() if transposed else weight)
        return y.requires_grad, y.is_leaf, isinstance(y, nn.Parameter), y is weight

    static = to_static(function)
    for transposed in (False, True):
        assert static(transposed) == function(transposed)


def test_how_the_memory_lies_decides():
    def function(x):
        y = x.contiguous()
        return y.is_leaf, y.requires_grad, y is x

    static = to_static(function)
    inputs = [torch.ones(3, 3, requires_grad=True), torch.ones(3, 3).t().requires_grad_(), torch.ones(3, 3)]
    for x in [*inputs, torch.arange(9.0).reshape(3, 3).t().requires_grad_(), *inputs]:
        assert static(x) == function(x)


@dataclasses.dataclass
class Search:
    x: torch.Tensor
    steps: list[Any] = dataclasses.field(default_factory=list)
    count: int = 0


def test_a_list_that_a_field_makes():
    def function(kept, x):
        found = Search(x)
        if found.x.sum() > 0:
            found = dataclasses.replace(found, x=found.x - 1, count=found.count + 1)
        else:
            found.steps.append(found.x)
        kept["found"] = found
        return found.steps is kept["found"].steps, len(found.steps), found.count

    static, ours, theirs = to_static(function), {}, {}
    for values in INPUTS:
        x = torch.tensor(values)
        assert static(ours, x) == function(theirs, x)


class Raises(nn.Module):
    def forward(self, x):
        self.late = nn.Parameter(x)
        if x[0] > 0:
            raise ValueError("positive")
        return self.late


def test_a_parameter_that_is_left_by_a_call_that_raises():
    module = Raises()
    to_static(module)
    x = torch.tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="positive"):
        module(x)
    assert type(module.late) is nn.Parameter
    assert list(module.state_dict()) == ["late"]
