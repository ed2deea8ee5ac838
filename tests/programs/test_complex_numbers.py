"""Complex numbers that only the program knows, made of numbers and taken out of tensors."""

from __future__ import annotations

import cmath
import math

import pytest
import torch

import dy2st
from tests.oracle import agree

XS = [torch.tensor(v) for v in ([3, 1, 2, 5], [0, 0, 0, 0], [-3, 7, 7, -3])]


def of(t):
    return torch.complex(t.float(), t.float() + 1)


def made(t):
    a, b = float(t[0]), int(t[1])
    return complex(a, b), complex(b), complex(1j, a), complex(a, 2j), complex(complex(a, b), complex(b, a)), complex(t[0], t[1])


def signs_of_zeros(t):
    z, w = complex(-0.0, float(t[0])), complex(float(t[1]), -0.0)
    numbers = [z, w, complex(z), complex(w), complex(z, w), complex(2.0, z), complex(w, -0.0), complex(-1j, float(t[0]))]
    return numbers, [(math.copysign(1, c.real), math.copysign(1, c.imag)) for c in numbers]


def taken_out(t):
    z = of(t)
    return z[0].item(), complex(z[1]), z.tolist(), z[2].conj().item(), [complex(row) for row in z.conj()]


def computed(t):
    z, a, b = complex(float(t[0]), 1), float(t[1]), int(t[2])
    return (
        z + a, a - z, z * b, b * z, z / 2, 2 / z, z**2, 2**z, z - 1j, 1j - z, a * 2j, b + 1j, 1j / (a * a + 1), -z, +z, abs(z),
        z.real, z.imag, z.conjugate(), z == a, z != 1j, bool(z), z * z == z**2,
    )  # fmt: skip


def functions(t):
    z = complex(float(t[0]), 1)
    return [
        getattr(cmath, name)(z) for name in ("exp", "sqrt", "log", "sin", "tanh", "acosh", "phase", "polar", "isnan")
    ], cmath.rect(abs(z), float(t[1]))


def escaped(t):
    z, c, n = 0j, complex(float(t[0]) / 10, float(t[1]) / 10), 0
    while abs(z) < 2 and n < 20:
        z = z * z + c
        n += 1
    return n, z


def chosen(t):
    z = complex(float(t[0]), 1)
    if t[1] > 0:
        z = z.conjugate()
    box = {"z": z, "all": [z, 1j]}
    return box, isinstance(z, complex), type(z) is complex, isinstance(z, float)


def with_tensors(t):
    z, x = complex(int(t[0]), 2), torch.ones(2)
    return (
        x * z, z * x, x + z, z - x, x / z, x.double() * z, torch.arange(3) * z, of(t) * z, torch.mul(x, z), torch.tensor(z),
        torch.tensor(z, dtype=torch.complex128), torch.as_tensor(z), torch.tensor([z, 1, 2j]),
    )  # fmt: skip


def transformed(t):
    def fft(values):
        count = len(values)
        if count == 1:
            return values
        even, odd = fft(values[::2]), fft(values[1::2])
        turned = [cmath.exp(-2j * math.pi * k / count) * odd[k] for k in range(count // 2)]
        return [a + b for a, b in zip(even, turned)] + [a - b for a, b in zip(even, turned)]

    return fft([complex(v, 0) for v in t.tolist()])


@pytest.mark.parametrize(
    "program", [made, signs_of_zeros, taken_out, computed, functions, escaped, chosen, with_tensors, transformed]
)
def test_complex_numbers(program):
    agree(program, XS)


def test_the_number_in_a_tensor_that_is_lazily_negated():
    def negated(t):
        part = of(t).conj().imag
        return part[0].item(), float(part[1]), int(part[2]), bool(part[3] > 0), part.tolist()

    agree(negated, XS)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (lambda t: f"{complex(float(t[0]), 1)}", "a complex number that only the program knows is used by code that"),
        (lambda t: torch.full((2,), complex(float(t[0]), 1)), "gets a complex number that is known only at run time"),
    ],
)
def test_what_is_refused(program, says):
    with pytest.raises(dy2st.CaptureError, match=says):
        dy2st.to_static(program)(XS[0])


def test_a_division_that_an_except_clause_is_for_is_refused():
    def divided(t):
        try:
            return 1 / complex(float(t[0]), 0)
        except ZeroDivisionError:
            return 0j

    with pytest.raises(dy2st.CaptureError, match="a division of complex numbers may fail when the program runs"):
        dy2st.to_static(divided)(XS[0])
