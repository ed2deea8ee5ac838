"""Attributes: of the object, of its class, by properties, descriptors, ``__getattr__``, ``__setattr__`` and ``vars``; written on some ways only."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from tests.programs.state import agree_with_state, class_state

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[Any] = []


def case(make: Any) -> Any:
    CASES.append(make)
    return make


@case
def class_shadow():
    class C:
        z = 5

    o = C()

    def f(x):
        if x.sum() > 0:
            o.z = 7
        return o.z

    return f, lambda: (o, class_state(C)), [N, P, N]


@case
def class_tensor():
    class C:
        z = torch.zeros(2)

    o = C()

    def f(x):
        if x.sum() > 0:
            o.z = o.z + x
        return o.z * 1

    return f, lambda: (o, class_state(C)), [N, P, N, P]


@case
def class_aug():
    class C:
        n = 0

    o = C()

    def f(x):
        if x.sum() > 0:
            o.n += 1
        return x * o.n

    return f, lambda: (o, class_state(C)), [N, P, N, P]


@case
def class_del():
    class C:
        z = 5

    o = C()
    o.z = 9

    def f(x):
        if x.sum() > 0:
            del o.z
        return o.z * x

    return f, lambda: (o, class_state(C)), [N, P]


@case
def class_del_set():
    class C:
        z = 5

    def f(x):
        o = C()
        o.z = 1
        if x.sum() > 0:
            del o.z
        else:
            o.z = 3
        return o.z * x

    return f, lambda: None, [N, P]


@case
def class_class_write():
    class C:
        n = 0

    def f(x):
        if x.sum() > 0:
            C.n += 1
        return x * C.n

    return f, lambda: class_state(C), [N, P, N, P]


@case
def class_inherited():
    class A:
        n = 1

    class B(A):
        pass

    def f(x):
        if x.sum() > 0:
            B.n += 1
        return x * B.n + A.n

    return f, lambda: (class_state(A), class_state(B)), [N, P, N, P]


@case
def class_type_self():
    class C:
        n = torch.zeros(2)

        def go(self, x):
            if x.sum() > 0:
                type(self).n = type(self).n + x
            return self.n * 1

    c = C()

    def f(x):
        return c.go(x)

    return f, lambda: (c, class_state(C)), [N, P, N, P]


@case
def class_cls():
    class C:
        n = 0

        @classmethod
        def go(cls, x):
            if x.sum() > 0:
                cls.n += 1
            return cls.n * x

    def f(x):
        return C.go(x)

    return f, lambda: class_state(C), [N, P, N, P]


@case
def class_hasattr():
    class C:
        pass

    o = C()

    def f(x):
        if x.sum() > 0:
            o.z = x
        return o.z * 2 if hasattr(o, "z") else x

    return f, lambda: o, [N, P, N]


@case
def class_getattr_default():
    class C:
        z = 3

    def f(x):
        o = C()
        if x.sum() > 0:
            o.z = 5
        if x.sum() > 2:
            del o.z
        return x * getattr(o, "z", 100) * getattr(o, "y", 2)

    return f, lambda: None, [N, P, P * 0.3]


@case
def class_fallback():
    class Answering:
        def __getattr__(self, k):
            if k.startswith("__"):
                raise AttributeError(k)
            return 42

    o = Answering()
    o.new = 1

    def f(x):
        if x.sum() > 0:
            del o.new
        return x * o.new

    return f, lambda: o, [N, P]


@case
def class_fallback_set():
    class Answering:
        def __getattr__(self, k):
            if k.startswith("__"):
                raise AttributeError(k)
            return 42

    o = Answering()

    def f(x):
        if x.sum() > 0:
            o.new = 3
        return x * o.new

    return f, lambda: o, [N, P, N]


@case
def class_fallback_state():
    class Answering:
        def __init__(self):
            self.calls = 0

        def __getattr__(self, k):
            if k.startswith("__"):
                raise AttributeError(k)
            self.calls += 1
            return self.calls

    o = Answering()

    def f(x):
        if x.sum() > 0:
            o.new = 3
        return x * o.new

    return f, lambda: o, [N, N, P]


@case
def class_method_shadow():
    class C:
        def g(self, x):
            return x + 1

    o = C()

    def h(x):
        return x * 10

    def f(x):
        if x.sum() > 0:
            o.g = h
        return o.g(x)

    return f, lambda: o, [N, P, N]


@case
def class_method_shadow_del():
    class C:
        def g(self, x):
            return x + 1

    o = C()

    def h(x):
        return x * 10

    o.g = h

    def f(x):
        if x.sum() > 0:
            del o.g
        return o.g(x)

    return f, lambda: o, [N, P]


@case
def slots_basic():
    class C:
        __slots__ = ("a", "b")

    o = C()
    o.a = torch.zeros(2)

    def f(x):
        if x.sum() > 0:
            o.a = o.a + x
            o.b = 3
        return hasattr(o, "b"), o.a * 1

    return f, lambda: o, [N, P, N]


@case
def slots_del():
    class C:
        __slots__ = ("a", "b")

    o = C()
    o.a = torch.zeros(2)
    o.b = 1

    def f(x):
        if x.sum() > 0:
            del o.b
        return getattr(o, "b", 7) * x

    return f, lambda: o, [N, P]


@case
def slots_inherit_dict():
    class A:
        __slots__ = ("a",)

    class B(A):
        pass

    o = B()
    o.a = 1
    o.c = 2

    def f(x):
        if x.sum() > 0:
            o.a += 1
            o.c += 1
            o.d = x
        return x * o.a * o.c

    return f, lambda: o, [N, P, N]


@case
def slots_getattr():
    class A:
        __slots__ = ("a",)

        def __getattr__(self, k):
            if k.startswith("__"):
                raise AttributeError(k)
            return 5

    o = A()
    o.a = 1

    def f(x):
        if x.sum() > 0:
            del o.a
        return x * o.a

    return f, lambda: o, [N, P]


@case
def slots_made():
    class C:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    def f(x):
        o = C(x)
        if x.sum() > 0:
            o.b = x * 2
        else:
            o.b = x * 3
        o2 = C(x) if x.sum() > 0 else C(-x)
        return o.a + o.b + o2.a

    return f, lambda: None, [N, P]


@case
def property_setter():
    class C:
        def __init__(self):
            self._v = torch.zeros(2)
            self.n = 0

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, x):
            self._v = x
            self.n += 1

        @v.deleter
        def v(self):
            self._v = None
            self.n += 10

    o = C()

    def f(x):
        if x.sum() > 0:
            o.v = o.v + x
        elif x.sum() < -100:
            del o.v
        return o.v * 1 if o.v is not None else x

    return f, lambda: o, [N, P, N, P, N * 100]


@case
def property_del():
    class C:
        def __init__(self):
            self._v = 1

        @property
        def v(self):
            return self._v

        @v.deleter
        def v(self):
            self._v = 0

    o = C()

    def f(x):
        if x.sum() > 0:
            del o.v
        return o.v * x

    return f, lambda: o, [N, P]


@case
def property_cached():
    class C:
        def __init__(self):
            self.n = 0

        @functools.cached_property
        def v(self):
            self.n += 1
            return self.n * 2

    o = C()

    def f(x):
        if x.sum() > 0:
            x = x * o.v
        return x * o.v

    return f, lambda: o, [N, P, N]


@case
def property_cached2():
    class C:
        def __init__(self):
            self.n = 0

        @functools.cached_property
        def v(self):
            self.n += 1
            return self.n * 2

    o = C()

    def f(x):
        if x.sum() > 0:
            x = x * o.v
        return x

    return f, lambda: o, [N, P, N]


@case
def property_cached_del():
    class C:
        def __init__(self):
            self.n = 0

        @functools.cached_property
        def v(self):
            self.n += 1
            return self.n * 2

    o = C()
    o.v

    def f(x):
        if x.sum() > 0:
            del o.v
        return x * o.v

    return f, lambda: o, [N, P, P]


@case
def descriptor_data():
    class D:
        def __get__(self, o, t=None):
            return self if o is None else o.__dict__.get("_d", 0)

        def __set__(self, o, v):
            o.__dict__["_d"] = v

        def __delete__(self, o):
            o.__dict__.pop("_d", None)

    class C:
        d = D()

    o = C()

    def f(x):
        if x.sum() > 0:
            o.d = o.d + x
        return o.d + 1

    return f, lambda: o, [N, P, N, P]


@case
def descriptor_data2():
    class D:
        def __set_name__(self, c, n):
            self.n = "_" + n

        def __get__(self, o, t=None):
            return self if o is None else getattr(o, self.n, 0)

        def __set__(self, o, v):
            setattr(o, self.n, v)
            o.count = getattr(o, "count", 0) + 1

        def __delete__(self, o):
            delattr(o, self.n)

    class C:
        d = D()

    o = C()

    def f(x):
        if x.sum() > 0:
            o.d = o.d + x
        elif x.sum() < -100:
            del o.d
        return o.d + 1

    return f, lambda: o, [N, P, N, P, N * 100]


@case
def descriptor_nondata():
    class D:
        def __get__(self, o, t=None):
            return 5

    class C:
        d = D()

    o = C()

    def f(x):
        if x.sum() > 0:
            o.d = 7
        return o.d * x

    return f, lambda: o, [N, P, N]


@case
def descriptor_nondata_del():
    class D:
        def __get__(self, o, t=None):
            return 5

    class C:
        d = D()

    o = C()
    o.d = 3

    def f(x):
        if x.sum() > 0:
            del o.d
        return o.d * x

    return f, lambda: o, [N, P]


@case
def setattr_super():
    class C:
        def __init__(self):
            self.n = 0

        def __setattr__(self, k, v):
            super().__setattr__(k, v)
            if k != "n":
                self.n = self.n + 1

    o = C()

    def f(x):
        if x.sum() > 0:
            o.h = x
        return x * o.n

    return f, lambda: o, [N, P, N]


@case
def setattr_object():
    class C:
        def __init__(self):
            object.__setattr__(self, "log", [])

        def __setattr__(self, k, v):
            self.log.append(k)
            object.__setattr__(self, k, v)

        def __delattr__(self, k):
            self.log.append("-" + k)
            object.__delattr__(self, k)

    o = C()

    def f(x):
        if x.sum() > 0:
            o.h = x
        elif hasattr(o, "h"):
            del o.h
        return x * len(o.log)

    return f, lambda: o, [N, P, N]


@case
def setattr_vars():
    class C:
        def __setattr__(self, k, v):
            vars(self)[k] = v
            vars(self)["n"] = vars(self).get("n", 0) + 1

    o = C()

    def f(x):
        if x.sum() > 0:
            o.h = x
        return x * getattr(o, "n", 0)

    return f, lambda: o, [N, P, N, P]


@case
def setattr_dict():
    class C:
        def __setattr__(self, k, v):
            self.__dict__[k] = v

    o = C()

    def f(x):
        if x.sum() > 0:
            o.h = x
        o.h2 = 3 if x.sum() > 0 else 4
        if x.sum() > 0:
            o.h2 = 5
        return x * o.h2

    return f, lambda: o, [N, P, N, P]


@case
def setattr_dict_update():
    class C:
        pass

    o = C()

    def f(x):
        if x.sum() > 0:
            o.__dict__.update(a=x, b=2)
        else:
            vars(o).setdefault("b", 9)
        return x * o.b

    return f, lambda: o, [N, P, N, P]


@case
def setattr_mixed():
    class C:
        pass

    o = C()
    o.a = 1

    def f(x):
        if x.sum() > 0:
            o.a = 2
        else:
            vars(o)["a"] = 3
        if x.sum() > 1:
            vars(o)["a"] += 10
        return x * o.a

    return f, lambda: o, [N, P, N, P]


@case
def setattr_getattribute():
    class C:
        def __init__(self):
            self.a = 1

        def __getattribute__(self, k):
            if k == "b":
                return 10
            return super().__getattribute__(k)

    o = C()

    def f(x):
        if x.sum() > 0:
            o.a = o.a + 1
            o.b = 7
        return x * o.a * o.b

    return f, lambda: object.__getattribute__(o, "__dict__"), [N, P, N, P]


@case
def setattr_validate():
    class C:
        def __setattr__(self, k, v):
            if k == "bad":
                raise AttributeError("no " + k)
            for c in {}.get(k, []):
                c(v)
            object.__setattr__(self, k, v)

    o = C()
    o.kind = None

    def f(x):
        if o.kind is None:
            o.kind = "single"
        return x * 2 if x.sum() > 0 else x

    return f, lambda: o, [N, P, N, P]


@case
def setattr_setattr_block():
    class C:
        def __setattr__(self, k, v):
            object.__setattr__(self, "_" + k, v)

        def __getattr__(self, k):
            if k.startswith("_"):
                raise AttributeError(k)
            return object.__getattribute__(self, "_" + k)

    o = C()
    o.h = torch.zeros(2)

    def f(x):
        if x.sum() > 0:
            o.h = o.h + x
        return o.h * 1

    return f, lambda: o, [N, P, N, P]


@case
def module_buffer():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.zeros(2))

        def forward(self, x):
            if x.sum() > 0:
                self.b = self.b + x
            return self.b * 1

    m = M()
    return m, lambda: (m._buffers, m), [N, P, N, P]


@case
def module_none_buffer():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", None)

        def forward(self, x):
            if x.sum() > 0:
                self.b = x * 1
            return x if self.b is None else self.b * 1

    m = M()
    return m, lambda: (m._buffers, m), [N, P, N, P]


@case
def module_child():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.ReLU()
            self.b = torch.nn.Tanh()
            self.cur = self.a

        def forward(self, x):
            if x.sum() > 0:
                self.cur = self.b
            return self.cur(x)

    m = M()
    return m, lambda: ([(k, type(v).__name__) for k, v in m._modules.items()]), [N, P, N, P]


@case
def module_del():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.h = torch.ones(2)
            self.register_buffer("b", torch.ones(2))

        def forward(self, x):
            if x.sum() > 0:
                del self.h
            return hasattr(self, "h"), hasattr(self, "b")

    m = M()
    return m, lambda: m, [N, P]


@case
def a_module_under_the_name_of_something_else():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sub, self.h, self.count = torch.nn.Linear(2, 2), torch.ones(2), 5

        def forward(self, x):
            setattr(self, "h" if x.sum() > 0 else "other", self.sub)
            if x.sum() > 0:
                self.count = self.sub
            return x

    m = M()
    tables = ("_parameters", "_buffers", "_modules")
    return (
        m,
        lambda: [[*m._modules], *(m.__dict__.get(name) for name in ("h", "count", "other")), [*map(len, map(vars(m).get, tables))]],
        [N, P, N],
    )


@case
def a_module_in_the_place_of_none():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sub, self.kid = torch.nn.Linear(2, 2), None

        def forward(self, x):
            if x.sum() > 0:
                self.kid = self.sub
            return x

    m = M()
    return m, lambda: [[*m._modules], "kid" in m.__dict__], [N, P, N]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_attributes_and_their_state_are_those_of_eager(make):
    agree_with_state(make)
