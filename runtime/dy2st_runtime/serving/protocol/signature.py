"""The tensors that a model takes and gives, by name, and how arguments and results are put together from them.

What a program takes is in its input slots: an argument ``x``, or ``x.0`` and ``x.key`` for what is in one. What it gives is named
by the way to it: ``scores`` and ``boxes.0`` in a dict, named tuple or dataclass; ``result``, ``result.0`` and ``result.0.key`` in
anything else.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from dy2st_runtime.errors import ServingError
from dy2st_runtime.ir.constants import dtype_name
from dy2st_runtime.ir.printing import short_dtype
from dy2st_runtime.ir.program import InputSlot, Program
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, ObjectOf, Shared, Structure, TupleOf
from dy2st_runtime.ir.unflattening import unflatten
from dy2st_runtime.ir.value_types import tensor_type, type_of
from dy2st_runtime.primitives import control
from dy2st_runtime.serving.protocol.datatypes import COMPLEX, DTYPES, TEXT, Given, Result, datatype_of, decode, result_of
from dy2st_runtime.serving.protocol.failures import BadRequestError, ModelError

_NUMBERS = {"bool": "BOOL", "int": "INT64", "float": "FP64"}
_SHORT = {short_dtype(dtype): dtype for dtype in (*DTYPES.values(), *COMPLEX)}
_ROOT = "result"
_MOST_DEPTH = 64


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """What is known of a tensor before a call.

    Attributes:
        name: see this module.
        datatype: of the protocol.
        shape: a size that may differ from call to call is -1.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.datatype}{list(self.shape)}"

    def described(self) -> dict[str, Any]:
        """Return it as the metadata of the protocol has it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@dataclasses.dataclass(frozen=True)
class Signature:
    """What one method of a model takes and gives.

    Attributes:
        program: what runs.
        inputs: one for each leaf of its arguments.
        outputs: those of its results that are known before a call.
        is_complete: whether these are all.
    """

    program: Program
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    is_complete: bool

    def arguments(self, given: Sequence[Given]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call.

        Args:
            given: the tensors of a request, in any order.

        Raises:
            BadRequestError: one is missing, there twice, unknown, or not what the program takes in its place.
        """
        by_name = {item.name: item for item in given}
        if len(by_name) < len(given):
            twice = next(name for name, count in collections.Counter(item.name for item in given).items() if count > 1)
            raise BadRequestError(f"input {twice!r} is there twice")
        leaves = []
        for info, slot in zip(self.inputs, self.program.inputs):
            item = by_name.pop(info.name, None)
            if item is None:
                raise BadRequestError(f"input {info.name!r} is missing; the model takes {self._wanted()}")
            leaves.append(_leaf(item, info, slot))
        if by_name:
            raise BadRequestError(f"there is no input {next(iter(by_name))!r}; the model takes {self._wanted()}")
        args, kwargs = unflatten(self.program.in_structure, leaves)
        return args, kwargs

    def _wanted(self) -> str:
        return ", ".join(map(str, self.inputs)) or "none"

    def check_outputs(self, names: Collection[str]) -> None:
        """Check what a request asks for.

        Raises:
            BadRequestError: the model has no such result.
        """
        known = {info.name for info in self.outputs}
        if self.is_complete and (unknown := [name for name in names if name not in known]):
            there = ", ".join(map(str, self.outputs)) or "nothing"
            raise BadRequestError(f"there is no output {unknown[0]!r}; the model gives {there}")

    def results(self, value: Any, names: Collection[str] | None = None) -> list[Result]:
        """Return what a model has returned as tensors.

        Args:
            value: what it returned.
            names: which are asked for; ``None`` for all.

        Raises:
            ModelError: the protocol has no datatype for a part of it.
            BadRequestError: one is asked for that is not there.
        """
        found = dict(_distinct((_name(path), part) for path, part in _walk(value, ())))
        if names is None:
            return [result_of(name, part) for name, part in found.items()]
        for name in names:
            if name not in found:
                raise BadRequestError(f"there is no output {name!r}; the model gave {', '.join(found) or 'nothing'}")
        return [result_of(name, found[name]) for name in names]


def signature_of(program: Program) -> Signature:
    """Return what a program takes and gives.

    Args:
        program: of a loaded model.

    Raises:
        ServingError: the protocol has no datatype for an argument or result.

    Example:
        >>> double = dy2st.to_static(lambda x: {"twice": x * 2}).program(torch.ones(3))
        >>> found = signature_of(double)
        >>> print(*found.inputs, "->", *found.outputs)
        x: FP32[3] -> twice: FP32[3]
    """
    inputs = tuple(_info(name, slot, program) for name, slot in _distinct((slot.name, slot) for slot in program.inputs))
    parts = [(_name(path), part) for path, part in _parts(program.out_structure, ())]
    outputs = []
    for name, part in _distinct(parts):
        known = None if part is None else _output(name, part, program)
        if known is not None:
            outputs.append(known)
    return Signature(program, inputs, tuple(outputs), len(outputs) == len(parts))


