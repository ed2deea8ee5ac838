"""``dy2st run``: files in, files out."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch

from dy2st.cli.output import clean, console
from dy2st.errors import SignatureError
from dy2st_runtime.ir.constants import dtype_name
from dy2st_runtime.ir.program import InputSlot, Program
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, ObjectOf, Structure, TupleOf
from dy2st_runtime.module import LoadedModule
from dy2st_runtime.module import load as load_archive

_SUFFIXES = (".npy", ".npz", ".json")


def loaded(path: Path, namespaces: Collection[str], backend: str | None, max_steps: int | None) -> LoadedModule:
    """Return an archive, loaded."""
    return load_archive(path, namespaces=namespaces, backend=backend, max_steps=max_steps)


def run(model: LoadedModule, method: str, given: Sequence[str], output: Path | None, cast: bool, seed: int | None) -> None:
    """Call a method on what is in files, and write or print the result."""
    if output is not None and output.suffix not in _SUFFIXES:
        raise SignatureError(f"the result is written to a {', '.join(_SUFFIXES)} file, not to {output.name}")
    args, kwargs = arguments(model, method, given, cast)
    if seed is not None:
        torch.manual_seed(seed)
    with torch.no_grad():
        result = getattr(model, method)(*args, **kwargs)
    if output is None:
        console().print(clean(repr(result)), markup=False, soft_wrap=True)
    else:
        _write(result, output)


def arguments(model: LoadedModule, method: str, given: Sequence[str], cast: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments in files, or the examples in the archive.

    Raises:
        SignatureError: there are neither, or they do not fit.
    """
    if method not in model.methods:
        raise SignatureError(f"the archive has no method {method}; it has {', '.join(model.methods)}")
    if not given:
        if method in model.examples:
            return model.examples[method]
        if not model.programs_of(method)[0].inputs:
            return (), {}
        raise SignatureError(f"the archive has no example arguments for {method}: give some with --input")
    args, kwargs = _collected(given)
    return _fitted(model.programs_of(method)[0], args, kwargs, cast)


def _collected(given: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for entry in given:
        name, sign, file = entry.partition("=")
        path = Path(file if sign and name.isidentifier() else entry)
        result = _read(path)
        if sign and name.isidentifier():
            kwargs[name] = result
        elif path.suffix == ".npy":
            args.append(result)
        elif isinstance(result, list):
            args += result
        else:
            kwargs |= result
    return args, kwargs


def _read(path: Path) -> Any:
    """Return what is in a file: an array, arrays by name, or what JSON says."""
    try:
        if path.suffix == ".json":
            return json.loads(path.read_text(encoding="utf-8"))
        if path.suffix not in _SUFFIXES:
            raise SignatureError(f"arguments come from {', '.join(_SUFFIXES)} files, not from {path.name}")
        result = numpy.load(path, allow_pickle=False)
    except ValueError as error:
        raise SignatureError(f"{path} cannot be read: {error}") from None
    if isinstance(result, numpy.ndarray):
        return result
    table = {name: result[name] for name in result.files}
    in_order = [f"arr_{index}" for index in range(len(table))]
    return [table[name] for name in in_order] if sorted(table) == sorted(in_order) else table


def _fitted(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any], cast: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return numbers and lists as the tensors that the program takes in their places."""
    match program.in_structure:
        case TupleOf((TupleOf(positions), DictOf(names, items))):
            pass
        case _:
            raise SignatureError(f"{program.name}: arguments of an unknown structure")
    by_name = dict(zip(names, items, strict=True))
    parameters = [parameter.name for parameter in program.parameters]
    by_name |= dict(zip(parameters, positions, strict=False))
    fit = _Fit(program.inputs, cast)
    fitted = [
        fit(
            value, positions[place] if place < len(positions) else by_name.get(parameters[place] if place < len(parameters) else "")
        )
        for place, value in enumerate(args)
    ]
    return tuple(fitted), {name: fit(value, by_name.get(name)) for name, value in kwargs.items()}


class _Fit:
    """Makes of a value of a file what a structure has in its place."""

    def __init__(self, slots: Sequence[InputSlot], cast: bool) -> None:
        self.slots, self.cast = slots, cast

    def __call__(self, value: Any, expected: Structure | None) -> Any:
        match expected:
            case Leaf(index):
                return self._leaf(value, self.slots[index])
            case TupleOf(items) | ListOf(items) if isinstance(value, list) and len(value) == len(items):
                results = [self(item, part) for item, part in zip(value, items, strict=True)]
                return results if isinstance(expected, ListOf) else tuple(results)
            case DictOf(keys, items) if isinstance(value, dict):
                parts = dict(zip(keys, items, strict=True))
                return {key: self(item, parts.get(key)) for key, item in value.items()}
            case ObjectOf(factory, fields, items) if isinstance(value, dict) and set(value) == set(fields):
                made_object: Any = object.__new__(factory)
                for name, part in zip(fields, items, strict=True):
                    object.__setattr__(made_object, name, self(value[name], part))
                return made_object
            case Const(constant) if isinstance(constant, tuple) and isinstance(value, list):
                return tuple(value)
            case _:
                return torch.from_numpy(value) if isinstance(value, numpy.ndarray) else value

    def _leaf(self, value: Any, slot: InputSlot) -> Any:
        if slot.number == "float" and type(value) is int:
            return float(value)  # JSON has one kind of numbers
        if slot.dtype is None:
            return value.item() if isinstance(value, numpy.ndarray) and value.ndim == 0 else value
        if isinstance(value, numpy.ndarray):
            tensor = torch.from_numpy(numpy.ascontiguousarray(value).reshape(value.shape))
            return tensor.to(slot.dtype) if self.cast else tensor
        if isinstance(value, (bool, int, float, list)):
            try:
                return torch.tensor(value, dtype=slot.dtype)
            except (ValueError, TypeError, RuntimeError) as error:
                raise SignatureError(f"{slot.name} is no {dtype_name(slot.dtype)} tensor: {error}") from None
        return value


def _write(result: Any, path: Path) -> None:
    if path.suffix == ".json":
        path.write_text(json.dumps(_plain(result), indent=1), encoding="utf-8")
        return
    arrays = dict(_arrays(result, ""))
    if path.suffix == ".npy":
        if len(arrays) != 1:
            raise SignatureError(f"the result has {len(arrays)} parts: write it to a .npz or .json file")
        numpy.save(path, *arrays.values())
    else:
        numpy.savez(path, **arrays)


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)) or hasattr(value, "__dataclass_fields__"):
        items = vars(value) if hasattr(value, "__dataclass_fields__") else None
        return [_plain(item) for item in value] if items is None else {key: _plain(item) for key, item in items.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def _arrays(value: Any, name: str) -> Any:
    """Return the tensors and numbers of a nested result by their paths."""
    if isinstance(value, (torch.Tensor, bool, int, float)):
        tensor = torch.as_tensor(value).detach().cpu()
        known = tensor.dtype not in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
        yield name or "result", (tensor if known else tensor.float()).resolve_conj().resolve_neg().numpy()
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _arrays(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _arrays(item, f"{name}.{index}" if name else str(index))
    elif hasattr(value, "__dataclass_fields__"):
        yield from _arrays(vars(value), name)
