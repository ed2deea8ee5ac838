"""What eager raises where an operation refuses its operands: other code checks abstract values, in its own words."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st.errors import CaptureError
from dy2st_runtime.ir.operators import present

_MOST_BYTES = 2**24
"""Of operands that are made only to hear what eager says."""
_EXAMPLES: dict[type, Any] = {torch.SymInt: 2, torch.SymFloat: 0.5, torch.SymBool: True}
_NO_KERNEL = "cannot be traced: it has no fake kernel that takes these operands"
_PRODUCTS = frozenset(present("matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv", "linear", "bilinear"))
"""Operations that take no integers beside floating-point numbers."""


def of_eager(func: Any, args: Any, kwargs: Any, error: Exception) -> Exception:
    """Return the exception that an operation raises for real operands of the same dtypes, sizes and strides.

    Args:
        func: the operator.
        args: its operands, abstract values among them.
        kwargs: the same.
        error: what it raises for abstract values.

    Returns:
        An error of ours where the operation takes them. ``error`` itself where that cannot be tried: sizes are not known, or large;
        it draws random numbers; it belongs to a library.
    """
    if "no fake impl registered" in str(error):
        return without_abstract(func)
    if not _can_be_tried(func, args, kwargs):
        return error
    raised = _tried(func, args, kwargs, grad=False)
    if raised is not None:
        return raised
    return error if _tried(func, args, kwargs, grad=torch.is_grad_enabled()) else without_abstract(func, str(error))


def of_dtypes(func: Any, args: Any, kwargs: Any) -> Exception | None:
    """Return the exception that an operation raises for real operands whose dtypes differ, which no fake kernel may look at."""
    dtypes = {arg.dtype for arg in args if isinstance(arg, torch.Tensor)}
    if len(dtypes) > 1 and func.overloadpacket not in _PRODUCTS:  # others take indices and masks
        dtypes = {dtype for dtype in dtypes if dtype.is_floating_point or dtype.is_complex}
    if len(dtypes) < 2 or torch.Tag.pointwise in func.tags or not _can_be_tried(func, args, kwargs):
        return None
    return _tried(func, args, kwargs, grad=False)


def without_abstract(func: Any, seen: str | None = None) -> CaptureError:
    """Return the error for an operation that runs, but not on abstract values for tensors."""
    if func.namespace == "aten":
        fix = "use other dtypes or another operation; torch itself cannot trace this one either"
    else:
        fix = f"register what it gives for abstract values: torch.library.register_fake({func._schema.name!r}, ...)"
    return CaptureError(f"{func} {_NO_KERNEL}", seen=seen, fix=fix)


def has_no_abstract(error: Exception) -> bool:
    """Tell whether an error is one for an operation that runs, but not on abstract values."""
    return isinstance(error, CaptureError) and _NO_KERNEL in str(error)


def _can_be_tried(func: Any, args: Any, kwargs: Any) -> bool:
    """Tell whether an operation of torch can be run for what eager says: without random numbers, on known and small operands."""
    if func.namespace != "aten" or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    leaves = tree_leaves((args, kwargs))
    numbers = set[sympy.Basic]().union(*(leaf.node.expr.free_symbols for leaf in leaves if isinstance(leaf, SYMBOLIC_NUMBERS)))
    if not numbers <= symbols_of_operands(func, args, kwargs):
        return False
    return all(_is_small(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))


def symbols_of_operands(func: Any, args: Any, kwargs: Any) -> frozenset[sympy.Basic]:
    """Return the symbols of numbers that an operation takes as operands: no size of its result depends on them."""
    given = [
        *zip(func._schema.arguments, args),
        *((each, kwargs[each.name]) for each in func._schema.arguments if each.name in kwargs),
    ]
    operands, others = set[sympy.Basic](), set[sympy.Basic]()
    for argument, value in given:
        if isinstance(value, SYMBOLIC_NUMBERS):
            is_operand = isinstance(argument.type, (torch.NumberType, torch.TensorType))
            (operands if is_operand else others).update(value.node.expr.free_symbols)
    if not operands:
        return frozenset()
    for leaf in tree_leaves((args, kwargs)):
        sizes: tuple[Any, ...] = tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else ()
        others.update(*(size.node.expr.free_symbols for size in sizes if isinstance(size, torch.SymInt)))
    return frozenset(operands - others)


def _tried(func: Any, args: Any, kwargs: Any, grad: bool) -> Exception | None:
    """Return what an operation raises for real operands."""
    with _disable_current_modes(), torch.set_grad_enabled(grad):
        args, kwargs = tree_map_only(FakeTensor, lambda fake: _real(fake, grad), (args, kwargs))
        args, kwargs = tree_map_only(SYMBOLIC_NUMBERS, _example, (args, kwargs))
        try:
            func(*args, **kwargs)
        except Exception as error:
            return error.with_traceback(None)
    return None


def _example(number: Any) -> Any:
    """Return some number of the kind: whatever it is, the kind fits or not."""
    return _EXAMPLES[type(number)]


def _is_small(tensor: torch.Tensor) -> bool:
    """Tell whether an abstract value is for a plain tensor that takes little memory, on a device that is there."""
    if not isinstance(tensor, FakeTensor) or tensor.layout != torch.strided or tensor.fake_device.type not in _devices():
        return False
    sizes = [*tensor.shape, *tensor.stride(), tensor.storage_offset()]
    return all(type(size) is int for size in sizes) and tensor.untyped_storage().nbytes() <= _MOST_BYTES


def _devices() -> tuple[str, ...]:
    accelerator = torch.accelerator.current_accelerator()
    return ("cpu",) if accelerator is None else ("cpu", accelerator.type)


def _real(tensor: FakeTensor, grad: bool) -> torch.Tensor:
    device = tensor.fake_device
    result = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.uint8, device=device).untyped_storage()
    with torch.no_grad():
        real = torch.empty(0, dtype=tensor.dtype, device=device).set_(
            result, tensor.storage_offset(), tensor.shape, tensor.stride()
        )
    return real.requires_grad_() if grad and tensor.requires_grad else real
