"""``locals()`` and ``vars()``: the variables by name."""

import torch

from tests.oracle import agree
from tests.programs.values import counts, signs


def scaled(x, n):
    return x * n


def test_all_variables_but_some():
    def f(x, *rest, k=3, **options):
        y = x * 2
        return {name: value for name, value in locals().items() if name not in {"options"}}

    agree(f, signs())


def test_a_variable_that_a_branch_binds():
    def f(x):
        if x.sum() > 0:
            y = x + 1
        table = vars()
        return "y" in table, table.get("y", x), len(table), list(table)

    agree(f, signs())


def test_a_variable_that_an_iteration_binds():
    def f(n):
        x = torch.zeros(2)
        for i in range(int(n)):
            if "last" in locals():
                x = x + last
            last = x + i
        return x

    agree(f, counts(3, 0, 1))


def test_deleted_variables_and_those_of_handlers_are_not_there():
    def f(x):
        y = x
        del y
        try:
            raise ValueError
        except ValueError as error:
            z = 1
        if x.sum() > 0:
            del z
        return sorted(locals())

    agree(f, signs())


def test_variables_of_functions_around():
    def f(x):
        w = x + 1

        def inner(q):
            r = q + w
            return locals()

        return inner(x)

    agree(f, signs())


def test_given_to_a_function_and_to_texts():
    def f(x):
        n = 3
        return "%(n)s" % locals(), "{n}".format(**locals()), scaled(**locals())

    agree(f, signs())


def test_the_class_of_a_method():
    class Model(torch.nn.Module):
        def forward(self, x):
            words = super().extra_repr()
            return sorted(locals()), locals()["words"]

    agree(Model(), signs())


def test_a_function_of_the_users_under_that_name():
    def f(x, locals=lambda: 5):
        return x * locals()

    agree(f, signs())
