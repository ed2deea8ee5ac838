"""Which tuple a value is: those that a branch or loop leaves alone, replaces, swaps, chooses and gives back."""

from __future__ import annotations

import collections
import dataclasses

import pytest
import torch

import dy2st
import dy2st_runtime
from dy2st import InputSpec
from tests.worlds import World, agree, calls, registry

P, N = torch.ones(2), -torch.ones(2)
WORLDS, world = registry()
NT = collections.namedtuple("NT", "a b")


class Box:
    """An object of the user's."""


def pair():
    """A tuple of tensors."""
    return (torch.zeros(2), torch.ones(2))


def W(function, roots, *arguments):
    """A world whose calls have these arguments."""
    given = [one if isinstance(one, tuple) else (one,) for one in arguments]
    return World(function, roots, [one[0] if callable(one[0]) else lambda f, one=one: f(*one) for one in given])


@world
def arg_tuple():

    def f(x, t):
        out = t
        if x.sum() > 0:
            out = (x, x)
        return (out, out is t)

    t = (torch.zeros(2), torch.ones(2))
    return W(f, [t], (P, t), (N, t), (P, t), (N, t))


@world
def arg_nt():

    def f(x, t):
        out = t
        if x.sum() > 0:
            out = NT(x, x)
        return (out, out is t)

    t = NT(torch.zeros(2), torch.ones(2))
    return W(f, [t], (P, t), (N, t), (P, t), (N, t))


@world
def self_pair():
    o = Box()
    o.pair = (torch.zeros(2), torch.ones(2))
    o.p0 = o.pair

    def f(x):
        if x.sum() > 0:
            o.pair = (x, x)
        return (o.pair is o.p0, o.pair[0] + 1)

    return W(f, [o], N, P, N, N, P)


@world
def self_pair_inside():
    o = Box()
    o.pair = (torch.zeros(2), torch.ones(2))

    def f(x):
        old = o.pair
        if x.sum() > 0:
            o.pair = (x, x)
        return o.pair is old

    return W(f, [o], N, P, N, N, P)


@world
def two_tuples():
    o = Box()
    o.a = (torch.zeros(2), 1)
    o.b = (torch.ones(2), 2)

    def f(x):
        if x.sum() > 0:
            r = o.a
        else:
            r = o.b
        return (r, r is o.a, r is o.b)

    return W(f, [o], N, P, N, P)


@world
def swap_tuples_same():
    o = Box()
    o.a = (torch.zeros(2), torch.ones(2))
    o.b = (torch.ones(2), torch.zeros(2))
    o.a0 = o.a

    def f(x):
        if x.sum() > 0:
            o.a, o.b = (o.b, o.a)
        return (o.a[0] + o.b[1], o.a is o.a0)

    return W(f, [o], N, P, N, P)


@world
def loop_tuple():
    o = Box()
    o.h = (torch.zeros(2), torch.ones(2))
    o.h0 = o.h

    def f(x):
        h = o.h
        while x.sum() < 3:
            h = (h[0] + x, h[1])
            x = x + 1
        return (h, h is o.h)

    return W(f, [o], 5 * P, P, 5 * P, N)


@world
def loop_attr_tuple():
    o = Box()
    o.h = (torch.zeros(2), torch.ones(2))
    o.h0 = o.h

    def f(x):
        while x.sum() < 3:
            o.h = (o.h[0] + x, o.h[1])
            x = x + 1
        return o.h is o.h0

    return W(f, [o], 5 * P, P, 5 * P, N)


@world
def in_list():
    o = Box()
    o.l = [(torch.zeros(2), torch.ones(2)), (torch.ones(2), torch.zeros(2))]
    o.k = o.l[0]

    def f(x):
        if x.sum() > 0:
            o.l[0] = (x, x)
        return (o.l[0] is o.k, len(o.l))

    return W(f, [o], N, P, N, P)


