"""What runs a program in onnxruntime, and where that cannot be, in the default executor."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import operator
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from dy2st.errors import Dy2stError, ExportError
from dy2st.frames import level_outside
from dy2st.onnx_backend import kept
from dy2st.onnx_backend.graph import Graph
from dy2st.onnx_backend.session import Session
from dy2st.static.static_function import capture_lock
from dy2st_runtime import executors
from dy2st_runtime.analyses.provenance import NEW, NOTHING
from dy2st_runtime.executors.plain_values import GRADIENTS, unusual
from dy2st_runtime.ir.program import Program

log = logging.getLogger("dy2st.onnxruntime")

_FEW_CALLS = 10
_MOST_CHANGES = 2
"""How often a weight may change after few calls before it is passed at each call."""

_SAMPLES = 16


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why a call runs on another executor.

    Attributes:
        text: the reason.
        location: the user's line, where there is one.
        has_failed: whether onnxruntime has failed: what the program does then is for the other executor to tell.
    """

    text: str
    location: object | None = None
    has_failed: bool = False

    def __str__(self) -> str:
        return self.text if self.location is None else f"{self.location}: {self.text}"


_RAISES = Reason("it raises")


class Runner:
    """Runs one program.

    Args:
        program: any program.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._rest = executors.runner(program, "native")
        self._graph: Graph | None = None
        self._refused: Reason | None = None
        self._sessions: dict[int, _Bound] = {}
        self._kinds: tuple[Any, ...] = ()
        self._declined: dict[Reason, int] = {}
        self._ran = 0
        self._changes: collections.Counter[int] = collections.Counter()
        self._seconds = 0.0

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Run the program; see :data:`dy2st_runtime.executors.Runner`."""
        bound = self._sessions.get(torch.get_num_threads())
        known = bound is not None and not bound.changed(values)
        asks = bound.unusual(values) if bound is not None and known else unusual(values)
        reason = self._refused or (None if asks is None else Reason(asks))
        if reason is None:
            result = bound if known and bound is not None else self._bind(values)
            outputs = result if isinstance(result, Reason) else self._outputs(result, values)
            if isinstance(outputs, tuple):
                self._ran += 1
                return outputs
            reason = outputs
        return self._elsewhere(values, reason)

    def report(self) -> str:
        """Return how often it ran in onnxruntime, and why not at other times."""
        where = f"{self._program.origin.file.rpartition('/')[2]}:{self._program.origin.line}"
        parts = [f"{self._ran} runs in onnxruntime (made ready in {self._seconds:.2f} s)"] if self._ran else []
        parts += [f"{count} runs not: {reason}" for reason, count in self._declined.items()]
        return f"{where}: {'; '.join(parts) or 'not run yet'}"

    # -- in onnxruntime ------------------------------------------------------------------------------------------------------

    def _outputs(self, bound: _Bound, values: Sequence[Any]) -> tuple[Any, ...] | Reason:
        """Return what the program gives; or why that is left to another executor, with nothing changed."""
        graph = bound.graph
        if tuple(map(type, bound.numbers(values))) != self._kinds:
            return Reason("a number is of another kind than at the first call")
        if graph.written and _conflict(graph, values):
            return Reason("a tensor that is changed in place shares its memory with another one")
        try:
            value = bound.session(values)
        except Exception as error:  # whatever it is, the other executor computes it, or raises what eager does
            log.info("%s: onnxruntime gives %s", self._program.origin, error)
            return Reason(f"onnxruntime gives {type(error).__name__} (see the log)", has_failed=True)
        if graph.holds is not None and not bool(value[graph.holds]):
            return _RAISES
        outputs = tuple(_output(result, value, values) for result in graph.results)
        if graph.written:
            with torch.no_grad():
                for position, index in graph.written:
                    values[position].copy_(_typed(value[index], values[position].dtype is torch.bool))
        return outputs

    def _bind(self, values: Sequence[Any]) -> _Bound | Reason:
        """Return a session for the weights as they are now; or why there is none for this program."""
        with capture_lock:  # torch.export follows one program at a time, and no capture meanwhile
            threads = torch.get_num_threads()
            bound = self._sessions.get(threads)
            if self._refused is not None:
                return self._refused
            if bound is not None and not bound.changed(values):
                return bound
            if bound is not None and self._ran - bound.since < _FEW_CALLS:
                self._changes.update(bound.changes(values))
            start = time.perf_counter()
            try:
                self._sessions[threads] = result = self._create_session(values, threads)
            except ExportError as error:
                self._refused = Reason(error.message, error.location)
                return self._refused
            except Exception as error:  # another defect of an exporter, or an operator that onnxruntime does not have
                self._refused = Reason(f"{type(error).__name__}: {_first_line(error)}", self._program.origin)
                return self._refused
            finally:
                self._seconds += time.perf_counter() - start
            log.info("%s: ready in %.0f ms", self._program.origin, 1e3 * (time.perf_counter() - start))
            return result

    def _create_session(self, values: Sequence[Any], threads: int) -> _Bound:
        if self._graph is None:
            with _plain_modes():
                self._graph = kept.graph(self._program, values)
            self._kinds = tuple(type(value) for value in values if not isinstance(value, torch.Tensor))
        graph = self._graph
        positions = [p for p in _constants(self._program, graph, values) if self._changes[p] <= _MOST_CHANGES]
        bound = _Bound(graph, values, positions, threads)
        bound.since = self._ran
        return bound

    # -- elsewhere -----------------------------------------------------------------------------------------------------------

    def _elsewhere(self, values: Sequence[Any], reason: Reason) -> tuple[Any, ...]:
        if not reason.has_failed:
            self._note(reason)
            return self._rest(values)
        try:
            result = self._rest(values)
        except Exception:
            self._note(_RAISES)
            raise
        self._note(reason)
        return result

    def _note(self, reason: Reason) -> None:
        """Count a call that ran elsewhere, and say why, the first time."""
        if reason not in self._declined and reason != _RAISES:
            shown = reason.text if reason.location == self._program.origin else reason
            text = f"{self._program.name} runs without onnxruntime, on the native executor: {shown}"
            warnings.warn(f"{self._program.origin}: {text}", RuntimeWarning, stacklevel=level_outside())
        self._declined[reason] = self._declined.get(reason, 0) + 1


