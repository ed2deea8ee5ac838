"""Strings made of values that a tensor decides."""

from __future__ import annotations

import pytest
import torch

import dy2st
from tests.oracle import agree
from tests.programs.values import counts, num, signs, vec

X = vec(1, 2, 3)


def trips(*items):
    return [(X, count) for count in counts(*items)]


def test_fstrings_and_format_write_numbers_of_tensors():
    def f(x, n):
        k = n.item()
        a = f"{k:>4}|{x.sum().item():.2f}|{k!r}"
        b = "{} of {}, {k:03d}".format(k, x.shape[0], k=k)
        c = "{0}{1}{0}".format(k, "-")
        return a, b, c, "plain {}".format(3)

    agree(f, trips())


def test_strings_of_numbers_are_concatenated():
    def f(x, n):
        label = "n=" + str(n.item())
        label = label + "; " + f"{x.sum()}"
        label += "!"
        return label

    agree(f, trips())


def test_percent_formats_a_number_of_a_tensor():
    def f(x, n):
        return "%s items" % n.item()

    agree(f, trips())


def test_percent_with_a_width_among_the_values_is_refused():
    def f(x, n):
        return "%*d items" % (5, n.item())

    with pytest.raises(dy2st.errors.CaptureError, match="width is a value"):
        dy2st.to_static(f)(X, num(3, torch.int64))


def test_percent_of_python_values():
    def f(x):
        name = "%s-%d" % ("a", 3)
        return {name: x % 2}

    agree(f, signs())


def test_a_text_made_before_its_tensor_changes():
    def f(x):
        s, t, u = f"{x}", "%s" % x, str(x[0])
        x.add_(1)
        print(s, t, u)
        if x.sum() > 0:
            s = f"up {x}"
        for i in range(int(x.abs().max())):
            t = "{}: {}".format(i, x)
            x -= 1
            print(t + "!", f"[{s}]")
        return s, x

    agree(f, [vec(1, 2), vec(-3, -4), vec(0, -1)])


def test_a_message_made_before_its_tensor_changes():
    def f(x):
        error = ValueError(f"sum {x}", x)
        try:
            if x.sum() > 0:
                raise error
            if x.sum() < -5:
                raise KeyError(f"small {x}")
        finally:
            x.add_(1)
        return x

    agree(f, [vec(1, 2), vec(-1, -1), vec(-3, -4)])


def test_strings_are_searched_and_asked():
    def f(x, n):
        s = f"value {n.item()} of {x.shape[0]}"
        told = "value 1" in s, s.startswith("value 2"), s.endswith(("3", "4")), s.find("of"), s.count("1"), len(s)
        known = "12 value 1 of 3".endswith(s), s in "value 1 of 3 and more", "value" not in s
        if "12" in s:
            x = x + 1
        return x, told, known

    agree(f, trips(1, 2, 3, 12))


def test_strings_are_sliced_and_changed():
    def f(x, n):
        k = n.item()
        s = f" value {k} "
        parts = (
            s.strip(),
            s[7:],
            s[:k],
            s[::-1],
            s.upper().lower(),
            s.replace("value", s),
            s.removeprefix(" ").zfill(12),
            "abcde"[1:k],
        )
        return parts, {"VALUE 1": 1, "VALUE 2": 2}.get(s.strip().upper(), 0), s.strip() == "value 3"

    agree(f, trips(1, 2, 3, 12))


def test_what_an_exception_says_is_searched():
    def f(x, n):
        try:
            if n > 1:
                raise ValueError(f"got {n.item()} of {x.shape[0]}")
            torch.linalg.cholesky(torch.diag(x - n))
        except (ValueError, RuntimeError) as error:
            if "got 2" in str(error):
                return x * 2
            if str(error).startswith("linalg"):
                return x * 3
            raise
        return x

    agree(f, trips(0, 1, 2, 3))


def test_one_character_of_a_string():
    def f(x, n):
        return f"{n.item()}"[0], f"{n.item()}"[-1], f"{n.item()}0"[n % 2]

    agree(f, trips(3, 0, 12, 345))
