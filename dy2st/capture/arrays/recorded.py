"""Calls of NumPy in the program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from dy2st import errors
from dy2st.capture.arrays.encoding import Encoder
from dy2st.capture.arrays.learning import Shown, shown
from dy2st.capture.recording import failing
from dy2st.capture.session.session import Session, need
from dy2st.capture.types import value_types
from dy2st.capture.values.abstract_arrays import AbstractArray, torch_dtype
from dy2st.capture.values.symbolic import TaggedUnion, with_option
from dy2st_runtime.arrays import calls
from dy2st_runtime.primitives import control

_CPU = torch.device("cpu")
_ITEMS = ("ndarray.__getitem__", "operator.setitem", "take", "ndarray.take", "put", "ndarray.put")


def refused(what: str, seen: str, fix: str) -> errors.CaptureError:
    """Return the error for what arrays of a program do not do."""
    return errors.CaptureError(f"{what} of an array known only at run time", need().here(), seen=seen, fix=fix)


_REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def operate(name: str, left: Any, right: Any) -> Any:
    """Return what an operator gives, one of whose operands is an array or number of NumPy."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, torch.Tensor) and isinstance(other, AbstractArray) and other.is_scalar:
            number = other.number()  # as torch takes it
            plain = name.strip("_")
            method = plain if one is left else _REFLECTED.get(plain, f"r{plain}")
            return getattr(torch.Tensor, f"__{method}__")(one, number)
    if isinstance(left, AbstractArray) and isinstance(right, torch.Tensor):
        return NotImplemented
    return call(f"operator.{name}", left, right)


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Record a call of one of NumPy's functions; returns what stands for the result."""
    return _recorded(calls.call, calls.called, name, args, kwargs)


def draw(name: str, *args: Any, **kwargs: Any) -> Any:
    """Record a call of one of ``np.random``."""
    before = np.random.get_state()
    try:
        return _recorded(calls.draw, calls.drawn, name, args, kwargs)
    finally:
        np.random.set_state(before)


def _recorded(operator: Any, run: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    session = need()
    union = _union_in((args, kwargs))
    if union is not None:
        function = call if operator is calls.call else draw
        return session.over(union, lambda option: _with(function, union, option, name, args, kwargs))
    encoder = Encoder(session, name)
    tree = [name, encoder.encode(list(args)), {key: encoder.encode(value) for key, value in kwargs.items()}]
    _check_caught(session, name, encoder)
    known = shown(session, run, json.dumps([*tree, None]), encoder, name)
    results = [_tensor(session, leaf, sizes) for leaf, sizes in zip(calls.leaves(known.result), known.sizes, strict=True)]
    session.builder.call(operator, (json.dumps([*tree, calls.described(known.result)]), encoder.operands), {}, results)
    _check_sizes(session, results, known)
    return _built(known.result, iter(results))


def write(name: str, target: AbstractArray, *args: Any, **kwargs: Any) -> None:
    """Record a call that changes an array."""
    session = need()
    union = _union_in((args, kwargs))
    if union is not None:
        session.over(union, lambda option: _with(write, union, option, name, (target, *args), kwargs))
        return
    encoder = Encoder(session, name)
    memory = Encoder(session, name)
    memory.encode(target)
    given = encoder.encode(list(args)), {key: encoder.encode(value) for key, value in kwargs.items()}
    text = json.dumps([name, *given, list(target.flips)])
    _check_caught(session, name, encoder)
    encoder.operands.append(memory.operands[0])
    encoder.numbers.append(None)
    shown(session, lambda text, operands: calls.written(text, operands[-1], operands[:-1]), text, encoder, name)
    calls.write(text, target.items, encoder.operands[:-1])


def _check_caught(session: Session, name: str, encoder: Encoder) -> None:
    """Refuse what may fail when the program runs, where an ``except`` clause is for that: no program enters it."""
    errors_: list[Exception] = []
    if name.startswith("linalg."):
        errors_.append(np.linalg.LinAlgError())
    if name in _ITEMS:
        errors_.append(IndexError())
    arrays = [tensor for tensor in encoder.operands if tensor.dim()]
    if len(arrays) > 1 and any(isinstance(size, torch.SymInt) for tensor in arrays for size in tensor.shape):
        errors_.append(ValueError())
    for error in errors_:
        failing.refuse_if_named(session, error, f"numpy.{name}()", "test what goes into it with an if statement")


def _union_in(value: Any) -> TaggedUnion | None:
    """Return an argument that is one of several, or is in one."""
    if isinstance(value, TaggedUnion):
        return value
    parts = value if isinstance(value, (list, tuple)) else value.values() if isinstance(value, dict) else ()
    return next((union for part in parts if (union := _union_in(part)) is not None), None)


def _with(function: Any, union: TaggedUnion, option: Any, name: str, args: Any, kwargs: Any) -> Any:
    given, named = with_option((args, kwargs), union, option)
    return function(name, *given, **named)


def _tensor(session: Session, leaf: Any, sizes: list[Any]) -> torch.Tensor:
    is_tensor = isinstance(leaf, torch.Tensor)
    dtype = leaf.dtype if is_tensor else torch_dtype(np.dtype(getattr(leaf, "dtype", type(leaf))))
    given = [value_types.DYNAMIC if size is None else value_types.size_of(size) for size in sizes]
    return session.fakes.tensor(value_types.TensorType(dtype, _CPU, tuple(given), None, False))


def _check_sizes(session: Session, results: list[torch.Tensor], known: Shown) -> None:
    """Have the program check the sizes that were learned."""
    for tensor, sizes in zip(results, known.sizes, strict=True):
        for dim, size in enumerate(sizes):
            if size is not None:
                actual = session.number(torch.ops.aten.sym_size.int, (tensor, dim), "int")
                message = f"dimension {dim} of what NumPy gives has another size than calls with other arrays have shown"
                session.builder.call(control.assert_, (actual == size, RuntimeError, message))


def _built(example: Any, results: Iterator[torch.Tensor]) -> Any:
    """Return a result like an example, of tensors of the program."""
    match example:
        case tuple():
            parts = [_built(item, results) for item in example]
            return type(example)._make(parts) if hasattr(example, "_make") else tuple(parts)
        case list():
            return [_built(item, results) for item in example]
        case None:
            return None
        case np.ndarray():
            return AbstractArray.captured(next(results), ())
        case np.generic():
            return AbstractArray.captured(next(results), None)
        case torch.Tensor():
            return next(results)
    return next(results).item()
