"""Which objects are one: containers and objects from outside that are chosen, replaced, swapped, shared and given back."""

from __future__ import annotations

import collections
import dataclasses
import functools
import operator
import types

import pytest
import torch

import dy2st
from tests.oracle import agree as agree_outcomes
from tests.worlds import World, agree, calls, registry

P, N, Z = torch.ones(2), -torch.ones(2), torch.zeros(2)
WORLDS, world = registry()


class Box:
    """An object of the user's."""


@world
def arg_is_attribute():
    o = Box()
    o.cache = {"k": torch.zeros(2)}

    def f(x, m):
        o.cache["k"] = x
        return m["k"] + 1

    return World(f, [o], [lambda f: f(P, o.cache), lambda f: f(N, {"k": Z}), lambda f: f(N, o.cache)])


@world
def attribute_replaced_behind_a_first_iteration_of_its_own():
    o = Box()
    o.best = {"w": torch.zeros(2)}

    def f(x):
        o.bad, o.stop = 0, False
        for _ in range(3):
            if x.sum() < 3:
                o.best = {"w": x}
            else:
                o.bad += 1
                if o.bad >= 2:
                    o.stop = True
            if o.stop:
                break
            x = x * 2
        return x

    return World(f, [o, o.best], calls(5 * P, P, 5 * P, 0.2 * P))


@world
def made_list_and_what_a_loop_makes_of_it():
    def f(x):
        m = [x]
        o = m
        while x.sum() < 5:
            m = [x + 1]
            x = x + 1
        return m, o, m is o

    return World(f, [], calls(5 * P, P, 4 * P))


@world
def made_list_asked_for_in_the_loop():
    def f(x):
        m = {"k": x}
        o, same = m, 0
        while x.sum() < 5:
            same += int(m is o)
            if x.sum() > 1:
                m = {"k": x + 1}
            x = x + 1
        return same, m

    return World(f, [], calls(5 * P, P, Z))


@world
def made_list_changed_as_another():
    def f(x):
        m = [x]
        o = m
        while x.sum() < 5:
            m = [x + 1]
            x = x + 1
        m[0] = x * 7
        o.append(x)
        return m, o

    return World(f, [], calls(5 * P, P, 4 * P))


@world
def made_list_after_two_loops():
    def f(x):
        m = [x]
        o = m
        while x.sum() < 0:
            m = [x + 1]
            x = x + 1
        while x.sum() < 5:
            m = [x + 2]
            x = x + 2
        return m is o, m

    return World(f, [], calls(5 * P, P, N, 9 * N))


@world
def arg_is_attribute_later():
    o = Box()
    o.cache = {"k": torch.zeros(2)}

    def f(x, m):
        o.cache["k"] = x
        return m["k"] + 1

    return World(
        f, [o], [lambda f: f(N, {"k": torch.zeros(2)}), lambda f: f(P, o.cache), lambda f: f(N, {"k": Z}), lambda f: f(N, o.cache)]
    )


@world
def arg_is_closure_list():
    acc = []

    def f(x, items):
        acc.append(x)
        if x.sum() > 0:
            items.append(x * 2)
        return len(items), len(acc), items is acc

    return World(f, [acc], [lambda f: f(P, acc), lambda f: f(N, acc), lambda f: f(N, [P]), lambda f: f(P, acc)])


@world
def choice_of_externals():
    o = Box()
    o.a = [torch.zeros(2)]
    o.b = [torch.ones(2)]

    def f(x):
        t = o.a if x.sum() > 0 else o.b
        t[0] = t[0] + x
        if x[0] > 2:
            o.a = o.b
        return t, t is o.a

    return World(f, [o], calls(P, N, P * 3, P, N))


@world
def swap_in_loop():
    o = Box()
    o.a = {"n": 0}
    o.b = {"n": 10}

    def f(x):
        for i in range(int(x.sum())):
            o.a, o.b = o.b, o.a
            o.a["n"] += 1
        return o.a["n"], o.b["n"]

    la, lb = o.a, o.b
    return World(f, [o, la, lb], calls(P, torch.tensor(0.0), torch.tensor(3.0), torch.tensor(1.0)))


@world
def two_attrs_one_list_cow():
    shared = [torch.zeros(2)]

    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.x = shared
            self.y = shared

        def forward(self, v):
            if v.sum() > 0:
                self.x = list(self.x)
            self.x[0] = self.x[0] + v
            return self.y[0]

    m = M()
    return World(m, [m, shared], calls(N, P, N, P))


@world
def tensor_reset():
    o = Box()
    o.h = torch.zeros(2)
    o.init = torch.ones(2)

    def f(x):
        if x.sum() > 0:
            o.h = o.init
        else:
            o.h = o.h + x
        return o.h is o.init, o.h

    def alias(f):
        o.init = o.h
        return f(N)

    return World(f, [o], [*calls(P, N, N, P), alias, *calls(P, N)])


@world
def mutable_default():
    def f(x, past=[]):
        past.append(x)
        if x.sum() > 0:
            return past
        return past[-1]

    return World(f, [f.__defaults__ if 0 else 0], calls(P, N, P))


