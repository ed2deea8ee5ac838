"""Generators of which tensors decide what they give: their code runs with the body of the loop in it."""

from __future__ import annotations

import pytest
import torch

import dy2st
from tests.oracle import agree

XS = [
    torch.tensor(v) for v in ([3, 1, 2, 5, 4, 0], [2, 0, 0, 0, 0, 0], [-5, 4, 3, 2, 1, 0], [0, 7, 7, -3, 2, 9], [9, 2, 3, 4, 5, 6])
]


def down(n):
    while n > 0:
        yield n
        n -= 2


def some(t):
    for v in t:
        if v > 2:
            yield v
        elif v == 0:
            yield -1
            yield -2


def sums(t):
    s = 0
    n = 0
    for v in down(int(t[0])):
        s += v
        n = n * 10 + v
    return s, n


def left_with_an_else_clause(t):
    out = []
    for v in some(t.tolist()):
        if v > 4:
            break
        out.append(v)
    else:
        out.append("else")
    return out


def returned_from(t):
    for v in some(t):
        if v > 4:
            return v
    return None


def continued(t):
    out = []
    for v in some(t.tolist()):
        if v < 0:
            continue
        out.append(v)
    return out


def consumed_at_once(t):
    return (
        [v * 2 for v in some(t.tolist()) if v > 3],
        sum(some(t.tolist())),
        max(some(t.tolist()), default=None),
        any(v > 6 for v in some(t.tolist())),
        sorted(down(int(t[0]))),
    )


def of_an_object(t):
    class M:
        def __init__(s):
            s.k = 0
            s.log = []

        def items(s, t):
            for v in t.tolist():
                s.k += 1
                if v > 1:
                    s.log.append(v)
                    yield v, s.k

    m = M()
    out = []
    for v, k in m.items(t):
        out.append(v * k)
    return out, m.k, m.log


def one_from_another(t):
    def outer():
        yield from down(int(t[0]))
        if t[1] > 2:
            yield 100
        yield from some(t.tolist())

    return list(outer())


def prints_in_order(t):
    def g():
        print("start")
        for v in t.tolist():
            if v > 2:
                print("give", v)
                yield v
        print("end")

    for v in g():
        print("got", v)
        if v > 4:
            break
    return 0


def mapped_and_filtered(t):
    def g():
        total = 0
        for v in t.tolist():
            total += v
            if total > 4:
                yield total
        return total

    return list(g()), [x for x in g()], list(map(lambda v: v + 1, g())), list(filter(lambda v: v % 2, g()))


def nested(t):
    out = []
    for a in down(int(t[0])):
        for b in down(a):
            if b == 1:
                break
            out.append((a, b))
    return out


def of_tensors(t):
    x = t.float()
    n = 0

    def steps(x):
        while x.sum() > 1:
            x = x / 2
            yield x

    for y in steps(x):
        n += 1
        x = x + y
    return x, n


def raises(t):
    def g():
        for v in t.tolist():
            if v < 0:
                raise ValueError("neg")
            if v > 2:
                yield v

    try:
        return [v for v in g()]
    except ValueError as e:
        return str(e)


def the_loop_raises(t):
    out = []
    try:
        for v in some(t.tolist()):
            if v == 5:
                raise KeyError(v)
            out.append(v)
    except KeyError as e:
        out.append("caught")
    return out


def taken_twice(t):
    g = some(t.tolist())
    a = list(g)
    b = list(g)
    return a, b


def counted(t):
    d = {}
    for i, v in enumerate(some(t.tolist())):
        d[i] = v
    return d


def in_texts_and_tables(t):
    return (
        "".join(str(v) for v in some(t.tolist())),
        {v: v * v for v in some(t.tolist())},
        {v for v in some(t.tolist())} == set(some(t.tolist())),
    )


def fibonacci(t):
    def fib(limit):
        a, b = 0, 1
        while a < limit:
            yield a
            a, b = b, a + b

    return list(fib(abs(int(t[0])) * 3)), sum(v for v in fib(int(t[1])) if v % 2 == 0)


def beams(t):
    def beams(scores):
        live = [([], 0.0)]
        for s in scores:
            new = []
            for seq, sc in live:
                for k in (0, 1):
                    new.append((seq + [k], sc + float(s) * k))
            new.sort(key=lambda p: -p[1])
            live = new[:2]
            if live[0][1] > 5:
                yield live[0][0]

    return list(beams(t))


def the_first(t):
    first = next(some(t.tolist()), None)
    return first


