"""The description of a call: what decides which program it runs.

    InputSpec([None, 8], "float32")    a tensor whose first size may differ from call to call

A call is taken apart into tensors, opaque objects (modules, user objects: what a program reads of them is guarded one by one) and
constants. Dtypes, devices, sizes and constants are part of the key; sizes that are declared dynamic are not.
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
import linecache
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
from torch.nn.modules import module as _module

from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.types.lattice import same_constant
from dy2st.capture.values import storage
from dy2st.capture.values.kinds import own_meaning
from dy2st.capture.values.number_arguments import KINDS, NumberArgument
from dy2st.errors import Location, SignatureError
from dy2st_runtime.ir.flattening import HoldsItselfError, children, flatten, repeated_containers
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ObjectOf, Shared, Structure


@dataclasses.dataclass(frozen=True, init=False)
class InputSpec:
    """What a static function expects of one tensor.

    Args:
        shape: sizes; ``None`` (or -1) for one that may differ from call to call.
        dtype: a ``torch.dtype`` or its name, such as ``"float32"``.
        name: a name for messages and for the saved model; the parameter's name if left out.

    Raises:
        SignatureError: the shape or dtype makes no sense.

    Example:
        >>> InputSpec([None, 8], "float32", name="x")
        InputSpec(shape=(None, 8), dtype=torch.float32, name='x')
    """

    shape: tuple[int | None, ...]
    dtype: torch.dtype
    name: str | None

    def __init__(self, shape: Sequence[int | None], dtype: torch.dtype | str = torch.float32, name: str | None = None) -> None:
        if not isinstance(shape, (list, tuple)):
            raise SignatureError(f"a shape is a list of sizes, not {shape!r}")
        if name is not None and not isinstance(name, str):
            raise SignatureError(f"a name is a string, not {name!r}")
        object.__setattr__(self, "shape", tuple(_checked_size(size) for size in shape))
        object.__setattr__(self, "dtype", _checked_dtype(dtype))
        object.__setattr__(self, "name", name)

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, name: str | None = None) -> InputSpec:
        """The specification of exactly this tensor's shape and dtype.

        Raises:
            SignatureError: it is no tensor.
        """
        if not isinstance(tensor, torch.Tensor):
            raise SignatureError(f"from_tensor takes a tensor, not a {type(tensor).__name__}")
        return cls(tuple(tensor.shape), tensor.dtype, name)

    @property
    def dynamic_dims(self) -> frozenset[int]:
        """The dimensions whose size may differ from call to call."""
        return frozenset(dim for dim, size in enumerate(self.shape) if size is None)

    def example(self, device: torch.device | None = None) -> torch.Tensor:
        """A tensor of zeros that fits, with 2 for each dynamic size."""
        return torch.zeros([2 if size is None else size for size in self.shape], dtype=self.dtype, device=device)

    def check(self, tensor: Any, name: str) -> None:
        """Compare a tensor with the specification.

        Raises:
            SignatureError: it does not fit; the message names both.
        """
        if not isinstance(tensor, torch.Tensor):
            raise SignatureError(f"'{name}' is specified as a tensor {self}, but a {type(tensor).__name__} was given")
        if tensor.dtype != self.dtype:
            raise SignatureError(f"'{name}' is specified with dtype {self.dtype}, but has {tensor.dtype}; convert it with .to()")
        fits = tensor.dim() == len(self.shape) and all(s in (None, t) for s, t in zip(self.shape, tensor.shape))
        if not fits:
            raise SignatureError(
                f"'{name}' is specified with shape {list(self.shape)}, but has {list(tensor.shape)}; "
                "None in the shape allows any size"
            )


def _checked_size(size: Any) -> int | None:
    if size is None or size == -1:
        return None
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise SignatureError(f"a size must be a number, or None where it may differ, not {size!r}")
    return size


def _checked_dtype(dtype: Any) -> torch.dtype:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        raise SignatureError(f"{dtype!r} is no dtype of torch")
    return found


@dataclasses.dataclass(frozen=True)
class Call:
    """One call, taken apart.

    Attributes:
        structure: how ``(args, kwargs)`` are made from the leaves.
        leaves: tensors and opaque objects.
        names: one for each leaf.
        key: hashable; calls with equal keys can share a program.
        dynamic_dims: for each leaf, the dimensions that are declared dynamic.
        given: ``(args, kwargs)`` as they are, for the containers among them that the function changes.
        numbers: the places in the arguments whose numbers are leaves too, and no constants.
    """

    structure: Structure
    leaves: list[Any]
    names: list[str]
    key: Any
    dynamic_dims: list[frozenset[int]]
    given: tuple[tuple[Any, ...], dict[str, Any]]
    numbers: frozenset[Path] = frozenset()

    @property
    def arguments(self) -> list[Any]:
        """What the sources of a program start from: the leaves, and then everything as it was given."""
        return [*self.leaves, self.given]

    @property
    def inputs(self) -> list[Any]:
        """The leaves that are tensors or numbers: the inputs of the program."""
        return [leaf for leaf in self.leaves if isinstance(leaf, (torch.Tensor, int, float))]

    def with_numbers(self, places: Collection[Path]) -> Call:
        """The same call with the numbers at some places of the arguments as leaves, where there are numbers."""
        leaves, names, found = [*self.leaves], [*self.names], set[Path]()

        def visit(part: Part) -> Structure:
            structure, path = part.structure, part.path
            if isinstance(structure, Const) and path in places and type(structure.value) in (int, float):
                found.add(path)
                leaves.append(structure.value)
                names.append(part.name)
                return Leaf(len(leaves) - 1)
            if isinstance(structure, (Leaf, Const)) or not any(place[: len(path)] == path for place in places):
                return structure
            return dataclasses.replace(structure, items=tuple(map(visit, part.parts())))

        structure = visit(Part(self.structure))
        if not found:
            return self
        added = leaves[len(self.leaves) :]
        dims = [*self.dynamic_dims, *(frozenset[int]() for _ in added)]
        key = (structure, (*self.key[1], *map(type, added)), *self.key[2:])
        return Call(structure, leaves, names, key, dims, self.given, frozenset(found))

    def describe(self) -> str:
        """The arguments in words."""
        args, kwargs = self.given
        shown = ", ".join([*map(_shown, args), *(f"{name}={_shown(value)}" for name, value in kwargs.items())])
        modes = "" if torch.is_grad_enabled() else " without gradients"
        return f"({shown}){modes}"


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the structure of a call's arguments.

    Attributes:
        structure: the part.
        path: where it stands.
        name: the same as the sources of programs are named.
    """

    structure: Structure
    path: Path = ()
    name: str = "arguments"

    def parts(self) -> list[Part]:
        """What it is made of."""
        structure = self.structure
        if isinstance(structure, (Leaf, Const)):
            return []
        if isinstance(structure, Shared):
            return [Part(item, (*self.path, 0), self.name) for item in structure.items]
        steps: Sequence[Any] = range(len(structure.items))
        text = "{}[{!r}]"
        if isinstance(structure, DictOf):
            steps = structure.keys
        elif isinstance(structure, ObjectOf):
            steps, text = structure.fields, "{}.{}"
        return [
            Part(item, (*self.path, step), text.format(self.name, step)) for step, item in zip(steps, structure.items, strict=True)
        ]