@world
def list_rebind_vs_extend():
    o = Box()
    o.l = [1, 2]

    def f(x):
        old = o.l
        if x.sum() > 0:
            o.l = o.l + [3]
        else:
            o.l += [4]
        return old is o.l, len(old), len(o.l)

    return World(f, [o], calls(P, N, N, P))


@world
def args_chosen():
    a, b = {"v": torch.zeros(2)}, {"v": torch.ones(2)}

    def f(x, p, q):
        r = p if x.sum() > 0 else q
        r["v"] = r["v"] * 2 + x
        return r, p["v"], q["v"]

    return World(
        f, [a, b], [lambda f: f(P, a, b), lambda f: f(N, a, b), lambda f: f(N, a, a), lambda f: f(P, b, a), lambda f: f(P, b, b)]
    )


@world
def kept_old():
    o = Box()
    o.t = [torch.zeros(2)]

    def f(x):
        keep = None
        if x.sum() > 0:
            keep = o.t
            o.t = [x]
        o.t[0] = o.t[0] + 1
        if keep is not None:
            keep[0] = keep[0] - 1
        return keep

    return World(f, [o], calls(P, N, P, P, N))


@world
def node_choice():
    class Node:
        def __init__(s, v):
            s.v = v
            s.next = None

    a, b = Node(torch.zeros(2)), Node(torch.ones(2))
    a.next = b

    def f(x):
        n = a
        if x.sum() > 0:
            n = n.next
        n.v = n.v + x
        return n.v

    return World(f, [a, b], calls(P, N, P))


@world
def ring_walk():
    class Node:
        def __init__(s, v):
            s.v = v
            s.next = None

    a, b = Node(torch.zeros(2)), Node(torch.ones(2))
    a.next = b
    b.next = a

    def f(x):
        n = a
        while x.sum() > 0:
            n.v = n.v + x
            n = n.next
            x = x - 0.6
        return n.v, n

    return World(f, [a, b], calls(P, N, P * 2))


@world
def registry():
    reg = {}

    def f(x, name):
        d = reg.setdefault(name, {"n": 0, "t": torch.zeros(2)})
        if x.sum() > 0:
            d["n"] += 1
            d["t"] = d["t"] + x
        return d

    return World(
        f, [reg], [lambda f: f(P, "a"), lambda f: f(N, "a"), lambda f: f(P, "b"), lambda f: f(P, "a"), lambda f: f(N, "c")]
    )


@world
def nested_lists():
    o = Box()
    o.stack = [[torch.zeros(1)], [torch.ones(1)]]

    def f(x):
        top = o.stack[-1]
        if x.sum() > 0:
            top.append(x.sum()[None])
        else:
            o.stack.pop() if len(o.stack) > 1 else None
        return sum(len(s) for s in o.stack)

    return World(f, [o], calls(P, P))


@world
def nested_dict_replaced():
    o = Box()
    o.cfg = {"a": {"b": torch.zeros(2)}}
    inner = o.cfg["a"]

    def f(x):
        if x.sum() > 0:
            o.cfg["a"] = {"b": x}
        o.cfg["a"]["b"] = o.cfg["a"]["b"] + 1
        return inner["b"]

    return World(f, [o, inner], calls(N, P, N, N))


@world
def swap_args_local():
    l = [torch.zeros(2)]

    def f(x, a, b):
        if x.sum() > 0:
            a, b = b, a
        a.append(x)
        return a, b

    return World(f, [l], [lambda f: f(P, l, [N]), lambda f: f(N, l, [N]), lambda f: f(N, l, l)])


@world
def dataclass_arg_is_attr():
    @dataclasses.dataclass
    class S:
        h: object
        c: object

    s0 = S(torch.zeros(2), torch.ones(2))
    o = Box()
    o.s = s0

    def f(x, s):
        o.s.h = o.s.h + x
        return s.h

    return World(f, [o, s0], [lambda f: f(P, s0), lambda f: f(P, S(Z, Z)), lambda f: f(P, o.s)])


@world
def best_of():
    o = Box()
    o.best = None
    o.cands = [{"s": torch.tensor(1.0)}, {"s": torch.tensor(3.0)}, {"s": torch.tensor(2.0)}]

    def f(x):
        best = None
        for c in o.cands:
            if best is None or c["s"] * x.sum() > best["s"] * x.sum():
                best = c
        best["s"] = best["s"] + 1
        o.best = best
        return best is o.cands[0]

    return World(f, [o], calls(P, N, P))


@world
def publish_fresh():
    o = Box()
    o.buf = []

    def f(x):
        out = []
        for i in range(3):
            if x.sum() > i:
                out.append(x * i)
                o.buf = out
        return out, o.buf is out

    return World(f, [o], calls(P * 0.3, P, N, P * 3))


@world
def alias_then_copy():
    o = Box()
    o.a = [1]
    o.b = o.a

    def f(x):
        if x.sum() > 0:
            o.a.append(2)
        n = len(o.b)
        o.b = [*o.b]
        return n, o.a is o.b

    return World(f, [o], calls(P, N, P))