@world
def in_dict():
    o = Box()
    o.l = {"a": (torch.zeros(2), torch.ones(2))}
    o.k = o.l["a"]

    def f(x):
        if x.sum() > 0:
            o.l["a"] = (x, x)
        return o.l["a"] is o.k

    return W(f, [o], N, P, N, P)


@world
def nested_tuple():
    o = Box()
    o.h = ((torch.zeros(2), torch.ones(2)), [torch.ones(2)])
    o.h0 = o.h

    def f(x):
        if x.sum() > 0:
            o.h = ((x, x), o.h[1])
        return (o.h is o.h0, o.h[0] is o.h0[0], o.h[1] is o.h0[1])

    return W(f, [o], N, P, N, P)


@world
def choice_then_field():
    o = Box()
    o.h = NT(torch.zeros(2), torch.ones(2))

    def f(x):
        h = o.h
        if x.sum() > 0:
            h = h._replace(a=x)
        o.last = h
        return (h.a + h.b, h)

    return W(f, [o], N, P, N, P)


@world
def early_return():

    def f(x, t):
        if x.sum() > 0:
            return t
        return (x, t[1])

    t = (torch.zeros(2), torch.ones(2))
    return W(f, [t], (P, t), (N, t), (P, t), (N, t))


@world
def both_made_two():

    def f(x):
        a = (x, 1)
        if x.sum() > 0:
            t = a
        else:
            t = (x, 2)
        return (t is a, t, a)

    return W(f, [], P, N, P)


@world
def both_made_three():

    def f(x):
        a = (x, 1)
        b = (x, 1)
        t = a if x.sum() > 0 else b
        return (t is a, t is b, t, a, b)

    return W(f, [], P, N, P)


@world
def made_loop():

    def f(x):
        a = (x, x)
        t = a
        while x.sum() < 3:
            t = (t[0] + 1, x)
            x = x + 1
        return (t is a, t, a)

    return W(f, [], P, 5 * P, N)


@world
def tuple_with_list():
    o = Box()
    o.h = (torch.zeros(2), [])
    o.h0 = o.h

    def f(x):
        if x.sum() > 0:
            o.h = (x, o.h[1])
        o.h[1].append(x)
        return o.h is o.h0

    return W(f, [o], N, P, N, P)


@world
def isnot_prev():
    o = Box()
    o.prev = None
    o.st = (torch.zeros(2),)

    def f(x):
        changed = o.prev is not o.st
        o.prev = o.st
        if x.sum() > 0:
            o.st = (x,)
        return changed

    return W(f, [o], N, N, P, N, N, P)


@world
def noop_arg():

    def f(x, t):
        return t

    t = pair()
    return W(f, [t], (P, t), (N, t))


@world
def noop_arg_nested():

    def f(x, t):
        return (t[0], t)

    t = (pair(), [pair()])
    return W(f, [t], (P, t), (N, t))


@world
def arg_stored():
    o = Box()
    o.h = None

    def f(x, t):
        if x.sum() > 0:
            o.h = t
        return x

    t = pair()
    return W(f, [o, t], (P, t), (N, t), (P, t))


@world
def lstm_while():

    def f(x, st):
        h, c = st
        while x.sum() < 3:
            h, c = (h + x, c * 2)
            st = (h, c)
            x = x + 1
        return (st, h)

    t = pair()
    return W(f, [t], (P, t), (5 * P, t), (N, t))


@world
def grow_tuple():

    def f(x, st):
        while x.sum() < 3:
            st += (x,)
            x = x + 1
        return st

    t = pair()
    return W(f, [t], (P, t), (5 * P, t), (N, t))


@world
def none_or():

    def f(x, st):
        out = None
        if x.sum() > 0:
            out = st
        return (out, out is st)

    t = pair()
    return W(f, [t], (P, t), (5 * P, t), (N, t))


@world
def none_or_new():
    o = Box()
    o.st = None

    def f(x):
        if x.sum() > 0:
            o.st = (x, x) if o.st is None else (o.st[0] + x, x)
        return o.st

    return W(f, [o], P, N, P, N)


