"""Functions and classes that a static function makes: each call makes others, of what their variables hold at its end."""

from __future__ import annotations

import abc
import collections
import dataclasses
import functools

import pytest
import torch

import dy2st
from tests.worlds import agree, registry
from tests.worlds import called as W

P, N = torch.ones(2), -torch.ones(2)
WORLDS, world = registry()


class Box:
    """An object of the user's."""


@world
def ret_class():

    def f(x):

        class C:
            n = 0

        return C

    def call(f):
        a = f(P)
        a.n += 1
        b = f(P)
        return (a is b, b.n)

    return W(f, [], call, call, call)


@world
def ret_func():

    def f(x):

        def g(y):
            return y + x

        return g

    def call(f):
        a = f(P)
        a.n = 1
        b = f(N)
        return (a is b, hasattr(b, "n"), a(P), b(P))

    return W(f, [], call, call, call)


@world
def ret_lambda():

    def f(x):
        return lambda y: y

    def call(f):
        a = f(P)
        b = f(N)
        return (a is b, a(P), b(P))

    return W(f, [], call, call)


@world
def func_plain():

    def f(x):

        def g(y):
            return y + 1

        return (x, g)

    def call(f):
        a = f(P)[1]
        b = f(N)[1]
        a.k = 3
        return (a is b, hasattr(b, "k"), a(P))

    return W(f, [], call, call)


@world
def ret_instance():

    def f(x):

        class C:
            tag = 0

            def __init__(s, h):
                s.h = h

        return C(x)

    def call(f):
        a = f(P)
        b = f(N)
        type(a).tag += 1
        return (type(a) is type(b), a.h, b.h, type(a).tag, type(b).tag)

    return W(f, [], call, call)


@world
def ret_dc():

    def f(x):

        @dataclasses.dataclass
        class C:
            h: object

        return C(x)

    def call(f):
        a = f(P)
        b = f(P)
        return (type(a) is type(b), a.h, b.h)

    return W(f, [], call, call)


@world
def ret_nt():

    def f(x):
        R = collections.namedtuple("R", "a b")
        return R(x, 1)

    def call(f):
        a = f(P)
        b = f(P)
        return (type(a) is type(b), a, b)

    return W(f, [], call, call)


@world
def counter_class():

    def f(x):

        class C:
            n = 0

        for _ in range(3):
            C.n += 1
        return x * C.n

    return W(f, [], P, N, P)


@world
def counter_class_tensor():

    def f(x):

        class C:
            n = 0
            h = None

        if x.sum() > 0:
            C.n += 1
            C.h = x
        return (C.n, C.h)

    return W(f, [], P, N, P)


@world
def class_in_branch():

    def f(x):
        if x.sum() > 0:

            class C:
                def g(s):
                    return x + 1
        else:

            class C:
                def g(s):
                    return x - 1

        return C().g()

    return W(f, [], P, N, P)


@world
def type_call():

    def f(x):
        C = type("C", (), {"n": 1})
        return C

    def call(f):
        return f(P) is f(P)

    return W(f, [], call, call)


@world
def ret_func_default_mut():

    def f(x):

        def g(v, acc=[]):
            acc.append(v)
            return len(acc)

        return g

    def call(f):
        a = f(P)
        a(1)
        b = f(P)
        return (b(1), a(1))

    return W(f, [], call, call)


@world
def ret_closure_py():

    def f(x, k):
        n = 0

        def g():
            nonlocal n
            n += k
            return n

        return g

    def call(f):
        a = f(P, 1)
        a()
        b = f(P, 1)
        return (a(), b())

    return W(f, [], call, call)


@world
def closure_tensor():

    def f(x):
        h = x * 2

        def g(y):
            return y + h

        return g

    def call(f):
        a = f(P)
        b = f(N)
        return (a(P), b(P), a(N))

    return W(f, [], call, call)


@world
def closure_grad():
    w = torch.ones(2, requires_grad=True)

    def f(x):
        h = x * w
        return lambda y: (y * h).sum()

    def call(f):
        w.grad = None
        a = f(P)
        a(3 * P).backward()
        return w.grad

    return W(f, [], call, call)


@world
def two_share():

    def f(x):
        n = 0

        def inc():
            nonlocal n
            n += 1

        def get():
            return n

        inc()
        return (inc, get)

    def call(f):
        i, g = f(P)
        i()
        i2, g2 = f(P)
        i2()
        i2()
        return (g(), g2())

    return W(f, [], call, call)


@world
def recursive():

    def f(x):

        def fact(n):
            return 1 if n < 2 else n * fact(n - 1)

        return fact

    def call(f):
        a = f(P)
        b = f(P)
        return (a(5), a is b, a.__closure__[0].cell_contents is a)

    return W(f, [], call, call)