@world
def cur_pointer():
    st = {"m": {"v": torch.zeros(2)}, "cur": None}
    st["cur"] = st["m"]

    def f(x):
        if x.sum() > 0:
            st["cur"] = {"v": x}
        st["cur"]["v"] = st["cur"]["v"] + 1
        return st["m"]["v"]

    def back(f):
        st["cur"] = st["m"]
        return f(N)

    return World(f, [st], [*calls(N, P, N), back, *calls(P)])


@world
def reverse_outer_list_of_lists():
    l1, l2 = [torch.zeros(2)], [torch.ones(2)]
    o = Box()
    o.ls = [l1, l2]

    def f(x):
        if x.sum() > 0:
            o.ls.reverse()
        o.ls[0][0] = o.ls[0][0] + x
        return l1[0], o.ls[0] is l1

    return World(f, [o, l1, l2], calls(P, N, P, P))


@world
def class_dicts():
    class Base:
        reg = {}

        def put(self, k, v):
            self.reg[k] = v

    class A(Base):
        pass

    class B(Base):
        reg = {}

    a, b = A(), B()

    def f(x):
        t = a if x.sum() > 0 else b
        t.put("x", x * 2)
        return len(a.reg), len(b.reg)

    return World(f, [a, b, Base.reg, B.reg], calls(P, N, P))


@world
def raise_mid_write():
    o = Box()
    o.h = [torch.zeros(2)]

    def f(x):
        try:
            o.h[0] = o.h[0] + x
            if x.sum() > 0:
                raise ValueError("pos")
            o.h.append(x)
        finally:
            o.n = len(o.h)
        return o.h

    return World(f, [o], calls(P, N))


@world
def pick_helper():
    items = {"a": [torch.zeros(2)], "b": [torch.ones(2)]}

    def pick(x):
        if x.sum() > 0:
            return items["a"]
        return items["b"]

    def f(x):
        l = pick(x)
        l.append(x)
        if len(l) > 2:
            del l[0]
        return l

    return World(f, [items], calls(P, N, P, N))


@world
def snapshot_appended():
    o = Box()
    o.hist = []

    def f(x):
        snap = {"x": x}
        o.hist.append(snap)
        if x.sum() > 0:
            snap["x"] = x * 2
        return snap

    return World(f, [o], calls(P, N, P))


@world
def flag_copy():
    o = Box()
    o.x = [torch.zeros(2)]

    def f(x, flag):
        y = o.x
        if flag:
            y = [t.clone() for t in y]
        if x.sum() > 0:
            y[0] = y[0] + x
        return y is o.x, y

    return World(f, [o], [lambda f: f(P, True), lambda f: f(P, False), lambda f: f(N, False), lambda f: f(N, True)])


@world
def object_swap():
    a = Box()
    a.v = 1
    b = Box()
    b.v = 2
    o = Box()
    o.cur = a
    o.other = b

    def f(x):
        if x.sum() > 0:
            o.cur, o.other = o.other, o.cur
        o.cur.v += 10
        return o.cur.v, o.other.v, o.cur is a

    return World(f, [o, a, b], calls(P, N, P, P))


@world
def module_pointer():
    m = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
    torch.nn.init.constant_(m["a"].weight, 1.0)
    torch.nn.init.constant_(m["b"].weight, 2.0)
    for k in m:
        torch.nn.init.zeros_(m[k].bias)
    o = Box()
    o.m = m
    o.cur = m["a"]

    def f(x):
        lin = o.cur
        y = lin(x)
        if y.sum() > 0:
            o.cur = o.m["b"]
        else:
            o.cur = o.m["a"]
        lin.count = getattr(lin, "count", 0) + 1
        return y

    return World(f, [o], calls(P, N, P, N))


@world
def default_alias():
    g = {"total": torch.zeros(2), "log": []}

    def add(v, sink=g["log"]):
        sink.append(v)
        return sink

    def f(x):
        s = add(x)
        if x.sum() > 0:
            s = add(x * 2, [])
        return len(s), s is g["log"], g["log"]

    return World(f, [g], calls(P, N, P))


@world
def tuple_holding_list():
    o = Box()
    o.p = (torch.zeros(2), [torch.ones(2)])

    def f(x):
        h, l = o.p
        if x.sum() > 0:
            l.append(x)
            o.p = (h + x, l)
        return o.p[1] is l, o.p

    return World(f, [o], calls(P, N, P))


@world
def dict_or_copy():
    d = {}

    def f(x):
        d["a"] = d.get("a", 0) + 1
        e = d if x.sum() > 0 else dict(d)
        e["b"] = 5
        return "b" in d, len(d), e is d

    return World(f, [d], calls(N, P, N))


@world
def outside_list_grows_in_loop():
    o = Box()
    o.q = [torch.zeros(2), torch.ones(2)]

    def f(x):
        q = o.q
        while len(q) < 5 and x.sum() > 0:
            q.append(q[-1] + x)
            x = x - 0.7
        return q is o.q, len(o.q)

    return World(f, [o], calls(P, N, P))


