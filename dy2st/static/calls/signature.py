"""The parameters of a function, and the calls that fit them."""

from __future__ import annotations

import collections
import inspect
import linecache
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.types.value_types import same_constant
from dy2st.capture.values.number_arguments import KINDS, NumberArgument
from dy2st.errors import Location, SignatureError
from dy2st.input_spec import InputSpec, Specs
from dy2st.static.calls.call import Call, part_names, shown
from dy2st.static.calls.leaves import is_leaf_by_itself, leaf_keys, leaf_names, leaves_and_repeated, modes
from dy2st_runtime.call.binding import hidden_parameters, own_signature
from dy2st_runtime.ir.flattening import children, flatten


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
        names = [p.name for p in self.documented.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.KEYWORD_ONLY)]
        self.spec_names = names[1:] if bound else names
        self.variadic = next((p.name for p in self.documented.parameters.values() if p.kind is p.VAR_POSITIONAL), "")
        if isinstance(specs, Mapping):
            self._take_names(specs, names[:bound])
        elif specs is not None and len(specs) > len(self.spec_names) and not self.variadic:
            raise SignatureError(f"{self.name}() has {len(self.spec_names)} parameters, but input_spec has {len(specs)} entries")

    def _take_names(self, specs: Mapping[str, Any], bound: Sequence[str]) -> None:
        """Specifications by name: also of parameters that are given by name only."""
        parameters = self.documented.parameters.values()
        known = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        for name in specs:
            if (name not in known and not takes_any) or name in bound:
                raise SignatureError(f"{self.name}() has no parameter {name!r}, which input_spec names")
        self.spec_names, self.specs = list(specs), list(specs.values())
        self.by_name = True

    def as_written(self, name: str) -> str:
        """Return the name of a place in the arguments as the user writes it: ``arguments[0][1]['n']`` is ``state['n']``."""
        by_position = [p.name for p in self.signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        known = {f"arguments[0][{position}]": parameter for position, parameter in enumerate(by_position)}
        known |= {f"arguments[1][{parameter!r}]": parameter for parameter in self.signature.parameters}
        place = next((place for place in known if name.startswith(place)), None)
        return name if place is None else known[place] + name[len(place) :]

    def _read_parameters(self) -> None:
        self.signature = own_signature(self.function)
        self.documented = inspect.signature(self.function)
        """What it shows to its callers, whom ``input_spec`` speaks to: that of the function that it wraps."""
        self._hidden = hidden_parameters(self.function)
        self._defaults = self._current_defaults()

    def _current_defaults(self) -> tuple[Any, ...]:
        by_name = self.function.__kwdefaults__  # a dict, which may be changed itself
        return (self.function.__code__, self.function.__defaults__, by_name, *(by_name or {}).keys(), *(by_name or {}).values())

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Fit arguments to the parameters.

        Raises:
            SignatureError: they do not fit.
        """
        current = self._current_defaults()
        if len(current) != len(self._defaults) or any(now is not then for now, then in zip(current, self._defaults)):
            self._read_parameters()
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise SignatureError(f"{self.name}(): {error}") from None
        given = set(bound.arguments)
        bound.apply_defaults()
        for name in self._hidden - given:
            del bound.arguments[name]
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
        """Return where the function is defined: the line of its ``def``, below the decorators."""
        code = self.function.__code__
        line = code.co_firstlineno
        while linecache.getline(code.co_filename, line).lstrip().startswith("@"):
            line += 1
        return Location(code.co_filename, line, code.co_name)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], instance: Any) -> Call:
        bound = self.bind(args, kwargs)
        given = (bound.args, bound.kwargs)

        def is_leaf(value: Any) -> bool:
            return is_leaf_by_itself(value) or (value is instance and instance is not None)

        leaf, repeated = leaves_and_repeated(given, is_leaf)
        leaves, structure = flatten(given, leaf, repeated=repeated)
        names = leaf_names(bound, leaf)
        dims = [frozenset[int]()] * len(leaves)
        if self.specs is not None:
            dims = self._check_specs(self._by_documented_names(bound), leaves)
        return Call(structure, leaves, names, (structure, leaf_keys(leaves, dims), modes()), dims, given)

    def _by_documented_names(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """Return the arguments by the names that ``input_spec`` uses, where a wrapper takes ``*args, **kwargs``."""
        try:
            shown_as = self.documented.bind(*bound.args, **bound.kwargs)
        except TypeError:  # a wrapper that takes other arguments than what it wraps
            shown_as = bound
        shown_as.apply_defaults()
        rest = next((p.name for p in shown_as.signature.parameters.values() if p.kind is p.VAR_KEYWORD), "")
        return {**shown_as.arguments.get(rest, {}), **shown_as.arguments}

    def _check_specs(self, arguments: Mapping[str, Any], leaves: list[Any]) -> list[frozenset[int]]:
        assert self.specs is not None
        dims: dict[int, frozenset[int]] = {}
        given = dict(zip(self.spec_names, self.specs))
        if self.variadic in given:
            given[self.variadic] = tuple(self.specs[self.spec_names.index(self.variadic) :])
        for name, spec in given.items():
            if name not in arguments:
                raise SignatureError(f"{self.name}(): '{name}' is specified in input_spec, but was not given")
            self._check_spec(name, spec, arguments[name], dims)
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
                raise SignatureError(f"'{name}' is specified as {spec!r}, but {shown(value)} was given")
            return
        parts = children(value)
        if parts is None or type(value) is not type(spec) or part_names(value) != part_names(spec):
            raise SignatureError(f"'{name}' is specified as {spec!r}, but {shown(value)} was given")
        for key, inner_spec, inner in zip(part_names(value), expected[0], parts[0]):
            self._check_spec(f"{name}.{key}", inner_spec, inner, dims)

    def examples(self, device: torch.device | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments that fit the specifications.

        Raises:
            SignatureError: there are none.
        """
        if self.specs is None:
            raise SignatureError(f"{self.name}() needs an input_spec, or arguments, to know what to capture")
        results = [_example(spec, device) for spec in self.specs]
        return ((), dict(zip(self.spec_names, results, strict=True))) if self.by_name else (tuple(results), {})


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
