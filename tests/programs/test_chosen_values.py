"""Python values that a tensor chooses: strings, members of enumerations, numbers."""

from __future__ import annotations

import collections
import enum
import types

import torch

from tests.oracle import agree

UP = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
DOWN = torch.tensor([-1.0, -2.0, -3.0], dtype=torch.float64, requires_grad=True)


class Mode(enum.Enum):
    A = 1
    B = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def test_what_a_branch_knows_is_forgotten_after_it() -> None:
    def f(x):
        mode = Mode.A if x.sum() > 0 else Mode.B
        if mode is Mode.A:
            y = x * 2
        elif mode == Mode.B:
            y = x * 3
        return y, mode.name

    agree(f, [UP, DOWN])


def test_a_chosen_enum_member_is_compared_as_in_eager() -> None:
    def f(x):
        mode = Mode.A if x.sum() > 0 else Mode.B
        other = Mode.B if x[0] > 0 else Mode.A
        return mode == other, mode != other, Mode.A == mode, mode == "A"

    agree(f, [UP, DOWN])


def test_a_chosen_member_of_an_int_enum_is_a_number() -> None:
    def f(x):
        level = Level.LOW if x.sum() > 0 else Level.HIGH
        return level, level.name, level + 1, level == 1, level < Level.HIGH, int(level), x * level

    agree(f, [UP, DOWN])


def test_a_loop_runs_while_a_list_has_items() -> None:
    def f(n):
        stack, steps = [int(n)], 0
        while stack:
            k = stack.pop()
            steps += 1
            if k > 0:
                stack.append(k - 1)
                stack.append(k - 2)
        return steps

    agree(f, [torch.tensor(n) for n in (4, 0, 1, 6)])


def test_width_of_a_constant() -> None:
    def f(n):
        width = int(n) + 4
        print(f"{3.5:{width}.2f}|{'a':>{width}}")
        return n

    agree(f, [torch.tensor(2), torch.tensor(9)])


def test_items_of_python_sequences() -> None:
    def f(n):
        k = int(n)
        return ("relu", "tanh")[k], "abc"[k], [Mode.A, Mode.B][k].name, [None, torch.ones(2)][k]

    agree(f, [torch.tensor(n) for n in (1, 0, -1, -2, 2, 1)])


def test_numbers_and_tensors_are_formatted_as_in_eager() -> None:
    def f(n, x):
        v = x.sum().item()
        print("%s %d %5.2f %x %%" % ("a", n.item(), v, int(n) + 9), "%s" % [v, 1], "%(b)r %(a)3.1f" % {"a": v, "b": "z"})
        print("{:>{}}|{}".format(int(n), 5, n), "-".join(["x", str(v), f"{v:.1f}"]), ",".join(str(u.item()) for u in x))
        return "%s" % (x.shape,), "%s" % v if n > 1 else "no"

    agree(f, [(torch.tensor(n), x) for n in (2, 1) for x in (UP, DOWN)])


def test_two_options_that_a_loop_takes_for_one_kind() -> None:
    def f(x):
        s = [x, 0]
        if x.sum() > 0:
            s = [s[0] * 2, 4]
        while s[0].abs().sum() < 60:
            s = [s[0] * 2, s[1] + 1]
        return s

    agree(f, [UP, DOWN, UP * 100, DOWN * 100])


def test_missing_items_are_made() -> None:
    def f(x):
        made, counts = collections.defaultdict(lambda: torch.zeros(3, dtype=torch.float64)), collections.Counter()
        if x.sum() > 0:
            made["a"] += x
        for v in x:
            counts["up" if v > 1 else "down"] += 1
        return made["a"] + x, counts["up"], counts["down"], counts["none"], len(made)

    agree(f, [UP, DOWN])


def test_variables_that_hold_namespaces() -> None:
    def f(x, n):
        one, two = types.SimpleNamespace(h=x), types.SimpleNamespace(h=x + 1)
        chosen = one
        if x[0] > 0:
            chosen = two
        h = chosen.h
        i, turned = n * 0, one
        while i < n:
            i = i + 1
            turned = two if turned is one else one
        return h, chosen.h, turned.h

    agree(f, [(x, torch.tensor(n)) for x in (UP, DOWN) for n in (0, 1, 3)])
    space, other = types.SimpleNamespace(h=UP * 2), types.SimpleNamespace(h=DOWN * 3)

    def g(x):
        held = space
        if x[0] > 0:
            held = other
        return held.h, held is space

    agree(g, [UP, DOWN, UP])