@world
def two_levels():
    o = Box()
    o.st = pair()
    o.s0 = o.st

    def f(x):
        if x.sum() > 0:
            if x[0] > 2:
                o.st = (x, x)
        else:
            o.st = (o.st[0] + 1, x)
        return o.st is o.s0

    return W(f, [o], P, 5 * P, N, P)


@world
def loop_in_branch():
    o = Box()
    o.st = pair()
    o.s0 = o.st
    o.alt = pair()

    def f(x):
        st = o.st
        if x.sum() > 0:
            while x.sum() < 9:
                if x[0] > 2:
                    st = o.alt
                elif x[0] > 1.5:
                    st = (x, x)
                x = x + 1
        o.last = st
        return (st is o.s0, st is o.alt)

    return W(f, [o], P, 5 * P, N, 0.7 * P, P)


@world
def swap_attrs_loop():
    o = Box()
    o.a = pair()
    o.b = pair()
    o.k = [o.a, o.b]

    def f(x):
        while x.sum() < 5:
            o.a, o.b = (o.b, o.a)
            x = x + 1
        return x

    return W(f, [o], P, 5 * P, N, 0.7 * P, P)


@world
def list_items_loop():
    o = Box()
    o.d = [pair(), pair(), pair()]
    o.k = list(o.d)

    def f(x):
        i = 0
        while x.sum() < 5:
            o.d[1] = (x, x)
            x = x + 1
        return [a is b for a, b in zip(o.d, o.k)]

    return W(f, [o], 5 * P, N, P)


@world
def best():
    o = Box()
    o.best = (torch.tensor(0.0), None)

    def f(x):
        s = x.sum()
        cand = (s, x)
        o.best = max(o.best, cand, key=lambda t: t[0])
        return o.best is cand

    return W(f, [o], N, P, 5 * P, P, N)


@world
def min_of_list():
    o = Box()
    o.l = [(torch.tensor(0.0), 1), (torch.tensor(2.0), 2)]

    def f(x):
        m = min(o.l, key=lambda t: (t[0] - x.sum()).abs())
        return (m, m is o.l[0])

    return W(f, [o], N, P, 5 * P, P, N)


@world
def for_break():
    o = Box()
    o.l = [(torch.tensor(0.0), 1), (torch.tensor(2.0), 2)]

    def f(x):
        found = None
        for t in o.l:
            if t[0] > x.sum():
                found = t
                break
        o.found = found
        return x

    return W(f, [o], N, 0.5 * P, 5 * P, P, N)


@world
def dataclass_field():

    @dataclasses.dataclass
    class S:
        st: tuple

    s = S(pair())
    k = s.st

    def f(x, s):
        if x.sum() > 0:
            s.st = (x, x)
        return (s, s.st is k)

    return W(f, [s, k], (N, s), (P, s), (N, s))


@world
def try_tuple():
    o = Box()
    o.a = pair()
    o.a0 = o.a

    def f(x):
        try:
            if x.sum() > 0:
                raise ValueError("a")
            o.a = (x, x)
        except ValueError:
            pass
        return o.a is o.a0

    return W(f, [o], P, N, P)


@world
def method_returns():

    class C:
        def __init__(s):
            s.st = pair()
            s.hist = []

        def upd(s, x):
            if x.sum() > 0:
                return (x, x)
            return s.st

        def __call__(s, x):
            new = s.upd(x)
            ch = new is not s.st
            s.st = new
            return ch

    c = C()
    return W(lambda x: c(x), [c], P, N, P, N)


@world
def default_arg():
    t0 = pair()

    def f(x, t=t0):
        if x.sum() > 0:
            t = (x, t[1])
        return t

    return W(f, [t0], P, N, (N, t0))


@world
def shared_args():

    def f(x, t, u):
        return (t is u, x)

    t = pair()
    u = pair()
    return W(f, [t, u], (P, t, u), (P, t, t), (P, u, t))


