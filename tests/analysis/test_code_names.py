"""The names that code objects look up, against those that ``dis`` tells."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator

import pytest
import torch

from dy2st.code_names import global_names, written_free


def told(code: types.CodeType) -> Iterator[str]:
    yield from (one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from told(const)


def many_names() -> types.CodeType:
    return compile("\n".join(f"name_{number}\nname_{number}()" for number in range(700)), "many.py", "exec")


def in_a_function() -> types.CodeType:
    body = "\n".join(f"    name_{number}(lambda: name_{number + 1})" for number in range(700))
    return compile(f"def function():\n{body}\n", "many.py", "exec")


@pytest.mark.parametrize(
    "code",
    [
        many_names(),
        in_a_function(),
        torch.nn.Module.__call__.__code__,
        torch.nn.Module.named_parameters.__code__,
        pytest.main.__code__,
    ],
)
def test_global_names_are_those_that_dis_tells(code):
    assert [*global_names(code)] == [*told(code)]


def test_variables_of_enclosing_functions_are_written_by_functions_inside_too():
    def outer():
        a = b = c = 0

        def middle():
            nonlocal a

            def inner():
                nonlocal b
                b = 1
                return c

            a = inner()

        return middle, a, b, c

    assert sorted(written_free(outer()[0].__code__)) == ["a", "b"]
    assert [*written_free(outer.__code__)] == []
