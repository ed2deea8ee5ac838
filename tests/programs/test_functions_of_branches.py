"""Functions, methods and objects with functions that a branch makes of its own tensors, used after it: as in eager, one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dy2st

INPUTS = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([-1.0, 2.0, 3.0])]


def base(a: Any) -> Any:
    return a


def adding(y: Any) -> Callable[[Any], Any]:
    return lambda a: a + y


def tripled(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: inner(a) * 3


def summed(*functions: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: sum(function(a) for function in functions)


class Shift:
    def __init__(self, by: Any) -> None:
        self.by = by

    def apply(self, a: Any) -> Any:
        return a - self.by


def of_a_factory(x: Any) -> Any:
    function = base
    if x.sum() > 0:
        function = adding(x * 2)
    return function(x)


def of_functions(x: Any) -> Any:
    function = base
    if x.sum() > 0:
        function = summed(tripled(adding(x * 2)), base)
    return function(x)


def a_method(x: Any) -> Any:
    function = base
    if x.sum() > 0:
        function = tripled(Shift(x * 2).apply)
    return function(x)


def on_both_ways(x: Any) -> Any:
    function = adding(x * 2) if x.sum() > 0 else adding(x * 3)
    return function(x), function(x + 1)


def of_a_nested_branch(x: Any) -> Any:
    function = base
    if x.sum() > 0:
        y = x * 2
        if x[0] > 0:
            function = adding(y * 5)
        x = x + 1
    return function(x)


def in_a_loop(x: Any) -> Any:
    function = base
    for i in range(3):
        if x[i] > 0:
            function = tripled(adding(x[i]))
    return function(x)


def in_a_list(x: Any) -> Any:
    functions = [base]
    if x.sum() > 0:
        functions = [adding(x * 2)]
    return functions[0](x)


def that_changes_what_it_holds(x: Any) -> Any:
    function = base
    if x.sum() > 0:
        function = counting(x * 2)
    function(x)
    return function(x)


def counting(y: Any) -> Callable[[Any], Any]:
    def count(a: Any) -> Any:
        nonlocal y
        y = y + 1
        return a + y

    return count


def of_an_optional_value(x: Any) -> Any:
    found = None if x.min() > 0 else x * 2
    function = base
    if found is not None:
        function = adding(found)
    return function(x)


def under_vmap(x: Any) -> Any:
    function = base
    if x.sum() > 0:
        y = x * 2
        function = lambda i: y[i.long().clamp(0, 2)]  # noqa: E731
    return torch.vmap(function)(x)


def under_grad(x: Any) -> Any:
    function = torch.sin
    if x.sum() > 0:
        function = adding(x[0] * 2)
    return torch.func.grad(lambda v: function(v) * v)(x[1])


def in_a_call_with_an_optional_argument(x: Any) -> Any:
    def call(y: Any, shift: Any = 0) -> Any:
        y = y + shift
        function = base
        if y[0] > 0:
            function = tripled(adding(y.expand(2, 3)))
        else:
            function = adding(y * 2)
        return function(y)

    given = {"y": x}
    if x[1] > 0:
        given["shift"] = x.sum()
    return call(**given)


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize(
    "function",
    [
        of_a_factory, of_functions, a_method, on_both_ways, of_a_nested_branch, in_a_loop, in_a_list, that_changes_what_it_holds,
        of_an_optional_value, under_vmap, under_grad, in_a_call_with_an_optional_argument,
    ],
)  # fmt: skip
def test_a_function_that_a_branch_makes_is_called_after_it(function: Any, backend: str) -> None:
    static = dy2st.to_static(function, backend=backend)
    for x in (*INPUTS, *INPUTS):
        torch.testing.assert_close(static(x), function(x), rtol=0, atol=0)
    assert len(static.program_cache) == 1


def test_gradients_flow_through_what_such_a_function_holds() -> None:
    static = dy2st.to_static(of_functions)
    for x in INPUTS:
        gradients = []
        for function in (of_functions, static):
            leaf = x.clone().requires_grad_()
            function(leaf).square().sum().backward()
            gradients.append(leaf.grad)
        assert torch.equal(*gradients)


class Items:
    def __init__(self, y: Any) -> None:
        self.items = [y]
        self.total = self.of_all

    def add(self, y: Any) -> None:
        self.items.append(y)

    def of_all(self, a: Any) -> Any:
        return a + sum(self.items)


def whose_object_is_changed_after(x: Any) -> Any:
    shift, function = Shift(x), base
    if x.sum() > 0:
        shift = Shift(x * 2)
        function = shift.apply
    shift.by = shift.by + 1
    return function(x)


def that_an_object_keeps_of_itself(x: Any) -> Any:
    items = Items(x)
    if x.sum() > 0:
        items = Items(x * 2)
    items.add(x * 5)
    return items.total(x), len(items.items)


def of_one_object_under_three_names(x: Any) -> Any:
    shift = Shift(x)
    function = shift.apply
    if x.sum() > 0:
        p = Shift(x * 2)
        q = r = p
        function = p.apply
    else:
        p, q = shift, Shift(x * 3)
        r = q
    r.by = r.by + 100
    return function(x), p.by, q.by, r is p, r is q, function.__self__ is p


def that_share_a_dict(x: Any) -> Any:
    get, put = base, base
    if x.sum() > 0:
        state = {"n": x * 2}

        def get(a: Any) -> Any:
            return a + state["n"]

        def put(y: Any) -> None:
            state["n"] = y

    put(x * 7)
    return get(x)


def that_a_loop_replaces(x: Any) -> Any:
    items = Items(x)
    functions = [items.add, items.of_all]
    for i in range(3):
        if x[i] > 0:
            items = Items(x[i])
            functions = [items.add, items.of_all]
        functions[0](x * i)
    return functions[1](x), len(items.items)


@pytest.mark.parametrize(
    "function",
    [
        whose_object_is_changed_after, that_an_object_keeps_of_itself, of_one_object_under_three_names, that_share_a_dict,
        that_a_loop_replaces,
    ],
)  # fmt: skip
def test_what_is_written_to_an_object_is_seen_by_its_methods(function: Any) -> None:
    static = dy2st.to_static(function)
    for x in (*INPUTS, *INPUTS):
        got, wanted = static(x), function(x)
        pairs = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]
        assert all(torch.equal(one, other) if isinstance(other, torch.Tensor) else one == other for one, other in pairs)
    assert len(static.program_cache) == 1


@pytest.mark.parametrize(
    "pick",
    [
        lambda z, i: z[i], lambda z, i: z[:, i], lambda z, i: z[..., i], lambda z, i: z[0, i, 1:3], lambda z, i: z[None, i, :, 2],
        lambda z, i: z[i, :, i], lambda z, i: z[i, i - 1] + z[1, i, i],
    ],
)  # fmt: skip
def test_an_index_of_each_item_of_a_batch_is_no_single_number(pick: Any) -> None:
    def rows(z: Any, indices: Any) -> Any:
        return torch.vmap(lambda i: pick(z, i))(indices)

    static = dy2st.to_static(rows)
    z = torch.arange(24.0).reshape(2, 3, 4)
    for indices in (torch.tensor([1, 0]), torch.tensor([0, -1])):
        assert torch.equal(static(z, indices), rows(z, indices))
