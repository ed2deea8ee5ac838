"""A saved model that is loaded: a module that runs programs."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import os
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from dy2st_runtime.archive import archive
from dy2st_runtime.archive.state import State, StateValue, build
from dy2st_runtime.call import effects, on_raise, other_tracers, places
from dy2st_runtime.call.binding import Binder
from dy2st_runtime.call.budget import limited
from dy2st_runtime.call.effects import container
from dy2st_runtime.errors import SignatureError, StepLimitError
from dy2st_runtime.executors import choose, runner
from dy2st_runtime.ir.paths import Path, parse
from dy2st_runtime.ir.program import ObjectPlace, Program, StateSlot
from dy2st_runtime.ir.unflattening import unflatten
from dy2st_runtime.passes.devices import move_to_device

_MODES = ("train", "eval")
_PLAIN = ("attribute", "number")
"""Kinds of state whose name may lead inside of an attribute."""
_DESCRIBED = ("module", "container")
"""Kinds of entries that hold no value of their own."""


def load(
    path: archive.Path, *, namespaces: Collection[str] = (), backend: str | None = None, max_steps: int | None = None
) -> LoadedModule:
    """Load a saved model. Nothing in the file is executed by loading it, and a damaged file is refused.

    Args:
        path: a file that ``dy2st.save`` wrote.
        namespaces: namespaces of operators, besides PyTorch's own, that the model may call (``["torchvision"]``).
        backend: the executor that runs its programs, see :func:`dy2st_runtime.executors.choose`.
        max_steps: how many iterations the loops of one call may make, all together; ``None`` for any number. A call that makes more
            raises :class:`~dy2st_runtime.errors.StepLimitError`.

    Returns:
        A module on the CPU with the parameters, buffers and ``state_dict`` keys of the one that was saved.

    Raises:
        LoadError: it is not an archive, is damaged, or asks for what this version does not have.
        BackendError: there is no such executor.
        OSError: the file is missing or cannot be read.

    Example:
        >>> dy2st.save(torch.nn.Linear(8, 2), "model.dy2st", input_spec=[dy2st.InputSpec([None, 8])])  # elsewhere
        >>> model = load("model.dy2st")
        >>> model(torch.zeros(3, 8)).shape
        torch.Size([3, 2])
    """
    choose(backend)
    model = archive.read_model(path, namespaces)
    return LoadedModule(model.methods, model.state, backend, max_steps, about=model.about, examples=model.examples)


@dataclasses.dataclass(frozen=True)
class _Entry:
    """A program of a module with what is prepared for it; never changes, so copies of the module share it.

    Attributes:
        program: as it was captured.
        moved: the same for the device that the module is on, within the limit of steps.
        binder: takes the arguments of a call apart.
        paths: where on the module the state is.
        recording: the same of its recording.
    """

    program: Program
    moved: Program
    binder: Binder
    paths: tuple[Path, ...]
    recording: _Entry | None

    @functools.cached_property
    def running(self) -> _Entry:
        """What a call runs: the recording where a second run would not do what the first one did."""
        return self if self.recording is None or on_raise.is_repeatable(self.program) else self.recording

    def __deepcopy__(self, memo: dict[int, Any]) -> _Entry:
        return self


class LoadedModule(nn.Module):
    """A module made of programs and their state.

    ``train()`` and ``eval()`` choose the program that was captured in that mode. In a mode that it was not saved for (see
    :attr:`modes`) the program of the other one runs, and choosing that mode gives a warning. The flags of submodules choose
    nothing: a submodule that was frozen in evaluation mode when the model was saved stays so. Parameters and
    buffers have the names of the saved module; constants of the programs are no part of the ``state_dict``, follow the
    module to another device and keep their dtype.

    Other methods than ``forward`` that were saved are called by their names.

    Args:
        programs: those of ``forward``, or by name those of each method; the first decides the mode to start in.
        state: the values of all their state slots.
        backend: the executor that runs them.
        max_steps: see :func:`load`.
        about: texts for people and tools, as they were saved.
        examples: by method, arguments that fit, as they were saved.
    """

    def __init__(
        self,
        programs: Sequence[Program] | Mapping[str, Sequence[Program]],
        state: State,
        backend: str | None = None,
        max_steps: int | None = None,
        *,
        about: Mapping[str, str] | None = None,
        examples: Mapping[str, archive.Example] | None = None,
    ) -> None:
        super().__init__()
        if max_steps is not None and (type(max_steps) is not int or max_steps < 0):
            raise ValueError(f"max_steps is a number of iterations or None, not {max_steps!r}")
        self._dy2st_backend, self._dy2st_max_steps = backend, max_steps
        self._dy2st_constants: dict[str, torch.Tensor] = {}
        self._dy2st_kept: dict[tuple[Any, ...], Any] = {}
        self._dy2st_state = [entry if entry.kind in _DESCRIBED else dataclasses.replace(entry, value=None) for entry in state]
        self._dy2st_device = torch.device("cpu")
        methods = programs if isinstance(programs, Mapping) else {archive.FORWARD: programs}
        self._dy2st_about, self._dy2st_examples = dict(about or {}), dict(examples or {})
        self._dy2st_entries = {name: tuple(_prepare(program, max_steps) for program in some) for name, some in methods.items()}
        items = {entry.name: entry.value for entry in state if entry.kind in _PLAIN}
        for entry in sorted(state, key=lambda entry: entry.name.endswith(".grad")):  # after what it is the gradient of
            if entry.kind == "container":
                entry = dataclasses.replace(entry, value=build(entry.value, entry.name, items))
            self._place(entry)
        self.train(self.programs[0].training)

    def _place(self, entry: StateValue) -> None:
        if entry.kind == "constant":
            self._dy2st_constants[entry.name] = entry.value
            return
        path = parse(entry.name, items=entry.kind in _PLAIN)
        if entry.kind == "attribute" and (tensor := places.holder_of_gradient(self, path)) is not None:
            places.give_gradient(tensor, entry.name, entry.value)
            return
        owner, name = container(self, path.owner), path.name
        if entry.kind == "module":
            owner._modules[name] = container(self, entry.value.split("."))
        elif entry.kind == "parameter":
            owner._parameters[name] = entry.value
        elif entry.kind == "buffer":
            owner._buffers[name] = entry.value
            if not entry.persistent:
                owner._non_persistent_buffers_set.add(name)
        elif not path.items:  # an item comes with its container
            owner.__dict__[name] = entry.value

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_dy2st_entries", ()):
            return functools.partial(self._run, name)
        return super().__getattr__(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.methods]  # type: ignore[no-untyped-call]  # torch has no annotations here

    @property
    def program(self) -> Program:
        """The program that a call runs now; that of the first method where there is no ``forward``."""
        return self._entry(archive.FORWARD if archive.FORWARD in self._dy2st_entries else self.methods[0]).program

    @property
    def programs(self) -> tuple[Program, ...]:
        """All programs."""
        return tuple(entry.program for entries in self._dy2st_entries.values() for entry in entries)

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods that were saved."""
        return tuple(self._dy2st_entries)

    def programs_of(self, method: str) -> tuple[Program, ...]:
        """Return the programs of one method, the one for the mode to start in first.

        Raises:
            KeyError: no such method was saved.
        """
        return tuple(entry.program for entry in self._dy2st_entries[method])

    @property
    def about(self) -> dict[str, str]:
        """What was said about the model when it was saved: documentation, versions, and what the caller of ``save`` added."""
        return dict(self._dy2st_about)

    @property
    def examples(self) -> dict[str, archive.Example]:
        """By method, the arguments that were saved as examples, as ``(args, kwargs)``."""
        return dict(self._dy2st_examples)

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that all its methods were saved for: ``"train"``, ``"eval"``, or both."""
        saved = [{mode for program in self.programs_of(name) for mode in program.modes} for name in self.methods]
        return tuple(mode for mode in _MODES if all(mode in of for of in saved))

    def train(self, mode: bool = True) -> LoadedModule:
        """Choose the mode, as for every module; warns if the model was not saved for it."""
        wanted, other = _MODES[not mode], _MODES[mode]
        fixed = [name for name in self.methods if not any(wanted in program.modes for program in self.programs_of(name))]
        if fixed:
            which = "this model was" if fixed == [archive.FORWARD] else f"{', '.join(fixed)} of this model was"
            warnings.warn(
                f"{which} saved for {other} mode only: in {wanted} mode it does the same as in {other} mode",
                stacklevel=2,
            )
        return super().train(mode)

    def _entry(self, method: str) -> _Entry:
        entries, mode = self._dy2st_entries[method], _MODES[not self.training]
        return next((entry for entry in entries if mode in entry.program.modes), entries[0])

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program of the current mode.

        Raises:
            SignatureError: the arguments do not fit it.
        """
        if archive.FORWARD not in self._dy2st_entries:
            raise SignatureError(f"this model was saved without forward; call one of its methods: {', '.join(self.methods)}")
        return self._run(archive.FORWARD, *args, **kwargs)

    @other_tracers.left_to_itself
    def _run(self, method: str, /, *args: Any, **kwargs: Any) -> Any:
        other_tracers.refuse_jit_trace(method)
        value = self._entry(method)
        entry = value.running
        state = self._state_of(entry)
        containers: dict[tuple[Any, ...], Any] = {}
        leaves = entry.binder.bind(args, kwargs, lambda: _casts(entry.program, state), containers)
        results = self._existing(entry.program, containers) if entry.program.object_places else {}
        on_raise.begin()
        with _default_dtype(entry.program.default_dtype):
            try:
                outputs = runner(entry.moved, self._dy2st_backend)([*leaves, *state])
            except BaseException as error:
                if self._has_left(value, leaves, error):
                    self._leave(value.recording, containers)
                if isinstance(error, Exception):
                    other_tracers.explain(error)
                raise
        effects.apply(self, entry.program, outputs, results)
        result = unflatten(entry.program.out_structure, outputs, results)
        self._keep(entry.program, results)
        return result

    def prepared(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Program, list[Any], dict[int, Any]]:
        """Return the program of a method that arguments select, the values of its inputs, and the containers that are there."""
        entry = self._entry(method).running
        state = self._state_of(entry)
        containers: dict[tuple[Any, ...], Any] = {}
        leaves = entry.binder.bind(args, kwargs, lambda: _casts(entry.program, state), containers)
        existing = self._existing(entry.program, containers) if entry.program.object_places else {}
        return entry.moved, [*leaves, *state], existing

    def _state_of(self, entry: _Entry) -> list[Any]:
        """Return the values of the state slots of a program.

        Raises:
            SignatureError: it was captured with a gradient that is not there now.
        """
        state = [self._value(path) for path in entry.paths]
        for slot, value in zip(entry.program.states, state):
            if value is None and slot.dtype is not None:
                raise SignatureError(f"{entry.program.name}() was captured with a tensor as {slot.name}, which is None now")
        return state

    def _keep(self, program: Program, results: Mapping[int, Any]) -> None:
        """Remember the containers that later calls find again."""
        self._dy2st_kept |= {
            place.path: results[number] for number, place in program.existing if place.kind == "kept" and number in results
        }

    def _leave(self, recording: _Entry | None, containers: Mapping[tuple[Any, ...], Any]) -> None:
        """Write what a call that has raised had written by then."""
        kept = on_raise.taken()
        if kept is not None and recording is not None:
            written = on_raise.written(recording.program, kept[0])
            result = self._existing(written, containers)
            effects.apply(self, written, kept[1], result)
            self._keep(written, result)

    def _has_left(self, entry: _Entry, leaves: Sequence[Any], raised: BaseException) -> bool:
        """Tell whether a recording has run up to where a call has raised.

        If not so far, it does now: nothing has been written yet.
        """
        recording = entry.recording
        if recording is None or isinstance(raised, StepLimitError) or entry.running is recording:
            return not isinstance(raised, StepLimitError)
        on_raise.begin()
        try:
            runner(recording.moved, "python")([*leaves, *(self._value(path) for path in recording.paths)])
        except (Exception, SystemExit) as error:
            return type(error) is type(raised)
        return False

    def _existing(self, program: Program, containers: Mapping[tuple[Any, ...], Any]) -> dict[int, Any]:
        """Return the containers that were there before the call, by number."""
        for one, other in program.distinct:
            results = self._object(one, containers)
            if results is not None and results is self._object(other, containers):
                where = " and ".join(map(_place_text, (one, other)))
                raise SignatureError(f"{program.name}() was captured with two objects as {where}, and is called with one")
        results = {number: self._object(place, containers) for number, place in program.existing}
        return {number: held for number, held in results.items() if held is not None}

    def _object(self, place: ObjectPlace, containers: Mapping[tuple[Any, ...], Any]) -> Any:
        """Return the container at a place; ``None`` where there is none yet."""
        if place.kind == "argument":
            return containers.get(place.path)
        return self._dy2st_kept.get(place.path) if place.kind == "kept" else self._value(parse(place.path[0]))

    def state_value(self, slot: StateSlot) -> Any:
        """Return the value that a state slot of one of the programs has now."""
        return self._value(parse(slot.name, items=slot.kind in _PLAIN))

    def _value(self, path: Path) -> Any:
        constant = self._dy2st_constants.get(str(path))
        return places.value_at(self, path) if constant is None else constant

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> LoadedModule:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch has no annotations here
        device = fn(torch.empty(0, device=self._dy2st_device)).device
        if device != self._dy2st_device:
            self._dy2st_device = device
            self._dy2st_kept = {}
            self._dy2st_entries = {
                name: tuple(_on_device(entry, device, self._dy2st_max_steps) for entry in entries)
                for name, entries in self._dy2st_entries.items()
            }
            self._dy2st_constants = {
                name: constant.detach().to(device).requires_grad_(constant.requires_grad)
                for name, constant in self._dy2st_constants.items()
            }
        return self

    def save(self, path: archive.Path) -> None:
        """Write the module with its state as it is now.

        Raises:
            SaveError: the file cannot be written.
        """
        values = tuple(
            entry
            if entry.kind in _DESCRIBED
            else dataclasses.replace(entry, value=self._value(parse(entry.name, items=entry.kind in _PLAIN)))
            for entry in self._dy2st_state
        )
        methods = {name: self.programs_of(name) for name in self.methods}
        archive.write(path, archive.Model(methods, values, self._dy2st_about, self._dy2st_examples))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it as the file that :meth:`save` writes: programs and state, but no hooks."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.dy2st")
            self.save(path)
            with open(path, "rb") as file:
                data = file.read()
        operators = [node.target for program in self.programs for node in program.nodes()]
        namespaces = sorted({target.namespace for target in operators if isinstance(target, torch._ops.OpOverload)})
        options = {"namespaces": namespaces, "backend": self._dy2st_backend, "max_steps": self._dy2st_max_steps}
        return _from_bytes, (data, options, self._dy2st_device, self.training)

    def __deepcopy__(self, memo: dict[int, Any]) -> LoadedModule:
        result = memo[id(self)] = type(self).__new__(type(self))
        result.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return result

    def extra_repr(self) -> str:
        """Return the heads of the programs, for ``print(module)``."""
        return "\n".join(str(program).partition("\n")[0] for program in self.programs)


