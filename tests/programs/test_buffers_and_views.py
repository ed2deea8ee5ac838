"""Buffers, which are tensors that say so, and tensors of which only the program knows whether they are views."""

from __future__ import annotations

import pytest
import torch

import dy2st

GIVEN = torch.nn.Buffer(torch.ones(2), persistent=False)


def made(x):
    b = torch.nn.Buffer(x, persistent=False)
    return type(b), b.__class__, isinstance(b, torch.nn.Buffer), isinstance(b, torch.nn.Parameter), b._is_buffer, b.persistent


def from_outside(x):
    return type(GIVEN), isinstance(GIVEN, torch.nn.Buffer), GIVEN._is_buffer, GIVEN.persistent, (GIVEN + x).sum().item()


def from_both_ways(x):
    b = torch.nn.Buffer(x) if x[0] > 0 else torch.nn.Buffer(x + 1)
    return type(b), isinstance(b, torch.nn.Buffer)


def view_here(x):
    y = x[:1]
    return y._is_view(), y._base is x, (x + 1)._is_view(), (x + 1)._base


@pytest.mark.parametrize("program", [made, from_outside, from_both_ways, view_here])
def test_buffers_and_views_say_what_they_are_in_one_program(program):
    static = dy2st.to_static(program)
    for x in (torch.ones(2), -torch.ones(2)):
        assert static(x) == program(x)
    assert len(static.program_cache) == 1


def test_buffer_that_is_returned():
    buffer = dy2st.to_static(lambda x: torch.nn.Buffer(x, persistent=False))(torch.ones(2))
    assert type(buffer) is torch.Tensor and vars(buffer) == {"persistent": False, "_is_buffer": True}


def view_on_one_way(x):
    y = x[:1] if x[0] > 0 else x + 1
    return y._is_view()


def base_on_one_way(x):
    y = x[:1] if x[0] > 0 else x + 1
    return y._base is x


def view_after_a_loop(x):
    y = x
    for row in x:
        if row > 0:
            y = y[:1]
    return y._is_view()


@pytest.mark.parametrize("program", [view_on_one_way, base_on_one_way, view_after_a_loop])
def test_view_that_a_tensor_decides_is_refused(program):
    with pytest.raises(dy2st.CaptureError, match="whether this tensor is a view"):
        dy2st.to_static(program)(torch.ones(2))


class Thing:
    pass


def remainder(x):
    return x if id(Thing()) % 2 else x + 1


def written_out(x):
    return f"{id(Thing()):x}"


def told(x):
    return str(id(x + 1))


def compared(x):
    return id(Thing()) < id(Thing())


def scaled(x):
    return x * id(Thing())


def hashed(x):
    return hash(x + 1) % 7


@pytest.mark.parametrize("program", [remainder, written_out, told, compared, scaled, hashed])
def test_computing_with_an_id_is_refused(program):
    with pytest.raises(dy2st.CaptureError, match="id or hash"):
        dy2st.to_static(program)(torch.ones(2))


def test_ids_are_keys_that_tell_objects_apart():
    def f(x):
        one, other = Thing(), Thing()
        table = {id(one): 1, id(other): 2}
        return table[id(one)], id(one) == id(other), id(one) != id(other), len({id(x), id(one), id(one)})

    assert dy2st.to_static(f)(torch.ones(2)) == (1, False, True, 2)


def item_or_change(x, v, n):
    y = x
    if n == 0:
        for y in v.view(-1):
            break
    else:
        v += n
    return y * 2


def part_or_change(x, v, n):
    y = x
    if n == 0:
        y, *_ = v.split(1)
    else:
        v.mul_(x)
    y.sum().backward()
    return y.detach(), y.requires_grad


def changed_after_all_items(x, v, n):
    for _, z in zip(v.flip(0), v):
        pass
    if n > 0:
        z = z - x
        v.mul_(2)
    return z


@pytest.mark.parametrize("backend", ["native", "python"])
@pytest.mark.parametrize("function", [item_or_change, part_or_change, changed_after_all_items])
def test_parts_of_a_tensor_that_another_branch_changes(function, backend):
    """Autograd tells nothing of such parts, once what they are parts of has been changed in place."""
    static = dy2st.to_static(function, backend=backend)
    for n in (2, 0, 4, 0):
        results = []
        for call in (static, function):
            w, x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor(5.0, requires_grad=True)
            v = w * 1
            given = call(x, v, torch.tensor(n))
            given = given if isinstance(given, tuple) else (given,)
            if given[0].requires_grad:
                given[0].sum().backward()
            results.append([*given, v, w.grad, x.grad])
        for ours, theirs in zip(*results):
            assert torch.equal(ours, theirs) if isinstance(theirs, torch.Tensor) else ours == theirs
    assert len(static.program_cache) == 1
