"""Control flow."""

from __future__ import annotations

import dataclasses

import torch

from tests.programs.values import counts, signs, vec
from tests.syntax.case import Chapter

CHAPTER = Chapter("Control flow")
X = vec(1, 2, 3)
TRIPS = [(X, count) for count in counts(3, 0, 1, 9)]


@dataclasses.dataclass
class Point:
    """A class with positional patterns."""

    x: torch.Tensor
    y: int


@CHAPTER.captured("`if` / `elif` / `else` on a tensor", calls=signs())
def if_elif_else(x):
    if x.sum() > 2:
        y = x * 2
    elif x.sum() < -2:
        y = -x
    else:
        y = x + 1
    return y


@CHAPTER.plain("`if` on a Python value", calls=[(signs()[0], True), (signs()[0], False)])
def if_on_python(x, double):
    if double:
        x = x * 2
    return x


@CHAPTER.unrolled("`for` over a Python list", calls=[(signs()[0], [1.0, 2.0]), (signs()[1], [1.0, 2.0])])
def for_over_a_list(x, scales):
    for scale in scales:
        x = x * scale
    return x


@CHAPTER.captured("`match` on a tensor or number: values, alternatives, captures", calls=TRIPS)
def match_values(x, n):
    match n:
        case 0:
            return x
        case 1 | 2:
            x = x * 2
        case 3 as k:
            x = x * k
        case other:
            x = x - other
    return x


@CHAPTER.captured("`match` with guards that tensors decide", calls=signs())
def match_guards(x):
    match x.dim(), x[0]:
        case 1, first if first > 0:
            return x * first
        case 1, _ if x.sum() < 0:
            return -x
    return x


@CHAPTER.captured("`match` on sequences, starred patterns included", calls=TRIPS)
def match_sequences(x, n):
    match [x, n, 3]:
        case [a, 0, _]:
            return a
        case [a, 1, *rest]:
            return a * len(rest)
        case [*_, m, 3] if m > 5:
            return x * m
        case _:
            return -x


@CHAPTER.captured("`match` on mappings, `**rest` included", calls=signs())
def match_mappings(x):
    match {"x": x, "state": {"sum": x.sum()}}:
        case {"missing": _}:
            return x
        case {"state": {"sum": 0.0}}:
            return x + 5
        case {"state": {"sum": s}, **rest} if s > 2:
            return rest["x"] * s
        case {"x": y}:
            return -y


@CHAPTER.captured("`match` on classes, with positional and keyword patterns", calls=signs())
def match_classes(x):
    match Point(x.sum(), 2):
        case Point(0.0, y):
            return x + y
        case Point(s, y=2) if s > 2:
            return x * s
        case Point(x=torch.Tensor() as s):
            return x - s


@CHAPTER.captured("`match` on a string or `None` that a tensor decides", calls=signs())
def match_strings(x):
    mode = "up" if x.sum() > 0 else "down" if x.sum() < 0 else None
    match mode:
        case "up":
            return x + 1
        case "down" | "left":
            return x - 1
        case None:
            return x


@CHAPTER.captured("`match` in a loop, with `break`, `continue` and `return` in its cases", calls=signs())
def match_in_a_loop(x):
    for step in ["add", "skip", "double", "leave", "stop", "never"]:
        match step:
            case "add":
                x = x + 1
            case "skip" if x.sum() > 6:
                continue
            case "leave" if x.sum() < 0:
                return -x
            case "stop":
                break
            case _:
                x = x * 2
    return x


@CHAPTER.plain("`match` on what Python knows", calls=[(signs()[0], "double"), (signs()[0], ["add", 2])])
def match_python(x, how):
    match how:
        case str():
            return x * 2
        case ["add", int(k)]:
            return x + k
