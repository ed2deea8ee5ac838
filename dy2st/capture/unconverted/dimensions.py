"""Dimensions of tensors that only the program knows: ``x.sum(dim=n)``, ``torch.softmax(x, dims[0])``, ``x.permute(order)``.

The operators of torch take dimensions as constants: what one does with a dimension is done for each that the tensor has. Other
numbers are given to the operator when the program runs (:mod:`dy2st.capture.torch_functions.by_number`).
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from dy2st.capture.diagnostics.attribution import TRACING_ERRORS, is_about_abstracts
from dy2st.capture.environment import written_out
from dy2st.capture.operands.eager_errors import has_no_abstract
from dy2st.capture.session.session import Session
from dy2st.capture.torch_functions import by_number
from dy2st_runtime.primitives import random_state

MAKES_TEXTS_FOR_USER = True

_MODULES = frozenset(("torch.functional", "torch.nn.functional", "torch._tensor"))
"""Where functions of torch are written in Python."""
_NO_DIMENSION = 99
"""A dimension that no tensor has, and no size or number of parts that takes long."""
_RANGE = re.compile(rf"expected to be in range of \[(-?\d+), (-?\d+)\], but got {_NO_DIMENSION}\)")

_TWICE = re.compile("duplicate dims|appears multiple times|repeated dim")


def given(session: Session, function: Any, args: Any, kwargs: Any, step: Callable[[], Any]) -> Any:
    """Return what a step gives, a call of a function; of one of torch that needs to know a number, what the program's gives."""
    before = session.builder.mark()
    try:
        return step()
    except Exception as asked:
        error = asked
    if not _is_about_numbers(session, error):
        raise error
    if session.builder.mark() is not before:
        given = by_number.numbers_of_tensors(session, function, args, kwargs)
        if given is None:
            raise error
        args, kwargs = given
    if isinstance(error, GuardOnDataDependentSymNode):
        result = _over_each(session, function, args, kwargs, error)
        if result is not NotImplemented:
            return result
    result = by_number.call(session, function, args, kwargs)
    if result is NotImplemented:
        raise error
    return result


def _is_about_numbers(session: Session, error: Exception) -> bool:
    """Tell whether torch has raised an error because it does not know what a number is."""
    return isinstance(error, TRACING_ERRORS) or has_no_abstract(error) or is_about_abstracts(session, error)


def _over_each(session: Session, function: Any, args: Any, kwargs: Any, error: GuardOnDataDependentSymNode) -> Any:
    """Return what a call gives for the dimension that an argument is; ``NotImplemented`` where none is asked for."""
    number = next((leaf for leaf in tree_leaves((args, kwargs)) if _is_asked(error, leaf)), None)
    if number is None or not _computes(function, args, kwargs):
        return NotImplemented

    def once(dim: int) -> Any:
        given, named = tree_map(lambda leaf: dim if leaf is number else leaf, (args, kwargs))
        return session.call(function, *given, **named)

    message = _raised(function, args, kwargs, number, _NO_DIMENSION)
    bounds = _RANGE.search(message)
    if bounds is None:
        if _TWICE.search(message):
            return once(0)  # which raises, whatever the number is: the dimensions before it do not fit
        return NotImplemented
    low, high = map(int, bounds.groups())
    return _over_dimensions(session, number, low, high, once)


def _over_dimensions(session: Session, number: torch.SymInt, low: int, high: int, once: Callable[[int], Any]) -> Any:
    possible = session.shapes.possible(number.node.expr)
    if possible is not None:
        return session.over(session.new_union(number, {value: value for value in possible}), once)
    session.call(written_out.check_dimension, number, low, high)
    if high == 0:
        return once(0)
    return session.over(session.new_union(number % (high + 1), {dim: dim for dim in range(high + 1)}), once)


def _computes(function: Any, args: Any, kwargs: Any) -> bool:
    """Tell whether a function is one of torch that computes with tensors, and does nothing else."""
    if isinstance(getattr(function, "__self__", None), torch.Tensor):
        return True
    if not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs))):
        return False
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, types.FunctionType):
        return module in _MODULES
    return isinstance(function, (types.BuiltinFunctionType, types.MethodDescriptorType)) and module.partition(".")[0] in (
        "torch",
        "",
    )


def _is_asked(error: GuardOnDataDependentSymNode, leaf: Any) -> bool:
    return isinstance(leaf, torch.SymInt) and leaf.node.expr == error.cond


def _raised(function: Any, args: Any, kwargs: Any, number: torch.SymInt, dim: int) -> str:
    """Return what a call raises for a dimension, with small tensors of as many dimensions."""

    def made_up(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return torch.zeros([1] * leaf.dim(), dtype=leaf.dtype)
        return dim if leaf is number else 0 if isinstance(leaf, torch.SymInt) else leaf

    with _disable_current_modes(), random_state.kept():
        try:
            owner = getattr(function, "__self__", None)
            called = getattr(made_up(owner), function.__name__) if isinstance(owner, torch.Tensor) else function
            given, named = tree_map(made_up, (args, kwargs))
            called(*given, **named)
        except Exception as error:  # whatever a kernel of anybody's raises
            return str(error)
    return ""
