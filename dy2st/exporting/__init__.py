"""From a layer, static function or archive to a file of another format, checked against what it came from."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dy2st.errors import ExportError, SignatureError
from dy2st.exporting import aoti, onnx_models, targets
from dy2st.exporting.refusals import refuse_calls_of_numpy, refuse_random_numbers, refuse_state
from dy2st.exporting.verification import Checked, ExportOptions, own, verified
from dy2st.input_spec import Specs
from dy2st.lowering import sequences
from dy2st.lowering.arguments import without_defaults
from dy2st.lowering.context import brief
from dy2st.lowering.export import Lowered
from dy2st.saving.modes import OneModeWarning, evaluating
from dy2st.saving.writing import save
from dy2st.static.static_function import capture_lock
from dy2st_runtime.archive import archive
from dy2st_runtime.ir.program import Program
from dy2st_runtime.module import LoadedModule
from dy2st_runtime.primitives import control


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


def export(
    layer: Any, path: str | os.PathLike[str], format: str | None, specs: Specs | None, options: ExportOptions
) -> ExportReport:
    """See :func:`dy2st.export`; exports run one after the other, for torch.export follows one at a time."""
    with capture_lock:
        return _export(layer, path, format, specs, options)


def _export(
    layer: Any, path: str | os.PathLike[str], format: str | None, specs: Specs | None, options: ExportOptions
) -> ExportReport:
    target = os.fspath(path)
    export_target = TARGETS[_format(target, format)]
    export_target.require()
    model, live = _opened(layer, specs)
    program, state = without_defaults(_evaluation(_programs(model, options.method))), model.state
    if options.inputs is None and options.method in model.examples:
        options = dataclasses.replace(options, examples=(model.examples[options.method],))
    refuse_calls_of_numpy(program)
    export_target.check(program, options)
    start = time.perf_counter()
    lowered = _lowered(export_target, LoadedModule([program], own(state)), program, options)
    with _folder_beside(target) as folder:
        temporary = os.path.join(folder, os.path.basename(os.path.realpath(target)))
        notes = _written(export_target, lowered, program, temporary, options)
        seconds = time.perf_counter() - start
        checked = (
            verified(program, state, live, _opened_again(export_target, temporary, program), options)
            if options.verify
            else Checked()
        )
        size = sum(targets.sized(os.path.join(folder, name)) for name in os.listdir(folder))
        _finish(folder, target)
    return ExportReport(
        target,
        export_target.name,
        size,
        seconds,
        checked.calls,
        checked.largest,
        checked.against,
        tuple(checked.coverage),
        (*lowered.notes, *notes),
    )


def _lowered(export_target: ExportTarget, loaded: LoadedModule, program: Program, options: ExportOptions) -> Lowered:
    """Return the program with buffers for lists that grow, and where there cannot be any, with lists if the format has those."""
    try:
        return targets.to_exported_program(loaded, program, export_target.checks, options.max_growth)
    except ExportError as error:
        if not export_target.has_lists or not any(node.target in control.LIST_CHANGES for node in program.nodes()):
            raise
        try:
            with sequences.instead_of_buffers():
                return targets.to_exported_program(loaded, program, export_target.checks, options.max_growth)
        except ExportError as other:
            raise error from other


def _format(path: str, format: str | None) -> str:
    if format is None:
        suffix = os.path.splitext(path)[1]
        if suffix not in (".pt2", ".onnx"):
            raise SignatureError(f"the format of {path!r} is not known from its name: pass format=, one of {', '.join(TARGETS)}")
        return suffix[1:]
    if format not in TARGETS:
        raise SignatureError(f"there is no format {format!r}; choose one of {', '.join(TARGETS)}")
    return format


def _written(export_target: ExportTarget, lowered: Lowered, program: Program, path: str, options: ExportOptions) -> Sequence[str]:
    try:
        return export_target.write(lowered, program, path, options)
    except ExportError:
        raise
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror or error}") from error
    except Exception as error:
        raise ExportError(
            f"{program.name} cannot be written as {export_target.name}: {type(error).__name__}: {brief(error)}", program.origin
        ) from error


def _opened_again(export_target: ExportTarget, path: str, program: Program) -> targets.Runner:
    try:
        return export_target.read(path, program)
    except Exception as error:
        raise ExportError(
            f"{program.name} was written as {export_target.name}, but cannot be loaded: {type(error).__name__}: {brief(error)}",
            program.origin,
        ) from error


@contextlib.contextmanager
def _folder_beside(target: str) -> Iterator[str]:
    """Make a folder where a file that is not complete is nobody's business.

    Raises:
        ExportError: there cannot be any.
    """
    real = os.path.realpath(target)
    try:
        archive.check_target(real)
        result = tempfile.TemporaryDirectory(prefix=".dy2st-", dir=os.path.dirname(real))
    except OSError as error:
        raise ExportError(f"cannot write {target}: {error.strerror or error}") from error
    with result as folder:
        yield folder


def _finish(folder: str, target: str) -> None:
    """Put complete files in the place of whatever is there, the one that refers to others last."""
    real = os.path.realpath(target)
    try:
        for name in sorted(os.listdir(folder), key=lambda name: name == os.path.basename(real)):
            with open(os.path.join(folder, name), "rb") as file:
                os.fsync(file.fileno())
            os.replace(os.path.join(folder, name), os.path.join(os.path.dirname(real), name))
    except OSError as error:
        raise ExportError(f"cannot write {target}: {error.strerror or error}") from error


# -- what is exported --------------------------------------------------------------------------------------------------------


def _programs(model: archive.Model, method: str) -> Sequence[Program]:
    """Return the programs of one method.

    Raises:
        SignatureError: there is none of that name.
    """
    if method not in model.methods:
        raise SignatureError(f"there is no method {method!r} to export; choose one of {', '.join(model.methods)}")
    return model.methods[method]


def _opened(layer: Any, specs: Specs | None) -> tuple[archive.Model, Any]:
    """Return what an archive of a layer holds, and the layer itself, if it is one."""
    if isinstance(layer, (str, os.PathLike)):
        if specs is not None:
            raise SignatureError("an archive is exported with the signature that it has: leave input_spec out")
        return archive.read_model(layer), None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.dy2st")
        with _in_evaluation(layer), warnings.catch_warnings():
            warnings.simplefilter("ignore", OneModeWarning)  # the mode exported is the one that is there
            save(layer, path, specs, records=False)  # no other format could say what is left
        operators = torch._C._dispatch_get_all_op_names()
        model = archive.read_model(path, {name.partition("::")[0] for name in operators})  # written just now, by this process
        model = dataclasses.replace(model, state=own(model.state))  # the folder goes, and its file with it
        return model, None if isinstance(layer, LoadedModule) else layer


@contextlib.contextmanager
def _in_evaluation(layer: Any) -> Iterator[None]:
    """See :func:`~dy2st.saving.modes.evaluating`; a layer that is no module, or is a saved one, stays as it is."""
    module = layer if isinstance(layer, torch.nn.Module) else getattr(layer, "__self__", getattr(layer, "instance", None))
    if not isinstance(module, torch.nn.Module) or isinstance(module, LoadedModule):
        yield
        return
    with evaluating(module):
        yield


def _evaluation(programs: Sequence[Program]) -> Program:
    """Return the program for evaluation mode.

    Raises:
        ExportError: there is none.
    """
    result = next((program for program in programs if "eval" in program.modes), None)
    if result is None:
        raise ExportError(f"{programs[0].name} was saved for training mode only; save it in evaluation mode", programs[0].origin)
    return result


# -- the formats -------------------------------------------------------------------------------------------------------------


class ExportTarget:
    """One format.

    Attributes:
        name: of the format.
        checks: whether it can hold assertions.
        has_lists: whether it can hold lists of any length.
    """

    name = "pt2"
    checks = True
    has_lists = False

    def require(self) -> None:
        """Check that what it needs is installed.

        Raises:
            ExportError: it is not.
        """

    def check(self, program: Program, options: ExportOptions) -> None:
        """Refuse what the format cannot hold at all.

        Raises:
            ExportError: the program has such a thing.
        """

    def write(self, lowered: Lowered, program: Program, path: str, options: ExportOptions) -> Sequence[str]:
        """Write the file; gives notes for the report."""
        targets.write_pt2(lowered, path)
        return ()

    def read(self, path: str, program: Program) -> targets.Runner:
        """Return what runs the file."""
        return targets.read_pt2(path)


class OnnxTarget(ExportTarget):
    """ONNX models, which hold no assertions."""

    name = "onnx"
    checks = False
    has_lists = True

    def require(self) -> None:
        onnx_models.require()

    def check(self, program: Program, options: ExportOptions) -> None:
        refuse_state(program, "an ONNX model")
        refuse_random_numbers(program, "an ONNX model")

    def write(self, lowered: Lowered, program: Program, path: str, options: ExportOptions) -> Sequence[str]:
        onnx_models.write(lowered, program, path, options.opset)
        return ()

    def read(self, path: str, program: Program) -> targets.Runner:
        return onnx_models.read(path)


class AotiTarget(ExportTarget):
    """AOTInductor packages."""

    name = "aoti"

    def require(self) -> None:
        aoti.require()

    def check(self, program: Program, options: ExportOptions) -> None:
        refuse_state(program, "an AOTInductor package")
        refuse_random_numbers(program, "an AOTInductor package")

    def write(self, lowered: Lowered, program: Program, path: str, options: ExportOptions) -> Sequence[str]:
        aoti.write(lowered, program, path)
        return ()

    def read(self, path: str, program: Program) -> targets.Runner:
        return aoti.read(path)


TARGETS: dict[str, ExportTarget] = {
    export_target.name: export_target for export_target in (ExportTarget(), OnnxTarget(), AotiTarget())
}
"""Every format by its name."""