class _Bound:
    """A session with the weights that are in it.

    Args:
        graph: of the program.
        values: of its inputs.
        positions: of the weights.
        threads: of the session.

    Attributes:
        since: how many calls had run before.
    """

    since = 0

    def __init__(self, graph: Graph, values: Sequence[Any], positions: Sequence[int], threads: int) -> None:
        self.graph = graph
        self._positions = positions
        self._free = [position for position in range(len(values)) if position not in positions]
        self._tensors = self._picked(values)
        self._versions = [tensor._version for tensor in self._tensors]
        self._places = [tensor.data_ptr() for tensor in self._tensors]
        self._samples = _Samples(self._tensors)
        self._number_places = [position for position, value in enumerate(values) if not isinstance(value, torch.Tensor)]
        self.session = Session(graph.model, dict(zip(positions, self._tensors)), threads)

    def _picked(self, values: Sequence[Any]) -> list[Any]:
        return [values[position] for position in self._positions]

    def numbers(self, values: Sequence[Any]) -> list[Any]:
        """Return the numbers among the values."""
        return [values[position] for position in self._number_places]

    def changed(self, values: Sequence[Any]) -> bool:
        """Tell whether the weights are others now, or have other contents."""
        tensors = self._tensors
        return (
            not all(map(operator.is_, self._picked(values), tensors))
            or [tensor._version for tensor in tensors] != self._versions
            or [tensor.data_ptr() for tensor in tensors] != self._places
            or self._samples.differ()
        )

    def unusual(self, values: Sequence[Any]) -> str | None:
        """See :func:`dy2st_runtime.executors.plain_values.unusual`; weights that have not changed are as they were."""
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in self._tensors):
            return GRADIENTS
        return unusual([values[position] for position in self._free])

    def changes(self, values: Sequence[Any]) -> list[int]:
        """Return which weights have changed, as far as their versions tell; all if that is not known."""
        results = [
            position
            for position, weight, version, place in zip(self._positions, self._tensors, self._versions, self._places)
            if values[position] is not weight or weight._version != version or weight.data_ptr() != place
        ]
        return results or [*self._positions]


class _Samples:
    """A few numbers of each weight, to see changes that leave no trace in its version: by way of ``.data``, or of numpy.

    Args:
        weights: the tensors.
    """

    def __init__(self, weights: Sequence[torch.Tensor]) -> None:
        self._views = [_strided(weight.detach()) for weight in weights if weight.numel()]
        self._then = self._now()

    def differ(self) -> bool:
        """Tell whether any of them has another value than at first."""
        return bool(self._views) and self._now() != self._then

    def _now(self) -> list[bytes]:
        return [view.tobytes() for view in self._views]


def _strided(weight: torch.Tensor) -> Any:
    flat = weight.reshape(-1) if weight.is_contiguous() else weight.as_strided((weight.numel(),), (1,), weight.storage_offset())
    step = max(1, flat.numel() // _SAMPLES)
    return flat[::step].view(torch.uint8 if flat.element_size() == 1 else _INTEGERS[flat.element_size()]).numpy()


_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def _constants(program: Program, graph: Graph, values: Sequence[Any]) -> list[int]:
    """Return the weights: state that the program does not write."""
    written = {position for position, _ in graph.written}
    changed = {effect.target for effect in program.effects} | {effect.target.removeprefix("self.") for effect in program.effects}
    first = len(program.inputs)
    return [
        position
        for position, slot in enumerate(program.states, first)
        if slot.name not in changed
        and position not in written
        and isinstance(values[position], torch.Tensor)
        and not values[position].is_inference()
        and values[position].is_contiguous()
    ]


def _output(result: Any, results: Sequence[torch.Tensor], values: Sequence[Any]) -> Any:
    if result.kind == "tensor":
        which = NEW if result.which is None else int(results[result.which])
        if which != NEW:
            return None if which == NOTHING else values[which]
        return _typed(results[result.index], result.boolean)
    if result.kind == "given":
        return values[result.index]
    if result.kind == "constant":
        return result.value
    number = results[result.index].item()
    return bool(number) if result.kind == "bool" else number


def _typed(tensor: torch.Tensor, boolean: bool) -> torch.Tensor:
    return tensor.view(torch.bool) if boolean else tensor


def _conflict(graph: Graph, values: Sequence[Any]) -> bool:
    """Tell whether an input that is written shares its memory with another one."""
    for position, _ in graph.written:
        memory = values[position].untyped_storage().data_ptr()
        for other, value in enumerate(values):
            if other != position and isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() == memory:
                return True
    return False


@contextlib.contextmanager
def _plain_modes() -> Any:
    """Lowering runs code of torch, which must not see the modes of the call."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300] if not isinstance(error, Dy2stError) else str(error)
