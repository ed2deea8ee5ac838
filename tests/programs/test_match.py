"""`match` statements whose subjects, parts and guards a tensor may decide."""

from __future__ import annotations

import collections
import dataclasses
import enum

import torch

from tests.oracle import agree
from tests.programs.values import counts, signs, vec

X = vec(1, 2, 3)


def trips():
    return [(X, count) for count in counts(3, 0, 1, 9)]


class Color(enum.Enum):
    RED = 1
    GREEN = 2


@dataclasses.dataclass
class Point:
    x: object
    y: object


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class Named:
    __match_args__ = ("u",)

    def __init__(self, u):
        self.u = u


def test_match_compares_a_size_and_takes_a_list_apart():
    def f(x):
        match x.shape[0]:
            case 3:
                y = x + 1
            case _:
                y = x
        match [y, 2]:
            case [torch.Tensor() as t, 2]:
                return t * 2
            case _:
                return y * 3

    agree(f, signs())


def test_match_on_classes_and_constants():
    class Limits:
        LOW = 1
        HIGH = 3

    def f(x):
        match x.dim():
            case Limits.HIGH:
                y = x
            case Limits.LOW if x.shape[0] > 2:
                y = x + 1
        match {"x": y, "k": None}:
            case {"x": torch.Tensor() as t, "k": None}:
                if t.sum() > 0:
                    return t
                return -t

    agree(f, signs())


def test_values_of_a_tensor():
    def f(x, n):
        match n:
            case 0:
                return x
            case 1 | 2:
                y = x * 2
            case 3 as k:
                y = x * k
            case _:
                y = -x
        return y + 1

    agree(f, trips())


def test_a_number_taken_from_a_tensor():
    def f(x, n):
        match int(n):
            case 0:
                return x
            case k if k > 5:
                y = x * k
            case 1 | 2 as k if k < 2:
                y = x * 2 + k
            case k:
                y = x * k * 3
        return y + k

    agree(f, trips())


def test_sequences_with_tensors_in_them():
    def f(x, n):
        match [x, n, 3]:
            case [a, 0, b]:
                return a + b
            case [a, 1, *r]:
                return a + len(r)
            case [a, m, 3] if m > 5:
                return a * m
            case (a, *r):
                return a * 100 + r[0]

    agree(f, trips())


def test_every_kind_of_subject():
    def f(x):
        out = 0
        for v in [(1, 2, 3), [x, 2], (), (4,), "ab", x, {"k": 1}, range(3), Point(x, 1), Pair(x, 2)]:
            match v:
                case [
                    a,
                    b,
                    *c,
                ]:
                    out = out + a + b + len(c)
                case [a]:
                    out = out * a
                case []:
                    out = out + 1
                case str(s):
                    out = out + len(s)
                case {"k": k}:
                    out = out + k
                case torch.Tensor() as t:
                    out = out + t
                case Point(a, y=1):
                    out = out + a * 3
        return out

    agree(f, signs())


def test_mapping_patterns_bind_values_and_the_rest():
    def f(x):
        d = {"a": x, "b": {"c": x.sum(), "d": [1, 2]}, "e": 4}
        match d:
            case {"z": _}:
                return x
            case {"b": {"c": c, "d": [p, *_]}, **rest} if c > 0:
                return c * p + rest["a"] + len(rest)
            case {"b": {"c": -6.0}}:
                return x * 100
            case {"a": a, **rest}:
                return a, rest

    agree(f, signs())


def test_class_patterns_compare_and_bind_attributes():
    def f(x):
        p = Point(x.sum(), x[0])
        match p:
            case Point(x=0, y=yy):
                return yy
            case Point(6.0, yy):
                return yy * 2
            case Point(xx, -1.0) if xx < 0:
                return xx
            case Point(x=xx):
                return xx * 5

    agree(f, signs())


def test_jumps_out_of_cases():
    def f(x):
        for op in ["add", "skip", "mul", "neg", "stop", "never"]:
            match op:
                case "add":
                    x = x + 1
                case "skip" if x.sum() > 6:
                    continue
                case "mul":
                    x = x * 2
                case "neg" if x.sum() < 0:
                    return -x, op
                case "stop":
                    break
                case _:
                    x = x + 0.5
        else:
            x = x * 1000
        return x, op

    agree(f, signs())


def test_strings_that_a_tensor_decides():
    def f(x):
        mode = "pos" if x.sum() > 0 else "neg" if x.sum() < 0 else None
        match mode:
            case "pos":
                x = x * 2
            case None:
                return x
            case "neg" | "other" as m:
                x = x - len(m)
        return x

    agree(f, signs())


def test_true_and_false_match_bools_of_tensors():
    def f(x):
        b = bool(x.sum() > 0)
        match b:
            case True:
                x = x * 2
            case False:
                x = x - 1
        match (bool(x.sum() > 0), bool(x[0] > 0)):
            case (True, True):
                return x
            case (True, False) | (False, True):
                return x * 10
            case _:
                return x - 5

    agree(f, signs())


