"""Operations that change a tensor's shape in place: right where nothing decides about them, refused where a tensor does."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch

import dy2st

_OPERATIONS = (
    "resize_(3, 1)", "resize_as_(torch.ones(2, 1))", "t_()", "transpose_(0, 1)", "squeeze_()", "unsqueeze_(0)", "swapaxes_(0, 1)",
    "set_(torch.ones(5))", "as_strided_((1, 2), (1, 1))", "zero_()",
)  # fmt: skip


class _Holder:
    def __init__(self) -> None:
        self.held = torch.ones(1, 3)


def _program(operation: str, target: str, in_branch: bool) -> Any:
    statement = f"if x.sum() > 0:\n        {target}.{operation}" if in_branch else f"{target}.{operation}"
    text = f"def f(m, x):\n    y = x * 2\n    {statement}\n    return m.held.shape, x.shape, y.shape, m.held.sum(), y.sum()\n"
    file, space = f"<shapes in place: {operation} {target} {in_branch}>", {"torch": torch}
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), space)
    return space["f"]


@pytest.mark.parametrize("in_branch", [False, True])
@pytest.mark.parametrize("target", ["m.held", "x", "y"])
@pytest.mark.parametrize("operation", _OPERATIONS)
def test_shapes_that_change_in_place(operation: str, target: str, in_branch: bool) -> None:
    program = _program(operation, target, in_branch)
    static, eager_holder, holder = dy2st.to_static(program), _Holder(), _Holder()
    for sign in (-1.0, 1.0, -1.0):
        expected = program(eager_holder, torch.full((1, 3), sign))
        try:
            assert str(static(holder, torch.full((1, 3), sign))) == str(expected)
        except dy2st.CaptureError as error:
            assert "changes a shape in place" in str(error) and "Fix" in str(error)
            assert in_branch or target == "m.held"
            assert holder.held.shape == (1, 3)
            return
        assert holder.held.shape == eager_holder.held.shape
    assert operation == "zero_()" or not in_branch or operation.startswith("as_strided_")
