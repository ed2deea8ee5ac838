"""Control flow."""

from __future__ import annotations

from tests.programs.values import signs
from tests.syntax.case import Chapter

CHAPTER = Chapter("Control flow")


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
