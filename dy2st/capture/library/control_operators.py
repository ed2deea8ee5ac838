"""Torch's own operators for branches and loops: what they say is said by Python's statements in a captured function."""

from __future__ import annotations

from typing import Any

from torch import _higher_order_ops as operators

from dy2st.capture.library.registry import refuses

_FIXES: dict[Any, str] = {
    operators.cond: "write an if statement on the tensor",
    operators.while_loop: "write a while statement on the tensor",
    operators.scan: "write a for loop that appends to a list, and torch.stack",
    operators.associative_scan: "write a for loop that appends to a list, and torch.stack",
    operators.map: "write a for loop over the rows of the tensor, or use torch.func.vmap",
}

for _function, _fix in _FIXES.items():
    refuses(_function, message=f"the operator {_function.__name__}() cannot be used inside a captured function", fix=_fix)
