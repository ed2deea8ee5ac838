"""From the arguments of a call to the leaves of a program, with every rule of its signature checked."""

from __future__ import annotations

import collections
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np
import torch

from dy2st_runtime.arrays.calls import in_memory
from dy2st_runtime.errors import SaveError, SignatureError
from dy2st_runtime.ir.flattening import HoldsItselfError, attributes, flatten, repeated_containers
from dy2st_runtime.ir.printing import describe, short_dtype
from dy2st_runtime.ir.program import InputSlot, Parameter, Program
from dy2st_runtime.ir.structure import CollectionOf, Const, DictOf, Leaf, ListOf, ObjectOf, Shared, Structure, TupleOf, marked
from dy2st_runtime.ir.structure_json import to_json
from dy2st_runtime.ir.unflattening import unflatten

_MISSING = object()

Casts = Callable[[], Collection[tuple[torch.dtype, torch.dtype]]]
"""Gives the dtypes that others have taken the place of since the capture (``module.half()``), with these others."""


def own_signature(function: FunctionType) -> inspect.Signature:
    """Return the signature that Python calls a function by, not the one that ``functools.wraps`` shows for it.

    Args:
        function: a Python function, perhaps a wrapper of another.

    Example:
        >>> import functools
        >>> def decorated(function):
        ...     @functools.wraps(function)
        ...     def wrapper(*args, **kwargs):
        ...         return function(*args, **kwargs)
        ...     return wrapper
        >>> own_signature(decorated(lambda x, scale=2: x * scale))
        <Signature (*args, **kwargs)>
    """
    bare = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    bare.__kwdefaults__, bare.__annotations__ = function.__kwdefaults__, function.__annotations__
    return inspect.signature(bare)


def hidden_parameters(function: FunctionType) -> frozenset[str]:
    """Return the parameters in which a wrapper keeps what it needs: given by name only, and not shown to its callers.

    Args:
        function: a Python function, perhaps a wrapper of another.
    """
    shown = inspect.signature(function).parameters
    return frozenset(
        p.name for p in own_signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY and p.name not in shown
    )


def parameters_of(function: FunctionType, bound: bool = False) -> tuple[Parameter, ...]:
    """Return what a program keeps of a function's signature.

    Args:
        function: the captured function.
        bound: whether to leave out the first parameter, ``self``; ``*args`` stay.

    Example:
        >>> def scaled(x, *, scale=2):
        ...     return x * scale
        >>> parameters_of(scaled)[1]
        Parameter(name='scale', kind='KEYWORD_ONLY', default=Const(value=2))
    """
    hidden, parameters = hidden_parameters(function), [*own_signature(function).parameters.values()]
    first = bound and bool(parameters) and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL
    return tuple(
        Parameter(parameter.name, parameter.kind.name, _constant_default(parameter.default))
        for parameter in parameters[first:]
        if parameter.name not in hidden
    )


def _constant_default(default: Any) -> Structure | None:
    """Return the structure of a default; ``None`` when there is none, or one that only exists in this process."""
    if default is inspect.Parameter.empty:
        return None
    try:
        repeated_containers(default, lambda value: False)
        structure = flatten(default, lambda value: False)[1]
        to_json(structure)
    except (HoldsItselfError, SaveError):
        return None
    return structure


class Binder:
    """Binds calls to the signature of one program, by position and by name as Python does."""

    def __init__(self, program: Program) -> None:
        self._program = program
        parameters = [inspect.Parameter(p.name, getattr(inspect.Parameter, p.kind)) for p in program.parameters] or [
            inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
            inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
        ]
        self._signature = inspect.Signature(parameters)
        self._paths = tuple({place.path: 0 for place in program.object_places if place.kind == "argument"})
        self._defaults = {p.name: unflatten(p.default, ()) for p in program.parameters if p.default is not None}
        self._expected = self._expected_arguments()

    def _expected_arguments(self) -> dict[str, Structure]:
        """Return the structure of each parameter's argument."""
        match marked(self._program.in_structure, self._paths):
            case TupleOf((TupleOf(args), DictOf(keys, items, factory))):
                bound = self._signature.bind_partial(*args, **dict(zip(keys, items, strict=True)))
            case other:
                raise SignatureError(f"{self._program.name}: arguments of an unknown structure {other}")
        expected: dict[str, Structure] = {}
        for name, tuple_of in bound.arguments.items():
            if isinstance(tuple_of, tuple):
                tuple_of = TupleOf(tuple_of)
            elif isinstance(tuple_of, dict):
                tuple_of = DictOf(tuple(tuple_of), tuple(tuple_of.values()), factory)
            expected[name] = tuple_of
        return expected

    def bind(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], casts: Casts, containers: dict[tuple[Any, ...], Any] | None = None
    ) -> list[Any]:
        """Return the leaves of a call's arguments, in the order of the program's inputs.

        Args:
            args, kwargs: of the call.
            casts: asked where an argument has not the dtype that it was captured with.
            containers: takes the containers that the program looks at, by their paths.

        Raises:
            SignatureError: with the argument, what it must be and what it is.
        """
        try:
            given = self._signature.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise SignatureError(f"{self._program.name}() {error}") from None
        leaves: list[Any] = [None] * len(self._program.inputs)
        call = _Call(self._program, leaves)
        for name, structure in self._expected.items():
            value = given.get(name, self._default(name))
            if value is _MISSING:
                raise SignatureError(f"{self._program.name}() is missing its argument {name}")
            call.match(structure, value, name)
        for name, value in given.items():
            if name not in self._expected and not _is_default(value, self._default(name)):
                self._refuse_extra(name, value)
        call.check_leaves(casts)
        if containers is not None:
            containers.update({self._paths[number]: result for number, result in call.containers.items()})
        return leaves

    def _default(self, name: str) -> Any:
        kind = self._signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            return ()
        return {} if kind is inspect.Parameter.VAR_KEYWORD else self._defaults.get(name, _MISSING)

    def _refuse_extra(self, name: str, value: Any) -> None:
        raise SignatureError(f"{self._program.name}() was captured without an argument {name}, but is called with {_seen(value)}")


