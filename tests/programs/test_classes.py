"""Objects of the user's classes: how they are made, keyword dicts, ``super``, containers with methods of their own, enums, metaclasses."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import weakref
from typing import Any, NamedTuple

import pytest
import torch

from tests.programs.state import agree_with_state, class_state

P, N = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])
CASES: list[Any] = []


def case(make: Any) -> Any:
    CASES.append(make)
    return make


@case
def keywords_pop_branch():
    def go(x, **kw):
        if x.sum() > 0:
            kw.pop("skip")
        return x * (1 + len(kw))

    def f(x):
        return go(x, skip=True, a=2)

    return f, lambda: None, [N, P]


@case
def keywords_loop():
    def inner(x, skip=True):
        return x if skip else x * 2

    def outer(x, **kw):
        kw.pop("skip", None)
        return inner(x, skip=False, **kw)

    def f(x):
        while x.sum() < 50 and x.sum() > 0:
            x = outer(x, skip=True)
        return x

    return f, lambda: None, [N, P]


@case
def keywords_branch_call():
    def inner(x, skip=True):
        return x if skip else x * 2

    def outer(x, **kw):
        kw.pop("skip", None)
        return inner(x, skip=False, **kw)

    def f(x):
        if x.sum() > 0:
            x = outer(x, skip=True)
        return x

    return f, lambda: None, [N, P]


@case
def keywords_set():
    def go(x, a=0, scale=1.0):
        return x * scale + a

    def wrap(x, **kw):
        kw["scale"] = 2.0
        if x.sum() > 0:
            kw["a"] = x
        return go(x, **kw)

    def f(x):
        return wrap(x, a=1)

    return f, lambda: None, [N, P]


@case
def keywords_del():
    def wrap(x, *args, **kw):
        del kw["a"]
        args = args + (x,)
        if x.sum() > 0:
            kw.update(b=x)
            kw.setdefault("c", 3)
        return kw, args

    def f(x):
        return wrap(x, 1, 2, a=1, d=5)

    return f, lambda: None, [N, P]


@case
def keywords_root():
    def f(x, **kw):
        kw["scale"] = 2.0
        if x.sum() > 0:
            kw["b"] = x
        return kw

    return f, lambda: None, [N, P]


@case
def keywords_method_loop():
    class M(torch.nn.Module):
        def forward(self, x):
            for i in range(2):
                x = self.go(x, i=i, s=2)
            while x.sum() < 100 and x.sum() > 0:
                x = self.go(x, i=3, s=2)
            return x

        def go(self, x, **kw):
            i = kw.pop("i")
            kw["k"] = i
            return x * kw["k"] * kw.pop("s") + len(kw)

    m = M()
    return m, lambda: None, [N, P]


@case
def keywords_init():
    class C:
        def __init__(self, x, **kw):
            self.x = x
            self.s = kw.pop("s", 1)
            self.kw = kw

    def f(x):
        if x.sum() > 0:
            c = C(x, s=3, t=4)
        else:
            c = C(x, t=5)
        return c.x * c.s * c.kw["t"]

    return f, lambda: None, [N, P]


@case
def keywords_decor():
    def deco(g):
        @functools.wraps(g)
        def inner(*args, **kw):
            kw.setdefault("s", 2)
            if args[0].sum() > 0:
                kw["s"] = 5
            return g(*args, **kw)

        return inner

    @deco
    def h(x, s=1):
        return x * s

    def f(x):
        return h(x) + h(x, s=9)

    return f, lambda: None, [N, P]


@case
def keywords_mutable_default():
    def h(x, acc=[]):
        acc.append(x)
        return len(acc)

    def f(x):
        n = h(x)
        if x.sum() > 0:
            n = h(x)
        return n

    return f, lambda: h.__defaults__, [N, P]


@case
def super_cls():
    class A:
        @classmethod
        def names(cls):
            return {"a"}

        @classmethod
        def make(cls, x):
            return x + 1

    class B(A):
        @classmethod
        def names(cls):
            return {"x"} | super(B, cls).names()

        @classmethod
        def make(cls, x):
            return super().make(x) * 2

    def f(x):
        y = B.make(x)
        return y * len(B.names()) if y.sum() > 0 else x

    return f, lambda: None, [N, P]


@case
def super_prop():
    class A:
        def __init__(self):
            self.n = 0

        @property
        def v(self):
            self.n += 1
            return self.n

        @v.setter
        def v(self, x):
            self.n = x

        @staticmethod
        def st(x):
            return x * 2 if x.sum() > 0 else x

    class B(A):
        @property
        def v(self):
            return super().v * 10

        @v.setter
        def v(self, x):
            super(B, type(self)).v.fset(self, x + 1)

        @staticmethod
        def st(x):
            return super(B, B).st(x) + 1

        def go(self, x):
            return super(B, self).st(x)

    b = B()

    def f(x):
        if x.sum() > 0:
            b.v = 5
        return x * b.v + b.st(x) + b.go(x)

    return f, lambda: b, [N, P]


@case
def super_new():
    class A:
        def __new__(cls, *a):
            o = super().__new__(cls)
            o.tag = 1
            return o

        def __init__(self, x):
            self.x = x

    class B(A):
        def __init__(self, x):
            super().__init__(x * 2)

    def f(x):
        b = B(x) if x.sum() > 0 else A(x)
        return b.x * b.tag

    return f, lambda: None, [N, P]


@case
def super_mro():
    class Base:
        def go(self, x):
            return x

    class L(Base):
        def go(self, x):
            return super().go(x + 1)

    class R(Base):
        def go(self, x):
            return super().go(x * 2 if x.sum() > 0 else x)

    class D(L, R):
        def go(self, x):
            return super().go(x) + 1

    d = D()

    def f(x):
        return d.go(x)

    return f, lambda: None, [N, P]


@case
def super_subclass():
    class A:
        reg = []

        def __init_subclass__(cls, **kw):
            super().__init_subclass__(**kw)
            cls.tag = len(cls.__name__)

    def f(x):
        class B(A):
            pass

        return x * B.tag if x.sum() > 0 else x

    return f, lambda: None, [N, P]


@case
def super_init_mixin():
    class M1:
        def __init__(self, **kw):
            super().__init__(**kw)
            self.a = 1

    class M2:
        def __init__(self, b=0, **kw):
            super().__init__(**kw)
            self.b = b

    class C(M1, M2):
        def __init__(self, x, **kw):
            super().__init__(**kw)
            self.x = x

    def f(x):
        c = C(x, b=4)
        return c.x * c.a * c.b if x.sum() > 0 else c.x

    return f, lambda: None, [N, P]


@case
def containers_getitem():
    class Made(collections.OrderedDict):
        def __getitem__(self, k):
            return super().__getitem__(k)()

    T = Made({"prelu": torch.nn.PReLU, "relu": torch.nn.ReLU})

    def f(x):
        act = T["relu"]
        return act(x) if x.sum() > 0 else x

    return f, lambda: None, [N, P]


@case
def containers_setitem():
    class Made(dict):
        def __setitem__(self, k, v):
            super().__setitem__(k, v)
            dict.__setitem__(self, "n", self.get("n", 0) + 1)

    T = Made()

    def f(x):
        if x.sum() > 0:
            T["a"] = x
        return x * T.get("n", 0)

    return f, lambda: T, [N, P, N, P]


@case
def containers_attr():
    class AD(dict):
        def __getattr__(self, k):
            try:
                return self[k]
            except KeyError:
                raise AttributeError(k)

        def __setattr__(self, k, v):
            self[k] = v

    o = AD(a=1)

    def f(x):
        if x.sum() > 0:
            o.a = 2
            o.t = x
        return x * o.a

    return f, lambda: o, [N, P, N]


@case
def containers_list():
    class L(list):
        def append(self, v):
            super().append(v)
            self.n = getattr(self, "n", 0) + 1

        def __len__(self):
            return super().__len__() + 100

    o = L()

    def f(x):
        o.append(x)
        return x * len(o) if x.sum() > 0 else x

    return f, lambda: (list.__len__(o), vars(o)), [N, P, N]


@case
def containers_unbound():
    def f(x):
        d = {}
        dict.__setitem__(d, "a", x)
        if x.sum() > 0:
            dict.update(d, b=x)
            dict.__setitem__(d, "c", 1)
        l = [x]
        if x.sum() > 0:
            list.append(l, x * 2)
        return d, len(l)

    return f, lambda: None, [N, P]


@case
def containers_made():
    class L(list):
        def total(self):
            s = 0
            for v in self:
                s = s + v
            return s

    def f(x):
        l = L([x, x])
        if x.sum() > 0:
            l.append(x)
        return l.total()

    return f, lambda: None, [N, P]


@case
def containers_missing():
    class D(dict):
        def __missing__(self, k):
            self[k] = v = len(self) * 10
            return v

    d = D()

    def f(x):
        if x.sum() > 0:
            x = x * d["a"]
        return x + d["b"]

    return f, lambda: d, [N, P, N]


@case
def special_two():
    class S:
        def __init__(self, ts):
            self.ts = ts

        def __repr__(self):
            return f"S({self.ts})"

    def solve(x):
        if x.sum() > 9:
            return S(x)
        else:
            return S(ts=x + 1)

    def f(x):
        return solve(x).ts

    return f, lambda: None, [P, N, P * 10]


@case
def special_effects():
    log = []

    class S:
        def __init__(self, v):
            self.v = v

        def __repr__(self):
            log.append("r")
            return "S"

        def __eq__(self, o):
            log.append("e")
            return self.v == o.v

        def __hash__(self):
            log.append("h")
            return 3

        def __bool__(self):
            log.append("b")
            return True

        def __len__(self):
            log.append("l")
            return 2

    a, b = S(1), S(2)

    def f(x):
        s = a if x.sum() > 0 else b
        o = S(3)
        if x.sum() > 1:
            o = a
        return x * s.v + o.v

    return f, lambda: list(log), [P, N, P]


@case
def special_call():
    class S:
        def __init__(self):
            self.n = 0

        def __call__(self, x):
            self.n = self.n + 1
            return x * self.n

        def __contains__(self, v):
            self.n += 10
            return v == 3

        def __iter__(self):
            self.n += 100
            yield 1
            yield 2

        def __getitem__(self, i):
            self.n += 1000
            return i

    o = S()

    def f(x):
        if x.sum() > 0:
            x = o(x)
        if 3 in o:
            x = x + 1
        for v in o:
            x = x + v
        return x + o[4]

    return f, lambda: o, [P, N, P]


@case
def special_uninit():
    class S:
        __slots__ = ("a", "b")

        def __repr__(self):
            return f"{self.a}{self.b}"

        def __eq__(self, o):
            return self.b == o.b

        def __hash__(self):
            return hash(self.b)

    def f(x):
        s = S()
        if x.sum() > 0:
            s.a = x
        else:
            s.a = x * 2
        t = s if x.sum() > 0 else S()
        return s.a, t is s

    return f, lambda: None, [P, N]


@dataclasses.dataclass(frozen=True)
class Fz:
    a: object
    b: object = 2

    def with_a(self, a):
        return dataclasses.replace(self, a=a)


@case
def dataclasses_frozen():
    def f(x):
        s = Fz(x)
        if x.sum() > 0:
            s = s.with_a(x * 2)
        return s, s.a * s.b

    return f, lambda: None, [P, N]


@dataclasses.dataclass(frozen=True)
class Fp:
    a: object
    c: object = None

    def __post_init__(self):
        object.__setattr__(self, "c", self.a * 2)


@dataclasses.dataclass(slots=True)
class Sl:
    a: object
    l: list = dataclasses.field(default_factory=list)


@case
def dataclasses_slots():
    def f(x):
        s = Sl(x)
        if x.sum() > 0:
            s.a = x * 3
            s.l.append(x)
        return s.a, len(s.l), s

    return f, lambda: None, [P, N]


class NT(NamedTuple):
    a: object
    b: object = 1

    @property
    def both(self):
        return self.a * self.b


@case
def named_tuple_basic():
    def f(x):
        n = NT(x)
        if x.sum() > 0:
            n = n._replace(b=3)
        return n, n.both

    return f, lambda: None, [P, N]


class Co(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def twice(self):
        return self.value * 2


@case
def enum_basic():
    def f(x):
        c = Co.RED if x.sum() > 0 else Co.BLUE
        return c, x * c.twice, c is Co.RED, c.name, Co(1) == c

    return f, lambda: None, [P, N]


@case
def metaclass_meta():
    class Meta(type):
        def __new__(m, n, b, d):
            c = super().__new__(m, n, b, d)
            c.tag = 5
            return c

        def __call__(cls, *a):
            o = super().__call__(*a)
            cls.count = getattr(cls, "count", 0) + 1
            return o

        @property
        def p(cls):
            return cls.tag * 2

    class C(metaclass=Meta):
        def __init__(self, x):
            self.x = x

    def f(x):
        o = C(x)
        return o.x * C.p if x.sum() > 0 else o.x

    return f, lambda: class_state(C), [P, N]


@case
def metaclass_singleton():
    class Meta(type):
        inst = {}

        def __call__(cls, *a):
            if cls not in Meta.inst:
                Meta.inst[cls] = super().__call__(*a)
            return Meta.inst[cls]

    class C(metaclass=Meta):
        def __init__(self):
            self.n = 0

    C()

    def f(x):
        if x.sum() > 0:
            C().n += 1
        return x * C().n

    return f, lambda: C(), [P, N, P]


@case
def weakref_ref():
    class C:
        pass

    o = C()
    o.v = 1
    r = weakref.ref(o)

    def f(x, o=o):
        if x.sum() > 0:
            r().v += 1
        return x * r().v

    return f, lambda: o, [P, N, P]


@case
def manager_state():
    class CM:
        def __init__(self):
            self.depth = 0
            self.log = []

        def __enter__(self):
            self.depth += 1
            self.log.append(self.depth)
            return self

        def __exit__(self, *a):
            self.depth -= 1

    c = CM()

    def f(x):
        with c as d:
            if x.sum() > 0:
                with c:
                    x = x * d.depth
        return x * (d.depth + 1)

    return f, lambda: c.depth, [P, N, P]


@case
def manager_gen():
    class S:
        v = 0

    s = S()

    @contextlib.contextmanager
    def scope(v):
        old, s.v = s.v, v
        try:
            yield s
        finally:
            s.v = old

    def f(x):
        if x.sum() > 0:
            with scope(3) as t:
                x = x * t.v
        with scope(2):
            y = x * s.v
        return y + s.v

    return f, lambda: (s, class_state(S)), [P, N, P]


@case
def exceptions_torch():
    def cap():
        try:
            return torch.cuda.is_current_stream_capturing()
        except Exception:
            return False

    def dev():
        try:
            return torch.device("foo").type
        except RuntimeError:
            return "cpu"

    def dt():
        try:
            torch.empty(3, device="cuda")
            return "cuda"
        except Exception:
            return "cpu"

    def f(x):
        return (x * 2 if x.sum() > 0 else x), cap(), dev(), dt()

    return f, lambda: None, [P, N]


@case
def exceptions_branch_torch():
    def f(x):
        if x.sum() > 0:
            try:
                d = torch.device("foo")
            except RuntimeError:
                d = torch.device("cpu")
            x = x.to(d) * 2
        return x

    return f, lambda: None, [P, N]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_classes_and_objects_do_what_they_do_in_eager(make):
    agree_with_state(make)
