"""Calls: helpers, methods, `super`, recursion, lambdas, keyword and star arguments, closures, decorators."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import dy2st
from tests.oracle import agree
from tests.programs.values import counts, signs, vec

X = vec(1, 2, 3)


def trips(*items):
    return [(X, count) for count in counts(*items)]


def relu_ish(x, slope=0.1, *, scale=1):
    if x.sum() > 0:
        return x * scale
    return x * slope * scale


def test_a_helper_takes_defaults_keywords_and_spread_arguments():
    def f(x):
        return relu_ish(x), relu_ish(x, 0.5), relu_ish(x, scale=3), relu_ish(*[x], **{"slope": 2, "scale": 4})

    agree(f, signs())


def test_a_helper_takes_star_arguments_and_steps_through_them():
    def total(*xs, **more):
        out = xs[0]
        for x in xs[1:]:
            if x.sum() > 0:
                out = out + x
        for key, x in more.items():
            out = out * x
        return out

    def f(x):
        return total(x, x + 1, x - 5, a=x, b=x * 2)

    agree(f, signs())


def test_lambdas_branch_on_tensors():
    def f(x):
        g = lambda v: v * 2 if v.sum() > 0 else -v
        h = lambda v, k=3: g(v) + k
        return g(x), h(x), (lambda v: v[0] if v[0] > 0 else v[1])(x)

    agree(f, signs())


def test_a_lambda_is_passed_to_a_function_that_repeats_it():
    def apply(action, x, times):
        for i in range(times):
            x = action(x)
        return x

    def f(x, n):
        return apply(lambda v: v + 1 if v.sum() < 10 else v * 0.5, x, n)

    agree(f, trips())


def test_a_partial_of_a_helper_is_called():
    def f(x):
        g = functools.partial(relu_ish, slope=7)
        return g(x)

    agree(f, signs())


def test_recursion_with_a_python_depth():
    def power(x, k):
        if k == 0:
            return torch.ones_like(x)
        return x * power(x, k - 1)

    def f(x):
        return power(x, 4)

    agree(f, signs())


def test_recursion_with_a_depth_that_a_tensor_decides_is_refused():
    def halve(x):
        if x.sum() > 1:
            return halve(x / 2)
        return x

    def f(x):
        return halve(x)

    with pytest.raises(dy2st.errors.CaptureError, match="calls itself"):
        dy2st.to_static(f)(X)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3, dtype=torch.float64)

    def helper(self, x):
        if x.sum() > 0:
            return self.linear(x)
        return x

    def forward(self, x):
        return self.helper(x)


class Derived(Base):
    @property
    def limit(self):
        return 2.0

    @staticmethod
    def double(x):
        return x * 2 if x.sum() > 1 else x

    @classmethod
    def name(cls, x):
        return x + len(cls.__name__)

    def helper(self, x):
        y = super().helper(x)
        if y.sum() > self.limit:
            y = self.double(y)
        return self.name(y)

    def forward(self, x):
        y = super().forward(x)
        while y.norm() > 5:
            y = y * 0.5
        return y


def test_methods_super_properties_and_static_methods():
    agree(Derived(), signs())
    agree(Derived(), signs(grad=True))


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3, dtype=torch.float64) for _ in range(3)])
        self.seq = nn.Sequential(nn.Linear(3, 3, dtype=torch.float64), nn.ReLU())
        self.by_name = nn.ModuleDict({"a": nn.Linear(3, 3, dtype=torch.float64)})

    def forward(self, x):
        for layer in self.layers:
            y = layer(x)
            if y.sum() > 0:
                x = y
            else:
                break
        for name, layer in self.by_name.items():
            x = x + layer(x)
        return self.seq(x) + self.layers[0](x)


def test_containers_of_modules_are_stepped_through_and_called():
    agree(Stack(), signs())


def test_a_helper_with_a_decorator_is_called_through_it():
    def twice(function):
        @functools.wraps(function)
        def inner(x):
            return function(function(x))

        return inner

    @twice
    def step(x):
        return x + 1 if x.sum() > 0 else x - 1

    def f(x):
        return step(x)

    agree(f, signs())


def test_a_helper_below_no_grad_gives_no_gradient():
    @torch.no_grad()
    def frozen(x):
        if x.sum() > 0:
            return x * 2
        return x

    def f(x):
        return frozen(x) + x

    agree(f, signs(grad=True))


def test_an_object_made_inside_is_called_by_its_class():
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k if x.sum() > 0 else x

    def f(x):
        return Scale(3)(x)

    agree(f, signs())


def test_nested_function_reads_a_changed_name():
    def f(x):
        k = 1

        def g(v):
            return v * k

        if x.sum() > 0:
            k = 5
        a = g(x)
        k = 7
        return a, g(x)

    agree(f, signs())


def test_function_picked_by_python():
    def f(x):
        table = {"a": torch.relu, "b": lambda v: v + 1}
        for name in ("a", "b"):
            x = table[name](x)
        return x

    agree(f, signs())


def test_function_picked_by_a_tensor():
    def f(x):
        action = torch.sin if x.sum() > 0 else torch.cos
        return action(x)

    agree(f, signs())


def test_sum_of_a_generator_over_a_list_of_tensors_is_eagers():
    def f(x):
        return sum(v * 2 for v in [x, x + 1] if v is not None)

    agree(f, signs())


def test_map_and_filter_over_a_list_give_eagers_items():
    def f(x):
        a = list(map(lambda v: v * 2 if v.sum() > 0 else v, [x, x + 1]))
        b = [v for v in filter(None, [1, 0, 2])]
        return a, b

    agree(f, signs())


def test_in_place_change_in_a_callee():
    def bump(v):
        if v.sum() > 0:
            v += 1
        else:
            v.zero_()

    def f(x):
        y = x.clone()
        bump(y)
        bump(y[1:])
        return y

    agree(f, signs())


def test_branches_and_loops_print_what_eager_prints():
    def f(x, n):
        print("start", x.sum())
        for i in range(n):
            print(i, f"{x[0].item():.1f}", end=";")
        if x.sum() > 0:
            print("positive")
        else:
            print(f"not {x}", sep="")
        return x

    agree(f, [(s, c) for s in signs() for c in counts(2, 0)])
