"""From a layer or static function to an archive, and back."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import importlib.metadata
import inspect
import os
import types
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from dy2st.capture import on_raise
from dy2st.capture.values.number_arguments import NumberArgument
from dy2st.errors import CaptureError, ConversionError, SaveError, SignatureError
from dy2st.frames import level_outside
from dy2st.saving.state_names import Names
from dy2st.static.attribute_state import Taken, carried, with_recordings
from dy2st.static.dynamic_state import Dims
from dy2st.static.fallback import reason_of
from dy2st.static.signature import Call, InputSpec, Specs
from dy2st.static.static_function import StaticFunction, capture_lock, convert_root
from dy2st_runtime import inference
from dy2st_runtime import module as runtime
from dy2st_runtime.archive import serialize, state
from dy2st_runtime.archive.archive import FORWARD, Example, save_programs
from dy2st_runtime.archive.state import StateValue
from dy2st_runtime.call.binding import Binder
from dy2st_runtime.ir.flattening import children, flatten
from dy2st_runtime.ir.program import Location, Program
from dy2st_runtime.passes.application import Pass
from dy2st_runtime.primitives import control

_FUNCTIONS = (StaticFunction, types.FunctionType, types.MethodType)


def save(
    layer: Any,
    path: str | os.PathLike[str],
    input_spec: Specs | None,
    methods: Mapping[str, Specs | None] | None = None,
    examples: Mapping[str, Example] | None = None,
    about: Mapping[str, str] | None = None,
    records: bool = True,
) -> None:
    """See :func:`dy2st.save`; without ``records``, a call that raises leaves attributes as they are."""
    if isinstance(layer, runtime.LoadedModule):
        if input_spec is not None or methods or examples or about:
            raise SignatureError("a loaded model is saved with the signature that it has: leave input_spec and the like out")
        layer.save(path)
        return
    statics = {FORWARD: static_of(layer, input_spec)} if methods is None else _methods(layer, input_spec, methods)
    with contextlib.ExitStack() as stack:
        for static in statics.values():
            stack.enter_context(_whole(static))
        _save(statics, layer, path, examples or {}, _about(layer, statics) | dict(about or {}), records)


def _methods(layer: Any, specs: Specs | None, methods: Mapping[str, Specs | None]) -> dict[str, StaticFunction]:
    if specs is not None:
        raise SignatureError("with methods, each has its own specifications: leave input_spec out")
    if not isinstance(layer, torch.nn.Module) or not methods:
        raise SignatureError("methods names at least one method of an nn.Module")
    found = {}
    for name in sorted(methods, key=lambda name: name != FORWARD):
        method = layer if name == FORWARD else getattr(layer, name, None)
        if method is None or (isinstance(method, torch.nn.Module) and name != FORWARD):
            raise SignatureError(f"{type(layer).__qualname__} has no method {name}")
        found[name] = static_of(method, methods[name])
        if found[name].instance is not layer:
            raise SignatureError(f"{name} is no method of this {type(layer).__qualname__}")
    return found


def _about(layer: Any, statics: Mapping[str, StaticFunction]) -> dict[str, str]:
    """The documentation of a model, and what it is saved with."""
    made = {}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # run from a folder
        made["dy2st"] = importlib.metadata.version("dy2st")
    found = {"documentation": type(layer).__doc__ if isinstance(layer, torch.nn.Module) else None}
    found |= {f"documentation of {name}": static.function.__doc__ for name, static in statics.items()}
    return made | {key: inspect.cleandoc(text) for key, text in found.items() if text}


@contextlib.contextmanager
def _whole(static: StaticFunction) -> Iterator[None]:
    """What a function with ``full_graph=False`` does in eager has no program."""
    try:
        if not static.full_graph:
            convert_root(static.function)
            if static.report().eager and not static.program_cache and static.input_spec is None:
                raise SaveError(_runs_eager(static, static.report().eager[0].reason))
        yield
    except (CaptureError, ConversionError) as error:
        if static.full_graph:
            raise
        raise SaveError(_runs_eager(static, reason_of(error))) from error


def _runs_eager(static: StaticFunction, reason: str) -> str:
    return f"{static.__qualname__} cannot be saved, since it runs as it is written (full_graph=False): {reason}"


@dataclasses.dataclass(frozen=True)
class _Collected:
    """What :func:`~dy2st_runtime.archive.save_programs` takes: programs and values of their state, by method."""

    programs: list[Program]
    values: list[list[Any]]
    module: torch.nn.Module | None
    attributes: list[StateValue]
    methods: list[str]


def _collected(statics: Mapping[str, StaticFunction], layer: Any, records: bool = True) -> _Collected:
    owner = next(iter(statics.values())).instance
    module = owner if isinstance(owner, torch.nn.Module) else None
    with capture_lock, _plain_modes():
        captures = []
        for name, static in statics.items():
            call = static.example_call(_device(module))
            _check_arguments(static, call)
            captures.append(_Capture(static, call, module, name == FORWARD and _is_wrapped(layer)))
        saved = _saved(captures, module, records)
    _warn_about_modes(saved)
    _warn_about_raising(saved)
    names = list(statics)
    methods = [names[number] for number in saved.methods]
    programs = [_with_names(program, statics[method].input_spec) for program, method in zip(saved.programs, methods, strict=True)]
    return _Collected(programs, saved.values, module, saved.attributes, methods)


def _save(
    statics: Mapping[str, StaticFunction],
    layer: Any,
    path: str | os.PathLike[str],
    examples: Mapping[str, Example],
    about: Mapping[str, str],
    records: bool,
) -> None:
    found = _collected(statics, layer, records)
    _check_examples(examples, dict(zip(found.methods, found.programs, strict=True)))
    save_programs(
        path,
        found.programs,
        found.values,
        found.module,
        found.attributes,
        methods=found.methods,
        about=about,
        examples=examples,
    )


def save_inference_model(
    path: str | os.PathLike[str], layer: Any, fetch: Sequence[int | str] | None, input_spec: Specs | None
) -> None:
    """See :func:`dy2st.save_inference_model`."""
    if isinstance(layer, runtime.LoadedModule):
        raise SignatureError("save_inference_model takes the model itself, not a loaded one")
    static = static_of(layer, input_spec)
    module = layer if isinstance(layer, torch.nn.Module) else static.instance
    evaluated = evaluating(module) if isinstance(module, torch.nn.Module) else contextlib.nullcontext()
    with _whole(static), evaluated:
        found = _collected({FORWARD: static}, layer, records=False)
    at = next(index for index, program in enumerate(found.programs) if "eval" in program.modes)
    program = found.programs[at] if fetch is None else inference.fetched(found.programs[at], fetch)
    program, values = inference.folded(program, found.values[at])
    program = dataclasses.replace(program, training=False, any_mode=False)
    save_programs(path, [program], [values], None, found.attributes, about=_about(layer, {FORWARD: static}))


@contextlib.contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """A module in evaluation mode; at the end every submodule has its flag back."""
    flags = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        yield
    finally:
        for part, flag in flags:
            part.training = flag


def traced(layer: Any, inputs: Sequence[Any]) -> runtime.LoadedModule:
    """See :func:`dy2st.trace`."""
    static = static_of(layer, list(inputs))
    with _whole(static):
        found = _collected({FORWARD: static}, layer)
    for program in found.programs:
        for node in program.nodes():
            if node.target in (control.if_, control.while_):
                kind = "a branch" if node.target is control.if_ else "a loop"
                where = node.meta.get("location", program.origin)
                raise SaveError(
                    f"{where}: {program.name} has {kind} that depends on the data, and a trace has one way only; "
                    "use dy2st.to_static or dy2st.save, which keep all of them"
                )
    programs, values = state.collect(found.programs, found.values, found.module, found.attributes)
    return runtime.LoadedModule(programs, values, about=_about(layer, {FORWARD: static}))


def _check_examples(examples: Mapping[str, Example], programs: Mapping[str, Program]) -> None:
    for name, (args, kwargs) in examples.items():
        if name not in programs:
            raise SignatureError(f"there are examples for {name}, which is not saved")
        Binder(programs[name]).bind(args, kwargs, lambda: ())


def _warn_about_modes(saved: _Saved) -> None:
    asked = zip(saved.programs, saved.asked, strict=True)
    for what, line in {what: line or program.origin for program, some in asked for what, line in some.items()}.items():
        warnings.warn(
            f"{line}: this asks {what}; the saved program has the answer for a call with gradients enabled, without autocast, "
            "whose arguments require no gradient",
            stacklevel=level_outside(),
        )


def _warn_about_raising(saved: _Saved) -> None:
    if saved.unrecorded is not None:
        warnings.warn(
            f"{saved.unrecorded} So a call of the loaded model that raises leaves attributes as they were before the call, "
            "where eager keeps what was written until then.",
            stacklevel=level_outside(),
        )


def _with_names(program: Program, specs: Specs | None) -> Program:
    """A program whose inputs are called what the specifications call them."""
    if isinstance(specs, Mapping):
        specs = [specs[parameter.name] for parameter in program.parameters if parameter.name in specs]
    found, _ = flatten(tuple(specs or ()), lambda part: isinstance(part, (InputSpec, type)))
    if program.recording is not None:
        program = dataclasses.replace(program, recording=_with_names(program.recording, specs))
    if len(found) != len(program.inputs):
        return program
    names = [getattr(spec, "name", None) for spec in found]
    inputs = [dataclasses.replace(slot, name=name or slot.name) for slot, name in zip(program.inputs, names, strict=True)]
    return dataclasses.replace(program, inputs=tuple(inputs))


def load(
    path: str | os.PathLike[str], namespaces: Collection[str], backend: str | None, max_steps: int | None
) -> runtime.LoadedModule:
    """See :func:`dy2st.load`."""
    return runtime.load(path, namespaces=namespaces, backend=backend, max_steps=max_steps)


def static_of(layer: Any, specs: Specs | None) -> StaticFunction:
    """The static function of a module, function or method; nothing of theirs is changed."""
    found: Any = layer.forward if isinstance(layer, torch.nn.Module) else layer
    own_call = None if isinstance(found, (*_FUNCTIONS, type)) else getattr(found, "__call__", None)  # noqa: B004
    if isinstance(own_call, types.MethodType):
        found = own_call
    instance, whole = None, True
    passes: Sequence[Pass] = ()
    if isinstance(found, types.MethodType):
        instance, found = found.__self__, found.__func__
    if isinstance(found, StaticFunction):
        if specs is None and instance is None:
            return found
        specs = found.input_spec if specs is None else specs
        instance = found.instance if instance is None else instance
        whole, passes, found = found.full_graph, found.passes, found.function
    if not isinstance(found, types.FunctionType):
        raise SignatureError(f"save takes an nn.Module, or a function or method of Python, not a {type(layer).__name__}")
    made: Specs | None = None
    if specs is not None:
        made = {k: _spec(v) for k, v in specs.items()} if isinstance(specs, Mapping) else [_spec(entry) for entry in specs]
    static = StaticFunction(found, made, instance, full_graph=whole)
    static.passes = passes
    return static


def _spec(entry: Any) -> Any:
    if isinstance(entry, torch.Tensor):
        return InputSpec.from_tensor(entry)
    if isinstance(entry, (list, tuple)) and (type(entry) in (list, tuple) or hasattr(entry, "_make")):
        return getattr(entry, "_make", type(entry))(_spec(item) for item in entry)
    if type(entry) in (dict, collections.OrderedDict):
        return type(entry)((key, _spec(item)) for key, item in entry.items())
    return entry


def _device(module: torch.nn.Module | None) -> torch.device | None:
    """Where the arguments of a module belong: with its first parameter or buffer."""
    if module is None:
        return None
    first = next(module.parameters(), next(module.buffers(), None))
    return None if first is None else first.device


def _check_arguments(static: StaticFunction, call: Call) -> None:
    for name, leaf in zip(call.names, call.leaves, strict=True):
        if not isinstance(leaf, (torch.Tensor, NumberArgument)) and leaf is not static.instance:
            kind = leaf if isinstance(leaf, type) else type(leaf)
            why = "which exists only in this process" if children(leaf) is None else "and it, or what is around it, holds itself"
            raise SaveError(
                f"the argument {name} of {static.__qualname__} is a {kind.__qualname__}, {why}; "
                "take it from the module or the closure instead"
            )


@contextlib.contextmanager
def _plain_modes() -> Iterator[None]:
    """What is saved does not depend on the modes of the thread that saves."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


