"""Sets whose members depend on tensors."""

from __future__ import annotations

import pytest
import torch

import dy2st
from tests.oracle import agree


def row(*values):
    return torch.tensor(values, dtype=torch.float64)


XS = [row(1.0, 3.0, 2.0), row(-1.0, -2.0, -3.0), row(5.0, -9.0, 0.0)]
NS = [(torch.tensor(n), XS[0]) for n in (2, 0, 1, 5)]


@pytest.mark.parametrize("calls", [XS, XS[::-1]])
def test_branches_add_and_remove_members_of_a_set(calls):
    def f(x):
        s = {"a", "b", "c"}
        t = s
        if x.sum() > 0:
            s.discard("b")
        elif x[0] < 0:
            s.remove("c")
        if x[1] > 0:
            s |= {"z"}
        n = 0
        for k in s:
            n = n + len(k) * 2
        return n, s is t, s == {"a", "c"}, s, [s, t], sorted(s), "b" in s, "q" not in s, bool(s)

    agree(f, calls)


@pytest.mark.parametrize("calls", [NS, NS[1:]])
def test_seen_in_a_loop(calls):
    def f(n, x):
        seen = set()
        for k in range(n):
            if "b" in seen:
                x = x * 2
            seen.add("a")
            if k > 0:
                seen.add("b")
        return x, len(seen), seen

    agree(f, calls)


@pytest.mark.parametrize("calls", [XS, XS[::-1]])
def test_operators_and_methods_combine_and_compare_sets(calls):
    allowed = frozenset("ab")

    def f(x):
        s = set("abc")
        t = {"a"}
        if x.sum() > 0:
            t.update(["q"], ("r",))
        u = t.copy()
        u -= {"a"}
        return (
            [s | t, s & t, s - t, t - s, s ^ t, t.copy(), s.union(t), u],
            [t <= s, s >= t, t < s, s != t, s.isdisjoint(t), t.issubset(s), t.issuperset(u)],
            [
                allowed | t,
                allowed & t,
                t & allowed,
                allowed - t,
                allowed <= t,
                frozenset(t),
                allowed.union(t),
            ],
        )

    agree(f, calls)


@pytest.mark.parametrize("calls", [XS, XS[::-1]])
def test_sets_made_in_branches_and_held_by_containers(calls):
    def f(x):
        s, d = {"a"}, {"s": set()}

        def grow(q):
            q.add("w")

        if x.sum() > 0:
            s.add("b")
            grow(d["s"])
            if x[0] > 2:
                s.discard("a")
                t = {1}
                if x[1] > 0:
                    t.add(5)
                x = x * len(t)
        while x.abs().sum() < 50:
            x = x * 2
            d["s"].add("big")
            for k in ("u", "v"):
                if x[0] > len(k) + 3:
                    d["s"].add(k)
        chosen = {2} if x[0] > 0 else {1}
        chosen.add(3)
        return x, s, max(len(s), 2), d, chosen

    agree(f, calls)


def test_removing_a_missing_member_raises():
    def f(x):
        s = {"a"}
        if x.sum() > 0:
            s.add("b")
        s.remove("b")
        return s

    agree(f, XS)


def test_each_call_gives_a_new_set():
    def f(x):
        return {1, 2}, {k for k in (0, 1, 2) if x[k] > 0}

    static = agree(f, XS)
    static(XS[0])[0].add(9)
    assert static(XS[0])[0] == {1, 2}


def test_a_model_that_keeps_a_set_can_be_saved(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x):
            names = {"a"}
            if x.sum() > 0:
                names.add("b")
            self.names = names
            return x * len(self.names), names

    static = agree(Model(), XS)
    dy2st.save(static, tmp_path / "model.dy2st")
    loaded = dy2st.load(tmp_path / "model.dy2st")
    for x in XS:
        assert torch.equal(loaded(x)[0], static(x)[0]) and loaded(x)[1] == static(x)[1]


def test_members_that_are_tensors():
    def f(x, y):
        s = {x}
        if x.sum() > 0:
            s.add(x)
        return len(s), x in s, y in s, next(iter(s)) * 2

    agree(f, [(x, x + 1) for x in XS])


def test_code_that_is_not_converted_sees_no_wrong_set():
    @dy2st.not_to_static
    def count(names):
        return len(names)

    def f(x):
        s = {"a"}
        if x.sum() > 0:
            s.add("b")
        return count(s)

    with pytest.raises(dy2st.CaptureError, match="code that was not converted"):
        dy2st.to_static(f)(XS[0])


@pytest.mark.parametrize("change", ["|=", "&=", "-=", "^="])
def test_augmented_assignment_of_a_choice(change, tmp_path):
    agree(CHANGES[change], [({"s": set("ab")}, {"s": set("bc")}, torch.tensor(v)) for v in (1.0, -1.0)], programs=None)


def _ior(a, b, x):
    mine = a["s"]
    mine |= (a if x > 0 else b)["s"]
    return mine is a["s"], mine, b["s"]


def _iand(a, b, x):
    mine = a["s"]
    mine &= (a if x > 0 else b)["s"]
    return mine is a["s"], mine, b["s"]


def _isub(a, b, x):
    mine = a["s"]
    mine -= (a if x > 0 else b)["s"]
    return mine is a["s"], mine, b["s"]


def _ixor(a, b, x):
    mine = a["s"]
    mine ^= (a if x > 0 else b)["s"]
    return mine is a["s"], mine, b["s"]


CHANGES = {"|=": _ior, "&=": _iand, "-=": _isub, "^=": _ixor}
