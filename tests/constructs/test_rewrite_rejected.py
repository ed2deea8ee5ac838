"""What is refused before any rewrite: the message, the place, and the counterpart that is accepted."""

from __future__ import annotations

import traceback

import pytest

from dy2st.errors import SourceNotFoundError, UnsupportedSyntaxError
from dy2st.static.conversion import convert
from tests.constructs.plain_python import conversion

REJECTED = {
    "yield in an operand": ("def f(x):\n    return x and (yield x)\n", 2, 19, "operand that may be skipped"),
    "yield in finally": ("def f(x):\n    try:\n        x()\n    finally:\n        yield x\n", 5, 9, "yield inside finally"),
    "async": ("async def f(x):\n    return x\n", 1, 1, "async function"),
    "async comprehension": ("def f(x):\n    return (y async for y in x)\n", 2, 25, "cannot await"),
    "return in finally": (
        "def f(x):\n    for y in x:\n        try:\n            break\n        finally:\n            if x: return x\n",
        6,
        19,
        "return inside",
    ),
    "bare raise beside a return in finally": (
        "def f(x):\n    try:\n        x()\n    finally:\n        if x: return x\n        raise\n",
        5,
        15,
        "beside a bare raise",
    ),
    "break in finally": (
        "def f(x):\n    for y in x:\n        try:\n            continue\n        finally:\n            break\n",
        6,
        13,
        "break inside",
    ),
    "locals in a loop": ("def f(x):\n    for y in x:\n        x = locals()\n", 3, 13, "may change the dict of the one before"),
    "locals in a comprehension": ("def f(x):\n    return [locals() for y in x]\n", 2, 13, "may change the dict of the one before"),
    "eval": ("def f(x):\n    return eval('x')\n", 2, 12, "looks at local variables"),
}
ACCEPTED = {
    "yield": "def f(x):\n    if x:\n        yield x\n",
    "yield from": "def f(x):\n    return (yield from x)\n",
    "nested generator": "def f(x):\n    def g():\n        yield x\n    return list(g())\n",
    "nested coroutine": "def f(x):\n    async def g():\n        await x\n    return g\n",
    "return at the end of finally": "def f(x):\n    try:\n        x()\n    finally:\n        return x\n",
    "return on some ways through finally": "def f(x):\n    try:\n        return x()\n    finally:\n        if x: return x\n",
    "loop in finally": ("def f(x):\n    try:\n        x()\n    finally:\n        for y in x:\n            break\n"),
    "eval with names": "def f(x):\n    return eval('x', {'x': x})\n",
}


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_syntax_is_shown_with_its_place(name: str) -> None:
    source, line, offset, message = REJECTED[name]
    with pytest.raises(UnsupportedSyntaxError, match=message) as caught:
        conversion(source)
    error = caught.value
    assert (error.lineno, error.offset) == (line, offset)
    assert error.text == source.splitlines(keepends=True)[line - 1]
    assert "not_to_static" in str(error)
    assert "^" in "".join(traceback.format_exception_only(type(error), error))


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_accepted_counterpart_of_rejected_code_converts(name: str) -> None:
    assert conversion(ACCEPTED[name])


def test_a_function_without_source_is_refused() -> None:
    module: dict[str, object] = {}
    exec("def f(x):\n    return x\n", module)
    with pytest.raises(SourceNotFoundError, match="Define it in a file or a notebook cell"):
        convert(module["f"])  # type: ignore[arg-type]