Path = tuple[Any, ...]
"""A place in ``(args, kwargs)``: the positions, keys and fields that lead there."""
Specs = Sequence[Any] | Mapping[str, Any]
"""What an ``input_spec`` is: an entry for each parameter, in order or by name."""


class CallSignature:
    """The parameters of a function, with their specifications.

    Args:
        function: a Python function.
        specs: one for each parameter (``self`` left out), in order or by name: an :class:`InputSpec`, ``int``, ``float`` or
            ``bool`` for a Python number, a nest of these, or a constant; ``None`` for no specification.

    Raises:
        SignatureError: there are more specifications than parameters.
    """

    def __init__(self, function: FunctionType, specs: Specs | None, bound: bool) -> None:
        self.function = function
        self.specs: Sequence[Any] | None = None if isinstance(specs, Mapping) else specs
        self.by_name = False
        self._read_parameters()
        self.name = getattr(function, "__qualname__", str(function))
        names = [p.name for p in self.signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.KEYWORD_ONLY)]
        self.spec_names = names[1:] if bound else names
        self.variadic = next((p.name for p in self.signature.parameters.values() if p.kind is p.VAR_POSITIONAL), "")
        if isinstance(specs, Mapping):
            self._take_names(specs, names[:bound])
        elif specs is not None and len(specs) > len(self.spec_names) and not self.variadic:
            raise SignatureError(f"{self.name}() has {len(self.spec_names)} parameters, but input_spec has {len(specs)} entries")

    def _take_names(self, specs: Mapping[str, Any], bound: Sequence[str]) -> None:
        """Specifications by name: also of parameters that are given by name only."""
        known = [p.name for p in self.signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        for name in specs:
            if name not in known or name in bound:
                raise SignatureError(f"{self.name}() has no parameter {name!r}, which input_spec names")
        self.spec_names, self.specs = list(specs), list(specs.values())
        self.by_name = True

    def shown(self, name: str) -> str:
        """The name of a place in the arguments as the user writes it: ``arguments[0][1]['n']`` is ``state['n']``."""
        by_position = [p.name for p in self.signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        known = {f"arguments[0][{position}]": parameter for position, parameter in enumerate(by_position)}
        known |= {f"arguments[1][{parameter!r}]": parameter for parameter in self.signature.parameters}
        place = next((place for place in known if name.startswith(place)), None)
        return name if place is None else known[place] + name[len(place) :]

    def _read_parameters(self) -> None:
        self.signature = inspect.signature(self.function)
        self._defaults = self._current_defaults()

    def _current_defaults(self) -> tuple[Any, Any, Any]:
        return (self.function.__code__, self.function.__defaults__, self.function.__kwdefaults__)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Fit arguments to the parameters.

        Raises:
            SignatureError: they do not fit.
        """
        if any(now is not then for now, then in zip(self._current_defaults(), self._defaults)):
            self._read_parameters()
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise SignatureError(f"{self.name}(): {error}") from None
        bound.apply_defaults()
        return bound

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], instance: Any = None) -> Call:
        """Take a call apart.

        Args:
            args, kwargs: the arguments, without ``instance``.
            instance: the object that the function is bound to.

        Raises:
            SignatureError: the arguments do not fit the parameters or the specifications.
        """
        try:
            return self._call(args if instance is None else (instance, *args), kwargs, instance)
        except SignatureError as error:
            raise SignatureError(f"{error}\n{self._location().render()}") from None

    def _location(self) -> Location:
        """Where the function is defined: the line of its ``def``, below the decorators."""
        code = self.function.__code__
        line = code.co_firstlineno
        while linecache.getline(code.co_filename, line).lstrip().startswith("@"):
            line += 1
        return Location(code.co_filename, line, code.co_name)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], instance: Any) -> Call:
        bound = self.bind(args, kwargs)
        given = (bound.args, bound.kwargs)

        def is_leaf(value: Any) -> bool:
            return _is_leaf(value) or (value is instance and instance is not None)

        leaf, repeated = _leaves_and_repeated(given, is_leaf)
        leaves, structure = flatten(given, leaf, repeated=repeated)
        names = leaf_names(bound, leaf)
        dims = [frozenset[int]()] * len(leaves)
        if self.specs is not None:
            dims = self._check_specs(bound, leaves)
        return Call(structure, leaves, names, (structure, _leaf_keys(leaves, dims), modes()), dims, given)

    def _check_specs(self, bound: inspect.BoundArguments, leaves: list[Any]) -> list[frozenset[int]]:
        assert self.specs is not None
        dims: dict[int, frozenset[int]] = {}
        given = dict(zip(self.spec_names, self.specs))
        if self.variadic in given:
            given[self.variadic] = tuple(self.specs[self.spec_names.index(self.variadic) :])
        for name, spec in given.items():
            if name not in bound.arguments:
                raise SignatureError(f"{self.name}(): '{name}' is specified in input_spec, but was not given")
            self._check_spec(name, spec, bound.arguments[name], dims)
        return [dims.get(id(leaf), frozenset()) for leaf in leaves]

    def _check_spec(self, name: str, spec: Any, value: Any, dims: dict[int, frozenset[int]]) -> None:
        if isinstance(spec, InputSpec):
            spec.check(value, spec.name or name)
            dims[id(value)] = dims.get(id(value), frozenset()) | spec.dynamic_dims
            return
        if isinstance(spec, type) and spec in KINDS and (type(value) is spec or value == NumberArgument(spec.__name__)):
            return
        expected = children(spec)
        if expected is None:
            if spec is not None and value is not spec and not (isinstance(value, CONSTANTS) and same_constant(spec, value)):
                raise SignatureError(f"'{name}' is specified as {spec!r}, but {_shown(value)} was given")
            return
        parts = children(value)
        if parts is None or type(value) is not type(spec) or _part_names(value) != _part_names(spec):
            raise SignatureError(f"'{name}' is specified as {spec!r}, but {_shown(value)} was given")
        for key, inner_spec, inner in zip(_part_names(value), expected[0], parts[0]):
            self._check_spec(f"{name}.{key}", inner_spec, inner, dims)

    def examples(self, device: torch.device | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that fit the specifications.

        Raises:
            SignatureError: there are none.
        """
        if self.specs is None:
            raise SignatureError(f"{self.name}() needs an input_spec, or arguments, to know what to capture")
        made = [_example(spec, device) for spec in self.specs]
        return ((), dict(zip(self.spec_names, made, strict=True))) if self.by_name else (tuple(made), {})


def _example(spec: Any, device: torch.device | None) -> Any:
    if isinstance(spec, InputSpec):
        return spec.example(device)
    if isinstance(spec, type) and spec in KINDS:
        return NumberArgument(spec.__name__)
    if isinstance(spec, (list, tuple)) and not isinstance(spec, torch.Size):
        return getattr(spec, "_make", type(spec))(_example(item, device) for item in spec)
    if type(spec) in (dict, collections.OrderedDict):
        return type(spec)((key, _example(item, device)) for key, item in spec.items())
    return spec


def _part_names(container: Any) -> list[Any]:
    parts = children(container)
    return list(container) if isinstance(container, dict) else list(range(len(parts[0]) if parts else 0))


def _shown(value: Any) -> str:
    """A value in a message: short, and never the contents of a tensor."""
    if isinstance(value, torch.Tensor):
        return f"a tensor {list(value.shape)} of {value.dtype}"
    if children(value) is not None:
        return f"a {type(value).__name__} of {_part_names(value)}"
    return repr(value) if isinstance(value, CONSTANTS) else f"a {type(value).__name__}"


def _is_leaf(value: Any) -> bool:
    """Tensors, and objects that are neither constants nor containers (of nothing but their parts)."""
    if isinstance(value, (torch.Tensor, torch.nn.Module, NumberArgument)):
        return True
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, dict)):
        fields = {field.name for field in dataclasses.fields(value)}
        return not (storage.table_of(value) or {}).keys() <= fields
    return not isinstance(value, CONSTANTS) and children(value) is None