class _Call:
    """One call: takes the arguments apart, then checks the leaves against the slots."""

    def __init__(self, program: Program, leaves: list[Any]) -> None:
        self.program, self.leaves = program, leaves
        self.places = [""] * len(leaves)
        self.containers: dict[int, Any] = {}

    def fail(self, place: str, expected: str, value: Any) -> None:
        raise SignatureError(f"{self.program.name}(): {place} must be {expected}, but is {_seen(value)}")

    def match(self, structure: Structure, value: Any, place: str) -> None:
        match structure:
            case Leaf(index):
                self.leaves[index], self.places[index] = value, place
            case Const(constant):
                if Const(constant) != Const(value):
                    self.fail(place, f"{constant!r}, which is a constant of this program", value)
            case TupleOf(items) | ListOf(items):
                self._match_sequence(structure, items, value, place)
            case DictOf():
                self._match_mapping(structure, value, place)
            case ObjectOf():
                self._match_object(structure, value, place)
            case Shared(number, (inner,)):
                self.containers[number] = value
                self.match(inner, value, place)
            case CollectionOf(_, (Leaf(index),)):
                self.places[index] = place
                self.leaves[index] = tensor = in_memory(value)
                if tensor is None:
                    self.fail(place, f"an array of NumPy that can be written, {_expected(self.program.inputs[index])[2:]}", value)
            case _:
                self.fail(place, "a value that is known before the call", value)

    def _match_sequence(self, structure: Structure, items: tuple[Structure, ...], value: Any, place: str) -> None:
        kind = tuple if isinstance(structure, TupleOf) else list
        if not isinstance(value, kind) or len(value) != len(items):
            self.fail(place, f"a {kind.__name__} of {len(items)}", value)
        for index, (item, part) in enumerate(zip(items, value, strict=True)):
            self.match(item, part, f"{place}[{index}]")

    def _match_mapping(self, structure: DictOf, value: Any, place: str) -> None:
        keys = f"a mapping with the keys {', '.join(map(repr, structure.keys))}"
        if not isinstance(value, Mapping) or set(value) != set(structure.keys):
            self.fail(place, keys, value)
        if hasattr(type(value), "__missing__"):  # what a program does where a key is missing is known
            self.fail(place, "a mapping that makes nothing for keys that are missing", value)
        if structure.factory is collections.OrderedDict and tuple(value) != structure.keys:
            self.fail(place, f"{keys}, in this order", value)
        for key, item in zip(structure.keys, structure.items, strict=True):
            self.match(item, value[key], f"{place}[{key!r}]")

    def _match_object(self, structure: ObjectOf, value: Any, place: str) -> None:
        fields = structure.fields
        if not all(hasattr(value, field) for field in fields):
            self.fail(place, f"an object like {structure.factory.__name__}, with {', '.join(fields)}", value)
        if structure.in_order and (results := tuple(attributes(value))) != fields:
            raise SignatureError(
                f"{self.program.name}(): {place} must have the attributes {', '.join(fields)}, in this order, "
                f"but has {', '.join(results)}"
            )
        for field, item in zip(fields, structure.items, strict=True):
            self.match(item, getattr(value, field), f"{place}.{field}")

    def check_leaves(self, casts: Casts) -> None:
        """Check types and sizes; one name stands for one size in the whole call."""
        sizes: dict[str, tuple[int, str]] = {}
        for slot, value, place in zip(self.program.inputs, self.leaves, self.places, strict=True):
            if slot.dtype is None:
                if type(value).__name__ != slot.number:
                    self.fail(place, f"a Python {slot.number}", value)
            elif not isinstance(value, torch.Tensor) or value.dim() != len(slot.shape):
                self.fail(place, _expected(slot), value)
            else:
                self._check_dtype(slot, value, place, casts)
                self._check_sizes(slot, value, place, sizes)

    def _check_dtype(self, slot: InputSlot, value: torch.Tensor, place: str, casts: Casts) -> None:
        assert slot.dtype is not None
        if value.dtype != slot.dtype and (slot.dtype, value.dtype) not in casts():
            self.fail(place, _expected(slot), value)

    def _check_sizes(self, slot: InputSlot, value: torch.Tensor, place: str, sizes: dict[str, tuple[int, str]]) -> None:
        for size, expected in zip(value.shape, slot.shape, strict=True):
            if isinstance(expected, int):
                if size != expected:
                    self.fail(place, _expected(slot), value)
                continue
            known, where = sizes.setdefault(expected, (size, place))
            if size != known:
                self.fail(place, f"{_expected(slot)} with {expected} = {known} as in {where}", value)


def _expected(slot: InputSlot) -> str:
    assert slot.dtype is not None
    return f"a tensor {short_dtype(slot.dtype)}[{', '.join(map(str, slot.shape))}]"


def _seen(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {describe(value)}"
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{list(value.shape)}" + " that is read-only" * (not value.flags.writeable)
    if value is None or isinstance(value, (bool, int, float, str)):
        return f"{value!r}" if value is None else f"the {type(value).__name__} {value!r}"
    if isinstance(value, Mapping):
        return f"a {type(value).__name__} with the keys {', '.join(map(repr, value))}"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, (tuple, list)) else "")


def _is_default(value: Any, default: Any) -> bool:
    return default is not _MISSING and Const(value) == Const(default)
