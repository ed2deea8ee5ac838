"""What the functions of a layer are: nothing of the layer is changed."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import importlib.metadata
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from dy2st.capture.values.number_arguments import NumberArgument
from dy2st.errors import CaptureError, ConversionError, SaveError, SignatureError
from dy2st.input_spec import InputSpec, Specs
from dy2st.options import Options
from dy2st.static.calls.call import Call
from dy2st.static.conversion import check_root
from dy2st.static.fallback import reason_of
from dy2st.static.static_function import StaticFunction
from dy2st_runtime.archive.archive import FORWARD
from dy2st_runtime.arrays.calls import in_memory
from dy2st_runtime.ir.flattening import children
from dy2st_runtime.ir.structure import CollectionOf, DictOf, Leaf, walk

_FUNCTIONS = (StaticFunction, types.FunctionType, types.MethodType)


def static_of(layer: Any, specs: Specs | None) -> StaticFunction:
    """Return the static function of a module, function or method; nothing of theirs is changed."""
    result: Any = layer.forward if isinstance(layer, torch.nn.Module) else layer
    own_call = None if isinstance(result, (*_FUNCTIONS, type)) else getattr(result, "__call__", None)  # noqa: B004
    if isinstance(own_call, types.MethodType):
        result = own_call
    instance, options = None, Options()
    if isinstance(result, types.MethodType):
        instance, result = result.__self__, result.__func__
    if isinstance(result, StaticFunction):
        if specs is None and instance is None:
            return result
        instance = result.instance if instance is None else instance
        options, result = result.options, result.function
    if not isinstance(result, types.FunctionType):
        raise SignatureError(f"save takes an nn.Module, or a function or method of Python, not a {type(layer).__name__}")
    if specs is not None:
        results = {k: _spec(v) for k, v in specs.items()} if isinstance(specs, Mapping) else [_spec(entry) for entry in specs]
        options = dataclasses.replace(options, input_spec=results)
    return StaticFunction(result, options, instance)


def _spec(entry: Any) -> Any:
    if isinstance(entry, torch.Tensor):
        return InputSpec.from_tensor(entry)
    if isinstance(entry, (list, tuple)) and (type(entry) in (list, tuple) or hasattr(entry, "_make")):
        return getattr(entry, "_make", type(entry))(_spec(item) for item in entry)
    if type(entry) in (dict, collections.OrderedDict):
        return type(entry)((key, _spec(item)) for key, item in entry.items())
    return entry


def methods_of(layer: Any, specs: Specs | None, methods: Mapping[str, Specs | None]) -> dict[str, StaticFunction]:
    """Return the static functions of some methods of a module, each with its own specifications."""
    if specs is not None:
        raise SignatureError("with methods, each has its own specifications: leave input_spec out")
    if not isinstance(layer, torch.nn.Module) or not methods:
        raise SignatureError("methods names at least one method of an nn.Module")
    results = {}
    for name in sorted(methods, key=lambda name: name != FORWARD):
        method = layer if name == FORWARD else getattr(layer, name, None)
        if method is None or (isinstance(method, torch.nn.Module) and name != FORWARD):
            raise SignatureError(f"{type(layer).__qualname__} has no method {name}")
        results[name] = static_of(method, methods[name])
        if results[name].instance is not layer:
            raise SignatureError(f"{name} is no method of this {type(layer).__qualname__}")
    return results


@contextlib.contextmanager
def without_eager(static: StaticFunction) -> Iterator[None]:
    """Refuse what a function with ``full_graph=False`` does in eager: it has no program."""
    try:
        if not static.options.full_graph:
            check_root(static.function)
            if static.report().eager and not static.program_cache and static.options.input_spec is None:
                raise SaveError(_runs_eager(static, static.report().eager[0].reason))
        yield
    except (CaptureError, ConversionError) as error:
        if static.options.full_graph:
            raise
        raise SaveError(_runs_eager(static, reason_of(error))) from error


def _runs_eager(static: StaticFunction, reason: str) -> str:
    return (
        f"{static.__qualname__} cannot be saved, since it runs as it is written, all of it or a part (full_graph=False): {reason}"
    )


def description(layer: Any, statics: Mapping[str, StaticFunction]) -> dict[str, str]:
    """Return the documentation of a model, and what it is saved with."""
    results = {}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # run from a folder
        results["dy2st"] = importlib.metadata.version("dy2st")
    collected = {"documentation": type(layer).__doc__ if isinstance(layer, torch.nn.Module) else None}
    collected |= {f"documentation of {name}": static.function.__doc__ for name, static in statics.items()}
    return results | {key: inspect.cleandoc(text) for key, text in collected.items() if text}


def device_of(module: torch.nn.Module | None) -> torch.device | None:
    """Return where the arguments of a module belong: with its first parameter or buffer."""
    if module is None:
        return None
    first = next(module.parameters(), next(module.buffers(), None))
    return None if first is None else first.device


def check_arguments(static: StaticFunction, call: Call) -> None:
    """Refuse arguments that no archive can hold."""
    for name, leaf in zip(call.names, call.leaves, strict=True):
        if not isinstance(leaf, (torch.Tensor, NumberArgument)) and in_memory(leaf) is None and leaf is not static.instance:
            kind = leaf if isinstance(leaf, type) else type(leaf)
            why = "which exists only in this process" if children(leaf) is None else "and it, or what is around it, holds itself"
            raise SaveError(
                f"the argument {name} of {static.__qualname__} is a {kind.__qualname__}, {why}; "
                "take it from the module or the closure instead"
            )
    for table in walk(call.structure):
        if isinstance(table, CollectionOf) and isinstance(table.items[0], DictOf):
            places = [call.names[part.index] for part in walk(table) if isinstance(part, Leaf)]
            where = f"the argument {places[0].partition('.')[0]}" if places else "an argument"
            collection = table.kind.partition("(")[0]
            raise SaveError(
                f"{where} of {static.__qualname__} is a {collection}, which a loaded model does not take; "
                "take it from the module instead"
            )


def is_wrapped(layer: Any) -> bool:
    """Tell whether a call of a module does more than its ``forward``."""
    if not isinstance(layer, torch.nn.Module):
        return False
    own_call = type(layer).__call__ is not torch.nn.Module.__call__
    return own_call or any((layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks))
