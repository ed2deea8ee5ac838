"""From a layer or static function to an archive."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dy2st.errors import SaveError, SignatureError
from dy2st.frames import level_outside
from dy2st.input_spec import InputSpec, Specs
from dy2st.saving.capturing import Capture, Saved, capture_modes
from dy2st.saving.layers import check_arguments, description, device_of, is_wrapped, methods_of, static_of, without_eager
from dy2st.saving.modes import evaluating, plain_modes
from dy2st.static.static_function import StaticFunction, capture_lock
from dy2st_runtime import inference
from dy2st_runtime import module as runtime
from dy2st_runtime.archive import state
from dy2st_runtime.archive.archive import FORWARD, Example, save_programs
from dy2st_runtime.archive.state import StateValue
from dy2st_runtime.call.binding import Binder
from dy2st_runtime.ir.flattening import flatten
from dy2st_runtime.ir.program import Program
from dy2st_runtime.primitives import control


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
    statics = {FORWARD: static_of(layer, input_spec)} if methods is None else methods_of(layer, input_spec, methods)
    with contextlib.ExitStack() as stack:
        for static in statics.values():
            stack.enter_context(without_eager(static))
        _save(statics, layer, path, examples or {}, description(layer, statics) | dict(about or {}), records)


@dataclasses.dataclass(frozen=True)
class _Collected:
    """What :func:`~dy2st_runtime.archive.archive.save_programs` takes: programs and values of their state, by method."""

    programs: list[Program]
    values: list[list[Any]]
    module: torch.nn.Module | None
    attributes: list[StateValue]
    methods: list[str]


def _collected(statics: Mapping[str, StaticFunction], layer: Any, records: bool = True) -> _Collected:
    owner = next(iter(statics.values())).instance
    module = owner if isinstance(owner, torch.nn.Module) else None
    with capture_lock, plain_modes():
        captures = []
        for name, static in statics.items():
            call = static.example_call(device_of(module))
            check_arguments(static, call)
            captures.append(Capture(static, call, module, name == FORWARD and is_wrapped(layer)))
        saved = capture_modes(captures, module, records)
    _warn_about_modes(saved)
    _warn_about_raising(saved)
    names = list(statics)
    methods = [names[number] for number in saved.methods]
    programs = [
        _with_names(program, statics[method].options.input_spec) for program, method in zip(saved.programs, methods, strict=True)
    ]
    return _Collected(programs, saved.values, module, saved.attributes, methods)


def _save(
    statics: Mapping[str, StaticFunction],
    layer: Any,
    path: str | os.PathLike[str],
    examples: Mapping[str, Example],
    about: Mapping[str, str],
    records: bool,
) -> None:
    result = _collected(statics, layer, records)
    _check_examples(examples, dict(zip(result.methods, result.programs, strict=True)))
    save_programs(
        path,
        result.programs,
        result.values,
        result.module,
        result.attributes,
        methods=result.methods,
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
    with without_eager(static), evaluated:
        result = _collected({FORWARD: static}, layer, records=False)
    at = next(index for index, program in enumerate(result.programs) if "eval" in program.modes)
    program = inference.without_backward(result.programs[at])
    program = program if fetch is None else inference.fetched(program, fetch)
    program, values = inference.folded(program, result.values[at])
    program = dataclasses.replace(program, training=False, any_mode=False)
    save_programs(path, [program], [values], None, result.attributes, about=description(layer, {FORWARD: static}))


def traced(layer: Any, inputs: Sequence[Any]) -> runtime.LoadedModule:
    """See :func:`dy2st.trace`."""
    static = static_of(layer, list(inputs))
    with without_eager(static):
        result = _collected({FORWARD: static}, layer)
    for program in result.programs:
        for node in program.nodes():
            if node.target in (control.if_, control.while_):
                kind = "a branch" if node.target is control.if_ else "a loop"
                where = node.meta.get("location", program.origin)
                raise SaveError(
                    f"{where}: {program.name} has {kind} that depends on the data, and a trace has one way only; "
                    "use dy2st.to_static or dy2st.save, which keep all of them"
                )
    programs, values = state.collect(result.programs, result.values, result.module, result.attributes)
    return runtime.LoadedModule(programs, values, about=description(layer, {FORWARD: static}))


def _check_examples(examples: Mapping[str, Example], programs: Mapping[str, Program]) -> None:
    for name, (args, kwargs) in examples.items():
        if name not in programs:
            raise SignatureError(f"there are examples for {name}, which is not saved")
        Binder(programs[name]).bind(args, kwargs, lambda: ())


def _warn_about_modes(saved: Saved) -> None:
    asked = zip(saved.programs, saved.asked, strict=True)
    for what, line in {what: line or program.origin for program, some in asked for what, line in some.items()}.items():
        warnings.warn(
            f"{line}: this asks {what}; the saved program has the answer for a call with gradients enabled, without autocast, "
            "whose arguments require no gradient",
            stacklevel=level_outside(),
        )


def _warn_about_raising(saved: Saved) -> None:
    if saved.unrecorded is not None:
        warnings.warn(
            f"{saved.unrecorded}. So a call of the loaded model that raises leaves attributes as they were before the call, "
            "where eager keeps what was written until then.",
            stacklevel=level_outside(),
        )


def _with_names(program: Program, specs: Specs | None) -> Program:
    """Return a program whose inputs are called what the specifications call them."""
    if isinstance(specs, Mapping):
        specs = [specs[parameter.name] for parameter in program.parameters if parameter.name in specs]
    result, _ = flatten(tuple(specs or ()), lambda part: isinstance(part, (InputSpec, type)))
    if program.recording is not None:
        program = dataclasses.replace(program, recording=_with_names(program.recording, specs))
    if len(result) != len(program.inputs):
        return program
    names = [getattr(spec, "name", None) for spec in result]
    inputs = [dataclasses.replace(slot, name=name or slot.name) for slot, name in zip(program.inputs, names, strict=True)]
    return dataclasses.replace(program, inputs=tuple(inputs))
