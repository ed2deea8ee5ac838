"""Functions inside of others: decorators, context managers, cached and dispatched functions, `functools`, `itertools`, `operator`."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from functools import partial, partialmethod, reduce

import pytest
import torch
from torch import nn

import dy2st
from tests.oracle import agree
from tests.programs.values import signs, vec

FLOATS = [v.float().detach().requires_grad_() for v in signs()]
LINEAR = nn.Linear(3, 3)


def choose(x, k=2):
    return x * k if x.sum() > 0 else x - k


def scaled(by):
    def decorate(function):
        @functools.wraps(function)
        def inner(x):
            return function(x) * by if x.sum() > 0 else function(x)

        return inner

    return decorate


@scaled(3)
@scaled(by=2)
@torch.no_grad()
def stacked(x):
    return choose(x)


def test_decorators_with_arguments_stacked():
    agree(lambda x: stacked(x) + x, signs(grad=True))


def test_static_below_another_decorator():
    @scaled(3)
    @dy2st.to_static
    def inner(x):
        return choose(x)

    assert inner(vec(1, 2)).tolist() == [6, 12]
    assert inner(vec(-1, -2)).tolist() == [-3, -4]
    agree(lambda x: inner(x), signs(grad=True))


def test_static_above_other_decorators():
    static = dy2st.to_static(stacked)
    agree(stacked, signs(grad=True), static=static)


@pytest.mark.parametrize("kind", [torch.no_grad, torch.enable_grad, torch.inference_mode, lambda: torch.inference_mode(False)])
def test_grad_modes_as_decorator_and_context(kind):
    mode = kind()
    decorated = mode(choose)

    def f(x):
        a = decorated(x)
        with mode:
            b = choose(x)
            with torch.enable_grad():
                c = choose(x)
        if x.sum() > 0:
            with mode:
                d = x * 3
        else:
            d = x * 4
        return a.clone() + 1, b.clone() + 1, c.clone(), d.clone() + 1, x * 2

    inference = isinstance(mode, torch.inference_mode) and mode.mode
    agree(f, signs(grad=not inference))
    static = dy2st.to_static(f)
    expected, found = f(signs(grad=not inference)[0]), static(signs(grad=not inference)[0])
    assert [t.requires_grad for t in expected] == [t.requires_grad for t in found]


def test_set_grad_enabled_switches_as_context_and_as_call():
    def f(x):
        with torch.set_grad_enabled(False):
            y = choose(x)
        torch.set_grad_enabled(False)
        z = x * 2
        torch.set_grad_enabled(True)
        return y, z, x * 3

    agree(f, signs(grad=True))


def test_inference_mode_gives_no_gradient():
    @dy2st.to_static
    def f(x):
        with torch.inference_mode():
            y = x * 2
        return y.clone() + 1, x * 2

    inner, outer = f(vec(1, 2, grad=True))
    assert not inner.requires_grad and outer.requires_grad
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
    with torch.inference_mode():
        assert f(vec(1, 2))[0].tolist() == [3, 5]


def test_autocast_in_a_branch_and_as_decorator():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def half(x):
        return x @ LINEAR.weight if x.sum() > 0 else (x * 2) @ LINEAR.weight

    def f(x):
        y = half(x)
        if x.sum() > 0:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = (x @ LINEAR.weight).float()
        else:
            z = x @ LINEAR.weight
        return y, z

    agree(f, FLOATS)


@contextlib.contextmanager
def logged(log, value):
    log.append("enter")
    try:
        with torch.no_grad():
            yield value * 2
    finally:
        log.append("exit")


class Scope(contextlib.ContextDecorator):
    def __init__(self, x):
        self.x = x

    def __enter__(self):
        if self.x.sum() > 0:
            return self.x * 2
        return self.x

    def __exit__(self, *error):
        if self.x.sum() > 0:
            print("positive")


def test_context_managers_of_the_user():
    def f(x):
        log = []
        with logged(log, x) as doubled, Scope(x) as scoped, contextlib.nullcontext(3) as three:
            y = choose(doubled) + scoped * three
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.callback(log.append, "last")
            z = choose(x)
        return y, z, log

    agree(f, signs(grad=True))


@pytest.mark.parametrize(
    "use",
    [
        lambda stack, log: stack.enter_context(Scope(torch.zeros(3))),
        lambda stack, log: stack.callback(log.append, 1),
        lambda stack, log: stack.push(lambda *error: log.append(2)),
        lambda stack, log: stack.pop_all(),
        lambda stack, log: stack.close(),
    ],
)
def test_a_tensor_decides_what_is_on_a_stack(use):
    def f(x):
        log = []
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, 0)
            if x.sum() > 0:
                use(stack, log)
        return log

    with pytest.raises(dy2st.errors.CaptureError, match="a tensor decides whether [a-z_]+\\(\\) of an ExitStack is called"):
        dy2st.to_static(f)(torch.ones(3))


def test_a_stack_from_outside():
    stack, log = contextlib.ExitStack(), []

    def f(x):
        stack.callback(log.append, 1)
        return x

    with pytest.raises(dy2st.errors.CaptureError, match="an ExitStack that was made outside"):
        dy2st.to_static(f)(torch.ones(3))


def test_context_manager_left_early():
    def f(x):
        for k in range(4):
            with Scope(x) as y:
                if y.sum() > 10:
                    break
                if y.sum() < -10:
                    return y
                x = y + k - 1
        return x

    agree(f, [*signs(), vec(-20, 0, 0)])


def test_context_managers_as_decorators():
    log: list[str] = []

    @Scope(vec(1))
    def first(x):
        return choose(x)

    @contextlib.contextmanager
    def plain():
        yield

    @plain()
    def second(x):
        return choose(x)

    agree(lambda x: first(x) + second(x), signs(grad=True))
    assert log == []


@functools.singledispatch
def dispatched(x):
    return x


@dispatched.register
def _tensor(x: torch.Tensor):
    return choose(x)


@dispatched.register
def _int(x: int):
    return x + 1


@dispatched.register(list)
def _list(x):
    return sum(dispatched(item) for item in x)


class Settings:
    def __init__(self, k):
        self.k = k

    @functools.cached_property
    def double(self):
        return self.k * 2

    @functools.cached_property
    def tensor(self):
        return torch.ones(3, dtype=torch.float64) * self.k

    @functools.singledispatchmethod
    def apply(self, x):
        return x

    @apply.register
    def _(self, x: torch.Tensor):
        return choose(x, self.k)

    thrice = partialmethod(lambda self, x, k: choose(x, k), k=3)


def test_dispatch_on_the_type():
    settings = Settings(3)

    def f(x):
        number = x.sum().long().item()
        return dispatched(x), dispatched(number), dispatched([x, 2]), settings.apply(x), settings.apply(4), settings.thrice(x)

    agree(f, signs(grad=True))


def test_cached_properties_of_an_object_made_inside():
    def f(x):
        settings = Settings(4)
        return x * settings.double * settings.tensor * settings.double

    agree(f, signs(grad=True), programs=1)


def test_cached_property_is_kept_where_eager_keeps_it():
    settings = Settings(3)

    @dy2st.to_static
    def f(x):
        if x.sum() > 0:
            return x * settings.double
        return x + settings.tensor

    assert f(vec(-1, -1, -1)).tolist() == [2, 2, 2]
    assert vars(settings)["tensor"].tolist() == [3, 3, 3]
    assert "double" not in vars(settings)
    assert f(vec(1, 2, 3)).tolist() == [6, 12, 18]
    assert vars(settings)["double"] == 6
    settings.k = 100
    assert f(vec(1, 2, 3)).tolist() == [6, 12, 18]
    del settings.double
    assert f(vec(1, 2, 3)).tolist() == [200, 400, 600]


@functools.lru_cache(maxsize=None)
def remembered(n):
    return torch.full((3,), float(n), dtype=torch.float64)


def test_a_cache_filled_at_capture_holds_real_tensors():
    agree(lambda x: x * remembered(3) if x.sum() > 0 else x - remembered(2), signs(grad=True))
    assert isinstance(remembered(3), torch.Tensor) and remembered(3).tolist() == [3, 3, 3]


def test_reduce_and_itertools_call_converted_functions():
    def f(x):
        def keep(a, b):
            return a * b if b.sum() > 0 else a

        made = [reduce(keep, [x, x + 1, x - 1]), reduce(operator.add, [x, x + 1]), reduce(torch.maximum, [x, x * 2], x)]
        made += itertools.accumulate([x, x + 1, x + 2], keep)
        made += itertools.accumulate([x, x + 1], initial=x)
        made += itertools.starmap(choose, [(x, 2), (x, 3)])
        made += [x * k for k in itertools.takewhile(lambda v: v < 3, itertools.count())]
        made += [x * k for k in itertools.dropwhile(lambda v: v < 3, range(5))]
        made += [x * k for k in itertools.filterfalse(lambda v: v % 2, range(5))]
        for a, b in itertools.product([x, x + 1], [1, 2]):
            made.append(a * b if a.sum() > b else a)
        return made

    agree(f, signs(grad=True))


def test_reduce_of_nothing_raises_pythons_type_error():
    with pytest.raises(TypeError, match=r"reduce\(\) of empty iterable with no initial value"):
        dy2st.to_static(lambda x: reduce(operator.add, []))(vec(1))


def test_takewhile_of_numbers_where_a_tensor_decides_is_refused():
    """A list of tensors is gone through at once; of numbers, the function that is called may see when each is asked for."""
    with pytest.raises(dy2st.errors.CaptureError, match="takewhile"):
        dy2st.to_static(lambda x: list(itertools.takewhile(lambda n: x.sum() > n, [1, 2])))(vec(1))


def test_functions_of_the_operator_module():
    def f(x):
        y = x.clone()
        operator.iadd(y, 1)
        items, table = [x], {}
        if operator.gt(x.sum(), 0):
            operator.iadd(items, [x + 1])
            operator.setitem(table, "k", y * 2)
        else:
            operator.setitem(table, "k", y)
        negative = operator.not_(x.sum() > 0)
        if operator.truth(x.sum()):
            y = operator.mul(y, 2)
        second = operator.itemgetter(1)(x)
        return (
            torch.stack(items).sum(0), table, y, negative, second, operator.itemgetter(0, 2)([x, x + 1, x + 2]),
            operator.methodcaller("sum", dim=0)(x), operator.attrgetter("data.dtype")(x), operator.is_(x, x),
            operator.contains([1, 2], 2), operator.index(3),
        )  # fmt: skip

    agree(f, signs())


class Negative:
    def __getattr__(self, name):
        return lambda x: choose(x, len(name))


class Forwarding(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3, dtype=torch.float64)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, x):
        return x @ self.weight + self.bias if x.sum() > 0 else x * self.in_features


def test_attributes_made_by_the_class():
    anything = Negative()
    agree(lambda x: anything.abc(x) + anything.de(x), signs(grad=True))
    agree(Forwarding(), signs(grad=True))


class Descriptor:
    def __get__(self, owner, kind):
        return lambda x: choose(x, owner.k)


class Described:
    method = Descriptor()

    def __init__(self, k):
        self.k = k


def test_a_method_is_bound_by_a_descriptor_of_the_user():
    described = Described(5)
    agree(lambda x: described.method(x), signs(grad=True))


class OwnCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3, dtype=torch.float64)

    def __call__(self, x):
        x = choose(x)
        return super().__call__(x) + 1

    def forward(self, x):
        return self.linear(x) if x.sum() > 1 else x


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) if x.sum() < 5 else self.inner(x - 1)


def test_a_call_that_a_module_overrides_is_what_runs():
    agree(Around(OwnCall()), signs(grad=True))
    agree(Around(nn.Sequential(OwnCall(), OwnCall())), signs(grad=True))
    model = OwnCall()
    model.register_forward_hook(lambda module, args, out: out * 2 if out.sum() > 0 else None)
    agree(Around(model), signs(grad=True))


@torch.jit.script
def scripted(x):
    if bool(x.sum() > 0):
        return x * 2
    return x


@torch.compiler.disable
def disabled(x):
    return choose(x)


def test_compiled_functions_are_captured_from_their_source():
    compiled = torch.compile(choose)
    static = dy2st.to_static(lambda x: compiled(x) + scripted(x) + disabled(x))
    agree(lambda x: choose(x) + scripted(x) + disabled(x), signs(grad=True), static=static)


def test_modules_of_torchscript_are_refused_and_run_as_python():
    class Doubling(nn.Module):
        def forward(self, x):
            if bool(x.sum() > 0):
                return x * 2
            return x - 1

    model = torch.jit.script(Doubling())
    with pytest.raises(dy2st.CaptureError, match="model is a module of TorchScript, which has no code in Python"):
        dy2st.to_static(lambda x: model(x) + 1)(vec(1.0, 2.0))
    island = dy2st.not_to_static(lambda x: model(x))
    agree(lambda x: island(x) + 1, signs(grad=True))


def test_type_of_a_tensor():
    def f(x):
        n = x.sum().long().item()
        same = type(x) is torch.Tensor and x.__class__ is torch.Tensor and type(x + 1).__name__ == "Tensor"
        return (x * 2 if same else x), type(n) is int, n.__class__.__name__

    agree(f, signs())


def test_partial_of_methods_and_objects():
    settings = Settings(2)

    def f(x):
        return partial(settings.apply)(x) + partial(partial(choose, k=3))(x) + partial(Described(4).method)(x)

    agree(f, signs(grad=True))


class Bound(partial):
    """A partial function that means something else by ``func``."""

    __slots__ = "func"

    def __init__(self, func, *args):
        self.func = func

    def __get__(self, instance, owner=None):
        return self if instance is None else partial(self.func, instance)


def test_a_class_made_from_partial_calls_what_partial_does():
    class Chooser:
        run = Bound(lambda self, x, k: choose(x, k + self.k), 1)
        k = 2

    held = Bound(partial(choose, k=3))

    def f(x):
        return Bound(partial(choose, k=3))(x) + held(x) + Bound(Bound(choose, x))(2) + Chooser().run(x, 1), held.func

    def without_function(x):
        return f(x)[0]

    agree(without_function, signs(grad=True))


def test_a_partial_function_of_another_class_is_another_program():
    class Holder:
        held = Bound(partial(choose, k=3))

    static = dy2st.to_static(lambda x: Holder.held(x))
    x = signs()[0]
    assert torch.equal(static(x), choose(x, 3))
    Holder.held = Bound(partial(choose, k=4))
    assert torch.equal(static(x), choose(x, 4))


def test_a_function_registered_later_is_the_one_that_a_generic_function_calls():
    @functools.singledispatch
    def chosen(value):
        return 1

    f = dy2st.to_static(lambda x, value: x * chosen(value))
    x = torch.ones(2)
    assert torch.equal(f(x, "text"), x)
    chosen.register(str, lambda value: 5)
    assert torch.equal(f(x, "text"), x * 5)
    programs = len(f.program_cache)
    assert torch.equal(f(x, "text"), x * 5)
    assert len(f.program_cache) == programs