def _info(name: str, slot: InputSlot, program: Program) -> TensorInfo:
    if slot.dtype is None:
        datatype = _NUMBERS.get(slot.number or "")
        if datatype is None:
            what = slot.number or "a number"
            raise ServingError(f"{program.name}() takes {what} as {name}, which the protocol has no datatype for")
        return TensorInfo(name, datatype, (1,))
    return _tensor_info(name, slot.dtype, slot.shape, f"{program.name}() takes")


def _tensor_info(name: str, dtype: torch.dtype, shape: Sequence[int | str], what: str) -> TensorInfo:
    datatype = datatype_of(dtype)
    if datatype is None:
        raise ServingError(f"{what} {dtype_name(dtype)} as {name}, which the Open Inference Protocol has no datatype for")
    sizes = tuple(size if isinstance(size, int) else -1 for size in shape)
    return TensorInfo(name, datatype, (*sizes, 2) if dtype in COMPLEX else sizes)


def _leaf(given: Given, info: TensorInfo, slot: InputSlot) -> Any:
    is_number, shape = slot.dtype is None, given.shape
    fits = len(shape) == len(info.shape) and all(size in (-1, own) for size, own in zip(info.shape, shape))
    if given.datatype != info.datatype or not (fits or (is_number and shape == ())):
        raise BadRequestError(
            f"input {info.name!r} must be {info.datatype}{list(info.shape)}, but is {given.datatype[:40]}{list(shape)[:40]}"
        )
    tensor = decode(given)
    assert isinstance(tensor, torch.Tensor), "no input is of BYTES"
    if is_number:
        return tensor.item()
    return torch.view_as_complex(tensor) if slot.dtype in COMPLEX else tensor


_Path = tuple[Any, ...]


def _name(path: _Path) -> str:
    steps = [str(step) for step in path]
    return ".".join(steps if path and isinstance(path[0], str) else [_ROOT, *steps])


def _distinct(named: Any) -> Iterator[tuple[str, Any]]:
    """Yield what has names, with a number behind those that others before have."""
    taken = set[str]()
    for name, value in named:
        number, own = 1, name
        while own in taken:
            number += 1
            own = f"{name}_{number}"
        taken.add(own)
        yield own, value


def _parts(structure: Structure, path: _Path) -> Iterator[tuple[_Path, Structure | None]]:
    """Yield the parts of a result with the ways to them; ``None`` for what is known when the program has run."""
    match structure:
        case Const(value):
            yield from ((inner, Const(part)) for inner, part in _walk(value, path))
        case Leaf():
            yield path, structure
        case TupleOf(items, factory):
            keys: Sequence[Any] = getattr(factory, "_fields", range(len(items)))
        case ListOf(items):
            keys = range(len(items))
        case DictOf(keys, items) | ObjectOf(_, keys, items):
            pass
        case Shared(_, (inner,)):
            yield from _parts(inner, path)
            return
        case _:
            yield path, None
    if isinstance(structure, (TupleOf, ListOf, DictOf, ObjectOf)):
        for key, item in zip(keys, structure.items):
            yield from _parts(item, (*path, key))


def _output(name: str, part: Structure, program: Program) -> TensorInfo | None:
    if isinstance(part, Const):
        try:
            known = result_of(name, part.value)
        except ModelError as error:
            raise ServingError(str(error)) from None
        return TensorInfo(name, known.datatype, known.shape)
    assert isinstance(part, Leaf)
    value = program.block.outputs[part.index]
    if type_of(value) in _NUMBERS:
        return TensorInfo(name, _NUMBERS[type_of(value)], (1,))
    if isinstance(value, str) or (isinstance(value, fx.Node) and value.target is control.format_):
        return TensorInfo(name, TEXT, (1,))
    kind = tensor_type(value)
    if kind is None or kind[0] not in _SHORT:
        return None
    return _tensor_info(name, _SHORT[kind[0]], [int(s) if s.isdecimal() else s for s in kind[1]], f"{program.name}() gives")


def _walk(value: Any, path: _Path) -> Iterator[tuple[_Path, Any]]:
    """Yield the tensors, numbers and texts of what a model has returned; ``None`` is left out."""
    if value is None:
        return
    if len(path) > _MOST_DEPTH:
        raise ModelError(f"the model returned more than {_MOST_DEPTH} containers in each other")
    items: Any
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        items = zip(value._fields, value)
    elif isinstance(value, (list, tuple, collections.deque)):
        items = enumerate(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = vars(value).items()
    else:
        yield path, value
        return
    for key, item in items:
        yield from _walk(item, (*path, key))
