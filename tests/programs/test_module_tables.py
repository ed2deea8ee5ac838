"""The dict in which a module keeps an attribute, where what it is does not tell: ``None``, or a plain tensor."""

from __future__ import annotations

import pytest
import torch

import dy2st


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.x, self.p = torch.nn.Linear(1, 1), None, torch.nn.Parameter(torch.ones(1))
        self.register_buffer("u", torch.ones(1))


def module_and_none_again(o, x):
    o.x = o.a
    o.x = None
    return x + 1


def parameter_and_none_again(o, x):
    o.x = torch.nn.Parameter(x)
    o.x = None
    return x + 1


def deleted_and_none(o, x):
    del o.a
    o.a = None
    del o.p
    o.p = None
    return x + 1


def deleted_buffer_and_tensor(o, x):
    del o.u
    o.u = x
    return o.u + 1


def tensor_and_registered_buffer(o, x):
    del o.x
    o.register_buffer("x", x)
    return x + 1


def in_each_iteration_of_three(o, x):
    for _ in range(3):
        o.x = o.a
        o.x = None
    return x + 1


def on_both_ways(o, x):
    if x.sum() > 0:
        o.x = o.a
        o.x = None
    else:
        o.x = torch.nn.Linear(1, 1) if x.shape[0] > 5 else o.a
        o.x = None
    return x


def _tables(o: torch.nn.Module) -> list[list[str]]:
    return [list(vars(o)), list(o._parameters), list(o._buffers), list(o._modules)]


PROGRAMS = [
    module_and_none_again, parameter_and_none_again, deleted_and_none, deleted_buffer_and_tensor, tensor_and_registered_buffer,
    in_each_iteration_of_three, on_both_ways,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_table_of_what_does_not_tell(program):
    static = dy2st.to_static(program)
    for x in (torch.ones(1), -torch.ones(1)):
        mine, other = Model(), Model()
        assert torch.equal(static(mine, x), program(other, x))
        assert _tables(mine) == _tables(other)
    assert len(static.program_cache) == 1


def on_one_way(o, x):
    if x.sum() > 0:
        o.x = o.a
        o.x = None
    return x


def assigned_after_the_branch(o, x):
    if x.sum() > 0:
        o.x = o.a
    o.x = None
    return x


def in_some_iterations(o, x):
    for row in x:
        if row > 0:
            o.x = o.a
        else:
            o.x = None
    return x


def in_a_loop(o, x):
    while x.sum() < 5:
        o.x = o.a
        o.x = None
        x = x + 1
    return x


def deleted_on_one_way(o, x):
    if x.sum() > 0:
        del o.p
        o.p = None
    return x


@pytest.mark.parametrize("program", [on_one_way, assigned_after_the_branch, in_some_iterations, in_a_loop, deleted_on_one_way])
def test_table_that_a_tensor_decides_is_refused(program):
    o = Model()
    before = _tables(o)
    with pytest.raises(dy2st.CaptureError, match="a tensor decides wh"):
        dy2st.to_static(program)(o, torch.ones(2))
    assert _tables(o) == before


class _Optional(torch.nn.Module):
    """Registers what one way gives, and keeps the ``None`` of the other as an attribute like any other."""

    def __init__(self, how):
        super().__init__()
        self.how, self.lin = how, torch.nn.Linear(2, 2)

    def forward(self, x):
        if self.how == "expression":
            self.u = torch.nn.Parameter(x * 1) if x.sum() > 0 else None
        elif self.how == "module":
            self.u = self.lin if x.sum() > 0 else None
        elif x.sum() > 0:
            self.u = torch.nn.Parameter(x * 1)
        else:
            self.u = None
        return x


@pytest.mark.parametrize("how", ["expression", "module", "statement"])
def test_an_attribute_that_only_one_way_registers_is_refused(how):
    with pytest.raises(dy2st.CaptureError, match="where a module keeps its attribute 'u'"):
        dy2st.to_static(_Optional(how))(torch.ones(2))
