"""Functions and classes that a static function defines, with decorators and class bodies that do something."""

from __future__ import annotations

import dataclasses
import functools

import torch

from tests.oracle import agree
from tests.programs.state import agree_with_state


def ones():
    return [torch.tensor([1.0, 2.0]), torch.tensor([-1.0, 0.5]), torch.tensor([3.0, 1.0])]


def test_decorators_of_one_branch():
    def make():
        known = {}

        def keep(function):
            known["kept"] = known.get("kept", 0) + 1
            return function

        def f(x):
            if x.sum() > 0:

                @keep
                def g(v):
                    return v * 2

            else:
                g = torch.neg
            return g(x)

        return f, lambda: known, ones()

    agree_with_state(make)


def test_class_bodies_of_one_branch():
    def make():
        log = []

        def f(x):
            if x.sum() > 0:

                class A:
                    log.append("positive")
                    value = 1

            else:

                class A:
                    log.append("negative")
                    value = 2

            return A.value, len(log)

        return f, lambda: log, ones()

    agree_with_state(make)


def test_decorators_that_write_to_what_is_outside_do_so_at_each_call():
    def make():
        table = {}

        def register(name):
            def decorate(made):
                table[name] = table.get(name, 0) + 1
                return made

            return decorate

        def f(x):
            @register("f")
            def g(v):
                return v + 1

            @register("a")
            @register("b")
            class A:
                value = g(x)

            return A.value

        return f, lambda: table, ones()

    agree_with_state(make)


def test_decorators_of_libraries_work_on_what_is_defined_inside():
    def f(x):
        @torch.no_grad()
        def doubled(v):
            return v * 2

        @functools.wraps(doubled)
        def more(v):
            return doubled(v) + 1

        @dataclasses.dataclass
        class Kept:
            items: list = dataclasses.field(default_factory=list)

            @property
            def count(self):
                return len(self.items)

        kept = Kept()
        if x.sum() > 0:
            kept.items.append(1)
        return more(x), kept.count

    agree(f, ones())