@dataclasses.dataclass(frozen=True)
class _Saved:
    """What goes into an archive, what each program asked about the mode of its call, and the number of the method it is of.

    Also why the programs keep nothing of what is written before they raise, if so.
    """

    programs: list[Program]
    values: list[list[Any]]
    attributes: list[StateValue]
    asked: list[Mapping[str, Location | None]]
    methods: list[int]
    unrecorded: str | None = None

    def taking(self, positions: Sequence[int]) -> _Saved:
        """With some of the programs only."""
        some: dict[str, Any] = {
            name: [getattr(self, name)[at] for at in positions] for name in ("programs", "values", "asked", "methods")
        }
        return dataclasses.replace(self, **some)


def _saved(captures: Sequence[_Capture], module: torch.nn.Module | None, records: bool) -> _Saved:
    """The programs for the mode that the module is in, which must be right, and those for the other mode if they are."""
    current = _named(captures, [None], module, records)
    if module is None:
        return dataclasses.replace(current, programs=[dataclasses.replace(current.programs[0], any_mode=True)])
    other = not module.training
    try:
        both = _named(captures, [None, other], module, records)
    except Exception as error:
        here, there = ("evaluation", "training") if other else ("training", "evaluation")
        warnings.warn(
            f"{', '.join(program.name for program in current.programs)} is saved for {here} mode only; "
            f"it cannot be saved for {there} mode: {type(error).__name__}: {error}",
            stacklevel=level_outside(),
        )
        return current
    kept = []
    for first in range(0, len(both.programs), 2):
        if _text(both.programs[first]) == _text(both.programs[first + 1]):
            both.programs[first] = dataclasses.replace(both.programs[first], any_mode=True)
            kept.append(first)
        else:
            kept += [first, first + 1]
    return both.taking(kept)