@world
def cow_loop():
    def f(x, kw):
        kw2 = kw
        for _ in range(int(x.abs().sum())):
            kw2 = {**kw2, "n": kw2["n"] + 1}
        kw2["n"] += 100
        return kw["n"], kw2["n"], kw is kw2

    return World(f, [0], [lambda f: f(P, {"n": 0}), lambda f: f(Z, {"n": 0}), lambda f: f(P * 2, {"n": 5})])


@world
def dict_in_dict_arg():

    ns = {"torch": torch, "state": {"n": 0, "h": torch.zeros(2)}, "other": None}
    ns["other"] = ns["state"]
    o = Box()
    o.ns = ns

    def f(x, st):
        st["n"] += 1
        if x.sum() > 0:
            st["h"] = x
        return o.ns["other"]["n"]

    return World(f, [ns["state"]], [lambda f: f(P, ns["state"]), lambda f: f(N, {"n": 7, "h": Z}), lambda f: f(N, ns["other"])])


@world
def shared_submodule():
    class L(torch.nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("m", torch.zeros(2))
            s.hist = []

        def forward(s, x):
            s.m = s.m * 0.5 + x
            s.hist.append(x)
            return s.m

    class M(torch.nn.Module):
        def __init__(s):
            super().__init__()
            s.a = L()
            s.b = s.a
            s.c = L()

        def forward(s, x):
            r = s.a(x)
            if x.sum() > 0:
                r = s.b(r)
            return r + s.c(x)

    m = M()

    def unshare(f):
        f.b = L()
        return f(P)

    def share(f):
        f.c = f.a
        return f(P)

    return World(m, [m], [*calls(P, N), unshare, *calls(N), share, *calls(N, P)])


@world
def closure_counters():
    def make():
        tot = torch.zeros(2)
        n = 0
        log = []

        def inc(v):
            nonlocal tot, n
            tot = tot + v
            n += 1
            log.append(n)

        def f(x):
            inc(x)
            if x.sum() > 0:
                inc(x * 2)
            return tot, n, log

        return f, (lambda: (tot, n, log))

    f, peek = make()

    class R:
        def __init__(s):
            pass

        @property
        def v(s):
            return peek()

    o = Box()
    o.get = 0
    return World(f, [o], [*calls(P, N, P), lambda g: (g(N), peek())])


@world
def row_by_index():
    o = Box()
    o.rows = [[torch.zeros(2)] for _ in range(3)]

    def f(x, k):
        i = int(k)
        o.rows[i][0] = o.rows[i][0] + x
        return o.rows[i] is o.rows[0]

    return World(f, [o], [lambda f: f(P, torch.tensor(0)), lambda f: f(P, torch.tensor(2)), lambda f: f(N, torch.tensor(0))])


@world
def dict_row_by_index():
    o = Box()
    o.rows = [{"v": torch.zeros(2)} for _ in range(3)]

    def f(x, k):
        r = o.rows[int(k)]
        r["v"] = r["v"] + x
        return r

    return World(f, [o], [lambda f: f(P, torch.tensor(0)), lambda f: f(P, torch.tensor(2)), lambda f: f(N, torch.tensor(0))])


@world
def copy_or_not():
    a = [torch.zeros(2)]
    b = [torch.ones(2)]

    def f(x, l):
        l2 = l
        if x.sum() > 0:
            l2 = l + [x]
        l2[0] = l2[0] + 1
        return l2, l

    return World(f, [a], [lambda f: f(P, a), lambda f: f(N, a), lambda f: f(P, b)])


@world
def rotate():
    o = Box()
    o.d = {}
    o.e = {}

    def f(x):
        o.d, o.e = o.e, {}
        o.d["k"] = x
        if x.sum() > 0:
            o.e = o.d
        return o.d is o.e

    return World(f, [o], calls(P, N, P, N))


@world
def pool_acquire():
    o = Box()
    o.cur = None
    pool = [Box(), Box()]
    for i, p in enumerate(pool):
        p.w = torch.full((2,), float(i))
        p.used = False

    def f(x):
        for p in pool:
            if not p.used and x.sum() > 0:
                p.used = True
                o.cur = p
                break
        else:
            o.cur = None
        return None if o.cur is None else o.cur.w + x

    return World(f, [o, pool], calls(P, N, P, P))


@world
def get_or_make():
    o = Box()
    o.m = {"a": [torch.zeros(1)]}

    def f(x, name="a"):
        l = o.m.get(name)
        if l is None:
            l = o.m[name] = []
        if x.sum() > 0:
            l.append(x.sum()[None])
        return torch.cat(l) if l else Z

    return World(f, [o], [lambda f: f(P), lambda f: f(N), lambda f: f(P, "b"), lambda f: f(N, "c")])


@world
def tensor_alias_inplace():
    t = torch.zeros(2)
    o = Box()
    o.t = t
    o.u = [t, t]

    def f(x):
        if x.sum() > 0:
            o.u[0].add_(x)
        else:
            o.u[1] = o.u[1] + x
        return o.u[0] is o.t, o.u[1] is o.t, o.t

    return World(f, [o, t], calls(P, N, P))


@world
def twice_chosen():
    o = Box()
    o.a = [torch.zeros(2)]
    o.b = [torch.ones(2)]

    def f(x):
        def which():
            return o.a if x.sum() > 0 else o.b

        which()[0] = x
        z = [which(), which()]
        z[0].append(x)
        return z

    return World(f, [o], calls(P))


@world
def functional_state_loop():
    o = Box()
    o.h = {"t": torch.zeros(2)}

    def f(x):
        h = o.h
        while x.sum() > 0:
            h = {"t": h["t"] + x}
            x = x - 0.6
        o.h = h
        return h["t"]

    return World(f, [o], calls(P, N, P))


@world
def dict_of_lists():
    o = Box()
    o.ls = {"a": [torch.zeros(2)], "b": []}

    def f(x):
        for k in ("a", "b"):
            if x.sum() > 0:
                o.ls[k] = [*o.ls[k], x]
        if x[0] > 2:
            o.ls["a"] = o.ls["b"]
        return o.ls

    return World(f, [o], calls(P, N, P * 3, P))


@world
def object_arg_alias():
    class A:
        def __init__(s):
            s.items = []

        def add(s, v):
            s.items.append(v)
            return s

    a = A()

    def f(x, b):
        t = a
        if x.sum() > 0:
            t = b
        return t.add(x) is a

    return World(f, [a], [lambda f: f(P, A()), lambda f: f(N, A()), lambda f: f(P, a), lambda f: f(N, a)])


@world
def linked():
    o = Box()
    o.x = None

    def f(x):
        old = o.x
        o.x = {"p": old, "v": x}
        if x.sum() > 0 and old is not None:
            o.x = old
        return o.x["v"]

    return World(f, [o], calls(P, N, P))


@world
def copy_in_loop():
    o = Box()
    o.items = [torch.zeros(2)]
    old = o.items

    def f(x):
        n = x.sum() * 1
        while n > 0:
            n = n - 1
            o.items = o.items.copy()
        return o.items is old

    return World(f, [o, old], calls(P, N, P))


@world
def maybe_replaced():
    o = Box()
    o.h = {"t": torch.zeros(2)}
    old = o.h

    def f(x):
        h = o.h
        for i in range(int(x.abs().sum())):
            if x.sum() > 0:
                h = {"t": h["t"] + x}
        o.h = h
        return h, h["t"], h is old

    return World(f, [o, old], calls(P, N, Z, P))


@world
def written_after():
    o = Box()
    o.h = {"t": torch.zeros(2)}
    old = o.h

    def f(x):
        h = o.h
        while x.sum() > 0:
            h = {"t": h["t"] + x}
            x = x - 0.6
        h["t"] = h["t"] + 1
        return h, o.h["t"]

    return World(f, [o, old], calls(P, N, P))


@world
def two_loops():
    o = Box()
    o.h = [torch.zeros(2)]

    def f(x):
        for i in range(int(x.abs().sum())):
            o.h = [o.h[0] + x]
            if x[0] > 0:
                break
        for j in range(int(x.abs().sum())):
            o.h = [o.h[0] * 2]
        return o.h

    return World(f, [o, o.h], calls(P, N, Z))


@world
def nested_loops():
    o = Box()
    o.h = [torch.zeros(2)]

    def f(x):
        n = int(x.abs().sum())
        for i in range(n):
            for j in range(n - 1):
                o.h = [o.h[0] + x]
        return o.h

    return World(f, [o, o.h], calls(P, N, Z, P * 0.5))


@world
def returned_and_kept():
    o = Box()
    o.t = {"a": torch.zeros(2)}

    def f(x):
        if x.sum() > 1:
            o.t = dict(o.t)
            return x, o.t
        return o.t

    return World(f, [o, o.t], calls(P, N, P))


@world
def three_ways():
    o = Box()
    o.t = {"a": torch.zeros(2)}
    o.u = None

    def f(x):
        if x.sum() > 1:
            o.t = o.u = {"a": x}
            return x, o.t, o.u
        elif x.sum() < 0:
            o.u = [x]
            return o.u
        return o.t

    return World(f, [o, o.t], calls(P, N, Z, P))


@world
def nested_ifs():
    o = Box()
    o.t = {"a": torch.zeros(2)}
    o.u = None

    def f(x):
        d = {"n": x}
        l = None
        if x.sum() > 1:
            if x[0] > 2:
                o.t = l = [d]
            else:
                l = [x]
                o.u = (l, d)
        return l, d

    return World(f, [o, o.t], calls(P, N, P * 3, P))


@world
def union_of_chosen():
    e0 = {"b": torch.ones(2)}
    st = Box()
    st.table = {"a": torch.zeros(2)}
    st.other = st
    g = {"e": e0}

    def f(x, ob):
        e = g["e"]
        if x[0] > 5:
            e = g["e"] = st.table
        ob.table = e | {"k": torch.zeros(2)}
        st.other.table |= {"a": x}
        return st.table

    return World(f, [st, g, e0], [lambda f: f(P, st), lambda f: f(P * 7, st), lambda f: f(P, Box())])


@world
def different_structures():
    o = Box()
    o.a = None
    o.b = None

    def f(x):
        if x.sum() > 0:
            h = {"x": x}
            o.a = h
            o.b = [h]
        else:
            h = {"x": x, "y": x}
            o.a = {"h": h}
            o.b = h
        h["x"] = h["x"] + 1
        return h

    return World(f, [o], calls(P, N, P))


@world
def two_keys_one_list():
    d = {}

    def f(x):
        if x.sum() > 0:
            l = d["a"] = []
        else:
            l = d["b"] = []
        l.append(1)
        l.append(x)
        return l

    return World(f, [d], calls(P, N, P))


@world
def older_in_fresh():
    o = Box()
    o.l = None
    o.m = None

    def f(x):
        l = [x] if x.sum() > 0 else [x * 2]
        if x[0] > 1:
            o.l = l
            k = {"q": l}
        else:
            o.m = l
            k = {"q": l}
        l.append(x)
        k["q"].append(x + 1)
        return k

    return World(f, [o], calls(P, N, P * 3))


@world
def replaced_before_and_in_a_loop():
    o = Box()
    o.items = [torch.zeros(2)]

    def f(x):
        n = int(x.abs().sum())
        if n > 0:
            o.items = [x]
        while n > 1:
            n = n - 1
            o.items = [o.items[0] + x]
        return o.items

    return World(f, [o, o.items], calls(Z, P, P * 0.5, Z))


@world
def an_exception_in_a_loop_of_python_after_a_write():
    o = Box()
    o.opt, o.items = torch.zeros(2), [1]

    def f(x):
        if x.sum() > 0:
            o.opt = None
        for _ in o.items:
            return missing  # noqa: F821

    return World(f, [o], calls(P, N))


@world
def chosen_keys_of_tables_from_outside():
    counts, lists = collections.Counter(), collections.defaultdict(list)

    def f(x, counts):
        k = "a" if x.sum() > 0 else "_x"
        counts.update([k, "a"])
        before = lists[k]
        lists[k] = x
        return before

    return World(f, [counts, lists], [lambda f, x=x: f(x, counts) for x in (P, N, P)])


@pytest.mark.parametrize("make", WORLDS)
def test_objects_are_those_of_eager_python(make):
    agree(make, programs=7)


def raised_before_the_first_is_replaced(o, x, n):
    for _ in range(n):
        if x.sum() > 0:
            raise ValueError
        o.items = o.items[1:]


def raised_after_an_iteration_that_may_replace(o, x, n):
    while n > 0:
        n = n - 1
        if x[0] > 0:
            o.table = dict(o.table)
        if x.sum() > 0:
            raise ValueError


def raised_in_a_loop_in_a_loop(o, x, n):
    for _ in range(n):
        for _ in range(n - 1):
            if x.sum() > 2:
                raise ValueError
            o.items = o.items[1:]
        if x[1] > 0:
            raise ValueError


def replaced_in_a_loop_in_a_loop(o, x, n):
    for _ in range(n):
        for _ in range(n - 1):
            o.items = o.items[1:]


def kept_before_it_is_replaced(o, x, n):
    for _ in range(n):
        o.other = o.items
        if x[0] > 0:
            o.items = o.items[1:]


def kept_after_it_is_replaced(o, x, n):
    for _ in range(n):
        try:
            if x.sum() > 0:
                raise ValueError
            o.items = o.items[1:]
        finally:
            o.other = o.items


def kept_on_one_way(o, x, n):
    for _ in range(n):
        if x[0] > 0:
            o.other = o.log
        else:
            o.other = [x]


def kept_as_a_variable(o, x, n):
    items, before = o.items, None
    for _ in range(n):
        before = items
        items = items[1:]
    return items, before


def returned_from_the_loop(o, x, n):
    for _ in range(n):
        if x.sum() > 0:
            return o.items
        o.items = o.items[1:]
    return o.items


def asked_in_the_loop(o, x, n):
    first, count = o.items, 0
    for _ in range(n):
        if o.items is first:
            count += 1
        if first is not o.items:
            count += 10
        o.items = o.items[1:]
    return count


def caught_around_the_loop(o, x, n):
    try:
        for _ in range(n):
            if x.sum() > 0:
                raise ValueError
            o.items = o.items[1:]
    except ValueError:
        o.other = x


def caught_around_loops(o, x, n):
    try:
        for _ in range(n):
            for _ in range(n - 1):
                if x.sum() > 0:
                    raise ValueError
                o.items = o.items[1:]
    except ValueError:
        o.other = x


@pytest.mark.parametrize(
    "body",
    [
        raised_before_the_first_is_replaced, raised_after_an_iteration_that_may_replace, raised_in_a_loop_in_a_loop, replaced_in_a_loop_in_a_loop,
        kept_after_it_is_replaced, kept_on_one_way, kept_as_a_variable, asked_in_the_loop, caught_around_the_loop, caught_around_loops,
    ],
)  # fmt: skip
def test_what_a_loop_replaces_is_the_object_from_outside_until_then(body):
    def make():
        o = Box()

        def f(x, n):
            return body(o, x, n)

        def call(x, n):
            def with_state(f):
                o.items, o.table, o.log, o.other = [P, N, P * 3], {"a": P}, [Z], None
                o.first = o.items, o.table
                return f(x, torch.tensor(n))

            return with_state

        mixed = torch.tensor([1.0, -2.0])
        return World(f, [o], [call(x, n) for n in (0, 1, 2, 3) for x in (N, P * 2, mixed, -mixed)])

    agree(make, programs=1)


def test_numbers_of_an_opaque_argument_become_inputs_after_all_arguments():
    def make():
        counts = collections.Counter()

        def f(x, counts, y):
            counts.update("a")
            return x + y * counts["a"]

        return World(f, [counts], [lambda f: f(P, counts, N) for _ in range(4)])

    agree(make, programs=3)


def test_a_manager_that_is_left_by_a_refusal_leaves_the_users_object_as_it_was():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.items = []

    m = Manager()
    m.items = items = [torch.zeros(2)]

    def f(x):
        with m:
            return memoryview(x.detach().numpy()).nbytes

    with pytest.raises(dy2st.Dy2stError):
        dy2st.to_static(f)(P)
    assert m.items is items and len(items) == 1


class _Base:
    registry: dict[str, Any] = {}
    limit = 2

    def scaled(self, v):
        return v * self.limit


class _Made(_Base):
    shared: list[Any] = []

    def __init__(self, h):
        self.h = h


def _shares(x):
    made = _Made(x)
    if x.sum() > 0:
        made.shared.append(x)
        made.registry["k"] = x
    return made.scaled(x), made.shared, _Made(x).registry


def _sets(x):
    made = _Made(x)
    if x.sum() > 0:
        type(made).limit = 5
    return made.scaled(x)


def _shadows(x):
    if x.sum() > 0:
        _Made(x).shared.clear()
    made = _Made(x)
    made.limit = made.limit + 1
    return made.scaled(x), made


@pytest.mark.parametrize("program", [_shares, _sets, _shadows])
@pytest.mark.parametrize("backend", ["native", "python"])
def test_what_a_class_holds_for_objects_that_are_made(program, backend, monkeypatch):
    def outcomes(function):
        found = []
        with monkeypatch.context() as patch:
            patch.setattr(_Made, "shared", [])
            patch.setattr(_Base, "registry", {})
            for number, sign in enumerate((1.0, -1.0, 2.0, -2.0, 1.0, -1.0, 3.0, -1.0)):
                if number == 2:
                    patch.setattr(_Base, "limit", 7)
                if number == 3:
                    patch.setattr(_Made, "shared", [1])
                if number == 4:
                    _Made.limit = 9
                if number == 6:
                    patch.setattr(_Base, "scaled", lambda self, v: v - 1)
                result = function(torch.full((2,), sign))
                parts = result if isinstance(result, tuple) else (result,)
                held = [any(part is value for value in (_Made.shared, _Base.registry)) for part in parts]
                found.append(
                    (parts[0].tolist(), held, len(_Made.shared), list(_Base.registry), _Made.limit, "limit" in vars(_Made))
                )
            if "limit" in vars(_Made):
                del _Made.limit
        return found

    assert outcomes(dy2st.to_static(program, backend=backend)) == outcomes(program)


def _marks(w, x):
    if x.sum() > 0:
        type(w).mark = x


def test_a_class_that_only_type_gives_keeps_what_it_has():
    for backend in ("native", "python"):

        class Marked:
            pass

        static, w = dy2st.to_static(_marks, backend=backend), Marked()
        for sign in (1.0, -1.0, 2.0, -2.0):
            static(w, torch.tensor(sign))
            assert Marked.mark.item() == abs(sign)


class _Keeper:
    def __init__(self, items, link=None):
        self.items, self.link = items, link


def _made_in_a_loop(x, held):
    count = torch.zeros(())
    while count < x.sum():
        count = count + 1
        return (_Keeper(held, None).link or _Keeper(held), count)
    return (held[:], x)


def _made_in_each_iteration(x, held):
    made = _Keeper(held)
    while x.sum() > 0:
        x = x - 1
        made = _Keeper(held, made.items)
    return made


def _of_one_of_two(x, held):
    made = _Keeper(held)
    while x.sum() > 0:
        x = x - 1
        made = _Keeper([x])
    return made.items[0]


@pytest.mark.parametrize("program", [_made_in_a_loop, _made_in_each_iteration, _of_one_of_two])
def test_containers_from_outside_in_objects_that_loops_make(program):
    def make():
        held = [torch.ones(2)]
        return World(
            program, [held], [lambda call, v=v: _shown(call(torch.full((2,), v), held), held) for v in (1.0, -1.0, 0.0, 2.0)]
        )

    agree(make)


def _shown(result, held):
    if isinstance(result, tuple):
        return [_shown(part, held) for part in result]
    if isinstance(result, _Keeper):
        return result.items is held, result.link is held
    return result


def _kept_by_object(x, n, table, made):
    if n > 0:
        table["k"] = x
    object.__setattr__(made, "table", table)
    return made.table is table, table


def _reduced_into(x, n, table, made):
    if n > 0:
        table["k"] = x

    def step(found, key):
        found[key] = x * 2
        return found

    result = functools.reduce(step, ["a", "b"], table)
    return result is table, result


def _through_operators(x, n, table, made):
    if n > 0:
        table["k"] = x
    tables = {}
    operator.setitem(tables, "q", table)
    taken = next(iter([]), table)
    return operator.is_(operator.getitem(tables, "q"), table), taken is table


@pytest.mark.parametrize("program", [_kept_by_object, _reduced_into, _through_operators])
def test_a_dict_with_keys_on_some_ways_is_passed_on(program):
    x = torch.ones(2)
    agree_outcomes(program, [(x, torch.tensor(n), {"a": x}, types.SimpleNamespace()) for n in (1, 0, 2)])


def test_a_list_that_an_iteration_may_replace():
    def program(given, n):
        before, j = given.ys, 0
        while True:
            j += 1
            if j > n:
                break
            if n == 2:
                given.ys = given.xs[1:]
        return given.ys is before, given.ys

    x = torch.ones(2)
    agree_outcomes(program, [(types.SimpleNamespace(xs=[x, x], ys=[]), torch.tensor(n)) for n in (1, 0, 2, 3)], programs=None)


class Unequal:
    """An object that nobody may compare with another."""

    __hash__ = None

    def __eq__(self, other):
        raise AssertionError("compared")


def test_a_loop_compares_no_objects():
    one, two = Unequal(), Unequal()

    def swapped(x, n):
        a, b = one, two
        for _ in range(n):
            a, b = b, a
        return a

    def put_in_attributes(x, n):
        o = Box()
        o.a, o.b = one, None
        for _ in range(n):
            if x.sum() > 0:
                o.b = o.a
        return o.b

    for function in (swapped, put_in_attributes):
        static = dy2st.to_static(function)
        for given in ((P, 0), (P, 1), (N, 2)):
            assert static(given[0], torch.tensor(given[1])) is function(*given)


@pytest.mark.parametrize("body", [kept_before_it_is_replaced, returned_from_the_loop])
def test_what_an_iteration_may_leave_in_two_places_is_refused(body):
    o = Box()
    o.items, o.other = [P, N], None
    static = dy2st.to_static(lambda x, n: body(o, x, n))
    with pytest.raises(dy2st.CaptureError, match="a list that a loop leaves in two places is one object depends on"):
        static(P, torch.tensor(2))
    assert o.other is None and len(o.items) == 2


def test_the_program_knows_which_small_ints_are_one_object():
    def told(x, n):
        a, b = int(n), int(n) if x.sum() > 0 else None
        c = 1.0 if x.sum() > 0 else 2
        return a is _FIVE, a is not _FIVE, a + 1 is _SIX, b is _FIVE, b is None, c is _TWO, bool(n > 3) is bool(x.sum() > 0)

    agree_outcomes(told, [(x, torch.tensor(n)) for x in (P, N) for n in (5, 1000, -7)], programs=None)


def test_a_number_of_the_program_is_no_object_of_another_class():
    def told(x, n):
        a, text = int(n), f"{int(n)}"
        return a is a, a is None, a is True, a is _FLOAT, a is _SENTINEL, text is None, text is _SENTINEL, a is x

    agree_outcomes(told, [(x, torch.tensor(n)) for x in (P, N) for n in (1, 5)])


@pytest.mark.parametrize(
    "asks",
    [
        lambda x, n: max(int(n), 1) is int(n),
        lambda x, n: int(n) is _LARGE,
        lambda x, n: float(n) is (float(n) if x.sum() > 0 else 2.5),
        lambda x, n: f"{int(n)}" is _TEXT,
        lambda x, n: (int(n) if x.sum() > 0 else None) is int(n),
    ],
)
def test_which_large_numbers_are_one_object_is_refused(asks):
    with pytest.raises(dy2st.CaptureError, match="are one object is known to Python only"):
        dy2st.to_static(asks)(P, torch.tensor(5))


def test_ids_are_those_of_what_an_attribute_holds_now():
    box = Box()
    box.one, box.other = torch.ones(2), torch.zeros(2)

    def ids(x):
        chosen = box.one if x.sum() > 0 else box.other
        return id(chosen) == id(box.one), id(chosen) == id(box.other), id(x) == id(box.one)

    static = dy2st.to_static(ids)
    for one, other in ((box.one, box.other), (torch.ones(2), box.other), (P, box.one), (N, N)):
        box.one, box.other = one, other
        for x in (P, N, one):
            assert static(x) == ids(x)


def test_the_id_of_one_of_several_tensors_is_no_key():
    def is_seen(x, y):
        chosen = x if x.sum() > 0 else y
        return id(chosen) in {id(x)}

    with pytest.raises(dy2st.CaptureError, match="the id of one of several objects is used as a key"):
        dy2st.to_static(is_seen)(P, N)


_FIVE, _SIX, _TWO, _LARGE, _FLOAT, _TEXT, _SENTINEL = 5, 6, 2, 1000, 5.0, "5", object()