@world
def mutual():

    def f(x):

        def even(n):
            return n == 0 or odd(n - 1)

        def odd(n):
            return n != 0 and even(n - 1)

        return even

    def call(f):
        return (f(P)(4), f(P)(3))

    return W(f, [], call)


@world
def outer_cell():
    total = [0]
    k = 1

    def f(x):

        def g():
            nonlocal k
            k += 1
            total.append(k)
            return k

        return g

    def call(f):
        a = f(P)
        a()
        b = f(P)
        b()
        return (k, total)

    return W(f, [total], call, call)


@world
def loop_fns():

    def f(x):
        gs = []
        for i in range(3):
            gs.append(lambda y, i=i: y * i + x)
        return gs

    def call(f):
        a = f(P)
        return [g(P) for g in a]

    return W(f, [], call, call)


@world
def wraps():

    def deco(fn):

        @functools.wraps(fn)
        def inner(*a):
            return fn(*a) + 1

        return inner

    def f(x):

        @deco
        def g(y):
            return y * x

        return g

    def call(f):
        a = f(P)
        return (a(P), a.__name__, a.__wrapped__(P))

    return W(f, [], call, call)


@world
def helper_makes():

    def make(k):

        def g(y):
            return y * k

        return g

    def f(x):
        return (make(x.sum()), make(2))

    def call(f):
        a, b = f(P)
        c, d = f(N)
        return (a(P), b(P), c(P), b is d)

    return W(f, [], call, call)


@world
def cls_super():

    class B:
        def m(s):
            return 1

    def f(x):

        class C(B):
            k = {}

            def __init__(s):
                super().__init__()
                s.h = x

            def m(s):
                return super().m() + 1

        return C()

    def call(f):
        a = f(P)
        b = f(N)
        a.k["a"] = 1
        return (a.m(), b.m(), a.h, b.h, b.k, isinstance(a, type(b)))

    return W(f, [], call, call)


@world
def cls_two():

    def f(x):

        class A:
            pass

        class B(A):
            def mk(s):
                return A()

        a, b = (A(), B())
        a.h = x
        return (a, b, A, B)

    def call(f):
        a, b, A, B = f(P)
        return (type(a) is A, type(b) is B, issubclass(B, A), type(b.mk()) is A, type(f(P)[0]) is A)

    return W(f, [], call, call)


@world
def cls_prop():

    def f(x):

        class A:
            __slots__ = ("h",)

            def __init__(s, h):
                s.h = h

            @property
            def d(s):
                return s.h * 2

            @staticmethod
            def st(k):
                return k + 1

            @classmethod
            def mk(cls, h):
                return cls(h)

        return A.mk(x)

    def call(f):
        a = f(P)
        return (a.d, a.st(1), type(a.mk(N)) is type(a), a.mk(N).h)

    return W(f, [], call, call)


@world
def cls_abc():

    class B(abc.ABC):
        @abc.abstractmethod
        def m(s): ...

    def f(x):

        class A(B):
            def m(s):
                return x

        return A()

    def call(f):
        a = f(P)
        return (a.m(), isinstance(a, B))

    return W(f, [], call, call)


@world
def cls_in_list():
    o = Box()
    o.l = []

    def f(x):

        class R:
            def __init__(s, v):
                s.v = v

        if x.sum() > 0:
            o.l = [R(x), R(x + 1)]
        return len(o.l)

    def call(f):
        f(P)
        return ([type(r).__name__ for r in o.l], type(o.l[0]) is type(o.l[1]), o.l[1].v)

    return W(f, [], call, call, N, call)


@world
def fn_attr_self():
    o = Box()

    def f(x):

        def cb():
            return o.n

        o.cb = cb
        o.n = x
        return o.cb()

    def call(f):
        f(P)
        return (o.cb(), o.cb.__name__)

    return W(f, [], call, call)


@world
def kwdef():

    def f(x):

        def g(y, *, k=[1], z=x):
            k.append(y)
            return (len(k), z)

        return g

    def call(f):
        a = f(P)
        a(1)
        return (a(1), f(P)(1))

    return W(f, [], call, call)


@world
def gen_fn():

    def f(x):

        def g():
            yield x
            yield 2

        return g

    def call(f):
        return list(f(P)())

    return W(f, [], call, call)


@pytest.mark.parametrize("make", WORLDS)
def test_each_call_makes_its_own_functions_and_classes(make):
    agree(make, programs=4)


def test_method_of_an_object_that_is_made():
    def f(x):
        class A:
            def m(self):
                return x

        return A().m

    static = dy2st.to_static(f)
    assert torch.equal(static(P)(), P) and torch.equal(static(N)(), N)
    assert type(static(P).__self__).__name__ == "A"