def unpacked(t):
    a, *b = down(abs(int(t[0])) + 1)
    return a, b


def writes_a_variable(t):
    acc = 0

    def g():
        nonlocal acc
        for v in t.tolist():
            acc += v
            if acc > 3:
                yield acc

    r = 1
    for v in g():
        r = r + v * acc
    return r, acc


def in_a_loop(t):
    r = []
    for k in range(abs(int(t[0])) % 3):
        for v in some(t.tolist()):
            r.append(v * k)
    return r


def batches_of_items(t):
    def batches(xs, n):
        b = []
        for x in xs:
            if x > 0:
                b.append(x)
                if len(b) == n:
                    yield b
                    b = []
        if b:
            yield b

    return [sum(b) for b in batches(t.tolist(), 2)], list(batches(t.tolist(), 3))


def decoded(t):
    def decode(x):
        h = x.float()
        k = 0
        while True:
            h = h * 0.5 + 1
            k += 1
            tok = int(h.sum()) % 7
            if tok == 3 or k > 6:
                return
            yield tok

    toks = []
    for tok in decode(t):
        toks.append(tok)
    return toks, len(toks)


def of_a_tree(t):
    class Tree:
        def __init__(s, v, kids=()):
            s.v = v
            s.kids = kids

        def walk(s):
            if s.v > 1:
                yield s.v
            for k in s.kids:
                yield from k.walk()

    v = t.tolist()
    tree = Tree(v[0], (Tree(v[1], (Tree(v[2]),)), Tree(v[3])))
    return list(tree.walk())


def with_gradients(t):
    def g(x):
        while x.norm() > 1:
            x = x * 0.5
            yield x

    x = t.float().requires_grad_()
    s = 0
    for y in g(x):
        s = s + y.sum()
    return s


@pytest.mark.parametrize(
    "program",
    [
        sums, left_with_an_else_clause, returned_from, continued, consumed_at_once, of_an_object, one_from_another, prints_in_order, mapped_and_filtered, nested, of_tensors, raises, the_loop_raises, taken_twice, counted, in_texts_and_tables, fibonacci, beams, the_first, unpacked, writes_a_variable, in_a_loop, batches_of_items, decoded, of_a_tree, with_gradients,
    ],
)  # fmt: skip
def test_what_tensors_decide_in_generators(program):
    agree(program, XS)


def left_and_gone_on(t):
    g = some(t.tolist())
    for v in g:
        if v > 3:
            break
    return list(g)


def made_before_the_branch(t):
    g, taken = some(t.tolist()), []
    if t[0] > 1:
        for v in g:
            taken.append(v)
    return taken, list(g)


def in_a_try_statement(t):
    def g():
        try:
            for v in t.tolist():
                if v > 2:
                    yield v
        finally:
            print("done")

    return list(g())


def sent_to(t):
    def g():
        first = yield 1
        if t[0] > 2:
            yield first

    return list(g())


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (left_and_gone_on, "how many items have been taken"), (made_before_the_branch, "how many items have been taken"),
        (in_a_try_statement, "a tensor decides about a statement with a yield inside"),
        (sent_to, "a tensor decides about a statement with a yield inside"),
        (lambda t: list(zip(some(t.tolist()), "ab")), "a tensor decides about a statement with a yield inside"),
    ],
)  # fmt: skip
def test_what_is_refused(program, says):
    with pytest.raises((dy2st.CaptureError, dy2st.DataDependentError), match=says):
        dy2st.to_static(program)(XS[0])


def unpacked_too_short(t):
    def g():
        for v in t.tolist():
            print("give", v)
            if v > 0:
                yield v

    try:
        a, b = g()
    except ValueError as error:
        return str(error)
    return a, b


def extends_a_list_until_it_raises(t):
    def g():
        for v in t.tolist():
            if v < 0:
                raise RuntimeError("negative")
            if v > 1:
                yield v

    got = []
    try:
        got.extend(g())
    except RuntimeError:
        got.append("raised")
    return got


@pytest.mark.parametrize("program", [unpacked_too_short, extends_a_list_until_it_raises])
def test_no_more_is_taken_than_is_asked_for(program):
    agree(program, XS)


def test_what_ends_an_iterator_in_a_generator_is_another_error():
    def forward(t):
        def g():
            it = iter(t.tolist())
            while True:
                v = next(it)
                if v > 2:
                    yield v

        return list(g())

    with pytest.raises(dy2st.DataDependentError, match="a tensor decides about a statement with a yield inside"):
        dy2st.to_static(forward)(XS[0])
