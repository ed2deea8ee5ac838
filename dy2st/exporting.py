"""From a layer, static function or archive to a file of another format, checked against what it came from."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import os
import secrets
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from dy2st import config, saving
from dy2st.errors import ExportError, SignatureError
from dy2st.lowering import aoti, doors, onnx_models
from dy2st.lowering.arguments import bound, without_defaults
from dy2st.lowering.comparison import compare, tensors_of
from dy2st.lowering.context import brief
from dy2st.lowering.inputs import generated
from dy2st.lowering.module import Lowered
from dy2st.lowering.refusals import refuse_random_numbers, refuse_state
from dy2st.lowering.watch import Watch
from dy2st.static_function import capture_lock
from dy2st_runtime import archive
from dy2st_runtime.module import LoadedModule
from dy2st_runtime.program import Program
from dy2st_runtime.state import State

_Call = tuple[tuple[Any, ...], dict[str, Any]]

_TRIES = 48
"""How many calls are made up to find ways through the program."""

_ENOUGH = 4
"""How many calls are compared at least, where there are as many."""

_SECONDS = 6.0
"""How long calls are tried out."""

_MOST_STEPS = 5_000
"""How many loop trips a call may make that is tried out."""


@dataclasses.dataclass(frozen=True)
class ExportReport:
    """What an export did.

    Attributes:
        path: the file.
        format: ``"pt2"``, ``"onnx"`` or ``"aoti"``.
        size: of the file, in bytes.
        seconds: how long it took, without the verification.
        verified: how many calls were compared; 0 if that was not asked for.
        largest_difference: between a number of the file's results and that of the program, over all these calls.
        compared_with: ``"eager"``, or ``"program"`` where only the program was there to compare with.
        coverage: for each branch and loop, the ways that the compared calls went.
        notes: what the file does otherwise than the program: assertions left out, text that is not printed, bounds.
    """

    path: str
    format: str
    size: int
    seconds: float
    verified: int
    largest_difference: float
    compared_with: str
    coverage: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        head = f"{self.path}: {self.format}, {self.size / 1024:.0f} KiB, {self.seconds:.1f} s"
        checked = (
            f"verified on {self.verified} calls against {self.compared_with}, largest difference {self.largest_difference:.3g}"
            if self.verified
            else "not verified"
        )
        return "\n  ".join([head, checked, *self.coverage, *(f"note: {note}" for note in self.notes)])


@dataclasses.dataclass(frozen=True)
class Options:
    """See :func:`dy2st.export`."""

    inputs: Sequence[Any] | None = None
    verify: bool = True
    max_growth: int | None = None
    rtol: float | None = None
    atol: float | None = None
    opset: int | None = None
    method: str = archive.FORWARD
    examples: Sequence[_Call] = ()


def export(
    layer: Any, path: str | os.PathLike[str], format: str | None, specs: Sequence[Any] | None, options: Options
) -> ExportReport:
    """See :func:`dy2st.export`; exports run one after the other, for torch.export follows one at a time."""
    with capture_lock:
        return _export(layer, path, format, specs, options)


def _export(
    layer: Any, path: str | os.PathLike[str], format: str | None, specs: Sequence[Any] | None, options: Options
) -> ExportReport:
    target = os.fspath(path)
    door = DOORS[_format(target, format)]
    door.require()
    model, live = _opened(layer, specs)
    program, state = without_defaults(_evaluation(_programs(model, options.method))), model.state
    if options.inputs is None and options.method in model.examples:
        options = dataclasses.replace(options, examples=(model.examples[options.method],))
    door.check(program, options)
    start = time.perf_counter()
    loaded = LoadedModule([program], _own(state))
    lowered = doors.to_exported_program(loaded, program, door.checks, options.max_growth, door.keep_first)
    folder, name = os.path.split(os.path.realpath(target))
    temporary = os.path.join(folder, f".{secrets.token_hex(8)}-{name}")
    try:
        notes = _written(door, lowered, program, temporary, options)
        seconds = time.perf_counter() - start
        checked = (
            _verified(program, state, live, _opened_again(door, temporary, program), options) if options.verify else _Checked()
        )
        size = doors.sized(temporary)
        _finish(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return ExportReport(
        target,
        door.name,
        size,
        seconds,
        checked.calls,
        checked.largest,
        checked.against,
        tuple(checked.coverage),
        (*lowered.notes, *notes),
    )


def _format(path: str, format: str | None) -> str:
    if format is None:
        suffix = os.path.splitext(path)[1]
        if suffix not in (".pt2", ".onnx"):
            raise SignatureError(f"the format of {path!r} is not known from its name: pass format=, one of {', '.join(DOORS)}")
        return suffix[1:]
    if format not in DOORS:
        raise SignatureError(f"there is no format {format!r}; choose one of {', '.join(DOORS)}")
    return format


def _written(door: Door, lowered: Lowered, program: Program, path: str, options: Options) -> Sequence[str]:
    try:
        return door.write(lowered, program, path, options)
    except ExportError:
        raise
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror or error}") from error
    except Exception as error:
        raise ExportError(
            f"{program.origin}: {program.name} cannot be written as {door.name}: {type(error).__name__}: {brief(error)}"
        ) from error


def _opened_again(door: Door, path: str, program: Program) -> doors.Runner:
    try:
        return door.read(path, program)
    except Exception as error:
        raise ExportError(
            f"{program.origin}: {program.name} was written as {door.name}, but cannot be loaded: "
            f"{type(error).__name__}: {brief(error)}"
        ) from error


def _finish(temporary: str, target: str) -> None:
    """Put a complete file in the place of whatever is there."""
    try:
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, os.path.realpath(target))
    except OSError as error:
        raise ExportError(f"cannot write {target}: {error.strerror or error}") from error


# -- what is exported --------------------------------------------------------------------------------------------------------


def _programs(model: archive.Model, method: str) -> Sequence[Program]:
    """The programs of one method.

    Raises:
        SignatureError: there is none of that name.
    """
    if method not in model.methods:
        raise SignatureError(f"there is no method {method!r} to export; choose one of {', '.join(model.methods)}")
    return model.methods[method]


def _opened(layer: Any, specs: Sequence[Any] | None) -> tuple[archive.Model, Any]:
    """What an archive of a layer holds, and the layer itself, if it is one."""
    if isinstance(layer, (str, os.PathLike)):
        if specs is not None:
            raise SignatureError("an archive is exported with the signature that it has: leave input_spec out")
        return archive.read_model(layer), None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.dy2st")
        with _in_evaluation(layer), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is saved for evaluation mode only")  # that is the mode exported
            saving.save(layer, path, specs)
        model = archive.read_model(path)
        model = dataclasses.replace(model, state=_own(model.state))  # the folder goes, and its file with it
        return model, None if isinstance(layer, LoadedModule) else layer


@contextlib.contextmanager
def _in_evaluation(layer: Any) -> Iterator[None]:
    """See :func:`saving.evaluating`; a layer that is no module, or is a saved one, stays as it is."""
    module = layer if isinstance(layer, torch.nn.Module) else getattr(layer, "__self__", getattr(layer, "instance", None))
    if not isinstance(module, torch.nn.Module) or isinstance(module, LoadedModule):
        yield
        return
    with saving.evaluating(module):
        yield


def _evaluation(programs: Sequence[Program]) -> Program:
    """The program for evaluation mode.

    Raises:
        ExportError: there is none.
    """
    found = next((program for program in programs if "eval" in program.modes), None)
    if found is None:
        raise ExportError(f"{programs[0].origin}: {programs[0].name} was saved for training mode only; save it in evaluation mode")
    return found


def _own(state: State) -> State:
    """A copy of values: what one run changes is not seen by another."""
    memo: dict[int, Any] = {}
    return tuple(dataclasses.replace(entry, value=copy.deepcopy(entry.value, memo)) for entry in state)


# -- verification ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Checked:
    calls: int = 0
    largest: float = 0.0
    against: str = "nothing"
    coverage: list[str] = dataclasses.field(default_factory=list)


def _verified(program: Program, state: State, live: Any, run: doors.Runner, options: Options) -> _Checked:
    """Compare the written file with the program, and with eager where it is there.

    Raises:
        ExportError: they differ, or no call could be made to compare them.
    """
    watch = Watch(program)
    calls = _chosen(watch, state, options)
    reference, eager = LoadedModule([program], _own(state), "python").eval(), _eager(live, program)
    done = _Checked(against="eager" if eager is not None else "program", coverage=[str(site) for site in watch.sites])
    for args, kwargs in (bound(program, *call) for call in calls):
        expected = _results(reference, args, kwargs)
        if eager is not None:
            own = compare(_results(eager, args, kwargs), expected, options.rtol, options.atol)
            if own.problem is not None:
                raise ExportError(
                    f"{program.origin}: {program.name} differs from eager Python: {own.problem}; {_shown(args, kwargs)}"
                )
        try:
            found = _results(lambda *args, **kwargs: run(args, kwargs), args, kwargs)
        except Exception as error:
            raise ExportError(
                f"{program.origin}: the exported {program.name} fails where the program does not: {type(error).__name__}: "
                f"{brief(error)}; {_shown(args, kwargs)}"
            ) from error
        difference = compare(found, expected, options.rtol, options.atol)
        if difference.problem is not None:
            raise ExportError(
                f"{program.origin}: the exported {program.name} is not right: {difference.problem}; {_shown(args, kwargs)}; "
                "rtol= and atol= say how far it may be off"
            )
        done.calls, done.largest = done.calls + 1, max(done.largest, difference.largest)
    return done


def _results(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """What a call gives, and then its arguments as they are afterwards."""
    mine, named = _fresh(args), _fresh(kwargs)
    torch.manual_seed(0)
    with torch.no_grad():
        results = tensors_of(function(*mine, **named))
    return [*results, *tensors_of((mine, named))]


def _eager(live: Any, program: Program) -> Callable[..., Any] | None:
    """The original as Python runs it, on a copy of its state; ``None`` where it cannot be copied."""
    if live is None:
        return None
    try:
        mine = copy.deepcopy(live)
    except Exception:
        return None
    if isinstance(mine, torch.nn.Module):
        mine.eval()

    def call(*args: Any, **kwargs: Any) -> Any:
        before = config.is_enabled()
        config.set_enabled(False)
        try:
            return mine(*args, **kwargs)
        finally:
            config.set_enabled(before)

    return call


def _chosen(watch: Watch, state: State, options: Options) -> list[_Call]:
    """The calls to compare: those given, or of many made-up ones those that go new ways, and a few more.

    Raises:
        ExportError: the program takes none of them.
    """
    given = None if options.inputs is None else [_as_call(item) for item in options.inputs]
    module = LoadedModule([watch.program], _own(state), "python", _MOST_STEPS).eval()
    chosen: list[_Call] = []
    problem: Exception | None = None
    start = time.monotonic()
    for args, kwargs in given or itertools.chain(options.examples, generated(watch.program, _TRIES)):
        if given is None and time.monotonic() - start > _SECONDS:
            break
        before, seen = watch.covered(), [set(site.seen) for site in watch.sites]
        try:
            with torch.no_grad():
                module(*_fresh(args), **_fresh(kwargs))
        except Exception as error:
            problem = problem or error
            for site, old in zip(watch.sites, seen):
                site.seen = old
            module = LoadedModule([watch.program], _own(state), "python", _MOST_STEPS).eval()
            if given is not None:
                raise ExportError(
                    f"{watch.program.name} fails with inputs given to verify it: {type(error).__name__}: {error}"
                ) from error
            continue
        if given is not None or len(chosen) < _ENOUGH or watch.covered() != before:
            chosen.append((args, kwargs))
        else:
            for site, old in zip(watch.sites, seen):
                site.seen = old
    if not chosen:
        raise ExportError(
            f"{watch.program.origin}: {watch.program.name} takes none of the made-up arguments "
            f"({type(problem).__name__}: {problem}); pass inputs=, a list of calls' arguments, to verify the result with, "
            "or verify=False"
        )
    return chosen


def _as_call(item: Any) -> _Call:
    if isinstance(item, dict):
        return (), item
    return (tuple(item) if isinstance(item, (tuple, list)) else (item,)), {}


def _fresh(value: Any) -> Any:
    """Arguments that a call may change."""
    return copy.deepcopy(value)


def _shown(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    def one(value: Any) -> str:
        if isinstance(value, torch.Tensor) and value.numel() > 8:
            return f"tensor of {list(value.shape)}"
        return " ".join(repr(value).split())

    return "called with " + ", ".join([*map(one, args), *(f"{name}={one(value)}" for name, value in kwargs.items())])


# -- the formats -------------------------------------------------------------------------------------------------------------


class Door:
    """One format.

    Attributes:
        name: of the format.
        checks: whether it can hold assertions.
        keep_first: see :class:`~dy2st.lowering.context.Context`.
    """

    name = "pt2"
    checks = True
    keep_first = False

    def require(self) -> None:
        """Check that what it needs is installed.

        Raises:
            ExportError: it is not.
        """

    def check(self, program: Program, options: Options) -> None:
        """Refuse what the format cannot hold at all.

        Raises:
            ExportError: the program has such a thing.
        """

    def write(self, lowered: Lowered, program: Program, path: str, options: Options) -> Sequence[str]:
        """Write the file; gives notes for the report."""
        doors.write_pt2(lowered, path)
        return ()

    def read(self, path: str, program: Program) -> doors.Runner:
        """What runs the file."""
        return doors.read_pt2(path)


class OnnxDoor(Door):
    """ONNX models, which hold no assertions."""

    name = "onnx"
    checks = False

    def require(self) -> None:
        onnx_models.require()

    def check(self, program: Program, options: Options) -> None:
        refuse_state(program, "an ONNX model")
        refuse_random_numbers(program, "an ONNX model")

    def write(self, lowered: Lowered, program: Program, path: str, options: Options) -> Sequence[str]:
        onnx_models.write(lowered, program, path, options.opset)
        return ()

    def read(self, path: str, program: Program) -> doors.Runner:
        return onnx_models.read(path)


class AotiDoor(Door):
    """AOTInductor packages."""

    name = "aoti"
    keep_first = True

    def require(self) -> None:
        aoti.require()

    def check(self, program: Program, options: Options) -> None:
        refuse_state(program, "an AOTInductor package")
        refuse_random_numbers(program, "an AOTInductor package")

    def write(self, lowered: Lowered, program: Program, path: str, options: Options) -> Sequence[str]:
        aoti.write(lowered, program, path)
        return ()

    def read(self, path: str, program: Program) -> doors.Runner:
        return aoti.read(path)


DOORS: dict[str, Door] = {door.name: door for door in (Door(), OnnxDoor(), AotiDoor())}
"""Every format by its name."""
