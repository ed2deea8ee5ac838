"""One version of a model: an archive that is loaded, with what it takes and gives, and its queue."""

from __future__ import annotations

import dataclasses
import functools
import operator
import os
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import torch

from dy2st_runtime import signatures
from dy2st_runtime.analyses.aliasing import Aliasing
from dy2st_runtime.archive.archive import FORWARD
from dy2st_runtime.batching import batch
from dy2st_runtime.batching.stream import Lanes
from dy2st_runtime.errors import LoadError, ServingError
from dy2st_runtime.executors import choose, native
from dy2st_runtime.ir.program import Program, copy_block
from dy2st_runtime.module import LoadedModule, load
from dy2st_runtime.primitives import control
from dy2st_runtime.serving.lanes import Finished, LaneScheduler
from dy2st_runtime.serving.options import Options
from dy2st_runtime.serving.protocol.datatypes import Given, Result
from dy2st_runtime.serving.protocol.signature import Signature, signature_of
from dy2st_runtime.serving.scheduler import Scheduler, Ticket

Stamp = tuple[int, ...]
"""What tells a file, and its signature, from those that were there before: their numbers, sizes, and times of the last change."""


def stamp_of(path: str, options: Options) -> Stamp:
    """Return the stamp of an archive, with that of its signature if the server wants one.

    Raises:
        OSError: there is no archive.
    """
    stamp = _stamp(os.stat(path))
    if options.require_signature is None:
        return stamp
    try:
        return (*stamp, *_stamp(os.stat(path + signatures.SUFFIX)))
    except OSError:
        return stamp


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns


@dataclasses.dataclass(frozen=True)
class Call:
    """What one request gives to a method.

    Attributes:
        signature: of the method.
        method: its name.
        args, kwargs: for it.
        outputs: which of its results are asked for; ``None`` for all.
    """

    signature: Signature
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Collection[str] | None


