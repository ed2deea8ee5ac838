"""Attributes of classes that the captured code writes or deletes, read through objects, subclasses and ``super()``."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.programs.state import class_state
from tests.worlds import World, agree

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[tuple[Any, int]] = []


def case(programs: int) -> Any:
    """A world whose calls need so many programs."""

    def keep(make: Any) -> Any:
        CASES.append((make, programs))
        return make

    return keep


def steps(*kinds: type, states: tuple[Any, ...]) -> list[Any]:
    """Calls with a tensor, or changes of the world before the next call; each shows what the classes hold."""

    def step(function: Any, change: Any, x: torch.Tensor) -> Any:
        if change is not None:
            change()
        return function(x), [class_state(kind) for kind in kinds]

    pairs = [state if isinstance(state, tuple) else (None, state) for state in states]
    return [lambda function, change=change, x=x: step(function, change, x) for change, x in pairs]


@case(2)
def gives_what_a_fallback_gave() -> World:
    class C:
        def __getattr__(self, name):
            return 42

    o = C()

    def f(x):
        if x.sum() > 0:
            C.z = 1
        return x * o.z

    return World(f, [o], steps(C, states=(N, P, N)))


@case(2)
def is_asked_for() -> World:
    class C:
        pass

    class D(C):
        w = 7

    o = D()

    def f(x):
        if x.sum() > 0:
            C.z = 1
        y = x * getattr(o, "z", 5)
        return hasattr(o, "z"), hasattr(D, "z"), y * getattr(D, "z", 9)

    def removed():
        del C.z

    return World(f, [o], steps(C, D, states=(N, P, N, (removed, N), P)))


@case(4)  # the order of the names in a class counts where the code asks for its dict
def uncovers_what_a_base_has() -> World:
    class C:
        z = 3

    class D(C):
        z = 4

        def of_base(self):
            return super().z

    o = D()

    def f(x):
        if x.sum() > 0 and "z" in vars(D):
            del D.z
        return x * o.z + D.z + o.of_base()

    def put():
        D.z = 8

    return World(f, [o], steps(C, D, states=(N, P, P, (put, N), P)))


@case(2)
def method_that_a_branch_puts_there() -> World:
    class C:
        def m(self):
            return 1

    class D(C):
        pass

    o = D()

    def f(x):
        if x.sum() > 0:
            D.m = lambda self: 5
        return x * o.m()

    return World(f, [o], steps(C, states=(N, P, N)))


@case(2)
def fallback_after_a_deletion() -> World:
    class C:
        z = 3

    class D(C):
        def __getattr__(self, name):
            return 42

    o = D()

    def f(x):
        if x.sum() > 0:
            del C.z
        return x * o.z

    return World(f, [o], steps(C, states=(N, P)))


@case(3)
def lazy_attribute_of_a_class() -> World:
    class C:
        def __getattr__(self, name):
            setattr(type(self), name, 6)
            return 5

    o = C()

    def f(x):
        if x.sum() > 0:
            C.z = 1
        return x * o.z + o.z

    return World(f, [o], steps(C, states=(N, P, N)))


@case(2)
def counter_of_a_class_that_objects_shadow() -> World:
    class C:
        z = 3

    class D(C):
        pass

    o, p = D(), D()

    def f(x):
        if x.sum() > 0:
            o.z += 1
        return x * o.z + p.z

    def put():
        C.z = 9

    def again():
        C.z = 10

    return World(f, [o, p], steps(C, states=(N, (put, N), (again, N))))


@case(4)
def counter_of_a_class_that_a_subclass_shadows() -> World:
    class C:
        z = 3

    class D(C):
        pass

    o = D()

    def f(x):
        if x.sum() > 0:
            D.z += 1
        return x * o.z + C.z

    def put():
        C.z = 9

    def again():
        C.z = 10

    return World(f, [o], steps(C, D, states=(N, (put, N), (again, N), P, N)))


@case(2)
def between_an_object_and_the_class_that_is_written() -> World:
    class C:
        pass

    class D(C):
        pass

    o = D()

    def f(x):
        C.z = 1
        return x * o.z

    def put():
        D.z = 5

    return World(f, [o], steps(C, D, states=(N, P, (put, N), P)))


@case(3)
def property_that_a_branch_puts_there() -> World:
    class C:
        z = 2

        @property
        def q(self):
            return self.z

    o = C()

    other = property(lambda self: self.z + 1)

    def f(x):
        if x.sum() > 0:
            C.q = other
        return x * o.q

    return World(f, [o], steps(states=(N, P, N)))


@case(2)
def descriptor_or_value() -> World:
    class Doubles:
        def __get__(self, obj, kind=None):
            return 2 if obj is None else obj.w * 2

    doubles = Doubles()

    class C:
        w = 3
        q = 1

    o = C()

    def f(x):
        if x.sum() > 0:
            C.q = doubles
        return x * o.q

    return World(f, [o], [lambda f, x=x: f(x) for x in (N, P, N)])


@case(3)
def given_by_the_metaclass() -> World:
    class Meta(type):
        n = 0

        @property
        def shown(cls):
            return cls.n

    class C(metaclass=Meta):
        pass

    def f(x):
        if x.sum() > 0:
            C.n += 1
        return x * C.shown, C.n

    return World(f, [], steps(C, states=(N, P, N)))


@case(2)
def counted_beside_that_of_a_base() -> World:
    class Base:
        made = 0

        def __init__(self):
            Base.made += 1

    class Derived(Base):
        made = 0

        def __init__(self):
            super().__init__()
            Derived.made += 1

    def f(x):
        Derived()
        return x * Derived.made + Base.made

    return World(f, [], steps(Base, Derived, states=(P, N, P, N, P)))


@case(3)
def read_beside_that_of_a_base() -> World:
    class Base:
        limit, scale = 1, 2.0

    class Derived(Base):
        limit, scale = 5, 0.5

    o = Derived()

    def f(x):
        Base.limit = 0
        if x.sum() > 0:
            Base.scale = 3.0
        return x * Derived.limit, x * Derived.scale, o.limit, o.scale

    def changed():
        Derived.limit = 9

    return World(f, [o], steps(Base, Derived, states=(P, N, P, (changed, P), N)))


@pytest.mark.parametrize(("make", "programs"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_attributes_of_classes_are_written_and_read_as_in_eager(make, programs):
    agree(make, programs=programs)