@world
def arg_is_attr():
    o = Box()
    o.t = pair()

    def f(x, t):
        r = t is o.t
        if x.sum() > 0:
            o.t = t
        return r

    return W(f, [o], lambda f: f(N, o.t), lambda f: f(P, (o.t[0], o.t[1])), lambda f: f(N, o.t))


@world
def nested_choice():
    o = Box()
    o.t = pair()

    def f(x):
        r = {"k": None}
        if x.sum() > 0:
            r = {"k": o.t}
        return (r, r["k"] is o.t)

    return W(f, [o], P, N, P)


@world
def made_tuple_holds():
    o = Box()
    o.t = pair()

    def f(x):
        r = (o.t, 1)
        if x.sum() > 0:
            r = ((x, x), 2)
        return (r, r[0] is o.t)

    return W(f, [o], P, N, P)


@world
def grad_tuple():
    w = torch.ones(2, requires_grad=True)

    def f(x, st):
        if x.sum() > 0:
            st = (st[0] * w, st[1] + w)
        return st

    def call(f, x, t):
        r = f(x, t)
        s = r[0].sum() + r[1].sum()
        if s.requires_grad:
            s.backward()
        return (r[0].detach(), w.grad)

    t = pair()
    return W(f, [t], lambda f: call(f, P, t), lambda f: call(f, N, t), lambda f: call(f, P, t))


@pytest.mark.parametrize("make", WORLDS)
def test_a_tuple_keeps_the_identity_that_it_has_in_eager(make):
    agree(make, programs=4)


def test_a_program_does_not_keep_which_tuple_unless_asked():
    def f(x, state):
        pair = state
        while x.sum() < 3:
            pair = (pair[0] + x, pair[1])
            x = x + 1
        return pair[0] + pair[1]

    program = dy2st.to_static(f).program(P, pair())
    assert "which" not in str(program).partition("\n")[2]  # the first line names the function


def test_item_of_a_list_that_grows():
    rows = [pair()]
    first = rows[0]

    def f(x):
        if x.sum() > 0:
            rows.append((x, x))
        return rows[0] is first

    with pytest.raises(dy2st.CaptureError, match="same tuple out of a list"):
        dy2st.to_static(f)(P)


def replaced(x, state):
    """Give the tuple back that was given, or one with another item."""
    while x.sum() < 3:
        state = (state[0] + x, state[1])
        x = x + 1
    return state


def test_a_saved_program_gives_back_the_tuple_that_eager_does(tmp_path):
    spec = [InputSpec([2], "float32"), (InputSpec([2], "float32"), InputSpec([2], "float32"))]
    dy2st.save(replaced, tmp_path / "f.dy2st", input_spec=spec)
    loaded = dy2st_runtime.load(tmp_path / "f.dy2st")
    for x in (P, 5 * P, N):
        given = pair()
        found, expected = loaded(x, given), replaced(x, given)
        assert (found is given) is (expected is given)
        assert torch.stack(found).equal(torch.stack(expected))
    dy2st.export(replaced, tmp_path / "f.pt2", input_spec=spec)


def test_tuples_that_may_be_each_other_are_returned():
    def f(x):
        one = None if x.sum() > 0 else x
        try:
            return one.shape
        except AttributeError:
            return 3, 4

    agree(lambda: World(f, [], calls(torch.ones(3), -torch.ones(3))))


def test_whether_an_iteration_has_left_one_tuple_in_two_places_is_refused():
    def pairs(x, n):
        a = b = None
        while n > 0:
            n = n - 1
            a = (x, x + n)
            b = a
        return a is b

    def sizes(x, n):
        a = b = None
        while n > 0:
            n = n - 1
            x = torch.cat([x, x])
            a = x.shape
            b = a
        return a is b

    for function in (pairs, sizes):
        with pytest.raises(dy2st.CaptureError, match="which iterations of a loop have made"):
            dy2st.to_static(function)(torch.ones(2), torch.tensor(2))