def _from_bytes(data: bytes, options: dict[str, Any], device: torch.device, training: bool) -> LoadedModule:
    """Return a loaded model that was pickled."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.dy2st")
        with open(path, "wb") as file:
            file.write(data)
        model = load(path, **options).to(device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it was warned of when the mode was chosen
        return model.train(training)


def _prepare(program: Program, max_steps: int | None) -> _Entry:
    paths = tuple(parse(slot.name, items=slot.kind in _PLAIN) for slot in program.states)
    recording = None if program.recording is None else _prepare(program.recording, max_steps)
    return _Entry(program, _ready(program, torch.device("cpu"), max_steps), Binder(program), paths, recording)


def _place_text(place: ObjectPlace) -> str:
    if place.kind != "argument":
        return str(place.path[0])
    return f"argument {place.path[1]!r}{''.join(f'[{step!r}]' for step in place.path[2:])}"


def _on_device(entry: _Entry, device: torch.device, max_steps: int | None) -> _Entry:
    recording = None if entry.recording is None else _on_device(entry.recording, device, max_steps)
    return dataclasses.replace(entry, moved=_ready(entry.program, device, max_steps), recording=recording)


def _ready(program: Program, device: torch.device, max_steps: int | None) -> Program:
    """Return what runs: the program on a device, within the limit."""
    return limited(move_to_device(program, device), max_steps)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Set PyTorch's default dtype as it was at the capture; it belongs to the process, so it is set only where it differs."""
    before = torch.get_default_dtype()
    if before == dtype:
        yield
        return
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _casts(program: Program, values: Sequence[Any]) -> set[tuple[torch.dtype, torch.dtype]]:
    """Return the dtypes of parameters and buffers with those that ``module.half()`` and the like have put in their place."""
    slots = zip(program.states, values, strict=True)
    return {(slot.dtype, value.dtype) for slot, value in slots if slot.dtype is not None and slot.kind in ("parameter", "buffer")}