def _leaves_and_repeated(given: Any, is_leaf: Callable[[Any], bool]) -> tuple[Callable[[Any], bool], dict[int, int]]:
    """What a leaf of the arguments is, and the containers that stand in several places.

    Containers that hold themselves are leaves, and so is what they hold: the code under capture works with these very objects.
    """
    try:
        return is_leaf, repeated_containers(given, is_leaf)
    except HoldsItselfError as error:
        held = error.parts

    def is_own_leaf(value: Any) -> bool:
        return id(value) in held or is_leaf(value)

    while True:
        _add_parts(held)
        try:
            return is_own_leaf, repeated_containers(given, is_own_leaf)
        except HoldsItselfError as error:
            held |= error.parts


def _add_parts(held: dict[int, Any]) -> None:
    """Add the containers in some containers."""
    waiting, seen = list(held.values()), dict(held)
    while waiting:
        for part in (children(waiting.pop()) or ((),))[0]:
            if children(part) is not None and id(part) not in seen:
                seen[id(part)] = part
                waiting.append(part)
    held.update({key: part for key, part in seen.items() if not isinstance(part, tuple)})


def leaf_names(bound: inspect.BoundArguments, is_leaf: Callable[[Any], bool]) -> list[str]:
    """A name for each leaf of the arguments, in order: the parameter's, with the path inside it."""
    found: list[str] = []
    seen: set[int] = set()

    def visit(value: Any, name: str) -> None:
        if is_leaf(value):
            found.append(name)
            return
        parts = children(value)
        if parts is None or id(value) in seen:
            return
        if not isinstance(value, tuple):
            seen.add(id(value))
        keys = list(value) if isinstance(value, dict) else range(len(parts[0]))
        for key, part in zip(keys, parts[0]):
            visit(part, f"{name}.{key}")

    parameters = bound.signature.parameters
    for name, value in bound.arguments.items():
        if parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            for key, item in value.items():
                visit(item, key)
        else:
            visit(value, name)
    return found


def _leaf_keys(leaves: Sequence[Any], dims: Sequence[frozenset[int]]) -> tuple[Any, ...]:
    first: dict[int, int] = {}
    keys: list[Any] = []
    for position, (leaf, dynamic) in enumerate(zip(leaves, dims)):
        if not isinstance(leaf, torch.Tensor):
            keys.append(leaf if isinstance(leaf, NumberArgument) else type(leaf))
            continue
        shape = () if leaf.is_nested else leaf.shape  # a nested one cannot be captured, and may have no shape
        sizes = tuple(shape) if not dynamic else tuple(None if d in dynamic else s for d, s in enumerate(shape))
        same_as = first.setdefault(id(leaf), position)
        own = None if type(leaf) is torch.Tensor else own_meaning(leaf)
        keys.append((leaf.dtype, leaf.device, leaf.requires_grad, sizes, leaf.layout, same_as, own))
    return tuple(keys)


def modes() -> tuple[Any, ...]:
    """The modes of the running thread that change what torch does."""
    autocast = tuple((kind, torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind))
    hooks = (*_module._global_forward_pre_hooks.values(), *_module._global_forward_hooks.values())
    return (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast, torch.get_default_dtype(), hooks)