def _text(program: Program) -> Any:
    recording = None if program.recording is None else dataclasses.replace(program.recording, training=False)
    return serialize.to_json(dataclasses.replace(program, training=False, recording=recording))


def _named(captures: Sequence[_Capture], modes: Sequence[bool | None], module: torch.nn.Module | None, records: bool) -> _Saved:
    """The programs of each capture in each mode (``None`` for the flags as they are), with the state that they share.

    With ``records``, they keep what they leave when they raise, if an archive can say that.
    """
    if not records:
        return _named_so(captures, modes, module, False)
    try:
        return _named_so(captures, modes, module, True)
    except (SaveError, CaptureError) as error:
        return dataclasses.replace(_named_so(captures, modes, module, False), unrecorded=f"{error}.")


def _named_so(captures: Sequence[_Capture], modes: Sequence[bool | None], module: torch.nn.Module | None, records: bool) -> _Saved:
    programs = _converged(captures, modes, records)
    names = Names(module, programs)
    named = [names.program(taken) for taken in programs]
    for program in named:
        serialize.to_json(program)
    values = [[get(part.values) for part in with_recordings([taken]) for get in part.captured.states] for taken in programs]
    methods = [number for number in range(len(captures)) for _ in modes]
    return _Saved(named, values, names.attributes(), [taken.captured.asked for taken in programs], methods)