class Version:
    """A loaded archive that requests are sent to.

    Args:
        path: the archive.
        options: of the server.

    Attributes:
        path: the archive.
        stamp: of the file when it was read.
        signatures: by method.
        writes: whether a call may change what later calls find.

    Raises:
        LoadError: it is no archive, or damaged, or not signed as the server wants it.
        ServingError: the protocol, or this server, cannot serve it.
        OSError: the file is missing or cannot be read.
    """

    def __init__(self, path: str, options: Options) -> None:
        self.path, self.stamp = path, stamp_of(path, options)
        self._module = _loaded(path, options)
        programs = {name: _program(self._module, name) for name in self._module.methods}
        self.signatures = {name: signature_of(program) for name, program in programs.items()}
        self.writes = any(map(writes_state, programs.values()))
        self._records = {name: _differentiates(program) for name, program in programs.items()}
        if self.writes and options.workers > 1:
            raise ServingError(
                f"{path} writes state when it is called, and each of {options.workers} workers would have its own: use --workers 1"
            )
        if options.max_batch > 1 and not self.writes:
            self.scheduler: Scheduler = LaneScheduler(
                lambda: _Together(self._module), most=options.max_batch, wait=options.max_wait, capacity=options.queue
            )
        else:
            threads = 1 if self.writes else options.threads
            self.scheduler = Scheduler(self._run, threads=threads, capacity=options.queue)

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of its methods."""
        return tuple(self.signatures)

    def submit(self, method: str, given: Sequence[Given], outputs: Collection[str] | None, deadline: float | None) -> Ticket:
        """Take a request into the queue; the future gives a list of :class:`~protocol.datatypes.Result`.

        Args:
            method: which one to call.
            given: the tensors of the request.
            outputs: which results are asked for; ``None`` for all.
            deadline: see :meth:`Scheduler.submit`.

        Raises:
            BadRequestError: it does not fit.
            QueueFullError, UnavailableError: it is not taken.
        """
        signature = self.signatures[method]
        if outputs is not None:
            signature.check_outputs(outputs)
        args, kwargs = signature.arguments(given)
        return self.scheduler.submit(Call(signature, method, args, kwargs, outputs), deadline)

    def _run(self, call: Call) -> list[Result]:
        with torch.enable_grad() if self._records[call.method] else torch.no_grad() if self.writes else torch.inference_mode():
            function = self._module if call.method == FORWARD else getattr(self._module, call.method)
            value = function(*call.args, **call.kwargs)
            return call.signature.results(value, call.outputs)


class _Together:
    """Calls of the methods of a model that run together; see :class:`~dy2st_runtime.serving.lanes.Together`."""

    def __init__(self, module: LoadedModule) -> None:
        self._module = module
        self._lanes: dict[str, Lanes] = {}
        self._calls: dict[int, Call] = {}

    def admit(self, examples: Sequence[tuple[int, Call]]) -> list[Finished]:
        self._calls.update(examples)
        finished: list[Finished] = []
        with torch.no_grad():
            for method in {call.method for _, call in examples}:
                if method not in self._lanes:
                    self._lanes[method] = batch(self._module, method=method).lanes()
                entering = [(number, (call.args, call.kwargs)) for number, call in examples if call.method == method]
                finished += self._finished(self._lanes[method].admit(entering))
        return finished

    def step(self) -> list[Finished]:
        with torch.no_grad():
            return [done for lanes in self._lanes.values() for done in self._finished(lanes.step())]

    def drop(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._lanes[self._calls.pop(number).method].drop([number])

    def _finished(self, done: Sequence[Finished]) -> list[Finished]:
        results: list[Finished] = []
        for number, value, error in done:
            call = self._calls.pop(number)
            try:
                results.append((number, call.signature.results(value, call.outputs) if error is None else None, error))
            except Exception as refused:
                results.append((number, None, refused))
        return results


def _loaded(path: str, options: Options) -> LoadedModule:
    before = os.stat(path)
    if options.require_signature is not None:
        signatures.verify(path, options.require_signature)
    module = load(path, namespaces=options.namespaces, backend=options.backend, max_steps=options.max_steps)
    after = os.stat(path)
    if (*_stamp(before), before.st_ctime_ns) != (*_stamp(after), after.st_ctime_ns):
        raise LoadError(f"cannot load {path}: it was written while it was read")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what was saved for training only, there is no other
        module.eval()
    if choose(options.backend) == "native":
        native.build.library()  # now, and not when the first request waits
    _settle_default_dtype(path, module)
    return module


def _program(module: LoadedModule, method: str) -> Program:
    programs = module.programs_of(method)
    return next((program for program in programs if "eval" in program.modes), programs[0])


def _settle_default_dtype(path: str, module: LoadedModule) -> None:
    """Make PyTorch's default dtype that of the model: it belongs to the process, and calls run at once.

    Raises:
        ServingError: another model has settled it otherwise.
    """
    global _settled
    wanted = module.programs[0].default_dtype
    if any(program.default_dtype != wanted for program in module.programs) or _settled not in (None, wanted):
        raise ServingError(
            f"{path} was captured with the default dtype {wanted}, and what is served with it with {_settled}: "
            "serve it by a server of its own"
        )
    if _settled is None:
        torch.set_default_dtype(wanted)
    _settled = wanted


_settled: torch.dtype | None = None


def writes_state(program: Program) -> bool:
    """Tell whether a call may change what later calls find; writing into its own arguments is no such change.

    Args:
        program: any program; it stays as it is.

    Example:
        >>> writes_state(dy2st.to_static(lambda x: x.add_(1)).program(torch.ones(2)))
        False
    """
    if program.effects or program.existing or program.recording is not None:
        return True
    block = copy_block(program.block)
    first = next(node for node in block.graph.nodes if node.op != "placeholder")
    for node, slot in zip(block.inputs, program.inputs):
        if slot.dtype is not None:
            with block.graph.inserting_before(first):
                apart = block.graph.call_function(torch.ops.aten.clone.default, (node,))
            node.replace_all_uses_with(apart, delete_user_cb=functools.partial(operator.is_not, apart))
    aliasing = Aliasing(block)
    return any(aliasing.is_written(node) for node in block.inputs[len(program.inputs) :])


def _differentiates(program: Program) -> bool:
    """Tell whether a program may compute gradients itself, so that it has to run where they are recorded."""
    return any(node.target in _RECORDING for node in program.nodes())


_RECORDING = frozenset({control.call_, control.apply_, torch.ops.aten.requires_grad_.default})