def test_alternatives_that_bind_other_parts():
    def f(x):
        match (x[0], x[1]):
            case (1.0, k) | (k, 0.0):
                return k * 3
            case (a, b) if a < b:
                return a
            case other:
                return other[1]

    agree(f, signs())


def test_none_or_a_tensor():
    def f(x):
        h = None
        if x.sum() > 0:
            h = x * 2
        match h:
            case None:
                return x
            case torch.Tensor() as t:
                return t + 1

    agree(f, signs())


def test_members_of_an_enumeration():
    def f(x):
        c = Color.RED if x.sum() > 0 else Color.GREEN
        match c:
            case Color.RED:
                return x + 1
            case Color.GREEN:
                return x - 1

    agree(f, signs())


def test_a_list_that_grew_in_a_captured_loop():
    def f(x, n):
        l = [x]
        for i in range(n):
            l.append(x * i)
        match l:
            case [a]:
                return a
            case [a, b]:
                return a - b
            case [a, *b, c] if c.sum() > 20:
                return a + c + len(b)
            case [a, b, c, d]:
                return d
            case [_, *r]:
                return r[0]

    agree(f, trips())


def test_in_an_endless_loop():
    def f(x, n):
        k = 0
        while True:
            match k, x.sum() > n * 3:
                case 0, _:
                    k = 1
                    x = x - 0.5
                case _, t if t and k > 2:
                    break
                case j, _ if j % 2:
                    k += 1
                    continue
                case _:
                    k += 1
            x = x + 1
            if k > 9:
                return k
        return x, k

    agree(f, trips())


def test_names_bound_by_a_case_whose_guard_fails():
    def f(x):
        a = 5
        match (x, 3):
            case (a, 4):
                pass
            case (b, a) if x.sum() > 0:
                x = x + a
            case (b, _) if x[0] < -5:
                pass
        return x, a

    agree(f, signs())


def test_a_case_may_hold_another_match():
    def f(x):
        match x.dim(), x.shape:
            case 1, (3,):
                match x[0].item():
                    case 1.0:
                        return x
                    case v if v < 0:
                        match v:
                            case -1.0:
                                x = x * v
                            case _:
                                x = x + v
                    case w:
                        x = x - w
            case 2, _:
                return 0
        return x + 1

    agree(f, signs())


def test_patterns_of_builtin_types_match_python_arguments():
    def f(x, v):
        match v:
            case bool():
                return x
            case int(k) if k > 0:
                return x * k
            case float(k):
                return x + k
            case str():
                return x * 7
            case None:
                return x * 8
            case list([k]):
                return x * 9 + k
            case dict():
                return x * 10

    agree(f, [(X, 1), (X, 2.5), (X, "s"), (X, None), (X, True), (X, [1]), (X, {"a": 1})], programs=None)


def test_a_tensor_of_several_elements_has_no_truth_value():
    def f(x):
        match x:
            case 3:
                return 1
        return 2

    agree(f, signs(), programs=0)


def test_a_match_without_a_fitting_case_does_nothing():
    def f(x):
        match x.sum():
            case 6.0:
                x = x + 1
        return x

    agree(f, signs())


def test_errors_of_class_patterns():
    def f(x):
        r = []
        try:
            match Named(1):
                case Named(1, 2):
                    pass
        except TypeError as e:
            r.append(str(e))
        try:
            match Point(1, 2):
                case Point(1, x=2):
                    pass
        except TypeError as e:
            r.append(str(e))
        try:
            match 1:
                case int(1, 2):
                    pass
        except TypeError as e:
            r.append(str(e))
        match Named(x):
            case Named(v=1):
                x = x + 100
            case Named(u):
                x = x + u
        return x, r

    agree(f, signs())


class _OwnGet(dict):
    """Counts how often it is asked, and has an answer of its own."""

    asked = 0

    def get(self, key, default=None):
        self.asked += 1
        return 42 if key == "own" else super().get(key, default)


def test_a_mapping_pattern_asks_the_method_get():
    def f(x):
        table = _OwnGet(a=1, b=x)
        if x.sum() > 0:
            table["c"] = 3
        match table:
            case {"c": v}:
                found = v
            case {"own": 42, "a": v, **rest}:
                found = v, rest
        return found, table.asked

    agree(f, [(vec(1, 2),), (vec(-1, -2),)])


def test_a_jump_behind_other_jumps_in_a_case():
    def f(x, n):
        for c in range(1, n + 1):
            match c:
                case 0:
                    x = x - 1
                case 2 | 3:
                    if x.sum() > 0:
                        return x
                    else:
                        x = x + 1
                        break
                    continue
                case _:
                    x = x * 2
            x = x + 7
        return x

    agree(f, [(sign * X, count) for sign in (1, -9) for count in counts(3, 0, 1, 9)])