def _converged(captures: Sequence[_Capture], modes: Sequence[bool | None], records: bool) -> list[Taken]:
    """The programs; what one keeps from call to call and one reads is an input of the one that reads it.

    Raises:
        SaveError: that cannot be.
        Exception: what a capture raises.
    """
    dynamic: dict[str, Dims] = {}
    while True:
        programs = [capture.taken(mode, dynamic, records) for capture in captures for mode in modes]
        found = carried(programs)
        if not found:
            return programs
        dynamic = {**dynamic, **found}


class _Capture:
    """Captures a function in the modes of its module."""

    def __init__(self, static: StaticFunction, call: Call, module: torch.nn.Module | None, with_hooks: bool) -> None:
        self.static, self.call, self.module, self.with_hooks = static, call, module, with_hooks
        self._made: dict[Any, Taken] = {}

    def taken(self, mode: bool | None, dynamic: Mapping[str, Dims], records: bool) -> Taken:
        """The program for one mode, with its recording if that is asked for and keeps anything."""
        found = self._taken(mode, dynamic, False)
        if not records or not found.captured.writes:
            return found
        recording = self._taken(mode, dynamic, True)
        return dataclasses.replace(found, recording=recording) if on_raise.may_leave(recording.captured.program) else found

    def _taken(self, mode: bool | None, dynamic: Mapping[str, Dims], records: bool) -> Taken:
        key = (mode, frozenset(dynamic.items()), records)
        if key not in self._made:
            with contextlib.nullcontext() if mode is None or self.module is None else _in_mode(self.module, mode):
                captured, values = self.static.capture_call(self.call, dynamic, self.with_hooks, records)
            bound = (source for source in captured.sources if source.key == ("argument", 0))
            root = next(bound, None) if self.static.instance is not None else None
            self._made[key] = Taken(captured, values, root)
        return self._made[key]


def _is_wrapped(layer: Any) -> bool:
    """Whether a call of a module does more than its ``forward``."""
    if not isinstance(layer, torch.nn.Module):
        return False
    own_call = type(layer).__call__ is not torch.nn.Module.__call__
    return own_call or any((layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks))


@contextlib.contextmanager
def _in_mode(module: torch.nn.Module, mode: bool) -> Iterator[None]:
    """A module in one mode, by its own ``train()``; at the end every submodule has its flag back."""
    flags = [(part, part.training) for part in module.modules()]
    before = module.training
    try:
        module.train(mode)
        try:
            yield
        finally:
            module.train(before)
    finally:
        for part, flag in flags:
            part.training = flag
